"""The command line on neighbouring and on hostile data: exit codes, words and files are the same but for noisy numbers."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import TYPED, array

import oboro as ob
from oboro.cli import main
from oboro.dynamics.system import FEEDER
from oboro.noise import bits
from oboro.release import save_plan
from oboro.release.release import to_content
from support import mostly_long

HEADER = "age,region,row,col,count"
ROWS = [f"{a % 90},{'north' if a % 3 else 'south'},{a % 8},{a % 5},{a % 7}" for a in range(60)]
# what a neighbour may be, and what nobody should write into a file
WORLDS = {
    "as it is": ROWS,
    "a row less": ROWS[:-1],
    "a row more": [*ROWS, "50,north,3,3,2"],
    "nobody": [],
    "text": [*ROWS, "forty,somewhere,x,y,many"],
    "not numbers": [*ROWS, "NaN,nan,NaN,inf,-inf"],
    "negative and huge": [*ROWS, f"-5,north,-1,{'9' * 30},{'9' * 30}"],
    "empty fields": [*ROWS, ",,,,"],
    "too few fields": [*ROWS, "1"],
    "odd letters": [*ROWS, "１２,\x01,٣,½,'; DROP TABLE x; --"],
}
LINES = {
    "histogram": "histogram release data.csv --domain people.toml --column region --eps 0.5 --ledger row.ledger",
    "sum": "query people.toml sum,age --eps 0.5",
    "mean by region": "query people.toml mean,age --by region --eps 0.5",
    "median": "query people.toml median,age --eps 0.5",
    "table": "table release data.csv --domain grid.toml --count count --eps 0.5 --ledger cells.ledger",
    "synthetic": "synth release data.csv --domain people.toml --eps 1 --delta 1e-6 --ledger row.ledger -o model.oboro",
}
LEDGERS = {
    "row.ledger": (ob.Unit.row(), ob.Approx(9, "1e-3")),
    "load.ledger": (ob.Unit.signal(1), ob.Approx(9, "1e-2")),
    "cells.ledger": (ob.Unit.cells(), ob.Pure(9)),
}
DECLARED = """data = "data.csv"
ledger = "row.ledger"
[unit]
kind = "row"
[[columns]]
kind = "integer"
name = "age"
low = 0
high = 99
[[columns]]
kind = "category"
name = "region"
values = ["north", "south"]
"""


@pytest.fixture
def seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], test_bits: Any
) -> Callable[..., tuple[int, str, str]]:
    """Runs a line on the rows of one world, always with the same noise; what an onlooker sees of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("people.toml").write_text(DECLARED)
    ob.Domain([ob.Grid("row", "col", shape=(8, 8))]).to_toml("grid.toml")

    def run(line: str, rows: list[str] | None) -> tuple[int, str, str]:
        for old in [*tmp_path.glob("*.ledger*"), *tmp_path.glob("*.oboro")]:
            old.unlink()
        name = next((word for word in line.split() if word in LEDGERS), "row.ledger")
        unit, budget = LEDGERS[name]
        ob.Ledger.create(name, dataset="people", unit=unit, budget=budget)
        if isinstance(rows, list):
            Path("data.csv").write_text("\n".join([HEADER, *rows]) + "\n")
        monkeypatch.setattr(bits, "_system", type(test_bits)("the same noise"))
        monkeypatch.setattr(sys, "argv", ["oboro", *[word.replace(",", " ") for word in line.split()]])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return run


def form(text: str) -> str:
    """A text without its numbers: what is left may not depend on anybody."""
    return re.sub(r"\s+", " ", re.sub(r"[-−]?\d[\d,]*(\.\d+)?(e-?\d+)?", "#", text))


@pytest.mark.filterwarnings("ignore::oboro.noise.bits.UnsafeBitsWarning")
@pytest.mark.parametrize("name", LINES)
@pytest.mark.few(2, "commands on hostile data")
def test_what_is_shown_has_the_same_form_for_all_data(name: str, seen: Any) -> None:
    usual = seen(LINES[name], WORLDS["as it is"])
    assert usual[0] == 0, usual
    for world in ("a row less", "nobody", "not numbers") if name == "synthetic" else WORLDS:
        code, out, err = seen(LINES[name], WORLDS[world])
        assert (code, err) == (usual[0], usual[2]), world  # to the letter: no number in it is noisy
        if name != "table":  # which cells are published is itself noisy
            assert form(out) == form(usual[1]), world


@pytest.mark.filterwarnings("ignore::oboro.noise.bits.UnsafeBitsWarning")
def test_all_but_the_table_is_the_same_to_the_letter(seen: Any) -> None:
    pages = []
    for world in WORLDS.values():
        page = json.loads(seen(f"{LINES['histogram']} --json", world)[1])
        assert len(page.pop("table")) == 2
        del page["ledger"]["id"], page["ledger"]["hash"]
        pages.append(page)
    assert all(page == pages[0] for page in pages)


TYPED_LINES = {
    "histogram": "histogram release data.parquet --domain people.toml --column region --eps 0.5 --ledger row.ledger",
    "mean by region": "query people.toml mean,age --by region --eps 0.5",
    "median": "query people.toml median,age --eps 0.5",
    "table": "table release data.parquet --domain grid.toml --count count --eps 0.5 --ledger cells.ledger",
    "synthetic": "synth release data.parquet --domain people.toml --eps 1 --delta 1e-6 --ledger row.ledger -o model.oboro",
    "signal": "dynamics release data.parquet --system feeder.toml --column age --eps 1 --delta 1e-3 --ledger load.ledger",
    "plan": "run plan.toml data.parquet --ledger row.ledger",
}
SOME = [
    "double",
    "uint64",
    "decimal(38,37)",
    "timestamp s None",
    "timestamp ms Asia/Tokyo",
    "date32",
    "text",
    "text that is not UTF-8",
]


@pytest.mark.filterwarnings("ignore::oboro.noise.bits.UnsafeBitsWarning")
@pytest.mark.parametrize(
    "asked",
    mostly_long(
        "hostile neighbours",
        [(name, kind) for name in TYPED_LINES for kind in TYPED],
        list(zip(TYPED_LINES, SOME, strict=False)),
    ),
)
def test_no_value_of_a_file_changes_the_exit_code_or_what_is_said(asked: tuple[str, str], seen: Any) -> None:
    name, kind = asked
    Path("people.toml").write_text(DECLARED.replace("data.csv", "data.parquet"))
    Path("feeder.toml").write_text(FEEDER)
    domain = ob.Domain([ob.Integer("age", 0, 99)])
    save_plan(ob.histogram_plan(domain, "age", unit=ob.Unit.row(), eps="0.5"), "plan.toml")
    traces = []
    for file in _files(kind):
        Path("data.parquet").write_bytes(file)
        code, out, err = seen(TYPED_LINES[name], None)
        traces.append((code, err, "" if name == "table" else form(out)))
    assert not traces or traces[0] == traces[1]


@cache
def _files(kind: str) -> list[bytes]:
    """All values of a type, and the first of them as often; none where Parquet has no such type."""
    known = [value for value in [*TYPED[kind][1], None] if _written(kind, [value])]
    return [file for values in (known, known[:1] * len(known)) if (file := _written(kind, values))]


def _written(kind: str, values: list[Any]) -> bytes:
    file = io.BytesIO()
    try:
        pq.write_table(pa.table({name: array(kind, values) for name in HEADER.split(",")}), file)
    except (pa.ArrowException, OSError, OverflowError):  # Parquet's own refusals are an OSError
        return b""
    return file.getvalue()


# -- planted faults ----------------------------------------------------------------------------------------------


def complain(self: Any, data: Any) -> Any:
    if "NaN" in Path("data.csv").read_text():
        raise ob.errors.DataError("a value is not a number")
    return self.counted(data)


def tell(self: Any, data: Any) -> Any:
    counts = self.counted(data)
    print("rows read:", int(counts.sum()), file=sys.stderr)
    return counts


@pytest.mark.filterwarnings("ignore::oboro.noise.bits.UnsafeBitsWarning")
@pytest.mark.parametrize("fault", [complain, tell])
def test_a_command_that_tells_is_caught(fault: Any, seen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ob.statistics.HistogramPlan
    monkeypatch.setattr(plan, "counted", plan.prepare, raising=False)
    monkeypatch.setattr(plan, "prepare", fault)
    with pytest.raises(AssertionError):
        test_what_is_shown_has_the_same_form_for_all_data("histogram", seen)


# -- the size of a file ------------------------------------------------------------------------------------------


def test_a_released_file_is_a_function_of_the_table_alone() -> None:
    """So its size tells no more than the noisy numbers in it."""
    table = pa.table({"region": ["north", "south"] * 50, "count": list(range(100))})
    pieces = pa.concat_tables([table.slice(start, 7) for start in range(0, 100, 7)])
    assert to_content(table) == to_content(pieces) == to_content(pa.table(table.to_pydict()))
    assert to_content(table) != to_content(table.slice(0, 99))
