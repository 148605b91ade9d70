"""How many rows break each rule: counted one by one, for the steward's eyes; no release changes by it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import oboro as ob
from oboro.cli import main
from oboro.engine import check_columns, check_rules, open_data

DOMAIN = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Category("work", ["job", "retired", "none"]),
        ob.Integer("wage", 0, 100, step=10),
        ob.Integer("rent", 10, 20),
        ob.Integer("income", 10, 120),
    ],
    impossible=[{"work": "retired", "age": "..29"}, {"age": ["65..", 40], "work": ["job", "none"]}, {"wage": "50..", "age": 30, "work": "none"}],
    known={"work": {"job": 300, "retired": 20}},
    sums={"income": ["wage", "rent"]},
)  # fmt: skip


def rows(many: int) -> list[dict[str, Any]]:
    draw = random.Random(7)
    found = []
    for _ in range(many):
        one: dict[str, Any] = {
            "age": draw.choice([None, -3, 200, 30, 40, *range(120)]),
            "work": draw.choice([None, "jobless", "job", "retired", "none"]),
            "wage": draw.choice([None, 0, 10, 54, 60, 500]),
            "rent": draw.choice([None, 10, 15]),
        }
        one["income"] = draw.choice([None, 20, (one["wage"] or 0) + (one["rent"] or 0)])
        found.append(one)
    return found


def by_hand(table: list[dict[str, Any]]) -> tuple[list[int], list[int], int, int]:
    """By the rule of each column for one value, row by row."""
    met, held, wrong, lacking = [0] * 3, [0, 0], 0, 0
    for row in table:
        value: dict[str, Any] = {}
        for column in DOMAIN:
            code = column.code(row[column.name])
            value[column.name] = None if code is None else column.value(code)
        age, work, wage = value["age"], value["work"], value["wage"]
        met[0] += age is not None and age <= 29 and work == "retired"
        met[1] += age is not None and (age >= 65 or age == 40) and work in ("job", "none")
        met[2] += wage is not None and wage >= 50 and age == 30 and work == "none"
        held = [held[0] + (work == "job"), held[1] + (work == "retired")]
        total = None if wage is None or value["rent"] is None else wage + value["rent"]
        broken = value["income"] != total
        wrong += broken
        lacking += broken and (total is None or value["income"] is None)
    return met, held, wrong, lacking


def test_rows_that_break_a_rule_are_counted_as_a_release_reads_them() -> None:
    table = rows(3000)
    met, held, wrong, lacking = by_hand(table)
    assert min(*met, *held, wrong, lacking) > 0
    columns = {name: [row[name] for row in table] for name in table[0]}
    source = open_data(columns)
    check_columns(source, DOMAIN.columns)
    found = check_rules(source, DOMAIN)
    assert [one["breaking"] for one in found if one["rule"] == "impossible"] == met
    assert [one["in_data"] for one in found if one["rule"] == "known"] == held
    assert [one["declared"] for one in found if one["rule"] == "known"] == [300, 20]
    assert [(one["breaking"], one["missing"]) for one in found if one["rule"] == "sums"] == [(wrong, lacking)]
    assert {one["rows"] for one in found} == {3000}
    assert found[1]["says"] == "age 40 | 65.., work = job | none"


def test_of_no_rules_and_of_no_rows() -> None:
    assert check_rules(open_data({"age": [3]}), ob.Domain([ob.Integer("age", 0, 9)])) == []
    found = check_rules(open_data({name: [] for name in DOMAIN.names}), DOMAIN)
    assert [one.get("breaking", one.get("in_data")) for one in found] == [0] * 6


def test_data_that_is_not_opened_is_told_how() -> None:
    domain = ob.Domain([ob.Integer("age", 0, 9)], impossible=[{"age": 3}])
    data = pd.DataFrame({"age": [3, 4], "other": [1, 2]})
    for ask in (
        lambda source: check_rules(source, domain),
        lambda source: check_columns(source, domain.columns),
    ):
        with pytest.raises(ob.errors.ParameterError) as refused:
            ask(data)
        assert (refused.value.argument, str(refused.value.given)) == ("source", "source=a DataFrame")
        (fixed,) = eval(f"dict({refused.value.fix})", {"ob": ob, "data": data}).values()
        assert ask(fixed)[0]["rows"] == 2


def test_very_many_rules_are_counted_at_once() -> None:
    domain = ob.Domain(
        [ob.Integer("a", 0, 999), ob.Integer("b", 0, 999)],
        impossible=[{"a": at, "b": at} for at in range(1000)],
    )
    found = check_rules(open_data({"a": [*range(1000), 3], "b": [*range(500), *[0] * 500, 3]}), domain)
    assert [one["breaking"] for one in found] == [1, 1, 1, 2, *[1] * 496, *[0] * 500]


def test_the_command_tells_the_steward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    DOMAIN.to_toml("columns.toml")
    lines = 'data = "people.csv"\nledger = "people.ledger"\n' + Path("columns.toml").read_text()
    Path("people.toml").write_text(lines)
    Path("people.csv").write_text(
        "age,work,wage,rent,income\n20,retired,10,10,20\n70,job,10,10,16\n30,job,,11,20\n"
    )
    for command in ("check people.toml", "histogram check people.csv --domain people.toml"):
        for more in ("", " --json"):
            monkeypatch.setattr("sys.argv", ["oboro", *(command + more).split()])
            with pytest.raises(SystemExit) as stop:
                main()
            assert stop.value.code == 0
            told = capsys.readouterr().out
            if more:
                assert json.loads(told)["private"] is True
                assert [one["rule"] for one in json.loads(told)["rules"]] == ["impossible"] * 3 + [
                    "known"
                ] * 2 + ["sums"]
                continue
            assert "for the steward's eyes only" in told
            assert "1 of 3 rows meet impossible 1 (age ..29, work = retired)" in told
            assert "300 declared, 2 in the data: known total of work = job" in told
            assert "income is not wage + rent in 2 of 3 rows; a value is missing in 1 of these" in told


def test_a_total_of_a_value_with_spaces_is_told_in_japanese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text(
        'data = "p.csv"\nledger = "l"\n[[columns]]\nkind = "category"\nname = "job"\nvalues = ["1. in: a shop", "no"]\n'
        '[known.job]\n"1. in: a shop" = 1600\n'
    )
    Path("p.csv").write_text("job\n1. in: a shop\nno\n")
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    monkeypatch.setattr("sys.argv", ["oboro", "check", "p.toml"])
    with pytest.raises(SystemExit):
        main()
    assert "宣言では 1,600 件、データでは 1 件：job = 1. in: a shop の既知の合計" in capsys.readouterr().out
