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
from oboro.noise.laplace import as_float, check_level
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout
from oboro.tables.quality import block_errors
from oboro.tables.strategy import key_columns
from oboro.tables.tree.answers import Region, Round, Top, bounds, everything, least_squares_top
from oboro.tables.tree.intervals import Answer, cells_in, noisy_in
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.workload import precision

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


def carried_in(table: Table) -> Carried:
    live, held, facts, keys, noisy, *rest = noisy_in(table)
    return Carried(live, held, facts, keys, noisy, tuple(rest))


def filtered_intervals(strategy: Filtered, table: Table, level: float) -> tuple[Integers, Integers]:
    """Intervals for the rows of a published table: the noisy counts of its cells, give or take, widened to the published.

    They are wider than for one cell, because only cells that stand out are there. Of C cells that were tested R are
    published, those with the largest noise among them. A share 1 - level of the R may be missed, which is
    (1 - level) R / C of all: as if each interval were made for that.
    """
    carried = carried_in(table)
    away = _away(strategy, carried, check_level(level))
    cells = cells_in(table, strategy.layout)  # in the order of the table: that of keys
    at = carried.noisy[np.searchsorted(carried.keys, cells.keys)] if cells.keys.size else carried.noisy[:0]
    return np.minimum(np.maximum(at - away, 0), cells.counts), np.maximum(at + away, cells.counts)


def filtered_answer(strategy: Filtered, table: Table, region: Region, level: float) -> Answer:
    """How many people are in a region: published cells, and of those that are in none the share of its cells."""
    carried, layout = carried_in(table), strategy.layout
    cells = cells_in(table, layout)
    asked = region.hold(cells.keys)
    first = carried.live << carried.below
    inside, there = region.cells(first, carried.below), everything(layout).cells(first, carried.below)
    left = _left(carried, cells)
    spread = int(np.rint((left * (inside / np.maximum(there, 1))).sum()))
    value = int(cells.counts[asked].sum()) + spread
    published = region.hold(carried.keys)
    if region.size == 1 and published.any():
        away, noisy = _away(strategy, carried, level), int(carried.noisy[published][0])
        error = math.sqrt(2) * _scale(strategy)
        return Answer(value, min(max(noisy - away, 0), value), max(noisy + away, value), error, level, spread)
    own = level if region.size > 1 else 1 - (1 - level) / 2  # one cell has two upper bounds
    found = bounds(_top(strategy, carried), _rounds(strategy, carried), region, own)
    low = found.low
    if found.cut:  # cells of blocks that are cut through count for at least this much
        part = np.searchsorted(carried.live, cells.keys[asked] >> carried.below)
        sure = carried.noisy[np.searchsorted(carried.keys, cells.keys[asked])]
        sure = sure - _away(strategy, carried, level)
        low += float(np.maximum(sure[inside[part] < there[part]], 0).sum())
    high = found.high
    if region.size == 1 and inside.any():  # it was tested, and is below the cut
        high = min(high, float(carried.facts[2]) - _scale(strategy) * math.log1p(-own))
    whole = (max(math.ceil(low), 0), max(math.floor(high), 0))
    return Answer(value, min(whole[0], value), max(whole[1], value), found.error, level, spread)


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

    carried = carried_in(table)
    rest = _left(carried, cells_in(table, layout))
    size = np.full(carried.live.size, 1 << carried.below)
    beside = {"cells": size, "held": carried.held, "unallocated": rest}
    return pa.table({**dict(key_columns(carried.live << carried.below, layout)), **beside})


def _top(strategy: Filtered, carried: Carried) -> Top:
    found, layout = strategy.blocks, strategy.layout
    laws, _, _ = strategy.noises
    shapes = [found.lattice.nodes(level) for level in found.levels]
    noisy = [each.reshape(shape) for each, shape in zip(carried.rest, shapes, strict=False)]
    height = layout.bits - found.bits
    return least_squares_top(
        layout, height, found.lattice, found.levels, [precision(law) for law in laws], noisy
    )


def _rounds(strategy: Filtered, carried: Carried) -> list[Round]:
    found, below = strategy.blocks, strategy.layout.bits - strategy.blocks.bits
    _, laws, _ = strategy.noises
    rest = carried.rest[len(found.levels) :]
    rounds = []
    for i, (bits, law) in enumerate(zip(carried.divisions, laws, strict=False)):
        live, noisy = rest[2 * i : 2 * i + 2]
        heights = np.full(live.size, below - bits)
        rounds.append(Round(live << below, heights, np.full(live.size, 1 << bits), noisy, law.variance))
        below -= bits
    return rounds


def _left(carried: Carried, cells: Cells) -> Integers:
    """What each part holds beyond its published cells."""
    rest = carried.held.copy()
    np.subtract.at(rest, np.searchsorted(carried.live, cells.keys >> carried.below), cells.counts)
    return rest


def _away(strategy: Filtered, carried: Carried, level: float) -> int:
    tested, published = max(int(carried.facts[0]), 1), max(int(carried.facts[1]), 1)
    return math.ceil(_scale(strategy) * math.log(max(tested / ((1 - level) * published), 1.0)))


def _scale(strategy: Filtered) -> float:
    return as_float(strategy.noise.scale)
