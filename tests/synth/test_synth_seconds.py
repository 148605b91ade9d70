"""Seconds bound the work of the default method, by public facts alone: no clock decides what is given out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synth_people import DOMAIN, people

import oboro as ob
from oboro.errors import InputError
from oboro.progress import watched
from oboro.synth.junction import junction_tree
from oboro.synth.marginals import LARGEST_TREE, Offers
from oboro.synth.measured import most_bins_of


def plan_of(**how: Any) -> Any:
    return ob.synth.plan(DOMAIN, unit=ob.Unit.row(), eps=1, delta="1e-6", **how)


def test_quality_is_the_default_and_a_minute_is_not_written_down() -> None:
    assert plan_of() == plan_of(method="quality") == plan_of(seconds=60)
    assert "seconds" not in plan_of().to_dict()
    assert plan_of(seconds=5).to_dict()["seconds"] == 5


def test_no_clock_is_read_and_the_model_stays_within_its_limit(
    test_bits, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(seconds=1)
    codes = plan.prepare(people(1000))
    plan.measure(codes, test_bits)  # so that nothing is left to load, or to compile

    def read(*_: object) -> float:
        raise AssertionError("a clock was read")

    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        monkeypatch.setattr(time, clock, read)
        monkeypatch.setattr(time, f"{clock}_ns", read)
    told: list[float] = []
    with watched(lambda stage, share: told.append(share) if stage == "choosing tables" else None):
        measured = plan.measure(codes, test_bits)
    monkeypatch.undo()
    sizes = [column.size for column in measured.bins]
    assert junction_tree(sizes, [columns for columns, _ in measured.tables]).size <= plan.largest
    assert told == [
        turn / plan.steps for turn in range(plan.steps)
    ]  # how far it is, by rounds: their number is public


def test_more_seconds_allow_a_larger_model_and_the_forecast_says_how_long_it_takes() -> None:
    sizes = [plan_of(seconds=seconds).largest for seconds in (1, 10, 60, 3600)]
    assert sizes == sorted(set(sizes))
    notes = [str(plan_of(seconds=seconds).forecast()) for seconds in (2, 60)]
    assert "up to about 2 seconds" in notes[0]
    assert notes[0] != notes[1]


def test_with_many_columns_only_linked_triples_are_offered() -> None:
    wide = ob.Domain([ob.Category(f"c{i}", ["x", "y"]) for i in range(40)])
    few = ob.synth.plan(wide, unit=ob.Unit.row(), eps=1, delta="1e-6")
    assert not few.all_triples  # type: ignore[union-attr]
    assert plan_of().all_triples


def test_the_forecast_counts_the_rows_where_their_number_is_public_and_else_says_what_a_million_take() -> (
    None
):
    numbers = ob.Domain([ob.Integer(f"c{i}", 0, 7) for i in range(9)])
    seconds = []
    for n in (1000, 10**7, 10**8):
        plan: Any = ob.synth.plan(numbers, unit=ob.Unit.row("replace"), n=n, eps=1, delta="1e-6", seconds=2)
        assert f"up to about {plan.expected_seconds} seconds" in str(plan.forecast())
        seconds.append(plan.expected_seconds)
    assert seconds[0] <= 2 < 4 <= seconds[1] < seconds[2] / 5
    private: Any = ob.synth.plan(numbers, unit=ob.Unit.row(), eps=1, delta="1e-6")
    assert "and about 1 more for each million rows" in str(private.forecast())


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"seconds": 3601}, {"seconds": "1.5"}, {"seconds": 5, "method": "marginals"}]
)
def test_seconds_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="seconds"):
        plan_of(**wrong)


@pytest.mark.parametrize("method", ["quality", "marginals"])
def test_public_facts_bound_every_table_that_can_be_chosen(test_bits, method: str) -> None:
    """Two columns of many values, all of them frequent: with 30,000 a table of both would take gigabytes, after payment."""
    values = [f"v{i}" for i in range(3_000)]
    domain = ob.Domain([ob.Category("a", values), ob.Category("b", values), ob.Integer("c", 0, 10**6)])
    plan: Any = ob.synth.plan(domain, unit=ob.Unit.row(), rho=100, method=method)
    limit = plan.largest if method == "quality" else LARGEST_TREE
    widest = [most_bins_of(column, plan.most_bins, plan.categories) for column in domain]
    assert widest[0] * widest[1] <= limit  # any pair fits
    n = 5 * len(values)
    first, second = np.arange(n) % len(values), np.arange(n) % 777
    measured = plan.measure(np.stack([first, second, first * 50]), test_bits)
    sizes = [column.size for column in measured.bins]
    assert all(size <= most for size, most in zip(sizes, widest, strict=True))
    assert sizes[0] == widest[0] - 1  # as many as are allowed: nothing is missing here
    assert measured.tables
    assert all(counts.size <= limit for _, counts in measured.tables)


def test_with_few_seconds_and_many_columns_pairs_still_fit() -> None:
    many = ob.Domain([ob.Category(f"c{i}", [f"v{j}" for j in range(300)]) for i in range(32)])
    plan: Any = ob.synth.plan(many, unit=ob.Unit.row(), eps=1, delta="1e-6", seconds=1)
    sizes = [most_bins_of(column, plan.most_bins, plan.categories) for column in many]
    offers = Offers(sizes, 10.0, 10**6, plan.largest, all_triples=False)
    assert offers.fitting([]) == offers.small


@pytest.mark.long("whole models")
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_more_budget_leaves_no_column_without_a_pair_where_seconds_are_few(test_bits, kind: str) -> None:
    """The less noise, the more bins stand out: with 5,000 cells for 24 columns, pairs of full size were 8 or 9."""
    labels = [f"v{i}" for i in range(30)]
    domain = ob.Domain(
        [
            ob.Integer(f"c{i}", 0, 999) if kind == "numbers" else ob.Category(f"c{i}", labels)
            for i in range(24)
        ]
    )
    size = domain.columns[0].size
    rng = np.random.default_rng(3)
    shared = rng.integers(0, size, 3000)
    codes = np.stack(
        [np.where(rng.random(3000) < 0.7, shared, rng.integers(0, size, 3000)) for _ in range(24)]
    )
    plan: Any = ob.synth.plan(domain, unit=ob.Unit.row(), rho=20, seconds=1)
    measured = plan.measure(codes, test_bits)
    assert {i for columns, _ in measured.tables if len(columns) > 1 for i in columns} == set(range(24))
    assert (
        junction_tree([one.size for one in measured.bins], [one for one, _ in measured.tables]).size
        <= plan.largest
    )


def test_the_forecast_counts_the_pairs_of_many_columns_whatever_the_seconds() -> None:
    """Sixty-four columns take 96 rounds of 2,016 pairs: some 46 seconds of one core, however few are allowed."""
    domain = ob.Domain([ob.Category(f"c{i}", ["a", "b"]) for i in range(64)])
    plan: Any = ob.synth.plan(domain, unit=ob.Unit.row(), eps=1, delta="1e-6")
    assert (plan.seconds, plan.steps) == (60, 96)
    assert 40 <= plan.usual_seconds <= plan.expected_seconds == 60
    said = f"from about {plan.usual_seconds} up to about 60 seconds"
    assert said in str(plan.forecast())
    hurried = [replace(plan, seconds=seconds).expected_seconds for seconds in (1, 5, 20, 60, 600)]
    assert (
        40 <= hurried[0] == hurried[1] == hurried[2] <= hurried[3] < hurried[4]
    )  # less is never said of more


def test_the_forecast_promises_no_table_where_there_is_but_one_column() -> None:
    plan = ob.synth.plan(ob.Domain([ob.Integer("age", 0, 120)]), unit=ob.Unit.row(), eps=1, delta="1e-6")
    assert {part.of for part in plan.parts} == {"counts of age"}
    assert "will be chosen" not in str(plan.forecast())
    assert "no table of several to choose" in str(plan.forecast())
