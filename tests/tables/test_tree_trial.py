"""The strategy that is chosen by public facts: tried out on made-up tables, and held to others here."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oboro import tables
from oboro.arrays import Floats, Integers
from oboro.domain import Category, Domain, Grid, Integer
from oboro.errors import ParameterError
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.privacy import Unit
from oboro.release import plan_from
from oboro.tables.cells import Cells, Layout
from oboro.tables.tree import trial
from oboro.tables.tree.outlook import shape_of

SIDE = 64
TOWN = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
LINE = Domain([Integer("age", 0, 1023)])
REPLACE = Unit.cells(adjacency="replace")


def chosen(domain: Domain = TOWN, unit: Unit | None = None, **facts: Any) -> str:
    made = tables.plan(domain, unit=unit or Unit.cells(), eps="0.1", **facts)
    assert plan_from(made.to_dict()) == made
    return str(made.strategy)


def test_where_categories_matter_or_a_tree_is_asked_for_the_tree_stays() -> None:
    by_sex = Domain([Grid("row", "col", shape=(SIDE, SIDE)), Category("sex", ["f", "m"])])
    assert chosen(strategy="tree") == chosen(workload=tables.never_worse()) == "tree"
    assert chosen(Domain([Grid("row", "col", shape=(4, 4))])) == "tree"  # for any number of people
    assert chosen(by_sex) == chosen(Domain([Integer("age", 0, 99), Integer("hours", 0, 99)])) == "tree"
    assert chosen(by_sex, workload=tables.rectangles(), expected_total=1000) == "tree"
    assert chosen(Domain([Category("job", ["a", "b", "c"])]), expected_total=10) == "tree"
    assert chosen(delta="1e-6", workload=tables.rectangles()) == "tree"
    assert chosen(publish="0.1", expected_total=100) == "tree"


@pytest.mark.long("plans tried out")
def test_few_people_are_counted_by_a_table_that_looks_and_many_by_a_tree() -> None:
    assert chosen(expected_total=2000) == chosen(LINE, expected_total=2000) == "adaptive"
    assert chosen(unit=REPLACE, total=2000) == "adaptive"
    assert chosen(unit=REPLACE, total=10**6) == chosen(LINE, expected_total=10**6) == "tree"
    assert chosen(strategy="tree", expected_total=2000) == chosen(
        strategy="tree", workload=tables.rectangles()
    )
    with pytest.raises(ParameterError, match="expected_total"):
        chosen(expected_total=-1)


def test_a_choice_follows_from_public_facts_alone() -> None:
    facts = (Layout(TOWN), Fraction(1))
    first = trial.ratios(*facts, REPLACE, tables.squares(), 4000)
    trial._tried_out.cache_clear()  # type: ignore[attr-defined]
    assert trial.ratios(*facts, REPLACE, tables.squares(), 4000) == first
    twice = trial.ratios(*facts, Unit.cells(), tables.squares(), 2000)  # half the people, half the noise
    assert twice == first


def test_the_forecast_of_a_tree_says_when_another_strategy_is_better() -> None:
    plan = tables.plan(TOWN, unit=Unit.cells(), eps="0.1", strategy="tree")
    (said,) = [note for note in plan.forecast(2000).notes if "strategy adaptive" in note]
    assert 0.5 < float(said.partition("about ")[2].split()[0]) < 0.9
    assert not [note for note in plan.forecast(10**8).notes if "strategy adaptive" in note]


def ridge() -> Floats:
    at = np.arange(SIDE)
    along = np.exp(-(((at[:, None] - 0.8 * at - 6) / 3) ** 2) / 2)
    return np.asarray(along * np.random.default_rng(5).lognormal(0, 0.5, (SIDE, SIDE)))


def blobs() -> Floats:
    random, at, found = np.random.default_rng(6), np.arange(SIDE), np.full((SIDE, SIDE), 1e-4)
    for _ in range(20):
        row, col, wide = *random.uniform(0, SIDE, 2), random.uniform(0.8, 4)
        away = (at[:, None] - row) ** 2 + (at - col) ** 2
        found += (random.pareto(1) + 0.1) / wide**2 * np.exp(-away / (2 * wide**2))
    return found


def others() -> list[Floats]:
    """Shapes that no choice is made by; they were looked at when those that it is made by were put together."""
    by = 512 // SIDE
    places = [
        shape_of(name).reshape(SIDE, by, SIDE, by).sum(axis=(1, 3)) for name in ("metropolis", "region")
    ]
    return [*places, ridge(), blobs()]


def error(plan: tables.TablePlan, truth: Integers, asked: Integers, runs: int = 40) -> float:
    """The root mean square error over questions: lower and upper ends along both axes."""
    keys = plan.layout.keys(np.nonzero(truth))
    order = np.argsort(keys)
    cells = Cells(keys[order], truth[np.nonzero(truth)][order].astype(np.int64))
    squares = []
    with pytest.warns(UnsafeBitsWarning):
        bits = UnsafeDeterministicBits("held out")  # so that the test is the same every time
    for found in plan.mechanism.measure(cells, bits, runs):
        off = -truth.astype(float)
        off[tuple(plan.layout.places(found.keys))] += found.counts
        sums = np.pad(off.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
        (top, left), (bottom, right) = asked
        squares.append((sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]) ** 2)
    return math.sqrt(np.mean(squares))


def rectangles(random: np.random.Generator) -> Integers:
    ends = np.sort(random.integers(0, SIDE, (2, 2, 500)), axis=1)
    return np.stack([ends[:, 0], ends[:, 1] + 1])


@pytest.mark.long("statistical tests")
@pytest.mark.parametrize("people", [4_000, 40_000, 400_000, 4_000_000])
def test_what_is_chosen_for_rectangles_is_near_the_best_of_ours_on_other_shapes(people: int) -> None:
    """In the geometric mean over shapes, whether it is known how many people there are or not. Measured: at most 1.08."""
    asked, facts = rectangles(np.random.default_rng(2)), {"unit": Unit.cells(), "eps": "0.1"}
    ours = [
        tables.plan(TOWN, **facts, strategy="tree"),
        tables.plan(TOWN, **facts, strategy="adaptive"),
        tables.plan(TOWN, **facts, strategy="wavelet"),
        tables.plan(TOWN, **facts, strategy="tree", workload=tables.rectangles()),
    ]
    picked = [
        tables.plan(TOWN, **facts, workload=tables.rectangles()),
        tables.plan(TOWN, **facts, workload=tables.rectangles(), expected_total=people),
    ]
    logs = []
    for shape in others():
        truth = np.random.default_rng(3).multinomial(people, (shape / shape.sum()).reshape(-1))
        table = truth.reshape(SIDE, SIDE)
        logs.append([math.log(error(plan, table, asked)) for plan in (*ours, *picked)])
    means = np.mean(logs, axis=0)
    assert max(means[4:]) <= min(means[:4]) + math.log(1.15)
