"""The method that 0.1 called `adaptive`: its records load as `adaptive-0.1`, and its tables answer questions.

Few people in many cells: a grid that is as fine as the people in each block allow.

Only where a public total N says that cells hold next to nobody: N eps / cells < 1. Above that rule a planned tree is
better.

What is measured, each once
    quarters of the table      a tenth of eps
    a grid of 16 x 16 blocks   two tenths: least squares and projection with the quarters give each block's count t
    parts of blocks            seven tenths: a block is divided into about t eps / 5 parts, 1, 4, 16, ... of them
A block's count is shared out among its parts; a part's count evenly among its cells, the odd ones by chance.

This pays because noise on a part does not grow with its size, while what is lost by spreading people evenly is small
where there are few of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.domain import Grid
from oboro.errors import ParameterError, setting, told
from oboro.exact import show
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import check_level
from oboro.privacy import Unit
from oboro.release import Part, part
from oboro.tables.cells import Cells
from oboro.tables.strategy import Strategy, counts_move
from oboro.tables.tree.answers import Region, Round, Top, Where, bounds, least_squares_top, region_of
from oboro.tables.tree.intervals import MOST, Answer, hull, in_shapes, may_lack_intervals
from oboro.tables.tree.lattice import Lattice, Level, lattice_of
from oboro.tables.tree.measure import Measured, project
from oboro.tables.tree.planner import least_squares, moments
from oboro.tables.tree.workload import block, precision

# What the file of an adaptive table says beside its cells: intervals for these, and answers to any question.


_UNDIVIDED = 0.1  # of what may be missed: in blocks that were not divided
_SLACK = 4  # people that rounding may take from a block, at worst


def adaptive_intervals(
    strategy: OlderAdaptive, published: Measured, level: float
) -> tuple[Integers, Integers]:
    """Intervals for the rows of a published table, given that they are published.

    A cell holds no more than its part does, whose count y is known up to noise that was drawn after it was decided how
    to divide its block. If the part is a single cell, there is a lower end too, unless the cell would not be published
    with y - w - 1: see `Estimates.row_ends`, whose proof needs no more than an upper bound on the least y that is
    published. Its block would hold at most as much less as the block's count follows its parts. Cells of blocks that were
    not divided hold no more than their block, for which a tenth of what may be missed is kept.
    """
    top, parts = _measured(strategy, published)
    keys = published.keys
    block = keys >> top.height
    each = np.eye(1, top.estimates.size, dtype=np.bool_)[0]
    miss = 1 - check_level(level)
    high = np.floor(top.estimates[block] + top.error(each).reach(1 - 2 * _UNDIVIDED * miss))
    low = np.zeros(keys.size)
    if parts.parents.size:
        reach = parts.noise.interval(1 - (1 - _UNDIVIDED) * miss)[1]
        at = np.minimum(np.searchsorted(parts.parents, block << top.height), parts.parents.size - 1)
        divided = parts.parents[at] == block << top.height
        starts = np.cumsum(parts.arities) - parts.arities
        place = np.where(divided, starts[at] + ((keys - parts.parents[at]) >> parts.heights[at]), 0)
        noisy = parts.noisy[place]
        high = np.where(divided, noisy + reach, high)
        alone = np.flatnonzero(divided & (parts.heights[at] == 0) & (noisy > reach))
        held = np.zeros(top.estimates.size, np.int64)
        np.add.at(held, block, published.counts)
        own = top.error(each).variance
        follows = own / (own + parts.noise.variance * parts.arities[at[alone]])
        left = held[block[alone]] - np.ceil(follows * (reach + 1)).astype(np.int64) - _SLACK
        still = _still(parts, place[alone], starts[at[alone]], parts.arities[at[alone]], left, reach + 1)
        low[alone[still]] = noisy[alone[still]] - reach
    lowest = np.minimum(np.maximum(low, 0).astype(np.int64), published.counts)
    return lowest, np.maximum(np.maximum(high, 0).astype(np.int64), published.counts)


def _still(
    parts: Round, places: Integers, starts: Integers, arities: Integers, held: Integers, less: int
) -> Bools:
    from oboro.tables.tree._compiled import still_within

    out = np.empty(places.size, np.bool_)
    still_within(places, starts, starts + arities, parts.noisy, held, less, out)
    return out


def adaptive_answer(strategy: OlderAdaptive, published: Measured, region: Region, level: float) -> Answer:
    """The sum of the published counts in a region, and an interval for the true sum."""
    asked = region.hold(published.keys)
    value = int(published.counts[asked].sum())
    top, parts = _measured(strategy, published)
    if region.size == 1 and asked.any():
        own = adaptive_intervals(strategy, _only(published, asked), level)
        return Answer(value, int(own[0][0]), int(own[1][0]), parts.noise.sd, level)
    found = bounds(top, [parts], region, level)
    if found.estimate is not None:
        estimate, lowest, highest = hull(found.estimate, found.error.reach(level), value)
        return Answer(value, int(lowest), int(highest), found.error.sd, level, estimate=int(estimate))
    low, high = max(math.ceil(found.low), 0), max(math.floor(found.high), 0)
    return Answer(value, min(low, value), max(high, value), found.error.sd, level)


def _only(published: Measured, some: Bools) -> Measured:
    return Measured(published.keys[some], published.counts[some], published.noisy)


def _measured(strategy: OlderAdaptive, published: Measured) -> tuple[Top, Round]:
    """The blocks, and the parts of those that were divided."""
    layout, coarse = strategy.layout, strategy.blocks
    *of_blocks, of_parts = strategy.noises
    *first, steps, noisy = published.noisy
    height = layout.bits - (coarse.leaves - 1).bit_length()
    first = in_shapes(first, [coarse.nodes(level) for level in LEVELS])
    top = least_squares_top(layout, height, coarse, LEVELS, of_blocks, first, strategy.total)
    # parts are carried by how finely they divide: put them in the order of keys
    arities = np.where(steps >= 0, 4 ** np.maximum(steps, 0), 0)
    order = np.argsort(steps, kind="stable")
    starts = np.empty(steps.size, np.int64)
    starts[order] = np.cumsum(arities[order]) - arities[order]
    divided = np.flatnonzero(steps >= 0)
    own = arities[divided]
    inside = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
    counts = noisy[np.repeat(starts[divided], own) + inside]
    return top, Round(divided << height, height - 2 * steps[divided], own, counts, of_parts)


QUARTERS, BLOCKS, PARTS = Fraction(1, 10), Fraction(2, 10), Fraction(7, 10)
DEPTH = 4  # divisions of the table into blocks: 16 x 16 of them
LEVELS: tuple[Level, ...] = ((1,), (DEPTH,))  # quarters and blocks
_PEOPLE_PER_PART = 5  # times 1/eps


def worth_it(total: int, eps: Fraction, cells: int) -> bool:
    """The rule: from public numbers alone."""
    return total * eps < cells


def check_rule(total: int | None, eps: Fraction, cells: int) -> None:
    """Refuses a table for which the rule does not hold, or cannot be known."""
    if total is None or not worth_it(total, eps, cells):
        raise ParameterError(
            "the adaptive grid is for few people in many cells",
            given=told(total=f"{total}", eps=show(eps)) + f", {cells} cells",
            needed="a public total (" + setting(adjacency="replace") + ") with total * eps / cells below 1",
            fix=setting(strategy="tree"),
        )


def noises(eps: Fraction, unit: Unit) -> tuple[DiscreteLaplace, DiscreteLaplace, DiscreteLaplace]:
    """The noise of quarters, blocks and parts.

    Privacy
        Quarters do not overlap, nor do blocks, nor parts: a block is divided in one way only, chosen from noisy
        counts, and each of its parts is counted once. So each family moves by at most D = `counts_move(unit)`. With
        discrete Laplace noise of scale D/(share eps) it costs its share of eps; the shares add up to 1. Choosing the
        division after looking at noisy counts is sequential composition. Spreading people over the cells of a part
        looks at published counts and coins.
    """
    moved = counts_move(unit)
    quarters, blocks, parts = (DiscreteLaplace(moved / (share * eps)) for share in (QUARTERS, BLOCKS, PARTS))
    return quarters, blocks, parts


@dataclass(frozen=True, eq=False)
class OlderAdaptive(Strategy):
    """Counts of quarters, of blocks, and of parts of blocks. Privacy: see `noises`."""

    name = "adaptive-0.1"
    title = "a grid as fine as the people in each block allow"
    takes_total = True
    carries = True
    slowness = 100
    notes = (
        "people are spread evenly within parts of blocks: what that adds to the error of small blocks is not in the figures",
    )

    def needs(self) -> str | None:
        one = len(self.lattice.trees) == 1 and isinstance(self.layout.domain.columns[0], Grid)
        arities = set(self.lattice.trees[0].arities)
        if not one or arities != {4} or not 2**12 <= self.lattice.leaves <= 2**26:
            return "one square grid with a power of two from 64 to 8192 cells along a side"
        return None

    def check(self) -> None:
        check_rule(self.total, self.eps, self.layout.cells)
        super().check()

    @property
    def lattice(self) -> Lattice:
        return lattice_of(self.layout.domain)

    @cached_property
    def blocks(self) -> Lattice:
        """The lattice down to the blocks."""
        return blocks_of(self.lattice)

    @cached_property
    def noises(self) -> tuple[DiscreteLaplace, DiscreteLaplace, DiscreteLaplace]:
        """Of quarters, of blocks, and of parts."""
        return noises(self.eps, self.unit)

    @property
    def noise(self) -> DiscreteLaplace:
        return self.noises[-1]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        named = zip(self.noises, ("quarters of the table", "blocks", "parts of blocks"), strict=True)
        return tuple(part(law, of, moves=counts_move(self.unit)) for law, of in named)

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Measured]:
        return [self._measured(cells, bits) for _ in range(trials)]

    def _measured(self, cells: Cells, bits: Bits) -> Measured:
        layout, lattice, coarse, total = self.layout, self.lattice, self.blocks, self.total
        counts = np.zeros(lattice.leaves, np.int64)
        counts[lattice.leaf(layout, cells.keys)] = cells.counts
        possible = lattice.possible(layout)
        allowed = np.ones(lattice.leaves, np.bool_) if possible is None else possible
        *of_blocks, of_parts = self.noises
        may = allowed.reshape(coarse.leaves, -1)
        some_may = np.asarray(may.any(axis=1))
        first = _counted(counts.reshape(coarse.leaves, -1).sum(axis=1), some_may, coarse, of_blocks, bits)
        estimates = least_squares(coarse, LEVELS, [precision(law) for law in of_blocks], first, total)
        held = project(coarse, estimates, some_may, total)
        deepest = lattice.trees[0].depth - DEPTH
        steps = np.where(held > 0, _divisions(held, self.eps / counts_move(self.unit), deepest), -1)
        noisy = [
            _parts(counts.reshape(coarse.leaves, -1), steps == k, k, of_parts, bits)
            for k in range(deepest + 1)
        ]
        estimates = _combined(estimates, coarse, of_blocks, noisy, steps, of_parts)
        held = project(coarse, estimates, some_may, total)
        published = np.zeros(may.shape, np.int64)
        for k, own in enumerate(
            [*noisy, np.zeros(((steps < 0).sum(), 1), np.int64)]
        ):  # last those not divided
            some = steps == k if k <= deepest else steps < 0
            published[some] = _spread(
                held[some], own, may[some].reshape(*own.shape, may.shape[1] // own.shape[1]), bits
            ).reshape(len(own), may.shape[1])
        leaves = np.flatnonzero(published)
        keys, values = lattice.keys(layout, leaves), published.reshape(-1)[leaves]
        order = np.argsort(keys)
        carried = (*first, steps, np.concatenate([own.reshape(-1) for own in noisy]))
        return Measured(keys[order], values[order], carried)

    def variance(self, height: int) -> float:
        """The noise of blocks and parts; smaller blocks have at least their part's share, and what spreading adds is not in it."""
        if self.total is not None and height == self.layout.bits:
            return 0.0
        _, of_blocks, of_parts = self.noises
        above = self.layout.bits - 2 * DEPTH
        return of_blocks.variance * 2.0 ** (height - above) if height >= above else of_parts.variance

    def remarks(self, expected_total: int | None) -> list[str]:
        lacks = [may_lack_intervals(self.lattice.leaves)] if self.lattice.leaves > MOST else []
        return [*super().remarks(expected_total), *lacks]

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        return adaptive_intervals(self, published, level)

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        return adaptive_answer(self, published, region_of(self.layout, where), level)


def blocks_of(lattice: Lattice) -> Lattice:
    """The lattice down to the blocks."""
    tree = lattice.trees[0]
    return Lattice((replace(tree, steps=tree.steps[:DEPTH]),))


def _counted(
    true: Integers, possible: Bools, coarse: Lattice, laws: list[DiscreteLaplace], bits: Bits
) -> list[Integers]:
    """The noisy counts of quarters and blocks; 0 where nobody can be."""
    noisy = []
    for level, law in zip(LEVELS, laws, strict=True):
        sums = np.asarray(coarse.sums(true, level), np.int64)
        some = np.asarray(coarse.sums(possible, level)) > 0
        noisy.append(np.where(some, sums + law.sample(sums.shape, bits), 0))
    return noisy


def _parts(inside: Integers, which: Bools, steps: int, law: DiscreteLaplace, bits: Bits) -> Integers:
    """The noisy counts of the parts of some blocks, each quartered so many times."""
    parts = inside[which].reshape(int(which.sum()), 4**steps, inside.shape[1] >> (2 * steps)).sum(axis=2)
    return np.asarray(parts + law.sample(parts.shape, bits), np.int64)


def _combined(
    estimates: Floats,
    coarse: Lattice,
    of_blocks: list[DiscreteLaplace],
    noisy: list[Integers],
    steps: Integers,
    of_parts: DiscreteLaplace,
) -> Floats:
    """What each block holds, from both: its own estimate, and the sum of its parts, weighted by precision.

    Blocks that were not divided are those that came out low. So quarters keep their sums: what these lack is made up
    by their blocks, in proportion to variance.
    """
    mu = moments(coarse, LEVELS, [precision(law) for law in of_blocks])
    own = float((block(coarse.trees[0], DEPTH) / mu).sum())
    found, variances = estimates.copy(), np.full(estimates.shape, own)
    for k, parts in enumerate(noisy):
        of_sum = of_parts.variance * 4**k
        weighted = found[steps == k] * of_sum + parts.sum(axis=1) * own
        found[steps == k] = weighted / (own + of_sum)
        variances[steps == k] = own * of_sum / (own + of_sum)
    lacking = (estimates - found).reshape(4, -1).sum(axis=1, keepdims=True)
    by_quarter = variances.reshape(4, -1)
    return np.asarray(found + (lacking * by_quarter / by_quarter.sum(axis=1, keepdims=True)).reshape(-1))


def _divisions(held: Integers, rate: Fraction, most: int) -> Integers:
    """How many times each block is quartered: about one part for every 5/eps people."""
    parts = np.maximum(held * float(rate) / _PEOPLE_PER_PART, 1.0)
    return np.asarray(np.clip(np.rint(np.log(parts) / np.log(4)), 0, most), np.int64)


def _spread(held: Integers, noisy: Integers, allowed: Bools, bits: Bits) -> Integers:
    """Counts of cells: each block's shared out among its parts, each part's evenly, what is odd by chance."""
    from oboro.tables.tree._compiled import share_out

    parts = np.empty(noisy.shape, np.int64)
    share_out(held, noisy.astype(float), np.asarray(allowed.any(axis=2)), False, parts)
    room = np.maximum(allowed.sum(axis=2), 1)
    each, odd = np.divmod(parts, room)
    order = bits.words(allowed.size).reshape(allowed.shape) >> np.uint64(1)
    order[~allowed] = np.uint64(2**64 - 1)  # impossible cells come last
    rank = np.argsort(np.argsort(order, axis=2), axis=2)
    return np.where(allowed, each[:, :, None] + (rank < odd[:, :, None]), 0)
