"""No command writes over what it was given to read; what was stored is not called spent; garbled lines are counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOML = 'data = "people.csv"\nledger = "people.ledger"\n[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 120\n'


def oboro(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oboro", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def prepared(folder: Path, people: bytes = b"age\n30\n40\n") -> Path:
    (folder / "people.csv").write_bytes(people)
    (folder / "people.toml").write_text(TOML)
    made = oboro(
        folder, "ledger", "create", "people.ledger", "--dataset", "p", "--unit", "row,replace", "--eps", "1"
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.long("outputs given the name of an input")
def test_an_output_never_replaces_an_input(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    before = (folder / "people.csv").read_bytes()
    asked = oboro(folder, "query", "people.toml", "mean age", "--eps", "0.1", "-o", "people.csv")
    drafted = oboro(folder, "synth", "draft", "people.csv", "-o", "people.csv")
    assert asked.returncode == drafted.returncode == 4
    assert "overwrite an input" in asked.stderr
    assert (folder / "people.csv").read_bytes() == before
    shown = json.loads(oboro(folder, "ledger", "show", "people.ledger", "--json").stdout)
    assert "0.1" not in json.dumps(shown["spent"])


@pytest.mark.long("commands that read and show")
def test_the_unit_is_that_of_the_ledger_and_a_release_given_again_costs_nothing(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    asking = ("query", "people.toml", "mean age", "--eps", "0.1", "--name", "a", "--json")
    first, second = (json.loads(oboro(folder, *asking).stdout) for _ in range(2))
    assert first["unit"]["adjacency"] == "replace"
    assert (first["given_again"], second["given_again"]) == (False, True)
    assert first["remaining"] == second["remaining"]


@pytest.mark.long("odd files")
def test_check_counts_lines_that_are_not_utf8(tmp_path: Path) -> None:
    folder = prepared(tmp_path, b"age,town\n30,\x93\x8c\x8b\x9e\n40,x\n")
    assert "1 lines are not UTF-8" in oboro(folder, "check", "people.toml").stdout
