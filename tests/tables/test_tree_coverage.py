"""What is printed covers the truth as often as it says: rows given that they are published, and questions chosen before."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from oboro import tables
from oboro.arrays import Integers
from oboro.domain import Category, Domain, Grid, Integer
from oboro.errors import ParameterError
from oboro.noise import DiscreteGaussian, DiscreteLaplace, system_bits
from oboro.privacy import Unit
from oboro.release import plan_from
from oboro.tables.tree.answers import choices
from oboro.tables.tree.errors import Error, ends_of, error_of
from oboro.tables.tree.intervals import Estimates
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.measure import publish
from oboro.tables.tree.rows import TURNS, Coins, Others, chains, ends, from_threshold, mixture
from oboro.tables.tree.strategy import PlannedTree, _estimates

SIDE = 32


def few_people() -> Integers:
    """Most cells hold nobody, some hold a few: what is published is published by its noise."""
    rng = np.random.default_rng(7)
    dense = np.add.outer(np.arange(SIDE), np.arange(SIDE)) < 20
    return rng.poisson(np.where(dense, 1.5, 0.02)) + np.where(rng.random((SIDE, SIDE)) < 0.02, 60, 0)


def table_plan(eps: str, strategy: str = "tree", **more: Any) -> tuple[tables.TablePlan, Any, Integers]:
    truth = few_people()
    row, col = truth.nonzero()
    data = {"row": row.tolist(), "col": col.tolist(), "n": truth[row, col].tolist()}
    domain = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
    plan = tables.plan(domain, unit=Unit.cells(), eps=eps, count="n", strategy=strategy, **more)
    prepared = plan.prepare(data)
    return plan, prepared, prepared.dense(plan.layout.bits)


def least(level: float, size: int) -> float:
    """As many hits as independent trials fall short of once in 10^7, and a little for what hangs together."""
    return level - 7 * math.sqrt(level * (1 - level) / size)


@pytest.mark.parametrize("eps", ["0.1", "1"])
@pytest.mark.parametrize("strategy", ["tree", "filtered"])
def test_rows_are_covered_given_that_they_are_published(eps: str, strategy: str) -> None:
    """Those that hold people and those that hold nobody. The plain interval, y - w to y + w, does not do it."""
    plan, prepared, true = table_plan(eps, strategy)
    hits: dict[tuple[float, bool], list[int]] = {}
    plain = [0, 0]
    for _ in range(40):
        found = plan.measure(prepared, system_bits())
        here = true[found.keys]
        for level in (0.5, 0.95):
            low, high = plan.mechanism.intervals(found, level)
            assert (low <= found.counts).all()
            assert (found.counts <= high).all()
            assert (low <= found.estimates).all()
            assert (found.estimates <= high).all()
            inside = (low <= here) & (here <= high)
            for lived in (False, True):
                own = hits.setdefault((level, lived), [0, 0])
                own[0] += int(inside[(here > 0) == lived].sum())
                own[1] += int(((here > 0) == lived).sum())
        reach = plan.noise.interval(0.95)[1]
        empty = here == 0
        plain[0] += int((found.estimates[empty] <= reach).sum())
        plain[1] += int(empty.sum())
    for (level, _), (inside, size) in hits.items():
        assert inside / max(size, 1) >= least(level, max(size, 1)) or size == 0
    if strategy == "tree":
        assert plain[0] / plain[1] < 0.93  # power: so many of the rows without people it would cover


@pytest.mark.parametrize("eps", ["0.1", "0.5", "3"])
def test_the_least_count_that_is_published_is_found(eps: str) -> None:
    """`_above` says what happens if the table is made again with a smaller noisy count in one cell: ties included."""
    plan, prepared, _ = table_plan(eps)
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    finest = strategy.chosen.levels.index(strategy.lattice.finest)
    shapes = [strategy.lattice.nodes(level) for level in strategy.chosen.levels]
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(4):
        found = plan.measure(prepared, system_bits())
        solved = _estimates(strategy, found)
        leaves = strategy.lattice.leaf(plan.layout, found.keys)
        for at in rng.choice(leaves.size, 40, replace=False).tolist():
            less = int(rng.integers(1, 3 + 6 / float(eps)))
            expected = solved._above(leaves[at : at + 1], 4 * less)[0] >= less
            noisy = [each.reshape(shape).copy() for each, shape in zip(found.noisy, shapes, strict=True)]
            noisy[finest].reshape(-1)[leaves[at]] -= less
            again = publish(
                noisy, plan.layout, strategy.lattice, strategy.chosen, strategy.noises, None, None
            )
            assert (found.keys[at] in again.keys) == expected
            seen.add(bool(expected))
    assert seen == {False, True}


SEVERAL: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "sex": ([Category("sex", ["F", "M", "X"])], {}),
    "Gaussian": ([Category("sex", ["F", "M"])], {"delta": "1e-6"}),
    "age and sex": ([Integer("age", 0, 39), Category("sex", ["F", "M"])], {"total": 300}),
    "sea": (
        [Category("sex", ["F", "M"])],
        {"impossible": {"row": [0, 1, 5], "col": [0, 1, 5], "sex": ["F", "F", "M"]}},
    ),
}


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize("eps", ["0.3", "2"])
def test_so_it_is_with_several_columns(kind: str, eps: str) -> None:
    """`Jointly.published` says what happens if the table is made again with another noisy count in one cell, more or less."""
    beside, more = SEVERAL[kind]
    side = 8 if kind == "age and sex" else 12
    domain = Domain([Grid("row", "col", shape=(side, side)), *beside])
    unit = Unit.cells(adjacency="replace") if "total" in more else Unit.cells()
    plan = tables.plan(domain, unit=unit, eps=eps, strategy="tree", count="n", **more)
    strategy, rng = plan.mechanism, np.random.default_rng(1)
    assert isinstance(strategy, PlannedTree)
    where = rng.integers(0, side, (2, 300))
    data: dict[str, Any] = {"row": where[0].tolist(), "col": where[1].tolist(), "sex": ["F", "M"] * 150}
    data |= {"age": rng.integers(0, 40, 300).tolist()} if len(beside) > 1 else {}
    prepared = plan.prepare(data | {"n": [1] * 300})
    lattice, possible = strategy.lattice, strategy.lattice.possible(plan.layout)
    finest = strategy.chosen.levels.index(lattice.finest)
    shapes = [lattice.nodes(level) for level in strategy.chosen.levels]
    seen = set()
    for _ in range(3):
        found = plan.measure(prepared, system_bits())
        solved = _estimates(strategy, found)
        leaves = lattice.leaf(plan.layout, found.keys)
        for at in rng.choice(leaves.size, min(30, leaves.size), replace=False).tolist():
            by = int(rng.integers(-round(12 / float(eps)), round(4 / float(eps))))
            expected = solved.jointly.published(leaves[at : at + 1], by)[0]
            noisy = [each.reshape(shape).copy() for each, shape in zip(found.noisy, shapes, strict=True)]
            noisy[finest].reshape(-1)[leaves[at]] += by
            facts = (plan.layout, lattice, strategy.chosen, strategy.noises, possible, strategy.total)
            assert (found.keys[at] in publish(noisy, *facts).keys) == expected
            seen.add(bool(expected))
    assert seen == {False, True}


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace(each) for each in ("1/700", "1/30", "0.2", "125/237", "125/79", "250/79", "9", "100")]
    + [DiscreteGaussian(each) for each in ("0.1", "6", "170", "6000")],
    ids=str,
)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_ends_from_a_threshold_cover(law: Any, level: float) -> None:
    """Computed, not drawn: given that the cell is published, and published or not, for any threshold and true count."""
    rule, far = from_threshold(law, level), sum(ends_of(law, level)) + 3
    for t in (-2 * far, -1, 0, 1, 2, far // 2, 3 * far):
        y = np.arange(t - math.ceil(20 * law.sd) - 9, t + 4 * far + math.ceil(20 * law.sd) + 9)
        shown = y >= t
        low, high = np.zeros(y.size, np.int64), np.maximum(y + rule.hidden, 0)
        low[shown], high[shown] = rule.ends(y[shown], y[shown] - t)
        assert (low <= np.maximum(y, 0)).all()
        assert (np.maximum(y, 0) <= high).all()
        for x in {max(t + k, 0) for k in (*range(-2, min(far, 30)), far, 2 * far, 3 * far, -far)}:
            chance = law.pmf(y - x)
            inside = (low <= x) & (x <= high)
            assert chance[inside].sum() >= level - 1e-9
            if chance[shown].sum() > 1e-9:
                assert chance[inside & shown].sum() >= (level - 1e-6) * chance[shown].sum()


@pytest.mark.parametrize(
    ("law", "spread"),
    [
        (DiscreteLaplace("1/30"), math.inf),
        (DiscreteLaplace("125/237"), math.inf),
        (DiscreteLaplace("125/79"), math.inf),
        (DiscreteGaussian("0.1"), 2.0),
        (DiscreteGaussian("6.2"), 5.2),
        (DiscreteGaussian(50), 1.5),
        (DiscreteGaussian(600), 5.2),
    ],
    ids=str,
)
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_ends_that_lean_on_other_counts_cover(law: Any, spread: float, level: float) -> None:
    """Computed, not drawn: on average over the coin, for any threshold, any true count, and whatever other counts say."""
    others, hidden = Others(law, spread), from_threshold(law, level).hidden
    coins: list[int | None] = [None] if law.sd > 8 else list(range(TURNS))
    far = sum(ends_of(law, level)) + 3
    for t in (-far, 1, 2 * far):
        for z in (t - 30 * law.sd, t - law.sd, t + 0.4, t + 3 * law.sd, t + 30 * law.sd):
            y = np.arange(t - math.ceil(20 * law.sd) - 9, t + 4 * far + math.ceil(50 * law.sd) + 9)
            shown = y >= t
            held = []
            for coin in coins:
                low, high = np.zeros(y.size, np.int64), np.maximum(y + hidden, 0)
                turns = None if coin is None else np.full(int(shown.sum()), coin)
                beyond = y[shown] - t
                low[shown], high[shown] = others.ends(y[shown], beyond, np.full(beyond.size, z), level, turns)
                assert (low <= np.maximum(y, 0)).all()
                assert (np.maximum(y, 0) <= high).all()
                held.append((low, high))
            for x in {max(t + k, 0) for k in (-far, -1, 0, 1, far // 3, far, 2 * far, round(z) - t)}:
                chance = law.pmf(y - x)
                inside = np.mean([(low <= x) & (x <= high) for low, high in held], axis=0)
                if chance.sum() < 1 - 1e-9:
                    continue  # too far away to be looked at here
                assert (chance * inside).sum() >= level - 1e-9
                if chance[shown].sum() > 1e-9:
                    assert (chance * inside)[shown].sum() >= (level - 1e-6) * chance[shown].sum()


@pytest.mark.parametrize("several", [False, True])
def test_what_other_counts_say_does_not_depend_on_the_cells_own(several: bool) -> None:
    """Which is what the proof needs: with another noisy count of the cell the estimate moves by `_own`, and z stays."""
    columns: list[Any] = [
        Grid("row", "col", shape=(16, 16)),
        *([Category("sex", ["F", "M"])] if several else []),
    ]
    for more in ({}, {"impossible": {"row": [3] * 9, "col": list(range(9))}}):
        more = more | ({"impossible": more["impossible"] | {"sex": ["F"] * 9}} if more and several else {})
        plan = tables.plan(Domain(columns), unit=Unit.cells(), eps=1, delta="1e-6", count="n", **more)
        strategy = plan.mechanism
        assert isinstance(strategy, PlannedTree)
        data: dict[str, Any] = {"row": [5, 9], "col": [5, 9], "sex": ["F", "M"], "n": [40, 9]}
        found = plan.measure(plan.prepare(data), system_bits())
        before = _estimates(strategy, found)
        noisy = [each.copy() for each in found.noisy]
        noisy[strategy.chosen.levels.index(strategy.lattice.finest)].reshape(-1)[100] += 1000
        after = _estimates(strategy, dataclasses.replace(found, noisy=tuple(noisy)))
        moved = after.leaves.reshape(-1)[100] - before.leaves.reshape(-1)[100]
        assert moved == pytest.approx(1000 * before._own)


def test_coins_are_the_tables_own_and_even() -> None:
    law = DiscreteLaplace(1)
    raw = law.sample(5000, system_bits())
    coins = Coins.of(raw, law)
    assert coins is not None
    all_ = coins.of_cells(np.arange(100_000))
    assert np.array_equal(all_[[7, 99_999]], Coins.of(raw.copy(), law).of_cells(np.array([7, 99_999])))  # type: ignore[union-attr]
    counts = np.bincount((all_ * 100).astype(int), minlength=100)
    assert ((counts - 1000) ** 2 / 1000).sum() < 190  # chi-square of 99 degrees: once in 10^7
    other = Coins.of(raw + (np.arange(5000) == 3), law)
    assert other is not None
    assert abs(np.corrcoef(all_, other.of_cells(np.arange(100_000)))[0, 1]) < 0.02
    assert Coins.of(raw[:10], law) is None  # too little noise to be taken for a coin
    assert Coins.of(raw, DiscreteLaplace("1/50")) is None


@pytest.mark.parametrize("law", [DiscreteLaplace("0.4"), DiscreteLaplace(2), DiscreteGaussian(30)], ids=str)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_two_levels_make_one(law: Any, level: float) -> None:
    found = mixture(law, level)
    if found is None:  # nothing is saved
        assert law != DiscreteLaplace(2) or level > 0.5
        return
    assert found.lower < level < found.higher < 1
    assert found.share * found.higher + (1 - found.share) * found.lower >= level


@pytest.mark.parametrize("law", [DiscreteLaplace("0.4"), DiscreteLaplace(9), DiscreteGaussian(30)], ids=str)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_chains_cover_whatever_is_published(law: Any, level: float) -> None:
    """Computed, not drawn: for sets without any order, the chance to cover given that the cell is published."""
    rng = np.random.default_rng(5)
    size = 12 * law.interval(0.99)[1]
    y = np.arange(-size, size + 1)
    worst, down = 1.0, chains(law, level)[0]
    for trial in range(12):
        sets = [
            rng.random(y.size) < rng.uniform(0.05, 0.95),
            y >= rng.integers(-9, 10),
            y % down.step == trial % 3,
        ]
        for published in sets:
            shown = np.flatnonzero(published)

            def would(some: Integers, more: int, shown: Integers = shown, all_: Any = published) -> Any:
                at = shown[some] + more
                return all_[np.clip(at, 0, y.size - 1)] & (at >= 0) & (at < y.size)

            low, high = ends(y[shown], law, level, would)
            for x in range(4):
                chance = law.pmf(y[shown] - x)
                inside = (low <= x) & (x <= np.maximum(high, 0))
                if chance.sum() > 1e-6:
                    worst = min(worst, float(chance[inside].sum() / chance.sum()))
    assert worst >= level - 1e-9
    plain = 2 * law.interval(level)[1] + 1
    up = chains(law, level)[1]
    assert down.reach + up.reach + 1 <= max(1.1 * plain, plain + 2)


@pytest.mark.parametrize(
    ("strategy", "more"),
    [("tree", {}), ("tree", {"delta": "1e-6"}), ("tree", {"publish": "0.1"}), ("filtered", {})],
    ids=["tree", "Gaussian", "publish", "filtered"],
)
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_no_printed_number_lies_outside_its_interval(
    strategy: str, more: dict[str, str], level: float
) -> None:
    """Rows and answers, value and estimate, on few people at eps .1, where the projection moves most."""
    plan, prepared, _ = table_plan("0.1", strategy, **more)
    rng = np.random.default_rng(8)
    found = plan.measure(prepared, system_bits())
    low, high = plan.mechanism.intervals(found, level)
    for printed in (found.counts, found.estimates):
        assert ((low <= printed) & (printed <= high)).all()
    for side in (1, 1, 1, 2, 4, 8, 13, 32):
        row, col = rng.integers(0, SIDE - side + 1, 2).tolist()
        where = {"row": (row, row + side - 1), "col": (col, col + side - 1)}
        answer = plan.mechanism.answer(found, where, level)
        assert 0 <= answer.low <= answer.value <= answer.high
        assert answer.estimate is None or answer.low <= answer.estimate <= answer.high


@pytest.mark.parametrize(("eps", "rows"), [("0.1", 1.1), ("1", 1.1), ("3", 1.15)])
def test_intervals_are_hardly_wider_than_the_exact_ones(eps: str, rows: float) -> None:
    """Whole numbers that are allowed, at 95%, against the exact interval of the same noisy number."""
    plan, prepared, _ = table_plan(eps)
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    allowed, exact, asked, bare = 0, 0, 0, 0
    for _ in range(6):
        found = plan.measure(prepared, system_bits())
        solved = _estimates(strategy, found)
        y = solved.raw[strategy.lattice.leaf(plan.layout, found.keys)]
        below, above = ends_of(solved.noise, 0.95)
        low, high = strategy.intervals(found, 0.95)
        allowed += int((high - low + 1).sum())
        exact += int((np.maximum(y + above, 0) - np.maximum(y - below, 0) + 1).sum())
        for side in (4, 8, 13):
            where = {"row": (3, 2 + side), "col": (8, 7 + side)}
            middle, error = solved.answer(choices(plan.layout, strategy.lattice, where))
            reach = error.reach(0.95)
            answer = strategy.answer(found, where, 0.95)
            asked += answer.high - answer.low + 1
            bare += max(math.floor(middle + reach), 0) - max(math.ceil(middle - reach), 0) + 1
    assert allowed <= rows * exact
    assert asked <= 1.1 * bare


@pytest.mark.parametrize("law", [DiscreteLaplace("0.4"), DiscreteLaplace(7), DiscreteGaussian(2)], ids=str)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_a_single_noise_is_covered_as_little_as_can_be(law: Any, level: float) -> None:
    below, above = ends_of(law, level)
    missed = float(law.cdf(-below - 1)) + float(law.cdf(-above - 1))
    assert missed <= 1 - level
    assert 2 * float(law.cdf(-below - 1)) <= 1 - level
    assert above == 0 or missed - float(law.cdf(-above - 1)) + float(law.cdf(-above)) > 1 - level


@pytest.mark.parametrize("scale", ["0.3", "2", "20"])
def test_the_reach_of_a_sum_of_noises_is_that_of_its_law(scale: str) -> None:
    law = DiscreteLaplace(scale)
    error = Error(((1.0, 1.0, law), (0.3, 4.0, law)))
    size = 200_000
    drawn = np.abs(law.sample(size) + 0.3 * law.sample((4, size)).sum(axis=0))
    for level in (0.5, 0.8, 0.95, 0.99):
        reach = error.reach(level)
        off = 6 * math.sqrt(level * (1 - level) / size)
        assert (drawn <= reach).mean() >= level - off
        assert (drawn <= reach - 0.03 * error.sd - 1e-3).mean() <= level + off


def test_the_weights_of_an_answer_are_those_of_least_squares() -> None:
    """The variance by kinds of node is that of the profiles; and the answer moves as they say."""
    domain = Domain([Grid("r", "c", shape=(8, 8)), Category("s", ["a", "b", "c"])])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1)
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    rng = np.random.default_rng(0)
    from oboro.tables.tree.workload import chosen

    for _ in range(5):
        choices = [rng.random(tree.leaves) < 0.4 for tree in lattice_of(domain).trees]
        error = error_of(strategy.lattice, strategy.chosen.levels, strategy.noises, strategy.moments, choices)
        profile = np.multiply.outer(
            *(chosen(t, c.astype(float)) for t, c in zip(strategy.lattice.trees, choices, strict=True))
        )
        assert error.variance == pytest.approx(float((profile / strategy.moments).sum()), rel=1e-6)


def test_an_interval_a_tenth_too_short_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: rows fall short of the level by far more than chance allows."""
    plan, prepared, true = table_plan("0.1")
    whole = Estimates.row_ends

    def short(self: Estimates, leaves: Integers, published: Integers, level: float) -> Any:
        low, high = whole(self, leaves, published, level)
        y = np.maximum(self.raw[leaves], 0)
        return np.ceil(y - 0.9 * (y - low)).astype(np.int64), np.floor(y + 0.9 * (high - y)).astype(np.int64)

    def covered() -> tuple[int, int]:
        hits = size = 0
        for _ in range(60):
            found = plan.measure(prepared, system_bits())
            low, high = plan.mechanism.intervals(found, 0.5)
            here = true[found.keys]
            hits, size = hits + int(((low <= here) & (here <= high)).sum()), size + here.size
        return hits, size

    hits, size = covered()
    assert hits / size >= least(0.5, size)
    monkeypatch.setattr(Estimates, "row_ends", short)
    hits, size = covered()
    assert hits / size < least(0.5, size)


@pytest.mark.parametrize("share", ["0.1", "0.02"])
def test_no_more_than_the_tolerated_share_of_published_cells_is_empty(share: str) -> None:
    """On average; today's rule, every cell above 0, has far more. Intervals hold, and totals stay consistent."""
    plan, prepared, true = table_plan("1", publish=share)
    empty, rows, hits = [], 0, 0
    for _ in range(60):
        found = plan.measure(prepared, system_bits())
        here = true[found.keys]
        empty.append(float((here == 0).mean()) if here.size else 0.0)
        low, high = plan.mechanism.intervals(found, 0.5)
        rows, hits = rows + here.size, hits + int(((low <= here) & (here <= high)).sum())
    assert np.mean(empty) <= float(share) + 5 * np.std(empty) / math.sqrt(60)
    assert hits / rows >= least(0.5, rows)
    without, _, _ = table_plan("1")
    all_cells = without.measure(prepared, system_bits())
    assert (true[all_cells.keys] == 0).mean() > float(share)
    table = plan.publish(found)
    whole = tables.ask(table)
    assert whole.value == sum(table.column("n").to_pylist()) + whole.spread
    assert whole.spread == sum(tables.unallocated(table).column("unallocated").to_pylist()) > 0
    halves = [tables.ask(table, {"row": rows}) for rows in ((0, 15), (16, 31))]
    assert abs(sum(half.value for half in halves) - whole.value) <= 1
    for answer in (whole, *halves, tables.ask(table, {"row": 3, "col": 4})):
        assert answer.low <= answer.value <= answer.high


def test_the_share_is_a_field_of_the_plan_that_older_records_lack() -> None:
    plan, _, _ = table_plan("1", publish="0.1")
    assert plan.to_dict()["publish_share"] == "0.1"
    assert plan_from(plan.to_dict()) == plan
    older = {name: value for name, value in plan.to_dict().items() if name != "publish_share"}
    assert plan_from(older).publish_share is None
    for wrong in ("0", "1", "2", "-1"):
        with pytest.raises(ParameterError, match="publish"):
            table_plan("1", publish=wrong)
    with pytest.raises(ParameterError, match="only a tree"):
        table_plan("1", "filtered", publish="0.1")
    assert "with publish" in str(plan.forecast(2000))
