"""Intervals where the table was divided as people were found: blocks counted first, then parts of those that hold some.

Let e be the noise of what was counted first (blocks, all of them), and of each later round: the parts of a node are
counted with fresh noise once it was decided, from earlier rounds, to divide it. So given what was divided, the noise of
any sum of parts has mean 0 and a known variance. What must not be done is to add up nodes that were chosen because
they came out low or high.

A question cuts through some nodes. Those wholly inside it give a lower bound for the true number: sum them up, at
every round. For an upper bound start with all blocks that it touches. If all that it cuts through were divided, take
the parts that it touches instead; from the first round on where some were not, take off the parts of the others that
lie outside. Either way only whole rounds are chosen, one of (rounds + 1) ways, and each bound is made for a chance of
error that many times smaller. A question that cuts through no block has the least-squares answer, and needs none of
this.

Conservative: people may be anywhere in a node that is cut through and not divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.layout import Layout
from oboro.tables.tree.intervals import reach
from oboro.tables.tree.lattice import Lattice, Level
from oboro.tables.tree.region import Region, everything
from oboro.tables.tree.solve import least_squares, moments
from oboro.tables.tree.workload import chosen


@dataclass(frozen=True)
class Top:
    """The blocks that were counted first: all of them, each 2^height cells, with least-squares estimates."""

    layout: Layout
    height: int
    estimates: Floats
    variance: Callable[[Bools], float]  # of the sum of some blocks

    def sum(self, some: Bools) -> Sum:
        return Sum(float(self.estimates[some].sum()), self.variance(some))


@dataclass(frozen=True)
class Round:
    """Nodes that were divided, each named by its first key, and the noisy counts of their parts."""

    parents: Integers  # in increasing order
    heights: Integers  # of the parts of each, which have 2^height cells
    arities: Integers  # how many parts each has
    noisy: Integers  # of all parts, one parent after the other
    variance: float

    def parts_of(self, nodes: Integers) -> tuple[Integers, Integers, Integers, int]:
        """First keys, heights and noisy counts of the parts of those nodes that were divided; and how many were."""
        places = np.flatnonzero(np.isin(self.parents, nodes))
        arities = self.arities[places]
        starts = (np.cumsum(self.arities) - self.arities)[places]
        own = np.arange(int(arities.sum())) - np.repeat(np.cumsum(arities) - arities, arities)
        heights = np.repeat(self.heights[places], arities)
        first = np.repeat(self.parents[places], arities) + (own << heights)
        return first, heights, self.noisy[np.repeat(starts, arities) + own], places.size


@dataclass(frozen=True)
class Sum:
    """A sum of noisy counts, and the variance of its noise."""

    value: float
    variance: float

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.value + other.value, self.variance + other.variance)

    def __sub__(self, other: Sum) -> Sum:
        return Sum(self.value - other.value, self.variance + other.variance)

    @property
    def error(self) -> float:
        return math.sqrt(max(self.variance, 0.0))


@dataclass(frozen=True)
class Bounds:
    """The true number is between `low` and `high`; neither is whole yet, and `low` may be negative."""

    low: float
    high: float
    error: float
    cut: bool  # whether the question cuts through a block


def least_squares_top(
    layout: Layout,
    height: int,
    lattice: Lattice,
    levels: Sequence[Level],
    precisions: Sequence[float],
    noisy: Sequence[Integers],
    total: int | None = None,
) -> Top:
    """Blocks from the noisy counts of some of their levels."""
    tree = lattice.trees[0]
    mu = moments(lattice, levels, precisions)

    def variance(some: Bools) -> float:
        return float((chosen(tree, some.astype(float)) / mu).sum()) if some.any() else 0.0

    return Top(layout, height, least_squares(lattice, levels, precisions, noisy, total), variance)


def bounds(top: Top, rounds: Sequence[Round], region: Region, level: float) -> Bounds:
    """A lower and an upper bound for the number of people in a region."""
    first = np.arange(top.estimates.size, dtype=np.int64) << top.height
    inside, touched = _lies(region, first, np.full(first.size, top.height))
    lower, upper = top.sum(inside), top.sum(touched)
    nodes = first[touched & ~inside]
    if nodes.size == 0:
        away = reach(level) * lower.error
        return Bounds(lower.value - away, lower.value + away, lower.error, False)
    all_divided = True
    for each in rounds:
        first, heights, noisy, divided = each.parts_of(nodes)
        inside, touched = _lies(region, first, heights)

        def part(some: Bools, noisy: Integers = noisy, variance: float = each.variance) -> Sum:
            return Sum(float(noisy[some].sum()), int(some.sum()) * variance)

        all_divided = all_divided and divided == nodes.size
        upper = lower + part(touched) if all_divided else upper - part(~touched)
        lower = lower + part(inside)
        nodes = first[touched & ~inside]
    away = reach(1 - (1 - level) / (len(rounds) + 1))
    return Bounds(lower.value - away * lower.error, upper.value + away * upper.error, upper.error, True)


def _lies(region: Region, first: Integers, heights: Integers) -> tuple[Bools, Bools]:
    """Which nodes lie wholly inside a region, and which touch it. One without cells does neither."""
    asked, whole = np.zeros(first.size, np.int64), np.zeros(first.size, np.bool_)
    every = everything(region.layout)
    for height in np.unique(heights).tolist():
        here = np.flatnonzero(heights == height)
        asked[here] = region.cells(first[here], height)
        some = here[asked[here] > 0]
        whole[some] = asked[some] == every.cells(first[some], height)
    return whole, asked > 0
