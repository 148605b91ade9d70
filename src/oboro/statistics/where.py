"""Conditions: which rows a question is about, as tests of codes. `parsing` reads them from a text.

Values are put on the public grid first, so a condition is about codes. A row of which a column in the
condition is left out is left out, whatever the rest of the condition says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from oboro.domain import Column, Domain
from oboro.engine import Source, code_sql
from oboro.errors import DomainError
from oboro.kinds import shown
from oboro.records import Columns

_TRIED = 20_000  # combinations of codes that are tried for an example
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Test:
    """One column's code against one code: =, !=, < or >=. `text` is how it was meant."""

    column: Column
    op: str
    code: int
    text: str

    def __str__(self) -> str:
        return self.text

    def sql(self, types: Mapping[str, str]) -> str:
        return f"({code_sql(self.column, types[self.column.name])}) {self.op} {self.code}"

    def holds(self, codes: Mapping[str, int]) -> bool:
        return _TESTS[self.op](codes[self.column.name], self.code)

    def tests(self) -> Iterator[Test]:
        yield self


@dataclass(frozen=True, slots=True)
class Junction:
    """Several conditions joined by "and" or "or", or one with "not"."""

    word: str
    parts: tuple[Test | Junction, ...]

    def __str__(self) -> str:
        inner = [f"({part})" if isinstance(part, Junction) else str(part) for part in self.parts]
        return f"not {inner[0]}" if self.word == "not" else f" {self.word} ".join(inner)

    def sql(self, types: Mapping[str, str]) -> str:
        inner = [f"({part.sql(types)})" for part in self.parts]
        return f"NOT {inner[0]}" if self.word == "not" else f" {self.word.upper()} ".join(inner)

    def holds(self, codes: Mapping[str, int]) -> bool:
        values = (part.holds(codes) for part in self.parts)
        return not next(values) if self.word == "not" else (all if self.word == "and" else any)(values)

    def tests(self) -> Iterator[Test]:
        for part in self.parts:
            yield from part.tests()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was understood, with the columns that it uses."""

    tree: Test | Junction

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple({test.column.name: test.column for test in self.tree.tests()}.values())

    def sql(self, source: Source) -> str:
        """True for the rows that are meant; null or false for all others. Nothing in it can fail."""
        source.need(*[column.name for column in self.columns])
        known = [f"({code_sql(column, source.types[column.name])}) IS NOT NULL" for column in self.columns]
        return " AND ".join([*known, f"({self.tree.sql(source.types)})"])

    def as_record(self, columns: Columns | None) -> str:
        """Its text; the columns that it uses are gathered."""
        for column in self.columns:
            column.as_record(columns)
        return str(self)

    @classmethod
    def from_record(cls, record: str, columns: Columns | None, where: str) -> Condition:
        from oboro.statistics.arguments import parse

        if not columns:
            raise DomainError(
                f"{where} needs the columns that it is about", given=shown(record), needed="a domain"
            )
        return parse(record, Domain(columns.values()))

    @property
    def opposite(self) -> Condition:
        """Holds where this does not, but for rows that are left out of both."""
        return Condition(Junction("not", (self.tree,)))

    def and_also(self, other: Condition) -> Condition:
        return Condition(Junction("and", (self.tree, other.tree)))

    def examples(self) -> Iterator[dict[str, int]]:
        """Codes for which it holds, tried at the places where something changes."""
        places: dict[str, set[int]] = {}
        for test in self.tree.tests():
            near = {0, test.column.size - 1, test.code - 1, test.code, test.code + 1}
            inside = {code for code in near if 0 <= code < test.column.size}
            places.setdefault(test.column.name, set()).update(inside)
        for codes in islice(product(*(sorted(codes) for codes in places.values())), _TRIED):
            assigned = dict(zip(places, codes, strict=True))
            if self.tree.holds(assigned):
                yield assigned

    def __str__(self) -> str:
        return str(self.tree)
