"""What a newcomer typed, and where the answer led them astray: each fix is pasted, and the budget is not gone around."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import oboro as ob
from oboro.cli import main
from oboro.privacy.proposals import proposals

Command = Callable[..., tuple[int, str, str]]
ROW = '[unit]\nkind = "row"\n\n'
COLUMNS = (
    '[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 99\n\n'
    '[[columns]]\nkind = "category"\nname = "smokes"\nvalues = ["no", "yes"]\n'
)
SYNTH = "synth release people.csv --domain d.toml --method moments -o m.oboro --force"
SYSTEM = 'horizon = 1\n\n[unit]\nkind = "signal"\ndistance = "1"\n\n[system]\nA = [[0.5]]\nB = [[1]]\nC = [[1]]\nD = [[0]]\n'


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in a folder with people, and a ledger in each currency."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("who,age,smokes\n" + "a,30,no\nb,40,yes\n" * 9)
    Path("load.csv").write_text("load\n1\n2\n")
    Path("d.toml").write_text(ROW + COLUMNS)
    Path("feeder.toml").write_text(SYSTEM)
    budgets = {"rho": ob.ZCDP(9), "pair": ob.Approx(9, "1e-5"), "eps": ob.Pure(9)}
    for name, budget in budgets.items():
        ob.Ledger.create(f"{name}.ledger", dataset="people", unit=ob.Unit.row(), budget=budget).close()
        Path(f"{name}.toml").write_text(f'data = "people.csv"\nledger = "{name}.ledger"\n' + ROW + COLUMNS)
    replaced = ob.Unit.row("replace")
    ob.Ledger.create("replaced.ledger", dataset="people", unit=replaced, budget=ob.Approx(9, "1e-4")).close()

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return command


def pasted(line: str, fix: str) -> str:
    """A line once its fix is done: options that are set, and those that it goes without."""
    words = shlex.split(line)
    for part in fix.split(", "):
        without = part.startswith("without ")
        options = shlex.split(part.removeprefix("without "))
        for option in options[:: 1 if without else 2]:
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
        words += [] if without else options
    return shlex.join(words)


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        (f"{SYNTH} --eps 1 --delta 1e-6 --ledger rho.ledger", "--rho 0.0243, without --eps, without --delta"),
        (f"{SYNTH} --rho 0.02 --ledger pair.ledger", "--eps 0.899 --delta 1e-6, without --rho"),
        (f"{SYNTH} --rho 0.02 --ledger eps.ledger", "--eps 0.2, without --rho"),
        ("query pair.toml mean age --rho 0.02", "--eps 0.2, without --rho"),
        ("query rho.toml median age --method smooth --eps 1 --delta 1e-6", "--rho 0.0243, without --delta, without --eps"),
        ("table release people.csv --domain d.toml --eps 1 --delta 1e-6 --ledger rho.ledger", "without --delta"),
        ("histogram release people.csv --domain d.toml --column age --eps 1 --ledger rho.ledger", None),
        ('sql rho.toml "SELECT COUNT(*), AVG(age) FROM people" --eps 1 --delta 1e-6', "--rho 0.0243, without --eps, without --delta"),
        ('sql pair.toml "SELECT COUNT(*), AVG(age) FROM people" --rho 0.02', "--eps 0.2, without --rho"),
    ],
)  # fmt: skip
def test_another_currency_is_mended_in_that_of_the_ledger(oboro: Command, line: str, fix: str | None) -> None:
    code, _, err = oboro(f"{line} --json")
    if fix is None:
        assert code == 0, err
        return
    assert (code, json.loads(err)["fix"]) == (4, fix), err
    code, _, err = oboro(pasted(line, fix))
    assert code == 0, err


def test_a_signal_cannot_be_paid_in_rho_and_no_second_ledger_is_proposed(oboro: Command) -> None:
    ob.Ledger.create("load.ledger", dataset="load", unit=ob.Unit.signal(1), budget=ob.ZCDP(1)).close()
    line = "dynamics release load.csv --system feeder.toml --column load --eps 1 --delta 1e-6 --ledger load.ledger"
    code, _, err = oboro(line)
    assert code == 4
    assert "ledger create" not in err


def test_what_is_proposed_keeps_what_was_asked_and_is_the_largest_of_three_digits() -> None:
    asked = ob.Approx(1, "1e-6")
    best, plain = proposals(asked, ob.ZCDP(1))
    assert isinstance(best, ob.ZCDP)
    assert best.to_approx("1e-6").eps <= 1 < ob.ZCDP(best.rho + ob.ZCDP("0.0001").rho).to_approx("1e-6").eps
    assert plain == ob.Pure(1)
    assert proposals(ob.ZCDP("0.02"), ob.Pure(1)) == [ob.Pure("0.2")]


def test_a_second_ledger_is_said_to_be_one(oboro: Command) -> None:
    Path("d.toml").write_text('[unit]\nkind = "person"\ncolumn = "who"\nmax_rows = 3\n\n' + COLUMNS)
    line = "histogram release people.csv --domain d.toml --column age --eps 1 --ledger eps.ledger"
    code, _, err = oboro(line)
    assert code == 4
    assert "oboro ledger create new.ledger" in err
    assert "both budgets" in err
    assert "both budgets" in json.loads(oboro(f"{line} --json")[2])["note"]


@pytest.mark.parametrize("dry", ["", " --dry-run"])
def test_why_more_is_paid_than_was_asked_is_said_before(oboro: Command, dry: str) -> None:
    code, out, err = oboro(f"{SYNTH} --eps 1 --delta 1e-6 --ledger replaced.ledger{dry}")
    assert code == 0, err
    assert "at least twice" in (out if dry else err)
    assert "at least twice" not in "".join(
        oboro(f"{SYNTH} --eps 1 --delta 1e-6 --ledger pair.ledger{dry}")[1:]
    )


@pytest.mark.parametrize(
    "line",
    [
        "synth release {} --domain d.toml --method moments --eps 1 --ledger pair.ledger",
        "table release {} --domain d.toml --eps 1 --ledger eps.ledger",
        "histogram release {} --domain d.toml --column age --eps 1 --ledger eps.ledger",
        "dynamics release {} --system feeder.toml --column age --eps 1 --delta 1e-6 --ledger load.ledger",
        "run plan.toml {} --ledger eps.ledger",
    ],
)
def test_a_dry_run_refuses_a_file_that_the_run_would_refuse(oboro: Command, line: str) -> None:
    ob.Ledger.create(
        "load.ledger", dataset="load", unit=ob.Unit.signal(1), budget=ob.Approx(9, "1e-5")
    ).close()
    assert oboro("histogram forecast --domain d.toml --column age --eps 1 --save-plan plan.toml")[0] == 0
    Path("other.csv").write_text("a,b\n1,2\n")
    Path("none.csv").unlink(missing_ok=True)
    for file, says in (("none.csv", "no such file"), ("other.csv", "no column 'age'")):
        code, _, err = oboro(line.format(file) + " --dry-run")
        assert code == 4
        assert says in err
    code, out, err = oboro(line.format("people.csv") + " --dry-run")
    assert code == 0, err
    assert "nothing was spent" in out


def test_a_delta_that_was_forgotten_is_named_where_the_ledger_has_one(oboro: Command) -> None:
    assert "with --delta 1e-6 " in oboro(f"{SYNTH} --eps 1 --ledger pair.ledger")[2]
    assert "with --delta" not in oboro(f"{SYNTH} --eps 1 --ledger eps.ledger")[2]
    assert "with --delta" not in oboro(f"{SYNTH} --eps 1 --delta 1e-7 --ledger pair.ledger")[2]


def test_a_declaration_without_data_is_mended_by_lines_above_it(oboro: Command) -> None:
    Path("people.toml").write_text(ROW + COLUMNS)
    fix = json.loads(oboro("check people.toml --json")[2])["fix"]
    assert fix == 'data = "people.csv"\nledger = "people.ledger"'
    Path("people.toml").write_text(f"{fix}\n\n{ROW}{COLUMNS}")
    assert oboro("check people.toml")[0] == 0
    Path("people.toml").write_text(ROW + COLUMNS + '\ndata = "people.csv"\n')
    assert "above the first line in brackets" in oboro("check people.toml")[2]


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("check people.csv", "oboro check people.toml"),
        ("synth release d.toml --domain people.csv --eps 1 --ledger eps.ledger", "swapped"),
        ("certificate verify x.csv.synthetic.json", "oboro synth check x.csv"),
        ("synth report people.csv m.oboro -o q.html", "oboro synth sample m.oboro -n 10000 -o synthetic.parquet"),
        ("synth report people.csv x.csv -o q.html --target smoks", "--target smokes"),
        ("synth draft people.xlsx -o draft.toml", "CSV UTF-8"),
    ],
)  # fmt: skip
def test_what_was_meant_is_named(oboro: Command, line: str, fix: str) -> None:
    Path("people.toml").write_text(Path("eps.toml").read_text())
    Path("people.xlsx").write_bytes(b"PK")
    assert oboro(f"{SYNTH} --eps 1 --delta 1e-6 --ledger pair.ledger")[0] == 0
    assert oboro("synth sample m.oboro -n 40 -o x.csv")[0] == 0
    code, _, err = oboro(f"{line} --json")
    assert code in (1, 4)
    assert fix in json.loads(err)["fix"]
    if fix.startswith("oboro "):
        assert oboro(fix.removeprefix("oboro "))[0] == 0


def test_json_has_what_is_printed(oboro: Command) -> None:
    made = json.loads(oboro("synth draft people.csv -o draft.toml --json")[1])
    assert made["columns"] == ["age", "smokes"] or made["columns"] == ["who", "age", "smokes"]
    assert made["output"] == "draft.toml"
    made = json.loads(oboro("ledger create n.ledger --dataset x --unit row --eps 1 --json")[1])
    assert "eps alone" in made["pays_for"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("row:replace", "row,replace"),
        ("row replace", "row,replace"),
        ("rows:replace", "row,replace"),
        ("person:who:20:replace", "person:who:20,replace"),
        ("person:who:replace", "person:who:20,replace"),
        ("person:replace", "person:replace:20"),
        ("cells:3:1 replace", "cells:3:1,replace"),
    ],
)
def test_replacement_that_was_typed_with_another_sign_stays_in_the_fix(
    typed: str, meant: str, oboro: Command
) -> None:
    made = "ledger create n.ledger --dataset people --eps 1"
    code, _, said = oboro(f"{made} --unit '{typed}'")
    assert (code, f"fix     --unit {meant}\n" in said) == (4, True), said
    assert oboro(f"{made} --unit {meant}")[0] == 0


def test_a_delta_of_nothing_pays_for_what_eps_alone_pays(oboro: Command) -> None:
    said = oboro("ledger create n.ledger --dataset people --unit row --eps 1 --delta 0")[1]
    assert "in eps alone" in said
    assert "in eps and delta" not in said
    assert (
        "in eps and delta"
        in oboro("ledger create o.ledger --dataset people --unit row --eps 1 --delta 1e-6")[1]
    )
