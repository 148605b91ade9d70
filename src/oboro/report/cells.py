"""A published table as cells of a map: layers, rows, columns and counts, summed until a page can carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column, Domain
from oboro.errors import DataError
from oboro.report.place import Place

Integers = npt.NDArray[np.int64]
Table = Any  # pyarrow.Table, loaded on first use

MOST_VALUES = 400  # a list to choose from that is longer helps nobody: such a column is summed over
INTERVAL = ("low", "high")  # the columns that Release.interval() appends


@dataclass(frozen=True, slots=True)
class Layers:
    """The columns beside the map: some to choose from, the others summed over."""

    shown: tuple[Column, ...]
    summed: tuple[str, ...]

    @classmethod
    def of(cls, domain: Domain, place: Place) -> Layers:
        others = [column for column in domain.columns if column is not place.column]
        shown = tuple(c for c in others if getattr(c, "shape", None) is None and 1 < c.size <= MOST_VALUES)
        return cls(shown, (*place.summed, *(c.name for c in others if c not in shown and c.size > 1)))

    def labels(self) -> list[dict[str, Any]]:
        return [{"name": c.name, "values": [str(c.value(i)) for i in range(c.size)]} for c in self.shown]

    def codes(self, table: Table) -> Integers:
        """The layer of each row: mixed radix over the shown columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = np.zeros(table.num_rows, np.int64)
        for column in self.shown:
            values = _column(table, column.name).combine_chunks()
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            known = pa.array([column.value(i) for i in range(column.size)])
            try:
                index = pc.index_in(values, known.cast(values.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise _strange(column.name) from None
            if index.null_count:
                raise _strange(column.name)
            codes = codes * column.size + index.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts by layer, row and column; `below` and `above` are how far the 95% interval reaches, if it was given."""

    layer: Integers
    row: Integers
    col: Integers
    count: Integers
    below: Integers | None = None
    above: Integers | None = None

    @property
    def total(self) -> int:
        return int(self.count.sum())


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the grid that the page shows."""

    row: int
    col: int
    rows: int
    cols: int

    def at(self, shift: int) -> tuple[int, int, int, int]:
        """First row, first column, rows and columns in blocks of side 2^shift, aligned to the whole grid."""
        row, col = self.row >> shift, self.col >> shift
        last_row, last_col = (self.row + self.rows - 1) >> shift, (self.col + self.cols - 1) >> shift
        return row, col, last_row - row + 1, last_col - col + 1


@dataclass(frozen=True, slots=True)
class Blocks:
    """Sums over blocks of side 2^shift, sorted by layer and position; empty blocks are left out."""

    shift: int
    layer: Integers
    position: Integers  # row-major within the window
    count: Integers
    below: Integers | None = None
    above: Integers | None = None


def read_cells(table: Table, place: Place, layers: Layers, count: str | None = None) -> Cells:
    """The cells of a table in coordinate form. The table is public, so whatever is wrong with it is said."""
    row, col = place.locate(table)
    numbers = _integers(table, _count_column(table, place, layers, count))
    if numbers.size and int(numbers.min()) < 0:
        raise DataError("the map shows counts, and counts are not negative", given=f"{int(numbers.min())}", needed="0 or more")
    layer = layers.codes(table)
    below, above = _reach(table, numbers, layer.size == 0 or bool(place.summed) or bool(layers.summed))
    rows, cols = place.shape
    if row.size and (int(row.min()) < 0 or int(col.min()) < 0 or int(row.max()) >= rows or int(col.max()) >= cols):
        raise DataError("a cell lies outside the grid", needed=f"rows 0 to {rows - 1}, columns 0 to {cols - 1}", fix="the domain of the release")
    return Cells(layer, row, col, numbers, below, above)


def window_of(tables: Sequence[Cells], shape: tuple[int, int], side: int) -> Window:
    """The whole grid if a page can show every cell of it, else the part where there is anything."""
    rows, cols = shape
    filled = [(c.row[c.count > 0], c.col[c.count > 0]) for c in tables]
    filled = [(row, col) for row, col in filled if row.size]
    if max(rows, cols) <= side or not filled:
        return Window(0, 0, rows, cols)
    top, left = min(int(row.min()) for row, _ in filled), min(int(col.min()) for _, col in filled)
    bottom, right = max(int(row.max()) for row, _ in filled), max(int(col.max()) for _, col in filled)
    return Window(top, left, bottom - top + 1, right - left + 1)


def sum_blocks(cells: Cells, window: Window, shift: int, *, by_layer: bool) -> Blocks:
    """Sums cells over blocks of side 2^shift, and over the layers unless `by_layer`."""
    first_row, first_col, rows, cols = window.at(shift)
    used = cells.count > 0
    inside = rows * cols
    key = ((cells.row[used] >> shift) - first_row) * cols + ((cells.col[used] >> shift) - first_col)
    if by_layer:
        key = key + cells.layer[used] * inside
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if key.size else np.zeros(0, np.int64)
    counts = np.add.reduceat(cells.count[used][order], starts) if key.size else np.zeros(0, np.int64)
    alone = starts.size == key.size and cells.below is not None  # an interval belongs to one cell, not to a sum
    return Blocks(
        shift,
        key[starts] // inside,
        key[starts] % inside,
        counts,
        cells.below[used][order] if alone and cells.below is not None else None,
        cells.above[used][order] if alone and cells.above is not None else None,
    )


def fitting(tables: Sequence[Cells], window: Window, side: int, entries: int, *, by_layer: bool, least: int = 0) -> list[Blocks]:
    """The finest blocks that a page can carry: at most `side` a side, and `entries` in all tables together."""
    shift = least
    while max(window.at(shift)[2:]) > side:
        shift += 1
    while True:
        blocks = [sum_blocks(cells, window, shift, by_layer=by_layer) for cells in tables]
        if sum(b.count.size for b in blocks) <= entries or max(window.at(shift)[2:]) == 1:
            return blocks
        shift += 1


def _count_column(table: Table, place: Place, layers: Layers, count: str | None) -> str:
    if count is not None:
        return count
    keys = {*place.keys, *(c.name for c in layers.shown), *layers.summed, *INTERVAL}
    left = [name for name in table.column_names if name not in keys]
    if not left:
        raise DataError("the table has no column of counts", given=", ".join(table.column_names), fix='write_map(..., count="people")')
    return str(left[-1])


def _reach(table: Table, count: Integers, useless: bool) -> tuple[Integers | None, Integers | None]:
    if useless or not set(INTERVAL) <= set(table.column_names):
        return None, None
    low, high = (np.asarray(_column(table, name).to_numpy(), np.float64) for name in INTERVAL)
    below, above = np.maximum(np.ceil(count - low), 0), np.maximum(np.ceil(high - count), 0)
    return (below.astype(np.int64), above.astype(np.int64)) if np.isfinite(below + above).all() else (None, None)


def _integers(table: Table, name: str) -> Integers:
    import pyarrow as pa

    column = _column(table, name)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise DataError(f"column {name!r} does not hold whole numbers", given=str(column.type), needed="int64 without gaps", fix='count="people"')
    return np.asarray(column.to_numpy(), np.int64)


def _column(table: Table, name: str) -> Any:
    if name not in table.column_names:
        raise DataError(f"the table has no column {name!r}", given=", ".join(table.column_names), needed=f"{name}, as the domain declares")
    return table.column(name)


def _strange(name: str) -> DataError:
    return DataError(f"column {name!r} holds a value that the domain does not declare", fix="the domain of the release")
