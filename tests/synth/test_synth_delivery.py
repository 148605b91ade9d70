"""Where a model and its records go: nothing that was paid for is lost, and nothing that is real is written over."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv as csv
import pytest
from synth_people import people

import oboro as ob
from oboro.cli import main
from oboro.errors import ParameterError
from oboro.synth.marks import write_records

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


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "arrow"])
def test_records_are_never_written_over_data_that_is_not_marked(
    oboro: Command, tmp_path: Path, ending: str
) -> None:
    assert oboro(f"{RELEASE} -o model.oboro")[0] == 0
    file = f"real.{ending}"
    write_records(people(20), tmp_path / file)
    before = (tmp_path / file).read_bytes()
    code, _, err = oboro(f"synth sample model.oboro -n 10 -o {file}")
    assert code == 4
    assert "may be real data" in err
    assert f"--output real-2.{ending}" in err
    assert (tmp_path / file).read_bytes() == before
    with pytest.raises(ParameterError, match="may be real data"):
        write_records(ob.synth.load("model.oboro").sample(5), tmp_path / file)
    fresh = f"synth sample model.oboro -n 10 --output real-2.{ending}"
    assert oboro(fresh)[0] == 0
    made = (tmp_path / f"real-2.{ending}").read_bytes()
    assert oboro(fresh)[0] == 0  # what is marked is replaced
    assert (tmp_path / f"real-2.{ending}").read_bytes() != made


def test_a_mark_that_is_left_beside_other_data_does_not_give_them_away(
    oboro: Command, tmp_path: Path
) -> None:
    assert oboro(f"{RELEASE} -o model.oboro")[0] == 0
    assert oboro("synth sample model.oboro -n 10 -o made.csv")[0] == 0
    (tmp_path / "made.csv").write_bytes((tmp_path / "data.csv").read_bytes())
    code, _, err = oboro("synth sample model.oboro -n 10 -o made.csv")
    assert code == 4, err
    assert (tmp_path / "made.csv").read_bytes() == (tmp_path / "data.csv").read_bytes()


def test_a_draft_replaces_a_draft_and_nothing_else(oboro: Command, tmp_path: Path) -> None:
    assert oboro("synth draft data.csv -o new.toml")[0] == 0
    assert oboro("synth draft data.csv -o new.toml")[0] == 0
    for name in ("d.toml", "other.csv"):
        (tmp_path / name).write_text(DOMAIN)
        code, _, err = oboro(f"synth draft data.csv -o {name}")
        assert code == 4
        assert "is no draft" in err
        assert (tmp_path / name).read_text() == DOMAIN


def test_data_that_cannot_be_learned_from_is_refused_before_a_forecast_is_shown(
    oboro: Command, tmp_path: Path
) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "lacks.csv").write_text("age\n3\n")
    for name, why in (
        ("empty.csv", "is empty"),
        ("lacks.csv", "no column 'sex'"),
        ("no.csv", "no such file"),
    ):
        code, _, err = oboro(RELEASE.replace("data.csv", name))
        assert code == 4
        assert why in err
        assert "expected error" not in err
    os.mkfifo(tmp_path / "pipe.csv")  # as /dev/stdin is one: it is there, and cannot be read twice
    code, _, err = oboro(RELEASE.replace("data.csv", "pipe.csv"))
    assert code == 4
    assert "not a regular file" in err
    assert "write it to a file" in err
    assert oboro(f"{RELEASE} --name once -o model.oboro")[0] == 0
    (tmp_path / "data.csv").unlink()  # what was released is given again without the data
    assert oboro(f"{RELEASE} --name once -o model.oboro")[0] == 0


def test_a_draw_is_told_to_programs(oboro: Command, tmp_path: Path) -> None:
    assert oboro(f"{RELEASE} -o model.oboro")[0] == 0
    code, out, _ = oboro("synth sample model.oboro -n 10 -o made.csv --seed 4 --where age=18..64 --json")
    assert code == 0
    told = json.loads(out)
    assert (told["output"], told["mark"]) == ("made.csv", "made.csv.synthetic.json")
    assert (told["records"], told["seed"], told["where"]) == (10, 4, {"age": ["18..64"]})
    assert told["guarantee"]["eps"] == "1"
