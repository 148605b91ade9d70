"""Plans for tables: public facts, promises, and what comes out."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit, tables
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.errors import DomainError, OboroError, ParameterError, UnitError
from oboro.noise import DiscreteLaplace, system_bits
from oboro.privacy import Pure, Unit
from oboro.release import load_plan, plan_from, save_plan
from oboro.tables.cells import Cells, Layout, block_errors, dense_block_errors
from oboro.tables.mask import ruled_out
from oboro.tables.strategy import published_if_even

SMALL = Domain([Grid("row", "col", shape=(6, 5)), Category("sex", ["F", "M"])])
SQUARE = Domain([Grid("row", "col", shape=(8, 8))])
CELLS = {"row": [1, 5], "col": [2, 4], "people": [500, 700]}


def ledger(tmp_path: Path, unit: Unit | None = None) -> Any:
    return ob.Ledger.create(
        tmp_path / "city.ledger", dataset="city", unit=unit or Unit.cells(), budget=Pure(5)
    )


def test_a_release_has_the_columns_that_came_in(tmp_path: Path) -> None:
    plan = tables.plan(SMALL, unit=Unit.cells(), eps="2", strategy="wavelet")
    release = tables.release({**CELLS, "sex": ["F", "M"]}, plan, count="people", ledger=ledger(tmp_path))
    table = release.to_arrow()
    assert table.column_names == ["row", "col", "sex", "people"]
    assert str(table.schema.field("people").type) == "int64"
    assert min(table.column("people").to_pylist()) > 0
    assert release.certificate.record["noise"]["strategy"] == "wavelet"
    assert release.certificate.record["noise"]["scale"] == "4"  # 1 + 3 + 3 + 1 halvings, over 2
    for name in ("out.parquet", "out.csv", "out.json"):
        release.save(tmp_path / name)


@pytest.mark.few(5, "strategies")
@pytest.mark.parametrize("strategy", tables.STRATEGIES)
def test_every_strategy_publishes_whole_numbers_above_zero(strategy: str, tmp_path: Path) -> None:
    plan = tables.plan(SQUARE, unit=Unit.cells(), eps="1", strategy=strategy, count="people")
    assert plan_from(plan.to_dict()) == plan
    table = tables.release(CELLS, plan, ledger=ledger(tmp_path)).to_arrow()
    counts = table.column("people").to_numpy()
    assert (counts > 0).all()
    assert max(table.column("row").to_pylist()) < 8
    assert "block size" in str(plan.forecast(1000))
    trials = plan.measure(plan.prepare(CELLS), system_bits(), 3)
    assert trials.shape == (3, 64)
    assert trials.min() >= 0


@pytest.mark.parametrize("strategy", ["laplace", "privelet", "hierarchy", "threshold"])
def test_impossible_cells_stay_empty_whatever_the_strategy(strategy: str) -> None:
    domain = Domain([Grid("row", "col", shape=(6, 5))])
    plan = tables.plan(
        domain, unit=Unit.cells(), eps="0.1", strategy=strategy, impossible={"row": [0], "col": [0]}
    )
    published = plan.measure(plan.prepare({"row": [1], "col": [1]}), system_bits())
    assert plan.layout.cells == 29
    assert plan.layout.possible(published.keys).all()


def test_what_the_domain_declares_impossible_is_the_mask_of_a_table() -> None:
    columns = [
        Grid("row", "col", shape=(6, 5)),
        Category("work", ["none", "job", "retired"]),
        Integer("age", 0, 99),
    ]
    never = [{"work": "retired", "age": "..29"}, {"age": (95, 99)}]
    domain = Domain(columns, impossible=never)
    plan = tables.plan(domain, unit=Unit.row(), eps=1)
    row, _, work, age = plan.layout.places(plan.layout.keys([[0, 1], [0, 1], [2, 2], [29, 30]]))
    assert plan.layout.possible(plan.layout.keys([row, row, work, age])).tolist() == [False, True]
    assert plan.layout.cells == 30 * (3 * 95 - 30)
    cells = {"work": ["retired"] * 30 + ["none"] * 5 + ["job"] * 5 + ["retired"] * 5}
    cells["age"] = [*range(30), *range(95, 100), *range(95, 100), *range(95, 100)]  # type: ignore[list-item]
    free = domain.ruled(impossible=[])
    assert tables.plan(free, unit=Unit.row(), eps=1, impossible=cells).mask == plan.mask
    assert tables.plan(free, unit=Unit.row(), eps=1).mask is None
    named = tables.plan(domain, unit=Unit.row(), eps=1, impossible={"work": ["job"]})
    assert named.mask == tables.plan(free, unit=Unit.row(), eps=1, impossible={"work": ["job"]}).mask
    assert plan_from(plan.to_dict()) == plan
    wide = Domain([Integer("x", 0, 10**6), *columns[1:]], impossible=never)
    with pytest.raises(DomainError, match="too large") as error:
        tables.plan(wide, unit=Unit.row(), eps=1)
    assert "domain.ruled(impossible=[])" in str(error.value)


def test_a_mask_of_many_values_one_by_one_takes_little_room() -> None:
    columns = [Integer("x", 0, 2**17 - 1), Category("work", ["none", "job"])]
    domain = Domain(columns, impossible=[{"x": range(1, 2**17, 2), "work": "job"}, {"x": [0, 4]}])
    mask: Any = ruled_out(domain)  # all conditions beside each other: 8 GiB
    plan = tables.plan(domain, unit=Unit.row(), eps=1)
    assert plan.mask == mask
    assert plan.layout.cells == 2**17 - 2 + 2**16 - 2
    asked = [[0, 1, 1, 2, 2**17 - 1], [0, 0, 1, 1, 1]]
    assert plan.layout.possible(plan.layout.keys(asked)).tolist() == [False, True, False, True, False]


PLANS = [
    tables.plan(SMALL, unit=Unit.cells(3, 2), eps="1/3", count="n"),
    tables.plan(SMALL, unit=Unit.person("who", 4, "replace"), eps="0.1"),
    tables.plan(SQUARE, unit=Unit.row("replace"), eps=1, total=1000, strategy="wavelet"),
    tables.plan(SMALL, unit=Unit.row(), eps=1, impossible={"sex": ["F"]}),
    tables.plan(
        Domain([Mesh("code"), Integer("age", 0, 99)]),
        unit=Unit.row(),
        eps=1,
        possible={"code": [533945771, 533945772]},
    ),
]


@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
def test_plans_go_through_toml(plan: tables.TablePlan, tmp_path: Path) -> None:
    save_plan(plan, tmp_path / "plan.toml")
    again = load_plan(tmp_path / "plan.toml")
    assert again == plan
    assert again.to_dict() == plan.to_dict()
    assert (again.layout.heads[1] == plan.layout.heads[1]).all()
    assert str(plan.forecast()) == str(again.forecast())


def test_a_mask_lists_what_is_possible() -> None:
    only_men = PLANS[3]
    assert only_men.layout.cells == 30
    assert only_men.layout.all_possible().sum() == 30
    two_meshes = PLANS[4]
    assert two_meshes.layout.cells == 200


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"eps": 0}, ParameterError),
        ({"eps": "x"}, ParameterError),
        ({"eps": 1, "strategy": "magic"}, ParameterError),
        ({"eps": 1, "count": "row"}, ParameterError),
        ({"eps": 1, "total": 5}, ParameterError),
        ({"eps": 1, "total": 2**61 + 1, "unit": Unit.cells(adjacency="replace")}, ParameterError),
        ({"eps": 1, "count": "n", "unit": Unit.row()}, UnitError),
        ({"eps": 1, "unit": Unit.signal(1)}, UnitError),
        ({"eps": 1, "strategy": "matrix", "domain": Domain([Grid("a", "b")])}, DomainError),
        (
            {"eps": 1, "strategy": "laplace", "domain": Domain([Grid("a", "b", shape=(2**20, 2**20))])},
            DomainError,
        ),
        ({"eps": 1, "strategy": "privelet2d", "domain": SMALL}, DomainError),
        (
            {"eps": 1, "domain": Domain([Grid("a", "b", shape=(2**31, 2**31)), Category("c", ["x", "y"])])},
            DomainError,
        ),
        ({"eps": 1, "possible": {"row": [77], "col": [1]}}, DomainError),
        ({"eps": "1e-13"}, ParameterError),
    ],
)
def test_what_public_facts_rule_out_is_refused(arguments: dict[str, Any], error: type[OboroError]) -> None:
    with pytest.raises(error):
        tables.plan(**{"domain": SQUARE, "unit": Unit.cells(), **arguments})


def test_a_plan_file_that_was_changed_is_refused() -> None:
    record = PLANS[3].to_dict()
    with pytest.raises(ParameterError, match=r"plan\.guarantee"):
        plan_from({**record, "guarantee": {"kind": "zcdp", "rho": "1"}})
    with pytest.raises(DomainError):
        plan_from({**record, "mask": {"columns": 2, "possible": "AAAA"}})
    with pytest.raises(DomainError):
        plan_from({**record, "domain": SQUARE.to_dict()})


def test_values_that_bounds_join_cost_more_noise() -> None:
    ages = Domain([Grid("row", "col", shape=(4, 4)), Integer("age", 0, 3)])
    apart = Domain([Grid("row", "col", shape=(4, 4)), Category("age", [0, 1, 2, 3])])
    unit = Unit.cells(max_cells=3)
    assert tables.plan(apart, unit=unit, eps=1, strategy="wavelet").noise.scale == 3 * 5 + 2
    assert tables.plan(ages, unit=unit, eps=1, strategy="wavelet").noise.scale == 3 * 7
    assert (
        tables.plan(ages, unit=Unit.cells(), eps=1, strategy="wavelet").noise.scale
        == tables.plan(apart, unit=Unit.cells(), eps=1, strategy="wavelet").noise.scale
        == 7
    )


AUDITED = [Unit.cells(), Unit.cells(2), Unit.cells(1, 2, "replace"), Unit.person("who", 2)]


@pytest.mark.parametrize("unit", AUDITED, ids=str)
@pytest.mark.long("audits of sound plans")
def test_the_audit_finds_nothing(unit: Unit) -> None:
    domain = Domain([Grid("r", "c", shape=(2, 2))])
    plan = tables.plan(
        domain, unit=unit, eps=1, count="n" if unit.kind == "cells" else None, strategy="wavelet"
    )
    report = audit.run(plan, 40_000)
    assert report.verdict == "holds", str(report)
    assert report.eps_lower > 0.2


@pytest.mark.long("audits of faults")
def test_the_audit_sees_noise_that_is_too_small() -> None:
    """Half the noise, planted in the strategy that is really called."""
    plan = tables.plan(
        Domain([Grid("r", "c", shape=(2, 2))]), unit=Unit.cells(), eps=1, count="n", strategy="wavelet"
    )
    careless = dataclasses.replace(plan, guarantee=Pure(3))

    class Faulty:
        kind, unit, guarantee = plan.kind, plan.unit, plan.guarantee
        prepare, neighbours, measure, describe = (
            plan.prepare,
            plan.neighbours,
            careless.measure,
            plan.describe,
        )

    assert audit.run(Faulty(), 100_000).verdict != "holds"  # type: ignore[arg-type]


def test_the_forecast_is_the_theory() -> None:
    plan = tables.plan(Domain([Grid("row", "col")]), unit=Unit.cells(), eps="0.1", strategy="wavelet")
    rows = {row[1]: row for row in plan.forecast().rows}
    assert rows["2^0"][0] == "1 x 1 of row,col"
    assert rows["2^6"][0] == "8 x 8 of row,col"
    assert rows["2^0"][2] == pytest.approx(155.13, rel=1e-3)  # sqrt(24067), which the paper prints as 153.13
    assert rows["2^18"][2] == pytest.approx(190 * 2**0.5, rel=1e-4)


def test_the_forecast_names_areas() -> None:
    mesh = tables.plan(
        Domain([Mesh("code", "500m"), Category("sex", ["F", "M"])]),
        unit=Unit.row(),
        eps=1,
        strategy="wavelet",
    )
    areas = [row[0] for row in mesh.forecast().rows]
    assert areas == [
        "500 m mesh",
        "500 m mesh; all of sex",
        "1 km mesh; all of sex",
        "10 km mesh; all of sex",
        "80 km mesh; all of sex",
        "all of code; all of sex",
    ]
    product = tables.plan(SMALL, unit=Unit.row(), eps=1, strategy="wavelet")
    assert [row[0] for row in product.forecast().rows][:3] == [
        "1 x 1 of row,col",
        "1 x 1 of row,col; all of sex",
        "2 x 2 of row,col; all of sex",
    ]


@pytest.mark.parametrize(("scale", "total"), [(19, 10_000), (190, 10**6), (38, 10**5)])
def test_the_number_of_published_cells_is_foreseen(scale: int, total: int) -> None:
    layout = Layout(Domain([Grid("row", "col", shape=(512, 512))]))
    keys, counts = np.unique(np.random.default_rng(1).integers(0, 2**18, total), return_counts=True)
    from oboro.tables import wavelet

    published, _ = wavelet.measure(Cells(keys, counts), layout, DiscreteLaplace(scale), system_bits())
    assert published.keys.size == pytest.approx(
        published_if_even(DiscreteLaplace(scale), 18, total), rel=0.08
    )


def test_block_errors_are_the_same_sparse_and_dense() -> None:
    layout = Layout(SQUARE)
    rng = np.random.default_rng(2)
    truth, other = rng.integers(0, 3, 64), rng.integers(0, 3, 64)
    assert block_errors(Cells.from_dense(truth), Cells.from_dense(other), layout) == pytest.approx(
        dense_block_errors(truth, other)
    )
    assert block_errors(Cells.from_dense(truth), Cells.from_dense(truth), layout)[0].rmse == 0


def test_compare_sets_strategies_side_by_side() -> None:
    rng = np.random.default_rng(0)
    row, col = np.divmod(rng.permutation(64)[:20], 8)
    found = tables.compare(
        {"row": row.tolist(), "col": col.tolist(), "people": rng.integers(1, 500, 20).tolist()},
        SQUARE,
        eps=1,
        count="people",
    )
    assert [row.strategy for row in found.rows] == list(tables.STRATEGIES)
    assert all(row.refused is None and len(row.errors) == 4 for row in found.rows)
    assert "negative" in str(found)
    assert found.to_dict()["strategies"][0]["strategy"] == "wavelet"
    refused = tables.compare({"row": [1], "col": [1], "sex": ["F"]}, SMALL, eps=1, strategies=["privelet2d"])
    assert refused.rows[0].refused is not None


def test_a_preview_pays_nothing_and_shows_the_truth() -> None:
    plan = tables.plan(SQUARE, unit=Unit.cells(), eps=1, count="people")
    true, previews = tables.preview(CELLS, plan, ["0.1", 1])
    assert true.column("people").to_pylist() == [500, 700]
    assert list(previews) == ["0.1", "1"]


def test_the_city_has_the_shape_of_the_paper() -> None:
    counts = tables.city()
    assert counts.shape == (512, 512)
    assert np.mean(counts > 0) == pytest.approx(0.363, abs=0.001)
    assert counts.sum() == pytest.approx(40e6, rel=1e-4)
    assert counts.max() < 50_000
    assert Fraction(int(np.sort(counts, axis=None)[-2621:].sum()), int(counts.sum())) > Fraction(
        1, 5
    )  # the fullest 1%
