"""A published table as cells of a map: layers, rows, columns and counts, summed until a page can carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Integers, Table
from oboro.domain import Column, Domain
from oboro.errors import DataError, setting
from oboro.report.place import Place, Window, is_place

MOST_VALUES = 400  # a longer list to choose from helps nobody: such a column is summed over
INTERVAL = ("low", "high")  # the columns that Release.interval() appends


@dataclass(frozen=True, slots=True)
class Layers:
    """The columns beside the map: some to choose from, the others summed over."""

    shown: tuple[Column, ...]
    summed: tuple[str, ...]

    @classmethod
    def of(cls, domain: Domain, place: Place) -> Layers:
        others = [column for column in domain.columns if column is not place.column]
        shown = tuple(column for column in others if not is_place(column) and column.size <= MOST_VALUES)
        rest = [name for column in others if column not in shown for name in column.sources]
        return cls(shown, (*place.summed, *rest))

    def labels(self) -> list[dict[str, Any]]:
        return [{"name": c.name, "values": [str(c.value(i)) for i in range(c.size)]} for c in self.shown]

    def codes(self, table: Table) -> Integers:
        """The layer of each row: mixed radix over the shown columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = np.zeros(table.num_rows, np.int64)
        for column in self.shown:
            values = _column(table, column.name)
            if pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            try:
                known = pa.array([column.value(i) for i in range(column.size)]).cast(values.type)
                index = pc.index_in(values, value_set=known)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise _strange(column.name) from None
            if index.null_count:
                raise _strange(column.name)
            codes = codes * column.size + np.asarray(index.to_numpy(), np.int64)
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
class Blocks:
    """Sums over blocks, sorted by layer and then by position in the window, row by row. Empty ones are left out."""

    side: int
    layer: Integers
    position: Integers
    count: Integers
    below: Integers | None = None
    above: Integers | None = None


def read_cells(table: Table, place: Place, layers: Layers, count: str | None = None) -> Cells:
    """The cells of a table in coordinate form. The table is public, so whatever is wrong with it is said."""
    row, col = place.locate(table)
    numbers = _counts(table, count or count_column(table, place, layers))
    below, above = _reach(table, numbers)
    return Cells(layers.codes(table), row, col, numbers, below, above)


def window_of(tables: Sequence[Cells], whole: Window, enough: int) -> Window:
    """The whole grid if it has at most `enough` cells, else the part of it where there is anything."""
    filled = [(cells.row[cells.count > 0], cells.col[cells.count > 0]) for cells in tables]
    filled = [(row, col) for row, col in filled if row.size]
    if whole.rows * whole.cols <= enough or not filled:
        return whole
    top, left = min(int(row.min()) for row, _ in filled), min(int(col.min()) for _, col in filled)
    bottom, right = max(int(row.max()) for row, _ in filled), max(int(col.max()) for _, col in filled)
    return Window(top, left, bottom - top + 1, right - left + 1)


def sum_blocks(cells: Cells, window: Window, side: int, *, by_layer: bool) -> Blocks:
    """Sums cells over blocks of `side` x `side`, and over the layers unless `by_layer`."""
    part = window.at(side)
    used = cells.count > 0
    inside = part.rows * part.cols
    key = (cells.row[used] // side - part.row) * part.cols + (cells.col[used] // side - part.col)
    if by_layer:
        key = key + cells.layer[used] * inside
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    counts = np.add.reduceat(cells.count[used][order], starts) if key.size else np.zeros(0, np.int64)
    below = above = None
    if (
        cells.below is not None and cells.above is not None and starts.size == key.size
    ):  # a sum has no such interval
        below, above = cells.below[used][order], cells.above[used][order]
    return Blocks(side, key[starts] // inside, key[starts] % inside, counts, below, above)


def finest(
    tables: Sequence[Cells],
    window: Window,
    sides: Sequence[int],
    *,
    blocks: int,
    entries: int,
    by_layer: bool,
) -> list[Blocks]:
    """Sums over the smallest blocks that a page can carry: so many blocks in the window, so many entries in all."""
    for side in sides:
        part = window.at(side)
        if part.rows * part.cols > blocks and side != sides[-1]:
            continue
        summed = [sum_blocks(cells, window, side, by_layer=by_layer) for cells in tables]
        if sum(each.count.size for each in summed) <= entries:
            break
    return summed


def count_column(table: Table, place: Place, layers: Layers) -> str:
    """The last column that is neither one of the domain nor an end of an interval."""
    keys = {*place.keys, *(column.name for column in layers.shown), *layers.summed, *INTERVAL}
    left = [str(name) for name in table.column_names if name not in keys]
    if not left:
        raise DataError(
            "the table has no column of counts",
            given=", ".join(table.column_names),
            fix=setting(count="people"),
        )
    return left[-1]


def _counts(table: Table, name: str) -> Integers:
    import pyarrow as pa

    column = _column(table, name)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise DataError(
            f"column {name!r} does not hold counts",
            given=str(column.type),
            needed="int64 without gaps",
            fix=setting(count="people"),
        )
    numbers = np.asarray(column.to_numpy(), np.int64)
    if numbers.size and int(numbers.min()) < 0:
        raise DataError(
            f"column {name!r} does not hold counts", given=f"{int(numbers.min())}", needed="0 or more"
        )
    return numbers


def _reach(table: Table, count: Integers) -> tuple[Integers | None, Integers | None]:
    """How far the interval reaches to both sides of the count, in whole numbers and never too short."""
    if not set(INTERVAL) <= set(table.column_names):
        return None, None
    low, high = (np.asarray(table.column(name).to_numpy(), np.float64) for name in INTERVAL)
    below, above = np.maximum(np.ceil(count - low), 0), np.maximum(np.ceil(high - count), 0)
    if not np.isfinite(below + above).all():
        return None, None
    return below.astype(np.int64), above.astype(np.int64)


def _column(table: Table, name: str) -> Any:
    if name not in table.column_names:
        raise DataError(
            f"the table has no column {name!r}",
            given=", ".join(table.column_names),
            needed=f"{name}, as the domain declares",
        )
    return table.column(name)


def _strange(name: str) -> DataError:
    return DataError(
        f"column {name!r} holds a value that the domain does not declare", fix="the domain of the release"
    )
