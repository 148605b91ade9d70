"""The parts that a column declares, and the values that it meets: how each is read, and what is refused.

Only what is declared is ever refused. A value that is no number is None, and the column's rule goes on from there.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from oboro.errors import BoundsError, DomainError, declaration, setting, told
from oboro.exact import rational, show, whole

LARGEST = 2**62  # values that a column may have
_BEYOND = Fraction(10**5000)  # every bound, for no number that can be written is as large


def check_grid(name: str, low: Fraction, high: Fraction, step: Fraction) -> None:
    """Refuses bounds and a step that make no grid of at most 2^62 values."""
    if high < low:
        raise BoundsError(
            f"column {name!r} has its bounds the wrong way round",
            given=told(low=show(low), high=show(high)),
            needed="low of at most high",
            fix=f'Integer("{name}", {show(high)}, {show(low)})',
        )
    steps = (high - low) / step
    if steps.denominator != 1:
        top = low + step * (steps.numerator // steps.denominator)
        raise BoundsError(
            f"column {name!r}: the step does not lead from low to high",
            given=told(low=show(low), high=show(high), step=show(step)),
            needed="high - low a multiple of step",
            fix=told(high=show(top)),
        )
    if steps + 1 > LARGEST:
        raise DomainError(
            f"column {name!r} has too many values",
            given=f"{steps + 1}",
            needed="at most 2^62",
            fix="a larger step",
        )


def nearest_step(number: Fraction, low: Fraction, high: Fraction, step: Fraction) -> int:
    """The code of a number: clamped to the bounds, then the nearest step, upwards if it is half way."""
    clamped = min(max(number, low), high)
    return int((clamped - low) / step + Fraction(1, 2))


def number_of(value: Any) -> Fraction | None:
    """A number as an exact rational; bounds take care of infinity; None if it is no number."""
    try:
        if isinstance(value, int):
            return Fraction(int(value))
        if isinstance(value, float) and math.isinf(value):
            return _BEYOND if float.__gt__(value, 0.0) else -_BEYOND
        return rational("value", value)
    except Exception:  # whatever an object in the data may do when it is asked for its number
        return None


def as_date(name: str, which: str, value: Any) -> date:
    """A date from a date, a time or a text such as 2026-01-31."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value[:10])
    except (TypeError, ValueError, LookupError):
        raise BoundsError(
            f"column {name!r}: {which} is not a date",
            given=told(**{which: repr(value)}),
            needed="a date such as 2026-01-31",
            fix=setting(**{which: "2026-01-31"}),
        ) from None


def inside(name: str, low: Any, high: Any, value: Any) -> Any:
    """What stands in for missing values: it must be a possible one itself."""
    if not low <= value <= high:
        raise DomainError(
            f"column {name!r}: missing lies outside the bounds",
            given=told(missing=f"{value}"),
            needed=f"{low} to {high}",
            fix=told(missing=f"{low}"),
        )
    return value


def whole_part(name: str, which: str, value: Any) -> int:
    """A bound or a step that is a whole number."""
    if value is None:
        raise _no_bounds(name, which)
    return whole(f"{which} of column {name!r}", value, least=-LARGEST, most=LARGEST)


def rational_part(name: str, which: str, value: Any) -> Fraction:
    """A bound that is a rational."""
    if value is None:
        raise _no_bounds(name, which)
    return rational(f"{which} of column {name!r}", value)


def _no_bounds(name: str, which: str) -> BoundsError:
    return BoundsError(
        f"column {name!r} has no bounds",
        given=told(**{which: "None"}),
        needed="the smallest and largest value that count, known without looking at the data",
        fix=declaration("integer", name=name, low=0, high=120),
    )


def name_part(name: Any) -> str:
    """The name of a column."""
    if not isinstance(name, str) or not name:
        raise DomainError(
            "a column needs a name",
            given=told(name=repr(name)),
            fix=declaration("integer", name="age", low=0, high=120),
        )
    return name


def set_parts(column: object, **parts: Any) -> None:
    """Fills a frozen column while it is made."""
    for part, value in parts.items():
        object.__setattr__(column, part, value)
