"""Mean widths: of published rows beside those of version 0.1 and the least that any rule can have; of answers beside exact ones.

Version 0.1 took the least-squares estimate of a cell, give or take a number of standard errors: max(-ln(1 - level)/sqrt 2, the
normal quantile), and held what is published; it did not allow for rows being printed because their noise went up, nor for whole
numbers. Its rule stands below, on the same draws. "least" is a lower bound for any rule that looks at the noisy count y of a cell and its threshold t, even one made for this
table and with a coin, and holds the true count with the level given that the row is published: the mean number of counts in an interval is
the sum, over all x, of the chance that it holds x [Pratt 1961], and an interval holds one count at least. With q(x, y) the chance that the
interval of y holds x that is a linear program. And an interval holds the two numbers that are printed, the count and its estimate: it is no
narrower than they lie apart, and at least one person wider for each row that holds nobody, and must be covered, but is not by these two. The larger
bound counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack
from scipy.special import ndtri

from bench.measure import Row
from oboro.audit.coverage import EPS, LEVELS
from oboro.audit.figures import _plan, _questions, people
from oboro.domain import Category, Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Unit
from oboro.tables.plan import TablePlan
from oboro.tables.plan import plan as table_plan
from oboro.tables.tree.answers import choices
from oboro.tables.tree.strategy import PlannedTree, _estimates, _leaves

RUNS = 20
SEXES = ["F", "M", "X"]
_FAR = 12  # standard deviations beyond which no row is looked at


def rows() -> Iterator[Row]:
    """Ours beside 0.1's and beside the least, at each eps and level, Laplace and Gaussian noise, one column and two."""
    for name, delta in (("", None), (", Gaussian", "1e-6")):
        for beside in ("", " by sex"):
            for eps in EPS:
                for level, (ours, old, least, covered) in widths(eps, delta, by_sex=bool(beside)).items():
                    what = f"rows{beside}{name}, eps {eps}, {level:.0%}"
                    known = f"0.1, which covered {covered:.1%} of rows that hold nobody"
                    yield Row(what, ours, known, old, "wide", old / ours)
                    if least is not None:
                        yield Row(what, ours, "least of any rule", least, "wide", least / ours)

    for eps in EPS:
        for level, (ours, exact) in answers(eps).items():
            what = f"blocks and rectangles, eps {eps}, {level:.0%}"
            yield Row(what, ours, "exact interval of the same estimate", exact, "wide", exact / ours)


def answers(eps: str) -> dict[float, tuple[float, float]]:
    """By level: the mean width of questions asked beforehand, and that of the exact interval, which need not hold the value."""
    plan, true = _plan(eps, "tree"), people()
    strategy, places = plan.mechanism, np.nonzero(true)
    assert isinstance(strategy, PlannedTree)
    prepared = plan.prepare(
        {"row": places[0].tolist(), "col": places[1].tolist(), "n": true[places].tolist()}
    )
    asked = [where for what, where, _ in _questions(true) if what != "cells"]
    found = {level: [0, 0] for level in LEVELS}
    for _ in range(RUNS):
        table = plan.measure(prepared, system_bits())
        solved = _estimates(strategy, table)
        for where in asked:
            middle, error = solved.answer(choices(plan.layout, strategy.lattice, where))
            for level, tally in found.items():
                answer, away = strategy.answer(table, where, level), error.reach(level)
                tally[0] += answer.high - answer.low
                tally[1] += max(math.floor(middle + away), 0) - max(math.ceil(middle - away), 0)
    times = RUNS * len(asked)
    return {level: (ours / times, exact / times) for level, (ours, exact) in found.items()}


def widths(
    eps: str, delta: str | None, *, by_sex: bool = False
) -> dict[float, tuple[float, float, float | None, float]]:
    """By level: our mean width, 0.1's, the least, and how often 0.1's held rows that hold nobody."""
    plan, true = _by_sex(eps, delta) if by_sex else (_plan(eps, "tree", delta=delta), people())
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    places = np.nonzero(true)
    data: dict[str, Any] = {"row": places[0].tolist(), "col": places[1].tolist(), "n": true[places].tolist()}
    if by_sex:
        data["sex"] = [SEXES[i] for i in places[2]]
    prepared, sd = plan.prepare(data), math.sqrt(strategy.variance(0))
    sums: dict[float, list[Any]] = {level: [0, 0.0, 0.0, 0, 0] for level in LEVELS}
    apart, reached = 0, 0  # the two numbers that are printed; rows that hold nobody where one of them is 0
    seen: dict[int, dict[int, int]] = {}  # by threshold: how many rows have which true count
    for _ in range(RUNS):
        found = plan.measure(prepared, system_bits())
        solved, leaves = _estimates(strategy, found), _leaves(strategy, found)
        here = true[tuple(plan.layout.places(found.keys))]
        coarse = solved.noise.sd < 1
        own = np.maximum(solved.raw[leaves], 0)
        apart += int(np.abs(own - found.counts).sum())
        reached += int(((here == 0) & (own == 0)).sum())
        if coarse and not by_sex:
            thresholds = solved.raw[leaves] - solved._above(leaves, math.ceil(_FAR * solved.noise.sd))
            for t, x in zip(thresholds.tolist(), here.tolist(), strict=True):
                times = seen.setdefault(t, {})
                times[x] = times.get(x, 0) + 1
        middle = solved.leaves.reshape(-1)[leaves]
        for level, tally in sums.items():
            low, high = strategy.intervals(found, level)
            away = max(-math.log1p(-level) / math.sqrt(2), float(ndtri(0.5 + level / 2))) * sd
            first = np.minimum(np.maximum(np.ceil(middle - away), 0), found.counts)
            last = np.maximum(np.maximum(np.floor(middle + away), 0), found.counts)
            empty = here == 0
            tally[0] += here.size
            tally[1] += float((high - low).sum())
            tally[2] += float((last - first).sum())
            tally[3] += int((empty & (first == 0)).sum())
            tally[4] += int(empty.sum())
    least = _least(seen, solved.noise) if seen else {}

    def bound(level: float, size: int, nobody: int) -> float | None:
        printed = (apart + max(level * nobody - reached, 0.0)) / size
        return max(least.get(level, 0.0), printed) if coarse else None

    return {
        level: (ours / size, old / size, bound(level, size, nobody), hits / max(nobody, 1))
        for level, (size, ours, old, hits, nobody) in sums.items()
    }


def _by_sex(eps: str, delta: str | None) -> tuple[TablePlan, Any]:
    """The audit's table of two columns."""
    domain = Domain([Grid("row", "col", shape=(32, 32)), Category("sex", SEXES)])
    plan = table_plan(domain, unit=Unit.cells(), eps=eps, delta=delta, count="n", strategy="tree")
    return plan, np.random.default_rng(3).multinomial(people()[:32, :32], [0.5, 0.4, 0.1])


def _least(seen: dict[int, dict[int, int]], noise: Any) -> dict[float, float]:
    """The least mean width of any rule by y and t, for rows with these thresholds and true counts."""
    found = dict.fromkeys(LEVELS, 0.0)
    size = sum(sum(own.values()) for own in seen.values())
    for t, own in seen.items():
        for level in LEVELS:
            found[level] += _program(t, own, noise, level)
    return {level: counts / size - 1 for level, counts in found.items()}


def _program(t: int, own: dict[int, int], noise: Any, level: float) -> float:
    """The least number of counts in the intervals of rows with this threshold: counts far from all of them are left out,
    which makes the bound smaller, never larger."""
    reach = math.ceil(_FAR * noise.sd)
    y = np.arange(t, max(max(own), t, 0) + reach + 1)
    here = np.zeros(y.size)
    for x, times in own.items():
        law = noise.pmf(y - x)
        here += times * law / law.sum()
    xs = np.arange(max(int(y[-1]) - reach, t) + 1)
    xs = xs[(xs >= 0) & (xs >= t - reach)]
    laws = np.array([noise.pmf(y - x) for x in xs])
    laws /= laws.sum(axis=1, keepdims=True)
    pairs = np.nonzero(laws > 1e-12)
    number = np.arange(pairs[0].size)
    held = coo_array((laws[pairs], (pairs[0], number)), shape=(xs.size, number.size))
    some = coo_array((np.ones(number.size), (pairs[1], number)), shape=(y.size, number.size))
    none = np.asarray(some.sum(axis=1)).reshape(-1) == 0  # what only counts beyond these could hold
    limits = np.concatenate([np.full(xs.size, level - 1e-9), np.where(none, 0.0, 1.0)])
    solved = linprog(here[pairs[1]], A_ub=-vstack([held, some]).tocsr(), b_ub=-limits, bounds=(0, 1))
    return float(solved.fun)
