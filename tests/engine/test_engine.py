"""Data in: the same rules in DuckDB as in the domain, and no value ever raises."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oboro as ob
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.engine import check_columns, count_cells, open_data, protocol
from oboro.engine.careful import Careful
from oboro.engine.codes import code_sql
from oboro.engine.duck import DuckTable, texts
from oboro.engine.persons import persons_in
from oboro.errors import DataError, DomainError, UnitError
from oboro.privacy import Unit

ROW = Unit.row()
COLUMNS = {
    column.name: column
    for column in (
        Integer("i", -5, 25, step=5),
        Integer("j", 0, 10, missing=4),
        Integer("big", -(2**60), 2**60),
        Real("r", 0, 1, "0.1"),
        Category("c", ["F", "M", "it's", '"q"']),
        Category("k", [1, 2, 3], missing=3),
        Date("d", "2026-01-01", "2026-12-31"),
    )
}


def codes(column: Column, data: Any) -> list[int | None]:
    source = open_data(data)
    query = f"SELECT {code_sql(column, source.types[column.name])} FROM {source.relation}"
    return [row[0] for row in source.connection.execute(query).fetchall()]


FLOATS = [0.0, 1.0, 2.4, 2.5, 7.5, -100.0, 1e30, math.inf, -math.inf, math.nan, None, 12.5, -0.0, 5e-324]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("i", pa.array(FLOATS)),
        ("i", pa.array([str(v) for v in FLOATS if v is None or math.isfinite(v)])),
        ("i", pa.array([1, 2, 3, 7, 8, 100, None, -(2**63), 2**63 - 1])),
        ("i", pa.array([0, 255], pa.uint8())),
        ("i", pa.array([0, 2**64 - 1], pa.uint64())),
        ("i", pa.array([1.5, 2.5], pa.float32())),
        ("j", pa.array([decimal.Decimal("3.5"), decimal.Decimal("100"), None])),
        ("j", pa.array([True, False, None])),
        ("j", pa.array(["", " 7 ", "7e0", "0x7", "seven", "７"])),
        ("j", pa.array([[1], [2]])),
        ("j", pa.array([{"a": 1}])),
        ("j", pa.array([b"7", b"\xff"])),
        ("j", pa.array([dt.date(2026, 3, 1)])),
        ("j", pa.nulls(3)),
        ("big", pa.array([2**59 + 1, -(2**60), 2**62, 5])),
        ("big", pa.array([str(2**59 + 1), "1e17"])),
        ("r", pa.array([0.0, 0.05, 0.1, 0.12, 1.0, 2.0, -1.0, math.nan, math.inf, None])),
        ("r", pa.array(["x", "0.3", ""])),
        ("c", pa.array(["F", "M", "it's", '"q"', "", None, "f"])),
        ("c", pa.array([1, 2])),
        ("c", pa.array(["F", "M"]).dictionary_encode()),
        ("k", pa.array([1, 2, 3, 4, None])),
        ("k", pa.array([1.0, 2.5, math.nan])),
        ("k", pa.array(["1", "x"])),
        ("d", pa.array(["2026-02-01", "2025-01-01", "2027-01-01", "x", None, "2026-02-30"])),
        ("d", pa.array([dt.date(2026, 3, 1), None])),
        ("d", pa.array([dt.datetime(2026, 3, 1, 23, 59), None])),
        ("d", pa.array([1, 2])),
    ],
)
def test_duckdb_follows_the_rule_of_the_domain(name: str, values: pa.Array) -> None:
    expected = []
    for value in values.to_pylist():
        if isinstance(value, bytes):
            value = value.decode("ascii", "ignore") if value.isascii() else None
        if name == "j" and value == "７":
            value = None  # full-width digits are text
        expected.append(COLUMNS[name].code(value))
    assert codes(COLUMNS[name], pa.table({name: values})) == expected


@pytest.mark.parametrize(
    "column",
    [
        Real("x", 0, Fraction(2**61, 2**490), Fraction(1, 2**490)),
        Real("x", -(2**490), 2**490, 2**430),
        Real("x", 2**490 - 2**460, 2**490, 2**400),
        Real("x", Fraction(1, 3), Fraction(4, 3), Fraction(1, 2**61)),
    ],
)
def test_the_finest_and_the_widest_grids_overflow_nowhere(column: Column) -> None:
    values = [
        x * sign
        for x in (0.0, 5e-324, 2.2e-308, 1e-290, 0.3, 1.3, 4e307, 1.7e308, math.inf)
        for sign in (1, -1)
    ]
    found = codes(column, pa.table({"x": values}))
    assert all(code is not None and 0 <= code < column.size for code in found)


@given(
    st.lists(
        st.one_of(st.none(), st.text(max_size=8), st.floats().map(repr), st.integers().map(str)),
        min_size=60,
        max_size=120,
    )
)
@settings(max_examples=10, deadline=None)
def test_no_text_ever_raises(values: list[str | None]) -> None:
    table = pa.table({name: pa.array(values, pa.string()) for name in COLUMNS})
    for column in COLUMNS.values():
        assert all(code is None or 0 <= code < column.size for code in codes(column, table))


def test_every_way_to_bring_data_gives_the_same_counts(tmp_path: Path) -> None:
    import duckdb

    table = pa.table({"age": [1, 2, 2, None, 300], "sex": ["F", "M", "M", "F", "X"]})
    columns = [Integer("age", 0, 120), Category("sex", ["F", "M"])]
    pq.write_table(table, tmp_path / "p.parquet")
    text = "age,sex\n1,F\n2,M\n2,M\n,F\n300,X\n"
    (tmp_path / "p.csv").write_text(text)
    (tmp_path / "p.tsv").write_text(text.replace(",", "\t"))
    with gzip.open(tmp_path / "p.csv.gz", "wt") as file:
        file.write(text)
    relation = duckdb.connect().from_arrow(table)
    many = [
        table,
        table.to_batches()[0],
        table.to_pandas(),
        pl.from_arrow(table),
        pl.from_arrow(table).lazy(),
        relation,
    ]
    paths = [tmp_path / name for name in ("p.parquet", "p.csv", "p.tsv", "p.csv.gz")]
    for data in [*many, *paths, str(paths[0]), table.to_pydict()]:
        cells, counts = count_cells(open_data(data), columns, ROW)
        assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == {2: 1, 5: 2}


def test_mixed_objects_in_pandas_do_not_raise() -> None:
    frame = pd.DataFrame({"j": ["1", 2, None, "zz", 2.5, {"a": 1}, b"x"]})
    assert codes(COLUMNS["j"], frame) == [1, 2, 4, 4, 3, 4, 4]


@pytest.mark.parametrize(
    "line",
    [
        b"3,\xff\xfe\n",
        b"3,\x00q\n",
        b"3\n",
        b"3,z,9\n",
        b'3,"a\nb"\n',
        b'3,ab"c"d\n',
        b"\n\n",
        b"3,a\r\n",
        b'3,"open\n',
        b"3," + b"x" * 3_000_000 + b"\n",
        b'"3""",x\n',
    ],
)
def test_no_line_of_a_csv_file_raises(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b"j,c\n1,F\n" + line + b"2,M\n")
    _, counts = count_cells(open_data(path), [COLUMNS["j"]], ROW)
    assert counts.sum() >= 1


def test_empty_data_is_data(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("j\n")
    for data in (
        tmp_path / "p.csv",
        pa.table({"j": pa.array([], pa.int64())}),
        pa.table({"j": pa.nulls(0)}),
        pd.DataFrame({"j": []}),
    ):
        cells, counts = count_cells(open_data(data), [COLUMNS["j"]], ROW)
        assert cells.size == counts.size == 0


def test_a_person_counts_at_most_max_rows_times_whatever_the_order() -> None:
    rng = np.random.default_rng(1)
    person = np.concatenate([np.repeat("heavy", 50), np.repeat("light", 3), [None] * 4])
    j = np.concatenate([np.arange(50) % 10, [1, 1, 2], [5] * 4])
    seen = []
    for _ in range(4):
        order = rng.permutation(person.size)
        table = pa.table({"who": pa.array(person[order].tolist()), "j": j[order]})
        cells, counts = count_cells(open_data(table), [COLUMNS["j"]], Unit.person("who", max_rows=5))
        seen.append(sorted(zip(cells.tolist(), counts.tolist(), strict=True)))
        assert counts.sum() == 8
    assert all(one == seen[0] for one in seen)


def test_kept_rows_are_spread_evenly() -> None:
    people = 2000
    table = pa.table({"who": np.repeat(np.arange(people), 10), "j": np.tile(np.arange(10), people)})
    _, counts = count_cells(open_data(table), [Integer("j", 0, 9)], Unit.person("who", max_rows=3))
    assert counts.sum() == 3 * people
    assert np.all(np.abs(counts - 600) < 6.5 * math.sqrt(600))


def test_one_persons_rows_do_not_move_anothers() -> None:
    base = {"who": ["a"] * 9 + ["b"] * 9, "j": [*range(9), *range(9)]}
    alone = {"who": ["a"] * 9, "j": [*range(9)]}
    unit = Unit.person("who", max_rows=2)
    both, one = (np.zeros(11, int) for _ in range(2))
    for data, into in ((base, both), (alone, one)):
        cells, counts = count_cells(open_data(data), [COLUMNS["j"]], unit)
        into[cells] = counts
    assert np.all(both >= one)
    assert (both - one).sum() == 2


def test_what_the_schema_says_is_refused_clearly(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'j'"):
        count_cells(open_data({"i": [1]}), [COLUMNS["j"]], ROW)
    with pytest.raises(DataError, match="no column 'who'"):
        count_cells(open_data({"j": [1]}), [COLUMNS["j"]], Unit.person("who", 3))
    with pytest.raises(UnitError, match="rows or persons"):
        count_cells(open_data({"j": [1]}), [COLUMNS["j"]], Unit.cells())
    with pytest.raises(DomainError, match="too many cells"):
        count_cells(open_data({"big": [1], "big2": [1]}), [COLUMNS["big"], Integer("big2", 0, 2**60)], ROW)
    with pytest.raises(DataError, match="no such file"):
        open_data(tmp_path / "absent.parquet")
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match="unknown"):
        open_data(tmp_path / "x.xlsx")
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match="cannot be read"):
        open_data(tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("a,a\n1,2\n")
    with pytest.raises(DataError, match="header"):
        open_data(tmp_path / "x.csv")
    with pytest.raises(DataError, match="cannot be read"):
        open_data(42)


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    name = 'a"b; DROP TABLE x --'
    _, counts = count_cells(open_data({name: [1, 2]}), [Integer(name, 0, 3)], ROW)
    assert counts.sum() == 2
    path = tmp_path / "it's.csv"
    path.write_text("j\n1\n")
    assert count_cells(open_data(path), [COLUMNS["j"]], ROW)[1].sum() == 1


def test_check_tells_the_steward() -> None:
    table = {
        "j": ["1", "x", None, "-3", "99", "inf"],
        "d": ["2026-01-01", "1999-01-01", "2030-01-01", None, "x", "2026-05-05"],
    }
    report = check_columns(open_data(table), [COLUMNS["j"], COLUMNS["d"]])
    assert report == [
        {"column": "j", "rows": 6, "missing": 1, "unknown": 1, "below": 1, "above": 2},
        {"column": "d", "rows": 6, "missing": 1, "unknown": 1, "below": 1, "above": 1},
    ]
    assert Domain(COLUMNS.values()).names


def test_a_cast_that_fails_in_a_csv_file_gives_a_null_and_never_drops_the_line(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("j\n" + "x\n5\n" * 1000)
    source = open_data(path)
    query = f"SELECT count(*), count(x) FROM (SELECT TRY_CAST(j AS DOUBLE) AS x FROM {source.relation})"
    assert source.connection.execute(query).fetchone() == (2000, 1000)
    cells, counts = count_cells(source, [COLUMNS["j"]], ROW)
    assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == {4: 1000, 5: 1000}


def test_every_verb_reads_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection has one result, the last: what a thread reads outside of its turn may be the answer of another."""
    held, outside = [0], []
    original, asked = Careful.in_turn, Careful.__getattr__

    @contextmanager
    def in_turn(self: Careful) -> Iterator[None]:
        with original(self):
            held[0] += 1
            yield
            held[0] -= 1

    def noted(self: Careful, name: str) -> Any:
        if not held[0] and isinstance(self._inner, duckdb.DuckDBPyConnection):
            outside.append(name)
        return asked(self, name)

    source = ob.engine.open_data({"who": ["a", "a", "b"], "tick": [0, 1, 1], "age": [3, 4, 5]})
    age, who = ob.Integer("age", 0, 9), ob.Unit.person("who", 1)
    domain = ob.Domain([age])
    monkeypatch.setattr(Careful, "in_turn", in_turn)
    monkeypatch.setattr(Careful, "__getattr__", noted)
    verbs: dict[str, Callable[[], Any]] = {
        "count_units": lambda: protocol.count_units(source, who),
        "add_up": lambda: protocol.add_up(source, [age], [(0,)], who),
        "count_cells": lambda: protocol.count_cells(source, [age], who),
        "count_persons": lambda: protocol.count_persons(source, [(age, (), 10)], who, most=1),
        "count_ticks": lambda: protocol.count_ticks(source, [protocol.Whole("tick", 2), age], who, most=1),
        "stream_codes": lambda: list(protocol.stream_codes(source, [age], who)),
        "check_columns": lambda: protocol.check_columns(source, [age]),
        "tables.check": lambda: ob.tables.check(source, domain),  # type: ignore[arg-type]
        "tables.check, ticks": lambda: ob.tables.check(source, domain, ticks=2),  # type: ignore[arg-type]
        "persons_in": lambda: persons_in(cast(DuckTable, source), who),
        "texts": lambda: texts(
            cast(DuckTable, source), f"SELECT who FROM {cast(DuckTable, source).relation}"
        ),
    }
    for name, verb in verbs.items():
        verb()
        assert not outside, f"{name} reads outside of its turn"
    source.count_cells([age], who, None)
    assert outside  # it is seen
