"""Conditions on what is drawn: what they mean, in Python and typed, and what is said of those that cannot be met."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.cli import main
from oboro.errors import InputError, ParameterError, setting
from oboro.kinds import nearest
from oboro.synth.check import check
from oboro.synth.conditions import read_conditions, wanted_codes, where_of
from oboro.synth.marks import mark_of_draw, marked, write_records
from oboro.synth.model import Model

DOMAIN = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Category("work", ["job", "retired", "at school"]),
        ob.Category("code", ["14", "13", "01"]),
        ob.Date("day", "2020-01-01", "2020-12-31"),
        ob.Real("third", 0, 2, "1/3"),
    ],
    impossible=[{"work": "retired", "age": (0, 29)}],
)
Codes = list[tuple[int, int]]


def codes(value: object, name: str = "age") -> Codes:
    (found,) = wanted_codes(DOMAIN, {name: value}).values()
    return list(zip(found.start.tolist(), found.stop.tolist(), strict=True))


def typed(*texts: str) -> dict[str, Codes]:
    found = wanted_codes(DOMAIN, read_conditions(DOMAIN, texts))
    return {
        DOMAIN.names[i]: list(zip(one.start.tolist(), one.stop.tolist(), strict=True))
        for i, one in found.items()
    }


def test_of_a_range_that_is_partly_outside_what_is_inside_is_meant() -> None:
    assert codes((100, 300)) == [(100, 121)]
    assert codes((-50, 3)) == [(0, 4)]
    assert codes((18.4, 20.6)) == [(19, 21)]  # nothing that is not in it
    assert codes((60, None)) == codes((60, float("inf"))) == [(60, 121)]
    assert codes((None, 29)) == [(0, 30)]
    assert codes(("2019-01-01", "2020-01-02"), "day") == [(0, 2)]
    assert codes((1 / 3, 2 / 3), "third") == [(1, 3)]  # by the numbers nearest to them
    assert codes([2 / 3, 0], "third") == [(0, 1), (2, 3)]


FORMS = (("LOW", "HIGH"), "VALUE", ["job", "VALUE"])  # that the user fills in


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("age", (200, 300)),
        ("age", (-50, -1)),
        ("age", 200),
        ("age", -1),
        ("age", [3, 200]),
        ("age", 18.5),
        ("age", (18.2, 18.8)),
        ("age", "x"),
        ("age", ("x", 3)),
        ("age", (1, 2, 3)),
        ("age", True),
        ("age", []),
        ("day", "2021-01-01"),
        ("day", ("2021-01-01", "2021-02-01")),
        ("third", 0.5),
        ("work", "xyz"),
        ("work", ("job", "x")),
    ],
)
def test_what_no_record_can_meet_is_refused_and_the_fix_is_a_form(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match="has no such value") as refused:
        wanted_codes(DOMAIN, {name: value})
    assert refused.value.argument == "where"
    (meant,) = eval(f"dict({refused.value.fix})")["where"].values()
    assert meant in FORMS  # nobody knows what was meant: any other condition would be another question
    if name == "age":
        assert "from 0 to 120" in str(refused.value.needed)


def test_columns_that_are_not_there() -> None:
    with pytest.raises(ParameterError, match="no column 'agee': did you mean 'age'") as refused:
        wanted_codes(DOMAIN, {"agee": (18, 64)})
    assert refused.value.fix == "where={'age': (18, 64)}"
    with pytest.raises(ParameterError, match="no column 'salary'\n") as refused:
        wanted_codes(DOMAIN, {"salary": 3})
    assert refused.value.fix is None  # a condition on another column would be another question
    assert refused.value.argument == "where"
    assert all(name in str(refused.value.needed) for name in DOMAIN.names)


def test_conditions_that_are_typed() -> None:
    assert typed("age=60..") == {"age": [(60, 121)]}
    assert typed("age=..29", "work=job,at school") == {"age": [(0, 30)], "work": [(0, 1), (2, 3)]}
    assert typed("age=18:64") == typed("age= 18 .. 64") == {"age": [(18, 65)]}
    assert typed("age=") == {"age": [(121, 122)]}


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("age>=18", {"age": (18, 120)}),
        ("age > 18", {"age": (19, 120)}),
        ("age<30", {"age": (0, 29)}),
        ("age<=30", {"age": (0, 30)}),
        ("age=>18", {"age": (18, 120)}),
        ("age≧18", {"age": (18, 120)}),
        ("age==18", {"age": 18}),
        ("age:18..20", {"age": (18, 20)}),
        ("age=1,000", {"age": ("LOW", "HIGH")}),
        ("age>200", {"age": ("LOW", "HIGH")}),
        ("day>=2020-06-01", {"day": ("2020-06-01", "2020-12-31")}),
        ("work>=3", {"work": "VALUE"}),
        ("work＝job、at school", {"work": ["job", "at school"]}),
        ("age", {"age": ("LOW", "HIGH")}),
        ("work", {"work": "VALUE"}),
        ("aeg>18", {"age": (19, 120)}),
        ("nothing", {"COLUMN": "VALUE"}),
        ("年齢＝40", {"年齢": 40}),
        ("年齢＝２０〜４０", {"年齢": (20, 40)}),
        ("年齢≦40", {"年齢": (0, 40)}),
        ("年令＝40", {"年齢": 40}),
        ("work!=job", {"work": "VALUE"}),
        ("work≠job", {"work": "VALUE"}),
        ("work<>job", {"work": "VALUE"}),
        ("age!=5", {"age": ("LOW", "HIGH")}),
    ],
)
def test_conditions_that_are_mistyped(text: str, fix: Any) -> None:
    domain = ob.Domain([*DOMAIN, ob.Integer("年齢", 0, 120)])
    with pytest.raises(ParameterError, match="the condition is not understood") as refused:
        read_conditions(domain, [text])
    done = eval(f"dict({refused.value.fix})")["where"]
    assert done == fix
    if not {"VALUE", ("LOW", "HIGH")} & {
        one if isinstance(one, tuple | str) else "" for one in done.values()
    }:
        assert wanted_codes(domain, done)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("age=30-40", (30, 40)),
        ("age=20〜40", (20, 40)),
        ("age=20～40", (20, 40)),
        ("age=４０", 40),
        ("age=65歳以上", (65, 120)),
        ("age=１,２", [1, 2]),
        ("age=1,200", ("LOW", "HIGH")),
        ("age=40..x", ("LOW", "HIGH")),
        ("day=2020/01/05..2020/3/1", ("2020-01-05", "2020-03-01")),
        ("day=2020年2月", ("2020-02-01", "2020-02-29")),
        ("third=0.67..1", (2 / 3, 1.0)),
        ("work=job,schol,xyz", ["job", "at school", "VALUE"]),
    ],
)
def test_the_fix_of_a_condition_says_what_was_meant_or_shows_the_form(text: str, fix: Any) -> None:
    with pytest.raises(ParameterError, match="has no such value") as refused:
        wanted_codes(DOMAIN, read_conditions(DOMAIN, [text]))
    name = text.partition("=")[0]
    assert refused.value.fix == setting(where={name: fix})
    with pytest.raises(ParameterError, match="has no such value") as refused:
        wanted_codes(DOMAIN, {name: text.partition("=")[2]})


def test_values_that_begin_with_a_sign_are_values() -> None:
    domain = ob.Domain([ob.Category("income", ["<=50K", ">50K"]), ob.Integer("age", 0, 99)])
    for text in ("income=<=50K", "income=>50K"):
        assert wanted_codes(domain, read_conditions(domain, [text]))


def test_a_code_that_lost_its_zeros_is_known_again() -> None:
    assert nearest("1", ["14", "13", "01"]) == "01"
    assert nearest("²", ["14", "2"]) is None
    with pytest.raises(ParameterError) as refused:
        wanted_codes(DOMAIN, {"code": "1"})
    assert refused.value.fix == "where={'code': \"01\"}"


def test_two_conditions_on_a_column_are_refused() -> None:
    with pytest.raises(ParameterError, match="'work' has two conditions") as refused:
        read_conditions(DOMAIN, ["work=job", "age=3", "work=retired"])
    assert refused.value.fix == 'where={\'work\': ["job", "retired"]}'
    with pytest.raises(ParameterError, match="'age' has two conditions") as refused:
        read_conditions(DOMAIN, ["age=10..20", "age=40..50"])
    assert refused.value.fix == setting(where={"age": ("LOW", "HIGH")})
    with pytest.raises(ParameterError, match="'age' has two conditions") as refused:
        read_conditions(DOMAIN, ["age=10..", "age=..20"])
    assert refused.value.fix == setting(where={"age": ("10", "20")})


def test_codes_are_told_as_the_conditions_that_they_come_from() -> None:
    where = {
        "age": (10, 20),
        "work": ["job", "at school"],
        "code": "01",
        "day": ("2020-02-01", "2020-02-03"),
        "third": None,
    }
    assert where_of(wanted_codes(DOMAIN, where), DOMAIN) == where


# -- with a model -----------------------------------------------------------------------------------------------------


def model_in(folder: Path, domain: ob.Domain) -> Model:
    rng = np.random.default_rng(4)
    age = rng.integers(0, 100, 2000)
    work = np.where(age > 64, "retired", np.where(age < 16, "at school", "job"))
    made = ob.Ledger.create(
        folder / "l.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Approx(50, "0.01")
    )
    plan = ob.synth.plan(domain, unit=ob.Unit.row(), eps=9, delta="1e-6", method="marginals")
    model: Model = ob.synth.release({"age": age, "work": work}, plan, ledger=made)
    return model


TWO = DOMAIN.only("age", "work")


@pytest.mark.parametrize(
    ("known", "where", "why"),
    [
        (None, {"age": (10, 20), "work": "retired"}, "^what is impossible leaves"),
        ({"work": {"job": 1000}}, {"age": (10, 20), "work": "retired"}, "^what is impossible leaves"),
        ({"work": {"job": 1000, "at school": 0, "retired": 9}}, {"work": "at school"}, "^the known totals leave"),
        (
            {"work": {"job": 0, "at school": 0, "retired": 9}},
            {"age": (10, 20)},
            "^what is impossible and the known totals together leave",
        ),
    ],
)  # fmt: skip
def test_the_reason_why_nothing_is_left_is_the_true_one(
    tmp_path: Path, known: Any, where: Any, why: str
) -> None:
    model = model_in(tmp_path, TWO if known is None else TWO.ruled(known=known, impossible=IMPOSSIBLE))
    with pytest.raises(ParameterError, match=why) as refused:
        model.sample(10, where)
    assert eval(f"dict({refused.value.given})")["where"] == where
    assert refused.value.argument == "where"


IMPOSSIBLE = [{"work": "retired", "age": (0, 29)}]


def test_a_mark_with_conditions_of_before_is_checked(tmp_path: Path) -> None:
    """Ages 200 to 300 were taken for 120, the last one."""
    model = model_in(tmp_path, TWO)
    wanted = wanted_codes(TWO, {"age": 120})
    mark = mark_of_draw(20, 7, wanted, TWO, model.certificate, model.bundle())
    write_records(marked(model.draw(20, wanted, 7), mark), tmp_path / "old.csv")
    model.save(tmp_path / "m.oboro")
    for kept in (None, tmp_path / "m.oboro"):
        checked = check(tmp_path / "old.csv", model=kept)
        assert checked["redrawn"]
        assert checked["where"] == {"age": ["120"]}


@pytest.fixture
def refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)
    model_in(tmp_path, TWO).save(tmp_path / "m.oboro")

    def command(line: str) -> str:
        words = shlex.split(f"synth sample m.oboro -n 5 -o s.csv {line}")
        monkeypatch.setattr(sys, "argv", ["oboro", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code in (0, 4)
        return capsys.readouterr().err

    return command


def test_errors_speak_as_conditions_are_typed(refusal: Callable[[str], str]) -> None:
    for line, given, fix in (
        ("--where age=200..300", "--where age=200..300", "--where age=LOW..HIGH"),
        ("--where age=30-40", "--where age=30-40", "--where age=30..40"),
        ("--where 'age>=18'", "--where 'age>=18'", "--where age=18..120"),
        ("--where work=school", "--where work=school", "--where 'work=at school'"),
        (
            "--where work=job --where work=retired",
            "--where work=job --where work=retired",
            "--where work=job,retired",
        ),
    ):
        told = refusal(line)
        assert f"given   {given}\n" in told
        assert f"fix     {fix}\n" in told
        assert "tuple" not in told
        assert "LOW" in fix or refusal(fix) == ""
    told = refusal("--where age=10..20 --where work=retired")
    assert "given   --where age=10..20 --where work=retired\n" in told


INFINITE = [float("inf"), "inf", "+Infinity", np.float32("inf"), "1e9999"]


@pytest.mark.parametrize("end", INFINITE)
def test_ends_beyond_every_number_are_open_on_their_own_side_alone(end: Any) -> None:
    minus = f"-{end.lstrip('+')}" if isinstance(end, str) else -end
    assert codes((100, end)) == codes((100, None))
    assert codes((minus, 3)) == codes((None, 3))
    for wrong in ((end, None), (end, 10), (None, minus), (3, minus)):
        with pytest.raises(ParameterError, match="no such value"):
            codes(wrong)


def test_whatever_was_drawn_can_be_asked_for() -> None:
    """A float's last digit is worth more than a millionth of a step, far from 0."""
    domain = ob.Domain([ob.Real("x", 0, 10**12, "1/3")])
    for code in np.random.default_rng(1).integers(0, domain["x"].size, 100).tolist():
        value = float(domain["x"].value(code))
        for asked in (value, (value, value), [value]):
            (found,) = wanted_codes(domain, {"x": asked}).values()
            assert (found.start.tolist(), found.stop.tolist()) == ([code], [code + 1])


def test_an_end_that_may_be_a_step_or_not_is_refused_and_the_fix_says_the_step() -> None:
    for value in ((0.33, 0.67), ("0.33", "0.67"), (None, 0.67), 0.67):
        with pytest.raises(ParameterError, match="has no such value") as refused:
            codes(value, "third")
        fixed = eval(f"dict({refused.value.fix})")["where"]["third"]
        low, high = (fixed, fixed) if isinstance(fixed, float) else fixed
        assert high == 2 / 3
        assert codes(fixed, "third")[0][1] == 3
        assert low in (None, 1 / 3, 2 / 3)


def test_a_range_of_any_length_takes_no_room() -> None:
    domain = ob.Domain([ob.Integer("yen", 0, 10**12), ob.Category("n", [1, 2])])
    (found,) = wanted_codes(domain, {"yen": range(5, 10**11)}).values()
    assert (found.start.tolist(), found.stop.tolist()) == ([5], [10**11])
    (found,) = wanted_codes(domain, {"yen": range(9, 0, -3)}).values()
    assert (found.start.tolist(), found.stop.tolist()) == ([3, 6, 9], [4, 7, 10])
    with pytest.raises(InputError, match="picks too many values one by one"):
        wanted_codes(domain, {"yen": range(0, 10**12, 2)})
    for name in domain.names:
        for beyond in (range(10**30), range(-(10**9), 0), range(0)):
            with pytest.raises(ParameterError, match="has no such value"):
                wanted_codes(domain, {name: beyond})


def test_values_in_arrays_are_values() -> None:
    assert codes(np.array(["job", "retired"]), "work") == codes(["job", "retired"], "work")
    assert codes(np.array([3, 5])) == codes([3, 5])
    with pytest.raises(ParameterError, match="no such value"):
        codes(np.array(["job", "lost"]), "work")


@pytest.mark.parametrize("text", ["n=--3", "n=²", "n=１", "n=-"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    domain = ob.Domain([ob.Category("n", [1, 2, -3, 10])])
    with pytest.raises(ParameterError, match="no such value"):
        wanted_codes(domain, read_conditions(domain, [text]))
    assert wanted_codes(domain, read_conditions(domain, ["n=-3,10"]))


def test_a_fix_is_whole_and_means_the_same() -> None:
    ten = ",".join(map(str, range(1, 11)))
    with pytest.raises(ParameterError) as found:
        wanted_codes(DOMAIN, read_conditions(DOMAIN, [f"agee={ten}"]))
    assert found.value.fix == setting(where={"age": ten.split(",")})
    with pytest.raises(ParameterError) as found:
        read_conditions(DOMAIN, ["age=1,2,3,4,5,6,7,8,9", "age=10"])
    assert found.value.fix == setting(where={"age": ten.split(",")})
    with pytest.raises(ParameterError, match="no column 'foo'"):
        wanted_codes(DOMAIN, read_conditions(DOMAIN, ["foo=1", "foo=2"]))
    with pytest.raises(ParameterError) as found:
        wanted_codes(DOMAIN, read_conditions(DOMAIN, ["age=121.."]))
    assert found.value.fix == setting(where={"age": ("LOW", "HIGH")})
