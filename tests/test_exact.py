from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oboro.errors import ParameterError
from oboro.exact import not_negative, positive, rational, remembered, show, whole


def test_a_float_is_the_decimal_that_prints_it() -> None:
    assert rational("eps", 0.1) == Fraction(1, 10)
    assert sum(rational("eps", 0.1) for _ in range(10)) == 1
    assert rational("eps", np.float64(0.1)) == rational("eps", np.float32(0.1)) == Fraction(1, 10)
    assert rational("eps", np.int64(3)) == 3
    kept = rational("eps", Fraction(np.int64(1), np.int64(10)))  # it keeps what it was given
    assert (kept, type(kept.numerator), type(kept.denominator)) == (Fraction(1, 10), int, int)
    kept._numerator = 0.5  # by force
    with pytest.raises(ParameterError, match="eps is not a number"):
        rational("eps", kept)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/3", Fraction(1, 3)), ("1e-6", Fraction(1, 10**6)), (" 2 ", 2), (Decimal("0.25"), Fraction(1, 4))],
)
def test_texts_are_taken_as_they_are(text: str, value: Fraction) -> None:
    assert rational("eps", text) == value


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "x",
        "1/0",
        "nan",
        "inf",
        None,
        True,
        float("nan"),
        float("inf"),
        [1],
        "1e99999",
        "9" * 9999,
        10**5000,
        -(10**5000),
        Fraction(1, 10**5000),
        "1/2/3",
        object(),
        np.array([1, 2]),
        np.bool_(True),
        "１２"[:0],
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_what_is_no_number_is_refused_by_name(bad: object) -> None:
    with pytest.raises(ParameterError, match="eps is not a number") as caught:
        rational("eps", bad)
    assert caught.value.given is not None
    assert caught.value.given.startswith("eps=")


@given(st.fractions())
def test_show_reads_back_exactly(number: Fraction) -> None:
    assert rational("x", show(number)) == number


def test_limits() -> None:
    with pytest.raises(ParameterError, match="positive"):
        positive("eps", 0)
    with pytest.raises(ParameterError, match="negative"):
        not_negative("eps", "-1e-9")
    assert whole("n", "5") == 5
    for bad in ("1.5", -1, 11):
        with pytest.raises(ParameterError, match="out of range"):
            whole("n", bad, least=0, most=10)


@pytest.mark.parametrize(
    ("bad", "fix"),
    [(-5, "n=..."), ("ten", "n=..."), ("2.5", "n=..."), ("8,000", 'n="8000"'), ("８０００", 'n="8000"'), (10**9, "n=9000")],
)  # fmt: skip
def test_a_number_that_only_the_user_knows_is_not_made_up(bad: object, fix: str) -> None:
    with pytest.raises(ParameterError) as refused:
        whole("n", bad, least=1, most=9000, open=True)
    assert refused.value.fix == fix


@pytest.mark.parametrize("name", ["delta", "instalment_delta", "delta of a plan"])
@pytest.mark.parametrize(
    ("read", "bad"), [(positive, 0), (positive, "x"), (not_negative, -1), (rational, None)]
)
def test_no_large_delta_is_proposed(name: str, read: Any, bad: object) -> None:
    """With a delta of a tenth, one person in ten may be shown as they are."""
    with pytest.raises(ParameterError) as refused:
        read(name, bad)
    assert str(refused.value.fix).endswith('="1e-6"')


@pytest.mark.parametrize(
    ("bad", "fix"),
    [("0,125", 'eps="0.125"'), ("0,5", 'eps="0.5"'), ("1,5", 'eps="1.5"'), ("1,500", 'eps="0.1"'), ("12 000", 'eps="0.1"')],
)  # fmt: skip
def test_a_decimal_comma_never_becomes_a_thousand_times_the_budget(bad: str, fix: str) -> None:
    with pytest.raises(ParameterError) as refused:
        positive("eps", bad)
    assert refused.value.fix == fix


@pytest.mark.parametrize(
    ("bad", "least", "most", "fix"),
    [
        (10**12, 0, 10**9, "n=1000000000"),
        (-1, 0, 10, "n=0"),
        (0, 1, None, "n=1"),
        (-9, -3, 3, "n=-3"),
        ("2.5", 0, 10, "n=2"),
        ("0.5", 1, 10, "n=1"),
        ("10.5", 1, 10, "n=10"),
        (5, 1, 0, "n=0"),
    ],
)
def test_a_number_out_of_range_is_answered_with_the_nearest_that_is_allowed(
    bad: object, least: int, most: int | None, fix: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        whole("n", bad, least=least, most=most)
    assert refused.value.fix == fix


def test_show_is_short() -> None:
    assert [show(Fraction(x)) for x in ("0.1", "1e-10", "1/3", "12.50", "0", "-3")] == [
        "0.1",
        "1e-10",
        "1/3",
        "12.5",
        "0",
        "-3",
    ]


@pytest.mark.parametrize("text", ["٣", "1٣", "1/٣", "1e-٣", "３", "0.１", "²"])
def test_numbers_have_ascii_digits(text: str) -> None:
    with pytest.raises(ParameterError, match="eps"):
        rational("eps", text)


def test_what_is_remembered_is_shared_with_nobody() -> None:
    asked = []

    @remembered(1)
    def half(number: Fraction) -> Fraction:
        asked.append(str(number))
        return number / 2

    given = Fraction(2**61)
    half(given)._numerator = 7  # type: ignore[attr-defined]
    given._numerator = 1  # type: ignore[attr-defined]  # has the hash of 2^61
    assert half(Fraction(2**61)) == 2**60
    assert asked == [str(2**61)]
    assert half(Fraction(1)) == Fraction(1, 2)
    assert half(Fraction(2**61)) == 2**60
    assert asked == [str(2**61), "1", str(2**61)]
