"""Columns: what values are possible, said in public, never read off the data.

Each column maps every conceivable value to a code 0, 1, ..., size - 1, or leaves the record out, by one rule
that is the same for all records:

    a number beyond a bound      counts as the bound (infinity too)
    a number between two steps   goes to the nearest step, upwards if it is half way
    a value that is missing, not a number, not a date, or not among the declared values
                                 is replaced by `missing`; by default the record is left out
                                 of every answer that uses the column
Nothing of this raises an error or leaves a trace in a release. `check` commands tell the steward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from oboro.errors import BoundsError, DomainError
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import list_of, takes

LARGEST = 2**62


class Column:
    """One column of a domain."""

    kind: str
    name: str
    missing: Any

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the data that it is read from."""
        return (self.name,)

    @property
    def size(self) -> int:
        """How many values are possible."""
        raise NotImplementedError  # pragma: no cover

    def value(self, code: int) -> Any:
        """The value that a code stands for."""
        raise NotImplementedError  # pragma: no cover

    def code(self, value: Any) -> int | None:
        """The code of a value by this column's rule; None where the record is left out."""
        raise NotImplementedError  # pragma: no cover

    def to_dict(self) -> dict[str, Any]:
        """The canonical form, also one `[[columns]]` table of a TOML file."""
        raise NotImplementedError  # pragma: no cover

    @property
    def missing_code(self) -> int | None:
        """The code that stands in for a missing value, if one was declared."""
        return None if self.missing is None else self.code(self.missing)


@dataclass(frozen=True, slots=True)
class Integer(Column):
    """Whole numbers low, low + step, ..., high."""

    name: str
    low: int
    high: int
    step: int = 1
    missing: int | None = None
    kind = "integer"

    def __init__(self, name: str, low: int, high: int, step: int = 1, missing: int | None = None) -> None:
        _set(
            self,
            name=_name(name),
            step=_whole(name, "step", step),
            low=_whole(name, "low", low),
            high=_whole(name, "high", high),
        )
        if self.step < 1:
            raise DomainError(
                f"column {name!r} needs a positive step",
                given=f"step={step}",
                fix=f'Integer("{name}", {low}, {high}, step=1)',
            )
        _check_grid(name, Fraction(self.low), Fraction(self.high), Fraction(self.step))
        _set(
            self,
            missing=None
            if missing is None
            else _inside(name, self.low, self.high, _whole(name, "missing", missing)),
        )

    @property
    def size(self) -> int:
        return (self.high - self.low) // self.step + 1

    def value(self, code: int) -> int:
        return self.low + code * self.step

    def code(self, value: Any) -> int | None:
        number = _number(value)
        if number is None:
            return None if self.missing is None else self.code(self.missing)
        return _nearest(number, Fraction(self.low), Fraction(self.high), Fraction(self.step))

    def to_dict(self) -> dict[str, Any]:
        record = {"kind": self.kind, "name": self.name, "low": self.low, "high": self.high}
        return record | ({"step": self.step} if self.step != 1 else {}) | _declared(self.missing)


@dataclass(frozen=True, slots=True)
class Real(Column):
    """Real numbers on the public grid low, low + step, ..., high, all exact rationals."""

    name: str
    low: Fraction
    high: Fraction
    step: Fraction
    missing: Fraction | None = None
    kind = "real"

    def __init__(
        self, name: str, low: Number, high: Number, step: Number, missing: Number | None = None
    ) -> None:
        _set(
            self,
            name=_name(name),
            low=_rational(name, "low", low),
            high=_rational(name, "high", high),
            step=positive("step", step),
        )
        _check_grid(name, self.low, self.high, self.step)
        _set(
            self,
            missing=None
            if missing is None
            else _inside(name, self.low, self.high, rational("missing", missing)),
        )

    @property
    def size(self) -> int:
        return int((self.high - self.low) / self.step) + 1

    def value(self, code: int) -> float:
        return float(self.low + code * self.step)

    def code(self, value: Any) -> int | None:
        number = _number(value)
        if number is None:
            return None if self.missing is None else self.code(self.missing)
        return _nearest(number, self.low, self.high, self.step)

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {"kind": self.kind, "name": self.name}
        record |= {"low": show(self.low), "high": show(self.high), "step": show(self.step)}
        return record | _declared(None if self.missing is None else show(self.missing))


@dataclass(frozen=True, slots=True)
class Category(Column):
    """One of the declared values, all texts or all whole numbers."""

    name: str
    values: tuple[str, ...] | tuple[int, ...]
    missing: str | int | None = None
    kind = "category"

    @takes(values=list_of)
    def __init__(self, name: str, values: Iterable[str | int], missing: str | int | None = None) -> None:
        declared = tuple(values)
        _name(name)
        texts = all(isinstance(value, str) for value in declared)
        numbers = all(isinstance(value, int) and not isinstance(value, bool) for value in declared)
        if not declared or not (texts or numbers) or len(set(declared)) != len(declared):
            raise DomainError(
                f"column {name!r} needs its possible values",
                given=f"values={values!r}",
                needed="different texts, or different whole numbers, known without looking at the data",
                fix=f'Category("{name}", ["north", "south"])',
            )
        if missing is not None and missing not in declared:
            raise DomainError(
                f"column {name!r}: missing must be one of its values",
                given=f"missing={missing!r}",
                needed="one of the declared values",
                fix=f"missing={declared[0]!r}",
            )
        _set(self, name=name, values=declared, missing=missing)

    @property
    def size(self) -> int:
        return len(self.values)

    def value(self, code: int) -> str | int:
        return self.values[code]

    def code(self, value: Any) -> int | None:
        if isinstance(self.values[0], int):
            number = _number(value)
            value = int(number) if number is not None and number.denominator == 1 else None
        if value in self.values:
            return self.values.index(value)
        return None if self.missing is None else self.values.index(self.missing)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "values": list(self.values)} | _declared(self.missing)


@dataclass(frozen=True, slots=True)
class Date(Column):
    """Days from `first` to `last`. A time of day is left off."""

    name: str
    first: date
    last: date
    missing: date | None = None
    kind = "date"

    def __init__(
        self, name: str, first: date | str, last: date | str, missing: date | str | None = None
    ) -> None:
        _set(
            self,
            name=_name(name),
            first=as_date(name, "first", first),
            last=as_date(name, "last", last),
            missing=None,
        )
        if self.last < self.first:
            raise BoundsError(
                f"column {name!r} ends before it begins",
                given=f"first={self.first}, last={self.last}",
                needed="first on or before last",
                fix=f'Date("{name}", "{self.last}", "{self.first}")',
            )
        if missing is not None:
            _set(self, missing=_inside(name, self.first, self.last, as_date(name, "missing", missing)))

    @property
    def size(self) -> int:
        return (self.last - self.first).days + 1

    def value(self, code: int) -> date:
        return self.first + timedelta(days=code)

    def code(self, value: Any) -> int | None:
        try:
            day = as_date(self.name, "value", value)
        except BoundsError:
            return None if self.missing is None else self.code(self.missing)
        return (min(max(day, self.first), self.last) - self.first).days

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {"kind": self.kind, "name": self.name}
        record |= {"first": self.first.isoformat(), "last": self.last.isoformat()}
        return record | _declared(None if self.missing is None else self.missing.isoformat())


KINDS: dict[str, Callable[..., Column]] = {
    "integer": Integer,
    "real": Real,
    "category": Category,
    "date": Date,
}
PARTS = {
    "integer": "name, low, high",
    "real": "name, low, high, step",
    "category": "name, values",
    "date": "name, first, last",
}


def column_from(record: dict[str, Any]) -> Column:
    """The column that one `[[columns]]` table describes."""
    given = dict(record) if isinstance(record, dict) else {}
    kind = given.pop("kind", None)
    if kind not in KINDS:
        raise DomainError(
            f"column {given.get('name', '?')!r} has an unknown kind",
            given=f"kind={kind!r}",
            needed=", ".join(KINDS),
            fix='[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 120',
        )
    try:
        return KINDS[kind](**given)
    except TypeError:
        raise BoundsError(
            f"column {given.get('name', '?')!r} of kind {kind!r} has wrong or missing parts",
            given=", ".join(given) or "nothing else",
            needed=PARTS[kind],
            fix='[[columns]]\nkind = "integer"\nname = "age"\nlow = 0\nhigh = 120',
        ) from None


def _check_grid(name: str, low: Fraction, high: Fraction, step: Fraction) -> None:
    if high < low:
        raise BoundsError(
            f"column {name!r} has its bounds the wrong way round",
            given=f"low={show(low)}, high={show(high)}",
            needed="low of at most high",
            fix=f'Integer("{name}", {show(high)}, {show(low)})',
        )
    steps = (high - low) / step
    if steps.denominator != 1:
        top = low + step * (steps.numerator // steps.denominator)
        raise BoundsError(
            f"column {name!r}: the step does not lead from low to high",
            given=f"low={show(low)}, high={show(high)}, step={show(step)}",
            needed="high - low a multiple of step",
            fix=f"high={show(top)}",
        )
    if steps + 1 > LARGEST:
        raise DomainError(
            f"column {name!r} has too many values",
            given=f"{steps + 1}",
            needed="at most 2^62",
            fix="a larger step",
        )


def _nearest(number: Fraction, low: Fraction, high: Fraction, step: Fraction) -> int:
    inside = min(max(number, low), high)
    return int((inside - low) / step + Fraction(1, 2))


def _number(value: Any) -> Fraction | None:
    """A number as an exact rational; bounds take care of infinity; None if it is no number."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return Fraction(10**40 if value > 0 else -(10**40))
    try:
        return rational("value", int(value) if isinstance(value, bool) else value)
    except ValueError:
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
            given=f"{which}={value!r}",
            needed="a date such as 2026-01-31",
            fix=f'{which}="2026-01-31"',
        ) from None


def _inside(name: str, low: Any, high: Any, value: Any) -> Any:
    if not low <= value <= high:
        raise DomainError(
            f"column {name!r}: missing lies outside the bounds",
            given=f"missing={value}",
            needed=f"{low} to {high}",
            fix=f"missing={low}",
        )
    return value


def _whole(name: str, which: str, value: Any) -> int:
    if value is None:
        raise _no_bounds(name, which)
    return whole(f"{which} of column {name!r}", value, least=-LARGEST, most=LARGEST)


def _rational(name: str, which: str, value: Any) -> Fraction:
    if value is None:
        raise _no_bounds(name, which)
    return rational(f"{which} of column {name!r}", value)


def _no_bounds(name: str, which: str) -> BoundsError:
    return BoundsError(
        f"column {name!r} has no bounds",
        given=f"{which}=None",
        needed="the smallest and largest value that count, known without looking at the data",
        fix=f'ob.Integer("{name}", 0, 120)',
    )


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise DomainError("a column needs a name", given=f"name={name!r}", fix='Integer("age", 0, 120)')
    return name


def _declared(missing: Any) -> dict[str, Any]:
    return {} if missing is None else {"missing": missing}


def _set(column: Column, **fields: Any) -> None:
    for field, value in fields.items():
        object.__setattr__(column, field, value)
