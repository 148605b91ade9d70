"""The fix that an error shows is done literally: it leads to success, or to the next honest refusal."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oboro as ob
from oboro.cli import main
from oboro.domain import column_from
from oboro.statistics.scope import Scope
from oboro.statistics.sums import count_plan

Command = Callable[..., tuple[int, str, str]]

TOML = """data = "people.csv"
ledger = "people.ledger"

[unit]
kind = "person"
column = "who"
max_rows = 2

[[columns]]
kind = "integer"
name = "age"
low = 0
high = 120

[[columns]]
kind = "date"
name = "day"
first = "2026-01-01"
last = "2026-12-31"

[[columns]]
kind = "category"
name = "region"
values = ["north", "south"]
"""
SYSTEM = "horizon = 3\n[system]\nA = [[0.5]]\nB = [[1]]\nC = [[1]]\nD = [[0]]\n"


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in a folder with people, cells and a system, and no ledger."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(
        "who,age,day,region\n" + "a,30,2026-02-03,north\nb,40,2026-05-06,south\n" * 9
    )
    Path("people.toml").write_text(TOML)
    Path("cells.csv").write_text("row,col,people\n1,1,5\n")
    Path("feeder.toml").write_text(SYSTEM)
    Path("load.csv").write_text("load\n1\n2\n3\n4\n")
    ob.Domain([ob.Grid("row", "col", shape=(8, 8))]).to_toml("city.toml")

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return command


def complaint(oboro: Command, line: str) -> dict[str, str]:
    """What a command complains about, for programs."""
    code, _, err = oboro(f"{line} --json")
    assert code in (1, 4), err
    return json.loads(err)


@pytest.fixture
def people(tmp_path: Path) -> ob.Session:
    ledger = ob.Ledger.create(tmp_path / "p.ledger", dataset="p", unit=ob.Unit.row(), budget=ob.Pure(3))
    columns = ob.Domain.from_dict({"columns": tomllib.loads(TOML)["columns"]})
    rows = pa.table({"age": [3, 4], "day": ["2026-02-03"] * 2, "region": ["north"] * 2})
    return ob.Session(rows, domain=columns, unit=ob.Unit.row(), ledger=ledger)


@pytest.mark.parametrize(
    ("ask", "fix"),
    [
        (lambda people: people.mean("day", eps=1), 'people.median("day", eps="0.1")'),
        (lambda people: people.sum("day", eps=1), 'people.median("day", eps="0.1")'),
        (lambda people: people.covariance(["age", "day"], eps=1), 'people.median("day", eps="0.1")'),
        (lambda people: people.mean("region", eps=1), 'people.histogram("region", eps="0.1")'),
        (lambda people: people.median("region", eps=1), 'people.histogram("region", eps="0.1")'),
    ],
)
def test_a_question_that_a_column_has_no_answer_to_is_answered_with_one_that_it_has(
    people: ob.Session, ask: Callable[..., object], fix: str
) -> None:
    with pytest.raises(ob.errors.DomainError) as refused:
        ask(people)
    assert refused.value.fix == fix
    assert refused.value.argument == "column"
    assert eval(refused.value.fix, {"people": people}).cost == ob.Pure("0.1")


def test_the_question_that_can_be_asked_can_be_typed(oboro: Command) -> None:
    oboro('ledger create people.ledger --dataset "people" --domain people.toml --eps 2')
    for asked in ("mean day", "mean region", "median region"):
        fix = complaint(oboro, f"query people.toml {asked} --eps 0.1")["fix"]
        assert oboro(f"query people.toml {fix} --eps 0.1")[0] == 0, fix


@pytest.mark.parametrize(
    ("question", "word", "value", "meant"),
    [
        ("sample_and_aggregate", "second", 3, "seconds"),
        ("mean", "esp", "0.1", "eps"),
        ("count", "nane", "x", "name"),
        ("median", "metod", "joint", "method"),
    ],
)
def test_a_misspelt_argument_is_answered_with_those_that_the_question_has(
    people: ob.Session, question: str, word: str, value: object, meant: str
) -> None:
    needs: dict[str, Any] = {
        "sample_and_aggregate": {"function": "len", "blocks": 3, "bounds": (0, 1)},
        "mean": {"columns": "age"},
        "median": {"column": "age"},
        "count": {},
    }[question]
    with pytest.raises(ob.errors.ParameterError, match=f"did you mean '{meant}'") as refused:
        getattr(people, question)(**needs, **{word: value})
    error = refused.value
    assert error.argument == word
    assert error.fix == f"{meant}={value!r}"
    assert error.needed is not None
    named = error.needed.split(", ")
    assert {meant, "eps", *needs} <= set(named)
    assert "weight" not in named  # that is for batches
    assert eval(f"dict({error.fix})") == {meant: value}


def test_an_argument_like_no_other_is_left_out(people: ob.Session) -> None:
    with pytest.raises(ob.errors.ParameterError) as refused:
        people.count(eps="0.1", zzz=1)  # type: ignore[call-arg]
    assert refused.value.fix == "without zzz"


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "date", "name": "d", "first": "2026-01-01", "lst": "2026-02-01"},
        {"kind": "date", "name": "d", "low": "2026-01-01", "high": "2026-02-01"},
        {"kind": "date", "name": "d", "first": "2026-03-01", "last": "2026-02-01"},
        {"kind": "date", "name": "", "first": "2026-01-01", "last": "2026-02-01"},
        {"kind": "category", "name": "c", "value": ["a", "b"]},
        {"kind": "category", "name": "c", "values": []},
        {"kind": "category", "name": "c", "values": ["a"], "mising": "a"},
        {"kind": "category"},
        {"kind": "integer", "name": "i", "low": 1, "high": 9, "stp": 2},
        {"kind": "integer", "name": "i", "low": 9, "high": 1},
        {"kind": "integer", "name": "i", "low": 0, "high": 10, "step": 3},
        {"kind": "integer", "name": "i", "low": 1, "high": 2**63},
        {"kind": "real", "name": "r", "low": "0.5", "high": "0.1", "step": "0.1"},
        {"kind": "real", "name": "r", "low": 0, "high": 1},
        {"kind": "real", "name": "r", "low": 0, "high": "1e30", "step": 1},
        {"kind": "grid", "name": "g"},
        {"kind": "grid", "names": ["a"], "shape": [2]},
        {"kind": "mesh", "name": "m", "levl": "1km"},
        {"kind": "mesh", "name": "m", "level": "7km"},
        {"kind": "text", "name": "t"},
    ],
    ids=str,
)
def test_a_wrong_column_of_a_file_is_answered_with_one_of_its_kind_in_toml(record: dict[str, Any]) -> None:
    with pytest.raises(ob.errors.InputError) as refused:
        column_from(record)
    fix = refused.value.fix
    assert fix is not None
    lines = tomllib.loads(fix)
    mended = lines["columns"][0] if "columns" in lines else {**record, **lines}
    if record["kind"] in ("text",):
        assert mended["kind"] == "integer"
    else:
        assert mended["kind"] == record["kind"]
    column_from(mended)


def test_what_a_column_may_say_besides_is_listed() -> None:
    for kind, besides in (("date", "missing"), ("category", "missing"), ("integer", "step, missing")):
        with pytest.raises(ob.errors.BoundsError) as refused:
            column_from({"kind": kind, "name": "x", "nonsense": 1})
        assert refused.value.needed is not None
        assert refused.value.needed.endswith(f", and perhaps {besides}")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ob.Integer("x", 9, 1),
        lambda: ob.Integer("x", None, 1),  # type: ignore[arg-type]
        lambda: ob.Real("x", 5, 1, 1),
        lambda: ob.Real("x", None, 1, 1),  # type: ignore[arg-type]
        lambda: ob.Real("x", "0", "0.5", "0.2"),
        lambda: ob.Date("x", "2026-02-01", "2026-01-01"),
        lambda: ob.Date("", "2026-02-01", "2026-03-01"),
        lambda: ob.Category("", ["a"]),
    ],
)
def test_a_wrong_column_of_a_program_is_answered_with_one_of_its_kind_in_python(
    make: Callable[[], object],
) -> None:
    with pytest.raises(ob.errors.DomainError) as refused:
        make()
    assert refused.value.fix is not None
    made = eval(refused.value.fix, {"ob": ob})
    assert type(made).__name__ in make.__code__.co_names


def test_a_bound_that_is_no_number_is_answered_with_an_argument() -> None:
    for make in (lambda low: ob.Integer("x", low, 9), lambda low: ob.Real("x", low, 9, "0.1")):
        with pytest.raises(ob.errors.ParameterError, match="low of column 'x'") as refused:
            make("abc")
        assert refused.value.argument == "low"
        make(**eval(f"dict({refused.value.fix})"))
    with pytest.raises(ob.errors.ParameterError) as refused:
        ob.Grid("row", "col", shape=("a", 2))  # type: ignore[arg-type]
    assert refused.value.fix == "shape=1"


@pytest.mark.parametrize(
    "line",
    [
        "query people.toml mean age --eps 0.1",
        "query people.toml mean age --rho 0.1",
        "histogram release people.csv --domain people.toml --column region --eps 0.1 --ledger people.ledger",
        "table release cells.csv --domain city.toml --count people --eps 1 --ledger 'my city.ledger'",
        "table release cells.csv --domain city.toml --count people --eps 1 --delta 1e-7 --ledger d.ledger",
        "synth release people.csv --domain row.toml --eps 1 --delta 1e-7 --ledger s.ledger -o m.oboro",
        "dynamics release load.csv --system feeder.toml --column load --eps 1 --delta 1e-3 --ledger f.ledger",
        "run plan.toml people.csv --ledger r.ledger",
    ],
)  # fmt: skip
def test_the_ledger_that_is_missing_is_made_as_the_error_says(oboro: Command, line: str) -> None:
    Path("row.toml").write_text(TOML[TOML.index("[[columns]]") :])
    counted = count_plan(Scope(ob.Unit.person("who", max_rows=2)), ob.Pure(1))
    ob.save_plan(counted, "plan.toml")
    error = complaint(oboro, line)
    assert error["argument"] in ("ledger", "--ledger")
    assert error["fix"].startswith("oboro ledger create ")
    assert oboro(error["fix"].removeprefix("oboro "))[0] == 0
    assert oboro(line)[0] == 0


def test_a_file_that_is_not_utf8_is_written_anew_by_the_line_that_the_error_shows(oboro: Command) -> None:
    oboro('ledger create people.ledger --dataset "people" --domain people.toml --eps 2')
    for name, encoding in (("表 1.csv", "cp932"), ("u.csv", "utf-16"), ("表.csv.gz", "cp932")):
        rows = "who,age,day,region,備考\na,30,2026-02-03,north,良\n".encode(encoding)
        if name.endswith(".gz"):
            import gzip

            rows = gzip.compress(rows)
        Path(name).write_bytes(rows)
        Path("people.toml").write_text(TOML.replace("people.csv", name))
        fix = complaint(oboro, "query people.toml count --eps 0.1")["fix"]
        subprocess.run(["sh", "-c", fix], check=True)
        Path("people.toml").write_text(TOML.replace("people.csv", f"utf8-{name}"))
        assert oboro("query people.toml count --eps 0.1")[0] == 0


def test_a_ledger_is_not_made_from_a_file_that_is_wrong(oboro: Command) -> None:
    for wrong in (
        TOML.replace("high = 120", "hihg = 120"),
        TOML.replace("low = 0", "low = 200"),
        TOML.replace("[[columns]]", "[[colums]]"),
    ):
        Path("wrong.toml").write_text(wrong)
        for unit in ("", "--unit row "):
            code, _, err = oboro(f"ledger create x.ledger --dataset x {unit}--domain wrong.toml --eps 1")
            assert code == 4, err
            assert not Path("x.ledger").exists()
    Path("feeder.toml").write_text(SYSTEM + '[unit]\nkind = "signal"\ndistance = 1\nnorm = "2"\n')
    assert oboro("ledger create x.ledger --dataset x --domain feeder.toml --eps 1")[0] == 0


@pytest.mark.parametrize("flag", ["--eps", "--rho"])
def test_a_budget_of_nothing_is_answered_with_the_flag_that_was_typed(oboro: Command, flag: str) -> None:
    line = "ledger create x.ledger --dataset x --unit row"
    error = complaint(oboro, f"{line} {flag} 0")
    assert error["argument"] == flag
    assert "budget" not in json.dumps(error)
    assert oboro(f"{line} {error['fix']}")[0] == 0


def test_a_table_that_carries_no_intervals_is_answered_with_a_command_that_makes_one(oboro: Command) -> None:
    oboro("ledger create city.ledger --dataset city --unit cells:1:1 --eps 9")
    line = "table release cells.csv --domain city.toml --count people --eps 1 --ledger city.ledger"
    assert oboro(f"{line} --strategy wavelet -o w.parquet")[0] == 0
    fix = complaint(oboro, "table ask w.parquet row=1..3")["fix"]
    assert fix.startswith("oboro table release ... ")
    assert oboro(fix.replace("oboro table release ...", line))[0] == 0
    assert oboro("table ask published.parquet row=1..3")[0] == 0


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("table forecast --domain city.toml --eps 1 --possible no.csv", "--possible"),
        ("table forecast --domain city.toml --eps 1 --impossible no.csv", "--impossible"),
        ("table forecast --domain no.toml --eps 1", "--domain"),
        ("synth forecast --domain no.toml --eps 1 --delta 1e-6", "--domain"),
        ("histogram forecast --domain no.toml --column age --eps 1", "--domain"),
        ("ledger create x.ledger --dataset x --domain no.toml --eps 1", "--domain"),
        ("dynamics forecast --system no.toml --eps 1 --delta 1e-3", "--system"),
    ],
)
def test_a_file_that_is_missing_is_called_by_the_option_that_named_it(
    oboro: Command, line: str, flag: str
) -> None:
    error = complaint(oboro, line)
    assert error["argument"] == flag
    assert error["given"] == f"{flag} {'no.csv' if 'possible' in flag else 'no.toml'}"


@pytest.mark.parametrize(
    "asked",
    [
        "--eps 12 --per week",
        "--eps 12 --instalment 1",
        "--eps 1 --delta 1e-6 --per month",
        "--eps 1 --delta 1e-6 --per month --instalment 0.1",
        "--rho 1 --per year",
        "--order 8 --eps 1 --per day --assume people",
        "--eps 1 --per month --instalment 3",
    ],
)
def test_the_fix_of_half_a_period_makes_a_ledger(oboro: Command, asked: str) -> None:
    line = f"ledger create a.ledger --dataset d --unit row {asked}"
    code, _, err = oboro(line)
    assert code != 0
    fix = next(part for part in err.splitlines() if part.startswith("  fix")).removeprefix("  fix").strip()
    assert fix.startswith("--")
    assert not Path("a.ledger").exists()
    code, _, err = oboro(f"{line} {fix}")  # of an option that stands there twice the last one counts
    assert code == 0, err
    assert ob.Ledger.open("a.ledger").periods is not None


@pytest.mark.few(3, "every fix")
@pytest.mark.parametrize(
    ("asked", "strategy"),
    [
        ("KEY_CODE=0..9", "tree"),
        ("KEY_CODE=5130..5131", "filtered"),
        ("KEY_CODE=51300", "tree"),
        ("KEY_CODE=51300", "filtered"),
        ("KEY_CODE=5132", "tree"),
        ("KEY_CODE=5132", "filtered"),
        ("KEYCODE=5130", "tree"),
        ("sex=X", "tree"),
        ("age=old", "tree"),
        ("age=a..b", "filtered"),
    ],
)
def test_a_question_about_what_a_table_does_not_have_is_answered_with_one_that_it_has(
    oboro: Command, asked: str, strategy: str
) -> None:
    columns = [ob.Mesh("KEY_CODE", "1km", region=[5131, 5130]), ob.Category("sex", ["F", "M"])]
    ob.Domain([*columns, ob.Integer("age", 20, 24)]).to_toml("mesh.toml")
    Path("m.csv").write_text("KEY_CODE,sex,age,people\n51300702,F,20,90\n")
    oboro("ledger create m.ledger --dataset m --unit cells:1:1 --eps 9")
    assert (
        oboro(
            "table release m.csv --domain mesh.toml --count people --eps 1 --ledger m.ledger "
            f"--strategy {strategy} -o m.parquet"
        )[0]
        == 0
    )
    fix = complaint(oboro, f"table ask m.parquet {asked}")["fix"]
    assert oboro(f"table ask m.parquet {fix}")[0] == 0, fix


@pytest.mark.parametrize("place", ["''", "'a\nb.ledger'", "'http://x/y'"])
def test_a_place_that_is_none_is_called_the_ledgers_and_not_by_an_argument_of_python(
    oboro: Command, place: str
) -> None:
    for line in (f"ledger show {place}", f"ledger create {place} --dataset x --unit row --eps 1"):
        code, _, err = oboro(line)
        assert code in (1, 4)
        assert "ledger" in err.splitlines()[0]
        assert "where" not in err
