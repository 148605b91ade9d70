"""Where a model and its records go: nothing that was paid for is lost, and nothing that is real is written over."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv as csv
import pytest
from synth_people import people

import oboro as ob
from oboro.cli import main

Command = Callable[[str], tuple[int, str, str]]
DOMAIN = """
[[columns]]
name = "age"
kind = "integer"
low = 0
high = 120

[[columns]]
name = "sex"
kind = "category"
values = ["F", "M"]
"""


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(people(500).select(["age", "sex"]), tmp_path / "data.csv")
    (tmp_path / "d.toml").write_text(DOMAIN)

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    assert command("ledger create 'my people.ledger' --dataset x --unit row --eps 9 --delta 1e-4")[0] == 0
    return command


RELEASE = "synth release data.csv --domain d.toml --ledger 'my people.ledger' --eps 1 --delta 1e-6 --method marginals"


def test_a_model_that_went_nowhere_is_fetched_by_the_line_that_is_printed(
    oboro: Command, tmp_path: Path
) -> None:
    code, out, _ = oboro(RELEASE)
    assert code == 0
    (line,) = [one for one in out.splitlines() if "oboro ledger fetch" in one]
    words = shlex.split(line.partition("oboro ")[2])
    code, out, err = oboro(shlex.join(words))
    assert code == 0, err
    assert "nothing: given again" in out
    assert ob.synth.load(tmp_path / words[-1]).sample(5, seed=1).num_rows == 5
    assert "ledger fetch" not in oboro(f"{RELEASE} -o model.oboro")[1]
