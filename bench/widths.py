"""Mean widths: of published rows beside those of version 0.1 and the least that any rule can have; of answers beside exact ones.

Version 0.1 took the least-squares estimate of a cell, give or take a number of standard errors: max(-ln(1 - level)/sqrt 2, the
normal quantile), and held what is published; it did not allow for rows being printed because their noise went up, nor for whole
numbers. Its rule stands below, on the same draws.

"least" is a lower bound for any rule that holds what it prints and, given that the row is published, every true count with the level,
whatever all other counts are: even for one that knows the truth of this table, and has a coin. Let all other noise be fixed, S be the noisy counts
with which the cell is published, and q(k, y) the chance that the interval of y holds k. The mean number of counts in an interval is the sum of the
means of q(k, y) over all k [Pratt 1961], here under the true count x; given k as the true count the mean of q(k, y) is the level at least; and q(k, y)
is 1 for what is printed with y and all between. For each k that is least where those y hold k first whose chance under x is smallest beside
that under k. Counts k further than `_NEAR` from x need hold nothing more, which makes the bound smaller, never larger. Of a table of several columns both numbers of a row are known
for every y, the count and its estimate; of one column the estimate, and that the count is 1 or more, which makes the bound smaller as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri

from bench.measure import Row
from oboro.arrays import Floats, Integers
from oboro.audit.coverage import EPS, LEVELS
from oboro.audit.figures import _plan, _questions, people
from oboro.domain import Category, Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Unit
from oboro.tables.plan import TablePlan
from oboro.tables.plan import plan as table_plan
from oboro.tables.tree.answers import choices
from oboro.tables.tree.intervals import Estimates
from oboro.tables.tree.strategy import PlannedTree, _estimates, _leaves

RUNS = 20
SEXES = ["F", "M", "X"]
_FAR = 12  # standard deviations beyond which no noisy count is looked at
_NEAR = 3  # how far from the truth counts are that must be held


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
    least: dict[float, float] | None = None
    for _ in range(RUNS):
        found = plan.measure(prepared, system_bits())
        solved, leaves = _estimates(strategy, found), _leaves(strategy, found)
        here = true[tuple(plan.layout.places(found.keys))]
        if solved.noise.sd < 1:
            y, printed = _printed(solved, leaves, by_sex=by_sex)
            least = least or dict.fromkeys(LEVELS, 0.0)
            for level in LEVELS:
                least[level] += float(_least(y, printed, here, solved.noise, level).sum())
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
    return {
        level: (ours / size, old / size, least and least[level] / size, hits / max(nobody, 1))
        for level, (size, ours, old, hits, nobody) in sums.items()
    }


def _by_sex(eps: str, delta: str | None) -> tuple[TablePlan, Any]:
    """The audit's table of two columns."""
    domain = Domain([Grid("row", "col", shape=(32, 32)), Category("sex", SEXES)])
    plan = table_plan(domain, unit=Unit.cells(), eps=eps, delta=delta, count="n", strategy="tree")
    return plan, np.random.default_rng(3).multinomial(people()[:32, :32], [0.5, 0.4, 0.1])


def _printed(solved: Estimates, leaves: Integers, *, by_sex: bool) -> tuple[Integers, Integers]:
    """All noisy counts that each row might have had, and what it would have held then: 0 if it were not published."""
    reach = math.ceil(_FAR * solved.noise.sd)
    more = np.arange(-reach, reach + 1)
    y = solved.raw[leaves][:, None] + more
    if by_sex:
        return y, np.stack([solved.jointly.held(leaves, each) for each in more.tolist()], axis=1)
    threshold = solved.raw[leaves] - solved._above(leaves, reach)
    return y, np.where(y >= threshold[:, None], np.maximum(y, 1), 0)


def _least(y: Integers, printed: Integers, x: Integers, noise: Any, level: float) -> Floats:
    """The least mean width of each row: its noisy counts, what is printed with each, and its true count."""
    estimate = np.maximum(y, 0)
    low, high = np.minimum(estimate, printed), np.maximum(estimate, printed)

    def law(k: Integers) -> Floats:
        chance = np.where(printed > 0, noise.pmf(y - k[:, None]), 0.0)
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    own = law(x)
    found = np.asarray((own * (high - low)).sum(axis=1))
    for away in range(-_NEAR, _NEAR + 1):
        k = np.maximum(x + away, 0)
        chance = law(k)
        held = (low <= k[:, None]) & (k[:, None] <= high)
        lacks = np.where(x + away >= 0, level - (chance * held).sum(axis=1), 0.0)
        price = own / np.maximum(chance, 1e-300)
        order = np.argsort(np.where(held, np.inf, price), axis=1)
        chance, price = (np.take_along_axis(each, order, 1) for each in (np.where(held, 0.0, chance), price))
        before = np.cumsum(chance, axis=1) - chance
        found += (np.clip(lacks[:, None] - before, 0, chance) * price).sum(axis=1)
    return found
