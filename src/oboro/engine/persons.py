"""Several tables about the same persons: one record of each, and rows that are joined to it by whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from oboro.domain import Column
from oboro.engine.codes import code_sql, quoted
from oboro.engine.contributions import person_sql
from oboro.engine.duck import DuckTable
from oboro.errors import DataError
from oboro.privacy import Unit

_NUMBERS = count()
_SPELT = ("FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME")


def persons_in(source: DuckTable, unit: Unit) -> set[str]:
    """Who has a row here, as texts, so that tables with other types of keys can be compared."""
    query = f"SELECT DISTINCT {_key(source, unit)} AS k FROM {source.relation} WHERE k IS NOT NULL"
    with source.in_turn():
        return {row[0] for row in source.connection.execute(query).fetchall()}


def check_keys(sources: Iterable[DuckTable], unit: Unit) -> None:
    """Refuses keys of which one person may have two spellings, such as 1 and 1.0: they are compared as texts."""
    kinds = list(dict.fromkeys(source.types[str(unit.column)].upper() for source in sources))
    if len(kinds) > 1 and any(kind.startswith(_SPELT) and not kind.endswith(",0)") for kind in kinds):
        raise DataError(
            f"column {unit.column!r} says who a row belongs to, in two different ways",
            given=" and ".join(kinds),
            needed="whole numbers or texts in both tables",
            fix="write both as texts",
        )


def one_record_each(source: DuckTable, columns: Sequence[Column], unit: Unit) -> DuckTable:
    """Of each person one record: the first by its codes, in the order of the columns, missing ones last."""
    codes = ", ".join(f"({code_sql(column, source.types[column.name])}) NULLS LAST" for column in columns)
    person = person_sql(source, unit)
    order = f"ORDER BY {codes}" if codes else ""
    relation = (
        f"(SELECT * FROM {source.relation} WHERE {person} IS NOT NULL "
        f"QUALIFY row_number() OVER (PARTITION BY {person} {order}) = 1)"
    )
    return _selected(source, relation, source.types)


def joined_records(
    many: DuckTable, own: Sequence[Column], records: DuckTable, joined: Sequence[Column], unit: Unit
) -> DuckTable:
    """The rows of `many` whose person has a record, with the columns of that record: an inner join on the person."""
    check_keys([many, records], unit)
    every = [str(unit.column), *(column.name for column in (*own, *joined))]
    key = "oboro_key" + "_" * max(map(len, every))  # longer than any name, so no column is called so
    names = [quoted(column.name) for column in joined]
    with records.in_turn():
        found = records.connection.sql(
            f"SELECT {', '.join([f'{_key(records, unit)} AS {key}', *names])} FROM {records.relation}"
        ).to_arrow_table()
    name = f"person_records_{next(_NUMBERS)}"  # each join its own: an earlier one may still be asked
    own_names = list(dict.fromkeys([str(unit.column), *(column.name for column in own)]))
    rows = f"SELECT {_key(many, unit)} AS {key}, {', '.join(map(quoted, own_names))} FROM {many.relation}"
    columns = ", ".join([*(f"v.{quoted(name)}" for name in own_names), *(f"p.{name}" for name in names)])
    relation = f"(SELECT {columns} FROM ({rows}) AS v JOIN {name} AS p ON v.{key} = p.{key})"
    with many.in_turn():
        many.connection.register(name, found)
        described = many.connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    types = {row[0]: row[1] for row in described}
    return _selected(many, relation, types)


def _selected(source: DuckTable, relation: str, types: dict[str, str]) -> DuckTable:
    """Other rows, of which nothing is known yet."""
    return replace(
        source,
        relation=relation,
        types=types,
        table=None,
        parquet=None,
        counted={},
        crowds={},
        buckets={},
        unsure=set(),
    )


def _key(source: DuckTable, unit: Unit) -> str:
    return f"CAST({person_sql(source, unit)} AS VARCHAR)"
