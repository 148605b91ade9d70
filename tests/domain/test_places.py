"""Where a value stands among the steps of its column, however it was written."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.domain.places import place_of, places_of
from oboro.errors import DomainError

THIRDS = ob.Real("hours", 0, 2, "1/3")
TENTHS = ob.Real("share", 0, 1, "0.1")
COLUMNS: list[Any] = [
    THIRDS,
    TENTHS,
    ob.Real("a", "0.1", 1, "0.3"),
    ob.Real("b", -5, 5, "1/7"),
    ob.Real("c", 0, 10**12, "1/3"),
    ob.Real("d", "-0.001", "0.001", "1/9000"),
    ob.Integer("e", -7, 10**6 - 7, 1000),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_whatever_a_column_prints_is_on_the_step_that_it_was_printed_for(column: Any) -> None:
    draw = random.Random(1)
    for code in [0, column.size - 1, *(draw.randrange(column.size) for _ in range(50))]:
        value = column.value(code)
        for written in (value, str(value), np.float64(value), Decimal(str(value)), repr(float(value))):
            assert place_of(column, written) == code


@pytest.mark.parametrize("column", [THIRDS, TENTHS, ob.Real("far", 0, 2000, "1/3")], ids=str)
def test_a_narrow_float_of_a_step_is_on_it(column: ob.Real) -> None:
    for code in range(column.size):
        narrow = np.float32(column.value(code))
        assert place_of(column, narrow) == place_of(column, float(narrow)) == code


def test_sums_of_floats_are_on_the_step_that_they_are_the_sum_for() -> None:
    total = 0.0
    for code in range(1, 11):
        total += 0.1
        assert place_of(TENTHS, total) == code
    assert place_of(TENTHS, 0.1 + 0.2 - 0.3) == 0


@pytest.mark.parametrize("value", [0.67, "0.67", 0.33, "0.666", Decimal("1.3"), np.float32(0.67)], ids=repr)
def test_a_value_that_may_be_a_step_or_not_has_no_place(value: object) -> None:
    assert place_of(THIRDS, value) is None


@pytest.mark.parametrize(
    ("column", "value", "place"),
    [
        (ob.Real("x", 0, 20, 1), "9.99", "9.99"),
        (ob.Real("x", 0, 20, 1), 0.5, "0.5"),
        (ob.Real("x", 0, 10**7, 10**6), "0.5", "5e-7"),
        (ob.Integer("x", 0, 10**9, 10**7), 50_000_001, "5.0000001"),
        (ob.Integer("x", 0, 10**9, 1000), 999, "0.999"),
        (ob.Integer("x", 0, 3 * 2**60, 3), 2**60 + 1, Fraction(2**60 + 1, 3)),
        (ob.Integer("x", 0, 3 * 2**60, 3), np.int64(2**60 + 1), Fraction(2**60 + 1, 3)),
        (THIRDS, "0.4", "1.2"),
        (THIRDS, "2/3", 2),
        (THIRDS, Fraction(1, 2), "1.5"),
        (THIRDS, -1, -3),
    ],
    ids=str,
)
def test_what_lies_clearly_between_two_steps_stays_there(column: Any, value: object, place: Any) -> None:
    assert place_of(column, value) == Fraction(place)


def test_days_are_written_in_full() -> None:
    days = ob.Date("day", "2020-01-01", "2020-12-31")
    for day in (
        "2020-01-03", date(2020, 1, 3), datetime(2020, 1, 3, 23, 59), np.datetime64("2020-01-03T10"),
        "2020-01-03 10:00:00", "2020-01-03T10:00:00+09:00",
    ):  # fmt: skip
        assert place_of(days, day) == 2
    for no_day in ("2020-01-03～2020-01-05", "2020-01-03x", np.datetime64("NaT"), 3, None, ""):
        assert place_of(days, no_day) is None


@pytest.mark.parametrize("step", [1, 2, 5, -1, -3])
@pytest.mark.parametrize("column", [ob.Integer("x", -20, 100), ob.Integer("x", 0, 100, 5), THIRDS, ob.Real("x", 0, 9, "0.5")], ids=str)  # fmt: skip
def test_a_range_has_the_places_of_its_values(column: Any, step: int) -> None:
    for start, stop in ((0, 1), (0, 9), (9, 0), (5, 60), (60, 4), (-30, 3), (-20, 101), (0, 0)):
        values = range(start, stop, step)
        found = [place_of(column, one) for one in values]
        inside = all(one is not None and one.denominator == 1 and 0 <= one < column.size for one in found)
        wanted = sorted(int(one) for one in found if one is not None) if found and inside else None
        codes = places_of(column, values, "where")
        assert (None if codes is None else list(codes)) == wanted


def test_a_range_of_any_length_takes_no_room() -> None:
    yen = ob.Integer("yen", 0, 10**12)
    rule = {"yen": range(10**11), "sex": "f"}
    domain = ob.Domain([yen, ob.Category("sex", ["f", "m"])], impossible=[rule])
    assert domain.rules.impossible == ((("yen", ((0, 10**11),)), ("sex", ((0, 1),))),)
    for too_many in (range(0, 10**12, 2), range(10**12, 0, -10)):
        with pytest.raises(DomainError, match="picks too many values one by one"):
            ob.Domain([yen], impossible=[{"yen": too_many}])
    for beyond in (range(10**30), range(0, 10**30, 7), range(-1, 5), range(0)):
        with pytest.raises(DomainError, match="has no such value"):
            ob.Domain([yen, ob.Category("n", [1, 2])], impossible=[{"yen": beyond}])
        with pytest.raises(DomainError, match="has no such value"):
            ob.Domain([yen, ob.Category("n", [1, 2])], impossible=[{"n": beyond}])


FLOATS = {
    "of thirds": (THIRDS, (THIRDS.value(1), THIRDS.value(2)), "1/3..2/3"),
    "typed": (THIRDS, f"{THIRDS.value(1)}..{THIRDS.value(5)}", "1/3..5/3"),
    "of a sum": (TENTHS, (0.1 + 0.2, 0.7), "0.3..0.7"),
    "one": (THIRDS, 0.6666666666666666, "2/3..2/3"),
}


@pytest.mark.parametrize("case", FLOATS)
def test_a_rule_in_the_floats_of_its_column_keeps_both_ends(case: str) -> None:
    column, value, kept = FLOATS[case]
    domain = ob.Domain([column], impossible=[{column.name: value}])
    assert domain.to_dict()["impossible"] == [{column.name: [kept]}]


def test_a_rule_of_narrow_floats_is_read_as_its_column_prints_them() -> None:
    table = pa.table({"share": pa.array([0.3, 0.7], pa.float32())})
    domain = ob.Domain([TENTHS], impossible=table)
    assert domain.to_dict()["impossible"] == [{"share": ["0.3..0.3"]}, {"share": ["0.7..0.7"]}]


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ((0.33, 0.67), "1/3..2/3"),
        ("0.33..0.67", "1/3..2/3"),
        ((0.67, None), "2/3.."),
        ("0.67..", "2/3.."),
        ("0.67", "2/3"),
        ((0.5, 0.67), "2/3"),
    ],
    ids=str,
)
def test_an_end_that_may_be_a_step_is_refused_and_the_fix_says_the_step(value: object, fix: str) -> None:
    with pytest.raises(DomainError, match="has no such value") as refused:
        ob.Domain([THIRDS], impossible=[{"hours": value}])
    assert "in steps of 1/3" in str(refused.value.needed)
    assert refused.value.fix == f"impossible=[{{'hours': \"{fix}\"}}]"
    assert ob.Domain([THIRDS], **eval(f"dict({refused.value.fix})")).rules.impossible
