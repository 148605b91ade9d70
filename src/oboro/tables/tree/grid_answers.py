"""What the file of an adaptive table says beside its cells: intervals for these, and answers to any question."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Integers, Table
from oboro.noise.laplace import check_level
from oboro.tables.tree.answers import Round, Top, bounds, least_squares_top
from oboro.tables.tree.carrying import cells_in, noisy_in
from oboro.tables.tree.design import precision
from oboro.tables.tree.intervals import Answer, reach
from oboro.tables.tree.region import Region

if TYPE_CHECKING:
    from oboro.tables.tree.adaptive import Adaptive


def adaptive_intervals(strategy: Adaptive, table: Table, level: float) -> tuple[Integers, Integers]:
    """Intervals for the rows of a published table.

    A cell holds no more than its part does, whose count is known up to noise that was drawn after it was decided how
    to divide its block. If the part is a single cell, there is a lower bound too. Cells of blocks that were not
    divided hold no more than their block.
    """
    check_level(level)
    top, parts = _measured(strategy, table)
    cells = cells_in(table, strategy.layout)
    block = cells.keys >> top.height
    away = reach(1 - (1 - level) / 2)  # one of two ways: by part or by block
    each = np.eye(1, top.estimates.size, dtype=np.bool_)[0]
    high = np.floor(top.estimates[block] + away * math.sqrt(top.variance(each)))
    low = np.zeros(cells.keys.size)
    if parts.parents.size:
        at = np.minimum(np.searchsorted(parts.parents, block << top.height), parts.parents.size - 1)
        divided = parts.parents[at] == block << top.height
        starts = np.cumsum(parts.arities) - parts.arities
        inside = (cells.keys - parts.parents[at]) >> parts.heights[at]
        noisy = parts.noisy[np.where(divided, starts[at] + inside, 0)]
        error = away * math.sqrt(parts.variance)
        high = np.where(divided, np.floor(noisy + error), high)
        low = np.where(divided & (parts.heights[at] == 0), np.ceil(noisy - error), low)
    lowest = np.minimum(np.maximum(low, 0).astype(np.int64), cells.counts)
    return lowest, np.maximum(np.maximum(high, 0).astype(np.int64), cells.counts)


def adaptive_answer(strategy: Adaptive, table: Table, region: Region, level: float) -> Answer:
    """The sum of the published counts in a region, and an interval for the true sum."""
    cells = cells_in(table, strategy.layout)
    value = int(cells.counts[region.hold(cells.keys)].sum())
    top, parts = _measured(strategy, table)
    found = bounds(top, [parts], region, level)
    low, high = max(math.ceil(found.low), 0), max(math.floor(found.high), 0)
    return Answer(value, min(low, value), max(high, value), found.error, level)


def _measured(strategy: Adaptive, table: Table) -> tuple[Top, Round]:
    """The blocks, and the parts of those that were divided."""
    layout, coarse = strategy.layout, strategy.blocks
    *of_blocks, of_parts = strategy.noises
    *first, steps, noisy = noisy_in(table)
    height = layout.bits - (coarse.leaves - 1).bit_length()
    precisions = [precision(law) for law in of_blocks]
    levels = ((1,), coarse.finest)  # quarters and blocks
    top = least_squares_top(layout, height, coarse, levels, precisions, first, strategy.total)
    # parts are carried by how finely they divide: put them in the order of keys
    arities = np.where(steps >= 0, 4 ** np.maximum(steps, 0), 0)
    order = np.argsort(steps, kind="stable")
    starts = np.empty(steps.size, np.int64)
    starts[order] = np.cumsum(arities[order]) - arities[order]
    divided = np.flatnonzero(steps >= 0)
    own = arities[divided]
    inside = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
    counts = noisy[np.repeat(starts[divided], own) + inside]
    return top, Round(divided << height, height - 2 * steps[divided], own, counts, of_parts.variance)
