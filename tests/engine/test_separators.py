"""A CSV that commas do not separate is told by its header, at every door, with a line that mends it as pasted."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import oboro as ob
from oboro.engine import open_data
from oboro.engine.text_files import open_text
from oboro.errors import DataError, InputError
from oboro.separators import with_commas

AGE, REGION = ob.Integer("age", 0, 99), ob.Category("region", ["north", "so,uth"])
DOMAIN = ob.Domain([AGE, REGION])
EXCEL = "age;region;sum\r\n31;north;1,5\r\n50;so,uth;2\r\n"
UNICODE = 'age\tregion\tsum\r\n31\tnorth\t"1,234"\r\n'


def told(work: Callable[[], Any]) -> InputError:
    with pytest.raises(InputError, match="are separated by") as refused:
        work()
    return refused.value


def shell(error: InputError) -> None:
    subprocess.run(["sh", "-c", str(error.fix)], check=True)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", [EXCEL, UNICODE], ids=["semicolons", "tabs"])
@pytest.mark.parametrize("packed", [False, True])
def test_data_with_other_separators_is_refused_with_a_line_that_works(
    text: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("it's people.csv" + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    ledger = ob.Ledger.create(tmp_path / "l", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(1))
    error = told(lambda: ob.Session(path, domain=DOMAIN, ledger=ledger))
    assert error.message.endswith(f"by {'tabs' if text is UNICODE else 'semicolons'}")
    assert "'age'" in str(error.given)
    for plan in (
        ob.histogram_plan(DOMAIN, "region", unit=ob.Unit.row(), eps=1),
        ob.tables.plan(ob.Domain([AGE]), unit=ob.Unit.row(), eps=1),
        ob.synth.plan(DOMAIN, unit=ob.Unit.row(), eps=1),
    ):
        told(lambda plan=plan: ob.run(plan, path, ledger))  # type: ignore[misc]
    assert ledger.remaining == ob.Pure(1)
    told(lambda: ob.tables.check(path, ob.Domain([AGE])))
    told(lambda: ob.synth.draft(path, tmp_path / "d.toml"))
    told(lambda: ob.synth.quality(path, {"age": [1]}))
    shell(error)
    mended = path.with_name(f"comma-{path.name}")
    assert open_data(mended).count_units(ob.Unit.row()) == (1 if text is UNICODE else 2)
    ob.Session(mended, domain=DOMAIN, ledger=ledger)
    assert ob.synth.draft(mended, tmp_path / "d.toml").columns == ("age", "region", "sum")


KEPT = [
    ["größe", 'a "b"', "x;y", "x\ty", "x,y", "a\nb"],
    ["ä€", 'say ""', "p;q", "p\tq", "p,q", "one\r\ntwo\n"],
    [],
    ["", " lead", "'", "x" * 200_000, "1", "-"],
]


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_the_line_keeps_marks_line_ends_and_umlauts(separator: str, encoding: str, tmp_path: Path) -> None:
    if (separator, encoding) == ("\t", "cp1252"):
        pytest.skip("of a file with tabs the encoding is not known: its bytes are kept")
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows(KEPT)
    path = tmp_path / "p.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    subprocess.run(["sh", "-c", with_commas(path, separator)], check=True)
    csv.field_size_limit(2**24)
    assert rows((tmp_path / "comma-p.csv").read_bytes().decode()) == KEPT


def test_decimal_commas_become_points_where_semicolons_separate_and_bytes_stay_where_tabs_do(
    tmp_path: Path,
) -> None:
    """Not where all of a column may be thousands: 1,230 people are not 1.23."""
    path = tmp_path / "p.csv"
    cells = ["1,5", "-0,25", "+3,0", "1.234,5", "1,2,3", "1,5 kg", "1,"]
    path.write_text("0,5;b\n" + "".join(f"{cell};x\n" for cell in cells), encoding="utf-8")
    subprocess.run(["sh", "-c", with_commas(path, ";")], check=True)
    found = rows((tmp_path / "comma-p.csv").read_text())
    assert [row[0] for row in found] == ["0,5", "1.5", "-0.25", "+3.0", *cells[3:]]
    path.write_text("a;b;c\n1,230;1,230;0,250\n85;1,5;-12,125\n12,000;2,125;1,000\n", encoding="utf-8")
    subprocess.run(["sh", "-c", with_commas(path, ";")], check=True)
    found = rows((tmp_path / "comma-p.csv").read_text())
    assert found[1:] == [["1,230", "1.230", "0.250"], ["85", "1.5", "-12.125"], ["12,000", "2.125", "1.000"]]
    path.write_bytes(b"a\tb\n1,5\t" + "北\n".encode("cp932"))
    subprocess.run(["sh", "-c", with_commas(path, "\t")], check=True)
    assert (tmp_path / "comma-p.csv").read_bytes() == b'a,b\r\n"1,5",' + "北\r\n".encode("cp932")


def test_the_line_is_whole_however_long_the_path_is(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["a folder of a long name " * 4] * 5)
    folder.mkdir(parents=True)
    path = folder / "p.csv"
    path.write_text("age;region\n1;x\n")
    with pytest.raises(DataError) as refused:
        open_data(path).need("age")
    assert len(path.as_posix()) > 500
    assert str(refused.value).endswith("comma-p.csv'")
    shell(refused.value)
    open_data(folder / "comma-p.csv").need("age", "region")


def test_commas_in_a_file_called_tsv_are_told_too(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text("age,region\n31,north\n")
    error = told(lambda: open_data(path).need("age"))
    shell(error)
    open_data(tmp_path / "comma-p.csv").need("age", "region")


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("age,a;b", ["age"]),
        ("age;x,region", ["region"]),
        ('"age;region",sum', ["age;region", "sum"]),
        ("age;region", ["age;region"]),
    ],
)
def test_a_file_whose_commas_give_what_is_wanted_is_read(
    header: str, wanted: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "p.csv"
    path.write_text(header + "\n1,2\n")
    open_data(path).need(*wanted)


def test_no_record_decides(tmp_path: Path) -> None:
    """Also where another separator would make the header go on into records."""
    path, said = tmp_path / "p.csv", set()
    for below in ("", "1;2\n", '";age\n', '"\n', "age;region\n", "\xff\n" * 9):
        path.write_text('x,y;"z\n' + below, encoding="latin-1")
        with pytest.raises(DataError) as refused:
            open_data(path).need("age")
        said.add((refused.value.message, refused.value.given, refused.value.fix))
    assert len(said) == 1


def test_a_first_line_without_what_is_wanted_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("31;Sato;north\n")
    with pytest.raises(DataError, match="has no column 'age'") as refused:
        open_data(path).need("age")
    assert "Sato" not in str(refused.value)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_public_tables_are_told_and_mended(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    texts = [["age", "region"], ["1", "north"], ["2", "so,uth"]]
    path.write_text("".join(separator.join(row) + "\n" for row in texts))
    mended = tmp_path / "comma-t.csv"
    areas = ob.Category("x", ["1"])
    uses: list[Callable[[Path], ob.Domain]] = [
        lambda path: ob.Domain([AGE, REGION], impossible=path),
        lambda path: ob.Domain([ob.Areas("age", levels=["region", "age"], table=path), areas]),
    ]
    for use in uses:
        error = told(partial(use, path))
        assert error.argument in ("impossible", "table")
        shell(error)
        use(mended)
    path.write_text(separator.join(["age", "total"]) + "\n" + separator.join(["1", "5"]) + "\n")
    by_age = ob.Domain([ob.Category("age", ["1", "2"])])
    told(lambda: ob.tables.plan(by_age, unit=ob.Unit.cells(), eps=1, count="n", known={"age": path}))
    told(lambda: ob.tables.plan(by_age, unit=ob.Unit.cells(), eps=1, count="n", possible=path))


def test_the_header_of_cp1252_with_semicolons_is_read_as_such(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes("größe;alter\n1;2\n".encode("cp1252"))
    with pytest.raises(DataError) as refused:
        open_text(path, ",")
    shell(refused.value)
    assert open_text(tmp_path / "utf8-p.csv", ";").names == ("größe", "alter")
