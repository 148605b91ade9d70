"""Data that is in memory: Arrow, pandas, Polars, DuckDB's relations, dictionaries of columns. All become an Arrow table.

No value decides how another is read: a Python list and a column of Python objects become text, value by value, whatever stands
beside it. What can be changed in place afterwards, as pandas and NumPy can, is copied: what was opened is what is answered from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.engine.careful import READABLE, damaged, in_words
from oboro.errors import DataError, ParameterError
from oboro.kinds import list_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as ds

    from oboro.arrays import Array, Data, Kind, Schema, Table

# Points in time and lengths of time that no calendar holds, brought within reach before DuckDB meets them.
#
# It would raise on a second that is 31 million years away, whether a value is read, cast or only looked at. Here it counts as the
# first or the last microsecond that DuckDB can write down. What cannot be brought within reach is refused by its type.
#
# A time with a zone becomes the time on the clocks of that zone: which day it was follows from the data, never from where the
# program runs. The zone is the column's own, as its type says in Arrow, pandas, Polars and files written from them; UTC where
# the type says none, as in other Parquet files and in DuckDB. In text the day counts as it is written.

EARLIEST = -9_223_372_022_400_000_000  # microseconds: 290309-12-22 (BC) 00:00:00
LATEST = 2**63 - 2  # one more is infinity
_FINER = {"s": 10**6, "ms": 10**3}
_YEARS = (
    -62_135_769_600_000_000,
    253_402_473_600_000_000,
)  # two days beyond the years 1 to 9999: room for any zone
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_WITH_ZONE = re.compile(r"\b(TIME|TIMESTAMP) WITH TIME ZONE\b")
_REFUSED = re.compile(r"\b(TIME|TIME_NS|TIMETZ|JSON)\b|\bMAP[(<]|^HALF")
_REFUSED_INSIDE = re.compile(r"\b(TIMESTAMP\w*|INTERVAL)\b")


def unreadable(type_name: str) -> bool:
    """Whether some values of a type raise however they are read: times of day, maps, and times within lists and records.

    Or do not hold what they should: a float of 16 bits holds whole numbers up to 2^11, so that one more may be two or none.
    """
    plain = _WITH_ZONE.sub(r"\1TZ", type_name.upper())
    nested = plain.endswith("]") or "(" in plain
    return bool(_REFUSED.search(plain) or (nested and _REFUSED_INSIDE.search(plain)))


def check_names(names: Sequence[str]) -> None:
    """Refuses columns that DuckDB would call by another name than the schema does, so that one name means one column.

    It takes capital letters for small ones and numbers what it then has twice: X beside x becomes X_1, whatever else is
    called that. Letters beyond ASCII it tells apart today; they are compared as well, for another version of it may not.
    """
    met: dict[str, str] = {}
    for name in names:
        other = met.get(name.casefold())
        if other is not None or not name or "\0" in name:
            raise DataError(
                "the data has a column without a usable name"
                if other is None
                else "the data has two columns of one name, capital letters aside",
                given=repr(name) if other is None else f"{other!r} and {name!r}",
                needed="a name for each column that differs from all others in more than capital letters",
                fix=f"rename column {name!r}",
            )
        met[name.casefold()] = name


def without_maps(given: Any) -> tuple[Any, dict[str, str]]:
    """A table or a dataset without its columns of maps and of half floats, and their types. What is neither stays as it is.

    DuckDB raises on a map with one key twice, and may look at a column that nobody asks for, to count rows. Half floats
    it does not take from Arrow at all.
    """
    import pyarrow as pa

    if not hasattr(given, "schema"):
        return given, {}
    maps = {one.name: str(one.type).upper() for one in given.schema if _holds_map(one.type)}
    maps |= {one.name: "HALF FLOAT" for one in given.schema if pa.types.is_float16(one.type)}
    if maps:
        rest = pa.schema([one for one in given.schema if one.name not in maps])
        given = given.select(rest.names) if isinstance(given, pa.Table) else given.replace_schema(rest)
    return given, maps


def _holds_map(kind: Kind) -> bool:
    import pyarrow as pa

    inner = getattr(kind, "storage_type", None) or getattr(kind, "value_type", None)
    if pa.types.is_map(kind) or (inner is not None and _holds_map(inner)):
        return True
    return any(_holds_map(kind.field(place).type) for place in range(kind.num_fields))


def zones_in(schema: Schema) -> dict[str, str]:
    """The zone of each column of times that has one."""
    import pyarrow as pa

    return {one.name: one.type.tz for one in schema if pa.types.is_timestamp(one.type) and one.type.tz}


def in_utc(table: Table) -> Table:
    """The same instants, with UTC for a zone: DuckDB's own times have none, and it would put that of this machine."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz:
            utc = table.column(place).cast(pa.timestamp(column.type.unit, "UTC"))
            table = table.set_column(place, column.name, utc)
    return table


def within_reach(field: str, type_name: str, zone: str | None = None) -> str | None:
    """SQL for the same column with no time before the earliest, on its own clocks; None where there is nothing to do."""
    if type_name.upper() in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"):
        return on_clocks(f"CAST({field} AS TIMESTAMP WITH TIME ZONE)", zone or "UTC")
    if type_name.upper() != "TIMESTAMP":
        return None
    earliest = f"make_timestamp({EARLIEST})"
    return f"CASE WHEN {field} < {earliest} THEN {earliest} ELSE {field} END"


def on_clocks(instant: str, zone: str) -> str:
    """SQL for the time that clocks of a zone show at an instant. What lies beyond the years 1 to 9999 stays beyond."""
    first, last = (f"make_timestamptz({edge})" for edge in _YEARS)
    inside = (
        f"(CASE WHEN {instant} < {first} THEN {first} WHEN {instant} > {last} THEN {last} ELSE {instant} END)"
    )
    if found := _OFFSET.fullmatch(zone):
        sign, hours, minutes = -1 if found[1] == "-" else 1, int(found[2]), int(found[3])
        return f"make_timestamp(epoch_us({inside}) + {sign * (60 * hours + minutes) * 60 * 10**6})"
    name = zone.replace("'", "''")
    return f"timezone('{name}', {inside})"


def in_microseconds(table: Table) -> Table:
    """An Arrow table with its seconds and milliseconds as microseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(table.schema):
        if (finer := _finer(column.type)) is None:
            continue
        first, last = _limits(column.type)
        counts = table.column(place).cast(pa.int64())
        counts = pc.min_element_wise(counts, pa.scalar(last), skip_nulls=False)
        counts = pc.max_element_wise(counts, pa.scalar(first), skip_nulls=False)
        counts = pc.multiply(counts, pa.scalar(_FINER[column.type.unit]))
        table = table.set_column(place, column.name, counts.cast(finer))
    return table


def coarse_times(path: Path) -> tuple[ds.Dataset | None, dict[str, str], dict[str, str], dict[str, str]]:
    """For a Parquet file with milliseconds: a dataset that has them as whole numbers, and SQL for each. And all zones, and half floats.

    DuckDB's own reader raises on one that is too far away, whatever is done with it.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        raise damaged(path) from None
    check_names(schema.names)
    coarse = {
        one.name: one.type for one in schema if pa.types.is_timestamp(one.type) and one.type.unit in _FINER
    }
    half = {one.name: "HALF FLOAT" for one in schema if pa.types.is_float16(one.type)}
    if not coarse:
        return None, {}, zones_in(schema), half
    whole = [
        pa.field(one.name, pa.int64()) if one.name in coarse or pa.types.is_duration(one.type) else one
        for one in schema
    ]
    dataset = ds.dataset(path, schema=pa.schema(whole), format="parquet")
    return dataset, {name: _made(name, kind) for name, kind in coarse.items()}, zones_in(schema), half


def _made(name: str, kind: Kind) -> str:
    """SQL for a time from its number of seconds or milliseconds."""
    field = '"' + name.replace('"', '""') + '"'
    first, last = _limits(kind)
    inside = f"CASE WHEN {field} < {first} THEN {first} WHEN {field} > {last} THEN {last} ELSE {field} END"
    counted = f"({inside}) * {_FINER[kind.unit]}"
    return (
        f"make_timestamp({counted})"
        if kind.tz is None
        else on_clocks(f"make_timestamptz({counted})", kind.tz)
    )


def _finer(kind: Kind) -> Kind | None:
    """The type with microseconds, of one with seconds or milliseconds; else None."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind) and kind.unit in _FINER:
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) and kind.unit in _FINER else None


def _limits(kind: Kind) -> tuple[int, int]:
    """The least and the largest number of its unit that microseconds can hold."""
    import pyarrow as pa

    earliest = EARLIEST if pa.types.is_timestamp(kind) else -LATEST
    return -(-earliest // _FINER[kind.unit]), LATEST // _FINER[kind.unit]


def to_arrow(data: Data) -> Table:
    """The table, with times that DuckDB can read."""
    with in_words():
        return in_microseconds(_table(data))


def _table(data: Any) -> Table:
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


def _from_pandas(frame: pd.DataFrame) -> Table:
    import pyarrow as pa

    columns = [_column(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    return pa.table(columns, names=[str(name) for name in frame.columns])


def _from_columns(data: dict[str, object]) -> Table:
    """A dictionary of columns: what has a type keeps it, a Python list is read as text."""
    import pyarrow as pa

    columns = {str(name): _column(str(name), values) for name, values in data.items()}
    if len({len(column) for column in columns.values()}) > 1:
        raise DataError("the columns have different lengths", needed="one value for each row in every column")
    return pa.table(columns)


def _column(name: str, values: object) -> Array:
    """One column. A type that is no text and no object keeps its values; all else is read value by value."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    kind = getattr(values, "dtype", None)
    kind = getattr(getattr(kind, "categories", None), "dtype", kind)  # of what pandas counts as a category
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise DataError(
            f"column {name!r} is not a list",
            given=f"an array of {values.ndim} dimensions",
            needed="a list of values",
            fix=f"{name}.ravel()" if name.isidentifier() else None,
        )
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


def _in_python(kind: object) -> bool:
    """Whether values of this type are Python's own, or texts of NumPy, which need not be valid."""
    if hasattr(kind, "pyarrow_dtype"):  # Arrow's own bytes, whatever they are
        return False
    return (
        str(kind) == "object"
        or getattr(kind, "storage", None) == "python"
        or getattr(kind, "kind", "") in "US"
    )


def _list_of(name: str, values: object) -> list[object]:
    """The values of a column; an error shows their kind alone."""
    try:
        return list_of(name, values)
    except ParameterError:
        raise DataError(
            f"column {name!r} is not a list", given=type(values).__name__, needed="a list of values"
        ) from None


def _text(value: object) -> str | None:
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


def _is_missing(value: object) -> bool:
    """Not a number, and what pandas and NumPy have for a value that is not there."""
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
