"""Data that is in memory: Arrow, pandas, Polars, DuckDB's relations, dictionaries of columns. All become an Arrow table.

No value decides how another is read: a Python list and a column of Python objects become text, value by value, whatever stands
beside it. What can be changed in place afterwards, as pandas and NumPy can, is copied: what was opened is what is answered from.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from oboro.engine.careful import READABLE, in_words
from oboro.engine.times import in_microseconds, in_utc
from oboro.errors import DataError, ParameterError
from oboro.kinds import list_of


def to_arrow(data: Any) -> Any:
    """The table, with times that DuckDB can read."""
    with in_words():
        return in_microseconds(_table(data))


def _table(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table | pa.RecordBatch):
        return data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    if isinstance(data, dict):
        return _from_columns(data)
    module = type(data).__module__.partition(".")[0]
    if module == "polars":
        return (data.collect() if hasattr(data, "collect") else data).to_arrow()
    if module == "pandas":
        return _from_pandas(data)
    if module in ("duckdb", "_duckdb") and hasattr(data, "arrow"):
        table = data.arrow()
        return in_utc(table.read_all() if hasattr(table, "read_all") else table)
    if hasattr(data, "to_table"):  # a pyarrow dataset
        return data.to_table()
    raise DataError(
        "the data cannot be read",
        given=type(data).__name__,
        needed=f"a path ({READABLE}), or an Arrow, pandas, Polars or DuckDB table",
        fix='"people.parquet"',
    )


def _from_pandas(frame: Any) -> Any:
    import pyarrow as pa

    columns = [_column(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    return pa.table(columns, names=[str(name) for name in frame.columns])


def _from_columns(data: dict[str, Any]) -> Any:
    """A dictionary of columns: what has a type keeps it, a Python list is read as text."""
    import pyarrow as pa

    columns = {str(name): _column(str(name), values) for name, values in data.items()}
    if len({len(column) for column in columns.values()}) > 1:
        raise DataError("the columns have different lengths", needed="one value for each row in every column")
    return pa.table(columns)


def _column(name: str, values: Any) -> Any:
    """One column. A type that is no text and no object keeps its values; all else is read value by value."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    kind = getattr(values, "dtype", None)
    kind = getattr(getattr(kind, "categories", None), "dtype", kind)  # of what pandas counts as a category
    if kind is None or getattr(values, "ndim", 1) != 1 or _in_python(kind):
        return pa.array([_text(value) for value in _list_of(name, values)], pa.string())
    try:
        return pa.array(values.copy() if hasattr(values, "copy") else values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        raise DataError(
            f"column {name!r} has a type that cannot be read",
            given=str(getattr(values, "dtype", kind)),
            needed="numbers, texts, categories, dates or truth values",
            fix="data without that column",
        ) from None


def _in_python(kind: Any) -> bool:
    """Whether values of this type are Python's own, or texts of NumPy, which need not be valid."""
    return (
        str(kind) == "object"
        or getattr(kind, "storage", None) == "python"
        or getattr(kind, "kind", "") in "US"
    )


def _list_of(name: str, values: Any) -> list[Any]:
    """The values of a column; an error shows their kind alone."""
    try:
        return list_of(name, values)
    except ParameterError:
        raise DataError(
            f"column {name!r} is not a list", given=type(values).__name__, needed="a list of values"
        ) from None


def _text(value: Any) -> str | None:
    """One value as text, by itself: how it is read must not depend on the values beside it. What has no text is missing."""
    if type(value) is str and value.isascii():
        return value
    try:
        if value is None or _is_missing(value):
            return None
        if isinstance(value, bool | np.bool_) or (isinstance(value, float) and float.is_integer(value)):
            value = int(value)  # equal numbers, equal texts
        elif isinstance(value, bytes | bytearray | memoryview):
            value = bytes(value).decode("utf-8", "backslashreplace")
        text = str(Decimal(value)) if isinstance(value, int) and value.bit_length() > 10_000 else str(value)
        return text.encode("utf-8", "backslashreplace").decode()
    except Exception:  # whatever an object in the data may do when it is asked for its text
        return None


def _is_missing(value: Any) -> bool:
    """Not a number, and what pandas and NumPy have for a value that is not there."""
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
