"""The tables and figures of Terada et al., measured again.

Laplace and Privelet do not depend on the data: 2% around theory is about five standard errors or more. The
proposed method does, and the city was made to fit its printed errors. So 5% around these guards city and code
against change; it does not confirm the paper.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oboro.errors import DataError
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables import wavelet
from oboro.tables.cells import Cells
from oboro.tables.papers import privelet, scoreboard, terada
from oboro.tables.papers.common import joined

BEYOND = ["terada-appendix", "terada-density", "terada-order", "terada-scale"]
NAMES = ["terada-table1", "terada-table2", *BEYOND, *[f"terada-fig{number}" for number in range(1, 8)]]


@pytest.fixture(scope="module")
def table2() -> dict[str, list[tuple[Any, ...]]]:
    """Rows of Table 2 by system: RMSE printed, ours, ratio, theory, ratio; MAE printed, ours, ratio."""
    rows = terada.table2().rows
    return {method.name: list(rows[8 * i : 8 * i + 8]) for i, method in enumerate(terada.METHODS)}


def test_every_table_and_figure_with_measurements_is_there() -> None:
    assert [entry.name for entry in terada.REPRODUCTIONS] == NAMES


@pytest.mark.long("tests of the papers' tables")
@pytest.mark.parametrize("system", ["Laplace", "Privelet (2D)", "Privelet (Morton)"])
def test_data_independent_rows_are_within_2_percent_of_theory(table2: dict[str, Any], system: str) -> None:
    label, *ratios = table2[system][4]
    assert label == "  ours / theory"
    np.testing.assert_allclose(ratios[:7], 1, atol=0.02)  # up to 2^12


@pytest.mark.long("tests of the papers' tables")
def test_the_proposed_method_stays_within_5_percent_of_the_paper_on_the_fitted_city(
    table2: dict[str, Any],
) -> None:
    label, *ratios = table2["Proposed"][2]
    assert label == "  ours / printed"
    np.testing.assert_allclose(ratios[:7], 1, atol=0.05)


@pytest.mark.long("tests of the papers' tables")
@pytest.mark.parametrize("system", ["Laplace", "Privelet (2D)", "Privelet (Morton)"])
def test_mean_absolute_errors_are_those_of_the_paper(table2: dict[str, Any], system: str) -> None:
    np.testing.assert_allclose(table2[system][7][1:7], 1, atol=0.02)  # up to 2^10


@pytest.mark.long("tests of the papers' tables")
def test_curves_are_those_of_the_table(table2: dict[str, Any]) -> None:
    entries = {entry.name: entry for entry in terada.REPRODUCTIONS}
    whole, zoomed = entries["terada-fig6"].make().rows, entries["terada-fig7"].make().rows
    assert whole[0] == ("Laplace MAE", *table2["Laplace"][6][1:])
    assert whole[-2] == ("Proposed RMSE", *table2["Proposed"][1][1:])
    for row, part in zip(whole, zoomed, strict=True):
        assert part[1:] == tuple(value if value <= 800 else None for value in row[1:])


@pytest.mark.parametrize("name", ["terada-table2", "terada-fig5", "terada-fig6", "terada-fig7"])
@pytest.mark.long("pages of reproductions")
def test_pages_that_show_the_proposed_method_say_that_the_city_was_fitted(name: str) -> None:
    entry = next(entry for entry in terada.REPRODUCTIONS if entry.name == name)
    assert any("fitted, not found" in note for note in entry.make().notes)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_maps_have_about_as_many_negative_cells_as_printed(number: int) -> None:
    entry = next(entry for entry in terada.REPRODUCTIONS if entry.name == f"terada-fig{number}")
    found = entry.make()
    rows = {label: (printed, ours) for label, printed, ours in found.rows}
    if number == 1:
        assert rows["occupied %"][1] == pytest.approx(36.3, abs=0.5)
    else:
        assert rows["negative %"][1] == pytest.approx(rows["negative %"][0], abs=4)
        assert rows["not empty %"][1] == pytest.approx(rows["not empty %"][0], abs=5)
    assert str(found)
    assert found.to_dict()["name"] == entry.name


def test_what_a_block_gets_depends_on_the_nodes_above_it_alone() -> None:
    """So sums of blocks may be drawn without drawing what is inside them: bit for bit the same."""
    counts = np.random.default_rng(0).integers(0, 60, 2**10)
    noise = DiscreteLaplace(110).sample(counts.size, Bits())
    coins = np.random.default_rng(1).integers(0, 2, counts.size)
    coarse = joined(counts, 2**4)
    above = coarse.size
    fine = wavelet.dense(counts, noise, coins)
    assert np.array_equal(joined(fine, 2**4), wavelet.dense(coarse, noise[:above], coins[:above]))
    estimates = privelet.estimate(privelet.transform(counts) + noise)
    upper = privelet.estimate(privelet.transform(coarse) + noise[:above])
    np.testing.assert_allclose(joined(estimates, 2**4), upper)


@pytest.mark.parametrize("system", scoreboard.SYSTEMS, ids=lambda system: system.name)
def test_every_system_of_table_1_is_scored(system: scoreboard.System) -> None:
    counts = np.random.default_rng(2).integers(0, 2, 2**6) * np.random.default_rng(3).integers(0, 10**4, 2**6)
    cells = Cells.from_dense(counts)
    found = scoreboard.score(system, cells, 6, terada.EPS, within=6, trials=2)
    assert len(found.rmse) == 3
    assert min(found.rmse) >= 0
    assert found.seconds > 0
    assert found.megabytes > 0
    proper = ("Barak, linear", "Cormode", "proposed")
    assert (found.negative == 0) == system.name.startswith(proper)


def test_table_1_shows_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [system for system in scoreboard.SYSTEMS if system.name in ("Xiao, Morton order", "proposed, T2")]
    few = [replace(few[0], exponents=(8, 14)), replace(few[1], exponents=(14, 18, 30))]
    monkeypatch.setattr(terada, "SYSTEMS", few)
    found = terada.table1()
    assert [row[2] for row in found.rows] == ["2^8", "2^14", "2^14", "2^18", "2^30"]
    columns = {name: [row[i] for row in found.rows] for i, name in enumerate(found.columns)}
    assert columns["grows as n^"][0] is None
    assert columns["peak MB"][1] > 10 * columns["peak MB"][0]  # dense: as n
    assert columns["peak MB"][4] < 2 * columns["peak MB"][3]  # sparse: as what is stored and published
    assert columns["negative %"][2:] == [0, 0, 0]
    assert str(found)


def test_a_window_has_the_density_of_the_whole() -> None:
    counts = np.concatenate([np.zeros(16), np.ones(16), np.tile([1, 0], 8), np.zeros(16)])
    cells = Cells.from_dense(counts)
    found = scoreboard.window(cells, 4, 6)
    assert found.keys.tolist() == list(range(0, 16, 2))
    assert scoreboard.window(cells, 6, 6) is cells


def made(name: str) -> Any:
    return next(entry for entry in terada.REPRODUCTIONS if entry.name == name).make()


def test_the_appendix_as_printed_is_not_the_haar_transform_and_corrected_it_is() -> None:
    assert terada.haar_as_printed((3, 0, 0, 5)) == ((3, 5), (6, 0))
    rng = np.random.default_rng(1)
    for _ in range(50):
        cells = (rng.integers(0, 9, 8) * rng.integers(0, 2, 8)).tolist()
        pairs = list(zip(cells[::2], cells[1::2], strict=True))
        wanted = tuple((a + b) / 2 for a, b in pairs), tuple((a - b) / 2 for a, b in pairs)
        assert terada.haar(cells) == wanted
        assert terada.haar_as_printed(cells) != wanted or not any(cells)


def test_theorem_3_fails_for_cells_well_above_the_noise_and_not_below() -> None:
    """The exact limit is 87/64: of (L1 + min(L1, L2))/2, of mean -3/8 and mean square 3/2."""
    assert terada.two_cells(30) == pytest.approx(87 / 64, rel=4e-3)
    assert terada.two_cells(2.0) < 1 < terada.two_cells(2.2)
    rng = np.random.default_rng(2)
    one, other = rng.laplace(size=(2, 400_000))
    total = np.maximum(3 + one, 0)
    assert terada.two_cells(3) == pytest.approx(
        float(((total + np.clip(3 + other, -total, total)) / 2).var()), rel=0.02
    )
    counts = made("terada-appendix").rows[3][1]  # Theorem 4: a node that is not empty has a child that is not
    levels = [int(count.replace(",", "")) for count in counts.split(", ")]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > levels[1]  # cA_i is not at most as often not 0 as cA_(i+1)


def test_sparse_data_comes_out_denser_than_it_went_in() -> None:
    rows = made("terada-density").rows
    city = [(row[1], row[2]) for row in rows[:4]]
    assert [out for _, out in city] == pytest.approx([26.7, 12.7, 2.7, 0.45], rel=0.06)
    assert [out > inside for inside, out in city] == [False, True, True, True]


def test_squares_are_worse_in_rows_one_after_the_other() -> None:
    rows = {row[0]: row[1:] for row in made("terada-order").rows}
    assert (rows["rows, one after the other"][3], rows["Morton"][3]) == pytest.approx((338, 121), rel=0.03)
    assert all(ratio > 1.2 for ratio in rows["ratio"][1:8])


@pytest.mark.long("tables of more than 10^11 cells")
def test_a_table_of_mesh_by_age_by_sex_by_town_is_published() -> None:
    rows = made("terada-scale").rows
    assert [row[2] > 0 for row in rows if row[0] == "wavelet"] == [True, True]
    assert rows[-1][3] > 80  # filtered at eps 10: what is published is real


def test_table_2_is_measured_on_a_mesh_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terada, "TRIALS", 5)
    monkeypatch.setattr(terada, "COARSE_TRIALS", 5)
    file = tmp_path / "mesh.txt"
    lines = [
        "KEY_CODE,HTKSYORI,HTKSAKI,GASSAN,T001101001",
        ",,,,人口",
        "533900001,0,,,130",
        "533977994,0,,,26",
        "544000001,0,,,7",
        "533900002,0,,,*",
    ]
    file.write_text("\n".join(lines), encoding="cp932")
    counts = terada.read_mesh([str(file)])
    table = np.asarray(scoreboard.privelet2d.square(counts))
    assert (table[0, 0], table[159, 159], table[160, 160], int(table.sum())) == (130, 26, 7, 163)
    found = terada.own_mesh([str(file)])
    assert [row[0] for row in found.rows][:3] == ["Laplace, RMSE", "  theory", "  MAE"]
    assert "163 people in 3 cells" in found.notes[0]
    for wrong in (["no mesh"], lines[:2], ["533900001,0,,,1", "573900001,0,,,1"]):
        file.write_text("\n".join(wrong), encoding="cp932")
        with pytest.raises(DataError, match="not a mesh of the census"):
            terada.read_mesh([str(file)])
