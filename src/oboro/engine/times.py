"""Points in time and lengths of time that no calendar holds, brought within reach before DuckDB meets them.

It would raise on a second that is 31 million years away, whether a value is read, cast or only looked at. Here it counts as the
first or the last microsecond that DuckDB can write down. What cannot be brought within reach is refused by its type.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from oboro.engine.careful import damaged

EARLIEST = -9_223_372_022_400_000_000  # microseconds: 290309-12-22 (BC) 00:00:00
LATEST = 2**63 - 2  # one more is infinity
_FINER = {"s": 10**6, "ms": 10**3}
_WITH_ZONE = re.compile(r"\b(TIME|TIMESTAMP) WITH TIME ZONE\b")
_REFUSED = re.compile(r"\b(TIME|TIME_NS|TIMETZ|JSON)\b")
_REFUSED_INSIDE = re.compile(r"\b(TIMESTAMP\w*|INTERVAL)\b")


def unreadable(type_name: str) -> bool:
    """Whether some values of a DuckDB type raise however they are read: times of day, and times within lists and records."""
    plain = _WITH_ZONE.sub(r"\1TZ", type_name.upper())
    nested = plain.endswith("]") or "(" in plain
    return bool(_REFUSED.search(plain) or (nested and _REFUSED_INSIDE.search(plain)))


def within_reach(field: str, type_name: str) -> str | None:
    """SQL for the same column with no time before the earliest; None where there cannot be one."""
    if type_name.upper() != "TIMESTAMP":
        return None
    earliest = f"make_timestamp({EARLIEST})"
    return f"CASE WHEN {field} < {earliest} THEN {earliest} ELSE {field} END"


def in_microseconds(table: Any) -> Any:
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


def coarse_times(path: Path) -> tuple[Any, dict[str, str]]:
    """For a Parquet file with milliseconds: a dataset that has them as whole numbers, and SQL for each. Else nothing.

    DuckDB's own reader raises on one that is too far away, whatever is done with it.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        raise damaged(path) from None
    coarse = {
        one.name: one.type for one in schema if pa.types.is_timestamp(one.type) and one.type.unit in _FINER
    }
    if not coarse:
        return None, {}
    whole = [
        pa.field(one.name, pa.int64()) if one.name in coarse or pa.types.is_duration(one.type) else one
        for one in schema
    ]
    dataset = ds.dataset(path, schema=pa.schema(whole), format="parquet")
    return dataset, {name: _made(name, kind) for name, kind in coarse.items()}


def _made(name: str, kind: Any) -> str:
    """SQL for a time from its number of seconds or milliseconds."""
    field = '"' + name.replace('"', '""') + '"'
    first, last = _limits(kind)
    inside = f"CASE WHEN {field} < {first} THEN {first} WHEN {field} > {last} THEN {last} ELSE {field} END"
    make = "make_timestamp" if kind.tz is None else "make_timestamptz"
    return f"{make}(({inside}) * {_FINER[kind.unit]})"


def _finer(kind: Any) -> Any:
    """The type with microseconds, of one with seconds or milliseconds; else None."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind) and kind.unit in _FINER:
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) and kind.unit in _FINER else None


def _limits(kind: Any) -> tuple[int, int]:
    """The least and the largest number of its unit that microseconds can hold."""
    import pyarrow as pa

    earliest = EARLIEST if pa.types.is_timestamp(kind) else -LATEST
    return -(-earliest // _FINER[kind.unit]), LATEST // _FINER[kind.unit]
