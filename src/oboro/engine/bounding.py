"""Which rows count: those that a condition picks, at most so many of each person.

A person's rows beyond the limit are left out by the order of a hash of the person and the row, which spreads
what is kept evenly and depends on that person's rows alone. (Equal rows are told apart by a number.)

Ranking rows is what costs, so it is done for the persons above the limit alone; the others are only counted. For sums
and counts the rows that are left out are taken off the sum of all: they are few, and the rest is one quick pass.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from oboro.engine.source import Source, quoted
from oboro.engine.tally import stream_counts
from oboro.errors import UnitError, setting
from oboro.kinds import takes
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

_BUCKETS = 2**24


def all_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """SQL for the rows that the condition picks and that belong to somebody, with the `fields`, null or not."""
    where = _where(condition if unit.kind == "row" else rows_of_somebody(source, unit, condition))
    return f"SELECT {_chosen(fields)} FROM {source.relation}{where}"


def full_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """SQL for those of them that have every field."""
    return f"SELECT * FROM ({all_rows(source, fields, unit, condition)}) WHERE {_present(fields)}"


def counted_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """SQL for the rows that count, with the named `fields`, which are SQL expressions.

    A row counts if no field is null, the condition is true, it belongs to somebody (for a unit of persons),
    and it is among the `max_rows` that are kept of that person. The data is read once.
    """
    if unit.kind == "row":
        return full_rows(source, fields, unit, condition)
    names = ", ".join(fields)
    return (
        f"WITH near AS MATERIALIZED ({_owned_rows(source, fields, unit, condition)}), {_ranked(names, unit)} "
        f"SELECT {names} FROM near WHERE person NOT IN (SELECT person FROM heavy) "
        f"UNION ALL SELECT {names} FROM ranked WHERE place <= {unit.max_rows}"
    )


def rows_of_somebody(source: Source, unit: Unit, condition: str | None) -> str:
    """The condition, and that a row belongs to somebody."""
    known = f"{person_sql(source, unit)} IS NOT NULL"
    return known if condition is None else f"({condition}) AND {known}"


def rows_of_nobody(source: Source, fields: Mapping[str, str], unit: Unit) -> str:
    """SQL for the rows that belong to nobody. A Parquet file often says by itself that there are none."""
    return f"SELECT {_chosen(fields)} FROM {source.relation} WHERE {person_sql(source, unit)} IS NULL"


def dropped_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None) -> str:
    """SQL for the rows beyond the limit: those that `counted_rows` leaves out, and nothing else.

    Persons are put into 2^24 buckets by a hash, and the rows of each bucket are counted as they stream past, up to
    one more than the limit. Only in a bucket with so many can a person be above it: few rows are left to group
    and rank. (Rows that lack a field are in these counts too: they can only bring more rows along.)
    """
    names = ", ".join(fields)
    bucket = f"(hash(person) & {_BUCKETS - 1}::UBIGINT)::INTEGER"
    persons = all_rows(source, {"person": person_sql(source, unit)}, unit, condition)
    enough = unit.contributions + 1
    crowded = stream_counts(source, f"SELECT {bucket} FROM ({persons})", _BUCKETS, enough) == enough
    source.connection.register("crowded", pa.table({"bucket": np.flatnonzero(crowded).astype(np.int32)}))
    rows = _owned_rows(source, fields, unit, condition)
    return (
        f"WITH near AS MATERIALIZED (SELECT * FROM ({rows}) WHERE {bucket} IN (SELECT bucket FROM crowded)), "
        f"{_ranked(names, unit)} SELECT {names} FROM ranked WHERE place > {unit.max_rows}"
    )


def _owned_rows(source: Source, fields: Mapping[str, str], unit: Unit, condition: str | None) -> str:
    """Rows that belong to somebody and have every field, with their `person`."""
    rows = all_rows(source, {"person": person_sql(source, unit), **fields}, unit, condition)
    return f"SELECT * FROM ({rows}) WHERE {_present(fields)}"


def _ranked(names: str, unit: Unit) -> str:
    """`heavy`, the persons of `near` above the limit, and `ranked`, their rows with a place each.

    The order is that of a hash of the person and the row, so it depends on that person's rows alone.
    """
    return (
        f"heavy AS MATERIALIZED (SELECT person FROM near GROUP BY person HAVING count(*) > {unit.max_rows}), "
        f"numbered AS (SELECT person, {names}, row_number() OVER (PARTITION BY person, {names}) AS copy "
        f"FROM near WHERE person IN (SELECT person FROM heavy)), "
        f"ranked AS (SELECT {names}, row_number() OVER "
        f"(PARTITION BY person ORDER BY hash(person, {names}, copy), {names}, copy) AS place FROM numbered)"
    )


def _chosen(fields: Mapping[str, str]) -> str:
    return ", ".join(f"({field}) AS {name}" for name, field in fields.items())


def _present(fields: Mapping[str, str]) -> str:
    return " AND ".join(f"{name} IS NOT NULL" for name in fields)


def _where(condition: str | None) -> str:
    return f" WHERE {condition}" if condition else ""


@takes(source=Source, unit=Unit)
def count_units(source: Source, unit: Unit) -> int:
    """How many units there are, counted once: public under "replace", private otherwise."""
    key = unit.column
    counted = "count(*)" if unit.kind == "row" else f"count(DISTINCT {person_sql(source, unit)})"
    if key not in source.counted:
        query = f"SELECT {counted} FROM {source.relation}"
        source.counted[key] = int(
            source.connection.execute(query).fetchall()[0][0]
        )  # all: a stream may follow
    return source.counted[key]


def person_sql(source: Source, unit: Unit) -> str:
    """An SQL expression for who a row belongs to; null where it is nobody."""
    if unit.kind != "person" or unit.column is None:
        raise UnitError(
            "rows are counted for a unit of rows or persons",
            given=str(unit),
            needed="a unit of rows or persons",
            fix=setting(unit=Unit.row()),
        )
    source.need(unit.column)
    field = quoted(unit.column)
    kind = source.types[unit.column].upper()
    if kind in ("FLOAT", "DOUBLE"):  # not a number is nobody; 0.0 and -0.0 are one person
        return f"CASE WHEN isnan({field}) THEN NULL WHEN {field} = 0 THEN '0.0' ELSE CAST({field} AS VARCHAR) END"
    return field if kind in _PLAIN else f"CAST({field} AS VARCHAR)"
