"""Grids and meshes: codes in, codes out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro.domain import Category, Domain, Grid, Mesh, column_from
from oboro.domain.mesh import JAPAN, LEVELS, morton_pattern, unweave, weave
from oboro.errors import BoundsError, DomainError, ParameterError


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=4).filter(lambda widths: sum(widths) <= 60), st.data()
)
def test_weaving_and_back_is_the_same(widths: list[int], data: st.DataObject) -> None:
    numbers = [data.draw(st.lists(st.integers(0, 2**width - 1), min_size=5, max_size=5)) for width in widths]
    pattern = morton_pattern(widths)
    keys = weave(numbers, pattern)
    assert [part.tolist() for part in unweave(keys, pattern)] == numbers
    assert sorted(place for places in pattern for place in places) == list(range(sum(widths)))


def test_morton_order_is_that_of_the_paper() -> None:
    grid = Grid("row", "col", shape=(4, 4))
    order = [grid.value(code) for code in range(8)]
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


def test_blocks_of_a_grid_share_their_first_bits() -> None:
    grid = Grid("row", "col", shape=(64, 64))
    row, col = grid.decode(np.arange(grid.size))
    assert (
        len(
            set(
                zip(
                    (row // 8).tolist(),
                    (col // 8).tolist(),
                    (np.arange(grid.size) >> 6).tolist(),
                    strict=True,
                )
            )
        )
        == 64
    )


@given(st.integers(-5, 400), st.integers(-5, 400))
def test_a_place_outside_the_grid_has_no_code(row: int, col: int) -> None:
    grid = Grid("row", "col", shape=(200, 300))
    code = grid.code((row, col))
    if 0 <= row < 200 and 0 <= col < 300:
        assert code is not None
        assert grid.value(code) == (row, col)
    else:
        assert code is None


def test_three_dimensions_and_sides_that_are_no_powers_of_two() -> None:
    grid = Grid("x", "y", "z", shape=(5, 100, 3))
    x, y, z = np.unravel_index(np.arange(1500), grid.shape)
    codes = grid.encode(x, y, z)
    assert grid.places == 1500 == np.unique(codes).size
    assert codes.max() < grid.size == 2 ** (3 + 7 + 2)
    assert [axis.tolist() for axis in grid.decode(codes)] == [x.tolist(), y.tolist(), z.tolist()]


@pytest.mark.parametrize("value", [None, 3, "a", ("a", 1), (1, 2, 3), (2**70, 1)])
def test_nonsense_is_left_out(value: object) -> None:
    assert Grid("row", "col").code(value) is None
    if value != 3:
        assert Mesh("code").code(value) is None


def test_there_are_176_primary_meshes() -> None:
    assert len(JAPAN) == len(set(JAPAN)) == 176
    assert 5339 in JAPAN


@pytest.mark.parametrize("level", LEVELS)
def test_every_position_of_a_mesh_is_one_code(level: str) -> None:
    mesh = Mesh("code", level, region=[5339, 5340, 5439])
    positions = np.arange(mesh.size)
    real = np.ones(mesh.size, bool)
    for size, axis in zip(
        [side for group in mesh.groups for side in group], unweave(positions, mesh.pattern), strict=True
    ):
        real &= axis < size
    codes = mesh.decode(positions[real])
    assert np.unique(codes).size == real.sum() == mesh.places
    assert (mesh.encode(codes) == positions[real]).all()
    assert {len(str(code)) for code in codes.tolist()} == {mesh.digits}


@pytest.mark.parametrize(
    "code", [533985771, 533948771, 533945775, 533945770, 993945771, 53394577, 5339457711, -1, 0]
)
def test_a_code_that_does_not_exist_is_left_out(code: int) -> None:
    assert Mesh("code", "500m").code(code) is None


def test_coarser_meshes_are_blocks_of_finer_ones() -> None:
    fine, coarse = Mesh("code", "250m", region=[5339]), Mesh("code", "1km", region=[5339])
    codes = fine.decode(fine.encode(np.array([5339457711, 5339457744, 5339457814])))
    assert (fine.encode(codes) >> 4).tolist() == coarse.encode(codes // 100).tolist()


def test_codes_agree_with_jismesh() -> None:
    jismesh = pytest.importorskip("jismesh.utils")
    rng = np.random.default_rng(3)
    latitude, longitude = rng.uniform(24, 45.5, 2000), rng.uniform(123, 149, 2000)
    for number, level in enumerate(LEVELS, start=1):
        codes = jismesh.to_meshcode(latitude, longitude, number, np.int64)
        mesh = Mesh("code", level, region={int(str(code)[:4]) for code in codes})
        assert (mesh.decode(mesh.encode(codes)) == codes).all()
        row, col = mesh.locate(codes)
        each = {"80km": 1, "10km": 8, "1km": 80, "500m": 160, "250m": 320}[level]
        assert (row == np.floor(latitude * 1.5 * each)).all()
        assert (col == np.floor((longitude - 100) * each)).all()


@pytest.mark.parametrize(
    "column",
    [
        Grid("row", "col", shape=(200, 300)),
        Grid("x", "y", "z", shape=(2, 3, 4)),
        Mesh("code"),
        Mesh("m", "1km", [5339]),
    ],
)
def test_columns_go_through_toml(column: Grid | Mesh, tmp_path: object) -> None:
    assert column_from(column.to_dict()) == column
    path = f"{tmp_path}/domain.toml"
    domain = Domain([column, Category("sex", ["F", "M"])])
    domain.to_toml(path)
    assert Domain.from_toml(path) == domain


def test_wrong_declarations_are_refused() -> None:
    for names, shape in [
        (["row"], (4,)),
        (["row", "row"], (4, 4)),
        (["row", "col"], (4,)),
        (["row", "col"], (0, 4)),
    ]:
        with pytest.raises(ValueError, match=r"grid|shape"):
            Grid(*names, shape=shape)
    with pytest.raises(DomainError, match="level"):
        Mesh("code", "3km")
    with pytest.raises(DomainError, match="empty"):
        Mesh("code", region=[])
    with pytest.raises(DomainError, match="twice"):
        Domain([Grid("row", "col"), Category("col", ["a"])])
    with pytest.raises(BoundsError, match="parts"):
        column_from({"kind": "grid", "names": ["a", "b"]})
    with pytest.raises(DomainError, match="names"):
        column_from({"kind": "grid", "names": "ab", "shape": [2, 2]})


def test_a_region_of_finer_meshes_is_refused_with_the_primary_meshes_that_hold_them() -> None:
    for code, fix in {533945: [5339], "5339-5340": [5339, 5340], "東京": [5339, 5340]}.items():
        with pytest.raises(ParameterError, match="a region is a list of primary meshes") as refused:
            Mesh("code", region=[code])
        assert refused.value.fix == f"region={fix}"
        assert len(Mesh("code", region=fix).region) == len(fix)
