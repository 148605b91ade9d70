"""Times that no calendar holds count as the first or the last; none raises, wherever it comes from."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oboro.domain import Category, Column, Date, Integer
from oboro.engine import count_units, open_data
from oboro.engine.codes import code_sql
from oboro.engine.memory import EARLIEST, LATEST
from oboro.errors import DataError
from oboro.privacy import Unit

DAY = Date("x", "1970-01-01", "2030-12-31")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EDGES = sorted(
    edge + more
    for limit in (2**63 - 1, EARLIEST, LATEST)
    for unit in (1, 10**3, 10**6)
    for edge in (limit // unit, -(limit // unit))
    for more in (-1, 0, 1)
    if -(2**63) <= edge + more < 2**63
)


def codes(column: Column, data: Any) -> list[int | None]:
    source = open_data(data)
    source.need(column.name)
    query = f"SELECT {code_sql(column, source.types[column.name])} FROM {source.relation}"
    return [row[0] for row in source.connection.execute(query).fetchall()]


def stored(values: list[int | None], kind: pa.DataType, path: Path) -> list[Any]:
    """A column in memory and, as far as it can be written, in a file."""
    array = pa.array(values, pa.int64()).view(kind)
    if kind.unit == "s" and pa.types.is_timestamp(kind):  # Parquet has milliseconds
        fine = [value for value in values if value is None or abs(value) < 2**53]
        pq.write_table(pa.table({"x": pa.array(fine, pa.int64()).view(kind)}), path)
    else:
        pq.write_table(pa.table({"x": array}), path)
    return [open_data(pa.table({"x": array})), open_data(path)]


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
@pytest.mark.parametrize("unit", PER_SECOND)
def test_every_time_has_a_code_and_far_ones_that_of_a_bound(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    far = 100 * 366 * 86400 * PER_SECOND[unit]
    edges = [edge for edge in EDGES if abs(edge) > far]
    for data in stored(
        [12 * 3600 * PER_SECOND[unit], None, *edges], pa.timestamp(unit, zone), tmp_path / "p.parquet"
    ):
        first, missing, *rest = codes(DAY, data)
        assert (first, missing) == (0, None)
        assert sorted(rest) == sorted(rest, key=bool)  # type: ignore[type-var]
        assert set(rest) == {0, DAY.size - 1}
        for column in (Category("x", ["a"]), Integer("x", 0, 9)):
            assert set(codes(column, data)) <= {None, 0, 9}  # infinity is a number
        assert count_units(data, Unit.person("x", 1)) > 2


@pytest.mark.parametrize("unit", PER_SECOND)
def test_no_length_of_time_raises(tmp_path: Path, unit: str) -> None:
    for data in stored([0, None, *EDGES, 2**63 - 1, -(2**63)], pa.duration(unit), tmp_path / "p.parquet"):
        assert set(codes(Category("x", ["a"]), data)) == {None}
        assert count_units(data, Unit.person("x", 1)) > 2


UNSAFE = [
    pa.time32("s"),
    pa.time64("us"),
    *(pa.list_(pa.timestamp(unit)) for unit in PER_SECOND),
    pa.list_(pa.time32("s")),
    pa.struct([("a", pa.timestamp("ms", "UTC"))]),
    pa.list_(pa.duration("s")),
]


def test_what_cannot_be_read_safely_is_refused_by_its_type(tmp_path: Path) -> None:
    table = pa.table({str(kind): pa.nulls(1, kind) for kind in UNSAFE} | {"y": [1]})
    pq.write_table(table.drop_columns([str(pa.list_(pa.duration("s")))]), tmp_path / "p.parquet")
    for data in (open_data(table), open_data(tmp_path / "p.parquet")):
        for name in data.types:
            if name != "y":
                with pytest.raises(DataError, match="cannot be read safely"):
                    data.need(name)
        assert codes(Integer("y", 0, 9), data) == [1]


def test_milliseconds_in_a_file_leave_its_other_columns_as_they_are(tmp_path: Path) -> None:
    times = pa.array([0, 2**60, None], pa.int64()).view(pa.timestamp("ms"))
    table = pa.table(
        {
            "when": times,
            "since": pa.array([1, 2, 3], pa.int64()).view(pa.duration("s")),
            "d": [dt.date(1970, 1, 2)] * 3,
            "s": pa.array([b"a", b"\xff", b"b"], pa.binary()).view(pa.string()),
            "i": pa.array([1, None, 3], pa.int8()),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    data = tmp_path / "p.parquet"
    assert codes(Date("when", "1970-01-01", "2030-12-31"), data) == [0, DAY.size - 1, None]
    assert codes(Date("d", "1970-01-01", "2030-12-31"), data) == [1, 1, 1]
    assert codes(Category("s", ["a", "b"]), data) == [0, None, 1]
    assert codes(Integer("i", 0, 9), data) == [1, None, 3]
    assert codes(Integer("since", 0, 9), data) == [1, 2, 3]


CLOCKS = {  # the same instant, 2026-01-01 00:30 in Tokyo, and the day that clocks show
    "Asia/Tokyo": dt.date(2026, 1, 1),
    "+09:00": dt.date(2026, 1, 1),
    "UTC": dt.date(2025, 12, 31),
    "-0330": dt.date(2025, 12, 31),
}
INSTANT = 1_767_195_000
ZONED = Date("x", "2025-12-01", "2026-01-31")


def ways(zone: str, path: Path) -> Iterator[Any]:
    for unit, finer in PER_SECOND.items():
        table = pa.table({"x": pa.array([INSTANT * finer], pa.int64()).view(pa.timestamp(unit, zone))})
        yield table
        pq.write_table(table, path / f"{unit}.parquet")
        yield path / f"{unit}.parquet"
    if "/" in zone:
        yield pd.DataFrame({"x": pd.to_datetime([INSTANT], unit="s", utc=True).tz_convert(zone)})
        yield pl.DataFrame({"x": [INSTANT]}).select(
            pl.from_epoch("x").dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        )


@pytest.mark.parametrize("machine", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("zone", CLOCKS)
@pytest.mark.few(4, "zones")
def test_the_day_of_a_time_with_a_zone_is_that_of_its_zone_wherever_it_is_read(
    tmp_path: Path, zone: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", machine)
    time.tzset()
    try:
        for data in ways(zone, tmp_path):
            [code] = codes(ZONED, data)
            assert code is not None
            assert ZONED.value(code) == CLOCKS[zone]
        connection = duckdb.connect()
        connection.execute(f"SET TimeZone = '{machine}'")
        [code] = codes(ZONED, connection.sql(f"SELECT make_timestamptz({INSTANT * 10**6}) AS x"))
        assert code is not None
        assert ZONED.value(code) == dt.date(2025, 12, 31)  # DuckDB has instants alone: UTC
        assert codes(ZONED, {"x": ["2026-01-01 00:30:00+09:00", "2025-12-31T15:30:00Z"]}) == [31, 30]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_zone_that_nobody_knows_is_refused_where_it_is_needed(tmp_path: Path) -> None:
    kind = pa.timestamp("ms", "Mars/Olympus")
    table = pa.table({"x": pa.array([0], pa.int64()).view(kind), "y": [1]})
    pq.write_table(table, tmp_path / "p.parquet")
    for data in (open_data(table), open_data(tmp_path / "p.parquet")):
        assert codes(Integer("y", 0, 9), data) == [1]
        with pytest.raises(DataError, match="cannot be read safely"):
            data.need("x")
