"""Sorted cells as the table that goes out: the columns that came in, and a count. And back to records, for the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from oboro.arrays import Integers, Table
from oboro.domain import Category, Column, Date, Domain, Grid, Integer, Mesh
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout, column_groups


def to_table(cells: Cells, layout: Layout, count: str) -> Table:
    """One row for each cell that is not 0, in the order of keys."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name, values in key_columns(cells.keys, layout):
        columns[name] = values
    columns[count] = _arrow(cells.counts)
    return pa.table(columns)


def count_name(count: str | None, domain: Domain) -> str:
    """What the column of counts is called: as in the data, if they were counted there."""
    taken = {name for column in domain for name in column.sources}
    return count if count is not None else "count" if "count" not in taken else "noisy count"


def key_columns(keys: Integers, layout: Layout) -> Iterator[tuple[str, Any]]:
    """The columns of the data that say which cell it is."""

    axes = iter(layout.places(keys))
    for column in layout.domain:
        own = [next(axes) for group in column_groups(column) for _ in group]
        if isinstance(column, Grid):
            for name, places in zip(column.names, own, strict=True):
                yield name, _arrow(places.astype(np.int32))
        elif isinstance(column, Mesh):
            yield column.name, _arrow(column.from_axes(own))
        else:
            yield column.name, _values(column, own[0])


def _values(column: Column, codes: Integers) -> Any:
    import pyarrow as pa

    if isinstance(column, Integer):
        return _arrow(column.low + codes * column.step)
    if isinstance(column, Category):
        known = pa.array(list(column.values))
        return pa.DictionaryArray.from_arrays(_arrow(codes.astype(np.int32)), known)
    if isinstance(column, Date):
        days = codes + (column.first.toordinal() - 719163)  # days since 1970-01-01
        return _arrow(days.astype(np.int32)).cast(pa.date32())
    unique, places = np.unique(
        codes, return_inverse=True
    )  # exact rationals to the nearest double, once for each value
    return pa.array(np.array([column.value(int(code)) for code in unique], float)[places])


def _arrow(numbers: Any) -> Any:
    """An Arrow array without a copy. (pa.array loads pandas, which takes half a second.)"""
    import pyarrow as pa

    kind = pa.int64() if numbers.dtype == np.int64 else pa.int32()
    return pa.Array.from_buffers(kind, numbers.size, [None, pa.py_buffer(np.ascontiguousarray(numbers))])
