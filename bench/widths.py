"""Mean widths: of published rows beside those of version 0.1 and the least that any rule can have; of answers beside exact ones.

Version 0.1 took the least-squares estimate of a cell, give or take a number of standard errors: max(-ln(1 - level)/sqrt 2, the
normal quantile), and held what is published; it did not allow for rows being printed because their noise went up, nor for whole
numbers. Its rule stands below, on the same draws. "least" is a lower bound for any rule that looks at the noisy count y of a cell and its threshold t, even one made for this
table, and holds the true count with the level given that the row is published: the mean number of counts in an interval is
the sum, over all x, of the chance that it holds x [Pratt 1961]. For each x that is least if those y are taken first whose chance
here is smallest beside their chance under x; and a y is taken or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri

from bench.measure import Row
from oboro.audit.coverage import EPS, LEVELS
from oboro.audit.figures import _plan, _questions, people
from oboro.noise import system_bits
from oboro.tables.tree.answers import choices
from oboro.tables.tree.strategy import PlannedTree, _estimates, _leaves

RUNS = 20
_FAR = 12  # standard deviations beyond which no row is looked at


def rows() -> Iterator[Row]:
    """Ours beside 0.1's and beside the least, at each eps and level, Laplace and Gaussian noise."""
    for name, delta in (("", None), (", Gaussian", "1e-6")):
        for eps in EPS:
            for level, (ours, old, least, covered) in widths(eps, delta).items():
                what = f"rows{name}, eps {eps}, {level:.0%}"
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


def widths(eps: str, delta: str | None) -> dict[float, tuple[float, float, float | None, float]]:
    """By level: our mean width, 0.1's, the least, and how often 0.1's held rows that hold nobody."""
    plan, true = _plan(eps, "tree", delta=delta), people()
    strategy = plan.mechanism
    assert isinstance(strategy, PlannedTree)
    places = np.nonzero(true)
    data = {"row": places[0].tolist(), "col": places[1].tolist(), "n": true[places].tolist()}
    prepared, sd = plan.prepare(data), math.sqrt(strategy.variance(0))
    sums: dict[float, list[Any]] = {level: [0, 0.0, 0.0, 0, 0] for level in LEVELS}
    seen: dict[int, dict[int, int]] = {}  # by threshold: how many rows have which true count
    for _ in range(RUNS):
        found = plan.measure(prepared, system_bits())
        solved, leaves = _estimates(strategy, found), _leaves(strategy, found)
        here = true[tuple(plan.layout.places(found.keys))]
        y = solved.raw[leaves]
        thresholds = y - solved._above(leaves, math.ceil(_FAR * solved.noise.sd))
        for t, x in zip(thresholds.tolist(), here.tolist(), strict=True):
            own = seen.setdefault(t, {})
            own[x] = own.get(x, 0) + 1
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
    coarse = solved.noise.sd < 3
    least = _least(seen, solved.noise) if coarse else {}
    return {
        level: (ours / size, old / size, least.get(level), hits / max(nobody, 1))
        for level, (size, ours, old, hits, nobody) in sums.items()
    }


def _least(seen: dict[int, dict[int, int]], noise: Any) -> dict[float, float]:
    """The least mean width of any rule by y and t, for rows with these thresholds and true counts."""
    reach = math.ceil(20 * noise.sd) + 4
    counts, size = dict.fromkeys(LEVELS, 0.0), sum(sum(own.values()) for own in seen.values())
    for t, own in seen.items():
        y = np.arange(t, max(max(own), t, 0) + reach)
        here = np.zeros(y.size)
        for x, times in own.items():
            law = noise.pmf(y - x)
            here += times * law / law.sum()
        near = {each for x in own for each in range(max(x - reach, 0), x + reach)} | set(range(max(t, 0) + 1))
        for x in near:
            law = noise.pmf(y - x)
            if law.sum() <= 1e-300:
                continue
            chance = law / law.sum()
            order = np.argsort(here / np.maximum(chance, 1e-300))
            for level in LEVELS:
                counts[level] += _cover(here[order], chance[order], level)
    return {level: found / size - 1 for level, found in counts.items()}


def _cover(cost: Any, chance: Any, level: float) -> float:
    """The least cost of whole numbers that have the level together: those without which it is not reached, and of the others
    the cheapest as if they could be divided, but at least one of them."""
    forced = chance.sum() - chance < level
    left = level - float(chance[forced].sum())
    found = float(cost[forced].sum())
    if left <= 1e-12:
        return found
    cost, chance = cost[~forced], chance[~forced]
    before = np.clip(left - (np.cumsum(chance) - chance), 0, chance)
    divided = float((cost * before / np.maximum(chance, 1e-300)).sum())
    return found + max(divided, float(cost[chance > 1e-12].min(initial=math.inf)))
