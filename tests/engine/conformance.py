"""The conformance suite: one nasty table through every operation of the protocol, and the integers that must come out.

A new engine passes if `answers(source)` on its own copy of `nasty(...)` is `answers(...)` of DuckDB and `expected(...)` of Python,
which knows nothing of engines: it goes by `Column.code`, and by `order_of` for the rows that are kept of a person.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from engine.test_grammar import DAYS, NUMBERS
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.engine import (
    Source,
    add_up,
    check_columns,
    count_cells,
    count_persons,
    count_ticks,
    count_units,
    stream_codes,
)
from oboro.engine.protocol import Whole, order_of, word_of
from oboro.privacy import Unit
from oboro.statistics.where import Condition, parse

INF, NAN = math.inf, math.nan
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {  # what stands in each column, nulls besides
    "tiny": (pa.int8(), [-128, -1, 0, 1, 7, 127]),
    "small": (pa.int16(), [-32768, -5, 0, 3, 99, 100, 101, 32767]),
    "int": (pa.int32(), [-(2**31), -3, 0, 14, 15, 16, 2**31 - 1]),
    "big": (pa.int64(), [-(2**63), -(2**53) - 1, -7, 0, 49, 50, 2**53 + 1, 2**60 + 3, 2**63 - 1]),
    "single": (pa.float32(), [NAN, INF, -INF, -0.0, 0.1, 0.5, 2.5, 16777217.0, 3e38]),
    "double": (
        pa.float64(),
        [NAN, INF, -INF, -0.0, 0.49999999999999994, 0.15, 0.25, 2.5, 1e300, -1e300, 7.0, 2.0**53],
    ),
    "money": (
        pa.decimal128(9, 2),
        [Decimal(t) for t in ("-3.50", "0.00", "0.15", "2.50", "99.99", "9999999.99")],
    ),
    "long": (
        pa.decimal128(38, 10),
        [Decimal(t) for t in ("-9e27", "0.1234567891", "9007199254740993.5", "12.0000000000")],
    ),
    "tenth": (pa.decimal128(38, 10), [Decimal("1E-10"), Decimal("0E-10")]),
    "huge": (
        pa.decimal128(38, 0),
        [Decimal(t) for t in (10**38 - 1, 1 - 10**38, 2**126, -(2**126), 2**63, -(2**61), 2**53 + 1, 7, 0)],
    ),
    "part": (pa.decimal128(5, 5), [Decimal(t) for t in ("0.00000", "-0.50000", "0.12345")]),
    "flag": (pa.bool_(), [True, False]),
    "number": (pa.string(), [*NUMBERS, *DAYS]),
    "day": (pa.string(), [*DAYS, "2026-02-01", "2026-03-31 23:59:59"]),
    "date": (
        pa.date32(),
        [
            dt.date(1, 1, 1),
            *(dt.date(1582, 10, day) for day in (4, 5, 14, 15)),  # days that other calendars leave out
            dt.date(1969, 12, 31),
            dt.date(2026, 1, 31),
            dt.date(9999, 12, 31),
        ],
    ),
    "time": (
        pa.timestamp("us"),
        [
            dt.datetime(1, 1, 1),
            dt.datetime(1582, 10, 14, 23, 59, 59, 999999),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            dt.datetime(2026, 2, 1),
            dt.datetime(2026, 1, 31, 23, 59, 59),
        ],
    ),
    "zoned": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(2026, 1, 31, 23, 30, tzinfo=dt.UTC),
            dt.datetime(2026, 2, 1, tzinfo=dt.UTC),
            dt.datetime(1000, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
        ],
    ),
    "label": (pa.string(), ["F", "M", "f", "", " F", "it's", "\f", "\\f", "あ", "F\0"]),
    "x": (pa.int64(), list(range(-5, 60))),
    "y": (pa.int32(), list(range(4))),
    "row": (pa.int32(), [-1, 0, 1, 2, 3, 7, 8]),
    "col": (pa.string(), ["0", "1", " 2 ", "2.5", "3e0", "-1", "x", "1_0", "7", "8"]),
    "people": (pa.string(), ["3", "2.5", "2.500000000000000001", "-1", "x", "1e400", "0.5", "1.5", "7e0"]),
    "weight": (pa.float64(), [NAN, INF, -1.0, 0.5, 1.5, 2.5, 3.0, 2.0**60, 0.49999999999999994]),
}
AGE = Integer("x", 0, 50)
COLUMNS: tuple[Column, ...] = (
    Integer("tiny", -2, 10, step=3),
    Integer("small", 0, 100, step=5, missing=50),
    Integer("int", -3, 15),
    Integer("big", -(2**61), 2**61, step=2),
    Integer("big", 0, 49, step=7, missing=49),
    Integer("big", -(2**53), 2**53),
    Real("single", -1, 3, step="0.1"),
    Integer("single", 0, 2**25),
    Real("double", -1, 3, step="0.1"),
    Integer("double", 0, 3),
    Integer("double", -(2**61), 2**61, step=2),
    Real("money", 0, 100, step="0.1"),
    Integer("money", -5, 51, step=2),
    Real("long", -1, 1, step="0.001"),
    Integer("long", -(2**61), 2**61, step=2),
    Integer("huge", -(2**61), 2**61, step=2),
    Integer("huge", -3, 100),
    Real("huge", 0, 10, step="0.5"),
    Category("huge", [0, 7, 2**53 + 1]),
    Integer("flag", 0, 1, missing=1),
    Integer("number", -5, 100, step=3),
    Integer("number", -(2**61), 2**61, step=2),
    Real("number", -2, 3, step="0.1"),
    Category("number", [0, 1, -1, 12, 100_000]),
    Category("number", [7, 2**53 + 1, 2**53 + 2, -(2**61)], missing=7),
    Category("big", [0, 2**53 + 1, -7]),
    Category("double", [7, 0, 2**53]),
    Date("day", "2025-12-01", "2026-06-30"),
    Date("number", "2025-12-01", "2026-06-30", missing="2026-01-01"),
    Date("date", "1970-01-01", "2026-06-30"),
    Date("date", "1500-01-01", "1600-12-31"),
    Date("time", "0001-01-01", "1582-12-31"),
    Date("time", "1969-12-01", "2026-06-30"),
    Date("zoned", "2026-01-01", "2026-06-30"),
    Category("label", ["F", "M", "it's", "\f", "あ", ""]),
    Category("y", ["0", "2", "4"]),
    Category(
        "double", ["-0.0", "0.0", "0.15", "7.0", "7", "inf", "nan"]
    ),  # texts, of what is none: as it is written
    Category("single", ["0.0", "-0.0", "2.5"]),
    Category("money", ["0.15", "2.5", "2.50", "-3.50"]),
    Category("long", ["0.1234567891", "12.0000000000", "12"]),
    Category("tenth", ["0.0000000001", "1E-10", "0.0000000000", "0E-10"]),
    Category("part", ["0.00000", "-0.50000", ".12345"]),
    Category("flag", ["true", "False"]),
)
PERSONS = ("who", "named", "nearly", "exact", "parted")
UNITS = (Unit.row(), *(Unit.person(name, most) for name in PERSONS for most in (1, 3, 200)))
CONDITIONS = (
    "x >= 20",
    "not (y = 1 or x < 7) and label != 'M'",
    "(label is null or label = 'it''s') and y != 3",
)
DOMAIN = Domain([AGE, Category("y", [0, 1, 2, 3]), next(one for one in COLUMNS if one.name == "label")])
WIDE = Integer("big", 0, 2**43)
FIELDS = (Whole("row", 8), Whole("col", 8), DOMAIN["y"])
MOST = 2**30


SPELT = (
    "p{}",
    "P{}",
    "p{} ",
    "p{}\0",
    "ｐ{}",
    "\u00e9{}",
    "e\u0301{}",
)  # one person each, whatever a collation calls the same
BINNED = ((AGE, ((0, 0), (10, 1), (30, 0), (40, 2)), 3), (DOMAIN["y"], (), 4))


def nasty(rows: int, seed: int = 1) -> pa.Table:
    """Every type, and in each the values that engines disagree on. One person has a fifth of all rows."""
    draw = np.random.default_rng(seed)
    table = {}
    for name, (kind, pool) in POOLS.items():
        values = pa.array([None, *pool], kind)
        table[name] = values.take(pa.array(draw.integers(0, len(values), rows)))
    who = np.where(draw.random(rows) < 0.2, 7, draw.integers(-3, max(3, rows // 6), rows))
    missing = draw.random(rows) < 0.02
    table["who"] = pa.array(who, mask=missing)
    table["named"] = pa.array(
        [
            None if gone else SPELT[w % len(SPELT)].format(w // len(SPELT))
            for w, gone in zip(who.tolist(), missing, strict=True)
        ]
    )
    table["nearly"] = pa.array(np.where(missing, np.nan, np.where(who == 0, -0.0, who / 8)))
    table["exact"] = pa.array(
        [None if gone else Decimal(w) for w, gone in zip(who.tolist(), missing, strict=True)],
        pa.decimal128(20, 0),
    )
    table["parted"] = pa.array(
        [
            None if gone else Decimal(w % 99_999).scaleb(-7)
            for w, gone in zip(who.tolist(), missing, strict=True)
        ],
        pa.decimal128(7, 7),
    )
    return pa.table(table)


def answers(
    source: Source, units: Sequence[Unit] = UNITS, *, check: bool = True
) -> Iterator[tuple[str, Any]]:
    """Every operation, by name; but for what is for the steward's eyes, if it is not to be checked."""
    # some columns at a time: a driver of 1 GB, as Spark starts one, did not manage all of them for 10^6 rows
    for start in range(0, len(COLUMNS), 6):
        some = COLUMNS[start : start + 6]
        every = np.concatenate(list(stream_codes(source, some, Unit.row(), keep=True)))
        for column, codes in zip(some, every.T, strict=True):
            yield f"count {column}", Counter(codes.tolist())
    for unit in units:
        yield f"units {unit}", count_units(source, unit)
        for words in (None, *CONDITIONS):
            met = None if words is None else parse(words, DOMAIN)
            yield f"sums {unit} {words}", add_up(source, [AGE], [(), (0,)], unit, condition=met)
        yield (
            f"groups {unit}",
            add_up(source, [AGE, WIDE], [(), (0, 0), (0, 1), (1, 1)], unit, by=[DOMAIN["y"]]),
        )
        yield (
            f"cells {unit}",
            sorted_cells(count_cells(source, [DOMAIN["y"], AGE], unit, parse("x < 30", DOMAIN))),
        )
        yield f"places {unit}", sorted_cells(count_cells(source, FIELDS, unit))
        yield (
            f"codes {unit}",
            Counter(
                map(
                    tuple,
                    np.concatenate(list(stream_codes(source, [AGE, DOMAIN["y"]], unit, keep=True))).tolist(),
                )
            ),
        )
        streamed = stream_codes(source, [AGE], unit, parse("y = 1", DOMAIN), [DOMAIN["label"]])
        yield f"stream {unit}", Counter(map(tuple, np.concatenate(list(streamed)).tolist()))
        if unit.kind == "person":
            yield (
                f"persons {unit}",
                count_persons(source, BINNED, unit, most=2, condition=parse("x >= 3", DOMAIN)),
            )
            for most in (2, FIELDS[0].size):
                yield f"ticks {unit} {most}", sorted_cells(count_ticks(source, FIELDS, unit, most=most))
    for count in ("people", "weight", "x"):
        yield f"keys {count}", keys(source, count)
    if check:
        yield "check", check_columns(source, list(COLUMNS))
        yield "check keys", source.check_keys([(field.name, field) for field in FIELDS], "weight", MOST)


def keys(source: Source, count: str) -> dict[tuple[int, ...], int]:
    totals: dict[tuple[int, ...], int] = defaultdict(int)
    for *places, counts in source.stream_keys(FIELDS, count, MOST):
        for key, number in zip(
            zip(*(place.tolist() for place in places), strict=True), counts.tolist(), strict=True
        ):
            totals[key] = min(MOST, totals[key] + number)
    return dict(totals)


def sorted_cells(found: tuple[Any, Any]) -> dict[int, int]:
    return dict(sorted(zip(found[0].tolist(), found[1].tolist(), strict=True)))


def expected(table: pa.Table, units: Sequence[Unit] = UNITS) -> Iterator[tuple[str, Any]]:
    """The same in plain Python."""
    held = {name: table.column(name).to_pylist() for name in table.column_names}
    size = table.num_rows

    @cache
    def coder(column: Column) -> list[int | None]:
        known: dict[Any, int | None] = {}

        def code(value: Any) -> int | None:
            key = (repr(value),)
            if key not in known:
                by_text = isinstance(column, Category) and isinstance(column.values[0], str)
                known[key] = column.code(spelt(value) if by_text else value)
            return known[key]

        return [code(value) for value in held[column.name]]

    def place(field: Whole) -> list[int | None]:
        codes = coder(Integer(field.name, -(2**40), 2**40))
        exact = coder(Category(field.name, list(range(field.size))))
        return [number if code is not None else None for number, code in zip(exact, codes, strict=True)]

    def holds(condition: Condition | None) -> list[bool]:
        if condition is None:
            return [True] * size
        columns = {column.name: coder(column) for column in condition.columns}
        needed = [coder(column) for column in condition.needed]
        held_at = condition.fold(_test, _join)
        return [
            None not in codes and held_at({name: column[i] for name, column in columns.items()}) is True
            for i, codes in enumerate(zip(*needed, strict=True) if needed else [()] * size)
        ]

    def rows(
        fields: list[list[int | None]], unit: Unit, condition: Condition | None = None
    ) -> list[tuple[int, ...]]:
        met, every = holds(condition), list(zip(*fields, strict=True))
        good = [i for i in range(size) if met[i] and None not in every[i]]
        if unit.kind == "row":
            return [every[i] for i in good]  # type: ignore[misc]
        owned: dict[Any, Counter[tuple[int, ...]]] = defaultdict(Counter)
        for i in good:
            person = held[unit.column][i]  # type: ignore[index]
            if person is not None and person == person:
                owned[person][every[i]] += 1  # type: ignore[index]
        kept: list[tuple[int, ...]] = []
        for person, own in owned.items():
            word = word_of(known_by(person))
            order = sorted(
                (order_of(word, row, copy), row, copy) for row, n in own.items() for copy in range(1, n + 1)
            )
            kept += [row for _, row, _ in order[: unit.contributions]]
        return kept

    by = coder(DOMAIN["y"])
    age, wide = coder(AGE), coder(WIDE)
    for column in COLUMNS:
        yield f"count {column}", Counter(column.size if code is None else code for code in coder(column))
    for unit in units:
        persons = [] if unit.column is None else [p for p in held[unit.column] if p is not None and p == p]
        yield f"units {unit}", size if unit.column is None else len(set(persons))
        for words in (None, *CONDITIONS):
            found = rows([age], unit, None if words is None else parse(words, DOMAIN))
            yield f"sums {unit} {words}", {0: [len(found), sum(code for (code,) in found)]}
        sums: dict[int, list[int]] = {}
        for a, w, g in rows([age, wide, by], unit):
            old = sums.setdefault(g, [0, 0, 0, 0])
            sums[g] = [old[0] + 1, old[1] + a * a, old[2] + a * w, old[3] + w * w]
        yield f"groups {unit}", sums
        cells = [[None if None in (g, a) else g * AGE.size + a for g, a in zip(by, age, strict=True)]]  # type: ignore[operator]
        yield (
            f"cells {unit}",
            dict(sorted(Counter(c for (c,) in rows(cells, unit, parse("x < 30", DOMAIN))).items())),
        )
        three = zip(place(FIELDS[0]), place(FIELDS[1]), by, strict=True)
        cells = [[None if None in some else (some[0] * 8 + some[1]) * 4 + some[2] for some in three]]  # type: ignore[operator]
        yield f"places {unit}", dict(sorted(Counter(c for (c,) in rows(cells, unit)).items()))
        full = [
            [AGE.size if code is None else code for code in age],
            [4 if code is None else code for code in by],
        ]
        yield f"codes {unit}", Counter(rows(full, unit))  # type: ignore[arg-type]
        yield f"stream {unit}", Counter(rows([age, coder(DOMAIN["label"])], unit, parse("y = 1", DOMAIN)))

        if unit.kind == "person":
            binned = [[None if a is None else 1 if 10 <= a < 30 else 2 if a >= 40 else 0 for a in age], by]
            groups: dict[Any, set[int]] = defaultdict(set)
            for person, met, a, y in zip(
                held[unit.column], holds(parse("x >= 3", DOMAIN)), *binned, strict=True
            ):  # type: ignore[index]
                if met and person is not None and person == person and a is not None and y is not None:
                    groups[person].add(4 * a + y)
            count: Counter[int] = Counter()
            for person, some in groups.items():
                word = word_of(known_by(person))
                count.update(sorted(some, key=lambda g, word=word: (order_of(word, [g], 1), g))[:2])  # type: ignore[misc]
            yield f"persons {unit}", dict(count)
            for most in (2, FIELDS[0].size):
                yield f"ticks {unit} {most}", ticks(held[unit.column], cells[0], most)  # type: ignore[index]


def spelt(value: Any) -> Any:
    """How engines write what is no text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value) if isinstance(value, int | float) else value


def known_by(person: Any) -> Any:
    """A decimal without digits behind its point is a whole number, any other a text."""
    if not isinstance(person, Decimal):
        return person
    return int(person) if person.as_tuple().exponent == 0 else spelt(person)


def ticks(persons: Sequence[Any], cells: Sequence[int | None], most: int) -> dict[int, int]:
    """One cell of a person in each tick, the first by the order, and the first ticks of all."""
    under = math.prod(field.size for field in FIELDS[1:])
    seen: dict[Any, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for person, cell in zip(persons, cells, strict=True):
        if person is not None and person == person and cell is not None:
            seen[person][cell // under].add(cell)
    count: Counter[int] = Counter()
    for person, own in seen.items():
        word = word_of(known_by(person))
        for tick in sorted(own)[:most]:
            count[min(own[tick], key=lambda cell, word=word: (order_of(word, [cell], 1), cell))] += 1  # type: ignore[misc]
    return dict(sorted(count.items()))


Known = Callable[[Mapping[str, int | None]], bool | None]  # None where a code is missing, as in SQL
TESTS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge}


def _test(column: Column, op: str, to: int) -> Known:
    def known(codes: Mapping[str, int | None]) -> bool | None:
        code = codes[column.name]
        return code is None if op == "null" else None if code is None else bool(TESTS[op](code, to))

    return known


def _join(word: str, parts: list[Known]) -> Known:
    def known(codes: Mapping[str, int | None]) -> bool | None:
        found = [part(codes) for part in parts]
        if word == "not":
            return None if found[0] is None else not found[0]
        decided = word == "or"  # one True decides an "or", one False an "and"
        return decided if decided in found else None if None in found else not decided

    return known


def differences(one: Iterator[tuple[str, Any]], other: Iterator[tuple[str, Any]]) -> list[str]:
    """The names of answers that are not the same; those that only one side has are passed over."""
    first, second = dict(one), dict(other)
    return [name for name in first if name in second and normal(first[name]) != normal(second[name])]


def normal(answer: Any) -> Any:
    return (
        {key: value for key, value in answer.items() if value != 0} if isinstance(answer, Counter) else answer
    )
