"""What is known of records without looking at them, beyond the values of each column: combinations that cannot occur, totals, sums.

    [[impossible]]           # in the file of a domain: no record meets all of these conditions at once
    work = "retired"
    age = "..29"

    [known.sex]              # how many records there are with this value, public from elsewhere
    f = 2700

    [sums]                   # this column is the sum of those
    income = ["wages", "rent"]

A condition names a value, a list of values, or of a number or date a range "LOW..HIGH" with both ends, where either may be left out. What is missing meets
no condition. All of it is public: it goes out with every plan, and nothing here is read off data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from oboro.domain.columns import Category, Column, Date, Integer, Real
from oboro.errors import DomainError, InputError, told
from oboro.exact import rational, show
from oboro.files import reads
from oboro.kinds import nearest, shown

Range = tuple[int, int]  # codes [start, stop)
Condition = tuple[tuple[str, tuple[Range, ...]], ...]
RULES = ("impossible", "known", "sums")


@dataclass(frozen=True, slots=True)
class Rules:
    """Conditions and totals by code, columns by name: as `rules_of` reads them."""

    impossible: tuple[Condition, ...] = ()
    known: tuple[
        tuple[str, tuple[tuple[int, int], ...]], ...
    ] = ()  # column, and (code, records) of its values
    sums: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def only(self, names: Sequence[str]) -> Rules:
        """Those that speak of these columns alone. What names a column that is not there cannot be broken."""
        kept = set(names)
        return Rules(
            tuple(one for one in self.impossible if {name for name, _ in one} <= kept),
            tuple(one for one in self.known if one[0] in kept),
            tuple((total, parts) for total, parts in self.sums if {total, *parts} <= kept),
        )

    def to_dict(self, columns: Mapping[str, Column]) -> dict[str, object]:
        """As a file declares them; what is not declared is left out."""
        record: dict[str, object] = {}
        if self.impossible:
            record["impossible"] = [
                {name: _written(columns[name], ranges) for name, ranges in one} for one in self.impossible
            ]
        if self.known:
            record["known"] = {
                name: {str(columns[name].value(code)): count for code, count in totals}
                for name, totals in self.known
            }
        if self.sums:
            record["sums"] = {total: list(parts) for total, parts in self.sums}
        return record


def rules_of(columns: Sequence[Column], impossible: Any = None, known: Any = None, sums: Any = None) -> Rules:
    """The rules that were declared, or refused where they cannot hold together."""
    by_name = {column.name: column for column in columns}
    conditions = _conditions(impossible, list(by_name))
    places = {name: _places(by_name[name]) for name in {n for one in conditions for n in one} & {*by_name}}
    found = Rules(
        tuple(_condition(one, by_name, places) for one in conditions),
        tuple(_totals(name, totals, by_name) for name, totals in _mapping("known", known)),
        tuple(_sum(total, parts, by_name) for total, parts in _mapping("sums", sums)),
    )
    totals = [total for total, _ in found.sums]
    used = [name for one in found.impossible for name, _ in one] + [name for name, _ in found.known]
    used += [name for _, parts in found.sums for name in parts]
    for name in totals:
        if totals.count(name) > 1 or name in used:
            raise DomainError(
                f"column {name!r} is the sum of others, and nothing else can be said of it",
                given=told(sums=f"{{{name!r}: ...}}") + ", and another rule that names it",
                needed="rules for the columns that it is the sum of",
                argument="sums",
            )
    return found


def _mapping(name: str, given: Any) -> list[tuple[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given):
        raise DomainError(
            f"{name} is not understood",
            given=told(**{name: shown(given)}),
            needed="what is said of each column, by its name",
            argument=name,
        )
    return list(given.items())


def _conditions(given: Any, names: Sequence[str]) -> list[Mapping[str, object]]:
    """A list of conditions; or a table, each row of which is one: an Arrow table, or the path of a CSV file."""
    if given is None:
        return []
    if isinstance(given, str | Path):
        given = _table(Path(given), names)
    rows = given.to_pylist() if hasattr(given, "to_pylist") else given
    rows = [rows] if isinstance(rows, Mapping) else rows
    named = list(getattr(given, "column_names", ()))  # of two columns of one name a row would keep one
    rows = None if len(set(named)) < len(named) else rows
    if not isinstance(rows, list | tuple) or not all(isinstance(one, Mapping) and one for one in rows):
        raise DomainError(
            "impossible is not understood",
            given=told(impossible=shown(given)),
            needed="conditions that no record meets all at once, by column",
            argument="impossible",
        )
    return list(rows)


def _table(path: Path, names: Sequence[str]) -> Any:
    """Its cells as they are written: 01 is not 1."""
    import pyarrow as pa
    import pyarrow.csv as csv

    reads(path)
    as_written = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    try:
        return csv.read_csv(path, convert_options=as_written)
    except (OSError, ValueError):
        raise DomainError(
            f"{path} holds no combinations",
            given=told(impossible=str(path)),
            needed="a CSV file with a column for each column that it speaks of, and a row for each combination",
            argument="impossible",
        ) from None


def _known_column(name: object, columns: Mapping[str, Column], argument: str) -> Column:
    if not isinstance(name, str) or name not in columns:
        close = nearest(name, columns)
        raise DomainError(
            f"column {shown(name)} is not declared" + (f": did you mean {close!r}?" if close else ""),
            given=told(**{argument: shown(name)}),
            needed="columns of the domain: " + ", ".join(columns),
            argument=argument,
        )
    return columns[name]


def _condition(
    given: Mapping[str, object], columns: Mapping[str, Column], places: Mapping[str, Mapping[str, int]]
) -> Condition:
    found = {}
    for name, value in given.items():
        column = _known_column(name, columns, "impossible")
        if not isinstance(column, Integer | Real | Category | Date):
            raise _not_understood(column, value)
        found[name] = ranges_of(column, value, places[name])
    return tuple((name, found[name]) for name in columns if name in found)  # in the order of the domain


def _places(column: Column) -> dict[str, int]:
    """The code of each value of a column of categories, by its text: looked up once for all conditions."""
    if not isinstance(column, Category):
        return {}
    return {str(value): code for code, value in reversed(list(enumerate(column.values)))}


def ranges_of(column: Column, value: object, places: Mapping[str, int]) -> tuple[Range, ...]:
    """The codes that a condition on one column means, as ranges that neither touch nor overlap."""
    pair = isinstance(value, tuple) and not isinstance(column, Category)
    values = [value] if pair or not isinstance(value, list | set | tuple | range) else list(value)
    found: list[Range] = []
    for start, stop in sorted(_range(column, one, places) for one in values):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    if not found:
        raise _not_understood(column, value)
    return tuple(found)


def _range(column: Column, value: object, places: Mapping[str, int]) -> Range:
    if isinstance(column, Category):
        as_text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        code = None if isinstance(value, bool) else places.get(as_text)
        if code is None:
            raise _not_understood(column, value)
        return code, code + 1
    if isinstance(value, tuple):
        ends: Sequence[object] = value
    elif isinstance(value, str) and value.count("..") == 1:
        ends = [end.strip() or None for end in value.split("..")]
    else:
        ends = (value, value) if value is not None else ()
    if len(ends) != 2:
        raise _not_understood(column, value)
    lowest, highest, step = _grid(column)
    try:
        low, high = (
            edge if end is None else _number(column, end)
            for end, edge in zip(ends, (lowest, highest), strict=True)
        )
    except InputError:
        raise _not_understood(column, value) from None
    start, stop = math.ceil((low - lowest) / step), math.floor((high - lowest) / step) + 1
    if start >= stop or start < 0 or stop > column.size:
        raise _not_understood(column, value)
    return start, stop


def _grid(column: Column) -> tuple[Any, Any, Any]:
    if isinstance(column, Date):
        return column.first.toordinal(), column.last.toordinal(), rational("step", 1)
    assert isinstance(column, Integer | Real)
    return rational("low", column.low), rational("high", column.high), rational("step", column.step)


def _number(column: Column, end: object) -> Any:
    if not isinstance(column, Date):
        return rational(column.name, end)
    try:
        return (end if isinstance(end, date) else date.fromisoformat(str(end))).toordinal()
    except ValueError:
        raise _not_understood(column, end) from None


def _not_understood(column: Column, value: object) -> DomainError:
    return DomainError(
        f"column {column.name!r} has no such value",
        given=told(impossible=f"{{{column.name!r}: {value!r}}}"),
        needed='values of the domain, or of a number or date a range such as "..29" within its bounds; what is missing meets no condition',
        argument="impossible",
    )


def _written(column: Column, ranges: Iterable[Range]) -> object:
    if isinstance(column, Category):
        return [column.value(code) for start, stop in ranges for code in range(start, stop)]
    return [f"{_exactly(column, start)}..{_exactly(column, stop - 1)}" for start, stop in ranges]


def _exactly(column: Column, code: int) -> str:
    """The value of a code as it is read back: a third is 1/3, not the number nearest to it."""
    if isinstance(column, Date):
        return str(column.value(code))
    lowest, _, step = _grid(column)
    return show(lowest + code * step)


def _totals(name: str, given: Any, columns: Mapping[str, Column]) -> tuple[str, tuple[tuple[int, int], ...]]:
    column = _known_column(name, columns, "known")
    said = dict(given) if isinstance(column, Category) and isinstance(given, Mapping) else {}
    places = _places(column)
    try:
        counts = {_range(column, value, places)[0]: count for value, count in said.items()}
    except DomainError:  # it speaks of conditions
        counts = {}
    fine = all(type(count) is int and 0 <= count < 2**38 for count in said.values())
    if not fine or len(counts) < len(said) or not any(counts.values()):
        raise DomainError(
            f"the known totals of {name!r} are not understood",
            given=told(known=shown({name: given})),
            needed="for values of a column of categories, each once, how many records there are: whole numbers from 0, not all 0",
            argument="known",
        )
    return name, tuple(sorted(counts.items()))


def _sum(total: str, given: Any, columns: Mapping[str, Column]) -> tuple[str, tuple[str, ...]]:
    names = (total, *given) if isinstance(given, list | tuple) else ()
    if len(names) < 3 or len(set(map(str, names))) < len(names):
        raise DomainError(
            f"it is not understood which columns {total!r} is the sum of",
            given=told(sums=shown({total: given})),
            needed="two columns or more, each once",
            argument="sums",
        )
    whole, *parts = (_known_column(name, columns, "sums") for name in names)
    why = _why_no_sum(whole, parts)
    if why:
        raise DomainError(
            f"column {total!r} cannot be the sum of {', '.join(map(str, given))}",
            given=told(sums=shown({total: list(given)})) + f"; {why}",
            needed="every sum of possible values is a possible value of the total",
            argument="sums",
        )
    return total, tuple(given)


def _why_no_sum(whole: Column, parts: Sequence[Column]) -> str | None:
    if not all(isinstance(column, Integer | Real) for column in (whole, *parts)):
        return "not all of them are numbers"
    lowest, highest, step = _grid(whole)
    grids = [_grid(part) for part in parts]
    low, high = (
        sum(one[0] for one in grids),
        sum(one[0] + (part.size - 1) * one[2] for one, part in zip(grids, parts, strict=True)),
    )
    if low < lowest or high > highest:
        return f"their sums go from {low} to {high}, its values from {lowest} to {highest}"
    if any(
        ((one - base) / step).denominator != 1
        for one, base in ((low, lowest), *((grid[2], 0) for grid in grids))
    ):
        return "their steps lead between its steps"
    if whole.missing_code is not None and any(part.missing_code is None for part in parts):
        return f"{whole.name} declares what stands in for missing values, and not all of its parts do"
    return None
