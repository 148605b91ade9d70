"""Fixes that `oboro synth release` shows work when they are done as they are written."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from oboro.cli import main

DOMAIN = '[[columns]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 120\n'
LEDGERS = {"eps": "--eps 9", "both": "--eps 9 --delta 1e-4"}


def said(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, str]]:
    monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
    with pytest.raises(SystemExit) as stop:
        main()
    told = [one.strip().partition(" ") for one in capsys.readouterr().err.splitlines()]
    return int(stop.value.code or 0), {label: text.strip() for label, _, text in told}


@pytest.mark.parametrize(
    ("ledger", "wrong", "fix"),
    [
        ("both", "--seconds -5", "--seconds 1"),
        ("both", "--seconds x", "--seconds 1"),
        ("both", "--n 30", "without --n"),
        ("both", "--records 10", "without --records"),
        ("eps", "--delta 1e-6", "without --delta"),
    ],
)
def test_a_fix_is_done(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ledger: str,
    wrong: str,
    fix: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.toml").write_text(DOMAIN)
    (tmp_path / "data.csv").write_text("age\n3\n4\n")
    create = f"ledger create x.ledger --dataset x --unit row {LEDGERS[ledger]}"
    assert said(create, monkeypatch, capsys)[0] == 0
    promise = "--eps 1 --delta 1e-6" if ledger == "both" else "--eps 1"
    line = f"synth release data.csv --domain d.toml --ledger x.ledger {promise} --dry-run"
    code, parts = said(f"{line} {wrong}", monkeypatch, capsys)
    assert code == 4
    assert parts["fix"] == fix
    done = line if fix.startswith("without") else f"{line} {fix}"
    assert said(done, monkeypatch, capsys)[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        "table release cells.csv --domain t.toml --ledger x.ledger --eps 1",
        "query ask.toml median age --eps 1",
    ],
)
def test_other_commands_leave_out_a_delta_that_cannot_be_paid_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text('[[columns]]\nname = "a"\nkind = "category"\nvalues = ["x", "y"]\n')
    (tmp_path / "ask.toml").write_text(f'data = "people.csv"\nledger = "x.ledger"\n{DOMAIN}')
    (tmp_path / "people.csv").write_text("age\n3\n4\n")
    (tmp_path / "cells.csv").write_text("a\nx\n")
    unit = "cells:1:1" if command.startswith("table") else "row"
    assert said(f"ledger create x.ledger --dataset x --unit {unit} --eps 9", monkeypatch, capsys)[0] == 0
    code, parts = said(f"{command} --delta 1e-6", monkeypatch, capsys)
    assert (code, parts["fix"]) == (4, "without --delta")
    assert said(f"{command} --dry-run", monkeypatch, capsys)[0] == 0
