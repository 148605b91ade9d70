"""What every engine does: the protocol between oboro and whatever holds the data.

Callers say what they want in the words of this page; an engine says how. DuckDB (duck.py) and Apache Spark (cluster.py) speak it.
A third is one module and the conformance suite, tests/engine/conformance.py: the same integers on the same data.

    need            refuses a column that is not there, or whose type cannot be read safely: public facts
    count units     rows, or different persons
    add up          sums of codes and of their products, for each group, of the rows that count
    count persons   how many persons have a row in each group, each in so many groups at most
    count cells     how many of them fall into each combination of codes
    count ticks     the same over time: of each person one row a tick, in the first so many ticks
    stream codes    the codes of each of them
    stream keys     cells that are counted already, with their counts
    all codes       one row of codes for each row of the data, in its order, where it has one
    check           for the steward's eyes

A row counts if no column leaves it out, the condition holds, it belongs to somebody (for a unit of persons), and it is among the
`max_rows` that are kept of that person. Which are kept follows from `order_of`, alike in every engine.

Nothing of this raises, warns, logs or takes another shape because of a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import md5
from math import floor, prod
from typing import Any, ClassVar, Protocol, TypeVar

import numpy.typing as npt

from oboro.arrays import Bools, Floats, Integers
from oboro.domain import Column, Domain
from oboro.errors import DataError, DomainError, ParameterError, UnitError, setting, told
from oboro.kinds import each_of, nearest, shown, takes
from oboro.privacy import Unit
from oboro.separators import Header

T = TypeVar("T")
Runs = tuple[tuple[int, int], ...]  # the first code of a run of codes that share a bin, and the bin; in order
Binned = tuple[
    Column, Runs, int
]  # a column, how its codes fall into bins (none: each is its own), how many bins there are
Term = tuple[int, ...]  # which columns are multiplied; () is a count
MOST_ROWS = 2**38  # more than any table has; sums of so many rows fit


class Condition(Protocol):
    """Which rows a question is about: tests of codes, joined. It stays a condition until an engine meets it."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it uses."""

    @property
    def needed(self) -> tuple[Column, ...]:
        """Those of which a row that they leave out is left out: all but those that it may ask to be null."""

    def fold(self, test: Callable[[Column, str, int], T], join: Callable[[str, list[T]], T]) -> T:
        """What an engine makes of it: of each test (=, !=, <, >= a code, or null: whether there is none), and of what "and", "or" and "not" join."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A column of the data that is no column of the domain by itself: whole numbers from 0 to `size` - 1, as they stand."""

    name: str
    size: int


Field = Column | Whole


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine can do, and what it cannot: public facts. One whose rows have an order says so by its type, `Ordered`."""

    widest: int  # bits of a sum
    most_kept: int | None = None  # rows of a person that a limit may keep; None for any number


class Source(ABC):
    """An open table: its columns with their types, and what can be asked of it.

    >>> source.types, source.limits.widest
    ({'age': 'VARCHAR', 'sex': 'VARCHAR'}, 127)
    """

    types: Mapping[str, str]
    limits: ClassVar[Limits]
    header: Header | None = None  # of a text file

    @property
    @abstractmethod
    def engine(self) -> str:
        """Its name and version, for the certificate."""

    @abstractmethod
    def unreadable(self, name: str) -> bool:
        """Whether values of a column's type could raise, or mean something else elsewhere."""

    @abstractmethod
    def count_units(self, unit: Unit) -> int:
        """How many rows or persons there are, counted once."""

    @abstractmethod
    def add_up(
        self,
        columns: Sequence[Column],
        terms: Sequence[Term],
        unit: Unit,
        by: Sequence[Column],
        condition: Condition | None,
    ) -> dict[int, list[int]]:
        """The sum of each term, for each group that has rows."""

    @abstractmethod
    def count_cells(
        self, fields: Sequence[Field], unit: Unit, condition: Condition | None
    ) -> tuple[Integers, Integers]:
        """Cells as mixed-radix numbers, in any order, and how many rows each has."""

    @abstractmethod
    def count_persons(
        self, by: Sequence[Binned], unit: Unit, most: int, condition: Condition | None
    ) -> dict[int, int]:
        """How many persons have a row in each group; of a person in more groups than `most` the first in the order below."""

    @abstractmethod
    def count_ticks(self, fields: Sequence[Field], unit: Unit, most: int) -> tuple[Integers, Integers]:
        """As `count_cells`, of one row a tick, the first field, of each person, in the first `most` ticks that hold that person."""

    @abstractmethod
    def stream_codes(
        self,
        columns: Sequence[Column],
        unit: Unit,
        condition: Condition | None = None,
        by: Sequence[Column] = (),
        *,
        keep: bool = False,
    ) -> Iterator[Integers]:
        """Rows that count, some at a time, in any order: the codes of the columns, and with `by` the number of the group.

        With `keep` no column leaves a row out: its code is then the column's size.
        """

    @abstractmethod
    def stream_keys(
        self, fields: Sequence[Field], count: str | None, most: int
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """Records with a count above 0, some at a time: an array for each field, and one of counts of at most `most`.

        A count by the rule of tables/input.py; without a column of counts each record counts 1. An engine may add up records of
        one cell where that column is given, up to `most`.
        """

    @abstractmethod
    def check(self, columns: Sequence[Column]) -> list[dict[str, object]]:
        """For the steward's eyes: rows, and how many values are missing, unknown, below and above the bounds."""

    @abstractmethod
    def check_keys(self, fields: Sequence[tuple[str, Field]], count: str | None, most: int) -> dict[str, int]:
        """For the steward's eyes: how many records each rule of tables/input.py applies to."""

    @abstractmethod
    def without_rows(self, units: Mapping[str | None, int] | None = None) -> Source:
        """The same columns and no row: what a dry run looks at. `units`: how many there are said to be, by whose a row is."""

    def in_turn(self) -> AbstractContextManager[None]:
        """Around all that a question reads: threads that ask at once wait for one another, where the engine needs that."""
        return nullcontext()

    def need(self, *names: str) -> None:
        """Refuses if a column is not there, or cannot be read."""
        for name in names:
            if not isinstance(name, str) or name not in self.types:
                raise self.lacks(name)
            if self.unreadable(name):
                raise DataError(
                    f"column {name!r} has a type that cannot be read safely",
                    given=self.types[name],
                    needed="text, numbers, dates or times with a date",
                    fix=f"write column {name!r} as text",
                )

    def check_separator(self, wanted: Collection[str] | None = None, argument: str | None = None) -> None:
        """Refuses a text file of which another separator gives more of the wanted columns; or, where none are asked for, more than one."""
        if self.header is not None:
            self.header.check(wanted, argument)

    def lacks(self, name: str, *, hidden: bool = False) -> DataError:
        """The error for a column that is not there; with `hidden` it does not say which are."""
        close = None if hidden else nearest(name, self.types)
        every = f"a first line of {len(self.types)} names"
        return DataError(
            f"the data has no column {name!r}" + (f": did you mean {close!r}?" if close else ""),
            given=every if hidden else f"columns: {', '.join(self.types) or 'none'}",
            needed=shown(name),
            fix=f"name the column {close!r}" if close else f"a file with a column {name!r}",
        )

    def person(self, unit: Unit) -> str:
        """The column that says whose a row is."""
        if unit.kind != "person" or unit.column is None:
            raise UnitError(
                "rows are counted for a unit of rows or persons",
                given=str(unit),
                needed="a unit of rows or persons",
                fix=setting(unit=Unit.row()),
            )
        self.need(unit.column)
        self.check_kept(unit.contributions)
        return unit.column

    def check_kept(self, kept: int) -> None:
        """Refuses a limit that is more than the engine can keep of a person."""
        most = self.limits.most_kept
        if most is not None and kept > most:
            raise UnitError(
                f"{self.engine} keeps at most {most:,} rows of a person",
                given=f"{kept:,}",
                needed=f"at most {most:,}",
                fix=setting(max_rows=most),
            )


class Ordered(Source):
    """A table whose rows have an order: what can be asked of it besides. `in_order` refuses any other, by its type."""

    @abstractmethod
    def all_codes(
        self, columns: Sequence[Column], unit: Unit, condition: Condition | None
    ) -> tuple[Integers, Bools, Integers | None]:
        """For every row of the data, in its order: its codes, -1 where a column leaves it out; whether the condition holds and it
        belongs to somebody; and for a unit of persons a number for whose it is."""

    @abstractmethod
    def doubles(self, names: Sequence[str]) -> Floats:
        """The columns as doubles, in the order of the rows; nan for what is missing or no number."""


def in_order(source: Source) -> Ordered:
    """The same source, if its rows have an order."""
    if not isinstance(source, Ordered):
        raise DataError(
            f"rows of {source.engine} have no order",
            given="a table of a cluster",
            needed="data whose rows have an order: a file, or a table in memory",
            fix="write the columns that are needed to a Parquet file",
        )
    return source


# Which rows of a person are kept: those that come first in this order. It is computed alike in every engine, from the person's word,
# the codes of the row, and which copy of an equal row it is. Whole-number arithmetic below 2^63
# alone, so that nothing overflows. No secrecy is asked of it, only that it depends on that person's rows alone and spreads what
# is kept evenly. Where two rows come out the same, codes and copies decide.

WORD = 2**31 - 1  # a prime, and 31 bits
FACTOR = 950_706_376
MIXED = ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 0x7FEB352D))


def order_of(person: int, codes: Sequence[int], copy: int) -> int:
    """The place of a row in the order: the rule that each engine computes. Equal rows are numbered from 1."""
    place = 1
    for word in (person, *codes, copy):
        place = (place + word % WORD) * FACTOR % WORD
    for shift, factor in MIXED:
        place = ((place ^ (place >> shift)) * factor) & WORD
    return place


def word_of(person: int | float | str | bytes) -> int:
    """The word of a person. Of a whole number its rest; of a double that of a whole number near it; else 31 bits of a hash of its text."""
    if isinstance(person, float):
        near = person * 4096 if abs(person) < 2**40 else person if abs(person) < 2**62 else 0
        return floor(near) % WORD
    if isinstance(person, int):
        return person % WORD
    known = person.encode() if isinstance(person, str) else person
    return int(md5(known, usedforsecurity=False).hexdigest()[:8], 16) & WORD


def source_of(name: str, value: object) -> Source:
    """Data that was opened, or the call that opens it."""
    if isinstance(value, Source):
        return value
    raise ParameterError(
        f"{name} is not opened yet",
        given=told(**{name: shown(value)}),
        needed="what ob.engine.open_data gives",
        fix=told(**{name: "ob.engine.open_data(data)"}),
        argument=name,
    )


# The verbs, for callers: what public facts rule out is refused here, once for all engines, and threads take turns.


@takes(source=source_of, unit=Unit)
def count_units(source: Source, unit: Unit) -> int:
    """How many units there are, counted once: public under "replace", private otherwise.

    >>> ob.engine.count_units(source, ob.Unit.row())
    4
    """
    with source.in_turn():
        return source.count_units(unit)


def add_up(
    source: Source,
    columns: Sequence[Column],
    terms: Sequence[Term],
    unit: Unit,
    *,
    by: Sequence[Column] = (),
    condition: Condition | None = None,
) -> dict[int, list[int]]:
    """For each group, by its mixed-radix number: the sum over its rows of each term. Groups without rows are absent.

    (0,) is the sum of the first column's codes, (0, 1) that of the products of the first two, () the count.

    >>> added = ob.engine.add_up(source, columns, [(0,), ()], ob.Unit.row(), by=columns[1:])
    >>> added == {0: [31, 1], 1: [153, 2]}
    True
    """
    check_width(columns, terms, source.limits.widest)
    need_fields(source, (*columns, *by), condition)
    with source.in_turn():
        return source.add_up(columns, terms, unit, by, condition)


def count_cells(
    source: Source, fields: Sequence[Field], unit: Unit, condition: Condition | None = None
) -> tuple[Integers, Integers]:
    """How many rows fall into each combination of codes: (cells, counts), cells as mixed-radix numbers.

    Only rows for which `condition` holds, and at most `max_rows` of each person.

    >>> cells, counts = ob.engine.count_cells(source, columns[1:], ob.Unit.row())
    >>> sorted(zip(cells.tolist(), counts.tolist()))
    [(0, 2), (1, 2)]
    """
    need_fields(source, fields, condition)
    if all(isinstance(field, Column) for field in fields):
        Domain([field for field in fields if isinstance(field, Column)]).cells  # noqa: B018  # refuses more than an integer can number
    with source.in_turn():
        return source.count_cells(fields, unit, condition)


def count_persons(
    source: Source,
    by: Sequence[Binned],
    unit: Unit,
    *,
    most: int,
    condition: Condition | None = None,
) -> dict[int, int]:
    """How many persons have a row in each group, by its mixed-radix number; each in at most `most` groups.

    `by` is a column, how its codes fall into bins (none: each is its own), and how many bins there are. Of a person in
    more groups than `most` so many are kept, by an order of the person and the group, which depends on that
    person's rows alone.

    >>> visits = ob.engine.open_data({"who": ["a", "a", "b", None], "sex": ["f", "f", "m", "m"]})
    >>> persons = ob.Unit.person("who", 5)
    >>> ob.engine.count_persons(visits, [(columns[1], (), 2)], persons, most=1) == {0: 1, 1: 1}
    True
    """
    need_fields(source, [column for column, _, _ in by], condition)
    source.check_kept(most)
    with source.in_turn():
        return source.count_persons(by, unit, most, condition)


def count_ticks(
    source: Source, fields: Sequence[Field], unit: Unit, *, most: int
) -> tuple[Integers, Integers]:
    """How many persons are in each combination of codes, the first of which is a tick: (cells, counts).

    Of each person one row counts in a tick, the first by the order of the person and the row, and only in the first `most`
    ticks in which that person has a row with every field. So what counts up to a tick follows from the rows up to it.

    >>> seen = ob.engine.open_data({"who": ["a", "a", "a", "b"], "tick": [0, 0, 1, 1], "sex": ["f", "m", "f", "m"]})
    >>> fields = [ob.engine.protocol.Whole("tick", 24), columns[1]]
    >>> cells, counts = ob.engine.count_ticks(seen, fields, ob.Unit.person("who", 1), most=1)
    >>> sorted((cells // 2).tolist()), counts.tolist()
    ([0, 1], [1, 1])
    """
    need_fields(source, fields)
    source.check_kept(most)
    with source.in_turn():
        return source.count_ticks(fields, unit, most)


def stream_codes(
    source: Source,
    columns: Sequence[Column],
    unit: Unit,
    condition: Condition | None = None,
    by: Sequence[Column] = (),
    *,
    keep: bool = False,
) -> Iterator[Integers]:
    """The codes of the rows that count, some rows at a time; with `by` a last column is the number of the group.

    >>> [codes.tolist() for codes in ob.engine.stream_codes(source, columns[1:], ob.Unit.row())]
    [[[0], [1], [1], [0]]]
    """
    need_fields(source, (*columns, *by), condition)
    return _in_turn(source, lambda: source.stream_codes(columns, unit, condition, by, keep=keep))


def _in_turn(source: Source, stream: Callable[[], Iterator[Integers]]) -> Iterator[Integers]:
    """A stream, from its first batch to its last."""
    with source.in_turn():
        yield from stream()


@takes(source=source_of, columns=each_of(Column))
def check_columns(source: Source, columns: Sequence[Column]) -> list[dict[str, object]]:
    """For the steward's eyes: how many values of each column are missing or out of bounds. Not private.

    >>> for found in ob.engine.check_columns(source, columns):
    ...     print(found)
    {'column': 'age', 'rows': 4, 'missing': 1, 'unknown': 0, 'below': 0, 'above': 1}
    {'column': 'sex', 'rows': 4, 'missing': 0, 'unknown': 0, 'below': 0, 'above': 0}
    """
    need_fields(source, columns)
    with source.in_turn():
        return source.check(columns)


def check_width(columns: Sequence[Column], terms: Sequence[Term], bits: int = 127) -> None:
    """Refuses what could overflow a sum of so many bits, by public bounds alone.

    >>> ob.engine.check_width(columns, [(0, 0)])
    >>> ob.engine.check_width([ob.Integer("n", 0, 2**60)], [(0, 0)])
    Traceback (most recent call last):
        ...
    oboro.errors.DomainError: products of n are too large to add up
      given   1152921504606846977 x 1152921504606846977
      needed  at most 2^88 in all
      fix     a larger step
    """
    for term in terms:
        largest = prod(columns[i].size for i in term)
        if largest * MOST_ROWS >= 2**bits:
            names = ", ".join(dict.fromkeys(columns[i].name for i in term))
            raise DomainError(
                f"products of {names} are too large to add up",
                given=" x ".join(str(columns[i].size) for i in term),
                needed=f"at most 2^{bits - 39} in all",
                fix="a larger step",
            )


def need_fields(source: Source, fields: Sequence[Field], condition: Condition | None = None) -> None:
    """Refuses if a column is not there, cannot be read, or is of dates where places, ticks or counts are read: every record would be left out.

    The type is public, as it stands in the file or the table. A text file has none: there a wrong value is a value, and `check` counts it.
    """
    declared = (*fields, *(condition.columns if condition is not None else ()))
    source.need(*[field.name for field in declared])
    for field in declared:
        kind = source.types[field.name]
        times = kind.upper().startswith(("DATE", "TIMESTAMP"))
        if times and isinstance(field, Whole):
            raise DataError(
                f"column {field.name!r} holds dates, and whole numbers are read from it",
                given=f"{field.name}: {kind}",
                needed="a column of numbers",
                fix=f"write column {field.name!r} as numbers",
            )
