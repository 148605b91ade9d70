"""Numbers at the edge: what a user writes becomes an exact rational, and is shown without loss.

Strings and Fractions are taken as they are. A float is read as the shortest decimal that prints it:
0.1 is one tenth, and ten of them are one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import pickle
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, ParamSpec, TypeVar

from oboro.errors import ParameterError, Setting, setting, told

P = ParamSpec("P")
R = TypeVar("R")

Number = int | float | str | Decimal | Fraction

_DECIMAL = re.compile(r"([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
_RATIO = re.compile(r"([+-]?\d+)/(\d+)", re.ASCII)
_LONGEST = 4000  # characters; a parameter that needs more is a mistake or an attack
_BEYOND = 1 << (10**_LONGEST).bit_length()
_made = object.__new__


def rational(name: str, value: object, example: object = None) -> Fraction:
    """`value` as an exact rational; `name` is how an error calls it, `example` what could be handed over instead."""
    if type(value) is Fraction:  # nearly every one: what stands in it is read as it is
        numerator, denominator = value._numerator, value._denominator  # type: ignore[attr-defined]
    elif isinstance(value, (Fraction, int)) and not isinstance(value, bool):  # a union is slower
        numerator, denominator = value.as_integer_ratio()
    else:
        return _of_text(name, value, example)
    if type(numerator) is not int or type(denominator) is not int:
        try:  # Fraction keeps whole numbers of NumPy as they are
            numerator, denominator = operator.index(numerator), operator.index(denominator)
        except TypeError:  # somebody wrote to it
            raise _not_a_number(name, value, example) from None
    if -_BEYOND < numerator < _BEYOND and denominator < _BEYOND:
        made: Fraction = _made(Fraction)  # one of its own: the parts of a Fraction can be written to
        made._numerator, made._denominator = numerator, denominator  # type: ignore[attr-defined]
        return made
    raise _not_a_number(name, f"more than {_LONGEST} digits", example)


def _of_text(name: str, value: object, example: object) -> Fraction:
    if not isinstance(value, str):
        value = _as_text(name, value, example)
    text = value.strip().replace("_", "")
    read = _read(text) if len(text) <= _LONGEST else None
    if read is None:
        raise _not_a_number(name, value, example)
    return _fraction(*read)


def _as_text(name: str, value: object, example: object) -> str:
    if isinstance(value, bool) or value is None:
        raise _not_a_number(name, value, example)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))  # float() also takes the name off numpy.float64's repr
    return _scalar_text(name, value, example)


def _fraction(numerator: int, denominator: int) -> Fraction:
    """Of numbers that have no common divisor: it is not looked for again, which takes ten times as long."""
    made: Fraction = _made(Fraction)
    made._numerator, made._denominator = numerator, denominator  # type: ignore[attr-defined]
    return made


@functools.lru_cache(maxsize=1024)
def _read(text: str) -> tuple[int, int] | None:
    if (decimal := _DECIMAL.fullmatch(text)) is not None:
        sign, before, after, power = decimal.groups("")
        up = int(power or 0) - len(after)
        number, over = int(f"{sign}{before}{after}") * 10 ** max(up, 0), 10 ** max(-up, 0)
    elif (ratio := _RATIO.fullmatch(text)) is not None:
        number, over = int(ratio[1]), int(ratio[2])
    else:
        return None
    common = math.gcd(number, over)
    return (number // common, over // common) if over else None


def positive(name: str, value: object) -> Fraction:
    """An exact rational above 0."""
    number = rational(name, value)
    if number._numerator <= 0:  # type: ignore[attr-defined]
        raise ParameterError(
            f"{name} must be positive",
            given=_handed(name, show(number), told),
            needed="a number above 0",
            fix=_handed(name, _usual(name)),
        )
    return number


def not_negative(name: str, value: object) -> Fraction:
    """An exact rational that is 0 or more."""
    number = rational(name, value)
    if number._numerator < 0:  # type: ignore[attr-defined]
        raise ParameterError(
            f"{name} must not be negative",
            given=_handed(name, show(number), told),
            needed="0 or more",
            fix=_handed(name, _usual(name)),
        )
    return number


def whole(name: str, value: object, *, least: int = 0, most: int | None = None, open: bool = False) -> int:
    """An integer within public limits. `open`: only the user can say how many; no other number is proposed, but for a limit from above."""
    possible = max(least, 0) if most is None else min(max(least, 0), most)
    number = rational(name, value, ... if open else possible)
    limits = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    if number.denominator != 1 or number < least or (most is not None and number > most):
        near = max(math.floor(number), least)
        near = near if most is None else min(near, most)
        raise ParameterError(
            f"{name} is out of range",
            given=_handed(name, show(number), told),
            needed=limits,
            fix=_handed(name, ... if open and near != most else near),
        )
    return int(number)


def sum_of(first: Fraction, second: Fraction) -> Fraction:
    """The sum of two rationals, as `+` gives it; it takes a fifth of the time."""
    numerator, denominator = _sum(first, second)
    common = math.gcd(numerator, denominator)
    return _fraction(numerator // common, denominator // common)


def sum_fits(first: Fraction, second: Fraction, most: Fraction) -> bool:
    """Whether two rationals add up to no more than a third."""
    numerator, denominator = _sum(first, second)
    return numerator * most._denominator <= most._numerator * denominator  # type: ignore[attr-defined,no-any-return]


def _sum(first: Fraction, second: Fraction) -> tuple[int, int]:
    a, b = first._denominator, second._denominator  # type: ignore[attr-defined]
    return first._numerator * b + second._numerator * a, a * b  # type: ignore[attr-defined]


def usable(name: str, number: Fraction, digits: tuple[int, int] = (-100, 100)) -> float:
    """As a float with which floats can calculate: 0, or of a size between these powers of ten.

    Up to 150 either way neither a difference nor a square runs over.
    """
    least, most = (Fraction(10) ** power for power in digits)
    if number == 0 or least <= abs(number) <= most:
        return float(number)
    raise ParameterError(
        f"{name} is beyond use",
        given=_handed(name, about(number), told),
        needed=f"from 1e{digits[0]} to 1e{digits[1]}",
        fix=_handed(name, 1),
    )


def show(number: Fraction | int) -> str:
    """The shortest exact text of a rational: a decimal where it ends, else a ratio. `rational` reads it back."""
    if type(number) is Fraction:
        return _shown(number._numerator, number._denominator)  # type: ignore[attr-defined]
    return _shown(*number.as_integer_ratio())


@functools.lru_cache(maxsize=1024)
def _shown(numerator: int, denominator: int) -> str:
    number = Fraction(numerator, denominator)
    rest, twos, fives = number.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    if rest != 1 or places > 40:
        return f"{number.numerator}/{number.denominator}"
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    if places == 0:
        return sign + digits
    significant = digits.lstrip("0")
    exponent = len(significant) - 1 - places
    if exponent <= -5:  # 1e-10 reads better than 0.0000000001
        return (
            sign + significant[0] + ("." + significant[1:] if len(significant) > 1 else "") + f"e{exponent}"
        )
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def about(number: Fraction | float, digits: int = 4) -> str:
    """A short text for people's eyes; not exact."""
    try:
        value = float(number)
    except OverflowError:
        return "more than 1e308" if number > 0 else "less than -1e308"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10**digits and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}".replace("e-0", "e-")  # 1e-5, as it is typed


def percent(share: float) -> str:
    """A share of 1 for people's eyes, to two digits; never rounded to all or to nothing."""
    value = 100 * share
    if 0 < value < 0.1:
        return "<0.1%"
    if 99.5 <= value < 100:
        return ">99%"
    return f"{value:.2g}%" if value < 10 else f"{value:.0f}%"


def _scalar_text(name: str, value: object, example: object) -> str:
    """NumPy scalars, zero-dimensional arrays and the like, by the number that they hold."""
    item = getattr(value, "item", None)
    if getattr(value, "dtype", None) is not None and getattr(value, "shape", None) == () and callable(item):
        inner = item()
        if isinstance(inner, int) and not isinstance(inner, bool):
            return str(inner)
        if isinstance(inner, float):
            return str(value)  # float32(0.1) prints as 0.1: the shortest decimal at its own precision
    raise _not_a_number(name, value, example)


def _handed(name: str, value: object, written: Callable[..., Setting] = setting) -> str:
    """An argument with a value. `name` may say where it belongs, "low of column 'age'", or be no argument at all."""
    argument = name.partition(" of ")[0]
    known = argument.isidentifier() or argument.startswith("-")
    return written(**{argument: value}) if known else "NUMBER" if value is ... else str(value)


def _usual(name: str) -> str:
    """A number that can be pasted. With a delta of a tenth, one person in ten may be shown as they are."""
    return "1e-6" if name.partition(" of ")[0].endswith("delta") else "0.1"


def _not_a_number(name: str, value: object, example: object) -> ParameterError:
    try:
        shown = repr(value)
    except ValueError:  # in it a whole number of more digits than Python writes
        shown = f"a {type(value).__name__}"
    example = _usual(name) if example is None else example
    meant = _meant_number(value, counts=not isinstance(example, str))
    return ParameterError(
        f"{name} is not a number",
        given=_handed(name, shown if len(shown) <= 60 else shown[:57] + "...", told),
        needed="an integer, a decimal, a fraction, or a text such as '0.1', '1e-6' or '1/3'",
        fix=_handed(name, example if meant is None else meant),
    )


def _meant_number(value: object, counts: bool) -> str | None:
    """The number that a text is, if its digits are of full width, or grouped where it counts something: 8,000, ８０００.

    Elsewhere a comma stands for the point, and three digits after it may be either: 0,125 is an eighth, and never 125.
    """
    if not isinstance(value, str) or len(value) > 60:
        return None
    text = unicodedata.normalize("NFKC", value).strip()
    if counts and re.fullmatch(r"[+-]?[1-9]\d{0,2}([, ']\d{3})+", text, re.ASCII):
        text = re.sub("[, ']", "", text)
    elif not counts and re.fullmatch(r"[+-]?(0,\d+|\d+,\d{1,2})", text, re.ASCII):
        text = text.replace(",", ".")
    return text if _DECIMAL.fullmatch(text) or _RATIO.fullmatch(text) else None


def remembered(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keeps the last results of a function of public facts, as `lru_cache` does, but shares no object with any caller.

    Plans are values that their holders can still alter by force, down to the numerator of a Fraction. So what is kept
    is bytes, the facts it is kept under are plain copies, and everybody gets a result of their own.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        kept: OrderedDict[Any, bytes] = OrderedDict()

        @functools.wraps(function)
        def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
            key = (_facts(args), _facts(tuple(sorted(kwargs.items()))))
            found = kept.pop(key, None)
            if found is None:
                found = pickle.dumps(function(*args, **kwargs), pickle.HIGHEST_PROTOCOL)
            kept[key] = found
            while len(kept) > most:
                kept.popitem(last=False)
            result: R = pickle.loads(found)
            return result

        remembering.cache_clear = kept.clear  # type: ignore[attr-defined]
        return remembering

    return wrap


def _facts(value: object) -> Any:
    """A value as nested tuples of classes, texts and numbers, which nobody can alter."""
    if value is None or type(value) in (bool, int, float, str):
        return type(value), value
    if type(value) is Fraction:
        return Fraction, value.numerator, value.denominator
    if type(value) is tuple:
        return tuple(map(_facts, value))
    if dataclasses.is_dataclass(value):
        return type(value), *(_facts(getattr(value, one.name)) for one in dataclasses.fields(value))
    raise TypeError(f"a {type(value).__name__} is no public fact to remember by")
