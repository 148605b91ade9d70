"""A table plan proves itself: its parts cost what it promises, and whatever was altered is refused."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import oboro as ob
from oboro import tables
from oboro.domain import Category, Domain, Grid, Integer
from oboro.errors import GuaranteeError, InputError, ParameterError
from oboro.noise import DiscreteGaussian, DiscreteLaplace, system_bits
from oboro.privacy import ZCDP, Approx, Pure, Unit
from oboro.release import plan_from
from oboro.tables.strategy import Strategy
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.tree.workload import Design
from support import forged

GRID = Domain([Grid("row", "col", shape=(8, 8))])
FOUR = Domain([Category("c", ["a", "b", "c", "d"])])
UNITS = [
    Unit.cells(),
    Unit.cells(3, 2),
    Unit.cells(2, 5, "replace"),
    Unit.row("replace"),
    Unit.person("who", 7),
]


def made(strategy: str, unit: Unit, **asked: Any) -> tables.TablePlan:
    return tables.plan(GRID, unit=unit, strategy=strategy, **asked)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("strategy", tables.STRATEGIES)
def test_the_parts_cost_what_is_promised_and_no_less(strategy: str, unit: Unit) -> None:
    plan = made(strategy, unit, eps="1/3")
    assert plan.cost == Pure("1/3")
    for part in plan.parts:
        assert isinstance(part.noise, DiscreteLaplace)
        assert part.costs == Pure(part.moves / part.noise.scale)
    assert len({(part.case, part.of) for part in plan.parts}) == len(plan.parts)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_parts_of_a_gaussian_tree_cost_its_rho(unit: Unit) -> None:
    plan = made("tree", unit, eps=2, delta="1e-6")
    assert plan.design is not None
    assert plan.cost == ZCDP(plan.design.rho or 0)
    assert plan.levels == tuple(part.of for part in plan.parts)
    moved = unit.contributions * (unit.max_per_cell or 1)
    for part in plan.parts:
        assert isinstance(part.noise, DiscreteGaussian)
        assert part.moves == moved**2 * (2 if unit.adjacency == "replace" else 1)


def test_another_promise_is_refused_or_gets_its_own_noise() -> None:
    gaussian = tables.plan(FOUR, unit=Unit.cells(), eps=8, delta="1e-6", count="n")
    for less in (Approx("0.01", "1e-9"), Approx(8, "1e-7"), Approx("7.999", "1e-6"), Pure(8)):
        with pytest.raises(GuaranteeError):
            dataclasses.replace(gaussian, guarantee=less)
    assert dataclasses.replace(gaussian, guarantee=Approx(9, "1e-6")).cost == gaussian.cost
    for strategy in tables.STRATEGIES:
        plan = tables.plan(GRID, unit=Unit.cells(), eps=8, strategy=strategy)
        other = dataclasses.replace(plan, guarantee=Pure("0.01"))
        assert other.cost == Pure("0.01")
        assert other.noise.variance > 1000 * plan.noise.variance


def test_shares_beyond_the_whole_are_refused() -> None:
    plan = tables.plan(GRID, unit=Unit.cells(), eps="0.1", count="n", strategy="tree")
    assert plan.design is not None
    with pytest.raises(ParameterError, match="levels and shares"):
        dataclasses.replace(plan.design, shares=tuple(Fraction(50) for _ in plan.shares))
    careless = forged(plan.design, shares=tuple(Fraction(50) for _ in plan.shares))
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        dataclasses.replace(plan, design=careless)  # past the design's own check: the parts say it


@pytest.mark.parametrize(
    "careless",
    [
        {"guarantee": Approx("0.01", "1e-9")},
        {"unit": Unit.signal(1)},
        {"strategy": "magic"},
        {"count": "c"},
        {"total": 5},
        {"design": Design(((0,), (7,)), (Fraction(1, 2), Fraction(1, 2)))},
        {"design": Design(((0,),), (Fraction(1),))},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_went_past_the_constructor_is_not_run(careless: dict[str, Any], tmp_path: Path) -> None:
    plan = tables.plan(FOUR, unit=Unit.cells(), eps=8, delta="1e-6", count="n")
    ledger = ob.Ledger.create(
        tmp_path / "a.ledger", dataset="a", unit=Unit.cells(), budget=Approx(100, "0.1")
    )
    altered = forged(plan, **careless)
    for given in (altered, pickle.loads(pickle.dumps(altered))):
        with pytest.raises(InputError):
            ob.run(given, {"c": ["a"], "n": [5]}, ledger)
        with pytest.raises(InputError):
            plan_from(altered.to_dict())
    assert ledger.spent == Approx(0, 0)


def test_a_tree_without_its_design_is_planned_again() -> None:
    plan = tables.plan(GRID, unit=Unit.cells(), eps="0.1", count="n", strategy="tree")
    record = plan.to_dict()
    del record["design"], record["workload"]
    assert plan_from(record) == plan
    squares = {**record, "workload": [{"kind": "squares", "sides": [3]}]}
    assert plan_from(squares) == dataclasses.replace(plan, workload=tables.squares([3]), design=None)


def test_a_delta_without_gaussian_noise_is_refused() -> None:
    plan = tables.plan(GRID, unit=Unit.cells(), eps=1, delta="1e-6")
    record = plan.to_dict()
    del record["design"]["rho"]
    with pytest.raises(GuaranteeError, match="delta"):
        plan_from(record)


@pytest.mark.long("large masks")
def test_a_mask_of_another_domain_or_beyond_memory_is_refused() -> None:
    import base64
    import zlib

    plan = tables.plan(
        Domain([Grid("row", "col", shape=(4, 4)), Integer("age", 0, 9)]),
        unit=Unit.cells(),
        eps=1,
        possible={"row": [1, 2], "col": [1, 2]},
    )
    record = plan.to_dict()
    bomb = base64.b64encode(zlib.compress(bytes(2**27), 9)).decode()
    cut = record["mask"]["possible"][:-8]
    for mask in (
        {"columns": 1, "possible": bomb},
        {"columns": 1, "possible": cut},
        {"columns": 1, "possible": "no base64"},
        {"columns": 0, "possible": record["mask"]["possible"]},
        {"columns": 3, "possible": record["mask"]["possible"]},
        {"columns": 1, "possible": base64.b64encode(zlib.compress(b"")).decode()},
    ):
        with pytest.raises(InputError):
            plan_from({**record, "mask": mask})


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a release forecasts, prices, binds a strategy, and plans or reads a design."""
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str, as_name: str) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            calls[as_name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapped)

    count(tables.TablePlan, "forecast", "forecast")
    count(Strategy, "forecast", "strategy forecast")
    count(PlannedTree, "forecast", "strategy forecast")
    count(sys.modules["oboro.release.run"], "price", "price")
    for below in tables.STRATEGIES.values():
        if "__init__" in vars(below):
            count(below, "__init__", "strategy")
    count(Design, "__post_init__", "design")
    return calls


@pytest.mark.parametrize(
    "asked", [{"strategy": "tree"}, {"delta": "1e-6"}, {"strategy": "filtered"}, {"strategy": "wavelet"}]
)
def test_a_release_computes_everything_once(
    asked: dict[str, Any], tmp_path: Path, counted: Counter[str]
) -> None:
    data = {"row": [1, 5], "col": [2, 4], "people": [500, 700]}
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=Unit.cells(), budget=Approx(9, "0.1"))
    plan = tables.plan(GRID, unit=Unit.cells(), eps=1, count="people", **asked)
    trees = int(asked.get("strategy", "tree") == "tree")
    assert counted == Counter({"strategy": 1, "design": trees} if trees else {"strategy": 1})
    counted.clear()
    release = tables.release(data, plan, ledger=ledger)
    once = {"forecast": 1, "strategy forecast": 1, "price": 1, "strategy": 1}
    designs = trees + 2 * ("delta" in asked)  # whether the delta helps is told from two designs beside
    assert counted == Counter(once | ({"design": designs} if designs else {}))
    counted.clear()
    assert release.certificate.record["noise"]
    if release.plan.intervals is not None:
        release.interval()
    assert not counted


def test_what_follows_from_a_plan_is_held() -> None:
    plan = tables.plan(GRID, unit=Unit.cells(), eps=1, count="people")
    assert plan.mechanism is plan.mechanism
    assert plan.parts is plan.parts
    assert plan.layout is plan.layout
    assert plan.mechanism.chosen is plan.design
    plan.measure(plan.prepare({"row": [1], "col": [1], "people": [3]}), system_bits())
