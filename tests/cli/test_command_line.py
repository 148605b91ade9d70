"""The command line as a user types it: words, exit codes, JSON, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import oboro as ob
from oboro.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def command(line: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["oboro", *line.split()])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        return Result(int(stop.value.code or 0), output.out, output.err)

    (tmp_path / "people.csv").write_text(
        "age,region,who\n"
        + "".join(f"{a % 100},{'north' if a % 3 else 'south'},{a % 40}\n" for a in range(300))
    )
    domain = ob.Domain([ob.Integer("age", 0, 120), ob.Category("region", ["north", "south"])])
    domain.to_toml(tmp_path / "people.toml")
    with (tmp_path / "people.toml").open("a") as file:
        file.write('\n[unit]\nkind = "person"\ncolumn = "who"\nmax_rows = 20\n')
    return command


RELEASE = "histogram release people.csv --domain people.toml --column region --eps 0.5 --ledger people.ledger"


def test_the_whole_way(oboro: Command, tmp_path: Path) -> None:
    made = oboro("ledger create people.ledger --dataset people --domain people.toml --eps 1")
    assert made.code == 0
    assert "all rows of one who (at most 20 used)" in made.out
    seen = oboro("histogram forecast --domain people.toml --column region --eps 0.5 --save-plan plan.toml")
    assert seen.code == 0
    assert "95% within ±" in seen.out
    done = oboro(f"{RELEASE} -o published.csv --name regions")
    assert done.code == 0
    assert "expected error" in done.err
    assert "remaining  eps = 0.5" in done.out
    assert (tmp_path / "published.csv").read_text().startswith('"region","count"')
    assert oboro("certificate verify published.csv.certificate.json").out.startswith("valid")
    again = oboro(f"{RELEASE} -o again.csv --name regions")
    assert again.code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "published.csv").read_bytes()
    ran = oboro("run plan.toml people.csv --ledger people.ledger -o third.parquet")
    assert ran.code == 0
    shown = oboro("ledger show people.ledger")
    assert "spent       eps = 1" in shown.out
    assert "regions" in shown.out
    full = oboro(RELEASE)
    assert full.code == 3
    assert "budget" in full.err
    assert oboro("ledger verify people.ledger").code == 0


def test_json_everywhere(oboro: Command) -> None:
    lines = [
        "ledger create people.ledger --dataset people --domain people.toml --eps 1 --json",
        "histogram forecast --domain people.toml --column region --eps 0.5 --json",
        "histogram check people.csv --domain people.toml --json",
        f"{RELEASE} --dry-run --json",
        f"{RELEASE} --json",
        f"{RELEASE} -o out.parquet --json",
        "ledger show people.ledger --json",
        "ledger verify people.ledger --json",
        "certificate verify out.parquet.certificate.json --json",
        "reproduce --json",
    ]
    for line in lines:
        result = oboro(line)
        assert result.code == 0, (line, result)
        json.loads(result.out)
    failed = oboro(f"{RELEASE} --json")
    assert failed.code == 3
    assert json.loads(failed.err)["error"] == "BudgetError"


def test_a_dry_run_spends_nothing_and_reads_no_row(oboro: Command, tmp_path: Path) -> None:
    oboro("ledger create people.ledger --dataset people --domain people.toml --eps 1")
    header = (tmp_path / "people.csv").read_text().splitlines()[0]
    (tmp_path / "people.csv").write_text(header + "\n")
    dry = oboro(f"{RELEASE} --dry-run")
    assert dry.code == 0
    assert "nothing was spent" in dry.out
    assert ob.Ledger.open(tmp_path / "people.ledger").spent == ob.Pure(0)
    assert oboro(RELEASE.replace("0.5", "1.5") + " --dry-run").code == 3


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("nothing", 2, ""),
        (RELEASE.replace("--eps 0.5", ""), 2, "--eps"),
        (RELEASE.replace("0.5", "0"), 4, "eps must be positive"),
        (RELEASE.replace("0.5", "half"), 4, "eps is not a number"),
        (RELEASE.replace("region", "salary"), 4, 'kind = "integer"'),
        (RELEASE.replace("people.csv", "absent.csv"), 4, "no such file"),
        (RELEASE.replace("people.toml", "absent.toml"), 4, "no such file"),
        (RELEASE.replace("people.ledger", "absent.ledger"), 1, "ledger create"),
        (RELEASE + " -o out.docx", 4, "file type"),
        (RELEASE + " -o nowhere/out.csv", 4, "folder"),
        (RELEASE + " --edges region=1:2:1", 4, "categories"),
        (RELEASE + " --edges age", 4, "--edges"),
        ("ledger create people.ledger --dataset x --unit row --eps 1", 1, "people.ledger"),
        ("ledger create new.ledger --dataset x --eps 1", 4, "--unit"),
        ("ledger create new.ledger --dataset x --unit house --eps 1", 4, "--unit"),
        ("ledger create new.ledger --dataset x --unit person:who:many --eps 1", 4, "MAX_ROWS"),
        ("ledger create new.ledger --dataset x --unit row,swap --eps 1", 4, "adjacency"),
        ("ledger create new.ledger --dataset x --unit row", 4, "budget"),
        ("ledger create new.ledger --dataset x --unit row --eps 1 --rho 1", 4, "budget"),
        ("ledger create new.ledger --dataset x --unit row --eps 0", 4, "--eps|budget|positive"),
        ("ledger show people.csv", 1, "ledger"),
        ("ledger verify people.ledger --head 3:abc", 4, "head"),
        ("certificate verify people.csv", 1, "not a certificate"),
        ("reproduce nothing-at-all", 4, "no such table"),
        ("reproduce kii", 4, "fix +oboro reproduce kii-table1"),
        ("reproduce --data people.csv", 4, "nothing is asked for"),
        ("reproduce miura-adult --data none.data", 4, "no such file: none.data"),
        ("reproduce miura-adult --data people.csv --data people.csv", 4, "given twice"),
        ("run people.toml people.csv --ledger people.ledger", 4, "kind"),
    ],
)
def test_what_is_wrong_is_said_with_its_code_and_nothing_is_spent(
    oboro: Command, tmp_path: Path, line: str, code: int, says: str
) -> None:
    import re

    oboro("ledger create people.ledger --dataset people --domain people.toml --eps 1")
    result = oboro(line)
    assert result.code == code, result
    assert re.search(says, result.err), result.err
    assert "Traceback" not in result.err
    assert ob.Ledger.open(tmp_path / "people.ledger").spent == ob.Pure(0)


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        ("--eps 1 --delta 1e-6", ob.Approx(1, "1e-6")),
        ("--rho 0.5", ob.ZCDP("0.5")),
        ("--order 8 --eps 1", ob.Renyi(8, 1)),
        ("--eps 1 --assume A", ob.Conditional(ob.Pure(1), "A")),
    ],
)
def test_budgets_of_every_kind(oboro: Command, tmp_path: Path, words: str, budget: object) -> None:
    assert oboro(f"ledger create people.ledger --dataset people --domain people.toml {words}").code == 0
    assert ob.Ledger.open(tmp_path / "people.ledger").budget == budget
    assert oboro(RELEASE).code == 0


def test_export_backup_and_rotation(oboro: Command, tmp_path: Path) -> None:
    oboro("ledger create people.ledger --dataset people --domain people.toml --eps 1")
    oboro(RELEASE + " -o first.csv")
    assert "\n      1  " in oboro("ledger show people.ledger").out
    head = json.loads(oboro("ledger show people.ledger --json").out)["head"]
    assert oboro("ledger export people.ledger -o entries.json").code == 0
    assert (
        f"entry 1 of {ob.Ledger.open('people.ledger').id}"
        in oboro("certificate verify first.csv.certificate.json").out
    )
    told = oboro("ledger verify entries.json")
    assert (told.code, head in told.out, "another way" in told.out) == (0, True, True)
    kept = oboro(f"ledger verify entries.json --head {head}")
    assert (kept.code, "another way" in kept.out) == (0, False)
    assert json.loads(oboro("ledger verify entries.json --json").out)["exported"]
    (tmp_path / "changed.json").write_text(
        (tmp_path / "entries.json").read_text().replace("people", "others")
    )
    assert oboro("ledger verify changed.json").code == 1
    assert oboro("ledger backup people.ledger -o copy.ledger").code == 0
    assert oboro("ledger backup people.ledger -o copy.ledger").code != 0  # never overwrites
    assert oboro(f"ledger verify copy.ledger --head {head}").code == 0
    assert oboro("ledger rotate-key people.ledger").code == 0
    assert oboro(RELEASE + " -o after.csv").code == 0
    assert oboro(f"ledger verify people.ledger --head {head}").code == 0
    later = json.loads(oboro("ledger show people.ledger --json").out)["head"]
    assert oboro(f"ledger verify copy.ledger --head {later}").code == 1  # an older copy is found out


def test_check_is_marked_as_private(oboro: Command) -> None:
    assert "steward's eyes only" in oboro("histogram check people.csv --domain people.toml").out


def test_the_exit_code_and_output_shape_do_not_depend_on_values(oboro: Command, tmp_path: Path) -> None:
    oboro("ledger create people.ledger --dataset people --domain people.toml --eps 100")
    shapes = set()
    for body in ("", "5,north,1\n", "x,y,z\n" * 9, '"\n', "nan,,\n", "1e999,north,1\n", "\x00,\x00,\x00\n"):
        (tmp_path / "people.csv").write_text("age,region,who\n" + body)
        result = oboro(RELEASE + " -o out.csv --force")
        shapes.add(
            (
                result.code,
                len(result.out.splitlines()),
                len(result.err.splitlines()),
                (tmp_path / "out.csv").read_text().count("\n"),
            )
        )
    assert len(shapes) == 1
    assert shapes.pop()[0] == 0


def test_oboro_alone_says_what_to_do_next(oboro: Command) -> None:
    assert "oboro demo" in oboro("").out
    assert oboro("--version").out.startswith("oboro ")
    for command in (
        "",
        "ledger",
        "histogram",
        "certificate",
        "ledger create",
        "histogram release",
        "run",
        "reproduce",
        "demo",
    ):
        assert oboro(f"{command} --help").code == 0


@pytest.mark.long("demos")
def test_the_demo_runs_in_an_empty_folder_and_refuses_to_overwrite(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oboro", "demo", "-o", "here"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert {"cells.parquet", "published.parquet", "published.parquet.certificate.json", "map.html"} <= names
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "writes over nothing" in again.stderr


def test_a_bug_shows_its_kind_but_never_a_value(oboro: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import oboro.engine.source as source

    def broken(*_: object) -> None:
        raise RuntimeError("patient 4711 is 39 years old")

    monkeypatch.delenv("OBORO_TRACEBACK", raising=False)
    monkeypatch.setattr(source, "_from_file", broken)
    oboro("ledger create people.ledger --dataset people --domain people.toml --eps 1")
    result = oboro(RELEASE)
    assert result.code == 1
    assert "4711" not in result.err + result.out
    assert "RuntimeError" in result.err


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    script = f"{sys.executable} -m oboro --help | true"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert "Traceback" not in done.stderr


def test_a_release_is_not_written_over_unless_it_is_told_to(oboro: Command, tmp_path: Path) -> None:
    oboro("ledger create people.ledger --dataset people --domain people.toml --eps 100")
    (tmp_path / "people.csv").write_text("age,region,who\n5,north,1\n")
    assert oboro(RELEASE + " -o out.csv --name first").code == 0
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("out*")}
    refused = oboro(RELEASE + " -o out.csv")
    assert refused.code == 4
    assert "-o out-2.csv" in refused.err
    assert {path.name: path.read_bytes() for path in tmp_path.glob("out*")} == kept
    assert "eps = 99.5" in oboro("ledger show people.ledger").out, "what was refused cost nothing"
    assert oboro(RELEASE + " -o out.csv --name first").code == 0, "given again: nothing is lost"
    assert oboro("ledger fetch people.ledger --entry 1 -o out.csv").code == 0, "the same release"
    assert oboro(RELEASE + " -o out.csv --force").code == 0
    assert oboro("ledger fetch people.ledger --entry 1 -o out.csv").code == 4, "another release stands there"


def test_help_of_which_only_the_beginning_is_read_ends_without_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as `oboro --help | head -3` leaves it
    try:
        line = [sys.executable, "-m", "oboro", "table", "--help"]
        done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
