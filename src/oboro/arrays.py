"""Arrays and tables by name, and what a caller may hand in as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.int32]
Words: TypeAlias = npt.NDArray[np.uint64]
HalfWords: TypeAlias = npt.NDArray[np.uint32]
Codes: TypeAlias = npt.NDArray[np.integer]  # of any size
Numbers: TypeAlias = npt.NDArray[np.number]  # of any size, whole or not
Values: TypeAlias = npt.NDArray[np.generic]  # of whatever a column holds: numbers, texts, dates
Ends: TypeAlias = tuple[Integers, Integers] | tuple[Floats, Floats]  # of intervals: lows and highs

# Loaded on first use, so that their names are texts: nothing here may stand in the fields of a plan.
Table: TypeAlias = "pa.Table"
Schema: TypeAlias = "pa.Schema"
Kind: TypeAlias = "pa.DataType"
Array: TypeAlias = "pa.Array"  # or several of them, one after the other
Connection: TypeAlias = "duckdb.DuckDBPyConnection"
Data: TypeAlias = (
    "str | Path | Mapping[str, object] | pa.Table | pa.RecordBatch | ds.Dataset | pd.DataFrame"
    " | pl.DataFrame | pl.LazyFrame | duckdb.DuckDBPyRelation"
)


def table_of(columns: Mapping[str, Numbers | Array]) -> Table:
    """An Arrow table; arrays of numbers become columns as they are, and pandas is not loaded for them as `pa.table` would."""
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray) and values.dtype in (np.int64, np.float64):
            kind, own = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
            arrays[name] = pa.Array.from_buffers(kind, own.size, [None, pa.py_buffer(own)])
        else:
            arrays[name] = values
    return pa.Table.from_arrays(list(arrays.values()), list(arrays)) if arrays else pa.table({})


_KINDS = {"double": "float64", "float": "float32", "halffloat": "float16"}  # others have NumPy's name


def numbers_in(table: Table, name: str) -> Numbers:
    """A column of numbers without nulls as an array; as `to_numpy`, which loads pandas where it is installed."""
    own = table.column(name).combine_chunks()
    kind = str(own.type)
    values = np.frombuffer(own.buffers()[1], dtype=_KINDS.get(kind, kind))
    return np.asarray(values[own.offset : own.offset + len(own)])
