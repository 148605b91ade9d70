"""Columns: what values are possible, said in public, never read off the data.

Each column maps every conceivable value to a code 0, 1, ..., size - 1, or leaves the record out, by one rule
that is the same for all records:

    a number beyond a bound      counts as the bound (infinity too)
    a number between two steps   goes to the nearest step, upwards if it is half way; a fraction by the double nearest to it
    a value that is missing, not a number, not a date, or not among the declared values
                                 is replaced by `missing`; by default the record is left out
                                 of every answer that uses the column
Which texts are numbers and days, grammar.py says. Nothing of this raises an error or leaves a trace in a release. `check` commands tell the steward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self, TypeVar

from oboro.domain.grammar import day_of, double_of, whole_of
from oboro.errors import BoundsError, Declaration, DomainError, declaration, setting, told
from oboro.exact import Number, positive, rational, show, usable, whole
from oboro.kinds import list_of, shown, takes
from oboro.records import Columns, write_fields

# The parts that a column declares, and the values that it meets: how each is read, and what is refused.
#
# Only what is declared is ever refused. A value that is no number is None, and the column's rule goes on from there.

T = TypeVar("T", int, Fraction, date)

LARGEST = 2**62  # values that a column may have
_BEYOND = Fraction(10**5000)  # every bound, for no number that can be written is as large


def check_grid(kind: str, name: str, low: Fraction, high: Fraction, step: Fraction) -> None:
    """Refuses bounds and a step that make no grid of at most 2^62 values."""
    if high < low:
        raise BoundsError(
            f"column {name!r} has its bounds the wrong way round",
            given=told(low=show(low), high=show(high)),
            needed="low of at most high",
            fix=_example(kind, name, low=high, high=low, step=step),
        )
    steps = (high - low) / step
    if steps.denominator != 1:
        top = low + step * (steps.numerator // steps.denominator)
        raise BoundsError(
            f"column {name!r}: the step does not lead from low to high",
            given=told(low=show(low), high=show(high), step=show(step)),
            needed="high - low a multiple of step",
            fix=_example(kind, name, low=low, high=top, step=step),
        )
    if steps + 1 > LARGEST:
        raise DomainError(
            f"column {name!r} has too many values",
            given=f"{steps + 1}",
            needed="at most 2^62",
            fix=_example(kind, name, low=low, high=high, step=high - low or step),
        )


def nearest_step(number: int, low: int, high: int, step: int) -> int:
    """The code of a whole number: clamped to the bounds, then the nearest step, upwards if it is half way."""
    return (min(max(number, low), high) - low + step // 2) // step


def nearest_by_double(number: float, low: float, high: float, step: float, size: int) -> int:
    """The code of a fraction, in the arithmetic of doubles: the same operations, in this order, in every engine."""
    if number <= low:
        return 0
    if number >= high:
        return size - 1
    return max(0, min(size - 1, math.floor((number - low) / step + 0.5)))


def number_of(value: object) -> Fraction | None:
    """A number as an exact rational; bounds take care of infinity; None if it is no number."""
    try:
        if isinstance(value, int | Fraction):  # of any length
            return Fraction(value) if isinstance(value, Fraction) else Fraction(int(value))
        if isinstance(value, float) and math.isinf(value):
            return _BEYOND if float.__gt__(value, 0.0) else -_BEYOND
        return rational("value", value)
    except Exception:  # whatever an object in the data may do when it is asked for its number
        return None


def met_number(value: object) -> int | float | str | None:
    """A value as the number it is: a whole one, a double, or a text that the grammar admits; None if it is no number."""
    try:
        if isinstance(value, str):
            text = str.__str__(value)  # of another class, perhaps with a comparison of its own
            return None if double_of(text) is None else text
        if isinstance(value, int):  # of any length
            return int(value)
        if isinstance(value, Decimal):
            power = value.as_tuple().exponent
            return f"{value:f}" if isinstance(power, int) and abs(power) < 5000 else met_number(float(value))
        if isinstance(value, Fraction):
            return int(value) if value.denominator == 1 else _double(value)
        if isinstance(value, float):
            return None if math.isnan(value) else float(value)
        if getattr(value, "shape", None) == ():  # NumPy's
            return met_number(value.item())  # type: ignore[attr-defined]
    except Exception:  # whatever an object in the data may do when it is asked for its number
        pass
    return None


def as_double(number: int | float | str) -> float:
    """The double nearest to a number."""
    found = double_of(number) if isinstance(number, str) else _double(number)
    assert found is not None
    return found


def _double(number: int | float | Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def as_date(name: str, which: str, value: Any) -> date:
    """A date from a date, a time or a text such as 2026-01-31."""
    try:
        if isinstance(value, date):  # also a time, of any library; no day at all has no year
            return date(value.year, value.month, value.day)
        day = day_of(value)
    except (TypeError, ValueError, LookupError):
        day = None
    if day is None:
        raise BoundsError(
            f"column {name!r}: {which} is not a date",
            given=told(**{which: repr(value)}),
            needed="a date such as 2026-01-31",
            fix=setting(**{which: "2026-01-31"}),
        )
    return day


def inside(name: str, low: T, high: T, value: T) -> T:
    """What stands in for missing values: it must be a possible one itself."""
    if not low <= value <= high:
        raise DomainError(
            f"column {name!r}: missing lies outside the bounds",
            given=told(missing=f"{value}"),
            needed=f"{low} to {high}",
            fix=told(missing=f"{low}") if isinstance(low, int) else setting(missing=str(low)),
        )
    return value


def whole_part(name: str, which: str, value: object) -> int:
    """A bound or a step that is a whole number."""
    if value is None:
        raise _no_bounds("integer", name, which)
    return whole(f"{which} of column {name!r}", value, least=-LARGEST, most=LARGEST)


def rational_part(name: str, which: str, value: object) -> Fraction:
    """A bound that is a rational."""
    if value is None:
        raise _no_bounds("real", name, which)
    return rational(f"{which} of column {name!r}", value)


def _no_bounds(kind: str, name: str, which: str) -> BoundsError:
    return BoundsError(
        f"column {name!r} has no bounds",
        given=told(**{which: "None"}),
        needed="the smallest and largest value that count, known without looking at the data",
        fix=declaration(kind, **{**EXAMPLES[kind], "name": name}),
    )


# A column of each kind, for whoever needs to see one.
EXAMPLES: dict[str, dict[str, Any]] = {
    "integer": {"name": "age", "low": 0, "high": 120},
    "real": {"name": "height", "low": 0, "high": 250, "step": 1},
    "category": {"name": "region", "values": ["north", "south"]},
    "date": {"name": "day", "first": "2026-01-01", "last": "2026-12-31"},
    "grid": {"names": ["row", "col"], "shape": [512, 512]},
    "mesh": {"name": "code", "level": "500m"},
    "areas": {"name": "mesh", "levels": ["prefecture", "municipality", "mesh"], "table": "areas.parquet"},
}


def _example(kind: str, name: str, **parts: Fraction) -> Declaration:
    """A column with these bounds and step, as it could be declared."""
    usual = kind == "integer" and parts["step"] == 1
    numbers = {
        part: int(number) if number.denominator == 1 else show(number)
        for part, number in parts.items()
        if part != "step" or not usual
    }
    return declaration(kind, name=name, **numbers)


def name_part(kind: str, name: object) -> str:
    """The name of a column."""
    if not isinstance(name, str) or not name:
        raise DomainError(
            "a column needs a name",
            given=told(name=repr(name)),
            fix=declaration(kind, **EXAMPLES[kind]),
        )
    return name


def set_parts(column: object, **parts: object) -> None:
    """Fills a frozen column while it is made."""
    for part, value in parts.items():
        object.__setattr__(column, part, value)


__all__ = ["LARGEST", "Category", "Column", "Date", "Integer", "Real", "as_date"]


class Column:
    """One column of a domain.

    >>> age = ob.Integer("age", 0, 99)
    >>> age.size, age.code(200), age.value(99)
    (100, 99, 99)
    """

    kind: str
    name: str
    missing: Any

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the data that it is read from."""
        return (self.name,)

    @property
    def asked(self) -> tuple[str, ...]:
        """The names by which a reader may ask for a part of it."""
        return self.sources

    @property
    def size(self) -> int:
        """How many values are possible."""
        raise NotImplementedError  # pragma: no cover

    def value(self, code: int) -> Any:
        """The value that a code stands for."""
        raise NotImplementedError  # pragma: no cover

    def code(self, value: object) -> int | None:
        """The code of a value by this column's rule; None where the record is left out."""
        raise NotImplementedError  # pragma: no cover

    def to_dict(self) -> dict[str, object]:
        """The canonical form, also one `[[columns]]` table of a TOML file."""
        return write_fields(self)

    def as_record(self, columns: Columns | None) -> str | dict[str, object]:
        """Itself; or its name, where the record that it is part of lists its columns."""
        if columns is None:
            return self.to_dict()
        if columns.setdefault(self.name, self) != self:
            raise DomainError(
                f"column {self.name!r} is declared in two ways",
                given=f"{self} and {columns[self.name]}",
                needed="one declaration for each column",
            )
        return self.name

    @classmethod
    def from_record(cls, record: object, columns: Columns | None, where: str) -> Self:
        from oboro.domain.domain import column_from

        if type(record) is str and columns is not None:
            if record not in columns:
                raise DomainError(
                    f"{where} is no column of the domain",
                    given=shown(record),
                    needed=", ".join(columns) or "a domain that declares it",
                )
            found = columns[record]
        else:
            found = column_from(record)
        if not isinstance(found, cls):
            raise DomainError(
                f"{where} is of the wrong kind", given=f"a column of kind {found.kind!r}", needed=cls.__name__
            )
        return found

    @property
    def missing_code(self) -> int | None:
        """The code that stands in for a missing value, if one was declared."""
        return None if self.missing is None else self.code(self.missing)


@dataclass(frozen=True, slots=True)
class Integer(Column):
    """Whole numbers low, low + step, ..., high.

    >>> income = ob.Integer("income", 0, 10_000, step=100)
    >>> income.size, income.code(1_234), income.value(12)
    (101, 12, 1200)
    """

    name: str
    low: int
    high: int
    step: int = 1
    missing: int | None = None
    kind = "integer"

    def __init__(self, name: str, low: int, high: int, step: int = 1, missing: int | None = None) -> None:
        set_parts(
            self,
            name=name_part("integer", name),
            step=whole_part(name, "step", step),
            low=whole_part(name, "low", low),
            high=whole_part(name, "high", high),
        )
        if self.step < 1:
            raise DomainError(
                f"column {name!r} needs a positive step",
                given=told(step=f"{step}"),
                fix=declaration("integer", name=name, low=low, high=high, step=1),
            )
        check_grid("integer", name, Fraction(self.low), Fraction(self.high), Fraction(self.step))
        set_parts(
            self,
            missing=None
            if missing is None
            else inside(name, self.low, self.high, whole_part(name, "missing", missing)),
        )

    @property
    def size(self) -> int:
        return (self.high - self.low) // self.step + 1

    def value(self, code: int) -> int:
        return self.low + code * self.step

    def code(self, value: object) -> int | None:
        number = met_number(value)
        if number is None:
            return None if self.missing is None else self.code(self.missing)
        if isinstance(number, int):
            return nearest_step(number, self.low, self.high, self.step)
        double = as_double(number)
        if self.exact_in_doubles:
            return nearest_by_double(double, self.low, self.high, self.step, self.size)
        if abs(double) < 2**52:  # by its halves
            halves = (math.floor(2 * double) - 2 * self.low + self.step) // (2 * self.step)
            return max(0, min(self.size - 1, halves))
        found = whole_of(number) if isinstance(number, str) else None
        if found is None and math.isinf(double):
            return 0 if double < 0 else self.size - 1
        return nearest_step(int(double) if found is None else found, self.low, self.high, self.step)

    @property
    def exact_in_doubles(self) -> bool:
        """Whether doubles tell its values apart."""
        return max(abs(self.low), abs(self.high)) < 2**52


@dataclass(frozen=True, slots=True)
class Real(Column):
    """Real numbers on the public grid low, low + step, ..., high, all exact rationals.

    >>> kwh = ob.Real("kwh", 0, 10, step="0.1")
    >>> kwh.size, kwh.code(3.14159), kwh.value(31)
    (101, 31, 3.1)
    """

    name: str
    low: Fraction
    high: Fraction
    step: Fraction
    missing: Fraction | None = None
    kind = "real"

    def __init__(
        self, name: str, low: Number, high: Number, step: Number, missing: Number | None = None
    ) -> None:
        set_parts(
            self,
            name=name_part("real", name),
            low=rational_part(name, "low", low),
            high=rational_part(name, "high", high),
            step=positive("step", step),
        )
        check_grid("real", name, self.low, self.high, self.step)
        for which in (
            "low",
            "high",
            "step",
        ):  # codes come from doubles: x - low and x / step must not run over
            usable(f"{which} of column {name!r}", getattr(self, which), (-150, 150))
        set_parts(
            self,
            missing=None
            if missing is None
            else inside(name, self.low, self.high, rational("missing", missing)),
        )

    @property
    def size(self) -> int:
        return int((self.high - self.low) / self.step) + 1

    def value(self, code: int) -> float:
        return float(self.low + code * self.step)

    def code(self, value: object) -> int | None:
        number = met_number(value)
        if number is None:
            return None if self.missing is None else self.code(self.missing)
        low, high, step = float(self.low), float(self.high), float(self.step)
        return nearest_by_double(as_double(number), low, high, step, self.size)


@dataclass(frozen=True, slots=True)
class Category(Column):
    """One of the declared values, all texts or all whole numbers.

    >>> region = ob.Category("region", ["north", "south", "unknown"], missing="unknown")
    >>> region.code("south"), region.code("the moon")
    (1, 2)
    """

    name: str
    values: tuple[str, ...] | tuple[int, ...]
    missing: str | int | None = None
    kind = "category"

    @takes(values=list_of)
    def __init__(self, name: str, values: Iterable[str | int], missing: str | int | None = None) -> None:
        declared = tuple(values)
        name_part("category", name)
        texts = all(isinstance(value, str) for value in declared)
        numbers = all(isinstance(value, int) and not isinstance(value, bool) for value in declared)
        if not declared or not (texts or numbers) or len(set(declared)) != len(declared):
            raise DomainError(
                f"column {name!r} needs its possible values",
                given=told(values=repr(values)),
                needed="different texts, or different whole numbers, known without looking at the data",
                fix=declaration("category", name=name, values=["north", "south"]),
            )
        if missing is not None and not (isinstance(missing, str | int) and missing in declared):
            raise DomainError(
                f"column {name!r}: missing must be one of its values",
                given=told(missing=repr(missing)),
                needed="one of the declared values",
                fix=setting(missing=declared[0]),
            )
        set_parts(self, name=name, values=declared, missing=missing)

    @property
    def size(self) -> int:
        return len(self.values)

    def value(self, code: int) -> str | int:
        return self.values[code]

    def code(self, value: object) -> int | None:
        if isinstance(self.values[0], int):
            value = self._whole(met_number(value))
        elif type(value) is not str:  # of another class, or with a comparison of its own
            value = str.__str__(value) if isinstance(value, str) else None
        if value in self.values:
            return self.values.index(value)
        return None if self.missing is None else self.values.index(self.missing)

    def _whole(self, number: int | float | str | None) -> int | None:
        """The whole number that it is. From 2^53 on doubles do not tell whole numbers apart: there a text must say it in digits."""
        if number is None or isinstance(number, int):
            return number
        double = as_double(number)
        if isinstance(number, str) and not (abs(double) < 2**53 or self.exact_in_doubles):
            return whole_of(number)
        return int(double) if double.is_integer() else None

    @property
    def exact_in_doubles(self) -> bool:
        """Whether doubles tell its values apart, if they are whole numbers."""
        return all(isinstance(value, int) and abs(value) < 2**53 for value in self.values)


@dataclass(frozen=True, slots=True)
class Date(Column):
    """Days from `first` to `last`. A time of day is left off.

    A time with a zone counts on the day that clocks of its zone show: the zone of its column in Arrow, pandas, Polars and
    Parquet files written from them, UTC in DuckDB and other Parquet files, and in text the day as it is written.

    >>> day = ob.Date("day", "2026-01-01", "2026-12-31")
    >>> day.size, day.code("2026-02-01"), day.value(31)
    (365, 31, datetime.date(2026, 2, 1))
    """

    name: str
    first: date
    last: date
    missing: date | None = None
    kind = "date"

    def __init__(
        self, name: str, first: date | str, last: date | str, missing: date | str | None = None
    ) -> None:
        set_parts(
            self,
            name=name_part("date", name),
            first=as_date(name, "first", first),
            last=as_date(name, "last", last),
            missing=None,
        )
        if self.last < self.first:
            raise BoundsError(
                f"column {name!r} ends before it begins",
                given=told(first=f"{self.first}", last=f"{self.last}"),
                needed="first on or before last",
                fix=declaration("date", name=name, first=str(self.last), last=str(self.first)),
            )
        if missing is not None:
            set_parts(self, missing=inside(name, self.first, self.last, as_date(name, "missing", missing)))

    @property
    def size(self) -> int:
        return (self.last - self.first).days + 1

    def value(self, code: int) -> date:
        return self.first + timedelta(days=code)

    def code(self, value: object) -> int | None:
        try:
            day = as_date(self.name, "value", value)
        except Exception:  # whatever an object in the data may do when it is asked for its day
            return None if self.missing is None else self.code(self.missing)
        return (min(max(day, self.first), self.last) - self.first).days
