"""Who is protected is stated once: a command that reads a file with [unit] never protects less than the file says."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import oboro as ob
from oboro.cli import main

Command = Callable[..., tuple[int, str, str]]
PERSON = '[unit]\nkind = "person"\ncolumn = "who"\nmax_rows = 5\n'
ROW = '[unit]\nkind = "row"\n'
COLUMN = '\n[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 99\n'
DATA = 'data = "people.csv"\nledger = "row.ledger"\n\n'
TABLES = 'ledger = "row.ledger"\n\n{}\n[tables.stays]\ndata = "people.csv"\n' + COLUMN.replace(
    "[[columns]]", "[[tables.stays.columns]]"
)
SYSTEM = "horizon = 1\n\n[unit]\n{}\n[system]\nA = [[0.5]]\nB = [[1]]\nC = [[1]]\nD = [[0]]\n"
RELEASES = {
    "synth": "synth release people.csv --domain {} --eps 1 --delta 1e-6 --method moments --ledger row.ledger -o m.oboro",
    "table": "table release people.csv --domain {} --eps 1 --ledger row.ledger -o t.csv",
    "series": "table series --domain {} --eps 1 --ticks 2 --max-ticks 2 --ledger row.ledger --name s -o s.toml",
    "histogram": "histogram release people.csv --domain {} --column age --eps 1 --ledger row.ledger -o h.csv",
    "query": "query {} count --eps 1 -o q.csv",
    "sql": 'sql {} "SELECT COUNT(*) FROM people" --eps 1 -o q.csv',
}


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in a folder with people, files that state persons or rows, and a ledger of each unit."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("who,age\n" + "a,30\nb,40\n" * 9)
    Path("load.csv").write_text("load\n1\n2\n")
    Path("person.toml").write_text(DATA + PERSON + COLUMN)
    Path("row.toml").write_text(DATA + ROW + COLUMN)
    Path("nobody.toml").write_text(DATA + COLUMN)
    Path("feeder.toml").write_text(SYSTEM.format('kind = "signal"\ndistance = "3"'))
    Path("tables.toml").write_text(TABLES.format(PERSON))
    budget = ob.Approx(9, "1e-5")
    units = {"row": ob.Unit.row(), "person": ob.Unit.person("who", 20), "signal": ob.Unit.signal(1)}
    for name, unit in units.items():
        ob.Ledger.create(f"{name}.ledger", dataset="people of 2026", unit=unit, budget=budget).close()

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return command


@pytest.mark.parametrize("dry", ["", " --dry-run"])
@pytest.mark.parametrize("what", RELEASES)
def test_a_ledger_that_protects_less_than_the_file_is_refused_and_pays_nothing(
    oboro: Command, what: str, dry: str
) -> None:
    line = RELEASES[what].format("person.toml") + (dry if what != "series" else "")
    code, out, err = oboro(line)
    assert code == 4, out + err
    assert "protects another unit" in err
    assert not list(Path().glob("[mtshq].[!l]*"))
    assert len(ob.Ledger.open("row.ledger").history()) == 1


@pytest.mark.parametrize(
    ("what", "dry"), [("synth", " --dry-run"), ("table", ""), ("series", ""), ("histogram", "")]
)
def test_the_ledger_that_the_file_names_pays_and_no_other(oboro: Command, what: str, dry: str) -> None:
    line = RELEASES[what].format("row.toml") + dry + (" --event" if what == "series" else "")
    line = line.replace("--max-ticks 2 ", "") if what == "series" else line
    other = line.replace("row.ledger", "other.ledger")
    shutil.copy("row.ledger", "other.ledger")  # the same id, and yet another file
    code, _, err = oboro(f"{other} --json")
    error = json.loads(err)
    assert (code, error["fix"]) == (4, "without --ledger"), err
    assert "names another ledger" in error["message"]
    Path("link.ledger").symlink_to("row.ledger")
    code, _, err = oboro(line.replace("row.ledger", "./link.ledger"))  # spelt otherwise, and the same
    assert code == 0, err
    if what == "series":
        line = line.replace("--name s -o s", "--name t -o t")
    code, _, err = oboro(line.replace("--ledger row.ledger", "") + (" --force" if what != "series" else ""))
    assert code == 0, err
    paid = len([one for one in ob.Ledger.open("row.ledger").history() if one.kind == "reserve"])
    assert paid == (0 if dry else 2)


def test_without_a_ledger_anywhere_the_option_is_asked_for(oboro: Command) -> None:
    Path("nobody.toml").write_text(COLUMN)
    code, _, err = oboro("histogram release people.csv --domain nobody.toml --column age --eps 1 --json")
    assert (code, json.loads(err)["fix"]) == (4, "--ledger people.ledger")


def test_tables_and_systems_state_who_is_protected_too(oboro: Command) -> None:
    code, _, err = oboro('sql tables.toml "SELECT COUNT(*) FROM stays" --eps 1')
    assert code == 4, err
    assert "protects another unit" in err
    line = "dynamics release load.csv --system feeder.toml --column load --eps 1 --delta 1e-6 --ledger signal.ledger"
    made = json.loads(oboro(f"{line} --json")[1])
    assert made["unit"]["distance"] == "3"
    Path("feeder.toml").write_text(SYSTEM.format('kind = "signal"\ndistance = "1/2"'))
    code, _, err = oboro(line)
    assert code == 4, err
    assert "protects another unit" in err


@pytest.mark.parametrize("what", RELEASES)
def test_the_fix_is_the_ledger_that_protects_whom_the_file_states(oboro: Command, what: str) -> None:
    line = RELEASES[what].format("person.toml")
    fix = json.loads(oboro(f"{line} --json")[2])["fix"]
    assert fix == (
        "oboro ledger create new.ledger --dataset 'people of 2026' --domain person.toml --eps 9 --delta 1e-5"
    )
    assert oboro(fix.removeprefix("oboro "))[0] == 0
    Path("person.toml").write_text(Path("person.toml").read_text().replace("row.ledger", "new.ledger"))
    code, _, err = oboro(line.replace("row.ledger", "new.ledger"))
    assert code == 0, err


def test_a_file_that_protects_less_than_the_ledger_is_told_to_protect_as_much(oboro: Command) -> None:
    Path("row.toml").write_text(ROW + COLUMN)
    line = "histogram release people.csv --domain row.toml --column age --eps 1 --ledger person.ledger --json"
    fix = json.loads(oboro(line)[2])["fix"]
    assert fix == '[unit]\nkind = "person"\ncolumn = "who"\nmax_rows = 20'
    Path("row.toml").write_text(fix + COLUMN)
    assert oboro(line)[0] == 0


def test_the_limit_of_the_file_is_kept_where_the_ledger_has_another(oboro: Command) -> None:
    Path("person.toml").write_text(PERSON + COLUMN)
    line = "--column age --eps 1 --ledger person.ledger --json"
    made = json.loads(oboro(f"histogram release people.csv --domain person.toml {line}")[1])
    assert made["unit"]["max_rows"] == 5


def test_a_file_that_states_nobody_is_released_for_the_unit_of_the_ledger(oboro: Command) -> None:
    Path("nobody.toml").write_text(COLUMN)
    line = "histogram release people.csv --domain nobody.toml --column age --eps 1 --ledger"
    assert json.loads(oboro(f"{line} row.ledger --json")[1])["unit"]["kind"] == "row"
    assert json.loads(oboro(f"{line} person.ledger --json")[1])["unit"]["max_rows"] == 20


@pytest.mark.parametrize(
    "line",
    [
        "synth forecast --domain person.toml --eps 1",
        "table forecast --domain person.toml --eps 1",
        "histogram forecast --domain person.toml --column age --eps 1",
        "dynamics forecast --system feeder.toml --eps 1 --delta 1e-3",
        "ledger create new.ledger --dataset x --domain person.toml --eps 1",
    ],
)
def test_an_option_that_says_otherwise_than_the_file_is_refused(oboro: Command, line: str) -> None:
    code, _, err = oboro(f"{line} --unit row --json")
    assert (code, json.loads(err)["fix"]) == (4, "without --unit"), err
    assert oboro(line)[0] == 0


def test_in_python_no_fix_protects_less(oboro: Command) -> None:
    row, person = ob.Unit.row(), ob.Unit.person("who", 20)
    with ob.Ledger.open("row.ledger") as rows, ob.Ledger.open("person.ledger") as persons:
        for ledger, unit, fix in (
            (rows, person, "unit=ob.Unit.person('who', max_rows=20), budget=ob.Approx(9, '1e-5')"),
            (persons, row, "unit=ob.Unit.person('who', max_rows=20)"),
        ):
            with pytest.raises(ob.errors.UnitError) as refused:
                ledger.price(unit, ob.Pure(1))
            assert (refused.value.fix, refused.value.argument) == (fix, "unit")


@pytest.mark.parametrize("what", RELEASES)
@pytest.mark.parametrize("line", ["unit = {}", "unit.kind = 'person'", 'impossible = "bad.csv"'])
def test_what_is_said_below_service_is_not_passed_over(oboro: Command, what: str, line: str) -> None:
    said = line.replace("{}", '{kind = "person", column = "who", max_rows = 5}')
    Path("served.toml").write_text(DATA + f"[service]\nrows = 500\n{said}\n" + COLUMN)
    code, out, err = oboro(RELEASES[what].format("served.toml"))
    assert code == 4, out + err
    assert "which is said of the whole file" in err
    assert len(ob.Ledger.open("row.ledger").history()) == 1


def test_the_fix_of_rows_in_a_ledger_of_replaced_persons_is_paid_from_that_ledger(oboro: Command) -> None:
    Path("plain.toml").write_text(ROW + COLUMN)
    person, budget = ob.Unit.person("who", 20, "replace"), ob.Approx(9, "1e-5")
    ob.Ledger.create("replaced.ledger", dataset="x", unit=person, budget=budget).close()
    line = "histogram release people.csv --domain plain.toml --column age --eps 1 --ledger replaced.ledger --json"
    fix = json.loads(oboro(line)[2])["fix"]
    assert fix == '[unit]\nkind = "person"\ncolumn = "who"\nmax_rows = 20'
    Path("plain.toml").write_text(fix + COLUMN)
    made = json.loads(oboro(line)[1])
    assert (made["unit"]["kind"], made["unit"]["adjacency"], made["cost"]["eps"]) == (
        "person",
        "add/remove",
        "2",
    )


def test_the_fix_of_cells_has_the_larger_of_each_limit(oboro: Command) -> None:
    Path("cells.csv").write_text("age,n\n1,2\n")
    Path("cells.toml").write_text('[unit]\nkind = "cells"\nmax_cells = 3\nmax_per_cell = 2\n' + COLUMN)
    ob.Ledger.create("nine.ledger", dataset="x", unit=ob.Unit.cells(9, 1), budget=ob.Pure(9)).close()
    line = (
        "table release cells.csv --domain cells.toml --count n --eps 1 --ledger nine.ledger --json --dry-run"
    )
    fix = json.loads(oboro(line)[2])["fix"]
    assert fix == '[unit]\nkind = "cells"\nmax_cells = 9\nmax_per_cell = 2'
    Path("cells.toml").write_text(fix + COLUMN)
    assert oboro(line)[0] == 0


def test_of_two_columns_of_persons_no_ledger_is_proposed(oboro: Command) -> None:
    ob.Ledger.create("house.ledger", dataset="x", unit=ob.Unit.person("house", 9), budget=ob.Pure(9)).close()
    Path("plain.toml").write_text(PERSON + COLUMN)
    line = (
        "histogram release people.csv --domain plain.toml --column age --eps 1 --ledger house.ledger --json"
    )
    fix = json.loads(oboro(line)[2])["fix"]
    assert fix.startswith("no unit protects both")
    assert "create" not in fix


@pytest.mark.parametrize("name", ["a:b", "a,replace", "a b", "it's", "x\ny", "日本", "a:7,replace", '"q'])
def test_a_column_of_any_name_is_protected_by_the_ledger_of_the_fix(oboro: Command, name: str) -> None:
    Path("the file.toml").write_text(
        f'[unit]\nkind = "person"\ncolumn = {json.dumps(name)}\nmax_rows = 7\n' + COLUMN
    )
    line = "histogram release people.csv --domain 'the file.toml' --column age --eps 1 --ledger row.ledger --json"
    fix = json.loads(oboro(line)[2])["fix"]
    assert "--domain 'the file.toml'" in fix
    assert oboro(fix.removeprefix("oboro "))[0] == 0
    assert ob.Ledger.open("new.ledger").unit == ob.Unit.person(name, 7)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", ["a:b", "a,replace", "x\ny", "a b"])
def test_what_cannot_be_typed_is_not_shown_as_a_line_to_type(oboro: Command, name: str, there: bool) -> None:
    domain = ob.Domain([ob.Integer("age", 0, 99)])
    unit = ob.Unit.person(name, 7)
    ob.save_plan(ob.histogram_plan(domain, "age", unit=unit, eps=1), "plan.toml")
    fix = json.loads(oboro(f"run plan.toml people.csv --ledger {'row' if there else 'no'}.ledger --json")[2])[
        "fix"
    ]
    if name == "a b":
        assert oboro(fix.removeprefix("oboro "))[0] == 0
        assert ob.Ledger.open("new.ledger" if there else "no.ledger").unit == unit
    else:
        assert "oboro ledger create" not in fix
        assert "--domain" in fix


@pytest.mark.parametrize(
    ("typed", "unit"),
    [
        ("person:a:b:7", ob.Unit.person("a:b", 7)),
        ("person:a,replace:7", ob.Unit.person("a,replace", 7)),
        ("person:a:b:7,replace", ob.Unit.person("a:b", 7, "replace")),
        ("person:a:b:", ob.Unit.person("a:b", 20)),
    ],
)
def test_a_name_that_is_typed_with_a_colon_is_no_other_column(
    oboro: Command, typed: str, unit: ob.Unit
) -> None:
    create = "ledger create new.ledger --dataset x --eps 1"
    code, _, err = oboro(f"{create} --unit {typed} --json")
    assert code == 4
    Path("stated.toml").write_text(json.loads(err)["fix"])
    assert oboro(f"{create} --domain stated.toml")[0] == 0
    assert ob.Ledger.open("new.ledger").unit == unit


def test_an_adjacency_that_is_misspelt_changes_nothing_else(oboro: Command) -> None:
    create = "ledger create new.ledger --dataset x --eps 1"
    for typed, fix in (("person:who:10,replce", "person:who:10,replace"), ("row,swap", "row")):
        assert json.loads(oboro(f"{create} --unit {typed} --json")[2])["fix"] == f"--unit {fix}"
