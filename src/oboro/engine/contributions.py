"""Which rows count: those that a condition picks, at most so many of each person. As SQL of DuckDB.

A person's rows beyond the limit are left out by the order of protocol.py. (Equal rows are told apart by a number.)

Ranking rows is what costs, so it is done for the persons above the limit alone; the others are only counted. For sums
and counts the rows that are left out are taken off the sum of all: they are few, and the rest is one quick pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from oboro.arrays import Codes
from oboro.engine.arrays import beyond, frequent, stream_counts, taken, takes_rows
from oboro.engine.codes import FLOATS, WHOLE, decimal_text, quoted
from oboro.engine.protocol import FACTOR, MIXED, WORD
from oboro.privacy import Unit

if TYPE_CHECKING:
    from oboro.engine.duck import DuckTable

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


def all_rows(source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """SQL for the rows that the condition picks and that belong to somebody, with the `fields`, null or not."""
    where = _where(condition if unit.kind == "row" else rows_of_somebody(source, unit, condition))
    return f"SELECT {_chosen(fields)} FROM {source.relation}{where}"


def full_rows(source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """SQL for those of them that have every field."""
    return f"SELECT * FROM ({all_rows(source, fields, unit, condition)}) WHERE {_present(fields)}"


def counted_rows(
    source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None = None
) -> str:
    """SQL for the rows that count, with the named `fields`, which are SQL expressions.

    A row counts if no field is null, the condition is true, it belongs to somebody (for a unit of persons),
    and it is among the `max_rows` that are kept of that person. The data is read once.
    """
    if unit.kind == "row":
        return full_rows(source, fields, unit, condition)
    return f"SELECT {', '.join(fields)} FROM ({owned_rows(source, fields, unit, condition)})"


def owned_rows(source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None = None) -> str:
    """The same for a unit of persons, with the `person` that each row belongs to."""
    names = ", ".join(fields)
    return (
        f"WITH near AS MATERIALIZED ({_owned_rows(source, fields, unit, condition)}), {_ranked(source, names, unit)} "
        f"SELECT person, {names} FROM near WHERE person NOT IN (SELECT person FROM heavy) "
        f"UNION ALL SELECT person, {names} FROM ranked WHERE place <= {unit.max_rows}"
    )


def rows_of_somebody(source: DuckTable, unit: Unit, condition: str | None) -> str:
    """The condition, and that a row belongs to somebody."""
    known = f"{person_sql(source, unit)} IS NOT NULL"
    return known if condition is None else f"({condition}) AND {known}"


def rows_of_nobody(source: DuckTable, fields: Mapping[str, str], unit: Unit) -> list[str]:
    """SQL for the rows that belong to nobody, if there may be any. A Parquet file often says by itself that there are none."""
    if unit.kind == "row":
        return []
    name, person = source.person(unit), person_sql(source, unit)
    if source.table is not None and person == quoted(name) and source.table.column(name).null_count == 0:
        return []
    return [f"SELECT {_chosen(fields)} FROM {source.relation} WHERE {person} IS NULL"]


def dropped_rows(
    source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None
) -> list[str]:
    """SQL for the rows beyond the limit: those that `counted_rows` leaves out, and nothing else. Nothing where nobody is above it.

    Few persons are above the limit, and only their rows are grouped and ranked. Whole numbers are counted one by one. Other
    persons are put into 2^24 buckets by a hash, and the rows of each bucket are counted as they stream past, up to
    one more than the limit: only in a bucket with so many can a person be above it. (Rows that lack a field are in these counts too, and
    those that the condition leaves out where persons are counted one by one or in a file: they can only bring more rows along.)
    """
    names, limit, name = ", ".join(fields), unit.contributions, source.person(unit)
    person = person_sql(source, unit)
    stored = _crowd(source, name, limit) if person == quoted(name) else None
    if stored is not None and not stored[0].size:
        return []
    if (
        stored is not None
        and stored[1] is not None
        and source.table is not None
        and takes_rows(source.table.schema)
    ):
        return [_dropped_in_memory(source, fields, unit, condition, stored[1])]
    if stored is not None:
        source.connection.register("crowded", pa.table({"person": stored[0]}))
        rows = (
            f"SELECT * FROM ({_owned_rows(source, fields, unit, condition)}) WHERE person IN (FROM crowded)"
        )
    else:
        source.connection.register("crowded", pa.table({"bucket": _crowded_buckets(source, unit, condition)}))
        rows = f"SELECT * FROM ({_owned_rows(source, fields, unit, condition)}) WHERE {_bucket()} IN (FROM crowded)"
    return [
        f"WITH near AS MATERIALIZED ({rows}), "
        f"{_ranked(source, names, unit)} SELECT {names} FROM ranked WHERE place > {unit.max_rows}"
    ]


def _dropped_in_memory(
    source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None, places: Codes
) -> str:
    """The same of whole numbers in memory whose rows stand at these places: few, and quicker to rank here than in a query."""
    assert source.table is not None
    source.connection.register("crowded", taken(source.table, places))
    # out of them what is selected out of the whole table: times are on the clocks of their zone there
    relation = re.sub(r"given(\)?)$", r"crowded\1", source.relation)
    rows = _owned_rows(replace(source, relation=relation), fields, unit, condition)
    whole = ", ".join(f"{name}::BIGINT AS {name}" for name in ("person", *fields))
    found = source.connection.execute(f"SELECT {whole} FROM ({rows})").fetchnumpy()
    persons, *codes = (np.asarray(found[name], np.int64) for name in ("person", *fields))
    left_out = beyond(persons, codes, unit.contributions)
    dropped = {name: code[left_out] for name, code in zip(fields, codes, strict=True)}
    source.connection.register("dropped", pa.table(dropped))
    return f"SELECT {', '.join(fields)} FROM dropped"


def _crowd(source: DuckTable, name: str, limit: int) -> tuple[Codes, Codes | None] | None:
    """`frequent`; of a file it is found once, since a question to another edition of it is refused."""
    if source.edition is None:
        return frequent(source, name, limit)
    if (name, limit) not in source.crowds:
        source.crowds[name, limit] = frequent(source, name, limit)
    source.edition.check()
    return source.crowds[name, limit]


def _bucket() -> str:
    return f"(hash(person) & {_BUCKETS - 1}::UBIGINT)::INTEGER"


def _crowded_buckets(source: DuckTable, unit: Unit, condition: str | None) -> Codes:
    """The buckets with more rows than the limit. Of a file those of all rows, found once: a condition leaves no more of them."""
    person, limit = person_sql(source, unit), unit.contributions
    key = source.relation, person, limit
    if source.edition is not None and key in source.buckets:
        source.edition.check()
        return source.buckets[key]
    rows = all_rows(source, {"person": person}, unit, condition if source.edition is None else None)
    counts = stream_counts(source, f"SELECT {_bucket()} FROM ({rows})", _BUCKETS, limit + 1)
    found = np.flatnonzero(counts > limit).astype(np.int32)
    if source.edition is not None:
        source.buckets[key] = found
    return found


def _owned_rows(source: DuckTable, fields: Mapping[str, str], unit: Unit, condition: str | None) -> str:
    """Rows that belong to somebody and have every field, with their `person`."""
    rows = all_rows(source, {"person": person_sql(source, unit), **fields}, unit, condition)
    return f"SELECT * FROM ({rows}) WHERE {_present(fields)}"


def _ranked(source: DuckTable, names: str, unit: Unit) -> str:
    """`heavy`, the persons of `near` above the limit, and `ranked`, their rows with a place each, in the order of protocol.py."""
    return (
        f"heavy AS MATERIALIZED (SELECT person, {word_sql(source, unit)} AS word "
        f"FROM near GROUP BY person HAVING count(*) > {unit.max_rows}), "
        f"numbered AS (SELECT person, word, {names}, row_number() OVER (PARTITION BY person, {names}) AS copy "
        f"FROM near JOIN heavy USING (person)), "
        f"{placed_sql(names.split(', '))}, "
        f"ranked AS (SELECT person, {names}, row_number() OVER "
        f"(PARTITION BY person ORDER BY place, {names}, copy) AS place FROM placed)"
    )


def placed_sql(names: Sequence[str]) -> str:
    """`placed`: the rows of `numbered`, each with a `word` and a `copy`, and their place in the order of protocol.py."""
    place = "1"
    for word in ("word", *(f"{name} % {WORD}" for name in names), f"copy % {WORD}"):
        place = f"({place} + {word}) * {FACTOR} % {WORD}"
    steps = [f"SELECT *, {place} AS place FROM numbered"]
    steps += [
        f"SELECT * REPLACE (xor(place, place >> {s}) * {by} & {WORD} AS place) FROM ({{}})" for s, by in MIXED
    ]
    query = steps[0]
    for step in steps[1:]:
        query = step.format(query)
    return f"placed AS ({query})"


def _chosen(fields: Mapping[str, str]) -> str:
    return ", ".join(f"({field}) AS {name}" for name, field in fields.items())


def _present(fields: Mapping[str, str]) -> str:
    return " AND ".join(f"{name} IS NOT NULL" for name in fields)


def _where(condition: str | None) -> str:
    return f" WHERE {condition}" if condition else ""


def person_sql(source: DuckTable, unit: Unit) -> str:
    """An SQL expression for who a row belongs to; null where it is nobody."""
    name = source.person(unit)
    kind, person = source.types[name].upper(), quoted(name)
    if kind in ("FLOAT", "DOUBLE"):  # not a number is nobody; 0.0 and -0.0 are one person
        return f"CASE WHEN isnan({person}) THEN NULL WHEN {person} = 0 THEN 0.0::DOUBLE ELSE {person}::DOUBLE END"
    return person if kind in _PLAIN else f"CAST({person} AS VARCHAR)"


def word_sql(source: DuckTable, unit: Unit) -> str:
    """The word of a person, as protocol.word_of has it."""
    kind = source.types[source.person(unit)].upper()
    if kind in WHOLE or (kind.startswith("DECIMAL") and kind.endswith(",0)")):
        number = "TRY_CAST(person AS HUGEINT)"
    elif kind in FLOATS:
        number = f"TRY_CAST(CASE WHEN abs(person) < {2.0**40!r} THEN floor(person * 4096) WHEN abs(person) < {2.0**62!r} THEN floor(person) ELSE 0 END AS BIGINT)"
    else:
        text = decimal_text("person") if kind.startswith("DECIMAL") else "CAST(person AS VARCHAR)"
        return f"CAST('0x' || left(md5({text}), 8) AS BIGINT) & {WORD}"
    return f"CAST(({number} % {WORD} + {WORD}) % {WORD} AS BIGINT)"
