"""Releases as workbooks: two sheets, no cell that is a formula, and what does not fit refused before it is paid for."""

from __future__ import annotations

import sys
import zipfile
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pytest

import oboro as ob
from oboro.errors import InputError
from oboro.release import workbook
from oboro.statistics.session import Plans

ODD = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "{=A1}",
    "http://a.example",
    "12",
    "_x0041_",
    "\ufffe\x00",
    " a ",
    "😀",
]
DOMAIN = ob.Domain([ob.Category("kind", ODD), ob.Integer("age", 0, 99)])
ROWS = {"kind": [ODD[i % len(ODD)] for i in range(200)], "age": [i % 90 for i in range(200)]}


@pytest.fixture
def session(tmp_path: Path) -> ob.Session:
    ledger = ob.Ledger.create(tmp_path / "k.ledger", dataset="=1+1", unit=ob.Unit.row(), budget=ob.Pure(10))
    return ob.Session(ROWS, domain=DOMAIN, ledger=ledger, name="people")


def sheets(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    book = openpyxl.load_workbook(path)
    return {sheet.title: [tuple(cell.value for cell in row) for row in sheet.iter_rows()] for sheet in book}


def test_a_statement_is_two_sheets_and_no_cell_is_a_formula(session: ob.Session, tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    ask = 'SELECT kind, AVG(age) AS "=avg", COUNT(*) AS "@n" FROM people GROUP BY kind'
    release = session.sql(ask, eps=1)
    where = release.save(path)
    found = sheets(path)
    assert list(found) == ["figures", "certificate"]
    table = release.to_arrow()
    assert found["figures"][0] == tuple(table.column_names)
    mine = [tuple(row.values()) for row in table.to_pylist()]
    # openpyxl does not turn what Excel writes for signs that XML lacks back into them
    for row, own in zip(found["figures"][1:], mine, strict=True):
        assert row[1:] == pytest.approx(own[1:], rel=1e-15)
    assert [row[0] for row in found["figures"][1:]][:7] == ODD[:7]
    assert {cell.data_type for sheet in openpyxl.load_workbook(path) for row in sheet for cell in row} <= {
        "s",
        "n",
    }
    with zipfile.ZipFile(path) as file:
        assert not any(
            b"<f>" in file.read(name) or b"hyperlink" in file.read(name) for name in file.namelist()
        )
    words = {row[0]: row[1] for row in found["certificate"] if row[0]}
    assert words["guarantee"] == "eps = 1"
    assert words["dataset"] == "=1+1"
    assert words["noise"] == "discrete Laplace"
    ob.verify_certificate(where, public_key=session.ledger.public_key)


def test_the_same_release_is_the_same_file(session: ob.Session, tmp_path: Path) -> None:
    release = session.histogram("kind", eps=1)
    release.save(tmp_path / "one.xlsx")
    release.save(tmp_path / "other.xlsx")
    assert (tmp_path / "one.xlsx").read_bytes() == (tmp_path / "other.xlsx").read_bytes()


def test_a_table_of_counts_has_its_intervals_in_a_workbook(tmp_path: Path) -> None:
    mesh = ob.Domain([ob.Grid("row", "col", shape=(8, 8))])
    unit = ob.Unit.cells(1, 1)
    ledger = ob.Ledger.create(tmp_path / "m.ledger", dataset="m", unit=unit, budget=ob.Pure(10))
    plan = ob.tables.plan(mesh, unit=unit, eps=5)
    data = {"row": [1, 1, 5] * 40, "col": [2, 3, 5] * 40}
    ob.run(plan, data, ledger).save(tmp_path / "m.xlsx")
    head, *rows = sheets(tmp_path / "m.xlsx")["figures"]
    assert head[-2:] == ("low", "high")
    assert all(row[-2] <= row[-1] for row in rows)


def test_cells_keep_what_they_are() -> None:
    table = pa.table(
        {
            "whole": pa.array([3, 10**15, None]),
            "part": pa.array([0.1, float("inf"), float("nan")]),
            "day": pa.array([date(1900, 2, 28), date(2026, 4, 1), None]),
            "yes": [True, False, None],
        }
    )
    content = workbook.encoded_workbook(table, [("a", "x" * 40_000)], datetime(2026, 1, 1, tzinfo=UTC))
    book = openpyxl.load_workbook(BytesIO(content))
    rows = [tuple(cell.value for cell in row) for row in book["figures"].iter_rows(min_row=2)]
    assert rows == [
        (3, 0.1, "1900-02-28", True),
        ("1000000000000000", "inf", datetime(2026, 4, 1), False),
    ]  # and a row of empty cells
    assert "".join(row[1].value for row in book["certificate"].iter_rows()) == "x" * 40_000


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (lambda ask: ask.histogram(["a", "b"], eps=1), "rows"),
        (lambda ask: ask.by("b").quantile("a", list(np.arange(1, 900) / 1000), eps=1), "rows"),
        (lambda ask: ask.by("long").count(eps=1), "signs"),
        (lambda ask: ask.sql("SELECT long, COUNT(*) FROM data GROUP BY long", eps=1), "signs"),
    ],
)
def test_what_excel_cannot_hold_is_refused_by_the_plan_alone(plan: Any, what: str) -> None:
    domain = ob.Domain(
        [ob.Integer("a", 0, 1999), ob.Integer("b", 0, 1999), ob.Category("long", ["x" * 40_000, "y"])]
    )
    ask = Plans(domain, ob.Unit.row(), None, table="data")
    made = plan(ask)
    with pytest.raises(InputError, match=rf"Excel(.|\n)*{what}"):
        made.check_file(".xlsx")
    made.check_file(".parquet")


def test_rows_that_are_there_count_and_not_those_that_could_be() -> None:
    domain = ob.Domain([ob.Grid("row", "col", shape=(2048, 2048))])
    plan = ob.tables.plan(domain, unit=ob.Unit.cells(1, 1), eps=1)
    with pytest.raises(InputError, match=r"Excel(.|\n)*rows"):
        plan.check_file(".xlsx")
    plan.check_file(".xlsx", rows=1000)


def test_without_the_extra_the_line_that_installs_it_is_said_first(
    session: ob.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(InputError, match=r"oboro\[xlsx\]"):
        session.plan.count(eps=1).check_file(".xlsx")


def test_more_columns_than_excel_has_are_refused_before_they_are_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workbook, "MOST_COLUMNS", 30)
    domain = ob.Domain([ob.Integer("a", 0, 9), ob.Category("b", ["x", "y"])])
    ask = Plans(domain, ob.Unit.row(), None, table="t")
    one = ask.by("b").mean("a", eps="0.1")
    ob.statistics.BatchPlan((one,) * 9, ob.Pure("0.9")).check_file(".xlsx")
    many = ob.statistics.BatchPlan((one,) * 10, ob.Pure(1))
    figures = ", ".join(f"AVG(a) + {i}" for i in range(10))
    for plan in (many, ask.sql(f"SELECT b, {figures} FROM t GROUP BY b", eps=1)):
        with pytest.raises(InputError, match=r"Excel(.|\n)*31 columns"):
            plan.check_file(".xlsx")
        plan.check_file(".csv")


def test_answers_side_by_side_have_the_rows_of_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MOST_ROWS", 100)
    domain = ob.Domain([ob.Integer("a", 0, 59), ob.Integer("c", 0, 9), ob.Integer("d", 0, 9)])
    ask = Plans(domain, ob.Unit.row(), None).by("a")
    one = ask.sum("c", eps=1)
    ob.statistics.BatchPlan((one, one, one), ob.Pure(3)).check_file(".xlsx")
    several = ask.mean(["c", "d"], eps=1)
    assert several.published_rows == 60
    several.check_file(".xlsx")
