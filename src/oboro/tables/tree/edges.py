"""Questions whose edge runs through blocks, where every round divides each node or counts it again.

Nothing is then chosen by the question, and counts of several rounds can be put together. Blocks that lie wholly inside are taken as they
were counted first. Those on the edge are taken by least squares over all that was counted of them, for the parts that lie wholly inside, a lower
bound, and for those that are touched, an upper one. Where these are the same parts the question has an answer.

Let a node have children c, p the precision of its own count, a that of its own count and all below it together, S the sum of 1/a_c. If it
holds x people, those in a choice of parts below it are estimated by g + b x, where g comes from counts below it alone:

    up      b = sum of b_c / (a_c S),   from b = 1 for parts that are chosen and 0 for others;   a = p + 1/S
    down    what is known of c by its own count and all below it has weight  u_c = u / (a S) + b_c - b,   and p/a of it is that of its own count

At the block itself, what was counted first has variance v and weight  l = b S / (v + S),  and  u_c = b_c - l.

Into how many parts a node on the edge is divided follows from noise that is in the same sum: that the level holds is measured, not proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.strategy import Noise
from oboro.tables.tree.answers import Bounds, Region, Round, Sum, Top, around, lies
from oboro.tables.tree.division import CERTAIN, Nodes
from oboro.tables.tree.errors import Error
from oboro.tables.tree.workload import precision


def bounds_across(top: Top, rounds: Sequence[Round], region: Region, level: float) -> Bounds:
    """A lower and an upper bound for the number of people in a region."""
    first = np.arange(top.estimates.size, dtype=np.int64) << top.height
    inside, touched = lies(region, first, np.full(first.size, top.height))
    edge = np.flatnonzero(touched & ~inside)
    if edge.size == 0:
        return around(top.sum(inside.astype(float)), level)
    below, nodes, held = [], first[edge], (inside, touched)
    for each in rounds:
        starts, heights, noisy, arities = each.parts_of(nodes)
        possible = Nodes(starts, heights).possible(region.layout)
        below.append(_Counts(np.repeat(np.arange(nodes.size), arities), noisy, possible, each.noise))
        nodes, held = starts, lies(region, starts, heights)

    def sum_of(parts: Bools) -> Sum:
        of_edge, found = _least_squares(below, parts, top.variance, edge.size)
        weights = inside.astype(float)
        weights[edge] = of_edge
        return top.sum(weights) + found

    lower = sum_of(held[0])
    if (held[0] == held[1]).all():
        return around(lower, level)
    upper = sum_of(held[1])
    low, high = lower.value - lower.error.reach(level), upper.value + upper.error.reach(level)
    return Bounds(low, high, upper.error, None)


@dataclass(frozen=True, eq=False)
class _Counts:
    """What one round counted below the blocks on the edge: whose child each node is, and which can hold somebody."""

    parents: Integers
    noisy: Integers
    possible: Bools
    noise: Noise

    @property
    def precisions(self) -> Floats:
        return np.where(self.possible, precision(self.noise), CERTAIN)

    def sum(self, weights: Floats) -> Sum:
        some = weights[self.possible]
        value = float(some @ self.noisy[self.possible])
        return Sum(value, Error.of(some, np.ones(some.size), self.noise))


def _least_squares(below: Sequence[_Counts], parts: Bools, v: float, blocks: int) -> tuple[Floats, Sum]:
    """For a choice of parts of the last round: the weights of blocks, and the sum over all that was counted below them."""
    own = below[-1]
    a, b = own.precisions, (parts & own.possible).astype(float)
    up = []
    for at in range(len(below) - 1, -1, -1):
        several = below[at - 1].parents.size if at else blocks
        s = np.bincount(below[at].parents, 1 / a, several)
        up.append((a, b, s))
        b = np.bincount(below[at].parents, b / a, several) / s
        a = below[at - 1].precisions + 1 / s if at else a
    weights = b * up[-1][2] / (v + up[-1][2])
    found, carried = Sum(0.0, Error()), -weights
    for at, own in enumerate(below):
        a, b, _ = up[-1 - at]
        u = b + carried[own.parents]
        last = at == len(below) - 1
        found += own.sum(u if last else u * own.precisions / a)
        if not last:
            carried = u / (a * up[-2 - at][2]) - b
    return weights, found
