"""DuckDB, the engine that comes with oboro: what protocol.py asks for, in SQL that is made here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from oboro.arrays import Bools, Codes, Floats, Integers, Values
from oboro.domain import Column, Date, Integer, Real
from oboro.engine.arrays import held, stream_counts
from oboro.engine.careful import Careful, Edition
from oboro.engine.codes import (
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
from oboro.engine.contributions import (
    all_rows,
    counted_rows,
    dropped_rows,
    full_rows,
    person_sql,
    placed_sql,
    rows_of_nobody,
    word_sql,
)
from oboro.engine.memory import unreadable
from oboro.engine.protocol import (
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
from oboro.separators import Header

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
    header: Header | None = field(default=None, repr=False, compare=False)  # of a text file
    met: set[str] = field(default_factory=set, repr=False, compare=False)  # asked for, and there
    unsure: set[str] = field(
        default_factory=set, repr=False, compare=False
    )  # texts of a Parquet file of which it is not known whether all are UTF-8

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
        if any(name not in self.types for name in names):
            self.check_separator([name for name in names if isinstance(name, str)])
        if self.header is not None and not self.met and names:
            raise self.lacks(names[0], hidden=True)
        Source.need(self, *names)

    def person(self, unit: Unit) -> str:
        """DuckDB's reader of Parquet makes a ? of a byte that is not UTF-8: two persons would be one. So no such text says whose a row is."""
        name = Ordered.person(self, unit)
        if name in self.unsure:
            found = self.connection.execute(
                f"SELECT bool_or(contains({quoted(name)}, '?')) FROM {self.relation}"
            )
            if found.fetchall()[0][0]:
                _read_bytes(self)
            self.unsure.discard(name)
        return name

    def without_rows(self, units: Mapping[str | None, int] | None = None) -> DuckTable:
        relation = f"(SELECT * FROM {self.relation} LIMIT 0)"
        return DuckTable(
            self.connection, relation, self.types, dict(units or {}), edition=self.edition, header=self.header
        )

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
            named = f"SELECT *, {word_sql(self, unit)} AS word, 1 AS copy FROM ({pairs})"
            pairs = f"WITH numbered AS ({named}), {placed_sql(['g'])} SELECT g FROM placed QUALIFY {order} <= {most}"
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
        numbered = f"SELECT *, {word_sql(self, unit)} AS word, 1 AS copy FROM ({crowded})"
        chosen = "SELECT person, t, arg_min(g, (place, g)) AS g FROM placed GROUP BY person, t"
        kept = f"SELECT person, t, g FROM alone WHERE n = 1 UNION ALL {chosen}"
        if most < fields[0].size:
            kept = (
                f"SELECT g FROM ({kept}) QUALIFY row_number() OVER (PARTITION BY person ORDER BY t) <= {most}"
            )
        query = (
            f"WITH alone AS MATERIALIZED ({alone}), numbered AS ({numbered}), {placed_sql(['g'])} "
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
            counts = self.connection.execute(query).fetchall()[0]  # to its end: another question may follow
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


def _bin_sql(code: str, runs: Runs) -> str:
    if not runs:
        return code
    cases = " ".join(f"WHEN code < {following} THEN {place}" for (_, place), (following, _) in pairwise(runs))
    inside = f"CASE WHEN code IS NULL THEN NULL {cases} ELSE {runs[-1][1]} END"
    return f"(SELECT {inside} FROM (SELECT {code} AS code))"


def _read_bytes(source: DuckTable) -> None:
    """From now on the file is read by Arrow, slower, with texts as they stand, byte by byte; all else has the type that it had."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    assert source.parquet is not None
    schema = ds.dataset(source.parquet, format="parquet").schema
    flat = pa.schema([one for one in schema if not pa.types.is_nested(one.type)])
    source.connection.register("as_bytes", ds.dataset(source.parquet, schema=flat, format="parquet"))
    kinds = source.connection.execute("DESCRIBE given").fetchall()
    chosen = ", ".join(
        f"TRY_CAST({quoted(name) if name in flat.names else 'NULL'} AS {kind}) AS {quoted(name)}"
        for name, kind, *_ in kinds
    )
    source.connection.execute(f"CREATE OR REPLACE VIEW given AS SELECT {chosen} FROM as_bytes")
    source.unsure.clear()


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
