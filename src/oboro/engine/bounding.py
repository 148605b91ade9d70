"""Which rows count: those that a condition picks, at most so many of each person.

A person's rows beyond the limit are left out by the order of a hash of the person and the row, which spreads
what is kept evenly and depends on that person's rows alone. (Equal rows are told apart by a number.)

Ranking rows is what costs, so it is done for the persons above the limit alone; the others are only counted. For sums
and counts the rows that are left out are taken off the sum of all: they are few, and the rest is one quick pass.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oboro.engine.source import Source, quoted
from oboro.errors import UnitError
from oboro.privacy import Unit

_PLAIN = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "VARCHAR",
    "UUID",
)

_BUCKETS = 2**22

Integers = npt.NDArray[np.int64]


def counted_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """SQL for the rows that count, with the named `fields`, which are SQL expressions.

    A row counts if no field is null, the condition is true, it belongs to somebody (for a unit of persons),
    and it is among the `max_rows` that are kept of that person.
    """
    names = ", ".join(fields)
    chosen = ", ".join(f"({field}) AS {name}" for name, field in fields.items())
    where = f" WHERE {condition}" if condition else ""
    present = " AND ".join(f"{name} IS NOT NULL" for name in fields)
    if unit.kind == "row":
        return f"SELECT {names} FROM (SELECT {chosen} FROM {source.relation}{where}) WHERE {present}"
    person = person_sql(source, unit)
    rows = (
        f"SELECT person, {names} FROM (SELECT {person} AS person, {chosen} FROM {source.relation}{where}) "
        f"WHERE person IS NOT NULL AND {present}"
    )
    # The rows are read three times rather than kept: reading is cheaper than writing them all down.
    return (
        f"WITH heavy AS MATERIALIZED (SELECT person FROM ({rows}) GROUP BY person HAVING count(*) > {unit.max_rows}), "
        f"numbered AS (SELECT person, {names}, row_number() OVER (PARTITION BY person, {names}) AS copy "
        f"FROM ({rows}) WHERE person IN (SELECT person FROM heavy)), "
        f"ranked AS (SELECT {names}, row_number() OVER "
        f"(PARTITION BY person ORDER BY hash(person, {names}, copy), {names}, copy) AS place FROM numbered) "
        f"SELECT {names} FROM ({rows}) WHERE person NOT IN (SELECT person FROM heavy) "
        f"UNION ALL SELECT {names} FROM ranked WHERE place <= {unit.max_rows}"
    )


def rows_of_somebody(source: Source, unit: Unit, condition: str | None) -> str:
    """The condition, and that a row belongs to somebody."""
    known = f"{person_sql(source, unit)} IS NOT NULL"
    return known if condition is None else f"({condition}) AND {known}"


def dropped_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None) -> str:
    """SQL for the rows beyond the limit: those that `counted_rows` leaves out, and nothing else.

    Persons are put into 2^22 buckets by a hash, and the rows of each bucket are counted as they stream past. Only
    in a bucket with more rows than the limit can a person be above it: few rows are left to group and rank.
    """
    names = ", ".join(fields)
    chosen = ", ".join(f"({field}) AS {name}" for name, field in fields.items())
    present = " AND ".join(f"{name} IS NOT NULL" for name in fields)
    somebody = rows_of_somebody(source, unit, condition)
    person = person_sql(source, unit)
    rows = (
        f"SELECT *, (hash(person) & {_BUCKETS - 1}::UBIGINT)::INTEGER AS bucket FROM "
        f"(SELECT {person} AS person, {chosen} FROM {source.relation} WHERE {somebody}) WHERE {present}"
    )
    crowded = np.flatnonzero(
        stream_counts(source, f"SELECT bucket FROM ({rows})", _BUCKETS) > unit.contributions
    )
    source.connection.register("crowded", pa.table({"bucket": crowded.astype(np.int32)}))
    return (
        f"WITH near AS MATERIALIZED (SELECT person, {names} FROM ({rows}) WHERE bucket IN (SELECT bucket FROM crowded)), "
        f"heavy AS (SELECT person FROM near GROUP BY person HAVING count(*) > {unit.max_rows}), "
        f"numbered AS (SELECT person, {names}, row_number() OVER (PARTITION BY person, {names}) AS copy "
        f"FROM near WHERE person IN (SELECT person FROM heavy)), "
        f"ranked AS (SELECT {names}, row_number() OVER "
        f"(PARTITION BY person ORDER BY hash(person, {names}, copy), {names}, copy) AS place FROM numbered) "
        f"SELECT {names} FROM ranked WHERE place > {unit.max_rows}"
    )


def stream_counts(source: Source, query: str, size: int) -> Integers:
    """How often each number below `size` comes up, added up as they stream past."""
    counts = np.zeros(size, np.int64)
    relation = source.connection.sql(query)
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    for batch in stream(1 << 20):
        np.add.at(counts, batch.column(0).to_numpy(zero_copy_only=False), 1)
    return counts


def count_units(source: Source, unit: Unit) -> int:
    """How many units there are, counted once: public under "replace", private otherwise."""
    key = unit.column
    counted = "count(*)" if unit.kind == "row" else f"count(DISTINCT {person_sql(source, unit)})"
    if key not in source.counted:
        query = f"SELECT {counted} FROM {source.relation}"
        source.counted[key] = int(source.connection.execute(query).fetchone()[0])
    return source.counted[key]


def person_sql(source: Source, unit: Unit) -> str:
    """An SQL expression for who a row belongs to; null where it is nobody."""
    if unit.kind != "person" or unit.column is None:
        raise UnitError(
            "rows are counted for a unit of rows or persons",
            given=str(unit),
            needed="Unit.row or Unit.person",
            fix="unit=ob.Unit.row()",
        )
    source.need(unit.column)
    field = quoted(unit.column)
    kind = source.types[unit.column].upper()
    if kind in ("FLOAT", "DOUBLE"):  # not a number is nobody; 0.0 and -0.0 are one person
        return f"CASE WHEN isnan({field}) THEN NULL WHEN {field} = 0 THEN '0.0' ELSE CAST({field} AS VARCHAR) END"
    return field if kind in _PLAIN else f"CAST({field} AS VARCHAR)"
