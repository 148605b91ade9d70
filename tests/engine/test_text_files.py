"""Every line of a text file is a record, whatever stands in it."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oboro as ob
from oboro.engine import _compiled, open_data, records, text_files
from oboro.errors import DataError
from oboro.release.plan import encoded
from oboro.statistics.session import Plans

HOSTILE = [
    b"3,\xff\xfe",
    b"3,\x00q",
    b"3",
    b"",
    b",",
    b"3,z,9,9",
    b'3,"a\nb"',
    b'3,ab"c"d',
    b"3,a\r",
    b"3,a\rb",
    b'3,"a"b"',
    b"3," + b"x" * 3_000_000,
    b"3," + b"x" * (text_files.LONGEST + 1),
    b'"3""",x',
    b"\xef\xbb\xbf3,x",
]


def table(path: Path) -> list[tuple[bytes | None, ...]]:
    """What is read, as bytes: a text need not be UTF-8."""
    read = pa.RecordBatchReader.from_stream(open_text(path)).read_all()
    as_bytes = [
        [chunk.view(pa.binary()) for chunk in column.chunks] or [pa.array([], pa.binary())]
        for column in read.columns
    ]
    return list(zip(*(pa.chunked_array(chunks).to_pylist() for chunks in as_bytes), strict=True))


def open_text(path: Path) -> Any:
    return text_files.open_text(path, ",")


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:20]))
@pytest.mark.parametrize("before", [1, 40_000])
@pytest.mark.few(10, "kinds of text files")
def test_every_line_is_one_record(tmp_path: Path, line: bytes, before: int) -> None:
    path = tmp_path / "p.csv"
    for hostile in (b"5,F", line):
        path.write_bytes(b"j,c\n" + b"1,F\n" * before + hostile + b"\n2,M\n")
        source = open_data(path)
        query = f"SELECT count(*), sum(TRY_CAST(j AS BIGINT)) FILTER (j IN ('1', '2')) FROM {source.relation}"
        assert source.connection.execute(query).fetchone() == (before + 2, before + 2)


def test_fields_are_what_they_are_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(
        b'\xef\xbb\xbf"a, b",c\r\n'
        b'"x ""y""\nz",1\r\n'
        b',""\r\n'
        b'"p"q"r,2,3\r\n'
        b's\rt,u"v"\r\n'
        b"\n"
        b"only\n"
        b'"not closed,\n7,8'
    )
    assert open_text(path).names == ("a, b", "c")
    assert table(path) == [
        (b'x "y"\nz', b"1"),
        (None, None),
        (b'pq"r', b"2"),
        (b"s\rt", b'u"v"'),
        (None, None),
        (b"only", None),
        (b"not closed,\n7,8", None),
    ]


@given(st.lists(st.text('ab,"\n\u3042', max_size=8), min_size=2, max_size=2).map(tuple), st.data())
@settings(max_examples=60, deadline=None)
def test_what_python_writes_is_read_back_wherever_chunks_end(
    tmp_path_factory: pytest.TempPathFactory, first: tuple[str, str], data: st.DataObject
) -> None:
    rows = [first, *data.draw(st.lists(st.tuples(*[st.text('ab,"\n\u3042\r', max_size=8)] * 2), max_size=9))]
    path = tmp_path_factory.mktemp("text") / "p.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("a", "b"), *rows])
    wanted = [tuple(value.encode() or None for value in row) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_CHUNK", data.draw(st.integers(1, 20)))
        patch.setattr(text_files, "_FIELDS", data.draw(st.integers(1, 9)))
        for large in (0, 2**40):
            patch.setattr(text_files, "_LARGE", large)
            assert table(path) == wanted


@given(st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b"\r", b"\xff", b"bb"]), max_size=40).map(b"".join))
@settings(max_examples=100, deadline=None)
def test_compiled_or_not_and_however_cut_the_records_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, body: bytes
) -> None:
    path = tmp_path_factory.mktemp("text") / "p.csv"
    path.write_bytes(b"a,b,c\n" + body)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "LONGEST", 6)
        for large in (0, 2**40):
            for chunk in (1, 3, 2**20):
                patch.setattr(text_files, "_LARGE", large)
                patch.setattr(text_files, "_CHUNK", chunk)
                seen.append(table(path))
    assert all(one == seen[0] for one in seen)
    assert len(seen[0]) == (lines_outside_quotes(body))


def lines_outside_quotes(body: bytes) -> int:
    """By Python's own reader, which takes a lone carriage return for a line end: hidden here, as it counts for nothing."""
    text = body.replace(b"\r", b"r").decode("latin-1")
    return sum(1 for _ in csv.reader(io.StringIO(text, newline="")))


def test_a_longer_record_leaves_its_neighbours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONGEST", 1000)
    monkeypatch.setattr(text_files, "_CHUNK", 64)
    path = tmp_path / "p.csv"
    for length, kept in ((990, True), (1001, False), (100_000, False)):
        long = b'"' + b"y" * (length - 4) + b'",5'
        path.write_bytes(b"a,b\n1,2\n" + long + b"\n3,4\n")
        middle = (b"y" * (length - 4), b"5") if kept else (None, None)
        assert table(path) == [(b"1", b"2"), middle, (b"3", b"4")]


def test_the_order_of_records_is_kept_and_files_may_be_packed(tmp_path: Path) -> None:
    text = b"i,x\n" + b"".join(b"%d,%d\n" % (i, i % 7) for i in range(150_000))
    (tmp_path / "p.csv").write_bytes(text)
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(text))
    for name in ("p.csv", "p.csv.gz"):
        source = open_data(tmp_path / name)
        source.connection.execute("SET preserve_insertion_order = true")
        found = source.connection.execute(f"SELECT i::BIGINT AS i FROM {source.relation}").fetchnumpy()["i"]
        assert np.array_equal(found, np.arange(150_000))


def test_a_packed_file_that_breaks_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv.gz"
    path.write_bytes(gzip.compress(b"i\n" + bytes(str(2**200), "ascii") * 1000)[:-9])
    with pytest.raises(DataError):
        open_data(path).connection.execute("SELECT count(*) FROM given").fetchall()


def test_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "pandas.csv"
    pd.DataFrame({"a": [5, 7]}, index=["x", "y"]).to_csv(path)  # writes ",a"
    assert path.read_text().startswith(",a\n")
    opened = open_data(path)
    assert list(opened.types) == ["column 1", "a"]
    path.write_text(",column 1\n1,2\n")
    with pytest.raises(DataError, match="header"):
        open_data(path)


NAMES = ["年齢", "所得\n(円)", 'a "b"', " lead", "x,y", "\r\n", "tab\t", "'"]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_name_may_hold_line_ends(start: bytes, packed: bool, tmp_path: Path) -> None:
    """As a cell of Excel does, in which Alt and Enter were pressed."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([NAMES[1:], *([str(i)] * (len(NAMES) - 1) for i in range(3))])
    path = tmp_path / ("people.csv.gz" if packed else "people.csv")
    with gzip.open(path, "wb") if packed else path.open("wb") as file:
        file.write(start + text.getvalue().encode())
    assert open_text(path).names == tuple(NAMES[1:])
    assert pa.table(open_text(path)).to_pylist() == [dict.fromkeys(NAMES[1:], str(i)) for i in range(3)]
    assert open_data(path).count_units(ob.Unit.row("replace")) == 3
    plan = Plans(ob.Domain([ob.Integer(NAMES[1], 0, 9)]), ob.Unit.row("replace"), 3).sum(NAMES[1], eps=1)
    assert plan.prepare(path).tolist() == [[0 + 1 + 2]]


def test_what_is_written_as_csv_is_read_back_by_its_names(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    table = pa.table({name: [f"{i}"] for i, name in enumerate(NAMES)})
    path.write_bytes(encoded(table, ".csv"))
    assert pa.table(open_text(path)).to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    "below", ["", "5,north\n", '5,"north"\n', '5,"a"\n"6","b"\n', ("x" * 99 + "\n") * 20_000]
)
def test_a_quotation_mark_that_is_forgotten_makes_no_header_of_records(below: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('"age,region\n' + below)
    with pytest.raises(DataError, match=r"no usable header|cannot be read"):
        open_text(path)
    path.write_text('"age",region\n' + below)
    assert open_text(path).names == ("age", "region")
    path.write_bytes('"年齢,地域\n'.encode("cp932") + below.encode())
    with pytest.raises(DataError) as refused:
        open_text(path)
    if not below:
        assert "iconv -f CP932" in str(refused.value.fix)


def test_only_the_header_is_public(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    for text in (b"", b"a,a\n1,2\n", b",\n1,2\n", b"\xff\n1\n", b"a\rb\r1\r", b"a" * 2**20 + b"\n"):
        path.write_bytes(text)
        with pytest.raises(DataError, match="header"):
            open_data(path)


def test_under_replace_the_number_of_rows_does_not_depend_on_a_value(tmp_path: Path) -> None:
    plan = Plans(ob.Domain([ob.Integer("x", 0, 9)]), ob.Unit.row("replace"), 4).sum("x", eps=1)
    for line in (b"5", b"\xff", b"", b'"'):
        (tmp_path / "p.csv").write_bytes(b"x\n1\n2\n3\n" + line + b"\n")
        plan.prepare(tmp_path / "p.csv")


def test_both_loops_are_the_same_code() -> None:
    for name in ("find_fields", "find_end", "copy_fields"):
        assert getattr(_compiled, name).py_func is getattr(records, name)
