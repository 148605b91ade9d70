"""DuckDB, the engine that comes with oboro: what protocol.py asks for, in SQL that is made here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oboro.arrays import Bools, Codes, Floats, Integers, Values
from oboro.domain import Column, Date, Integer, Real
from oboro.engine.arrays import beyond, frequent, held, stream_counts, taken, takes_rows
from oboro.engine.careful import Careful, Edition
from oboro.engine.codes import (
    FLOATS,
    WHOLE,
    bare_sql,
    base_type,
    code_sql,
    count_sql,
    day_sql,
    double_sql,
    exactly,
    field_sql,
    literal,
    quoted,
)
from oboro.engine.memory import unreadable
from oboro.engine.protocol import (
    FACTOR,
    MIXED,
    WORD,
    Binned,
    Condition,
    Field,
    Limits,
    Ordered,
    Runs,
    Source,
    Term,
)
from oboro.errors import DataError
from oboro.privacy import Unit

if TYPE_CHECKING:
    from oboro.arrays import Table

_CHUNK = 1 << 20  # rows at a time
_RECORDS = 1 << 15  # records of cells at a time: they stay in cache


@dataclass(frozen=True, slots=True)
class DuckTable(Ordered):
    """A DuckDB connection, and a relation to select from."""

    limits: ClassVar[Limits] = Limits(widest=127)

    connection: Careful
    relation: str
    types: dict[str, str]
    counted: dict[str | None, int] = field(
        default_factory=dict, repr=False, compare=False
    )  # units, counted once
    table: Table | None = field(
        default=None, repr=False, compare=False
    )  # the same as an Arrow table, if it is in memory
    parquet: Path | None = field(default=None, repr=False, compare=False)  # the file, if it is such a one
    edition: Edition | None = field(default=None, repr=False, compare=False)  # of the file that it lies in
    crowds: dict[tuple[str, int], tuple[Codes, Codes | None] | None] = field(
        default_factory=dict, repr=False, compare=False
    )  # of a file: who has more rows than that
    buckets: dict[tuple[str, str, int], Codes] = field(
        default_factory=dict, repr=False, compare=False
    )  # of a file: which have more rows than that
    headed: bool = field(default=False, repr=False, compare=False)  # by the first line of a text file
    met: set[str] = field(default_factory=set, repr=False, compare=False)  # asked for, and there

    @property
    def engine(self) -> str:
        import duckdb

        return f"DuckDB {duckdb.__version__}"

    def unreadable(self, name: str) -> bool:
        return unreadable(self.types[name])

    def in_turn(self) -> AbstractContextManager[None]:
        return self.connection.in_turn()

    def need(self, *names: str) -> None:
        self.met.update(name for name in names if isinstance(name, str) and name in self.types)
        # the first line of a text file may be a record, if somebody left the header out; where a declared
        # column has been found in it, it is a header, and its names are public
        if self.headed and not self.met and names:
            raise self.lacks(names[0], hidden=True)
        Source.need(self, *names)

    def count_units(self, unit: Unit) -> int:
        key = unit.column
        counted = "count(*)" if unit.kind == "row" else f"count(DISTINCT {person_sql(self, unit)})"
        if key not in self.counted:
            query = f"SELECT {counted} FROM {self.relation}"
            self.counted[key] = int(
                self.connection.execute(query).fetchall()[0][0]
            )  # all: a stream may follow
        return self.counted[key]

    def add_up(
        self,
        columns: Sequence[Column],
        terms: Sequence[Term],
        unit: Unit,
        by: Sequence[Column] = (),
        condition: Condition | None = None,
    ) -> dict[int, list[int]]:
        met = condition_sql(self, condition)
        fields = {f"c{i}": code_sql(column, self.types[column.name]) for i, column in enumerate(columns)}
        fields = {**fields, "g": _group(self, by)} if by or not fields else fields
        sums = ", ".join(_sum(columns, term) for term in terms)
        grouped = " GROUP BY g HAVING count(c0) > 0" if by and columns else " GROUP BY g" if by else ""

        def added(rows: str) -> dict[int, list[int]]:
            query = f"SELECT {'g' if by else '0'}, {sums} FROM ({rows}){grouped}"
            found = self.connection.execute(query).fetchall()
            return {
                int(row[0]): [int(value or 0) for value in row[1:]] for row in found if row[0] is not None
            }

        alone = condition is None and not by and len(columns) == 1 and set(terms) <= {(), (0,)}
        if alone and (stored := held(self, columns[0])) is not None:
            count, total = stored.add_up()
            totals = {0: [total if term else count for term in terms]}
            left_out = rows_of_nobody(self, fields, unit)
        else:
            # sums skip nulls by themselves: with one column at most no row need be looked at twice
            rows = all_rows if len(columns) <= 1 else full_rows
            totals, left_out = added(rows(self, fields, unit, met)), []
        if unit.kind == "person":
            left_out += dropped_rows(self, fields, unit, met)
        for query in left_out:
            for place, less in added(query).items():
                totals[place] = [total - part for total, part in zip(totals[place], less, strict=True)]
        return totals

    def count_cells(
        self, fields: Sequence[Field], unit: Unit, condition: Condition | None = None
    ) -> tuple[Integers, Integers]:
        met = condition_sql(self, condition)
        named = {"cell": _cell_sql(self, fields)}
        size = prod(one.size for one in fields)
        first = fields[0]
        alone = condition is None and len(fields) == 1 and size <= STREAMED and isinstance(first, Column)
        if alone and isinstance(first, Column) and (stored := held(self, first)) is not None:
            cells, counts = _filled(stored.count())
            left_out = rows_of_nobody(self, named, unit)
        else:
            cells, counts = _counted(self, all_rows(self, named, unit, met), size)
            left_out = []
        if unit.kind == "row":
            return cells, counts
        parts = [(cells, counts)]
        for rows in (*left_out, *dropped_rows(self, named, unit, met)):
            fewer, less = _counted(self, rows, size)
            parts.append((fewer, -less))
        every, place = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
        left = np.zeros(every.size, np.int64)
        np.add.at(left, place, np.concatenate([part[1] for part in parts]))
        return every[left > 0], left[left > 0]

    def count_persons(
        self, by: Sequence[Binned], unit: Unit, most: int, condition: Condition | None = None
    ) -> dict[int, int]:
        group = "0::BIGINT"
        for column, runs, size in by:
            group = f"({group}) * {size} + ({_bin_sql(code_sql(column, self.types[column.name]), runs)})"
        rows = all_rows(
            self, {"person": person_sql(self, unit), "g": group}, unit, condition_sql(self, condition)
        )
        pairs = f"SELECT DISTINCT person, g FROM ({rows}) WHERE g IS NOT NULL"
        if by:
            order = "row_number() OVER (PARTITION BY person ORDER BY place, g)"
            named = f"SELECT *, {_word(self, unit)} AS word, 1 AS copy FROM ({pairs})"
            pairs = (
                f"WITH numbered AS ({named}), {_placed(['g'])} SELECT g FROM placed QUALIFY {order} <= {most}"
            )
        found = self.connection.execute(f"SELECT g, count(*) FROM ({pairs}) GROUP BY g").fetchall()
        return {int(place): int(count) for place, count in found}

    def count_ticks(self, fields: Sequence[Field], unit: Unit, most: int) -> tuple[Integers, Integers]:
        size = prod(one.size for one in fields)
        under = size // fields[0].size
        rows = all_rows(self, {"person": person_sql(self, unit), "g": _cell_sql(self, fields)}, unit)
        pairs = f"SELECT DISTINCT person, g, g // {under} AS t FROM ({rows}) WHERE g IS NOT NULL"
        # most persons are in one cell of a tick: only the others are put in order
        alone = f"SELECT person, t, min(g) AS g, count(*) AS n FROM ({pairs}) GROUP BY person, t"
        crowded = f"SELECT person, g, t FROM ({pairs}) JOIN (SELECT person, t FROM alone WHERE n > 1) USING (person, t)"
        numbered = f"SELECT *, {_word(self, unit)} AS word, 1 AS copy FROM ({crowded})"
        chosen = "SELECT person, t, arg_min(g, (place, g)) AS g FROM placed GROUP BY person, t"
        kept = f"SELECT person, t, g FROM alone WHERE n = 1 UNION ALL {chosen}"
        if most < fields[0].size:
            kept = (
                f"SELECT g FROM ({kept}) QUALIFY row_number() OVER (PARTITION BY person ORDER BY t) <= {most}"
            )
        query = (
            f"WITH alone AS MATERIALIZED ({alone}), numbered AS ({numbered}), {_placed(['g'])} "
            f"SELECT g AS cell FROM ({kept})"
        )
        return _counted(self, query, size)

    def stream_codes(
        self,
        columns: Sequence[Column],
        unit: Unit,
        condition: Condition | None = None,
        by: Sequence[Column] = (),
        *,
        keep: bool = False,
    ) -> Iterator[Integers]:
        coded = {f"c{i}": code_sql(column, self.types[column.name]) for i, column in enumerate(columns)}
        if keep:
            coded = {
                name: f"coalesce(({sql})::BIGINT, {column.size})"
                for (name, sql), column in zip(coded.items(), columns, strict=True)
            }
        fields = {**coded, "g": _group(self, by)} if by or not coded else coded
        rows = counted_rows(self, fields, unit, condition_sql(self, condition))
        for batch in _batches(self, f"SELECT * FROM ({rows})", _CHUNK):
            whole = [_as_numpy(batch.column(name)).astype(np.int64, copy=False) for name in fields]
            yield np.stack(whole, axis=1)

    def stream_keys(
        self, fields: Sequence[Field], count: str | None, most: int
    ) -> Iterator[list[npt.NDArray[Any]]]:
        chosen = ", ".join(f"{field_sql(one, self.types)} AS f{i}" for i, one in enumerate(fields))
        known = " AND ".join([*(f"f{i} IS NOT NULL" for i in range(len(fields))), "n > 0"])
        counted = "1" if count is None else count_sql(count, self.types[count], most)
        query = f"SELECT * FROM (SELECT {chosen}, {counted} AS n FROM {self.relation}) WHERE {known}"
        for batch in _batches(self, query, _RECORDS):
            yield [_as_numpy(column) for column in batch.columns]

    def all_codes(
        self, columns: Sequence[Column], unit: Unit, condition: Condition | None = None
    ) -> tuple[Integers, Bools, Integers | None]:
        fields = {f"c{i}": f"coalesce({code_sql(c, self.types[c.name])}, -1)" for i, c in enumerate(columns)}
        holds = condition_sql(self, condition)
        met = "true" if holds is None else f"coalesce({holds}, false)"
        # by its hash: an id may be long, and two persons with one hash are in one block, which costs neither of them anything
        who = "NULL::UBIGINT"
        if unit.kind != "row":
            person = person_sql(self, unit)
            who = f"CASE WHEN ({person}) IS NOT NULL THEN hash({person}) END"
        chosen = ", ".join(f"({sql})::BIGINT AS {name}" for name, sql in fields.items())
        found = in_order(self, f"SELECT {chosen}, {met} AS met, {who} AS who FROM {self.relation}")
        codes = np.stack([np.asarray(found[name], np.int64) for name in fields], axis=1)
        good = np.asarray(found["met"]).astype(np.bool_)
        if unit.kind == "row":
            return codes, good, None
        whose = np.ma.asarray(found["who"])
        units = np.unique(np.ma.getdata(whose), return_inverse=True)[1].astype(np.int64)
        return codes, good & ~np.ma.getmaskarray(whose), units

    def doubles(self, names: Sequence[str]) -> Floats:
        self.need(*names)
        casts = ", ".join(
            f"{double_sql(quoted(name), base_type(self.types[name]))} AS c{i}" for i, name in enumerate(names)
        )
        found = in_order(self, f"SELECT {casts} FROM {self.relation}")
        parts = [np.ma.filled(np.ma.asarray(found[f"c{i}"], np.float64), np.nan) for i in range(len(names))]
        return np.stack(parts, axis=1)

    def check(self, columns: Sequence[Column]) -> list[dict[str, object]]:
        report = []
        for column in columns:
            base, name = base_type(self.types[column.name]), quoted(column.name)
            below = above = "0"
            if isinstance(column, Integer | Real):
                number = double_sql(name, base)
                below, above = (
                    f"count(*) FILTER (NOT isnan({number}) AND {number} {test})"
                    for test in (f"< {exactly(column.low)}", f"> {exactly(column.high)}")
                )
            elif isinstance(column, Date):
                day = day_sql(name, base)
                below, above = (
                    f"count(*) FILTER ({day} {test} DATE {literal(edge.isoformat())})"
                    for test, edge in (("<", column.first), (">", column.last))
                )
            empty = f"count(*) FILTER ({name} IS NULL)"
            unknown = f"count(*) FILTER ({name} IS NOT NULL AND ({bare_sql(column, name, base)}) IS NULL)"
            query = f"SELECT count(*), {empty}, {unknown}, {below}, {above} FROM {self.relation}"
            counts = self.connection.execute(query).fetchone()
            report.append(
                {"column": column.name}
                | dict(zip(("rows", "missing", "unknown", "below", "above"), counts, strict=True))
            )
        return report

    def check_keys(self, fields: Sequence[tuple[str, Field]], count: str | None, most: int) -> dict[str, int]:
        problems: dict[str, str] = {"records": "true"}
        for name, one in fields:
            problems[f"{name}: missing"] = f"{quoted(name)} IS NULL"
            sql = field_sql(one, self.types)
            problems[f"{name}: not in the domain"] = f"{quoted(name)} IS NOT NULL AND ({sql}) IS NULL"
        if count is not None:
            number = double_sql(quoted(count), base_type(self.types[count]))
            problems |= {
                f"{count}: missing": f"{quoted(count)} IS NULL",
                f"{count}: not a number": f"{quoted(count)} IS NOT NULL AND ({number} IS NULL OR isnan({number}))",
                f"{count}: negative": f"{number} < 0",
                f"{count}: a fraction": f"isfinite({number}) AND {number} <> floor({number})",
                f"{count}: above {most:,}, the most that a cell can hold here": f"NOT isnan({number}) AND {number} > {most}",
            }
        filters = ", ".join(f"count(*) FILTER ({test})" for test in problems.values())
        found = self.connection.execute(f"SELECT {filters} FROM {self.relation}").fetchall()[0]
        return dict(zip(problems, found, strict=True))


def on_this_machine(source: Source, what: str) -> DuckTable:
    """The same source, if it is DuckDB's: for what only the steward's own machine does."""
    if not isinstance(source, DuckTable):
        raise DataError(
            f"{what} reads data on this machine",
            given=f"a table of {source.engine}",
            needed="a file, or a table in memory",
            fix="a sample of the table, written to a Parquet file",
        )
    return source


def condition_sql(source: DuckTable, condition: Condition | None) -> str | None:
    """True for the rows that are meant; null or false for all others. Nothing in it can fail."""
    if condition is None:
        return None

    def code(column: Column) -> str:
        return f"({code_sql(column, source.types[column.name])})"

    def join(word: str, parts: list[str]) -> str:
        inner = [f"({part})" for part in parts]
        return f"NOT {inner[0]}" if word == "not" else f" {word.upper()} ".join(inner)

    source.need(*[column.name for column in condition.columns])

    def test(column: Column, op: str, to: int) -> str:
        return f"{code(column)} IS NULL" if op == "null" else f"{code(column)} {op} {to}"

    known = [f"{code(column)} IS NOT NULL" for column in condition.needed]
    meant = condition.fold(test, join)
    return " AND ".join([*known, f"({meant})"])


def _group(source: DuckTable, by: Sequence[Column]) -> str:
    group = "0::BIGINT"
    for column in by:
        group = f"({group}) * {column.size} + ({code_sql(column, source.types[column.name])})"
    return group


def _batches(source: DuckTable, query: str, size: int) -> Iterator[Any]:
    relation = source.connection.sql(query)
    # fetch_arrow_reader is its name in DuckDB 1
    yield from (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(size)


def _as_numpy(column: Any) -> npt.NDArray[Any]:
    """What an Arrow column without nulls holds, without a copy. (Its own to_numpy loads pandas, which takes half a second.)"""
    dtype = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def texts(source: DuckTable, query: str) -> list[str | None]:
    """The one column of texts that a query finds, for the steward's eyes. What is not UTF-8 is shown as escapes."""
    with source.in_turn():
        rows = source.connection.execute(f"SELECT encode(found) FROM ({query}) AS every(found)").fetchall()
    return [None if row[0] is None else row[0].decode("utf-8", "backslashreplace") for row in rows]


def in_order(source: DuckTable, query: str) -> dict[str, Values]:
    """What a query finds, in the order of the data; elsewhere the order does not matter, and is not kept."""
    source.connection.execute("SET preserve_insertion_order = true")
    try:
        found: dict[str, Values] = source.connection.execute(query).fetchnumpy()
        return found
    finally:
        source.connection.execute("SET preserve_insertion_order = false")


# Which rows count: those that a condition picks, at most so many of each person.
#
# A person's rows beyond the limit are left out by the order of protocol.py. (Equal rows are told apart by a number.)
#
# Ranking rows is what costs, so it is done for the persons above the limit alone; the others are only counted. For sums
# and counts the rows that are left out are taken off the sum of all: they are few, and the rest is one quick pass.

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
        f"heavy AS MATERIALIZED (SELECT person, {_word(source, unit)} AS word "
        f"FROM near GROUP BY person HAVING count(*) > {unit.max_rows}), "
        f"numbered AS (SELECT person, word, {names}, row_number() OVER (PARTITION BY person, {names}) AS copy "
        f"FROM near JOIN heavy USING (person)), "
        f"{_placed(names.split(', '))}, "
        f"ranked AS (SELECT person, {names}, row_number() OVER "
        f"(PARTITION BY person ORDER BY place, {names}, copy) AS place FROM placed)"
    )


def _placed(names: Sequence[str]) -> str:
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


def _bin_sql(code: str, runs: Runs) -> str:
    if not runs:
        return code
    cases = " ".join(f"WHEN code < {following} THEN {place}" for (_, place), (following, _) in pairwise(runs))
    inside = f"CASE WHEN code IS NULL THEN NULL {cases} ELSE {runs[-1][1]} END"
    return f"(SELECT {inside} FROM (SELECT {code} AS code))"


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


def _word(source: DuckTable, unit: Unit) -> str:
    """The word of a person, as protocol.word_of has it."""
    kind = source.types[source.person(unit)].upper()
    if kind in WHOLE or (kind.startswith("DECIMAL") and kind.endswith(",0)")):
        number = "TRY_CAST(person AS HUGEINT)"
    elif kind in FLOATS:
        number = f"TRY_CAST(CASE WHEN abs(person) < {2.0**40!r} THEN floor(person * 4096) WHEN abs(person) < {2.0**62!r} THEN floor(person) ELSE 0 END AS BIGINT)"
    else:
        return f"CAST('0x' || left(md5(CAST(person AS VARCHAR)), 8) AS BIGINT) & {WORD}"
    return f"CAST(({number} % {WORD} + {WORD}) % {WORD} AS BIGINT)"


SMALL = 2**12  # up to so many cells DuckDB groups quickly
STREAMED = 2**24  # up to so many cells are added up in memory


def _counted(source: DuckTable, rows: str, size: int) -> tuple[Integers, Integers]:
    """Rows without a cell are left out here: a condition in SQL would work out every cell twice."""
    if SMALL < size <= STREAMED:  # which way is quicker depends on the public size alone
        query = f"SELECT coalesce(cell, {size})::INTEGER FROM ({rows})"
        return _filled(stream_counts(source, query, size + 1)[:size])
    query = f"SELECT cell, count(*)::BIGINT AS n FROM ({rows}) GROUP BY cell"
    result = source.connection.execute(query).fetchnumpy()
    known = ~np.ma.getmaskarray(result["cell"])
    return np.asarray(result["cell"])[known].astype(np.int64), np.asarray(result["n"])[known].astype(np.int64)


def _filled(counts: Codes) -> tuple[Integers, Integers]:
    cells = np.flatnonzero(counts).astype(np.int64)
    return cells, counts[cells].astype(np.int64, copy=False)


def _cell_sql(source: DuckTable, fields: Sequence[Field]) -> str:
    """The mixed-radix number of a row's codes."""
    cell = ""
    for one in fields:
        code = (
            code_sql(one, source.types[one.name]) if isinstance(one, Column) else field_sql(one, source.types)
        )
        cell = f"({cell}) * {one.size} + ({code})" if cell else f"({code})::BIGINT"
    return cell


def _sum(columns: Sequence[Column], term: Term) -> str:
    if not term:
        return "count(c0)" if columns else "count(*)"
    wide = "HUGEINT" if prod(columns[i].size for i in term) >= 2**62 else "BIGINT"
    factors = " * ".join(f"c{i}::{wide}" if len(term) > 1 else f"c{i}" for i in term)
    return f"sum({factors})"
