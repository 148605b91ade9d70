"""`oboro query` and `oboro check`, as a user types them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import oboro as ob
from oboro.cli import main

TOML = """data = "people.csv"
ledger = "people.ledger"

[unit]
kind = "row"
adjacency = "replace"

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
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "120")
    rows = "".join(f"{a % 100},{'north' if a % 3 else 'south'}\n" for a in range(300))
    (tmp_path / "people.csv").write_text("age,region\n" + rows + "x,east\n,\n500,south\n")
    (tmp_path / "people.toml").write_text(TOML)
    unit = ob.Unit.row("replace")
    ob.Ledger.create(tmp_path / "people.ledger", dataset="people", unit=unit, budget=ob.Pure(3))

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return lambda *words: command(words[0], str(tmp_path / "people.toml"), *words[1:])


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        (["mean age"], 1),
        (["sum age", "--by", "region"], 2),
        (["sum age", "--ball", "l2:30", "--by", "region"], 2),
        (["median age", "--where", "region = 'north'"], 1),
        (["quantile age 0.1, 0.5, 0.9"], 3),
        (["quantile age 0.1, 0.9", "--method", "independent"], 2),
        (["quantile age 0.1", "--method", "smooth"], 1),
        (["median age", "--method", "smooth"], 1),
        (["histogram age", "--edges", "age=0:120:40", "--by", "region"], 6),
        (["variance age"], 1),
        (["covariance age"], 1),
        (["count", "--where", "age >= 20"], 1),
        (["mean age", "--ball", "l1:30", "--origin", "40"], 1),
        (["covariance age", "--ball", "l2:30.5", "--by", "region"], 2),
        (["variance age", "--ball", "l2:30"], 1),
    ],
)
def test_questions_are_answered(oboro: Any, question: list[str], rows: int) -> None:
    code, out, _ = oboro("query", *question, "--eps", "0.5", "--json")
    assert code == 0
    answer = json.loads(out)
    assert len(answer["table"]) == rows
    assert answer["remaining"] == {"kind": "pure", "eps": "2.5"}


def test_a_function_of_a_row_is_added_up(oboro: Any, tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("def g(row):\n    return row['age'] / 120\n")
    asked = ["query", "sum age", "--function", str(tmp_path / "g.py"), "--eps", "0.5"]
    code, out, _ = oboro(*asked, "--json")
    assert code == 0
    assert len(json.loads(out)["table"]) == 1
    (tmp_path / "g.py").write_text("def g(row):\n    return row['age']\n")
    code, _, err = oboro(*asked)
    assert code == 4
    assert "not between 0 and 1" in err
    for words in (["mean age"], ["sum age", "--ball", "l2:5"], ["sum"]):
        assert oboro("query", *words, "--function", str(tmp_path / "g.py"), "--eps", "1")[0] == 4
    assert oboro("query", "sum age", "--function", str(tmp_path / "none.py"), "--eps", "1")[0] == 4


def test_a_dry_run_prices_and_forecasts(oboro: Any, tmp_path: Path) -> None:
    code, out, _ = oboro("query", "mean age", "--eps", "0.5", "--dry-run")
    assert code == 0
    assert "would cost eps = 0.5" in out
    assert "nothing was spent" in out
    code, out, _ = oboro(
        "query", "mean age", "--eps", "0.5", "-o", str(tmp_path / "mean.csv"), "--name", "mean"
    )
    assert code == 0
    assert "95% interval" in out
    assert (tmp_path / "mean.csv.certificate.json").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["mean salary", "--eps", "1"], 4),
        (["mean age", "--eps", "0"], 4),
        (["mean age"], 4),
        (["mean age", "--eps", "100"], 3),
        (["average age", "--eps", "1"], 4),
        (["mean", "--eps", "1"], 4),
        (["", "--eps", "1"], 4),
        (["median age 0.5", "--eps", "1"], 4),
        (["count", "--eps", "1"], 4),  # n is public
        (["mean age", "--eps", "1", "--where", "age >= 20; drop"], 4),
        (["mean age", "--eps", "1", "--nothing"], 2),
        (["mean age", "--eps", "1", "--ball", "l3:50"], 4),
        (["mean age", "--eps", "1", "--ball", "50"], 4),
        (["mean age", "--eps", "1", "--ball", "l2:0"], 4),
        (["mean age", "--eps", "1", "--origin", "1,2"], 4),
        (["count", "--eps", "1", "--origin", "50"], 4),
        (["mean age", "--eps", "1", "--ball", "l2:5", "--origin", "1,2"], 4),
        (["median age", "--eps", "1", "--ball", "l2:5"], 4),
        (["mean age", "--eps", "1", "--method", "smooth"], 4),
        (["median age", "--eps", "1", "--method", "rough"], 4),
        (["median age", "--eps", "1", "--delta", "1e-6"], 4),
        (["quantile age 0.1 0.9", "--eps", "1", "--method", "smooth"], 4),
    ],
)
def test_mistakes_cost_nothing_and_say_what_to_do(oboro: Any, words: list[str], code: int) -> None:
    got, _, err = oboro("query", *words)
    assert got == code
    assert err.strip()
    assert "Traceback" not in err
    assert "remaining  eps = 3" in oboro("query", "mean age", "--eps", "1", "--dry-run")[1]


def test_a_column_without_bounds_is_refused_with_the_lines_to_add(oboro: Any) -> None:
    for words in (["mean salary"], ["count", "--where", "salary > 5"], ["mean age", "--by", "salary"]):
        code, _, err = oboro("query", *words, "--eps", "1")
        assert code == 4
        assert '[[columns]]\n          kind = "integer"\n          name = "salary"' in err


def test_check_counts_each_value_once(oboro: Any, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,region\nNaN,north\n-inf,south\n2021-01-01,north\n7,\n")
    found = json.loads(oboro("check", "--json")[1])["columns"][0]
    assert found == {"column": "age", "rows": 4, "missing": 0, "unknown": 2, "below": 1, "above": 0}


@pytest.mark.parametrize(
    "rows", ["", "5,north\n", "7,south\n" * 50, "NaN,\nx,east\n2021-01-01,north\n1e400,north\n"]
)
def test_every_question_is_answered_whatever_the_rows(oboro: Any, tmp_path: Path, rows: str) -> None:
    (tmp_path / "people.csv").write_text("age,region\n" + rows)
    for question in ("mean age", "median age", "histogram region"):
        code, out, _ = oboro("query", question, "--eps", "0.1", "--json")
        assert code == 0
        assert len(json.loads(out)["table"]) == (2 if "region" in question else 1)


def test_check_is_for_the_steward(oboro: Any, tmp_path: Path) -> None:
    code, out, _ = oboro("check")
    assert code == 0
    assert "not private" in out
    code, out, _ = oboro("check", "--json")
    assert json.loads(out)["columns"][0] == {
        "column": "age", "rows": 303, "missing": 1, "unknown": 1, "below": 0, "above": 1,
    }  # fmt: skip
    (tmp_path / "people.toml").write_text(TOML.replace('data = "people.csv"', ""))
    assert oboro("check")[0] == 4


def test_several_questions_are_one_file_with_a_row_for_each_group(oboro: Any, tmp_path: Path) -> None:
    out = tmp_path / "all.csv"
    code, _, errors = oboro(
        "query", "mean age; sum age; count", "--by", "region", "--eps", "1", "-o", str(out)
    )
    assert code == 0, errors
    head, *rows = out.read_text().splitlines()
    names = [
        "region",
        *(f"{of}{end}" for of in ("mean of age", "sum of age", "count") for end in ("", " low", " high")),
    ]
    assert head == ",".join(f'"{name}"' for name in names)
    assert [row.split(",")[0] for row in rows] == ['"north"', '"south"']


def test_an_answer_that_is_printed_short_says_how_to_get_all_of_it(
    oboro: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown, _ = oboro("query", "histogram age", "--eps", "0.5")
    assert code == 0
    line = next(line for line in shown.splitlines() if "ledger fetch" in line)
    words = shlex.split(line[line.index("oboro ledger") :])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert len((tmp_path / words[-1]).read_text().splitlines()) == 122
    assert "ledger fetch" not in oboro("query", "mean age", "--eps", "0.5")[1]


@pytest.mark.parametrize("question", ["histogram age", "mean age; count"])
def test_a_workbook_that_cannot_be_written_costs_nothing(
    oboro: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    code, _, errors = oboro("query", question, "--eps", "1", "-o", str(tmp_path / "x.xlsx"))
    assert code
    assert 'pip install "oboro[xlsx]"' in errors
    assert ob.Ledger.open(tmp_path / "people.ledger").spent == ob.Pure(0)
