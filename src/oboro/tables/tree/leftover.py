"""What the file of a filtered table says beside its cells: how sure these are, and what is left over in blocks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from oboro.noise.laplace import as_float, check_level
from oboro.privacy import Unit
from oboro.tables.layout import Layout
from oboro.tables.publishing import key_columns
from oboro.tables.reading import read_cells
from oboro.tables.strategy import counts_move
from oboro.tables.tree.carrying import Table, noisy_in
from oboro.tables.tree.filtered import CELLS
from oboro.tables.tree.lattice import Integers


def filtered_intervals(
    table: Table, level: float, layout: Layout, eps: Fraction, unit: Unit
) -> tuple[Integers, Integers]:
    """Intervals for the rows of a published table: the noisy counts of its cells, give or take, widened to the published.

    They are wider than for one cell, because only cells that stand out are there. Of C cells that were tested R are
    published, those with the largest noise among them. A share 1 - level of the R may be missed, which is
    (1 - level) R / C of all: as if each interval were made for that.
    """
    _, _, facts, keys, noisy = noisy_in(table)
    tested, published = max(int(facts[0]), 1), max(int(facts[1]), 1)
    scale = as_float(counts_move(unit) / (CELLS * eps))
    away = math.ceil(scale * math.log(max(tested / ((1 - check_level(level)) * published), 1.0)))
    cells = read_cells(
        table, layout, Unit.cells(), table.column_names[-1]
    )  # in the order of the table: that of keys
    at = noisy[np.searchsorted(keys, cells.keys)] if cells.keys.size else noisy[:0]
    return np.minimum(np.maximum(at - away, 0), cells.counts), np.maximum(at + away, cells.counts)


def unallocated(table: Table, layout: Layout) -> Table:
    """Parts that hold people: the columns of their first cell, how many cells they have, what they hold, and how much
    of that is in no published cell."""
    import pyarrow as pa

    live, held, facts, _, _ = noisy_in(table)
    below = int(facts[3])
    cells = read_cells(table, layout, Unit.cells(), table.column_names[-1])
    rest = held.copy()
    np.subtract.at(rest, np.searchsorted(live, cells.keys >> below), cells.counts)
    beside = {"cells": np.full(live.size, 1 << below), "held": held, "unallocated": rest}
    return pa.table({**dict(key_columns(live << below, layout)), **beside})
