"""A first draft of a domain, made by looking at data. Looking is not private: the draft is to be edited from knowledge.

What is drafted is a file, not a domain: it carries marks, and nothing reads it as a domain while one is left. Bounds are round
numbers beyond the extremes: of 1, 2, 5, 10, 20, ... the next that is larger, so that no extreme stands in the file.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from oboro.domain import Category, Column, Date, Integer, Real
from oboro.domain.domain import DRAFT_HEADER, DRAFT_RARE
from oboro.engine import open_data
from oboro.engine.codes import quoted
from oboro.engine.duck import DuckTable, on_this_machine, texts
from oboro.engine.memory import unreadable
from oboro.exact import rational
from oboro.files import write_whole
from oboro.kinds import path_of, takes
from oboro.records import Record

if TYPE_CHECKING:
    from oboro.arrays import Data

WARNING = (
    "made by looking at the data, which is not private: set bounds and values from what is known without it"
)
MOST_VALUES = 100  # a text column with more has no draft
RARE = 10  # a value that fewer rows hold may tell of them: it is marked
RARE_MARK = f"{DRAFT_RARE} {RARE} rows. Keep it only if it is known without the data"
_STEPS = 1000
_LARGEST = 10**100  # in size: beyond it, and below its inverse, there is no draft


@dataclass(frozen=True, slots=True)
class Draft:
    """What was written. It holds no domain: that is for somebody who knows to make of it."""

    path: Path
    columns: tuple[str, ...]
    left_out: tuple[str, ...]  # nothing could be guessed of these
    rare: int  # values with a mark


@takes(path=path_of)
def draft(data: Data, path: str | Path) -> Draft:
    """Writes a draft as TOML, with a warning on top, and a mark at every value that few rows hold.

    >>> _ = ob.synth.draft(data, "draft.toml")
    >>> from pathlib import Path
    >>> Path("draft.toml").read_text().splitlines()[0]
    '# A draft, made by looking at the data, which is not private: set bounds and values from what is known without it.'
    """
    source = on_this_machine(open_data(data), "a draft")
    found = {name: _guess(source, name) for name in source.types}
    columns = [column for column in found.values() if column is not None]
    left_out = tuple(name for name, column in found.items() if column is None)
    rare = {column.name: _rare_values(source, column) for column in columns if isinstance(column, Category)}
    lines = [
        f"# A draft, {WARNING}.",
        DRAFT_HEADER,
        *(f"# left out, say what is possible: {_spelled(name)}" for name in left_out),
        "draft = true",
        "",
        *(line for column in columns for line in _written(column, rare.get(column.name, ()))),
    ]
    write_whole(Path(path), "\n".join(lines).encode())
    return Draft(Path(path), tuple(c.name for c in columns), left_out, sum(map(len, rare.values())))


def _rare_values(source: DuckTable, column: Category) -> set[str]:
    """Values that fewer than ten rows hold."""
    query = (
        f"SELECT CAST({quoted(column.name)} AS VARCHAR) AS v FROM {source.relation} "
        f"WHERE v IS NOT NULL GROUP BY v HAVING count(*) < {RARE}"
    )
    return {str(value) for value in texts(source, query) if value in column.values}


def _written(column: Column, rare: Collection[str]) -> list[str]:
    """One `[[columns]]` table, with a mark behind each rare value."""
    import tomli_w

    record: Record = column.to_dict()
    values = record.pop("values", None)
    lines = ["[[columns]]", *tomli_w.dumps(record).splitlines()]
    if values is not None:
        each = [f"    {_spelled(value)}," + (f"  {RARE_MARK}" if value in rare else "") for value in values]
        lines += ["values = [", *each, "]"]
    return [*lines, ""]


def _spelled(text: str) -> str:
    """As it stands in a TOML file."""
    import tomli_w

    written: str = tomli_w.dumps({"v": text})
    return written.strip().removeprefix("v = ")


def _guess(source: DuckTable, name: str) -> Column | None:
    """A column that fits all values that there are, or None."""
    if unreadable(source.types[name]):
        return None
    field = quoted(name)
    # trim would raise on a text that is not UTF-8
    text = f"CASE WHEN replace(CAST({field} AS VARCHAR), ' ', '') != '' THEN CAST({field} AS VARCHAR) END"
    number, day = f"TRY_CAST({text} AS DOUBLE)", f"TRY_CAST({text} AS DATE)"
    query = (
        f"SELECT count({text}), count({number}), min({number}), max({number}), "
        f"count(*) FILTER ({number} = floor({number}) AND abs({number}) < {2**53}), "
        f"count({day}) FILTER (isfinite({day}) AND year({day}) BETWEEN 1 AND 9999), min({day})::VARCHAR, max({day})::VARCHAR, "
        f"count(DISTINCT {text}) FROM {source.relation}"
    )
    known, numbers, low, high, wholes, days, first, last, distinct = source.connection.execute(
        query
    ).fetchone()
    if known == 0:
        return None
    if numbers == known:
        return _numeric(name, low, high, whole=wholes == known)
    if days == known:
        return Date(name, *_decades(date.fromisoformat(first), date.fromisoformat(last)))
    if distinct > MOST_VALUES:
        return None
    rows = texts(
        source, f"SELECT DISTINCT CAST({field} AS VARCHAR) FROM {source.relation} WHERE {text} IS NOT NULL"
    )
    return Category(name, sorted(row for row in rows if row is not None))


def _numeric(name: str, low: float, high: float, *, whole: bool) -> Column | None:
    if not max(abs(low), abs(high)) < _LARGEST:  # infinity and nan too
        return None
    bottom, top = -_beyond(-low) if low < 0 else Fraction(0), _beyond(high) if high >= 0 else Fraction(0)
    if whole:
        return Integer(name, int(bottom), int(max(top, bottom + 1)))
    if top - bottom < Fraction(1, _LARGEST):
        return None
    step = Fraction(1)
    while step * _STEPS > top - bottom:
        step /= 10
    while step * 10 * _STEPS <= top - bottom:
        step *= 10
    low_end = min(bottom, -step) if bottom else bottom  # a bound far smaller than the other is a step away
    high_end = max(top, step) if top else top
    return Real(name, low_end, high_end, step)


def _beyond(size: float) -> Fraction:
    """The next of 1, 2, 5 and their tenfolds and tenths that is larger than a number that is not negative."""
    power = Fraction(1)
    exact = rational("size", size)  # as it prints
    while exact and power > exact and power * _LARGEST > 1:
        power /= 10
    while True:
        for digit in (1, 2, 5):
            if power * digit > exact:
                return power * digit
        power *= 10


def _decades(first: date, last: date) -> tuple[date, date]:
    """Whole decades, with a day to spare on either side."""
    before = first.toordinal() - 1
    start = date.fromordinal(max(before, 1)).year // 10 * 10
    end = date.fromordinal(min(last.toordinal() + 1, date.max.toordinal())).year // 10 * 10 + 9
    return date(max(start, 1), 1, 1), date(end, 12, 31)
