"""Batches whose questions share noisy tables: as private as promised, never less exact than alone, and the same answers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.errors import GuaranteeError, ParameterError
from oboro.noise import Bits
from oboro.release.plan import plan_from
from oboro.statistics.marginals import Margin, Shared, Strategy
from oboro.statistics.means import _two_laplace
from oboro.statistics.questions import BatchPlan, batch_of
from oboro.statistics.reaches import _laplace_sum, reach_of_sum
from oboro.statistics.session import Builds, Plans
from oboro.statistics.subjects import targets

REGIONS = ["north", "south", "west"]
COLUMNS = [
    ob.Category("region", REGIONS),
    ob.Category("sex", ["f", "m"]),
    ob.Integer("age", 0, 99),
    ob.Integer("income", -20, 100, step=5),
]
DOMAIN = ob.Domain(COLUMNS)
DECLARED = ob.Domain([replace(one, missing=one.value(0)) for one in COLUMNS])
UNITS = {
    "add/remove": ob.Unit.row(),
    "replace": ob.Unit.row("replace"),
    "persons": ob.Unit.person("who", 3),
}
BY = (("region",), ("sex",), ("bins(age, 20)",), ("region", "sex"), ("region", "bins(age, 20)"))


def table(rows: int = 200) -> pa.Table:
    """Rows with values that are missing, unknown and out of bounds."""
    random = np.random.default_rng(7)

    def some(values: list[Any]) -> list[Any]:
        return [values[i] for i in random.integers(len(values), size=rows)]

    return pa.table(
        {
            "who": np.arange(rows) // 2,
            "region": some([*REGIONS, None, "nowhere"]),
            "sex": some(["f", "m", "m", None]),
            "age": some([0, 19, 20, 50, 99, 120, None]),
            "income": some([-40, -20, 0, 33, 100, 1000, None]),
        }
    )


def ten(unit: ob.Unit, promise: Any, domain: ob.Domain = DOMAIN, n: int | None = None) -> BatchPlan:
    """Means and counts by region, sex, age group, and crossed."""
    asked = Builds(domain, unit, n if unit.adjacency == "replace" else None)
    builds = []
    for by in BY:
        builds += [asked.by(*by).count(), asked.by(*by).mean("income")]
    return batch_of(builds, [Fraction(1)] * len(builds), promise)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.few(1, "batches that share")
def test_ten_overlapping_questions_gain_a_factor_and_none_loses(unit: str) -> None:
    for domain in (DOMAIN, DECLARED):
        plan = ten(UNITS[unit], ob.Pure(1), domain, 200)
        (shared,) = plan.strategies
        assert shared.strategy.answers == tuple(range(10))
        assert shared.gain >= 1.5
        for subject in shared.frame.subjects:
            for direction, alone in targets(shared.frame, subject):
                found = shared.variance(shared.frame.axes_of(subject), direction)
                assert found is not None
                assert found * shared.loosest <= alone
        assert plan.cost == ob.Pure(1)


@pytest.mark.parametrize("unit", UNITS)
def test_without_noise_every_question_has_the_answer_that_it_has_alone(unit: str) -> None:
    data, asked = table(), Plans(DOMAIN, UNITS[unit], 200 if unit == "replace" else None)
    narrowed = asked.where("income >= 0")
    plans = (
        asked.by("region").mean("income", rho="0.01"),
        asked.by("sex", "region").sum("income", rho="0.01"),
        asked.histogram(["region", "age"], edges={"age": [0, 20, 60]}, rho="0.01"),
        asked.histogram("sex", rho="0.01"),
        narrowed.by("sex").mean("income", rho="0.01"),
        narrowed.count(rho="0.01"),
    )
    dear = ob.ZCDP("0.03")
    tables = (
        Margin((0, 1), "distances", dear, 0),
        Margin((0, 1), "sum", dear, 0),
        Margin((0, 2), "count", dear),
        Margin((1,), "count", dear),
    )
    second = Strategy((4, 5), (Margin((0,), "distances", dear, 0), Margin((), "count", dear)))
    shared = (Strategy((0, 1, 2, 3), tables), second)
    plan = BatchPlan(plans, ob.ZCDP("0.18"), shared)
    for one, found in zip(plans, plan.tables(plan.prepare(data)), strict=True):
        assert found.equals(one.publish(one.prepare(data)))


def test_a_cluster_adds_up_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        """No source has an order."""

    for where in (None, "age >= 20"):
        asked = Plans(DOMAIN, ob.Unit.row(), None)
        asked = asked if where is None else asked.where(where)
        plans = (
            asked.by("region", "sex").mean("income", eps="0.1"),
            asked.histogram(["region", "age"], edges={"age": [0, 20, 60]}, eps="0.1"),
            asked.by("region").mean("age", eps="0.1"),
        )
        dear = ob.Pure("0.2")
        margins = (
            Margin((0, 1), "distances", dear, 0),
            Margin((0, 2), "count", dear),
            Margin((0,), "distances", dear, 1),
        )
        plan = BatchPlan(plans, ob.Pure("0.6"), (Strategy((0, 1, 2), margins),))
        streamed = plan.prepare(table())
        with monkeypatch.context() as patched:
            patched.setattr("oboro.statistics.marginals.Ordered", Nothing)
            added: Any = plan.prepare(table())
        for one, other in zip(streamed, added, strict=True):
            assert np.array_equal(np.asarray(one), other)


def test_weights_are_those_of_the_estimate_and_add_up_to_its_variance() -> None:
    shared = ten(ob.Unit.row(), ob.Pure(1)).strategies[0]
    frame = shared.frame
    zero = [
        np.zeros((frame.cells(one.axes), shared.columns(one)), np.int64) for one in shared.strategy.margins
    ]
    subject = frame.subjects[6]  # counts by region and sex
    axes = frame.axes_of(subject)
    (direction,) = frame.directions("count", None)
    weights, alike, _ = shared.weights(axes, direction)
    each = np.concatenate(
        [
            [float(v)] * t.shape[1] * 2 ** len(set(axes) & set(m.axes))
            for v, t, m in zip(shared.model, zero, shared.strategy.margins, strict=True)
        ]
    )
    reach = np.concatenate(
        [
            [frame.reach(m.what, m.value)] * t.shape[1] * 2 ** len(set(axes) & set(m.axes))
            for t, m in zip(zero, shared.strategy.margins, strict=True)
        ]
    )
    assert (alike * weights**2 * reach**2 * each).sum() == pytest.approx(
        float(shared.variance(axes, direction) or 0), rel=1e-9
    )
    moved = []
    for place, one in enumerate(zero):
        for cell, column in product(range(len(one)), range(one.shape[1])):
            noisy = [t.copy() for t in zero]
            noisy[place][cell, column] = 10**6
            moved.append(shared._least_squares(noisy, axes, direction)[0, 0] / 10**6)
    known = np.repeat(weights, alike.astype(int))
    assert np.sort(known) == pytest.approx(np.sort(moved), abs=1e-12)


def test_the_law_of_a_sum_of_noises_is_that_of_laplace_where_it_is_known() -> None:
    for miss in (0.5, 0.05, 0.001):
        assert _laplace_sum((3.0,), (1.0,), miss) == pytest.approx(-3 * math.log(miss), rel=1e-4)
        two = _two_laplace(np.asarray([5.0]), np.asarray([2.0]), 1 - miss)[0]
        assert _laplace_sum((5.0, 2.0), (1.0, 1.0), miss) == pytest.approx(two, rel=1e-4)
    normal = math.sqrt(2 * 4000) * 1.959964
    assert _laplace_sum((1.0,), (4000.0,), 0.05) == pytest.approx(normal, rel=1e-3)


def test_how_far_a_sum_of_noises_goes_holds_in_its_exact_law_and_adds_little_where_there_is_much_noise() -> (
    None
):
    at = np.arange(-400, 401)
    for pure, scale, many, level in product(
        (True, False), (0.2, 0.5, 1.0, 4.0), (1, 2, 7), (0.5, 0.95, 0.999)
    ):
        one = np.exp(-np.abs(at) / scale if pure else -(at**2) / (2 * scale**2))
        law = np.asarray([1.0])
        for _ in range(many):
            law = np.convolve(law, one / one.sum())
        ones, scales = np.ones(1), np.asarray([scale])
        reach = reach_of_sum(ones, np.asarray([float(many)]), scales, level, pure)
        middle, far = law.size // 2, math.floor(reach)
        assert law[middle - far : middle + far + 1].sum() >= level
    for pure in (True, False):
        found = reach_of_sum(np.ones(1), np.asarray([9.0]), np.asarray([1000.0]), 0.95, pure)
        exact = _laplace_sum((1000.0,), (9.0,), 0.05) if pure else 3000 * 1.959964
        assert exact <= found <= 1.005 * exact


@pytest.mark.parametrize("promise", [ob.Pure(3), ob.ZCDP(1)])
def test_no_interval_is_much_wider_than_alone(promise: Any) -> None:
    """Where there is little noise a sum of many noises is known less well than one: then nothing is shared."""
    asked = Builds(DOMAIN, ob.Unit.row(), None)
    builds = [asked.by("region", "sex").count(), *(asked.by(one).count() for one in ("region", "sex"))]
    builds += [asked.count(), asked.by("sex").sum("income")]
    for some in (builds[:4], builds):
        plan = batch_of(some, [Fraction(1)] * len(some), promise)
        for row in plan.forecast().rows if plan.shared else ():
            alone, within = float(row[-2]), float(row[-1])
            assert within <= max(1.1 * alone, alone + (5 if "sum" in str(row[0]) else 1))


@pytest.mark.few(1, "shared tables")
@pytest.mark.parametrize("unit", UNITS)
def test_a_shared_table_moves_as_far_as_its_worst_neighbours(unit: str) -> None:
    """In any pair of neighbours no table moves further than its part says, and some pair moves each so far."""
    kind = UNITS[unit]
    asked = Plans(DOMAIN, kind, 4 if unit == "replace" else None)
    plans = (
        asked.by("region").mean("income", eps="0.3"),
        asked.by("sex").sum("income", eps="0.3"),
        asked.by("region", "sex").count(eps="0.3"),
    )
    margins = (
        Margin((0,), "distances", ob.Pure("0.3"), 0),
        Margin((1,), "sum", ob.Pure("0.3"), 0),
        Margin((0, 1), "count", ob.Pure("0.3")),
    )
    plan = BatchPlan(plans, ob.Pure("0.9"), (Strategy((0, 1, 2), margins),))
    most = [0] * len(margins)
    for pair in plan.neighbours():
        one, other = (plan.prepare(data) for data in (pair.one, pair.other))
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            most[place] = max(most[place], int(np.abs(np.asarray(a) - np.asarray(b)).sum()))
    for found, noise in zip(most, plan.strategies[0].noises, strict=True):
        assert found / noise.scale <= Fraction(3, 10)  # type: ignore[union-attr]
        assert found / noise.scale == Fraction(3, 10)  # type: ignore[union-attr]


def test_every_cell_of_every_shared_table_takes_noise_of_its_own() -> None:
    plan = ten(ob.Unit.row(), ob.Pure(1))
    prepared = plan.prepare(table(20))
    for true, noisy in zip(prepared, plan.measure(prepared, Bits(), trials=60), strict=True):
        drawn = (noisy - np.asarray(true)).reshape(60, -1)
        alike = sum((drawn[:, i] == drawn[:, j]).all() for i in range(drawn.shape[1]) for j in range(i))
        assert alike == 0


def test_records_come_back_and_altered_ones_are_refused() -> None:
    plan = ten(ob.Unit.row(), ob.Pure(1))
    record = plan.to_dict()
    assert plan_from(record) == plan
    strategy = plan.shared[0]
    dearer = replace(strategy.margins[0], price=ob.Pure("0.9"))
    with pytest.raises(GuaranteeError):
        replace(plan, shared=(replace(strategy, margins=(dearer, *strategy.margins[1:])),))
    for wrong in (
        (replace(strategy, margins=strategy.margins[:1]),),
        (replace(strategy, margins=()),),
        (replace(strategy, answers=(*strategy.answers[:-1], 10)),),
        (replace(strategy, margins=(replace(strategy.margins[0], axes=(7,)), *strategy.margins[1:])),),
        (replace(strategy, margins=(replace(strategy.margins[-1], value=None), *strategy.margins[:-1])),),
        (replace(strategy, margins=(replace(strategy.margins[0], price=ob.Pure(0)), *strategy.margins[1:])),),
        (replace(strategy, margins=(replace(strategy.margins[0], price=ob.ZCDP(1)), *strategy.margins[1:])),),
        (replace(strategy, answers=()),),
        (strategy, strategy),
    ):
        with pytest.raises(ParameterError):
            replace(plan, shared=wrong)
    with pytest.raises(ParameterError):
        replace(plan, guarantee=ob.Approx(1, "1e-6"))


def test_a_batch_where_nothing_is_shared_is_measured_as_before() -> None:
    asked = Builds(DOMAIN, ob.Unit.row(), None)
    for builds in (
        [asked.median("age"), asked.mean("income")],
        [asked.where("age >= 20").count(), asked.where("age >= 30").count()],
        [asked.by("region").variance("income"), asked.by("region").count()],
    ):
        assert batch_of(builds, [Fraction(1)] * 2, ob.Pure(1)).shared == ()
    both = [asked.by("region").mean("income"), asked.by("region").count()]
    assert batch_of(both, [Fraction(1)] * 2, ob.Approx(1, "1e-6")).shared == ()
    assert batch_of(both, [Fraction(1)] * 2, ob.Pure(1)).shared != ()


def test_a_session_prints_what_the_forecast_said(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(
        tmp_path / "people.ledger", budget=ob.Pure(5), unit=ob.Unit.row(), dataset="people"
    )
    people = ob.Session(table(), domain=DOMAIN, ledger=ledger)
    with people.batch(eps=1) as batch:
        counts, means = batch.by("region").count(), batch.by("region").mean("income", expected_n=200)
        both, middle = batch.by("region", "sex").count(), batch.median("age")
        forecast = batch.forecast
    assert "alone ±" in forecast.columns
    assert any("times smaller" in note for note in forecast.notes)
    assert [one.table.num_rows for one in (counts, both, means)] == [3, 6, 3]
    assert isinstance(middle.value, int | float)
    said = {str(row[0]): float(row[-1]) for row in forecast.rows}
    within = said["histogram of region: count"]
    for row in counts.table.to_pylist():
        assert row["value"] == round(row["value"])
        assert row["high"] - row["value"] == within or row["high"] == 0
    assert batch.release.cost == ob.Pure(1)


def test_a_strategy_is_asked_for_by_its_questions() -> None:
    with pytest.raises(ParameterError):
        Shared(Strategy((0,), ()), (Plans(DOMAIN, ob.Unit.row(), None).median("age", eps=1),)).check()
