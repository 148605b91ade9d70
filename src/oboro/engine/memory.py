"""Data that is in memory: Arrow, pandas, Polars, DuckDB's relations, dictionaries of columns. All become an Arrow table.

No value decides how another is read: a Python list and a column of Python objects become text, value by value, whatever stands
beside it. What can be changed in place afterwards, as pandas and NumPy can, is copied: what was opened is what is answered from.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

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

    columns = []
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        kind = getattr(column.dtype, "categories", column).dtype
        try:
            if str(kind) == "object" or getattr(kind, "storage", None) == "python":
                texts = column.astype(object).map(_text, na_action="ignore")
                columns.append(pa.array(texts, pa.string(), from_pandas=True))
            else:
                columns.append(pa.array(column.copy(), from_pandas=True))
        except (pa.ArrowException, TypeError):
            raise DataError(
                f"column {name!r} has a type that cannot be read",
                given=str(column.dtype),
                needed="numbers, texts, categories, dates or truth values",
                fix=f"frame.drop(columns={name!r})",
            ) from None
    return pa.table(columns, names=[str(name) for name in frame.columns])


def _from_columns(data: dict[str, Any]) -> Any:
    """A dictionary of columns: what has a type keeps it, a Python list is read as text."""
    import pyarrow as pa

    columns = {}
    for name, values in data.items():
        typed = hasattr(values, "dtype") and values.dtype != object and getattr(values, "ndim", 1) == 1
        if typed or isinstance(values, pa.Array | pa.ChunkedArray):
            columns[str(name)] = (
                pa.array(values.copy() if hasattr(values, "copy") else values) if typed else values
            )
        else:
            columns[str(name)] = pa.array(
                [_text(value) for value in _list_of(str(name), values)], pa.string()
            )
    if len({len(column) for column in columns.values()}) > 1:
        raise DataError("the columns have different lengths", needed="one value for each row in every column")
    return pa.table(columns)


def _list_of(name: str, values: Any) -> list[Any]:
    """The values of a column; an error shows their kind alone."""
    try:
        return list_of(name, values)
    except ParameterError:
        raise DataError(
            f"column {name!r} is not a list", given=type(values).__name__, needed="a list of values"
        ) from None


def _text(value: Any) -> str | None:
    """One value as text, by itself: how it is read must not depend on the values beside it."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)  # equal numbers, equal texts
    try:
        text = str(value)
    except ValueError:  # a whole number of thousands of digits
        text = str(Decimal(value))
    return text.encode("utf-8", "backslashreplace").decode()
