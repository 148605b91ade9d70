"""Values to codes on the public grid, in DuckDB, by the rules of domain/columns.py, alike for every record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.engine.source import Source, literal, quoted
from oboro.errors import DomainError, UnitError
from oboro.privacy import Unit

Integers = npt.NDArray[np.int64]

_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
)
_FLOATS = ("FLOAT", "DOUBLE")


def count_cells(source: Source, columns: Sequence[Column], unit: Unit) -> tuple[Integers, Integers]:
    """How many rows fall into each combination of codes: (cells, counts), cells as mixed-radix numbers.

    Contributions are bounded first: of a person with more than `max_rows` rows only that many count, spread
    evenly by a hash of the person and the row, so that the choice depends on that person's rows alone. (Rows
    with the same cell are alike, and are told apart by a number.) A row without a person is left out, and so
    is a row that any column leaves out.
    """
    rows = coded_rows(source, columns, unit)
    result = source.connection.execute(
        f"SELECT cell, count(*)::BIGINT AS n FROM ({rows}) WHERE cell IS NOT NULL GROUP BY cell"
    ).fetchnumpy()
    return result["cell"].astype(np.int64), result["n"].astype(np.int64)


def coded_rows(source: Source, columns: Sequence[Column], unit: Unit) -> str:
    """SQL for the rows that count, each with its `cell`."""
    source.need(*[column.name for column in columns])
    Domain(columns).cells  # noqa: B018  # refuses more cells than an integer can number
    cell = "0"
    for column in columns:
        cell = f"({cell}) * {column.size} + ({code_sql(column, source.types[column.name])})"
    if unit.kind == "row":
        return f"SELECT ({cell})::BIGINT AS cell FROM {source.relation}"
    if unit.kind != "person":
        raise UnitError(
            "rows are counted for a unit of rows or persons",
            given=str(unit),
            needed="Unit.row or Unit.person",
            fix="unit=ob.Unit.row()",
        )
    assert unit.column is not None
    source.need(unit.column)
    person = f"CAST({quoted(unit.column)} AS VARCHAR)"
    rows = f"SELECT {person} AS person, ({cell})::BIGINT AS cell FROM {source.relation} WHERE {person} IS NOT NULL"
    # Only persons above the limit need their rows ranked: the sort is what costs.
    return (
        f"WITH coded AS MATERIALIZED (SELECT * FROM ({rows}) WHERE cell IS NOT NULL), "
        f"heavy AS (SELECT person FROM coded GROUP BY person HAVING count(*) > {unit.max_rows}), "
        f"numbered AS (SELECT person, cell, row_number() OVER (PARTITION BY person, cell) AS copy "
        f"FROM coded WHERE person IN (SELECT person FROM heavy)), "
        f"ranked AS (SELECT cell, row_number() OVER (PARTITION BY person ORDER BY hash(person, cell, copy), cell, copy) AS place "
        f"FROM numbered) "
        f"SELECT cell FROM coded WHERE person NOT IN (SELECT person FROM heavy) "
        f"UNION ALL SELECT cell FROM ranked WHERE place <= {unit.max_rows}"
    )


def code_sql(column: Column, type_name: str) -> str:
    """An SQL expression for the code of a column's value; null where the record is left out."""
    code = _code_without_missing(column, quoted(column.name), type_name.partition("(")[0].upper())
    return code if column.missing_code is None else f"coalesce({code}, {column.missing_code})"


def _code_without_missing(column: Column, field: str, base: str) -> str:
    if isinstance(column, Category):
        return _category(column, field, base)
    if isinstance(column, Date):
        day = field if base == "DATE" else f"TRY_CAST({_text(field, base)} AS DATE)"
        code = f"greatest(0, least({column.size - 1}, {day} - DATE {literal(column.first.isoformat())}))"
        return f"CASE WHEN {day} IS NULL THEN NULL ELSE {code} END"  # greatest and least skip nulls
    if isinstance(column, Integer):
        return _integer(column, field, base)
    if isinstance(column, Real):
        number = _double(field, base)
        # one rule for every record: the double nearest to the value, then the nearest step
        step = f"floor(({number} - ({float(column.low)!r})) / {float(column.step)!r} + 0.5)"
        code = f"greatest(0, least({column.size - 1}, {step}))::BIGINT"
        return _within(number, float(column.low), float(column.high), column.size, code)
    raise DomainError(
        f"column {column.name!r} cannot be read from rows here",
        given=column.kind,
        needed="integer, real, category or date",
    )


def _integer(column: Integer, field: str, base: str) -> str:
    number = _double(field, base)
    exact = (
        field
        if base in _NUMBERS
        else f"TRY_CAST({number if base in _FLOATS else _text(field, base)} AS HUGEINT)"
    )
    if base in _FLOATS or base not in _NUMBERS:
        # a fraction goes to the nearest step from its own value, not from its rounded one
        nearest = f"floor(({number} - ({column.low})) / {column.step} + 0.5)::HUGEINT"
        exact_code = f"(({exact})::HUGEINT - ({column.low}) + {column.step // 2}) // {column.step}"
        code = f"CASE WHEN abs({number}) < 4503599627370496 THEN {nearest} ELSE {exact_code} END"
    else:
        code = f"(({exact})::HUGEINT - ({column.low}) + {column.step // 2}) // {column.step}"
    return _within(
        number, column.low, column.high, column.size, f"greatest(0, least({column.size - 1}, {code}))::BIGINT"
    )


def _within(number: str, low: Any, high: Any, size: int, code: str) -> str:
    """Clamps before anything is computed, so that nothing overflows whatever the value."""
    return (
        f"CASE WHEN {number} IS NULL OR isnan({number}) THEN NULL "
        f"WHEN {number} <= {float(low)!r} THEN 0 WHEN {number} >= {float(high)!r} THEN {size - 1} ELSE {code} END"
    )


def _double(field: str, base: str) -> str:
    if base in _NUMBERS or base in _FLOATS or base in ("DECIMAL", "BOOLEAN"):
        return f"CAST({field} AS DOUBLE)"
    return f"TRY_CAST({_text(field, base)} AS DOUBLE)"


def _text(field: str, base: str) -> str:
    return field if base == "VARCHAR" else f"CAST({field} AS VARCHAR)"


def _category(column: Category, field: str, base: str) -> str:
    if isinstance(column.values[0], int):
        number = _double(field, base)
        cases = " ".join(f"WHEN {value} THEN {code}" for code, value in enumerate(column.values))
        return f"CASE {number} {cases} ELSE NULL END"
    labels = ", ".join(literal(str(value)) for value in column.values)
    return f"enum_code(TRY_CAST({_text(field, base)} AS ENUM({labels})))::BIGINT"


def check_columns(source: Source, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """For the steward's eyes: how many values of each column are missing or out of bounds. Not private."""
    report = []
    for column in columns:
        source.need(column.name)
        base = source.types[column.name].partition("(")[0].upper()
        field = quoted(column.name)
        bare = _code_without_missing(column, field, base)
        below = above = "0"
        if isinstance(column, Integer | Real):
            number = _double(field, base)
            below, above = (
                f"count(*) FILTER ({number} {test})"
                for test in (f"< {float(column.low)!r}", f"> {float(column.high)!r}")
            )
        elif isinstance(column, Date):
            day = f"TRY_CAST({field} AS DATE)" if base != "DATE" else field
            below, above = (
                f"count(*) FILTER ({day} {test} DATE {literal(edge.isoformat())})"
                for test, edge in (("<", column.first), (">", column.last))
            )
        empty = f"count(*) FILTER ({field} IS NULL)"
        unknown = f"count(*) FILTER ({field} IS NOT NULL AND ({bare}) IS NULL)"
        query = f"SELECT count(*), {empty}, {unknown}, {below}, {above} FROM {source.relation}"
        counts = source.connection.execute(query).fetchone()
        report.append(
            {"column": column.name}
            | dict(zip(("rows", "missing", "unknown", "below", "above"), counts, strict=True))
        )
    return report
