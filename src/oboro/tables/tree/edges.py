"""Questions whose edge runs through blocks, where every round divides each node or counts it again.

Nothing is then chosen by the question, and counts of several rounds can be put together: for the parts that lie wholly inside, a lower
bound, and for those that are touched, an upper one. Where these are the same parts the question has an answer.

How far a node is divided follows from noise that is in the same sum: an empty block is divided where its noise was high. So no weight may follow
from how the node was divided later, as those of least squares over the nodes that there are would: over a thousand blocks on an edge a small
bias of each is far more than the error of their sum. Weights here are *known beforehand*: that of a count follows from public facts and
from counts before it. Then the noise of each count has mean 0 given its weight, and so has that of the sum.

With f the share of a node's cells that are asked for, and w the weights of counts above a node,

    a block, as it was counted first     k f
    a node of a later round              r (f - sum of w)
    a part of the last round             1 or 0, as it is chosen or not, - sum of w

add up to 1 for every part that is chosen, and to 0 for others. Where people are many, k and r are those of least squares in a tree that is
divided down to the heights of all rounds, which this one then is, all but where few live. Where they are few, hardly a block on an edge is divided, and each node that lies wholly inside is taken as it was
counted first: k = 0, and r = 1 if f = 1, else 0. Which of both it is follows from the noisy number of all people. That is one number: it depends on the noise of a block by a
hair, and only where there are about as many people as the limit between both.

The variance is that of the weights, which follow from earlier noise in part; that the level holds for their sum is measured, not proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.strategy import Noise
from oboro.tables.tree.answers import Bounds, Region, Round, Sum, Top, around, everything, lies
from oboro.tables.tree.division import Nodes
from oboro.tables.tree.errors import Error
from oboro.tables.tree.workload import precision


def bounds_across(
    top: Top, rounds: Sequence[Round], region: Region, level: float, many: Sequence[int] | None
) -> Bounds:
    """A lower and an upper bound for the number of people in a region; `many` are the heights of all rounds, if people are many."""
    first = np.arange(top.estimates.size, dtype=np.int64) << top.height
    inside, touched = lies(region, first, np.full(first.size, top.height))
    edge = np.flatnonzero(touched & ~inside)
    weights = inside.astype(float)
    if edge.size == 0:
        return around(top.sum(weights), level)
    shares = None if many is None else _shares(top, rounds, many)
    nodes, heights = first[edge], np.full(edge.size, top.height)
    if shares is not None:
        weights[edge] = shares[0] * _asked(region, nodes, heights)
    found, above = top.sum(weights), weights[edge]
    for at, each in enumerate(rounds):
        nodes, heights, noisy, arities = each.parts_of(nodes)
        counts = _Counts(noisy, Nodes(nodes, heights).possible(region.layout), each.noise)
        above = np.repeat(above, arities)
        if at + 1 < len(rounds):
            f = _asked(region, nodes, heights)
            own = (f == 1) * (1 - above) if shares is None else shares[at + 1] * (f - above)
            found, above = found + counts.sum(own), above + own
    inside, touched = lies(region, nodes, heights)
    lower, upper = (found + counts.sum(parts - above) for parts in (inside, touched))
    if (inside == touched).all():
        return around(lower, level)
    low, high = lower.value - lower.error.reach(level), upper.value + upper.error.reach(level)
    return Bounds(low, high, upper.error, None)


def _shares(top: Top, rounds: Sequence[Round], heights: Sequence[int]) -> list[float]:
    """k, and r for every round but the last: those of least squares where all is divided."""
    a, found = precision(rounds[-1].noise), []
    for at in range(len(rounds) - 2, -1, -1):
        own = precision(rounds[at].noise)
        found.append(own / (own + a / 2 ** (heights[at] - heights[at + 1])))
        a = own + a / 2 ** (heights[at] - heights[at + 1])
    below = 2 ** (top.height - heights[0]) / a  # the variance of a block by what was counted later
    return [below / (top.variance + below), *reversed(found)]


def _asked(region: Region, first: Integers, heights: Integers) -> Floats:
    """The share of the cells of each node that a question asks for."""
    found, every = np.zeros(first.size), everything(region.layout)
    for height in np.unique(heights).tolist():
        here = np.flatnonzero(heights == height)
        found[here] = region.cells(first[here], height) / np.maximum(every.cells(first[here], height), 1)
    return found


@dataclass(frozen=True, eq=False)
class _Counts:
    """What one round counted below the blocks on the edge; 0 without noise where nobody can be."""

    noisy: Integers
    possible: Bools
    noise: Noise

    def sum(self, weights: Floats) -> Sum:
        some = weights[self.possible]
        return Sum(float(some @ self.noisy[self.possible]), Error.of(some, np.ones(some.size), self.noise))
