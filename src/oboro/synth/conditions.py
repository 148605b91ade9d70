"""Conditions on what is drawn from a model: which values of a column are wanted.

They are read by public facts alone. What lies beyond the bounds of a column has no records: of a range what is within them is meant, and a value beyond
them, or a range with nothing in it, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import ceil, floor, isinf
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.domain.places import place_of, places_of
from oboro.domain.spellings import COLUMN, HIGH, LOW, VALUE, meant_spans, meant_value, spelt
from oboro.errors import ParameterError, Setting, setting, told
from oboro.exact import show
from oboro.kinds import nearest, shown, takes
from oboro.synth.codes import code_count


@dataclass(frozen=True, slots=True)
class Wanted:
    """Disjoint ranges [start, stop) of codes, in order."""

    start: Integers
    stop: Integers


@takes(where=Mapping)
def wanted_codes(domain: Domain, where: Mapping[str, object] | None = None) -> dict[int, Wanted]:
    """For each column named: one value, a list of values, a tuple (lowest, highest) of a number or date, or None for missing.

    Either end of a tuple may be None: then there is none.
    """
    found = {}
    for name, given in (where or {}).items():
        value = given.tolist() if isinstance(given, np.ndarray) else given
        if name not in domain.names:
            raise _no_column(domain, name, value)
        wanted = _wanted(domain[name], value)
        if wanted is None:
            raise _not_there(domain[name], value)
        found[domain.names.index(name)] = wanted
    return found


def in_normal_form(domain: Domain, wanted: Mapping[int, Wanted]) -> dict[int, Wanted]:
    """The same conditions in the one way that a mark writes them: no range touches the next, and what holds for all values is none.

    A condition that could be written in several ways could tell something by the way that was taken.
    """
    found, totals = {}, {total for total, _ in domain.rules.sums}
    for place, one in wanted.items():
        apart = one.start[1:] > one.stop[:-1]
        joined = Wanted(one.start[np.append(True, apart)], one.stop[np.append(apart, True)])
        column = domain.columns[place]
        if column.name in totals or not is_everything(
            joined, column
        ):  # a condition on a sum is refused later
            found[place] = joined
    return found


def is_everything(wanted: Wanted, column: Column) -> bool:
    """Whether all that a column can hold is wanted."""
    return bool(wanted.start[0] == 0 and wanted.stop[0] == code_count(column))


def _wanted(column: Column, value: object) -> Wanted | None:
    if isinstance(value, tuple) and not isinstance(column, Category):
        span = _span(column, *value) if len(value) == 2 else None
        return None if span is None else Wanted(np.array([span[0]]), np.array([span[1]]))
    if isinstance(value, range) and not isinstance(column, Category):
        picked = places_of(column, value, "where")
        if picked is None or picked.step == 1:
            return None if picked is None else Wanted(np.array([picked[0]]), np.array([picked[-1] + 1]))
        apart = np.arange(picked[0], picked[-1] + 1, picked.step, dtype=np.int64)
        return Wanted(apart, apart + 1)
    if isinstance(value, range):
        value = list(value[: column.size + 1])  # one more than there can be is none of them
    values = value if isinstance(value, list | set | tuple) else [value]
    found = [_code(column, one) for one in values]
    codes = [code for code in found if code is not None]
    if not codes or len(codes) < len(found):
        return None
    distinct = np.unique(codes).astype(np.int64)
    return Wanted(distinct, distinct + 1)


def _span(column: Column, low: object, high: object) -> tuple[int, int] | None:
    """The codes from one value to another, as far as there are any; None where there are none."""
    lowest, highest = (0, column.size - 1)
    for end, is_low in ((low, True), (high, False)):
        beyond = _infinite(end)
        if end is None or beyond == (-1 if is_low else 1):
            continue
        place = place_of(column, end)
        if beyond or place is None:
            return None
        if is_low:
            lowest = max(lowest, ceil(place))
        else:
            highest = min(highest, floor(place))
    return (lowest, highest + 1) if lowest <= highest else None


def _infinite(end: object) -> int:
    """1 above every number, -1 below, 0 for all else."""
    try:
        number = float(end)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0
    return (number > 0) - (number < 0) if isinf(number) else 0


def _code(column: Column, value: object) -> int | None:
    if value is None:
        return column.size if code_count(column) > column.size else None
    if isinstance(column, Category):
        return column.code(value) if value in column.values else None
    place = place_of(column, value)
    if place is None or place.denominator != 1 or not 0 <= place < column.size:
        return None
    return int(place)


# As they are typed.


def read_conditions(domain: Domain, texts: Sequence[str]) -> dict[str, Any]:
    """Conditions that are typed: one condition for each column."""
    found: dict[str, Any] = {}
    for text in texts:
        name, value = _read_condition(domain, text)
        if name in found and name in domain.names:
            raise ParameterError(
                f"column {name!r} has two conditions",
                given=conditions({name: found[name]}) + ", " + conditions({name: value}),
                needed="one condition for each column; several values stand in one, with commas between them",
                fix=setting(where={name: _both(found[name], value)}),
            )
        found[name] = value
    return found


def _both(one: Any, other: Any) -> Any:
    """What two conditions on a column may have meant: any of their values, or from the one end to the other."""
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *(value for value in other if value not in one)]
    if isinstance(one, tuple) and isinstance(other, tuple):
        ends = [[end for end in pair if end is not None] for pair in zip(one, other, strict=True)]
        if all(len(given) == 1 for given in ends):
            return ends[0][0], ends[1][0]
    return LOW, HIGH


_SIGN = re.compile(r"[!\u2260=<>~:]+")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


def _read_condition(domain: Domain, text: str) -> tuple[str, Any]:
    """COLUMN=VALUE, COLUMN=VALUE,VALUE, or COLUMN=LOW..HIGH of a number or date, where either end may be left out; an empty value means missing."""
    # the longest name that it begins with: a name may hold the sign itself
    names = [one for one in domain.names if text.startswith(f"{one}=")]
    name = max(names, key=len) if names else text.partition("=")[0]
    body = text[len(name) + 1 :]
    if (
        name not in domain.names
        or text == name
        or (body[:1] in tuple("<>=") and domain[name].kind != "category")
    ):
        column, said = _named(domain, text)
        if column is not None:
            raise _no_condition(text, {column.name: _meant(column, said)})
        if "=" not in text:
            start, *rest = _SIGN.split(spelt(text), maxsplit=1)
            close = nearest(start.strip(), domain.names)
            said = spelt(text)[len(start) :] if rest else ""
            raise _no_condition(
                text, {COLUMN: VALUE} if close is None else {close: _meant(domain[close], said)}
            )
        return name, body.split(",")
    column = domain[name]
    if body == "":
        return name, None
    if column.kind in ("integer", "real") and _THOUSANDS.fullmatch(body) and ",0" in body:
        raise _no_condition(text, {name: _meant(column, body)})  # 8,000 is one number, not 8 and 0
    for dots in ("..", ":") if column.kind != "category" else ():  # LOW:HIGH is the older spelling
        if body.count(dots) == 1:
            low, high = (end.strip() or None for end in body.split(dots))
            return name, (low, high)
    values: list[Any] = [body] if body in getattr(column, "values", ()) else body.split(",")
    if column.kind == "category" and isinstance(column.value(0), int):
        values = [int(value) if re.fullmatch("-?[0-9]+", value) else value for value in values]
    return name, values


def _named(domain: Domain, text: str) -> tuple[Column | None, str]:
    """The longest column that a condition begins with, however its signs are written, and what it says of it."""
    typed = spelt(text)
    for column in sorted(domain, key=lambda one: -len(one.name)):
        rest = typed.removeprefix(spelt(column.name)).lstrip()
        if typed.startswith(spelt(column.name)) and (not rest or _SIGN.match(rest)):
            return column, rest
    return None, ""


def _no_condition(text: str, meant: dict[str, Any]) -> ParameterError:
    return ParameterError(
        "the condition is not understood",
        given=told(where=text),
        needed="COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH",
        fix=conditions(meant),
    )


def _meant(column: Column, given: object) -> Any:
    """What a condition that cannot be read may have said; else how one is written: any other would be another condition."""
    if isinstance(given, str) and not (given := re.sub("^(?:=(?![<>])|:)+", "", given).strip()):
        return VALUE if isinstance(column, Category) else (LOW, HIGH)
    values = list(given) if isinstance(given, list | set) else [given]
    if isinstance(column, Category):
        if isinstance(given, str):
            texts = map(spelt, map(str, column.values))
            values = [given] if spelt(given) in texts else re.split("[,、]", given)
        elif isinstance(given, tuple):
            values = list(given)
        found = [meant_value(column, one) for one in values[:_MOST_SHOWN]]
        kept = [VALUE if one is None else one for one in found] or [VALUE]
        return kept if len(kept) > 1 else kept[0]
    spans = [meant_spans(column, one) for one in values[:_MOST_SHOWN]]
    if not spans or None in spans or len(values) > _MOST_SHOWN:
        return LOW, HIGH
    low_high = [one for several in spans for one in several or ()]
    if all(low is not None and low == high for low, high in low_high):
        codes = [_value(column, low or 0) for low, _ in low_high]
        return codes if len(codes) > 1 else codes[0]
    if len(low_high) > 1:
        return LOW, HIGH
    low, high = low_high[0]
    bounds = (
        (None, None) if isinstance(given, tuple) else (0, column.size - 1)
    )  # an end that was left out stays so
    return tuple(
        None if code is None else _value(column, code)
        for code in (bounds[0] if low is None else low, bounds[1] if high is None else high)
    )


# What is said of them.

_MOST_SHOWN = 8  # values of one condition


def conditions(where: Mapping[str, object]) -> Setting:
    """Conditions as they were set, in an error; long ones are cut."""
    return setting(where={name: _cut(value) for name, value in where.items()})


def _cut(value: object) -> object:
    if not isinstance(value, list | set | range):
        return value
    values = list(islice(value, _MOST_SHOWN + 1))  # a range may be of any length
    return values if len(values) <= _MOST_SHOWN else [*values[:_MOST_SHOWN], ...]


def where_of(wanted: Mapping[int, Wanted], domain: Domain) -> dict[str, object]:
    """The conditions that codes come from."""
    found: dict[str, object] = {}
    for place, one in wanted.items():
        column, parts = domain.columns[place], list[object]()
        for start, stop in zip(one.start.tolist(), one.stop.tolist(), strict=True):
            if stop - start == 1 or isinstance(column, Category):
                parts += [_value(column, code) for code in range(start, stop)]
            else:
                parts.append((_value(column, start), _value(column, min(stop, column.size) - 1)))
        found[column.name] = parts[0] if len(parts) == 1 else parts
    return found


def _value(column: Column, code: int) -> object:
    """A value as it is written in Python and on a command line."""
    if code >= column.size:
        return None
    return str(column.value(code)) if isinstance(column, Date) else column.value(code)


def _no_column(domain: Domain, name: object, value: object) -> ParameterError:
    fix, close = None, nearest(name, domain.names)
    if close is not None:  # a condition on any other column would be another question
        column = domain[close]
        fix = setting(where={close: value if _wanted(column, value) is not None else _meant(column, value)})
    return ParameterError(
        f"the model has no column {shown(name)}" + (f": did you mean {close!r}?" if close else ""),
        given=conditions({name if isinstance(name, str) else shown(name): value}),
        needed=f"columns of the model: {', '.join(domain.names)}",
        fix=fix,
    )


def _not_there(column: Column, value: object) -> ParameterError:
    if isinstance(column, Category):
        more = len(column.values) - _MOST_SHOWN
        listed = ", ".join(map(str, column.values[:_MOST_SHOWN])) + (", ..." if more > 0 else "")
        needed = f"one or more of the values {listed}"
    elif isinstance(column, Date):
        needed = f"days, or a range of them, from {column.first} to {column.last}"
    else:
        assert isinstance(column, Integer | Real)
        low, high, step = (show(Fraction(one)) for one in (column.low, column.high, column.step))
        needed = f"values, or a range of them, from {low} to {high} in steps of {step}"
    return ParameterError(
        f"column {column.name!r} has no such value",
        given=conditions({column.name: value}),
        needed=needed,
        fix=setting(where={column.name: _meant(column, value)}),
    )
