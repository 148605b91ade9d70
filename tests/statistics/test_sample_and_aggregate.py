"""Sample and aggregate: any function, and whatever it does, nothing leaks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.errors import InputError
from oboro.release import Pair, plan_from, run
from oboro.statistics.blocks import middles, sample_aggregate_plan
from oboro.statistics.scope import Scope

AGE, SEX, DAY = (
    ob.Integer("age", 0, 100),
    ob.Category("sex", ["F", "M"]),
    ob.Date("day", "2026-01-01", "2026-12-31"),
)

PATIENCE = 300  # seconds for functions that answer: on a busy machine, too


def plan_of(function: Any, n: int | None = 20, columns: Any = (AGE,), **changes: Any) -> Any:
    unit = changes.pop("unit", ob.Unit.row("replace") if n else ob.Unit.row())
    options = {"blocks": 5, "bounds": (0, 100), "eps": 1, "seconds": PATIENCE}
    return sample_aggregate_plan(Scope(unit, n=n), columns, function, **{**options, **changes})


def mean_age(rows: Any) -> float:
    return float(rows["age"].mean())


# -- the plan ------------------------------------------------------------------------------------------------------


def test_the_function_sees_values_of_its_block_only(test_bits: Any) -> None:
    rows = {
        "age": ["7", "200", "x", "9"],
        "sex": ["F", "M", "F", "M"],
        "day": ["2026-01-02", "2026-02-01", "2026-01-01", "1999-01-01"],
    }

    def check(block: Any) -> float:
        ages = block["age"].tolist() == [7, 100, 9]  # clamped; a record with a missing value is left out
        sexes = block["sex"].tolist() == ["F", "M", "M"]
        return 42 if ages and sexes and str(block["day"][2]) == "2026-01-01" else 0

    plan = plan_of(check, 4, (AGE, SEX, DAY), blocks=1, eps=10**6)
    assert plan.publish(plan.measure(plan.prepare(rows), test_bits)).to_pylist() == [{"value": 42.0}]


def test_blocks_go_by_position_under_replace_and_by_draws_otherwise(test_bits: Any) -> None:
    plan = plan_of(mean_age, 20)
    codes, units, _ = plan.prepare({"age": list(range(20))})
    assert codes[:, 0].tolist() == list(range(20))  # in the order of the data
    assert plan._places(units, test_bits).tolist() == [[i % 5] for i in range(20)]
    private = plan_of(mean_age, None)
    drawn = private._places(np.arange(100_000), test_bits)
    counts = np.bincount(drawn[:, 0], minlength=5)
    assert abs(counts - 20_000).max() < 5.4 * math.sqrt(100_000 * 0.16)  # false alarm below 1e-6
    people = plan_of(mean_age, None, unit=ob.Unit.person("who", 3))
    codes, units, _ = people.prepare({"who": ["b", "a", "b", None], "age": [1, 2, 3, 4]})
    place = people._places(units, test_bits)
    assert place[0] == place[2]  # a person is in one block, with all rows
    assert codes[3, 0] == -1  # nobody's row is left out


def test_the_position_is_that_of_the_file(tmp_path: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ages = np.random.default_rng(0).integers(0, 101, 300_000)
    pq.write_table(pa.table({"age": ages}), tmp_path / "people.parquet", row_group_size=10_000)
    codes, _, _ = plan_of(mean_age, 300_000).prepare(str(tmp_path / "people.parquet"))
    assert np.array_equal(codes[:, 0], ages)


def test_a_wild_function_leaves_the_middle_of_the_bounds(test_bits: Any) -> None:
    for wild in ("1 / 0", "float('nan')", "[1, 2, 3]"):
        plan = plan_of(f"def f(rows): return 1 if rows['age'].any() else {wild}", eps=10**6)
        assert plan.publish(plan.measure(plan.prepare({"age": [0] * 20}), test_bits)).to_pylist() == [
            {"value": 50.0}
        ]
    for text, value in (
        ("1e300", 100.0),
        ("-1.7976931348623157e308", 0.0),
        ("5e-324", 0.0),
        ("-0.0", 0.0),
        ("True", 1.0),
    ):
        outside = plan_of(f"def f(rows): return {text}", eps=10**6)
        prepared = outside.prepare({"age": [1] * 20})
        assert outside.publish(outside.measure(prepared, test_bits)).to_pylist() == [{"value": value}]


def test_several_outputs_share_eps(test_bits: Any) -> None:
    both = "def f(rows): return [rows['age'].mean(), rows['age'].std()]"
    plan = plan_of(both, bounds=[(0, 100), (0, 50)], eps=10**6)
    assert plan.eta == Fraction(10**6, 4)
    table = plan.publish(plan.measure(plan.prepare({"age": list(range(20))}), test_bits)).to_pylist()
    assert [row["output"] for row in table] == ["output 1", "output 2"]
    assert abs(table[0]["value"] - 9.5) < 0.6
    assert table[1]["value"] == pytest.approx(5.59, abs=0.01)


@pytest.mark.parametrize("n", [10, None])
def test_it_holds_under_attack(n: int | None) -> None:
    """Three rows in five blocks; the function makes the most of one row."""

    plan = plan_of(any_old, n, bounds=(0, 100), step=50, blocks=3)
    if n:
        pairs = [Pair({"age": [0] * 10}, {"age": [0] * 9 + [99]}, "one old")]
    else:
        pairs = [Pair({"age": [99, 0]}, {"age": [99, 0, 99]}, "one more")]
    report = audit.run(plan, 3000, pairs=pairs)
    assert report.verdict == "holds", str(report)


def any_old(rows: Any) -> float:
    return 100.0 if (rows["age"] > 50).any() else 0.0


@pytest.mark.parametrize("aggregator", ["median", "mean", "smooth"])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.few(2, "audits of sound plans")
def test_every_aggregator_holds_under_attack(aggregator: str, copies: int) -> None:
    """Of three blocks as many change as the unit is in; the function makes the most of one row."""
    plan = plan_of(
        any_old, None, bounds=(0, 100), step=100, blocks=3, eps=3, aggregator=aggregator, copies=copies
    )
    others = [99] if copies == 1 else [0]  # one block of three is old, or none
    report = audit.run(plan, 3000, pairs=[Pair({"age": others}, {"age": [*others, 99]}, "one more")])
    assert report.verdict == "holds", str(report)
    assert report.eps_lower > 0.25, str(report)


def test_copies_that_are_not_paid_for_are_caught() -> None:
    """Noise for one changed block, where three change: the mean moves three times as far."""
    one = plan_of(any_old, None, bounds=(0, 100), step=100, blocks=3, aggregator="mean")
    three = plan_of(any_old, None, bounds=(0, 100), step=100, blocks=3, aggregator="mean", copies=3)
    object.__setattr__(three, "mean_noises", one.mean_noises)
    report = audit.run(three, 3000, pairs=[Pair({"age": [0]}, {"age": [0, 99]}, "one more")])
    assert report.verdict != "holds", str(report)


def test_a_mean_is_the_mean_of_the_blocks_and_has_an_interval(test_bits: Any) -> None:
    plan = plan_of(mean_age, 20, bounds=(0, 100), step="0.5", eps=10**6, aggregator="mean")
    table = plan.publish(plan.measure(plan.prepare({"age": list(range(20))}), test_bits))
    assert table.to_pylist() == [{"value": pytest.approx(9.5, abs=0.01)}]  # blocks: 7.5, 8.5, ..., 11.5
    loud = plan_of(mean_age, 20, bounds=(0, 100), step="0.5", eps=2, aggregator="mean")
    assert loud.mean_noises[0].scale == 100  # one block of five moves by 200 steps
    prepared = loud.prepare({"age": list(range(40, 60))})
    values = [loud.publish(one) for one in loud.measure(prepared, test_bits, trials=600)]
    ends = [[float(end[0]) for end in loud.intervals(one, 0.5)] for one in values]
    covered = np.mean([low <= 49.5 <= high for low, high in ends])
    assert 0.5 - 5.2 * 0.0205 < covered < 0.5 + 5.2 * 0.0205  # the standard error of 600 trials
    assert plan_of(mean_age, 20).intervals is None
    assert "mean over blocks" in str(loud.forecast())


def test_random_subsets_hold_every_unit_as_often_as_it_has_copies(test_bits: Any) -> None:
    plan = plan_of(mean_age, None, blocks=6, copies=4)
    places = plan._places(np.arange(3000), test_bits)
    assert (np.diff(np.sort(places, axis=1)) > 0).all()  # different blocks
    assert abs(np.bincount(places.ravel(), minlength=6) - 2000).max() < 150  # 5.8 standard deviations of 26
    assert plan_of(mean_age, None, copies=2).eta == plan_of(mean_age, None).eta / 2
    assert plan_of(mean_age, 20, copies=2).by_position is False


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_the_smooth_bound_is_smooth_for_all_blocks_that_one_unit_changes(copies: int) -> None:
    """Every five blocks of four values: not below the largest move, and e^beta apart at most, when `copies` of them change."""
    plan = plan_of(mean_age, None, bounds=(0, 3), step=1, blocks=5, copies=copies, aggregator="smooth")
    every = np.asarray(list(itertools.combinations_with_replacement(range(4), 5)))
    answers, bounds = zip(*(plan.smooth_of(codes, 4) for codes in every), strict=True)
    middle, smooth = np.asarray(answers, float), np.asarray([float(bound) for bound in bounds])
    counts = (every[:, :, None] == np.arange(4)).sum(axis=1)
    away = np.abs(counts[:, None] - counts).sum(axis=2) // 2
    near = away <= copies
    assert (smooth[:, None] >= np.where(near, np.abs(middle[:, None] - middle), 0) * (1 - 1e-12)).all()
    most = math.exp(plan.smooth_noise.beta) * (1 + 1e-9)
    assert (np.where(near, smooth[:, None] / smooth, 0) <= most).all()
    assert smooth.min() < 3


@pytest.mark.long("statistical tests")
def test_the_aggregator_has_the_law_of_the_proof(test_bits: Any) -> None:
    values, size, rank, eta = np.asarray([2, 2, 7]), 10, 2, Fraction(1, 2)
    below = [int((values < t).sum()) for t in range(size)]
    upto = [int((values <= t).sum()) for t in range(size)]
    score = [max(0, a - rank + 1, rank - b) for a, b in zip(below, upto, strict=True)]
    chance = np.exp(-0.5 * np.asarray(score))
    chance /= chance.sum()
    draws = np.bincount(middles(values, size, rank, eta, test_bits, 20_000), minlength=size)
    statistic = float(((draws - 20_000 * chance) ** 2 / (20_000 * chance)).sum())
    assert statistic < 50  # chi-square with 9 degrees: false alarm 1e-7
    worse = np.exp(-0.6 * np.asarray(score))
    worse /= worse.sum()
    assert float(((draws - 20_000 * worse) ** 2 / (20_000 * worse)).sum()) > 50


def test_one_replaced_value_moves_every_score_by_one_at_most() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        x = rng.integers(0, 12, 7)
        y = x.copy()
        y[rng.integers(7)] = rng.integers(0, 12)
        t = np.arange(12)[:, None]
        scores = [np.maximum(0, np.maximum((v < t).sum(1) - 3, 4 - (v <= t).sum(1))) for v in (x, y)]
        assert np.abs(scores[0] - scores[1]).max() <= 1


def test_the_function_runs_after_the_reservation(tmp_path: Any) -> None:
    ledger = ob.Ledger.create(
        tmp_path / "l.ledger", dataset="d", unit=ob.Unit.row("replace"), budget=ob.Pure(1)
    )
    rows = {"age": [10] * 20}
    fails = "def f(rows): return 1 / (rows['age'] - 10).any()"
    release = run(plan_of(fails, eps="0.6"), rows, ledger)
    assert 0 <= release.value <= 100
    assert ledger.spent == ob.Pure("0.6")
    with pytest.raises(ob.OboroError, match="budget"):
        run(plan_of(fails, eps="0.6"), rows, ledger)
    with pytest.raises(ob.OboroError, match="no interval"):
        release.interval()


@pytest.mark.long("statistical tests")
def test_accuracy_of_a_ratio(test_bits: Any) -> None:
    """Within a few ranks of the median of 100 blocks; false alarm: P(score >= 42) <= 10^4 e^(-21) < 1e-5."""
    rng = np.random.default_rng(2)
    ages = np.clip(rng.normal(40, 10, 10_000).round(), 0, 100)
    ratio = "def f(rows): return rows['age'].var() / rows['age'].mean()"
    plan = plan_of(ratio, 10_000, blocks=100, bounds=(0, 10), eps=1)
    value = plan.publish(plan.measure(plan.prepare({"age": ages}), test_bits)).to_pylist()[0]["value"]
    assert abs(value - ages.var() / ages.mean()) < 0.8
    assert "drown" not in str(plan.forecast())
    assert "drown" in str(plan_of(mean_age, blocks=5).forecast())


def test_bad_public_facts_are_refused() -> None:
    for wrong in (
        lambda: plan_of("no function"),
        lambda: plan_of(mean_age, blocks=0),
        lambda: plan_of(mean_age, bounds=(1, 0)),
        lambda: plan_of(mean_age, eps=0),
        lambda: plan_of(mean_age, seconds=0),
        lambda: plan_of(mean_age, columns=()),
        lambda: plan_of(mean_age, step="0.03"),
        lambda: plan_of(mean_age, seconds=10**6),
        lambda: plan_of(mean_age, isolation="fork"),
        lambda: plan_of(mean_age, isolation=[]),
        lambda: plan_of(mean_age, aggregator="mode"),
        lambda: plan_of(mean_age, aggregator=[]),
        lambda: plan_of(mean_age, copies=0),
        lambda: plan_of(mean_age, copies=6),
        lambda: plan_of(mean_age, aggregator="mean", bounds=(0, 2**61), step=1),
        lambda: plan_of(mean_age, bounds=5),
        lambda: plan_of(mean_age, bounds=[]),
        lambda: plan_of(mean_age, bounds=[(0, 1), 5]),
        lambda: plan_of(mean_age, bounds=[(0, 1, 2)]),
        lambda: plan_of(mean_age, bounds=[(0, 1)] * 1001),
        lambda: plan_of(mean_age, label=""),
        lambda: plan_of(mean_age, label="a\nguarantee  eps = 0"),
        lambda: plan_of("def f(rows): return 1\nf = 2"),
    ):
        with pytest.raises(InputError):
            wrong()


@pytest.mark.parametrize("how", ["sealed", "none"])
def test_a_plan_holds_its_function_and_comes_back_from_its_record(how: str) -> None:
    plan = plan_of(mean_age, isolation=how)
    again = plan_from(plan.to_dict())
    assert again == plan
    assert "rows['age'].mean()" in again.function
    assert again.label == f"{__name__}.mean_age"


def test_a_record_that_no_function_makes_is_refused() -> None:
    good, plain = (plan_of(mean_age, isolation=how).to_dict() for how in ("sealed", "none"))
    for wrong in (
        {**plain, "guarantee": good["guarantee"]},  # promises without a seal what only a seal can
        {**good, "isolation": "none"},
        {**good, "isolation": "fork"},
        {**good, "isolation": 1},
        {**good, "aggregator": "mode"},
        {**good, "copies": 0},
        {**good, "copies": 6},
        {**good, "function": "rows"},
        {**good, "function": 7},
        {**good, "function": "from . import f"},
        {**good, "outputs": []},
        {**good, "outputs": [AGE.to_dict()]},
        {**good, "columns": []},
        {**good, "columns": [ob.Grid("row", "col", shape=(2, 2)).to_dict()]},  # rows have no such value
        {**good, "blocks": 0},
        {**good, "blocks": "5.5"},
        {**good, "seconds": "0"},
        {**good, "seconds": "1e400"},
        {**good, "guarantee": ob.ZCDP(1).to_dict()},
        {**good, "guarantee": ob.Pure("1e-300").to_dict()},  # no rank has a number then
        {**good, "guarantee": ob.Pure("1e-400").to_dict()},
        {name: value for name, value in good.items() if name != "isolation"},
        {name: value for name, value in good.items() if name != "label"},
    ):
        with pytest.raises(InputError):
            plan_from(wrong)
