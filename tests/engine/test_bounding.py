"""A quick way to the rows beyond the limit, against the plain one; and whole numbers that doubles confuse."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oboro.domain import Category, Date, Domain, Integer
from oboro.engine import add_up, arrays, contributions, count_cells, count_units, open_data
from oboro.engine.codes import code_sql
from oboro.engine.contributions import counted_rows
from oboro.engine.duck import DuckTable, condition_sql
from oboro.privacy import Unit
from oboro.statistics.where import Condition, parse

X = Integer("x", 0, 99)


def people(rows: int = 3000) -> pa.Table:
    """Some persons with very many rows, many with few; values and persons may be missing."""
    draw = np.random.default_rng(7)
    who = np.where(draw.random(rows) < 0.3, draw.integers(0, 3, rows), draw.integers(3, 600, rows))
    x = draw.integers(-5, 105, rows)
    return pa.table(
        {
            "who": pa.array(who, mask=draw.random(rows) < 0.05),
            "x": pa.array(x, mask=draw.random(rows) < 0.2),
            "y": draw.integers(0, 2, rows),
        }
    )


def named(table: pa.Table) -> pa.Table:
    """The same persons by texts, which are told apart by a hash."""
    return table.set_column(0, "who", table["who"].cast(pa.string()))


def kept(table: pa.Table, unit: Unit, condition: Condition | None) -> tuple[int, int]:
    source = open_data(table)
    assert isinstance(source, DuckTable)
    rows = counted_rows(
        source, {"c0": code_sql(X, source.types["x"])}, unit, condition_sql(source, condition)
    )
    count, total = source.connection.execute(f"SELECT count(*), sum(c0) FROM ({rows})").fetchone()
    return count, int(total or 0)


@pytest.mark.parametrize("buckets", [1, 16, 2**24])
@pytest.mark.parametrize("limit", [1, 4, 300])
@pytest.mark.parametrize("condition", [None, parse("y = 1", Domain([Integer("y", 0, 2)]))])
@pytest.mark.few(3, "limits of rows a person")
def test_what_the_buckets_find_is_all_that_is_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, buckets: int, limit: int, condition: Condition | None
) -> None:
    monkeypatch.setattr(contributions, "_BUCKETS", buckets)
    table, unit = named(people()), Unit.person("who", limit)
    expected = kept(table, unit, condition)
    assert add_up(open_data(table), [X], [(), (0,)], unit, condition=condition) == {0: [*expected]}
    cells, counts = count_cells(open_data(table), [X], unit, condition)
    assert (counts.sum(), (cells * counts).sum()) == expected
    # of a file they are found once, whatever was asked first
    pq.write_table(table, tmp_path / "p.parquet")
    file = open_data(tmp_path / "p.parquet")
    for asked in (condition, None, condition):
        found = add_up(file, [X], [(), (0,)], unit, condition=asked)
        assert found == {0: [*kept(table, unit, asked)]}
    more = Unit.person("who", limit + 1)
    assert add_up(file, [X], [(), (0,)], more) == {0: [*kept(table, more, None)]}


@pytest.mark.long("ways to count persons")
@pytest.mark.parametrize("large", [1, 2**40])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("condition", [None, parse("y = 1", Domain([Integer("y", 0, 2)]))])
def test_whole_numbers_counted_one_by_one_find_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, large: int, known: bool, condition: Condition | None
) -> None:
    """By the compiled loops or without, in memory or in a file of several groups, with persons that are nobody or without."""
    monkeypatch.setattr(arrays, "LARGE", large)
    table = people()
    table = table.filter(pa.compute.is_valid(table["who"])) if known else table
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=700)
    apart = pa.array([None if who is None else who * 2**40 for who in table["who"].to_pylist()])
    far = table.set_column(0, "who", apart)  # too far apart: by buckets
    for limit in (1, 4, 300):
        unit = Unit.person("who", limit)
        expected = kept(table, unit, condition)
        for data in (table, tmp_path / "p.parquet"):
            assert _frequent(data, limit) is not None
            assert add_up(open_data(data), [X], [(), (0,)], unit, condition=condition) == {0: [*expected]}
            cells, counts = count_cells(open_data(data), [X], unit, condition)
            assert (counts.sum(), (cells * counts).sum()) == expected
        assert _frequent(far, limit) is None
        assert add_up(open_data(far), [X], [()], unit, condition=condition) == {0: [expected[0]]}


def _frequent(data: Any, limit: int) -> Any:
    source = open_data(data)
    assert isinstance(source, DuckTable)
    return arrays.frequent(source, "who", limit)


def test_a_file_that_states_its_ends_wrongly_is_counted_by_buckets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(arrays, "LARGE", 1)
    monkeypatch.setattr(arrays, "_stated", lambda *_: (5, 90))
    pq.write_table(people(), tmp_path / "p.parquet")
    assert _frequent(tmp_path / "p.parquet", 4) is None
    unit = Unit.person("who", 4)
    found = [add_up(open_data(data), [X], [()], unit) for data in (tmp_path / "p.parquet", people())]
    assert found[0] == found[1]


def test_each_person_keeps_as_many_rows_as_the_limit_allows() -> None:
    table = people()
    full = table.filter(pa.compute.is_valid(table["x"])).to_pandas().dropna()
    for limit in (1, 4, 300):
        per_person = full.groupby("who").size().clip(upper=limit).sum()
        assert kept(table, Unit.person("who", limit), None)[0] == per_person


@pytest.mark.long("ways to count persons")
def test_a_count_that_wraps_around_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit must hold for a person whose rows fill a small counter many times over."""
    table = pa.table({"who": np.zeros(70_000, np.int32), "x": np.arange(70_000) % 100})
    for limit in (20, 254, 255, 256, 65_535):
        assert add_up(open_data(named(table)), [X], [()], Unit.person("who", limit)) == {0: [limit]}
    monkeypatch.setattr(arrays, "LARGE", 1)
    for limit in (20, 254, 255, 256, 65_535):
        assert add_up(open_data(table), [X], [()], Unit.person("who", limit)) == {0: [limit]}
    # 512 rows, counted in one byte that wraps around, look like none
    planted = np.zeros(contributions._BUCKETS, np.uint8)
    monkeypatch.setattr(contributions, "stream_counts", lambda *_: planted)
    assert add_up(open_data(named(table)), [X], [()], Unit.person("who", 20)) == {0: [70_000]}


def test_rows_without_a_value_do_not_use_up_the_limit() -> None:
    table = pa.table({"who": [1] * 13, "x": pa.array([None] * 10 + [3, 4, 5], pa.int32())})
    assert add_up(open_data(table), [X], [()], Unit.person("who", 2)) == {0: [2]}
    assert add_up(open_data(table), [X], [(), (0,)], Unit.person("who", 3)) == {0: [3, 12]}


def test_a_file_gives_what_memory_gives(tmp_path: Path) -> None:
    table = people()
    pq.write_table(table, tmp_path / "p.parquet")
    for unit in (Unit.row(), Unit.person("who", 4)):
        both = [add_up(open_data(data), [X], [(), (0,)], unit) for data in (table, tmp_path / "p.parquet")]
        assert both[0] == both[1]


LARGE = [2**53, 2**53 + 1, 2**53 + 2, -(2**60) - 1, 7]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**53, 2**53 + 1, 2**53 + 3, -(2**60) - 1, -(2**60), 7, 8, None]),
        pa.array([2**53 + 1, 2**64 - 1, 7], pa.uint64()),
        pa.array(
            [str(2**53 + 1), f"{2**53 + 1}.0", f"{2**53 + 1}.5", "7", "7.0", "7.5", "x", "", "1e300", "nan"]
        ),
        pa.array([float(2**53), float(2**53 + 2), 7.0, 7.5, float("inf"), float("nan"), 1e300]),
        pa.array([Decimal(2**53 + 1), Decimal("9007199254740993.50"), Decimal("7.00"), Decimal("7.25")]),
    ],
)
@pytest.mark.parametrize("missing", [None, 7])
def test_large_whole_numbers_are_told_apart(values: pa.Array, missing: int | None) -> None:
    column = Category("k", LARGE, missing=missing)
    source = open_data(pa.table({"k": values}))
    query = f"SELECT {code_sql(column, source.types['k'])} FROM {source.relation}"
    found: list[Any] = [row[0] for row in source.connection.execute(query).fetchall()]
    assert found == [column.code(value) for value in values.to_pylist()]
    assert len({column.code(value) for value in (2**53, 2**53 + 1, 2**53 + 2)}) == 3


def few_above(rows: int = 2000) -> dict[str, Any]:
    """Five persons with some twenty rows each, and as many others as there are rows."""
    draw = np.random.default_rng(11)
    return {"who": np.where(draw.random(rows) < 0.05, draw.integers(0, 5, rows), np.arange(rows) + 10)}


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "America/New_York", "+09:00"])
def test_rows_beyond_the_limit_are_left_out_of_the_day_that_they_were_counted_in(
    monkeypatch: pytest.MonkeyPatch, zone: str | None
) -> None:
    monkeypatch.setattr(arrays, "LARGE", 10)
    hours = np.random.default_rng(3).integers(438_288, 438_288 + 24 * 31, 2000)  # of January 2020
    times = pa.array(hours * 3_600_000_000).cast(pa.timestamp("us", zone))
    source, unit = open_data(pa.table({**few_above(), "day": times})), Unit.person("who", 2)
    assert isinstance(source, DuckTable)
    day = Date("day", "2020-01-01", "2020-01-31")
    rows = counted_rows(source, {"c0": code_sql(day, source.types["day"])}, unit, None)
    found = source.connection.execute(f"SELECT c0, count(*) FROM ({rows}) GROUP BY c0").fetchall()
    cells, counts = count_cells(source, [day], unit)
    assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == dict(found)


@pytest.mark.parametrize("kind", ["string_view", "binary_view", "float16", "runs", "map"])
def test_no_type_of_another_column_tells_whether_anybody_is_above_the_limit(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(arrays, "LARGE", 10)
    strange = {
        "string_view": pa.array(["a"] * 2000, pa.string_view()),
        "binary_view": pa.array([b"a"] * 2000, pa.binary_view()),
        "float16": pa.array(np.ones(2000, np.float16)),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2000], pa.int32()), pa.array([1])),
        "map": pa.array([[("a", 1)]] * 2000, pa.map_(pa.string(), pa.int64())),
    }[kind]
    table, unit = (
        pa.table({**few_above(), "x": np.arange(2000) % 90, "other": strange}),
        Unit.person("who", 2),
    )
    expected = kept(table.select(["who", "x"]), unit, None)
    assert add_up(open_data(table), [X], [(), (0,)], unit) == {0: [*expected]}


def test_two_persons_whose_bytes_are_not_text_are_two_in_every_file(tmp_path: Path) -> None:
    """DuckDB reads such bytes of a Parquet file as one and the same: one person's leaving would then change which rows of another count."""
    both = [b"\x97\xe9"] * 3 + [b"\x97\xea"] * 3 + [b"x?"] * 2 + [b"x\xff", None]
    who = pa.array(both, pa.binary()).view(pa.string())
    labels = pa.array([b"F\xff", b"F"] * 5, pa.binary()).view(pa.string())
    extra = {"seen": pa.array([0] * 10, pa.timestamp("us")), "tags": [["a"]] * 10}
    table = pa.table({"who": who, "x": [1] * 3 + [2] * 3 + [3] * 4, "sex": labels, **extra})
    pq.write_table(table, tmp_path / "people.parquet")
    unit, sex, seen = (
        Unit.person("who", 2),
        Category("sex", ["F", "M"]),
        Date("seen", "1970-01-01", "1970-01-02"),
    )
    for source in (open_data(table), open_data(tmp_path / "people.parquet")):
        assert count_units(source, unit) == 4
        cells, counts = count_cells(source, [X], unit)
        assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == {1: 2, 2: 2, 3: 3}
        assert add_up(source, [sex], [()], Unit.row()) == {0: [5]}
        assert add_up(source, [seen], [()], unit) == {0: [7]}
