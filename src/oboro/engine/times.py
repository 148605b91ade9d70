"""Points in time and lengths of time that no calendar holds, brought within reach before DuckDB meets them.

It would raise on a second that is 31 million years away, whether a value is read, cast or only looked at. Here it counts as the
first or the last microsecond that DuckDB can write down. What cannot be brought within reach is refused by its type.

A time with a zone becomes the time on the clocks of that zone: which day it was follows from the data, never from where the
program runs. The zone is the column's own, as its type says in Arrow, pandas, Polars and files written from them; UTC where
the type says none, as in other Parquet files and in DuckDB. In text the day counts as it is written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from oboro.engine.careful import damaged

EARLIEST = -9_223_372_022_400_000_000  # microseconds: 290309-12-22 (BC) 00:00:00
LATEST = 2**63 - 2  # one more is infinity
_FINER = {"s": 10**6, "ms": 10**3}
_YEARS = (
    -62_135_769_600_000_000,
    253_402_473_600_000_000,
)  # two days beyond the years 1 to 9999: room for any zone
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_WITH_ZONE = re.compile(r"\b(TIME|TIMESTAMP) WITH TIME ZONE\b")
_REFUSED = re.compile(r"\b(TIME|TIME_NS|TIMETZ|JSON)\b")
_REFUSED_INSIDE = re.compile(r"\b(TIMESTAMP\w*|INTERVAL)\b")


def unreadable(type_name: str) -> bool:
    """Whether some values of a DuckDB type raise however they are read: times of day, and times within lists and records."""
    plain = _WITH_ZONE.sub(r"\1TZ", type_name.upper())
    nested = plain.endswith("]") or "(" in plain
    return bool(_REFUSED.search(plain) or (nested and _REFUSED_INSIDE.search(plain)))


def zones_in(schema: Any) -> dict[str, str]:
    """The zone of each column of times that has one."""
    import pyarrow as pa

    return {one.name: one.type.tz for one in schema if pa.types.is_timestamp(one.type) and one.type.tz}


def in_utc(table: Any) -> Any:
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


def coarse_times(path: Path) -> tuple[Any, dict[str, str], dict[str, str]]:
    """For a Parquet file with milliseconds: a dataset that has them as whole numbers, and SQL for each. And all zones.

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
        return None, {}, zones_in(schema)
    whole = [
        pa.field(one.name, pa.int64()) if one.name in coarse or pa.types.is_duration(one.type) else one
        for one in schema
    ]
    dataset = ds.dataset(path, schema=pa.schema(whole), format="parquet")
    return dataset, {name: _made(name, kind) for name, kind in coarse.items()}, zones_in(schema)


def _made(name: str, kind: Any) -> str:
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
