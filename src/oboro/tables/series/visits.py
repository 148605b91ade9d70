"""The data of a series: who was where at which tick, as counts of what is over.

Rows have a column `tick`, a whole number from 0 on; rows with another tick are dropped without a word, as those outside the domain are. A column of dates or times is refused: its type is public. In a text file a column has no type, and `tables.check` with `ticks` tells the steward. Everything else follows the
rule of tables/input.py. Every tick reads the data from the first tick on, and nothing private is kept between ticks: which ticks of a person count is decided anew each time, and
comes out the same, because it follows from the rows up to a tick alone (`engine.count_ticks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from oboro.arrays import Data, Integers
from oboro.engine import count_cells, count_ticks, open_data
from oboro.errors import DataError, setting
from oboro.privacy import Unit
from oboro.tables.cells import Layout, cap, sort_cells
from oboro.tables.input import keys_of, need_columns
from oboro.tables.tree.lattice import Lattice, Level


@dataclass(frozen=True)
class Visits:
    """How many were where, and when: leaves of the places, and counts, sorted by tick."""

    ticks: Integers
    leaves: Integers
    counts: Integers

    def within(self, span: range, places: Lattice, level: Level) -> Integers:
        """The counts of all nodes of a level of places, over some ticks."""
        first, last = np.searchsorted(self.ticks, [span.start, span.stop])
        held = np.zeros(places.nodes(level), np.int64)
        at = np.unravel_index(self.leaves[first:last], tuple(tree.leaves for tree in places.trees))
        nodes = tuple(
            part // tree.under(here) for part, tree, here in zip(at, places.trees, level, strict=True)
        )
        np.add.at(held, nodes, self.counts[first:last])
        return held


def read_visits(
    data: Data,
    layout: Layout,
    places: Lattice,
    ticks: int,
    unit: Unit,
    count: str | None,
) -> Visits:
    """What the data holds, of persons one cell a tick in the first `unit.max_rows` ticks of each."""
    source = open_data(data)
    fields = need_columns(source, layout.domain, count, ticks)
    found: list[tuple[Integers, Integers]] = []
    # no sum over ticks and places can overflow
    most = max(cap(layout) // ticks, 1)
    if count is not None:
        for values in source.stream_keys(fields, count, most):
            found.append(_placed(layout, values[:-1], values[-1]))
    else:
        size = prod(field.size for field in fields)
        if size > 2**62:
            raise DataError(
                "the columns are too wide to be counted together",
                needed="at most 2^62 combinations",
                fix=setting(count="people"),
            )
        if unit.kind == "person":
            numbers, counts = count_ticks(source, fields, unit, most=unit.contributions)
        else:
            numbers, counts = count_cells(source, fields, Unit.row())
        values = []
        for field in reversed(fields):
            numbers, digit = np.divmod(numbers, field.size)
            values.append(digit)
        found.append(_placed(layout, values[::-1], counts))
    keys = np.concatenate([np.empty(0, np.int64), *(own for own, _ in found)])
    counts = np.concatenate([np.empty(0, np.int64), *(own for _, own in found)])
    cells = sort_cells(keys, np.minimum(counts, most), layout.bits + (ticks - 1).bit_length(), most)
    leaves = places.leaf(layout, cells.keys & ((1 << layout.bits) - 1))
    return Visits(cells.keys >> layout.bits, leaves, cells.counts)


def _placed(layout: Layout, values: list[Any], counts: Any) -> tuple[Integers, Integers]:
    """Ticks and cells as one number each, those that are no place left out."""
    keys = keys_of(layout, values[1:])
    good = keys >= 0
    return (values[0][good].astype(np.int64) << layout.bits) | keys[good], counts[good].astype(np.int64)
