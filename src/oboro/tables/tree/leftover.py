"""What the file of a filtered table says beside its cells: how sure these are, what is left over in blocks, and answers.

A block holds people that are in no published cell. A question takes of them as much as it takes of the block's cells:
they count as spread evenly. The interval does not rely on that (bounds.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Integers, Table
from oboro.noise.laplace import check_level
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout
from oboro.tables.quality import block_errors
from oboro.tables.strategy import key_columns
from oboro.tables.tree.answers import Region, Round, Top, bounds, everything, least_squares_top
from oboro.tables.tree.errors import ends_of
from oboro.tables.tree.intervals import Answer, hull, in_shapes, published_in
from oboro.tables.tree.measure import Measured

if TYPE_CHECKING:
    from oboro.tables.tree.filtered import Filtered


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
    live, held, facts, keys, noisy, *rest = published.noisy
    return Carried(live, held, facts, keys, noisy, tuple(rest))


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
    first = carried.live << carried.below
    inside, there = region.cells(first, carried.below), everything(layout).cells(first, carried.below)
    left = _left(carried, published)
    spread = int(np.rint((left * (inside / np.maximum(there, 1))).sum()))
    value = int(published.counts[asked].sum()) + spread
    if region.size == 1 and asked.any():
        own = Measured(published.keys[asked], published.counts[asked], published.noisy)
        low, high = filtered_intervals(strategy, own, level)
        noisy = max(int(carried.noisy[np.searchsorted(carried.keys, own.keys)][0]), 0)
        estimate = min(max(noisy, int(low[0])), int(high[0]))
        return Answer(
            value, int(low[0]), max(int(high[0]), value), strategy.noise.sd, level, spread, estimate
        )
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


def unallocated(table: Table, layout: Layout) -> Table:
    """Parts that hold people: the columns of their first cell, how many cells they have, what they hold, and how much
    of that is in no published cell."""
    import pyarrow as pa

    published = published_in(table, layout)
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
