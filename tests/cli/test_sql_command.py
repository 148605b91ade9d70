"""`oboro sql` and its prompt, as a user types them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oboro as ob
from oboro.cli import main
from oboro.cli.sql import EXAMPLE

TOML = """name = "people"
data = "rows.csv"
ledger = "people.ledger"

[unit]
kind = "person"
column = "person"
max_rows = 2

[[columns]]
kind = "integer"
name = "age"
low = 0
high = 99

[[columns]]
kind = "category"
name = "region"
values = ["north", "south"]
"""
ASK = "SELECT region, AVG(age), COUNT(*) FROM people GROUP BY region"


@pytest.fixture
def oboro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    rows = "".join(f"{a // 2},{a % 100},{'north' if a % 3 else 'south'}\n" for a in range(300))
    (tmp_path / "rows.csv").write_text("person,age,region\n" + rows)
    (tmp_path / "people.toml").write_text(TOML)
    unit = ob.Unit.person("person", 2)
    ob.Ledger.create(tmp_path / "people.ledger", dataset="people", unit=unit, budget=ob.Pure(3))

    def command(*words: str, typed: list[str] | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", "sql", str(tmp_path / "people.toml"), *words])
        lines: Iterator[str] = iter(typed or [])

        def answer(_: str) -> str:
            line = next(lines, None)
            if line is None:
                raise EOFError
            if line == "^C":
                raise KeyboardInterrupt
            return line

        monkeypatch.setattr("builtins.input", answer)
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return command


def spent(tmp_path: Path) -> ob.privacy.Guarantee:
    return ob.Ledger.open(tmp_path / "people.ledger").spent


def test_a_statement_is_saved_with_one_row_a_group_and_an_interval_of_each_figure(
    oboro: Any, tmp_path: Path
) -> None:
    code, _, errors = oboro(ASK, "--eps", "0.5", "-o", str(tmp_path / "x.csv"))
    assert code == 0, errors
    head, *rows = (tmp_path / "x.csv").read_text().splitlines()
    figures = ("avg(age)", "count(*)")
    assert head.replace('"', "").split(",") == [
        "region",
        *(f"{figure}{end}" for figure in figures for end in ("", " low", " high")),
    ]
    assert len(rows) == 2
    assert spent(tmp_path) == ob.Pure("0.5")
    _, shown, _ = oboro(ASK, "--eps", "0.5", "--json", "--dry-run")
    assert json.loads(shown)["dry_run"]


def test_counts_are_printed_and_written_raw_and_at_zero_or_more(oboro: Any, tmp_path: Path) -> None:
    told = ("--eps", "0.5", "--name", "counts", "--not-negative")
    code, shown, errors = oboro(ASK, *told)
    assert code == 0, errors
    assert "count(*) at 0 or more" in shown
    _, again, _ = oboro(ASK, *told, "--json")
    (first, *_) = json.loads(again)["table"]
    assert {"count(*) low", "count(*) at 0 or more", "count(*) at 0 or more high"} <= set(first)
    assert spent(tmp_path) == ob.Pure("0.5")
    code, _, errors = oboro("--not-negative", typed=["quit"])
    assert code != 0
    assert "--not-negative" in errors


def test_the_prompt_shows_the_price_and_pays_after_a_yes(oboro: Any, tmp_path: Path) -> None:
    code, shown, errors = oboro(
        typed=[ASK, "eps 0.5", ASK, "no", ASK, "^C", ASK + ";", "yes", "left", "columns"]
    )
    assert code == 0
    assert "eps 0.1" in errors  # the price was not said yet
    assert shown.count("would cost eps = 0.5") == 3
    assert shown.count("nothing was spent") == 2
    assert "avg(age) low" in shown
    assert "remaining  eps = 2.5" in shown
    assert "people: age, region, person" in shown
    assert spent(tmp_path) == ob.Pure("0.5")


def test_the_prompt_goes_on_after_what_cannot_be_asked(oboro: Any, tmp_path: Path) -> None:
    code, shown, errors = oboro("--eps", "0.1", typed=["SELECT MAX(age) FROM people", "help", "quit"])
    assert code == 0
    assert "QUANTILE_CONT" in errors
    assert shown.count("quit") == 2
    assert spent(tmp_path) == ob.Pure(0)


@pytest.mark.parametrize("words", [["--dry-run"], ["-o", "x.csv"], ["--name", "a"], ["--json"]])
def test_the_prompt_refuses_what_it_would_not_heed(oboro: Any, words: list[str]) -> None:
    code, _, errors = oboro("--eps", "0.1", *words, typed=[ASK, "yes"])
    assert code
    assert words[0] in errors


def test_the_line_that_makes_a_ledger_for_several_tables_works_as_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clinic.toml").write_text(EXAMPLE)
    (tmp_path / "people.parquet").touch()
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", list(words))
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().err

    said = typed("oboro", "sql", "clinic.toml", "SELECT COUNT(*) FROM people", "--eps", "1")
    line = said[said.index("oboro ledger create") :].splitlines()[0]
    assert typed(*shlex.split(line)) == ""
    assert ob.Ledger.open(tmp_path / "people.ledger").unit == ob.Unit.person("person", 10)


def other_ledger(tmp_path: Path, unit: ob.Unit, budget: ob.privacy.Guarantee) -> None:
    """The file's ledger is another from here on."""
    ob.Ledger.create(tmp_path / "other.ledger", dataset="people", unit=unit, budget=budget)
    toml = tmp_path / "people.toml"
    toml.write_text(toml.read_text().replace("people.ledger", "other.ledger"))


def test_a_delta_composes_tightly_as_in_python(oboro: Any, tmp_path: Path) -> None:
    figures = ", ".join(f"QUANTILE_CONT(age, 0.{i}) AS q{i}, AVG(age)" for i in range(1, 4))
    code, _, err = oboro(f"SELECT {figures} FROM people", "--eps", "1", "--delta", "1e-6")
    assert code
    assert "eps alone" in err  # the ledger keeps no delta
    assert spent(tmp_path) == ob.Pure(0)
    other_ledger(tmp_path, ob.Unit.person("person", 2), ob.Approx(3, "1e-5"))
    code, out, _ = oboro(ASK, "--eps", "1", "--delta", "1e-6", "--json")
    assert code == 0
    assert json.loads(out)["guarantee"]["delta"] == "1e-6"
    code, out, _ = oboro("--eps", "1", "--delta", "1e-6", typed=["eps 0.5", ASK, "yes"])
    assert "eps = 0.5, delta = 1e-6" in out
    code, _, err = oboro(ASK, "--rho", "1", "--delta", "1e-6")
    assert code
    assert "delta goes with eps" in err


def test_what_is_public_is_said_and_not_sold(oboro: Any, tmp_path: Path) -> None:
    toml = tmp_path / "people.toml"
    toml.write_text(TOML.replace("max_rows = 2", 'max_rows = 2\nadjacency = "replace"'))
    other_ledger(tmp_path, ob.Unit.person("person", 2, "replace"), ob.Pure(3))
    ask = "SELECT COUNT(DISTINCT person) FROM people"
    for words, typed in (([ask], None), ([ask, "--dry-run"], None), ([], [ask, "yes"])):
        _, _, err = oboro(*words, "--eps", "1", typed=typed)
        assert "the public n, which is 150" in err
    assert ob.Ledger.open(tmp_path / "other.ledger").spent == ob.Pure(0)
