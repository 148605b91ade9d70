"""What a text may have meant is proposed only where nothing else can be."""

from __future__ import annotations

import pytest

import oboro as ob
from oboro.domain.spellings import Span, meant_spans, meant_value

AGE, YEAR, HOURS = ob.Integer("age", 0, 99), ob.Integer("year", 1900, 2030), ob.Real("h", 0, 1000, "0.5")


@pytest.mark.parametrize(
    ("column", "text", "spans"),
    [
        (AGE, "<30", [(None, 29)]),
        (AGE, ">=65", [(65, None)]),
        (AGE, "0-29", [(0, 29)]),
        (AGE, "30-", [(30, None)]),
        (AGE, "20〜40", [(20, 40)]),
        (AGE, "20...29", [(20, 29)]),  # not from .29 to 20
        (AGE, "90-80", [(80, 90)]),
        (YEAR, "1998-1995", [(95, 98)]),
        (HOURS, "<30.5", [(None, 60)]),
        (YEAR, "1995-98", None),  # abbreviated: 98 lies outside
        (AGE, "<0,500", None),  # a decimal comma
        (HOURS, "<1,500", None),
        (HOURS, ">0,500", None),
        (AGE, ">=0", None),  # of all values nobody says anything
        (AGE, "<5,000", None),
        (AGE, "young", None),
    ],
)
def test_what_a_range_may_have_meant(
    column: ob.Integer | ob.Real, text: str, spans: list[Span] | None
) -> None:
    assert meant_spans(column, text) == spans


@pytest.mark.parametrize(
    "given",
    ["!=Fair", "! Fair", "not Fair", "<>Fair", "≠ Fair", "~Fair", "Non Fair", "Fair以外", "Fairでない"],
)
def test_a_denied_value_is_not_taken_for_the_value(given: str) -> None:
    """All others are meant."""
    column = ob.Category("cut", ["Fair", "Good", "Not graded"])
    assert meant_value(column, given) != "Fair"
    assert meant_value(column, "fiar") == "Fair"
    assert meant_value(column, "not grated") == "Not graded"
