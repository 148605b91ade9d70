"""What a new user meets: slips of the pen, errors that can be typed, examples that parse, files that say enough."""

from __future__ import annotations

import ast
import csv
import io
import json
import pickle
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import oboro as ob
from oboro.cli import main
from oboro.cli.main import app
from oboro.cli.options import read_unit
from oboro.cli.terminal import typed
from oboro.errors import declaration, setting, told
from oboro.release import plan_from
from oboro.statistics.means import mean_plan
from oboro.statistics.scope import Bins, Scope
from oboro.statistics.sums import SumPlan

Command = Callable[..., tuple[int, str, str]]

TOML = """data = "people.csv"
ledger = "people.ledger"

[unit]
kind = "row"

[[columns]]
kind = "integer"
name = "age"
low = 0
high = 120

[[columns]]
kind = "category"
name = "region"
values = ["north", "south"]
"""


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line in a folder with people, cells and two ledgers."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{a % 100},{'north' if a % 3 else 'south'}\n" for a in range(300))
    Path("people.csv").write_text("age,region\n" + rows)
    Path("people.toml").write_text(TOML)
    for name, unit in (("stated", '[unit]\nkind = "row"\n\n'), ("nobody", "")):
        Path(f"{name}.toml").write_text(unit + TOML[TOML.index("[[columns]]") :])
    Path("bare.toml").write_text(TOML.replace('[unit]\nkind = "row"\n', ""))
    Path("cells.csv").write_text("row,col,people\n1,1,5\n")
    ob.Domain([ob.Grid("row", "col", shape=(8, 8))]).to_toml("city.toml")
    ob.Ledger.create("people.ledger", dataset="people", unit=ob.Unit.row(), budget=ob.Pure(3))
    ob.Ledger.create("city.ledger", dataset="city", unit=ob.Unit.cells(), budget=ob.Pure(3))
    ob.Ledger.create("signal.ledger", dataset="load", unit=ob.Unit.signal(1), budget=ob.Pure(3))

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return command


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


def test_every_command_has_an_example_that_it_understands() -> None:
    for path, command in leaves(typer.main.get_command(app)):
        if path[-1] == "demo":
            continue
        example = (command.epilog or "").removeprefix("Example: oboro ")
        words = shlex.split(example)
        assert tuple(words[: len(path)]) == path, path
        command.make_context(path[-1], words[len(path) :])  # raises on an unknown or a missing option


def test_the_same_thing_is_asked_for_in_the_same_words() -> None:
    """One option, one metavar, whatever the command; where two differ, they mean different things."""
    two_meanings = {"--where", "--key", "--urns", "--output", "--data"}
    seen: dict[str, str] = {}
    for path, command in leaves(typer.main.get_command(app)):
        for option in command.params:
            name = next((one for one in option.opts if one.startswith("--")), None)
            if name is None or name in two_meanings or option.metavar is None:
                continue
            assert seen.setdefault(name, option.metavar) == option.metavar, (path, name)


def test_a_published_statistic_carries_its_interval(oboro: Command) -> None:
    for end in ("csv", "json", "parquet", "arrow"):
        assert oboro(f"query people.toml mean age --by region --eps 0.5 -o x.{end} --name m")[0] == 0
    assert oboro("certificate verify x.parquet.certificate.json")[0] == 0
    with open("x.csv", newline="") as file:
        kept: list[list[dict[str, Any]]] = [list(csv.DictReader(file))]
    kept += [
        json.loads(Path("x.json").read_text()),
        pq.read_table("x.parquet").to_pylist(),
        pa.ipc.open_file("x.arrow").read_all().to_pylist(),
    ]
    for rows in kept:
        assert list(rows[0]) == ["region", "value", "sum", "count", "low", "high"]
        assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    released = ob.Ledger.open("people.ledger").find("m")
    assert released is not None
    stored = pq.read_table(io.BytesIO(released.content()))
    assert "low" not in stored.column_names  # what is stored and hashed are the noisy values alone


def test_json_carries_the_interval_too_and_a_table_of_counts_does_not(oboro: Command) -> None:
    answer = json.loads(oboro("query people.toml count --where 'age = 20..39' --eps 0.5 --json")[1])
    assert answer["table"][0].keys() == {"value", "low", "high"}
    release = "table release cells.csv --domain city.toml --count people --eps 1 --ledger city.ledger"
    assert oboro(f"{release} -o t.csv")[0] == 0
    assert Path("t.csv").read_text().startswith('"row","col","people"')


def test_the_ledger_says_what_was_released_and_gives_it_back(oboro: Command) -> None:
    oboro("query people.toml mean age --eps 0.5 -o first.csv")
    shown = oboro("ledger show people.ledger")[1]
    assert re.search(r"1 .* released +eps = 0\.5 +- +mean of age$", shown, re.M)
    code, out, _ = oboro("ledger fetch people.ledger --entry 1 -o again.csv")
    assert code == 0
    assert "nothing: given again" in out
    assert Path("again.csv").read_bytes() == Path("first.csv").read_bytes()
    assert "remaining  eps = 2.5" in out
    assert oboro("ledger fetch people.ledger --entry 2 -o by-its-commit.csv")[0] == 0
    assert oboro("ledger fetch people.ledger --entry 9")[0] == 1
    assert oboro("ledger fetch people.ledger --entry 0")[0] == 1  # the creation is no release
    assert oboro("ledger fetch people.ledger")[0] == 4


def test_a_certificate_of_several_noises_is_shown(oboro: Command) -> None:
    oboro("query people.toml mean age --eps 0.5 -o mean.csv")
    assert "noise      discrete Laplace\n" in oboro("certificate verify mean.csv.certificate.json")[1]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("query people.toml mean aeg --eps 1", "age"),
        ("query people.toml meen age --eps 1", "mean"),
        ("query people.toml count --by Regoin --eps 1", "region"),
        ("query people.toml count --where \"region = 'nroth'\" --eps 1", "north"),
        ("table release cells.csv --domain city.toml --count poeple --eps 1 --ledger city.ledger", "people"),
        ("table forecast --domain city.toml --eps 1 --strategy wavlet", "wavelet"),
        ("synth forecast --domain people.toml --eps 1 --delta 1e-6 --method marginal", "marginals"),
        ("reproduce kii-tabel1", "kii-table1"),
        ("ledger create z.ledger --dataset a --unit rows --eps 1", "row"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(oboro: Command, line: str, meant: str) -> None:
    code, _, err = oboro(line)
    assert code == 4
    assert f"did you mean '{meant}'?" in err
    assert re.search(rf"(?m)^  fix .*\b{meant}\b", err), err


@pytest.mark.parametrize(
    ("unit", "fix"),
    [
        ("rows", "row"),
        ("rows,replace", "row,replace"),
        ("row:3", "row"),
        ("persons:who:5", "person:who:5"),
        ("person:who", "person:who:20"),
        ("person:who:many,replace", "person:who:20,replace"),
        ("cell:2:3", "cells:2:3"),
        ("cells:2:x", "cells:2:1"),
        ("signl:0.5", "signal:0.5:2"),
        ("household", "person:user_id:20"),
        ("row:x,foo", "row"),
        ("person,foo", "person:user_id:20"),
        ("signal:1:2,foo", "signal:1:2"),
        ("cells:" + "9" * 5000 + "x", "cells:1:1"),
        ("cells:1:x,replace", "cells:1:1,replace"),
    ],
)
def test_a_unit_that_is_not_understood_is_answered_with_the_one_that_was_meant(unit: str, fix: str) -> None:
    with pytest.raises(ob.OboroError) as refused:
        read_unit(unit)
    assert refused.value.fix == f"--unit {fix}"
    assert read_unit(fix)


def test_a_first_line_that_may_be_a_record_is_not_shown(oboro: Command) -> None:
    Path("people.csv").write_text("39,tokyo\n41,osaka\n")
    for line in ("query people.toml mean age --eps 1", "query people.csv mean age --eps 1"):
        code, out, err = oboro(line)
        assert code == 4
        assert "tokyo" not in out + err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("query people.toml mean age", "--eps 0.1"),
        ("query people.toml mean salary --eps 1", 'kind = "integer"'),
        ("query people.toml mean age --eps 1 --expected-n 0.5", "expected"),
        ("query people.toml mean age --rho 1", "--eps 1.41, without --rho"),
        ("histogram release people.csv --domain stated.toml --column age --eps 1 --ledger city.ledger",
         "no unit protects both: the ledger of this data, or a decision of who is protected"),
        ("histogram release people.csv --domain nobody.toml --column age --eps 1 --ledger signal.ledger",
         "oboro ledger create new.ledger --dataset load --unit row --eps 3"),
        ("table release cells.csv --domain city.toml --count people --eps 1 --ledger people.ledger",
         "oboro ledger create new.ledger --dataset people --unit cells:1:1 --eps 3"),
        ("synth release people.csv --domain people.toml --eps 1 --delta 1e-6 --ledger people.ledger -o m.oboro",
         "the ledger keeps eps alone"),
        ("synth forecast --domain bare.toml --unit row,replace --eps 1 --delta 1e-6", "--n "),
        ("synth forecast --domain people.toml --eps 1 --delta 1e-6 --method gaussian", "--records 100000"),
        ("table forecast --domain city.toml --eps 1 --total 5", "without --total"),
    ],
)  # fmt: skip
def test_what_is_to_be_done_can_be_typed(oboro: Command, line: str, says: str) -> None:
    code, _, err = oboro(line)
    assert code in (2, 4)
    assert says in err
    assert not re.search(r"\bob\.|Unit\.|Ledger\.|=\"|expected_n=", err), err


def test_lines_of_python_become_what_is_typed() -> None:
    options = {"eps": "--eps", "unit": "--unit", "expected_n": "--expected-n", "records": "--records"}
    person = ob.Unit.person("who", max_rows=20)
    line = setting(eps=3, records=10**5, unit=person)
    assert line == "eps=3, records=100000, unit=ob.Unit.person('who', max_rows=20)"
    assert typed(line, options) == "--eps 3 --records 100000 --unit person:who:20"
    assert typed("say expected_n for the error", options) == "say --expected-n for the error"
    assert typed(setting(unit=ob.Unit.row("replace")), {"ledger": "--ledger"}) == (
        "oboro ledger create new.ledger --dataset TEXT --unit row,replace --eps NUMBER"
    )
    assert typed(setting(unit=ob.Unit.signal(2)), {"unit": "--unit"}) == "--unit signal:2:2"
    category = declaration("category", name="sex", values=["F", "M"])
    assert category == 'ob.Category("sex", ["F", "M"])'
    assert typed(category).splitlines()[-1] == 'values = ["F", "M"]'
    grid = declaration("grid", names=["row", "col"], shape=[512, 512])
    assert grid == 'ob.Grid("row", "col", shape=[512, 512])'
    assert eval(grid, {"ob": ob}) == ob.Grid("row", "col", shape=(512, 512))
    assert typed(setting(budget=ob.Conditional(ob.Pure(1), ["they do not collude"])), {}) == (
        "oboro ledger create new.ledger --dataset TEXT --unit UNIT --eps 1 --assume 'they do not collude'"
    )
    assert typed(setting(unit=person, budget=ob.Approx(1, "1e-6")), {}).endswith(
        "--unit person:who:20 --eps 1 --delta 1e-6"
    )
    assert typed("age >= 20", options) == "age >= 20"
    assert typed(told(eps="'abc'"), options) == "--eps abc"
    assert typed("oboro secure plan, or " + setting(method="digits"), {"method": "--method"}) == (
        "oboro secure plan, or --method digits"
    )
    assert typed(setting(edges=range(0, 121, 10)), {"edges": "--edges"}) == "--edges COLUMN=0:120:10"
    assert typed(setting(total=None), {"total": "--total"}) == "without --total"
    assert typed(setting(missing=3), {}) == "missing = 3"


def test_an_error_names_its_argument(oboro: Command) -> None:
    for build, argument in (
        (lambda: ob.Pure(-1), "eps"),
        (lambda: ob.Unit.person("who", max_rows=0), "max_rows"),
        (lambda: ob.Ledger.create("x.ledger", dataset="", unit=ob.Unit.row(), budget=ob.Pure(1)), "dataset"),
        (lambda: ob.synth.plan(ob.Domain([ob.Integer("a", 0, 1)]), unit=ob.Unit.row(), method="x"), "method"),
        (lambda: ob.save_plan(ob.Pure(1), "x"), "plan"),
        (lambda: ob.Domain([]), None),
    ):
        with pytest.raises(ob.OboroError) as refused:
            build()
        again = pickle.loads(pickle.dumps(refused.value))
        assert refused.value.argument == again.argument == refused.value.to_dict()["argument"] == argument
    code, _, err = oboro(
        "synth forecast --domain people.toml --eps 1 --delta 1e-6 --n-min 0.5 --method gaussian --records 9 --unit row --json"
    )
    assert code == 4
    assert json.loads(err)["argument"] == "--n-min"
    forecast = "forecast --domain people.toml --eps 1"
    for line, option in (
        (f"synth {forecast} --delta 1e-6 --unit row --records 9", "--records"),
        (f"synth {forecast}e9 --delta 1e-6 --unit row", "--eps"),
        (f"synth {forecast} --delta 1e-6 --unit nobody", "--unit"),
        (f"histogram {forecast} --unit row --column age --edges nonsense", "--edges"),
        (f"table {forecast} --unit row -o page.txt", "--output"),
        ("secure plan --eps 400 --delta 1e-3 --urns 2 -o x.plan", "--eps"),
        ("secure plan --eps 1 --delta 1e-320 --urns 2 -o x.plan", "--delta"),
    ):
        code, out, err = oboro(f"{line} --json")
        assert code == 4, (line, out)
        assert json.loads(err)["argument"] == option, line


@pytest.mark.long("words of the command line")
def test_no_argument_is_hidden_in_a_text() -> None:
    """An error says `setting(eps=...)`, never `"eps=..."`: then every door can say it in its own words."""
    hidden = []
    for path in Path(ob.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for part in call.keywords if isinstance(call, ast.Call) else ():
                if part.arg not in ("given", "needed", "fix"):
                    continue
                for one in ast.walk(part.value):
                    if isinstance(one, ast.JoinedStr):  # f"{name}={value}"
                        pairs = zip(one.values, one.values[1:], strict=False)
                        hidden += [
                            f"{path.name}:{one.lineno}"
                            for name, sign in pairs
                            if isinstance(name, ast.FormattedValue)
                            and isinstance(sign, ast.Constant)
                            and str(sign.value).startswith("=")
                        ]
                    text = str(one.value).split("(")[0] if isinstance(one, ast.Constant) else ""
                    if not text.startswith("--") and re.search(r"(^|[ ,])[a-z_]+=|Unit\.|Ledger\.", text):
                        hidden.append(f"{path.name}:{one.lineno} {text}")
    assert hidden == []


def test_a_forecast_names_the_option_that_it_lacks(oboro: Command) -> None:
    assert "say --expected-n for" in oboro("query people.toml mean age --eps 1 --dry-run")[1]


def test_data_in_place_of_its_declaration_shows_what_to_write(oboro: Command) -> None:
    Path("others.csv").write_text(Path("people.csv").read_text())
    code, _, err = oboro("query others.csv mean age --eps 1")
    assert code == 4
    assert "columns: age, region" in err
    assert 'data = "others.csv"' in err
    assert 'name = "age"' in err
    assert "fix     oboro query people.toml ..." in oboro("query people.csv mean age --eps 1")[2]


def test_a_question_needs_no_quotes(oboro: Command) -> None:
    quoted = oboro('query people.toml "quantile age 0.1, 0.5" --eps 1 --dry-run')
    assert quoted[0] == 0
    assert oboro("query people.toml quantile age 0.1, 0.5 --eps 1 --dry-run") == quoted


def test_many_counts_of_few_rows_are_said_to_be_noise() -> None:
    """From public facts: how many counts or groups there are, eps, and how many rows are expected."""
    age, region = ob.Integer("age", 0, 120), ob.Category("region", ["north", "south"])

    def notes(expected: int | None) -> str:
        domain = ob.Domain([age, region])
        plan = ob.histogram_plan(domain, "age", unit=ob.Unit.row(), eps="0.1", expected_n=expected)
        return str(plan_from(plan.to_dict()).forecast())

    assert "with fewer than 3630 rows in all, so are most of these 121" in notes(None)
    assert "most will be noise: a count has 2.479 of 300 rows on average" in notes(300)
    assert "noise: " not in notes(3630)
    for build in (
        lambda scope: mean_plan([age], scope, ob.Pure("0.1")),
        lambda scope: SumPlan(age, scope, ob.Pure("0.1")),
    ):
        few, many = (build(Scope(ob.Unit.row(), by=(Bins(region),), expected_n=n)) for n in (20, 20_000))
        assert "most will be noise" in str(few.forecast())
        assert "most will be noise" not in str(many.forecast())


def test_a_count_that_may_look_strange_is_explained(oboro: Command) -> None:
    assert (
        "note       noise may take a count below 0" in oboro("query people.toml histogram region --eps 1")[1]
    )
    assert "may be fractional or below 0" in oboro("query people.toml mean age --eps 1")[1]
