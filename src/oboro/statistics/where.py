"""Conditions: which rows a question is about, as tests of codes; and how they are read from a text.

    age >= 20 and (region = 'north' or not income < 1000)
    region in ('north', 'south')        day >= '2026-04-01'        age = 20..39, both ends included        age is null

Declared columns are compared with constants, nothing else: no arithmetic, no functions, nothing that could fail
on a value. Each constant is checked against its column when the condition is written.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import islice, product
from typing import TypeVar

from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.errors import DomainError, ParameterError
from oboro.exact import rational, show
from oboro.kinds import nearest, shown
from oboro.records import Columns

# Values are put on the public grid first, so a condition is about codes. A row of which a column in the
# condition is left out is left out, whatever the rest of the condition says; but where the condition asks whether it is null,
# comparisons with it are neither true nor false, as in SQL. A column with a value for what is missing is never null.

T = TypeVar("T")
NULL = "null"
_TRIED = 20_000  # combinations of codes that are tried for an example
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Test:
    """One column's code against one code: =, !=, < or >=; or whether it has none: null. `text` is how it was meant."""

    column: Column
    op: str
    code: int
    text: str

    def __str__(self) -> str:
        return self.text

    def fold(self, test: Callable[[Column, str, int], T], join: Callable[[str, list[T]], T]) -> T:
        return test(self.column, self.op, self.code)

    def holds(self, codes: Mapping[str, int]) -> bool:
        return self.op != NULL and _TESTS[self.op](codes[self.column.name], self.code)

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

    def fold(self, test: Callable[[Column, str, int], T], join: Callable[[str, list[T]], T]) -> T:
        return join(self.word, [part.fold(test, join) for part in self.parts])

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

    def fold(self, test: Callable[[Column, str, int], T], join: Callable[[str, list[T]], T]) -> T:
        """What an engine makes of it: of each test, and of what "and", "or" and "not" join."""
        return self.tree.fold(test, join)

    @property
    def needed(self) -> tuple[Column, ...]:
        """The columns that a row must have to be picked: all but those that may be null."""
        free = {test.column.name for test in self.tree.tests() if test.op == NULL}
        return tuple(column for column in self.columns if column.name not in free)

    def as_record(self, columns: Columns | None) -> str:
        """Its text; the columns that it uses are gathered."""
        for column in self.columns:
            column.as_record(columns)
        return str(self)

    @classmethod
    def from_record(cls, record: str, columns: Columns | None, where: str) -> Condition:

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

    @property
    def normal(self) -> Condition:
        """The same condition in one spelling, so that what differs in words alone is one question.

        Constants are the values of the codes that are compared, "not" stands at single columns, nested parts of one word are one, and
        parts are sorted, each once. It picks the same rows: each step holds also where a comparison is neither true nor false, and no
        column is dropped.

        >>> from oboro.domain import Domain, Integer
        >>> from oboro.statistics.where import parse
        >>> ages = Domain([Integer("age", 0, 99)])
        >>> str(parse("NOT (age<18.5 or not age in (70, 30, 30))", ages).normal)
        '(age = 30 or age = 70) and age >= 19'
        """
        return Condition(_normal(self.tree, False))

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


_TOKEN = re.compile(
    r"\s*(?:(?P<op><=|>=|==|!=|<>|=|<|>)|(?P<mark>[(),]|\.\.)|(?P<number>[+-]?(?:\d[\d_]*(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w]))"
    r"|'(?P<text>(?:[^']|'')*)'|\"(?P<quoted>(?:[^\"]|\"\")*)\"|(?P<word>[^\W\d]\w*))"
)
_SAME = {"==": "=", "<>": "!="}
_DEEPEST = 50
_WORDS = ("and", "or", "not", "in", "is", "null")


def parse(text: str, domain: Domain) -> Condition:
    """The condition that `text` says, or an error that shows what is possible."""
    if not isinstance(text, str):
        raise _wrong("a condition is a text", repr(text))
    parser = _Parser(text, domain)
    tree = parser.any_of(0)
    if parser.at < len(parser.tokens):
        raise _wrong(f"the condition goes on after its end: {parser.tokens[parser.at][1]!r}", text)
    return Condition(tree)


class _Parser:
    """Recursive descent: or, and, not, comparison."""

    def __init__(self, text: str, domain: Domain) -> None:
        self.text, self.domain, self.at = text, domain, 0
        self.tokens = list(_tokens(text))

    def any_of(self, depth: int) -> Test | Junction:
        if depth > _DEEPEST:
            raise _wrong("the condition is nested too deeply", self.text)
        return self._joined("or", lambda: self._joined("and", lambda: self._one(depth)))

    def _joined(self, word: str, part: Callable[[], Test | Junction]) -> Test | Junction:
        parts = [part()]
        while self._take("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _one(self, depth: int) -> Test | Junction:
        if depth > _DEEPEST:
            raise _wrong("the condition is nested too deeply", self.text)
        if self._take("word", "not"):
            return Junction("not", (self._one(depth + 1),))
        if self._take("mark", "("):
            inner = self.any_of(depth + 1)
            self._need("mark", ")")
            return inner
        column = self.domain[self._name()]
        if self._take("word", "in"):
            return self._among(column)
        if self._take("word", "is"):
            negated = self._take("word", "not")
            self._need("word", "null")
            return Junction("not", (absent(column),)) if negated else absent(column)
        kind, op = self._next("a comparison")
        if kind != "op":
            raise _wrong(f"a comparison is missing after {column.name!r}", self.text)
        first = self._constant()
        if _SAME.get(op, op) == "=" and self._take("mark", ".."):
            return Junction("and", (compare(column, ">=", first), compare(column, "<=", self._constant())))
        return compare(column, _SAME.get(op, op), first)

    def _among(self, column: Column) -> Test | Junction:
        self._need("mark", "(")
        tests = [compare(column, "=", self._constant())]
        while self._take("mark", ","):
            tests.append(compare(column, "=", self._constant()))
        self._need("mark", ")")
        return tests[0] if len(tests) == 1 else Junction("or", tuple(tests))

    def _name(self) -> str:
        kind, value = self._next("a column")
        if kind not in ("word", "quoted"):
            raise _wrong(f"a column is needed where {value!r} stands", self.text)
        return value

    def _constant(self) -> tuple[str, str]:
        kind, value = self._next("a constant")
        if kind not in ("number", "text", "quoted"):
            raise _wrong(f"a constant is needed where {value!r} stands", self.text)
        return ("number" if kind == "number" else "text", value)

    def _next(self, what: str) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise _wrong(f"the condition ends where {what} should stand", self.text)
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, kind: str, value: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == (kind, value):
            self.at += 1
            return True
        return False

    def _need(self, kind: str, value: str) -> None:
        if not self._take(kind, value):
            raise _wrong(f"{value!r} is missing", self.text)


_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", "and": "or", "or": "and"}


def _normal(tree: Test | Junction, negated: bool) -> Test | Junction:
    if isinstance(tree, Test):
        if tree.op == NULL:
            return Junction("not", (tree,)) if negated else tree
        return _spelled(tree.column, _OPPOSITE[tree.op] if negated else tree.op, tree.code)
    if tree.word == "not":
        return _normal(tree.parts[0], not negated)
    word = _OPPOSITE[tree.word] if negated else tree.word
    parts: dict[str, Test | Junction] = {}
    for part in tree.parts:
        one = _normal(part, negated)
        inner = one.parts if isinstance(one, Junction) and one.word == word else (one,)
        parts.update((str(each), each) for each in inner)
    found = tuple(parts[text] for text in sorted(parts))
    return found[0] if len(found) == 1 else Junction(word, found)


def _spelled(column: Column, op: str, code: int) -> Test:
    """A test with the value of its code in place of whatever constant was given; beyond the last code, with the last."""
    last = column.size - 1
    said = op if code <= last else {"<": "<=", ">=": ">"}[op]
    if isinstance(column, Integer | Real):
        value = Fraction(column.low + min(code, last) * column.step)
        text = show(value)
        for places in range(
            1, 40 if "/" in text else 1
        ):  # steps of a third: a decimal above the code before it says the same
            below = Fraction(math.floor(value * 10**places), 10**places)
            if value - below < column.step:
                text = show(below)
                break
    else:
        text = str(column.value(min(code, last)))
        if not isinstance(column.value(0), int):
            text = "'" + text.replace("'", "''") + "'"
    return Test(column, op, code, f"{_named(column)} {said} {text}")


def absent(column: Column) -> Test:
    """Whether a row has no value of the column."""
    return Test(column, NULL, 0, f"{_named(column)} is null")


def _named(column: Column) -> str:
    plain = re.fullmatch(r"[^\W\d]\w*", column.name) and column.name.lower() not in _WORDS
    return column.name if plain else '"' + column.name.replace('"', '""') + '"'


def compare(column: Column, op: str, constant: tuple[str, str]) -> Test | Junction:
    """One comparison, turned into one on codes; refused if the constant is not a value that the column may have."""
    kind, value = constant
    shown = value if kind == "number" else "'" + value.replace("'", "''") + "'"
    text = f"{_named(column)} {op} {shown}"
    if isinstance(column, Category):
        return Test(column, _equality(column, op, text), _category_code(column, kind, value), text)
    place = _place(column, kind, value, text)
    if op in ("=", "!="):
        if place.denominator != 1:
            raise _not_a_value(column, text)
        return Test(column, op, int(place), text)
    # value < c if and only if its code is below the first code that is at or above c; and so on
    first_at_or_above = math.ceil(place)
    first_above = math.floor(place) + 1
    return {
        "<": Test(column, "<", first_at_or_above, text),
        ">=": Test(column, ">=", first_at_or_above, text),
        "<=": Test(column, "<", first_above, text),
        ">": Test(column, ">=", first_above, text),
    }[op]


def _place(column: Column, kind: str, value: str, text: str) -> Fraction:
    """Where a constant lies on the column's steps, as an exact rational; within its bounds."""
    if isinstance(column, Integer | Real):
        if kind != "number":
            raise _not_a_value(column, text)
        place = (rational("the constant", value) - column.low) / column.step
    elif isinstance(column, Date):
        try:
            day = date.fromisoformat(value if kind == "text" else "")
        except ValueError:
            raise _not_a_value(column, text) from None
        place = rational("the constant", (day - column.first).days)
    else:
        raise _not_a_value(column, text)
    if not 0 <= place <= column.size - 1:
        raise _not_a_value(column, text)
    return place


def _equality(column: Category, op: str, text: str) -> str:
    if op not in ("=", "!="):
        raise _wrong(f"column {column.name!r} has categories, which have no order", text)
    return op


def _category_code(column: Category, kind: str, value: str) -> int:
    wanted: str | int = value
    if isinstance(column.values[0], int):
        number = rational("the constant", value) if kind == "number" else None
        wanted = int(number) if number is not None and number.denominator == 1 else value
    if wanted not in column.values or (isinstance(column.values[0], str) and kind == "number"):
        close = nearest(value, map(str, column.values))
        raise _not_a_value(column, f"{column.name} = {value}", close)
    return list(column.values).index(wanted)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    if end == 0 or end > 4000:
        raise _wrong("the condition is empty" if end == 0 else "the condition is too long", text[:60])
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _wrong(f"the condition is not understood at {text[at : at + 12].strip()!r}", text)
        at = found.end()
        kind = str(found.lastgroup)
        value = found.group(kind)
        if kind == "word" and value.lower() in _WORDS:
            value = value.lower()
        if kind in ("text", "quoted"):
            value = value.replace("''", "'") if kind == "text" else value.replace('""', '"')
        yield kind, value


def _not_a_value(column: Column, text: str, close: str | None = None) -> ParameterError:
    first, last = column.value(0), column.value(column.size - 1)
    needed = (
        "one of " + ", ".join(repr(value) for value in column.values[:8])
        if isinstance(column, Category)
        else f"a value from {_plain(first)} to {_plain(last)}"
        + (f" in steps of {show(column.step)}" if isinstance(column, Integer | Real) else "")
    )
    shown = close or first
    example = f"'{shown}'" if isinstance(first, str | date) else _plain(shown)
    return ParameterError(
        f"the constant is not a value of column {column.name!r}"
        + (f": did you mean {close!r}?" if close else ""),
        given=text,
        needed=needed,
        fix=f"{column.name} = {example}",
    )


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrong(message: str, text: str) -> ParameterError:
    return ParameterError(
        message,
        given=text if len(text) <= 200 else text[:197] + "...",
        needed="comparisons of declared columns with constants, joined by and, or, not",
        fix="age >= 20 and region = 'north'",
    )
