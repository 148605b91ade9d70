"""A first draft of a domain, made by looking at data. Looking is not private: the draft is to be edited from knowledge.

What is drafted is a file, not a domain: it carries marks, and nothing reads it as a domain while one is left. Bounds are round
numbers beyond the extremes: of 1, 2, 5, 10, 20, ... the next that is larger, so that no extreme stands in the file. What a draft takes for
a number or a day is what a release reads as one; where the values look like more than that, a comment says so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from oboro.domain import Category, Column, Date, Integer, Real
from oboro.domain.domain import DRAFT_HEADER, DRAFT_RARE
from oboro.domain.grammar import double_of
from oboro.engine import open_data
from oboro.engine.codes import bare_sql, base_type, day_sql, double_sql, quoted
from oboro.engine.duck import DuckTable, on_this_machine, texts
from oboro.engine.memory import unreadable
from oboro.errors import ParameterError, setting, told
from oboro.exact import rational
from oboro.files import next_to, write_whole
from oboro.kinds import path_of, takes
from oboro.records import Record
from oboro.synth.codes import code_like

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
    said: dict[str, str]  # of columns: why they are left out, or what is not read as it may seem


@takes(path=path_of)
def draft(data: Data, path: str | Path) -> Draft:
    """Writes a draft as TOML, with a warning on top, and a mark at every value that few rows hold. Replaces nothing but a draft.

    >>> _ = ob.synth.draft(data, "draft.toml")
    >>> from pathlib import Path
    >>> Path("draft.toml").read_text().splitlines()[0]
    '# A draft, made by looking at the data, which is not private: set bounds and values from what is known without it.'
    """
    _spare(Path(path))
    source = on_this_machine(open_data(data), "a draft")
    source.check_separator()
    found = {name: _guess(source, name) for name in source.types}
    columns = [guess.column for guess in found.values() if guess.column is not None]
    left_out = tuple(name for name, guess in found.items() if guess.column is None)
    said = {name: guess.said for name, guess in found.items() if guess.said is not None}
    rare = {column.name: _rare_values(source, column) for column in columns if isinstance(column, Category)}
    lines = [
        f"# A draft, {WARNING}.",
        DRAFT_HEADER,
        *(
            f"# left out, say what is possible: {_spelled(name)}"
            + (f" ({said[name]})" if said.get(name, MANY) != MANY else "")
            for name in left_out
        ),
        "draft = true",
        "",
        *(
            line
            for name, guess in found.items()
            if guess.column is not None
            for line in _written(guess.column, rare.get(name, ()), guess)
        ),
    ]
    write_whole(Path(path), "\n".join(lines).encode())
    return Draft(Path(path), tuple(c.name for c in columns), left_out, sum(map(len, rare.values())), said)


def _spare(output: Path) -> None:
    """A draft replaces a draft, and nothing that somebody has made: a domain that was edited, or data."""
    if not output.is_file():
        return
    lines = output.read_bytes().decode("utf-8", "replace").splitlines()
    if "draft = true" not in lines and DRAFT_HEADER not in lines:
        raise ParameterError(
            f"{output} is there, and is no draft",
            given=told(output=str(output)),
            needed="a new name, or that of a draft",
            fix=setting(output=next_to(output)),
        )


def _rare_values(source: DuckTable, column: Category) -> set[str]:
    """Values that fewer than ten rows hold."""
    query = (
        f"SELECT CAST({quoted(column.name)} AS VARCHAR) AS v FROM {source.relation} "
        f"WHERE v IS NOT NULL GROUP BY v HAVING count(*) < {RARE}"
    )
    return {str(value) for value in texts(source, query) if value in column.values}


def _written(column: Column, rare: Collection[str], guess: Guess) -> list[str]:
    """One `[[columns]]` table, with a mark behind each rare value."""
    import tomli_w

    record: Record = column.to_dict()
    values = record.pop("values", None)
    notes = [f"# {note}" for note in (guess.said, ROUNDED if guess.rounded else None) if note]
    lines = ["[[columns]]", *notes, *tomli_w.dumps(record).splitlines()]
    if values is not None:
        each = [f"    {_spelled(value)}," + (f"  {RARE_MARK}" if value in rare else "") for value in values]
        lines += ["values = [", *each, "]"]
    return [*lines, ""]


def _spelled(text: str) -> str:
    """As it stands in a TOML file."""
    import tomli_w

    written: str = tomli_w.dumps({"v": text})
    return written.strip().removeprefix("v = ")


# Shapes that mean something to a reader and that no release reads, with what is said of them.
UNREAD_DATES = "dates that are not read: write them as 2013-10-22"
UNREAD_NUMBERS = (
    "numbers that are not read: write them as 1234.5, without separators, signs of units or wide digits"
)
CODES = "codes with leading zeros are kept as texts: 01 is not 1"
MANY_CODES = (
    f"more than {MOST_VALUES} different codes; with leading zeros they are kept as texts: 01 is not 1"
)
NOT_UTF8 = "texts that are not UTF-8 are not read: save the file as UTF-8"
TIMES = "the time of day is not read"
IDENTIFIERS = "every row has a number of its own: leave the column out if it is an identifier"
MANY = "too many different texts, or nothing in it"
# in the file alone: it holds for most columns of measurements
ROUNDED = "values are finer than this step, and are rounded to it"

_DATE_LIKE = re.compile(
    r"\d{4}[-/.\u5e74]\s*\d{1,2}[-/.\u6708]\s*\d{1,2}\u65e5?(?:[ T].*)?|\d{1,2}[-/.]\s*\d{1,2}[-/.]\s*\d{4}(?:[ T].*)?"
)
_UNITS = re.compile(r"[,'_\s%$\u20ac\u00a3\u00a5\u5186\u4eba]")  # euro, pound, yen and its sign, persons


@dataclass(frozen=True, slots=True)
class Guess:
    """A column that a release reads as it is drafted, or None; and what is to be said of it."""

    column: Column | None
    said: str | None = None
    rounded: bool = False


def _guess(source: DuckTable, name: str) -> Guess:
    """A column that fits all values that there are. A value is what a release makes of it: by the same SQL."""
    if unreadable(source.types[name]):
        return Guess(None, MANY)
    base, field = base_type(source.types[name]), quoted(name)
    # trim would raise on a text that is not UTF-8
    text = f"CASE WHEN replace(CAST({field} AS VARCHAR), ' ', '') != '' THEN CAST({field} AS VARCHAR) END"
    # what is not a number (nan) is missing to a release; true and false are words to a reader
    number, day = double_sql(field, base) if base != "BOOLEAN" else "NULL::DOUBLE", day_sql(field, base)
    query = (
        f"SELECT count({text}), count({number}), count(*) FILTER (isnan({number})), "
        f"min({number}) FILTER (NOT isnan({number})), max({number}) FILTER (NOT isnan({number})), "
        f"count(*) FILTER ({number} = floor({number}) AND abs({number}) < {2**53}), "
        f"count(*) FILTER ({code_like(text)}), count(*) FILTER (length({text}) > 10), "
        f"count({day}) FILTER (isfinite({day}) AND year({day}) BETWEEN 1 AND 9999), min({day})::VARCHAR, max({day})::VARCHAR, "
        f"count(DISTINCT {text}) FROM {source.relation}"
    )
    known, numbers, nans, low, high, wholes, codes, timed, days, first, last, distinct = (
        source.connection.execute(query).fetchone()
    )
    if known == 0:
        return Guess(None, MANY)
    coded = bool(codes) and base == "VARCHAR"
    if numbers == known and not coded:
        column = None if nans == known else _numeric(name, low, high, whole=wholes == known - nans)
        if isinstance(column, Real):
            steps = f"{number} / {float(column.step)!r}"
            off = f"SELECT count(*) FILTER (abs({steps} - round({steps})) > 1e-6) FROM {source.relation}"
            return Guess(column, rounded=source.connection.execute(off).fetchone() != (0,))
        alone = column is not None and distinct == known > MOST_VALUES
        return Guess(column, IDENTIFIERS if alone else None)
    if days == known:
        decades = _decades(date.fromisoformat(first), date.fromisoformat(last))
        return Guess(Date(name, *decades), TIMES if timed else None)
    few = distinct <= MOST_VALUES
    some = f"SELECT DISTINCT {text} AS v FROM {source.relation} WHERE v IS NOT NULL" + (
        "" if few else " LIMIT 1000"
    )
    rows = [row for row in texts(source, some) if row is not None]
    if all(map(_date_like, rows)):  # nobody wants days as a list of words
        return Guess(None, UNREAD_DATES)
    codes_alone = coded and numbers == known
    said = CODES if codes_alone else UNREAD_NUMBERS if all(map(_number_like, rows)) else None
    if not few:  # numbers that are not read would have a draft if they were: that is what to say of them
        return Guess(None, MANY_CODES if codes_alone else said or MANY)
    drafted = Category(name, sorted(rows))
    read = f"{some} AND ({bare_sql(drafted, field, base)}) IS NOT NULL"
    values = [row for row in texts(source, read) if row is not None]
    if len(values) == len(rows):
        return Guess(drafted, said)
    return Guess(Category(name, sorted(values)) if values else None, NOT_UTF8)


def _date_like(text: str) -> bool:
    return _DATE_LIKE.fullmatch(unicodedata.normalize("NFKC", text).strip()) is not None


def _number_like(text: str) -> bool:
    return double_of(_UNITS.sub("", unicodedata.normalize("NFKC", text))) is not None


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
