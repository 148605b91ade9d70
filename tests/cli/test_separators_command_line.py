"""Commands tell a CSV with semicolons by its header, before anything is spent; also a dry run, which had found nothing wrong with it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import oboro as ob
from oboro.cli import main

COLUMNS = (
    '[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 99\n\n'
    '[[columns]]\nkind = "category"\nname = "region"\nvalues = ["north", "south"]\n'
)
DECLARED = 'data = "excel.csv"\nledger = "people.ledger"\n\n[unit]\nkind = "row"\n\n'
FREE = [
    "check people.toml",
    "histogram check excel.csv --domain domain.toml",
    "histogram release excel.csv --domain domain.toml --column region --eps 1 --ledger people.ledger --dry-run",
    "query people.toml mean age --eps 1 --dry-run",
    "synth draft excel.csv -o draft.toml",
    "synth release excel.csv --domain domain.toml --eps 1 --delta 1e-6 --method moments --ledger people.ledger --dry-run",
    "table check excel.csv --domain domain.toml",
    "table release excel.csv --domain domain.toml --eps 1 --ledger people.ledger --dry-run",
]
PAID = [
    "histogram release excel.csv --domain domain.toml --column region --eps 1 --ledger people.ledger",
    "table release excel.csv --domain domain.toml --eps 1 --ledger people.ledger -o table.csv",
]


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ob.Ledger:
    monkeypatch.chdir(tmp_path)
    Path("excel.csv").write_text("age;region\n31;north\n50;south\n" * 9)
    Path("domain.toml").write_text(COLUMNS)
    Path("people.toml").write_text(DECLARED + COLUMNS)
    return ob.Ledger.create(
        "people.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Approx(9, "1e-5")
    )


def typed(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.mark.parametrize("line", FREE + PAID)
def test_every_command_tells_semicolons_by_the_header(
    line: str, ledger: ob.Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(line, monkeypatch) == 4
    said = capsys.readouterr().err
    assert "excel.csv are separated by semicolons" in said
    assert ledger.remaining == ledger.budget
    fix = next(row for row in said.splitlines() if row.startswith("  fix ")).removeprefix("  fix ").strip()
    subprocess.run(["sh", "-c", fix], check=True)
    if line in FREE:
        Path("people.toml").write_text(DECLARED.replace("excel.csv", "comma-excel.csv") + COLUMNS)
        assert typed(line.replace("excel.csv", "comma-excel.csv"), monkeypatch) == 0


def test_a_draft_of_no_column_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("days.csv").write_text("day\n22.10.2013\n")
    assert typed("synth draft days.csv -o draft.toml", monkeypatch) == 4
    shown = capsys.readouterr()
    assert "left out: day" in shown.out
    assert "nothing could be drafted" in shown.err
