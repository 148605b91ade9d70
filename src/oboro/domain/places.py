"""Places: how many steps of its column a value stands above the lowest. Rules and conditions are read by them.

What is said of a column is seldom written as its step is. A column of thirds prints 0.6666666666666666, sums of floats end in a digit too
many, and people write 0.67. None of these is two thirds, and none of them is meant to leave two thirds out:

    whole numbers, ratios such as 2/3, days     are what they are
    a decimal or float                          is on a step if it is that step's value as the column prints it, as a
                                                narrow float holds it, or to within a millionth of a step by its last digits
    one that may be a step's value in few       has no place: whoever says it is asked to say the step
    digits, such as 0.67 of two thirds
    all others, such as 9.99 on steps of 1      lie between two steps
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from oboro.domain.columns import Column, Date, Integer, Real
from oboro.errors import DomainError, InputError, told
from oboro.exact import rational
from oboro.kinds import shown

_SAME = Fraction(1, 10**6)  # of a step: a decimal of a step's value with as many digits
_NEAR = Fraction(1, 8)  # of a step: further off nobody means it
_SUMS = Fraction(1, 2**48)  # of a value: a few sums of doubles are off by less
_WHOLE = 2**53  # up to here doubles are exact whole numbers


def place_of(column: Column, value: object) -> Fraction | None:
    """The place of a number or day, whole if it is on a step; None for what is neither, or may be a step or not."""
    place = exact_place(column, value)
    if place is None or place.denominator == 1 or not isinstance(column, Integer | Real):
        return place
    number, near = rational(column.name, value), round(place)
    if _is_exact(value, number):
        return place
    step = column.low + near * Fraction(column.step)
    off = abs(number - step)
    printed = _printed(column, near, value)
    if not (printed or _by_digits(number, off) or off <= _SUMS * max(abs(number), column.step)):
        return place
    if printed or abs(place - near) <= _SAME:
        return Fraction(near)
    return None if abs(place - near) <= _NEAR else place


def meant_place(column: Column, value: object) -> Fraction | None:
    """The place of a value; of one that may be a step or not, that of the step."""
    place = place_of(column, value)
    exact = exact_place(column, value) if place is None else None
    return place if exact is None else Fraction(round(exact))


def exact_place(column: Column, value: object) -> Fraction | None:
    """The place of a number as it is written, or of a day; None for what is neither."""
    if isinstance(column, Date):
        day = _day(value)
        return None if day is None else Fraction((day - column.first).days)
    if not isinstance(column, Integer | Real):
        return None
    try:
        return Fraction(rational(column.name, value) - column.low) / column.step
    except InputError:
        return None


MOST_APART = 2**18  # values of one range that do not lie side by side


def places_of(column: Column, values: range, argument: str) -> range | None:
    """The codes of a range of Python's, in order, without looking at each; None if one of them is no value of the column."""
    if not isinstance(column, Integer | Real) or not values:
        return None
    ends = sorted((values[0], values[-1]))
    first, last = (exact_place(column, end) for end in ends)
    by = Fraction(abs(values.step)) / column.step if ends[0] < ends[1] else Fraction(1)
    if first is None or last is None or first.denominator != 1 or by.denominator != 1:
        return None
    if not 0 <= first <= last < column.size:
        return None
    codes = range(int(first), int(last) + 1, int(by))
    if codes.step > 1 and len(codes) > MOST_APART:
        raise DomainError(
            f"a condition on column {column.name!r} picks too many values one by one",
            given=told(**{argument: f"{{{column.name!r}: {shown(values)}}}"}),
            needed=f"at most {MOST_APART:,} of them, or a range from a lowest to a highest value",
            argument=argument,
        )
    return codes


def _day(value: object) -> date | None:
    try:
        if isinstance(value, date):  # also a time, of any library; no day at all has no year
            return date(value.year, value.month, value.day)
        return datetime.fromisoformat(str(value).strip()).date()
    except (TypeError, ValueError):
        return None


def _is_exact(value: object, number: Fraction) -> bool:
    if isinstance(value, str):
        return "/" in value or number.denominator == 1
    small = number.denominator == 1 and abs(number) < _WHOLE
    return small or isinstance(value, Fraction) or hasattr(value, "__index__")


def _by_digits(number: Fraction, off: Fraction) -> bool:
    """Whether it is less than one of its last decimal digit off: what a number becomes when digits are cut or rounded."""
    return bool(off * 10 ** _decimals(number) < 1)


def _decimals(number: Fraction) -> int:
    rest, count = number.denominator, {2: 0, 5: 0}
    for prime in count:
        while rest % prime == 0:
            rest, count[prime] = rest // prime, count[prime] + 1
    return max(count.values())


def _printed(column: Integer | Real, near: int, value: object) -> bool:
    """Whether it is what the column prints for a step; or what a narrow float holds of it, and of no step beside it."""
    import numpy as np

    if not 0 <= near < column.size:
        return False
    double = float(value if isinstance(value, str | Decimal | float) else str(value))
    if float(column.value(near)) == double:
        return True
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.float32(double)
        held = [code for code in (near - 1, near, near + 1) if np.float32(column.value(code)) == narrow]
    return held == [near] and (isinstance(value, np.float32) or float(narrow) == double)
