"""Rules that cannot be read say what is wrong with them, in which file, and how it is mended there."""

from __future__ import annotations

import math
import tomllib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.errors import DomainError, InputError

COLUMNS = """
[[columns]]
name = "wages"
kind = "integer"
low = 0
high = 50000

[[columns]]
name = "rent"
kind = "integer"
low = 0
high = 5000

[[columns]]
name = "income"
kind = "integer"
low = 0
high = 50000

[[columns]]
name = "work"
kind = "category"
values = ["job", "retired", "at school"]

[[columns]]
name = "code"
kind = "category"
values = ["14", "13", "01"]
"""

WRONG = {
    "a value": ('[[impossible]]\nwork = "reitred"', "has no such value", 'work = "retired"'),
    "a code": ('[[impossible]]\ncode = "1"', "has no such value", 'code = "01"'),
    "a range beyond": ('[[impossible]]\nrent = "100..9000"', "has no such value", 'rent = "100..5000"'),
    "a range backwards": ('[[impossible]]\nrent = "9..3"', "has no such value", 'rent = "3..9"'),
    "a word": ('[[impossible]]\nrent = "much"', "has no such value", 'rent = "LOW..HIGH"'),
    "a step between": ('[[impossible]]\nrent = 2.5', "has no such value", 'rent = "LOW..HIGH"'),
    "a range of words": ('[[impossible]]\nrent = "under 30"', "has no such value", 'rent = "..29"'),
    "two values": ('[[impossible]]\nwork = ["job", "reitred"]', "has no such value", 'work = ["job", "retired"]'),
    "values in a text": ('[[impossible]]\nwork = "job,retired"', "has no such value", 'work = ["job", "retired"]'),
    "a column": ("[[impossible]]\nrentt = 3", "did you mean 'rent'", "rent"),
    "a value of totals": ("[known.work]\nreitred = 4", "a value that it does not have", "[known.work]\nretired = 4"),
    "a negative total": ('[known.work]\n"at school" = -4', "no number of records", '[known.work]\n"at school" = NUMBER'),
    "half a record": ("[known.work]\njob = 1.6", "no number of records", "[known.work]\njob = NUMBER"),
    "a total as it is read": ('[known.work]\njob = "4,500"', "no number of records", "[known.work]\njob = 4500"),
    "totals of numbers": ('[known.rent]\n"3" = 4', "no column of categories", "[known.COLUMN]\nVALUE = NUMBER"),
    "nobody": ("[known.work]\njob = 0", "all 0", "[known.work]\njob = NUMBER"),
    "no totals": ("[known]\nwork = 4", "not understood", "[known.work]\nVALUE = NUMBER"),
    "a sum beyond": ('[sums]\nincome = ["wages", "rent"]', "from 0 to 55000", "high = 55000"),
    "a sum of one": ('[sums]\nincome = ["wages"]', "not understood", '[sums]\nincome = ["wages", "COLUMN"]'),
    "a sum of words": ('[sums]\nincome = ["wages", "work"]', "not all of them", '[sums]\nincome = ["wages", "COLUMN"]'),
    "a sum in a text": ('[sums]\nincome = "rent + wages"', "not understood", '[sums]\nincome = ["rent", "wages"]'),
    "a sum mistyped": ('[sums]\nincome = "income = wage ＋ rent"', "not understood", '[sums]\nincome = ["wages", "rent"]'),
    "a difference": ('[sums]\nincome = "wages - rent"', "not understood", '[sums]\nincome = ["COLUMN", "COLUMN"]'),
    "no table": ("[[sums]]\nincome = 3", "sums is not understood", '[sums]\nTOTAL = ["COLUMN", "COLUMN"]'),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_rule_that_is_wrong(tmp_path: Path, case: str) -> None:
    rule, message, fix = WRONG[case]
    file = tmp_path / "people.toml"
    file.write_text(COLUMNS + rule)
    with pytest.raises(DomainError, match=message) as refused:
        ob.Domain.from_toml(file)
    assert refused.value.fix == fix
    assert f"declared in {file}" in str(refused.value.given)


def test_the_fixes_are_read() -> None:
    """Each in place of what is wrong; a bound in place of that of the column. What only the user knows is refused as it stands."""
    columns = COLUMNS.replace(
        'high = 50000\n\n[[columns]]\nname = "work"', 'high = 55000\n\n[[columns]]\nname = "work"'
    )
    for case, (_, _, fix) in WRONG.items():
        if case != "a column":
            fix = fix if fix.startswith(("[", "high")) else f"[[impossible]]\n{fix}"
            rules = '[sums]\nincome = ["wages", "rent"]' if fix.startswith("high") else fix
            if any(form in fix for form in ("COLUMN", "NUMBER", "LOW")):
                with pytest.raises((DomainError, tomllib.TOMLDecodeError)):
                    ob.Domain.from_dict(tomllib.loads(columns + rules))
                continue
            assert (
                ob.Domain.from_dict(tomllib.loads(columns + rules)).rules
                != ob.Domain.from_dict(tomllib.loads(columns)).rules
            )


def test_in_python_the_fixes_are_python() -> None:
    domain = ob.Domain.from_dict(tomllib.loads(COLUMNS))
    for rules, fix in (
        ({"impossible": [{"work": "reitred"}]}, "impossible=[{'work': \"retired\"}]"),
        ({"known": {"work": {"jab": 3}}}, "known={'work': {'job': 3}}"),
        ({"sums": {"income": ["wages", "rent"]}}, 'ob.Integer("income", 0, 55000, step=1)'),
    ):
        with pytest.raises(DomainError) as refused:
            domain.ruled(**rules)
        assert refused.value.fix == fix
        if not fix.startswith("ob."):
            domain.ruled(**eval(f"dict({fix})"))


def test_in_python_a_fix_keeps_the_rest_of_the_rules() -> None:
    domain = ob.Domain.from_dict(tomllib.loads(COLUMNS))
    first, second = {"work": "job", "rent": (1, 5)}, {"work": "retired", "rent": "<30"}
    for rules, fix in (
        ({"impossible": [first, second]}, {"impossible": [first, {"work": "retired", "rent": "..29"}]}),
        ({"impossible": second}, {"impossible": [{"work": "retired", "rent": "..29"}]}),
        ({"impossible": [{"work": ["retired", "jab"]}]}, {"impossible": [{"work": ["retired", "job"]}]}),
        ({"known": {"work": {"job": 3, "reitred": 4}}}, {"known": {"work": {"job": 3, "retired": 4}}}),
        ({"known": {"work": {"job": 3, "retired": 52.5}}}, {"known": {"work": {"job": 3, "retired": ...}}}),
        ({"sums": {"income": ["wages", "wages"]}}, {"sums": {"income": ["wages", "COLUMN"]}}),
    ):
        with pytest.raises(DomainError) as refused:
            domain.ruled(**rules)
        assert eval(f"dict({refused.value.fix})") == fix
    with pytest.raises(DomainError) as refused:
        domain.ruled(impossible=[*[first] * 100, second])
    assert eval(f"dict({refused.value.fix})") == {"impossible": [{"work": "retired", "rent": "..29"}, ...]}


NUMBERS = {
    "<30": "..29",
    ">=65": "65..",
    "0-29": "0..29",
    "<=29": "..29",
    "under 30": "..29",
    "30-": "30..",
    "65+": "65..",
    "20〜40": "20..40",
    "２０～４０": "20..40",
    "20–40": "20..40",
    "４０": "40",
    "30歳未満": "..29",
    "65歳以上": "65..",
    "20以上40未満": "20..39",
    ">=20, <40": "20..39",
    "between 20 and 40": "20..40",
    "1,0": ["1", "0"],
    "100..900": "100..120",
    "40..20": "20..40",
    **dict.fromkeys(("-5", "200", "130..140", "18.5", "18.2..18.8", "<0", "1..2..3", "20%", "", "-", "<", "9" * 500), "LOW..HIGH"),
}  # fmt: skip
DAYS = {
    "1990/01/01..1999/12/31": "1990-01-01..1999-12-31",
    "1990/1/1-1999/12/31": "1990-01-01..1999-12-31",
    "1990年4月1日〜1991年3月31日": "1990-04-01..1991-03-31",
    "1990-1999": "1990-01-01..1999-12-31",
    "<1990": "..1989-12-31",
    ">=1990/04": "1990-04-01..",
    "1990-02": "1990-02-01..1990-02-28",
    "01/02/1990": "LOW..HIGH",
    "1990/13/45": "LOW..HIGH",
}
THIRDS = {"0.67": "2/3", "<0.67": "..1/3", "1/3-2/3": "1/3..2/3"}


@pytest.mark.parametrize(
    ("column", "said"),
    [(ob.Integer("c", 0, 120), NUMBERS), (ob.Date("c", "1950-01-01", "2020-12-31"), DAYS), (ob.Real("c", 0, 2, "1/3"), THIRDS),
     (ob.Integer("c", 0, 10_000, step=100), {"8,000": "8000", "8,000-9,000": "8000..9000", "<250": "..200"}), (ob.Integer("c", -10, 10), {"-5--3": "-5..-3", "−5 to ３": "-5..3"})],
)  # fmt: skip
def test_the_fix_of_a_range_is_what_was_meant_or_the_form(
    column: ob.domain.Column, said: dict[str, object]
) -> None:
    for text, meant in said.items():
        with pytest.raises(DomainError, match="has no such value") as refused:
            ob.Domain([column], impossible=[{"c": text}])
        assert eval(f"dict({refused.value.fix})") == {"impossible": [{"c": meant}]}, text
        if meant == "LOW..HIGH":
            with pytest.raises(DomainError, match="has no such value"):
                ob.Domain([column], impossible=[{"c": meant}])
        else:
            assert ob.Domain([column], impossible=[{"c": meant}]).rules.impossible


def test_a_total_gets_the_step_and_the_bounds_that_it_needs() -> None:
    parts = [ob.Real("a", 1, 3, "0.5"), ob.Real("b", 0, 1, "1/3")]
    for total in (ob.Integer("c", 2, 3), ob.Real("c", 2, 3, 1)):
        with pytest.raises(DomainError) as refused:
            ob.Domain([*parts, total], sums={"c": ["a", "b"]})
        wider = eval(str(refused.value.fix), {"ob": ob})
        assert ob.Domain([*parts, wider], sums={"c": ["a", "b"]}).rules.sums


@pytest.mark.parametrize("missing", [None, math.nan, np.float32("nan"), Decimal("nan")], ids=str)
def test_what_is_missing_is_no_value_of_a_category_whatever_that_is_called(missing: object) -> None:
    columns = [ob.Category("answer", ["yes", "None", "nan", "NaN"]), ob.Integer("age", 0, 9)]
    for rules in (
        {"impossible": [{"answer": missing, "age": 3}]},
        {"impossible": [{"answer": ["yes", missing]}]},
        {"known": {"answer": {missing: 3}}},
    ):
        with pytest.raises(DomainError, match=r"has no such value|a value that it does not have") as refused:
            ob.Domain(columns, **rules)
        assert ob.Domain(columns, **eval(f"dict({refused.value.fix})")).rules != ob.Domain(columns).rules
    table = pa.table({"answer": pa.array([missing if missing is None else "nan", None]), "age": [3, 4]})
    with pytest.raises(DomainError, match="has no such value") as refused:
        ob.Domain(columns, impossible=table)
    assert "what is missing meets no condition" in str(refused.value.needed)
    for text in ("None", "nan", "NaN"):  # as a text it is the value
        ((condition,),) = ob.Domain(columns, impossible=[{"answer": text}]).rules.impossible
        assert columns[0].values[condition[1][0][0]] == text


def test_a_table_of_combinations_without_rows_is_refused(tmp_path: Path) -> None:
    columns = [ob.Category("work", ["job", "retired"]), ob.Integer("age", 0, 99)]
    (tmp_path / "never.csv").write_text("work,age\n")
    for none in (tmp_path / "never.csv", pa.table({"work": pa.array([], pa.string())})):
        with pytest.raises(DomainError, match="the table of combinations has no rows") as refused:
            ob.Domain(columns, impossible=none)
        assert "leave impossible out" in str(refused.value.fix)
    assert ob.Domain(columns, impossible=[]) == ob.Domain(columns)  # this does say that there is no rule


def test_a_file_of_combinations_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "people.toml").write_text('impossible = "nofile.csv"\n' + COLUMNS)
    with pytest.raises(DomainError, match=r"no such file: .*nofile\.csv"):
        ob.Domain.from_toml(tmp_path / "people.toml")


@pytest.mark.parametrize(
    "line", ['impossible = "never.csv"', 'labels = {work = "Work"}', 'data = "people.csv"']
)
def test_what_stands_after_the_columns_by_mistake(tmp_path: Path, line: str) -> None:
    (tmp_path / "people.toml").write_text(COLUMNS + line)
    (tmp_path / "never.csv").write_text("work,code\njob,01\n")
    word = line.partition(" ")[0]
    with pytest.raises(InputError, match=f"column 'code' holds {word}") as refused:
        ob.Domain.from_toml(tmp_path / "people.toml")
    assert str(refused.value.needed) == f"{word} above the first line in brackets, [unit] included"
    (tmp_path / "people.toml").write_text(line + "\n" + COLUMNS)
    ob.Domain.from_toml(tmp_path / "people.toml")


@pytest.mark.parametrize(
    "table", ["[unit]\nkind = 'row'", "[labels]", "[sums]", "[known]", "[known.work]\njob = 5"]
)
def test_what_is_said_of_the_whole_file_is_told_to_stand_above_every_table(
    tmp_path: Path, table: str
) -> None:
    file, line = tmp_path / "people.toml", 'impossible = "never.csv"\n'
    (tmp_path / "never.csv").write_text("work,code\njob,01\n")
    place = table.partition("\n")[0]
    file.write_text(f"{table}\n{line}\n{COLUMNS}")
    with pytest.raises(InputError) as refused:
        ob.Domain.from_toml(file)
    assert f"{place} holds impossible, which is said of the whole file" in str(refused.value)
    assert str(refused.value.fix) == f"{line}\n{place}"
    kept = {"[labels]": "", "[sums]": "", "[known]": ""}.get(table, table)
    file.write_text(f"{line}\n{kept}\n\n{COLUMNS}")
    assert len(ob.Domain.from_toml(file).rules.impossible) == 1


def test_a_column_may_have_the_name_of_an_entry_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "people.toml"
    file.write_text(COLUMNS.replace('"code"', '"count"') + "\n[labels]\ncount = 'how many'\n")
    assert ob.Domain.from_toml(file).label("count") == "how many"


PERSON = '{kind = "person", column = "who", max_rows = 10}'
HOME = "\n[[columns]]\nkind = 'integer'\nname = 'age'\nlow = 0\nhigh = 9\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[service]\nrows = 500\nunit = {}", "[service]"),
        ("service.unit = {}", "[service]"),
        ("[service.unit]\nkind = 'row'", "[service]"),
        ("[labels]\nunit = {}", "[labels]"),
        ("[labels.unit]\nkind = 'row'", "[labels]"),
        ("[known]\nunit = {}", "[known]"),
        ("[known.age]\n3 = 5\nunit = {}", "[known.age]"),
        ("[sums]\nunit = {}", "[sums]"),
        ("[unit]\nkind = 'row'\nunit = {}", "[unit]"),
        ("[[impossible]]\nage = 3\nunit = {}", "[[impossible]]"),
        ("[system]\nunit = {}", "[system]"),
        ("[tables]\nunit = {}", "[tables]"),
        ("[tables.stays]\ndata = 'a.csv'\nunit = {}", "[tables.stays]"),
    ],
)
def test_a_unit_is_read_or_refused_wherever_it_stands(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "people.toml"
    file.write_text(text.replace("{}", PERSON) + HOME)
    with pytest.raises(DomainError, match="which is said of the whole file") as refused:
        ob.domain.read_toml(file)
    assert f"{place} holds unit" in refused.value.message
    line = str(refused.value.fix).partition("\n")[0]
    assert line.startswith("unit = {kind = ")
    file.write_text(line + HOME)
    assert ob.privacy.unit_from(ob.domain.read_toml(file)["unit"]).kind in ("person", "row")


@pytest.mark.parametrize("at", ["[columns.unit]\nkind = 'row'", "unit.kind = 'row'", "unit = {kind = 'row'}"])
def test_a_unit_of_a_column_is_refused(tmp_path: Path, at: str) -> None:
    (tmp_path / "people.toml").write_text(HOME + at)
    with pytest.raises(DomainError, match="column 'age' holds unit") as refused:
        ob.Domain.from_toml(tmp_path / "people.toml")
    assert str(refused.value.fix) == 'unit = {kind = "row"}\n\n[[columns]]'


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('impossible = "bad.csv"', "whole file"),
        ('data = "a.csv"', "whole file"),
        ('ledger = "a.ledger"', "whole file"),
        ("draft = true", "whole file"),
        ('columns = [{kind = "integer", name = "b"}]', "whole file"),
        ("rosw = 5", "did you mean 'rows'"),
        ("max_rows = 5", "nobody reads"),
    ],
)
def test_what_a_service_alone_would_refuse_is_refused_by_whoever_reads_the_file(
    tmp_path: Path, line: str, place: str
) -> None:
    file = tmp_path / "people.toml"
    file.write_text(f"[service]\nrows = 500\n{line}\n{HOME}")
    with pytest.raises(DomainError, match=place):
        ob.domain.read_toml(file)
    for service in ("service = 5", "[[service]]\nunit.kind = 'row'"):
        file.write_text(service + HOME)
        with pytest.raises(DomainError, match="service is not understood"):
            ob.domain.read_toml(file)
    file.write_text('[service]\nrows = 500\nedition = "2"\nsharing = true\napprove_above = "0.1"\n' + HOME)
    assert ob.Domain.from_toml(file).names == ("age",)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[Unit]\nkind = 'row'", "unit"),
        ("units.kind = 'row'", "unit"),
        ("[[units]]\nkind = 'row'", "unit"),
        ("impossibel = 'bad.csv'", "impossible"),
        ("Impossible = 'bad.csv'", "impossible"),
        ("[knwon.age]\n3 = 5", "known"),
        ("[Service]\nrows = 5", "service"),
    ],
)
def test_an_entry_that_is_misspelt_is_refused_with_the_one_that_was_meant(
    tmp_path: Path, text: str, meant: str
) -> None:
    (tmp_path / "people.toml").write_text(text + HOME)
    with pytest.raises(DomainError, match=f"did you mean '{meant}'"):
        ob.Domain.from_toml(tmp_path / "people.toml")


def test_columns_and_values_may_be_called_as_entries_of_the_file_are(tmp_path: Path) -> None:
    file = tmp_path / "people.toml"
    file.write_text(
        "[labels]\nunit = 'which'\n[known.unit]\ndata = 3\nledger = 4\n[[impossible]]\nunit = 'count'\n"
        "[[columns]]\nkind = 'category'\nname = 'unit'\nvalues = ['data', 'ledger', 'count']\n"
    )
    assert ob.Domain.from_toml(file).label("unit") == "which"
    file.write_text("unit.kind = 'row'\n[tables.unit]\ndata = 'a.csv'\n[tables.ledger]\ndata = 'b.csv'\n")
    assert set(ob.domain.read_toml(file)["tables"]) == {"unit", "ledger"}
