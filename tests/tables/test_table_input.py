"""One rule for every record: what users bring becomes cells, and no value raises."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oboro import tables
from oboro.domain import Category, Date, Domain, Grid, Integer, Mesh, Real
from oboro.errors import DataError
from oboro.privacy import Unit
from oboro.tables.cells import Cells, Layout, cap, sort_cells
from oboro.tables.input import read_cells
from oboro.tables.mask import layout_of, possible_cells
from oboro.tables.strategy import to_table

GRID = Domain([Grid("row", "col", shape=(200, 300)), Category("sex", ["F", "M"])])
LAYOUT = Layout(GRID)
CELLS = Unit.cells()


def cells_of(
    data: Any, count: str | None = "people", domain: Domain = GRID, unit: Unit = CELLS
) -> dict[Any, int]:
    """Published columns and count of each cell."""
    layout = Layout(domain)
    rows = to_table(read_cells(data, layout, unit, count), layout, "n").to_pylist()
    return {tuple(row.values())[:-1]: row["n"] for row in rows}


RECORDS = {"row": [3, 199, 3], "col": [4, 299, 4], "sex": ["F", "M", "F"], "people": [10, 20, 5]}
EXPECTED = {(3, 4, "F"): 15, (199, 299, "M"): 20}


@pytest.mark.parametrize("form", ["dict", "arrow", "pandas", "polars", "parquet", "csv", "csv of texts"])
def test_every_form_of_data_gives_the_same_cells(form: str, tmp_path: Path) -> None:
    table = pa.table(RECORDS)
    frame = pd.DataFrame(RECORDS)
    pq.write_table(table, tmp_path / "cells.parquet")
    frame.to_csv(tmp_path / "cells.csv", index=False)
    (tmp_path / "texts.csv").write_text(
        "sex,people,row,col\nF,10,3,4\nM,20.0,199,299\nF,5.4,3.0,4\nF,7\n,,,\n"
    )
    data: dict[str, Any] = {
        "dict": RECORDS, "arrow": table, "pandas": frame, "polars": pl.DataFrame(RECORDS),
        "parquet": tmp_path / "cells.parquet", "csv": tmp_path / "cells.csv", "csv of texts": str(tmp_path / "texts.csv"),
    }  # fmt: skip
    assert cells_of(data[form]) == EXPECTED


@pytest.mark.parametrize(
    ("count", "becomes"),
    [
        (2.4, 2),
        (2.5, 2),
        ("2.5", 2),
        (Decimal("2.5"), 2),
        (2.5000000000000004, 3),
        ("2.500000000000000001", 3),
        (0.49, 0),
        (-3, 0),
        (-0.5, 0),
        (float("nan"), 0),
        (None, 0),
        ("x", 0),
        ("12", 12),
        (float("inf"), None),
        (1e300, None),
    ],
)
def test_counts_follow_the_rule(count: Any, becomes: int | None) -> None:
    wanted = cap(LAYOUT) if becomes is None else becomes
    assert cells_of({"row": [1], "col": [2], "sex": ["F"], "people": [count]}) == (
        {(1, 2, "F"): wanted} if wanted else {}
    )


@pytest.mark.parametrize(
    ("row", "known"),
    [
        (5, True),
        (5.0, True),
        ("5", True),
        (5.5, False),
        (-1, False),
        (200, False),
        (2**62, False),
        (None, False),
        ("x", False),
        (float("nan"), False),
    ],
)
def test_a_place_that_is_not_in_the_domain_is_dropped(row: Any, known: bool) -> None:
    assert cells_of({"row": [row], "col": [2], "sex": ["F"], "people": [1]}) == (
        {(5, 2, "F"): 1} if known else {}
    )


def test_an_empty_table_is_a_table() -> None:
    empty = pa.table(
        {
            "row": pa.array([], pa.int32()),
            "col": pa.array([], pa.int32()),
            "sex": pa.array([], pa.string()),
            "people": pa.array([], pa.int64()),
        }
    )
    assert cells_of(empty) == {}
    assert cells_of(empty, None) == {}


def test_a_missing_column_is_said() -> None:
    with pytest.raises(DataError, match="people"):
        cells_of({"row": [1], "col": [2], "sex": ["F"]})
    with pytest.raises(DataError, match="col"):
        cells_of({"row": [1], "people": [2], "sex": ["F"]})


VALUES = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.booleans())


@pytest.mark.long("values by chance")
@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES), max_size=6), st.booleans())
def test_no_value_ever_raises(records: list[tuple[Any, ...]], counted: bool) -> None:
    columns = zip(*records, strict=True) if records else ([], [], [], [])
    data = dict(
        zip(
            ("row", "col", "sex", "people"),
            [[str(v) if v is not None else None for v in c] for c in columns],
            strict=True,
        )
    )
    found = read_cells(data, LAYOUT, CELLS, "people" if counted else None)
    assert (found.counts > 0).all()
    assert LAYOUT.possible(found.keys).all()


def test_rows_are_counted_and_persons_bounded() -> None:
    data = {"row": [1, 1, 1, 2, 999], "col": [1] * 5, "sex": ["F"] * 5, "who": ["a", "a", "b", "a", "b"]}
    assert cells_of(data, None, unit=Unit.row()) == {(1, 1, "F"): 3, (2, 1, "F"): 1}
    assert sum(cells_of(data, None, unit=Unit.person("who", 2)).values()) == 3
    assert sum(cells_of(data, None, unit=Unit.person("who", 1)).values()) == 2


def test_every_kind_of_column_comes_back_as_it_went_in() -> None:
    domain = Domain(
        [
            Mesh("code", "1km", region=[5339, 5340]),
            Category("size", [1, 2, 5]),
            Integer("age", 0, 100, step=5),
            Date("day", "2026-01-01", "2026-12-31"),
            Real("x", 0, 1, "0.25"),
        ]
    )
    data = {
        "code": ["53394577", 53400000],
        "size": [5, 1],
        "age": [23, 300],
        "day": ["2026-02-03", "2031-01-01"],
        "x": [0.3, 9.0],
        "n": [4, 6],
    }
    import datetime

    first, last = datetime.date(2026, 2, 3), datetime.date(2026, 12, 31)
    assert cells_of(data, "n", domain) == {
        (53394577, 5, 25, first, 0.25): 4,
        (53400000, 1, 100, last, 1.0): 6,
    }


HALVES = (Decimal("0.49999999999999994"), Decimal("0.50000000000000001"), Decimal("3.4999999999999998"))
WHOLE = tuple(Decimal(2**power - 2) for power in (1, 24, 51, 52, 53, 59))


@pytest.mark.parametrize(
    ("kind", "made_of", "starts"),
    [
        pytest.param(pa.float64(), float, WHOLE, id="double"),
        pytest.param(pa.float32(), np.float32, WHOLE, id="float"),
        pytest.param(pa.int64(), int, WHOLE, id="int64"),
        pytest.param(pa.string(), str, WHOLE + HALVES, id="text"),
        pytest.param(pa.decimal128(38, 18), Decimal, WHOLE + HALVES, id="decimal"),
    ],
)
def test_one_more_in_the_data_is_never_two_more_in_the_count(kind: Any, made_of: Any, starts: Any) -> None:
    """Whole numbers near powers of two, and fractions that a double cannot tell from a half: the sensitivity rests on it."""
    given = [
        made_of(int(start) + more if made_of is np.float32 else start + more)
        for start in starts
        for more in range(6)
    ]
    places = {"row": np.repeat(np.arange(len(starts)), 6), "col": np.tile(np.arange(6), len(starts))}
    layout = Layout(Domain([Grid("row", "col", shape=(16, 8))]))
    cells = read_cells(pa.table({**places, "n": pa.array(given, kind)}), layout, CELLS, "n")
    counts = cells.dense(layout.bits)[layout.keys(list(places.values()))].reshape(-1, 6)
    assert set(np.diff(counts).ravel().tolist()) <= {0, 1}
    small = np.array([start < (2**20 if made_of is np.float32 else 2**50) for start in starts])
    assert (counts[small, -1] == counts[small, 0] + 5).all()


DOUBLES = (
    0.25,
    0.5,
    0.75,
    1.5,
    2.5,
    6.5,
    1023.5,
    2.0**22 - 0.5,
    2.0**51 - 0.5,
    2.0**52 - 0.5,
    2.0**52,
    2.0**53,
)


@pytest.mark.parametrize("added", [1, 2, 3, 1000, 2**20])
def test_doubles_that_a_computer_added_to_move_no_further_than_what_was_added(added: int) -> None:
    """Every double close to a half or a whole number, and what a program gets that adds so many: rounded, as it does."""
    near = np.concatenate([np.asarray(DOUBLES) + step * np.spacing(DOUBLES) / 2 for step in range(-4, 5)])
    layout = Layout(Domain([Grid("row", "col", shape=(128, 2))]))
    rows = np.arange(near.size)
    places = {"row": np.tile(rows, 2), "col": np.repeat([0, 1], near.size)}
    data = pa.table({**places, "n": np.concatenate([near, near + added])})
    counts = read_cells(data, layout, CELLS, "n").dense(layout.bits)
    before, after = (counts[layout.keys([rows, np.full_like(rows, col)])] for col in (0, 1))
    moved = (after - before)[near + added <= 2.0**53]
    assert moved.min() >= 0
    assert moved.max() <= added


def test_sums_saturate_and_do_not_overflow() -> None:
    few = sort_cells(np.array([5, 3, 5]), np.array([2**60, 1, 2**60]), 40, 2**60)
    assert (few.keys.tolist(), few.counts.tolist()) == ([3, 5], [1, 2**60])
    many = np.random.default_rng(0).integers(0, 50, 20_000)
    for counts, most in (
        (np.full(20_000, 3), 2**40),
        (np.full(20_000, 2**59), 2**60),
    ):  # packed, and too wide for that
        found = sort_cells(many.copy(), counts.copy(), 37, most)
        expected = {
            key: min(int(counts[0]) * number, most)
            for key, number in zip(*map(np.ndarray.tolist, np.unique(many, return_counts=True)), strict=True)
        }
        assert dict(zip(found.keys.tolist(), found.counts.tolist(), strict=True)) == expected
    assert cap(LAYOUT) * LAYOUT.cells <= 2**61


def test_check_counts_every_problem() -> None:
    data = {
        "row": [1, 1, None, 500, 2, 2, 2, 2],
        "col": [1, 1, 1, 1, 1, 2, 3, 4],
        "sex": ["F", "F", "F", "F", "X", "F", "F", "F"],
        "people": ["1", "2", "3", "4", "5", "-6", "7.5", "x"],
    }
    found = {row["problem"]: row["records"] for row in tables.check(data, GRID, "people")}
    assert found["records"] == 8
    assert found["row: missing"] == 1
    assert found["row: not in the domain"] == 1
    assert found["sex: not in the domain"] == 1
    assert found["people: negative"] == 1
    assert found["people: a fraction"] == 1
    assert found["people: not a number"] == 1
    assert found["records of a cell that has an earlier one"] == 1


def test_a_masked_cell_is_dropped_without_a_word() -> None:
    mask = possible_cells(GRID, {"row": [1, 2], "col": [1, 2]})
    layout = layout_of(GRID, mask)
    assert layout.cells == 4
    found = read_cells(
        {"row": [1, 2, 3], "col": [1, 2, 3], "sex": ["F", "M", "M"], "n": [1, 2, 4]}, layout, CELLS, "n"
    )
    assert found.counts.tolist() == [1, 2]


def test_an_estat_file_without_labels_loses_no_mesh(tmp_path: Path) -> None:
    path = tmp_path / "mesh.txt"
    codes = [533945771, 533945772, 533945773]
    lines = [f"{code},0,,,{code % 10}" for code in codes]
    labels = ",,,,　人口（総数）"
    for first in ([], [labels], ["メッシュ" + labels]):
        for end in ("\n", "\r\n"):
            path.write_bytes(
                end.join(["KEY_CODE,HTKSYORI,HTKSAKI,GASSAN,T001", *first, *lines, "\x1a"]).encode("cp932")
            )
            table = tables.read_estat(path)
            assert table.column("KEY_CODE").to_pylist() == codes
            assert table.column("T001").to_pylist() == [1, 2, 3]
            assert bool(table.schema.field("T001").metadata) == bool(first)
    path.write_bytes(b"KEY_CODE,T001\n")
    assert tables.read_estat(path).num_rows == 0


@pytest.mark.parametrize(
    "odd",
    [
        b"533945772",
        b"533945772,5,6",
        b"\xff,5",
        b"9" * 40 + b",5",
        b"533945772," + b"8" * 200_000,
        b"533945772," + b"0" * 5000,
        b"0" * 5000 + b"533945772,5",
        b'"',
        b"x",
    ],
)
def test_no_line_of_an_estat_file_raises_or_is_lost(tmp_path: Path, odd: bytes) -> None:
    (tmp_path / "mesh.txt").write_bytes(b"KEY_CODE,T001\n533945771,1\n" + odd + b"\n533945773,3\n")
    table = tables.read_estat(tmp_path / "mesh.txt")
    assert table.num_rows == 3
    assert table.take([0, 2]).to_pylist() == [
        {"KEY_CODE": 533945771, "T001": 1},
        {"KEY_CODE": 533945773, "T001": 3},
    ]


def test_estat_files_are_read(tmp_path: Path) -> None:
    text = "KEY_CODE,HTKSYORI,HTKSAKI,GASSAN,T001\n,,,,　人口（総数）\n533945771,0,,,120\n533945772,2,533945771,,*\n533945773,1,,533945772,7\n"
    (tmp_path / "mesh.txt").write_bytes(text.encode("cp932"))
    table = tables.read_estat(tmp_path / "mesh.txt")
    assert table.column("KEY_CODE").to_pylist() == [533945771, 533945772, 533945773]
    assert table.column("T001").to_pylist() == [120, None, 7]
    assert table.schema.field("T001").metadata[b"label"].decode() == "人口（総数）"
    domain = Domain([Mesh("KEY_CODE", "500m", region=[5339])])
    assert cells_of(table, "T001", domain) == {(533945771,): 120, (533945773,): 7}
    for content in (b"", b"a,b\n1,2\n", bytes([0x81]) * 7, b"KEY_CODE,KEY_CODE\n"):
        (tmp_path / "other.txt").write_bytes(content)
        with pytest.raises(DataError):
            tables.read_estat(tmp_path / "other.txt")
    with pytest.raises(DataError, match="no such file"):
        tables.read_estat(tmp_path / "nowhere.txt")


def test_dense_and_sorted_cells_are_the_same() -> None:
    counts = np.array([0, 3, 0, 1])
    cells = Cells.from_dense(counts)
    assert cells.keys.tolist() == [1, 3]
    assert (cells.dense(2) == counts).all()


def test_counts_in_half_floats_are_refused_by_their_type(tmp_path: Path) -> None:
    """Beyond 2^11 they lie 2 apart and more. What stands beside them can be read."""
    import pyarrow.parquet as pq

    table = pa.table({"row": [1], "col": [2], "n": pa.array(np.array([2050], np.float16)), "m": [3]})
    with_times = table.append_column("t", pa.array([0], pa.timestamp("ms")))
    pq.write_table(table, tmp_path / "d.parquet")
    pq.write_table(with_times, tmp_path / "t.parquet")
    layout = Layout(Domain([Grid("row", "col", shape=(16, 8))]))
    for data in (table, tmp_path / "d.parquet", tmp_path / "t.parquet"):
        with pytest.raises(DataError, match="cannot be read safely"):
            read_cells(data, layout, CELLS, "n")
        assert read_cells(data, layout, CELLS, "m").dense(layout.bits).sum() == 3
