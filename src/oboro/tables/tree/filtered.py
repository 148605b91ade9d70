"""Very sparse tables: a few cells that hold people among more than can be listed.

What is measured, each once
    1. Counts of blocks, dense, of all sizes down to 2^18 blocks: least squares and projection as in the tree.
       Blocks are those of keys (cells.py): cells that share their first bits.
    2. Blocks that hold somebody after that are live. They are divided into 16 parts, each counted, and the block's
       count is shared out among them; then again.
    3. In parts that are still live, every cell. Only cells that stand out are published: a false-discovery test
       [Benjamini, Hochberg 1995] at 10%.
    What a part holds beyond its published cells stays unallocated: it is known at the part, and at no place in it.

The noisy counts of all that was measured go out with the table: intervals come from them (answers.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain.mesh import width
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import as_float, check_level
from oboro.privacy import Unit
from oboro.progress import progress
from oboro.release import Part as PrivacyPart
from oboro.release import part as privacy_part
from oboro.tables import wavelet
from oboro.tables.cells import Cells, Layout, block_errors, empty_reaching
from oboro.tables.strategy import Strategy, counts_move, key_columns
from oboro.tables.tree.answers import (
    Region,
    Round,
    Top,
    Where,
    bounds,
    everything,
    least_squares_top,
    region_of,
)
from oboro.tables.tree.errors import ends_of
from oboro.tables.tree.intervals import Answer, hull, in_shapes, unreadable
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.measure import Measured, least_that_stands_out, project
from oboro.tables.tree.outlook import Outlook, filtered_outlook
from oboro.tables.tree.planner import least_squares, moments, plan_shares
from oboro.tables.tree.workload import block, never_worse, precision

# Which cells stand out: a false-discovery test over all cells of live blocks, without listing the empty ones.
#
# Let t be a public floor. Dense, every cell of the live blocks would be noised, and those below t forgotten. For empty
# cells that is the same as drawing how many reach t, which ones, and their values given that (cells.py has
# the proof). The test then looks at all that reached t, stored or not, with C, the number of all cells of live blocks: a
# cut from the stored cells alone would depend on where people are.
#
# A candidate with value v has p(v) = P(noise >= v). The cut is the least v >= t with C p(v) <= 0.1 R(v), where R(v) is
# how many reach v [Benjamini, Hochberg 1995]. With C and R known it is about ln(C / (0.2 R)) times the scale.

FALSE = 0.1  # the share of published cells that may be empty
_TOGETHER = 1 << 20  # cells that are noised at once
_MOST_EMPTY = 1 << 24  # empty cells that may reach the floor


def stand_out(
    cells: Cells, live: Integers, below: int, total: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers, int, int]:
    """Cells of live blocks that pass the test: keys in order, noisy values, the cut, and how many were tested."""
    if live.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), 1, 0
    candidates = live.size << below
    floor = floor_of(candidates, total, law)
    near, values = reaching(cells, live, below, floor, law, bits)
    cut = cut_of(values, candidates, floor, law)
    kept = values >= cut
    near, values = near[kept], values[kept]
    order = np.argsort(near)
    near, values = near[order], values[order]
    return (live[near >> below] << below) | (near & ((1 << below) - 1)), values, cut, candidates


def reaching(
    cells: Cells, live: Integers, below: int, floor: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers]:
    """Cells of live blocks, stored or empty, that reach the floor: places with live blocks side by side, and noisy values."""
    stored, near, values = _noised(cells, live, below, floor, law, bits)
    empty, more = empty_reaching(stored, live.size << below, law, floor, bits)
    return np.concatenate([near, empty]), np.concatenate([values, more])


def _noised(
    cells: Cells, live: Integers, below: int, floor: int, law: DiscreteLaplace, bits: Bits
) -> tuple[Integers, Integers, Integers]:
    """Stored cells of live blocks: all of them, and those whose noisy values reach the floor, with these.

    With live blocks side by side, a cell is the number of its block among them, and its place there.
    """
    stored = np.empty(cells.keys.size, np.int64)
    reached: list[tuple[Integers, Integers]] = []
    size = 0
    for start in range(0, max(cells.keys.size, 1), _TOGETHER):
        keys, counts = (each[start : start + _TOGETHER] for each in (cells.keys, cells.counts))
        place = np.minimum(np.searchsorted(live, keys >> below), live.size - 1)
        inside = live[place] == keys >> below
        own = (place[inside] << below) | (keys[inside] & ((1 << below) - 1))
        noisy = counts[inside] + law.sample(own.size, bits)
        stored[size : size + own.size] = own
        size += own.size
        reached.append((own[noisy >= floor], noisy[noisy >= floor]))
    near, values = (np.concatenate([each[i] for each in reached]) for i in (0, 1))
    return stored[:size], near, values


def floor_of(candidates: int, total: int, law: DiscreteLaplace) -> int:
    """Below this no cell can pass: no more than `total` cells can be published (or than memory holds)."""
    most = max(1, min(total, _MOST_EMPTY))
    return max(1, math.floor(as_float(law.scale) * math.log(max(candidates / (2 * FALSE * most), 1.0))))


def cut_of(values: Integers, candidates: int, floor: int, law: DiscreteLaplace) -> int:
    """The least value v at which C p(v) <= 0.1 R(v); above all of them if there is none."""
    return least_that_stands_out(values, candidates, floor, law, FALSE)


def within(blocks: Integers, values: Integers, held: Integers) -> Integers:
    """Published cells hold no more than their block: what is too much is taken from all of them alike, down to 0."""
    from oboro.tables.tree._compiled import keep_within

    out = values.copy()
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    keep_within(np.append(starts, values.size), values.astype(float), held[blocks[starts]], out)
    return out


def kept(
    layout: Layout, keys: Integers, values: Integers, live: Integers, held: Integers, below: int
) -> Measured:
    """What is published of cells that passed the test: those that can be, within what their part holds."""
    possible = layout.possible(keys)
    keys, values = keys[possible], values[possible]
    counts = within(np.searchsorted(live, keys >> below), values, held)
    some = counts > 0
    return Measured(keys[some], counts[some], (values[some],))


def facts_of(candidates: int, published: int, cut: int, below: int, divisions: Sequence[int]) -> Integers:
    """What `Carried.facts` are."""
    return np.array([candidates, max(published, 1), cut, below, *divisions], np.int64)


_DENSE_BITS = 18
_MOST_PARTS = 1 << 24  # parts that are counted at once
_STEP = 4  # live blocks are divided into 2^4 parts, twice
PARTS = (Fraction(13, 100), Fraction(13, 100))
CELLS = Fraction(21, 100)
_FINE = 0.6  # so much smaller, as variances, are the finest blocks to come out beside the wavelet's than the whole


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks that are counted: all keys by their first `bits` bits, and some coarser ones."""

    bits: int
    lattice: Lattice
    levels: tuple[Level, ...]
    shares: tuple[Fraction, ...]
    possible: Bools


def blocks_of(layout: Layout) -> Blocks:
    """Four sizes of block, from the whole table to 2^18 blocks (fewer if the table is small)."""
    bits = min(_DENSE_BITS, max(layout.bits - 2, 0))
    widths = [2] * (bits // 2) + [1] * (bits % 2)
    tree = Tree("block", (1 << bits,), tuple(((0, 1 << width),) for width in widths), ((0,),))
    lattice = Lattice((tree,))
    levels, shares = _planned(lattice, layout.bits)
    rest = 1 - CELLS - sum(PARTS)
    return Blocks(bits, lattice, levels, tuple(share * rest for share in shares), _possible(layout, bits))


def _planned(lattice: Lattice, bits: int) -> tuple[tuple[Level, ...], tuple[Fraction, ...]]:
    """Sizes of block and their shares: planned against the wavelet method, at all sizes.

    Small blocks are mostly empty. That nothing is below 0 helps the wavelet more there, so they have to be better.
    """
    tree = lattice.trees[0]
    noise = DiscreteLaplace(1000 * (1 + bits))
    heights = [bits - sum(width(a) for a in tree.arities[:at]) for at in range(tree.depth + 1)]
    fine = np.linspace(1, 1 + _FINE, len(heights))
    reference = tuple(
        wavelet.block_variance(noise, bits, height) / 2e6 / float(by)
        for height, by in zip(heights, fine, strict=True)
    )
    return plan_shares(lattice, never_worse(), 2, reference)


def _possible(layout: Layout, bits: int) -> Bools:
    """Which blocks have a possible cell: its first cell has the lowest place on every axis."""
    first = np.arange(1 << bits, dtype=np.int64) << (layout.bits - bits)
    good = Layout(layout.domain).possible(first)
    if layout.allowed is not None:
        head_bits, heads = layout.allowed
        if head_bits <= bits:
            good &= np.isin(np.arange(1 << bits) >> (bits - head_bits), heads)
        else:
            good &= np.isin(np.arange(1 << bits), heads >> (head_bits - bits))
    return good


def noises(
    found: Blocks, eps: Fraction, unit: Unit
) -> tuple[list[DiscreteLaplace], list[DiscreteLaplace], DiscreteLaplace]:
    """The noise of each size of block, of parts, and of cells.

    Privacy
        Blocks of one size do not overlap, and neither do parts of one size, or cells: each of these families moves
        by at most D = `counts_move(unit)` when one unit comes or goes. A family with share w of eps has discrete
        Laplace noise of scale D/(w eps), and the shares add up to 1. Which blocks are live, the floor and the cut
        follow from noisy numbers and public facts; what lies in blocks that are not live is not looked at.
    """
    moved = counts_move(unit)
    return (
        [DiscreteLaplace(moved / (share * eps)) for share in found.shares],
        [DiscreteLaplace(moved / (share * eps)) for share in PARTS],
        DiscreteLaplace(moved / (CELLS * eps)),
    )


@dataclass(frozen=True, eq=False)
class Filtered(Strategy):
    """Counts of blocks, of parts of those that are live, and of cells in those that still are. Privacy: see `noises`."""

    name = "filtered"
    title = "counts of blocks, and cells that stand out"
    carries = True
    slowness = 100
    notes = (
        "cells are published if they stand out: about 10% of the published cells hold nobody in truth",
        "what a block holds beyond its published cells is known at the block, and at no place in it: tables.unallocated()",
        "for blocks smaller than that the figures are of the noise alone: these people count as spread evenly over it",
    )

    @cached_property
    def blocks(self) -> Blocks:
        return blocks_of(self.layout)

    @cached_property
    def noises(self) -> tuple[list[DiscreteLaplace], list[DiscreteLaplace], DiscreteLaplace]:
        """Of each size of block, of each division into parts, and of cells."""
        return noises(self.blocks, self.eps, self.unit)

    @property
    def noise(self) -> DiscreteLaplace:
        return self.noises[-1]

    @cached_property
    def parts(self) -> tuple[PrivacyPart, ...]:
        of_blocks, of_parts, of_cells = self.noises
        sizes = [self.layout.bits - width(prod(self.blocks.lattice.nodes(at))) for at in self.blocks.levels]
        named = [
            *zip(of_blocks, [f"blocks of 2^{size} cells" for size in sizes], strict=True),
            *zip(of_parts, ["parts of live blocks", "parts of live parts"], strict=True),
            (of_cells, "cells of live parts"),
        ]
        return tuple(privacy_part(law, of, moves=counts_move(self.unit)) for law, of in named)

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Measured]:
        return [self._measured(cells, bits) for _ in range(trials)]

    def _measured(self, cells: Cells, bits: Bits) -> Measured:
        found, layout = self.blocks, self.layout
        below = layout.bits - found.bits
        of_blocks, of_parts, of_cells = self.noises
        carried = counted_blocks(cells, below, found, of_blocks, bits)
        held = project(found.lattice, solved(found, of_blocks, carried), found.possible)
        live = np.flatnonzero(held)
        held = held[live]
        divisions, rounds = [], []
        for law in of_parts:
            finer = finer_bits(live.size, below)
            divisions.append(finer)
            if finer:
                noisy = noisy_parts(cells, live, below, finer, law, bits)
                rounds += [live, noisy]
                live, held = divided(live, held, finer, noisy)
                below -= finer
        progress("looking for cells", 0.3)
        keys, values, cut, candidates = stand_out(cells, live, below, int(held.sum()), of_cells, bits)
        found_cells = kept(layout, keys, values, live, held, below)
        (values,) = found_cells.noisy
        facts = facts_of(candidates, found_cells.keys.size, cut, below, divisions)
        progress("looking for cells", 1.0)
        own = (live, held, facts, found_cells.keys, values)
        return Measured(found_cells.keys, found_cells.counts, (*own, *carried, *rounds), values)

    def variance(self, height: int) -> float:
        """Of those that are counted by least squares, of smaller ones as if all were divided."""
        found = self.blocks
        of_blocks, of_parts, of_cells = self.noises
        tree = found.lattice.trees[0]
        below = self.layout.bits - found.bits
        mu = moments(found.lattice, found.levels, [precision(law) for law in of_blocks])
        level = next(
            (at for at in range(tree.depth + 1) if tree.under(at) << below <= 1 << height), tree.depth
        )
        profile: Floats = block(tree, level)
        ways = [float((profile / mu).sum()), of_cells.variance * 2.0**height]
        for law in of_parts:
            below = max(below - _STEP, 0)
            ways.append(law.variance * 2.0 ** max(height - below, 0))
        return min(ways)

    def remarks(self, expected_total: int | None) -> list[str]:
        if expected_total is None:
            return []
        return [*super().remarks(expected_total), *self.outlook(expected_total).notes]

    def outlook(self, total: int) -> Outlook:
        if total not in self._outlooks:
            self._outlooks[total] = filtered_outlook(self, total)
        return self._outlooks[total]

    @cached_property
    def _outlooks(self) -> dict[int, Outlook]:
        return {}

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        return filtered_intervals(self, published, level)

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        return filtered_answer(self, published, region_of(self.layout, where), level)

    def published(self, table: Table) -> Measured:
        found = super().published(table)
        check_carried(self, found)
        return found

    def unallocated(self, table: Table) -> Table:
        return unallocated(self.published(table), self.layout)


def counted_blocks(
    cells: Cells, below: int, found: Blocks, laws: Sequence[DiscreteLaplace], bits: Bits
) -> list[Integers]:
    """The noisy counts of blocks of all sizes; 0 where nobody can be."""
    from oboro.tables.tree._compiled import add_to_parts

    true = np.zeros(1 << found.bits, np.int64)
    add_to_parts(cells.keys, cells.counts, np.zeros(1, np.int64), below + found.bits, found.bits, true)
    noisy = []
    for level, law in zip(found.levels, laws, strict=True):
        sums = np.asarray(found.lattice.sums(true, level), np.int64)
        some = np.asarray(found.lattice.sums(found.possible, level)) > 0
        noisy.append(np.where(some, sums + law.sample(sums.shape, bits), 0))
    return noisy


def solved(found: Blocks, laws: Sequence[DiscreteLaplace], noisy: Sequence[Integers]) -> Floats:
    """What each of the finest blocks holds, by least squares."""
    return least_squares(found.lattice, found.levels, [precision(law) for law in laws], noisy)


def finer_bits(live: int, below: int) -> int:
    """Into how many parts, 2 to this power, live blocks are divided: as many as are quick to list."""
    room = (_MOST_PARTS // max(live, 1)).bit_length() - 1
    return max(0, min(_STEP, below, room))


def noisy_parts(
    cells: Cells, live: Integers, below: int, finer: int, law: DiscreteLaplace, bits: Bits
) -> Integers:
    """The noisy count of every part of every live block."""
    from oboro.tables.tree._compiled import add_to_parts

    counts = law.sample(live.size << finer, bits)
    add_to_parts(cells.keys, cells.counts, live, below, finer, counts)
    return counts


def divided(live: Integers, held: Integers, finer: int, noisy: Integers) -> tuple[Integers, Integers]:
    """The parts of live blocks that hold somebody, and what they hold."""
    from oboro.tables.tree._compiled import share_out

    done = 0
    while done < finer:
        step = min(2, finer - done)
        done += step
        left = 1 << (finer - done)
        wanted = (
            noisy.reshape(held.size << step, left).sum(axis=1).astype(float).reshape(held.size, 1 << step)
        )
        children = np.empty(wanted.shape, np.int64)
        share_out(held, wanted, np.ones((1, 1 << step), np.bool_), True, children)
        held = children.reshape(-1)
    kept = np.flatnonzero(held)
    return (live[kept >> finer] << finer) | (kept & ((1 << finer) - 1)), held[kept]


# What the file of a filtered table says beside its cells: how sure these are, what is left over in blocks, and answers.
#
# A block holds people that are in no published cell. A question takes of them as much as it takes of the block's cells:
# they count as spread evenly. The interval does not rely on that (answers.py).


@dataclass(frozen=True)
class Carried:
    """What the file carries."""

    live: Integers  # parts that hold people, as first bits of keys
    held: Integers
    facts: Integers  # tested, published, cut, bits below a part, and into how many bits blocks were divided
    keys: Integers  # of published cells
    noisy: Integers  # counts of these
    rest: tuple[
        Integers, ...
    ]  # noisy counts of blocks of all sizes; then, for each division, blocks and parts

    @property
    def below(self) -> int:
        return int(self.facts[3])

    @property
    def divisions(self) -> list[int]:
        return [bits for bits in self.facts[4:].tolist() if bits > 0]


def carried_in(published: Measured) -> Carried:
    if len(published.noisy) < 5:
        raise unreadable()
    live, held, facts, keys, noisy, *rest = published.noisy
    if held.size != live.size or noisy.size != keys.size or facts.size < 4:
        raise unreadable()
    return Carried(live, held, facts, keys, noisy, tuple(rest))


def check_carried(strategy: Filtered, published: Measured) -> None:
    """Refuses a file whose arrays do not hang together: whoever follows them would leave them."""
    carried = carried_in(published)
    _, laws, _ = strategy.noises
    divisions, levels = carried.facts[4:].tolist(), len(strategy.blocks.levels)
    own = [bits for bits in divisions if bits]
    bits = strategy.blocks.bits
    good = len(divisions) == len(laws) and len(carried.rest) == levels + 2 * len(own)
    good = good and all(0 <= each <= _STEP for each in divisions)
    good = good and carried.below == strategy.layout.bits - bits - sum(divisions) >= 0
    if not good:
        raise unreadable()
    blocks = None  # those that lie in a block that was divided
    for finer, live, noisy in zip(own, carried.rest[levels::2], carried.rest[levels + 1 :: 2], strict=True):
        good = good and _are_places(live, bits) and noisy.size == live.size << finer
        good = good and (blocks is None or _lie_in(live, *blocks))
        blocks, bits = (live, finer), bits + finer
    good = good and _are_places(carried.live, bits) and (blocks is None or _lie_in(carried.live, *blocks))
    good = good and _are_places(carried.keys, strategy.layout.bits)
    good = good and _lie_in(carried.keys, carried.live, carried.below)
    good = good and _lie_in(published.keys, carried.keys, 0) and bool((carried.held >= 0).all())
    if not good:
        raise unreadable()


def _are_places(some: Integers, bits: int) -> bool:
    """Whether these are numbers of so many bits, each larger than the one before."""
    return not some.size or bool(some[0] >= 0 and some[-1] < 1 << bits and (some[1:] > some[:-1]).all())


def _lie_in(parts: Integers, blocks: Integers, finer: int) -> bool:
    """Whether each part, which has so many bits more than a block, lies in one of these."""
    above = parts >> finer
    place = np.searchsorted(blocks, above)
    return not parts.size or bool(place.max() < blocks.size and (blocks[place] == above).all())


_BY_PART = 0.1  # of what may be missed: that the cell's part holds less than it seems


def filtered_intervals(strategy: Filtered, published: Measured, level: float) -> tuple[Integers, Integers]:
    """Intervals for the rows of a published table: given that a cell is published, it holds the true count.

    The noisy count y of the cell, give or take the reach w of its noise; from 0 on if the cell would not be published any
    more with a noisy count of y - w - 1; and no more than its part can hold, or y. Widened to what is published.

    Privacy
        This looks at published noisy counts and public facts: post-processing.

    Proof of coverage
        That of `Estimates.row_ends`, with another t. Let all other noise be fixed. The cell is published if y reaches the
        cut and the cells of its part do not take all that the part holds: if y >= t. Whether another one reaches the cut
        does not depend on y as long as y does [Benjamini, Hochberg 1995], and the cut that is carried, the least value
        that did, is not below the one for y. The part's count has noise of its own. That it was large enough for the part to be
        looked into makes an upper bound only safer. A tenth of what may be missed goes there.
    """
    carried = carried_in(published)
    miss = 1 - check_level(level)
    keys = published.keys
    low, high = _ends(strategy, carried, keys, 1 - (1 - _BY_PART) * miss)
    rounds = _rounds(strategy, carried)
    if rounds and keys.size:
        first, heights, noisy, _ = rounds[-1].parts_of(rounds[-1].parents)
        order = np.argsort(first)
        part = order[np.searchsorted(first[order], keys >> int(heights[0]) << int(heights[0]))]
        more = rounds[-1].noise.interval(1 - 2 * _BY_PART * miss)[1]
        high = np.minimum(high, noisy[part] + more)
    own = carried.noisy[np.searchsorted(carried.keys, keys)]
    high = np.maximum(np.maximum(high, own), published.counts)
    return np.minimum(low, published.counts), high


def _ends(strategy: Filtered, carried: Carried, keys: Integers, level: float) -> tuple[Integers, Integers]:
    """By the noisy counts of published cells alone."""
    from oboro.tables.tree._compiled import still_within

    place = np.searchsorted(carried.keys, keys)
    y, (below, above) = carried.noisy[place], ends_of(strategy.noise, level)
    part = np.searchsorted(carried.live, carried.keys >> carried.below)
    bounds = np.searchsorted(part, np.arange(carried.live.size + 1))
    own = part[place]
    still = np.empty(keys.size, np.bool_)
    starts, ends = bounds[own], bounds[own + 1]
    still_within(place, starts, ends, carried.noisy, carried.held[own], below + 1, still)
    still &= y - below - 1 >= int(carried.facts[2])
    return np.where(still, np.maximum(y - below, 0), 0), np.maximum(y + above, 0)


def filtered_answer(strategy: Filtered, published: Measured, region: Region, level: float) -> Answer:
    """How many people are in a region: published cells, and of those that are in none the share of its cells."""
    carried, layout = carried_in(published), strategy.layout
    asked = region.hold(published.keys)
    if region.size == 1 and asked.any():  # as its row has it
        own = Measured(published.keys[asked], published.counts[asked], published.noisy)
        low, high = filtered_intervals(strategy, own, level)
        noisy = max(int(carried.noisy[np.searchsorted(carried.keys, own.keys)][0]), 0)
        estimate = min(max(noisy, int(low[0])), int(high[0]))
        return Answer(
            int(own.counts[0]), int(low[0]), int(high[0]), strategy.noise.sd, level, estimate=estimate
        )
    first = carried.live << carried.below
    inside, there = region.cells(first, carried.below), everything(layout).cells(first, carried.below)
    left = _left(carried, published)
    spread = int(np.rint((left * (inside / np.maximum(there, 1))).sum()))
    value = int(published.counts[asked].sum()) + spread
    part = np.searchsorted(carried.live, published.keys[asked] >> carried.below)
    cut = published.keys[asked][inside[part] < there[part]]  # published cells of parts that are cut through
    one = level if region.size > 1 else 1 - (1 - level) / 2  # one cell has two upper bounds
    found = bounds(_top(strategy, carried), _rounds(strategy, carried), region, one, more=min(cut.size, 1))
    lower, upper = found.low, found.high
    if found.estimate is None and cut.size:  # they count for at least this much, all of them together
        ways = (len(carried.divisions) + 2) * cut.size
        lower += float(_ends(strategy, carried, cut, 1 - (1 - level) / ways)[0].sum())
    if region.size == 1 and inside.any():  # it was tested, and is below the cut
        upper = min(upper, float(carried.facts[2]) + strategy.noise.interval(one)[1])
    if found.estimate is None:
        whole = (max(math.ceil(lower), 0), max(math.floor(upper), 0))
        return Answer(value, min(whole[0], value), max(whole[1], value), found.error.sd, level, spread)
    middle, lowest, highest = hull(found.estimate, found.error.reach(level), value)
    return Answer(value, int(lowest), int(highest), found.error.sd, level, spread, int(middle))


def answers_for_blocks(measured: Measured, truth: Cells, layout: Layout, height: int) -> float:
    """How far off the answers for all aligned blocks of 2^height cells are, as root mean square. For measurements."""
    live, held, facts, keys, _, *_ = measured.noisy
    below = int(facts[3])
    if height >= below:
        return block_errors(truth, Cells(live << below, held), layout, [height])[0].rmse
    left = held.copy()
    np.subtract.at(left, np.searchsorted(live, keys >> below), measured.counts)
    each = 1 << (below - height)  # blocks in a part
    share = np.rint(left / each)
    seen, place = np.unique(np.concatenate([truth.keys, keys]) >> height, return_inverse=True)
    off = np.bincount(place, np.concatenate([truth.counts, -measured.counts]), seen.size)
    part = np.minimum(np.searchsorted(live, seen >> (below - height)), max(live.size - 1, 0))
    known = live[part] == seen >> (below - height) if live.size else np.zeros(seen.size, np.bool_)
    own = np.where(known, share[part], 0.0) if live.size else np.zeros(seen.size)
    squares = ((off - own) ** 2).sum() + each * (share**2).sum() - (own**2).sum()
    return math.sqrt(float(squares) / 2.0 ** (layout.bits - height))


def unallocated(published: Measured, layout: Layout) -> Table:
    """Parts that hold people: the columns of their first cell, how many cells they have, what they hold, and how much
    of that is in no published cell."""
    import pyarrow as pa

    carried = carried_in(published)
    rest = _left(carried, published)
    size = np.full(carried.live.size, 1 << carried.below)
    beside = {"cells": size, "held": carried.held, "unallocated": rest}
    return pa.table({**dict(key_columns(carried.live << carried.below, layout)), **beside})


def _top(strategy: Filtered, carried: Carried) -> Top:
    found, layout = strategy.blocks, strategy.layout
    laws, _, _ = strategy.noises
    shapes = [found.lattice.nodes(level) for level in found.levels]
    noisy = in_shapes(carried.rest[: len(shapes)], shapes)
    return least_squares_top(layout, layout.bits - found.bits, found.lattice, found.levels, laws, noisy)


def _rounds(strategy: Filtered, carried: Carried) -> list[Round]:
    found, below = strategy.blocks, strategy.layout.bits - strategy.blocks.bits
    _, laws, _ = strategy.noises
    rest = carried.rest[len(found.levels) :]
    rounds = []
    for i, (bits, law) in enumerate(zip(carried.divisions, laws, strict=False)):
        live, noisy = rest[2 * i : 2 * i + 2]
        heights = np.full(live.size, below - bits)
        rounds.append(Round(live << below, heights, np.full(live.size, 1 << bits), noisy, law))
        below -= bits
    return rounds


def _left(carried: Carried, cells: Cells) -> Integers:
    """What each part holds beyond its published cells."""
    rest = carried.held.copy()
    np.subtract.at(rest, np.searchsorted(carried.live, cells.keys >> carried.below), cells.counts)
    return rest
