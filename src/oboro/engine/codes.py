"""Values to codes on the public grid, in DuckDB, by the rules of domain/columns.py, alike for every record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oboro.arrays import Codes, Integers, Values
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.domain.grammar import BLANKS
from oboro.domain.grammar import WHOLE as WHOLE_TEXT
from oboro.engine.arrays import held, stream_counts
from oboro.engine.source import Source, literal, quoted
from oboro.errors import DomainError, UnitError, setting
from oboro.kinds import each_of, takes
from oboro.privacy import Unit

# DuckDB's names of types, by what their values are.

WHOLE = (
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
FLOATS = ("FLOAT", "DOUBLE")


def base_type(type_name: str) -> str:
    """DECIMAL for DECIMAL(9,2); but DECIMAL(9,2)[] is a list of them, and no number."""
    return "LIST" if type_name.endswith("]") else type_name.partition("(")[0].upper()


# Which rows count: those that a condition picks, at most so many of each person.
#
# A person's rows beyond the limit are left out by the order of a hash of the person and the row, which spreads
# what is kept evenly and depends on that person's rows alone. (Equal rows are told apart by a number.)
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

    >>> print(ob.engine.counted_rows(source, {"age": '"age"'}, ob.Unit.row()))
    SELECT * FROM (SELECT ("age") AS age FROM given) WHERE age IS NOT NULL
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
    """How many units there are, counted once: public under "replace", private otherwise.

    >>> ob.engine.count_units(source, ob.Unit.row())
    4
    """
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


_WIDTH = {
    "TINYINT": 7,
    "SMALLINT": 15,
    "INTEGER": 31,
    "BIGINT": 63,
    "UTINYINT": 8,
    "USMALLINT": 16,
    "UINTEGER": 32,
}
SMALL = 2**12  # up to so many cells DuckDB groups quickly
STREAMED = 2**24  # up to so many cells are added up in memory


def count_cells(
    source: Source, columns: Sequence[Column], unit: Unit, condition: str | None = None
) -> tuple[Integers, Integers]:
    """How many rows fall into each combination of codes: (cells, counts), cells as mixed-radix numbers.

    Only rows for which `condition`, an SQL text, is true. Contributions are bounded as in `bounding.counted_rows`.

    >>> cells, counts = ob.engine.count_cells(source, columns[1:], ob.Unit.row())
    >>> sorted(zip(cells.tolist(), counts.tolist()))
    [(0, 2), (1, 2)]
    """
    fields = {"cell": _cell_sql(source, columns)}
    size = Domain(columns).cells
    alone = condition is None and len(columns) == 1 and size <= STREAMED
    if alone and (stored := held(source, columns[0])) is not None:
        cells, counts = _filled(stored.count())
        left_out = [] if unit.kind == "row" else [rows_of_nobody(source, fields, unit)]
    else:
        cells, counts = _counted(source, all_rows(source, fields, unit, condition), size)
        left_out = []
    if unit.kind == "row":
        return cells, counts
    parts = [(cells, counts)]
    for rows in (*left_out, dropped_rows(source, fields, unit, condition)):
        fewer, less = _counted(source, rows, size)
        parts.append((fewer, -less))
    every, place = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    left = np.zeros(every.size, np.int64)
    np.add.at(left, place, np.concatenate([part[1] for part in parts]))
    return every[left > 0], left[left > 0]


def _counted(source: Source, rows: str, size: int) -> tuple[Integers, Integers]:
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


def _cell_sql(source: Source, columns: Sequence[Column]) -> str:
    """The mixed-radix number of a row's codes."""
    source.need(*[column.name for column in columns])
    Domain(columns).cells  # noqa: B018  # refuses more cells than an integer can number
    cell = ""
    for column in columns:
        code = code_sql(column, source.types[column.name])
        cell = f"({cell}) * {column.size} + ({code})" if cell else f"({code})::BIGINT"
    return cell


def code_sql(column: Column, type_name: str) -> str:
    """An SQL expression for the code of a column's value; null where the record is left out.

    >>> ob.engine.code_sql(ob.Integer("age", 0, 99), "BIGINT")
    '(CASE WHEN "age" < 0 THEN 0 WHEN "age" > 99 THEN 99 ELSE "age" END)'
    """
    code = _code_without_missing(column, quoted(column.name), base_type(type_name))
    return code if column.missing_code is None else f"coalesce({code}, {column.missing_code})"


def _code_without_missing(column: Column, field: str, base: str) -> str:
    if isinstance(column, Category):
        return _category(column, field, base)
    if isinstance(column, Date):
        day = _day(field, base)
        code = f"greatest(0, least({column.size - 1}, {day} - DATE {literal(column.first.isoformat())}))"
        return f"CASE WHEN {day} IS NULL THEN NULL ELSE {code} END"  # greatest and least skip nulls
    if isinstance(column, Integer):
        return _integer(column, field, base)
    if isinstance(column, Real):
        number = _double(field, base)
        # one rule for every record: the double nearest to the value, then the nearest step
        step = f"floor(({number} - ({float(column.low)!r})) / {float(column.step)!r} + 0.5)"
        code = f"greatest(0, least({column.size - 1}, {step}::BIGINT))"
        return _within(number, float(column.low), float(column.high), column.size, code)
    raise DomainError(
        f"column {column.name!r} cannot be read from rows here",
        given=column.kind,
        needed="integer, real, category or date",
    )


def _day(field: str, base: str) -> str:
    if base == "DATE" or base.startswith("TIMESTAMP"):
        return field if base == "DATE" else f"TRY_CAST({_text(field, base)} AS DATE)"
    # DuckDB takes more texts for days than the grammar: those that it would write in another way. (Its trim raises on bytes
    # that are not UTF-8, so blanks are taken off by other means, and only where there are some.)
    text = _text(field, base)
    shorn = f"regexp_replace({text}, '^{BLANKS}', '')"
    head = f"left(CASE WHEN {text} < '!' THEN {shorn} ELSE {text} END, 10)"
    day = f"TRY_CAST({head} AS DATE)"
    return f"CASE WHEN {head} BETWEEN '0' AND 'A' AND CAST({day} AS VARCHAR) = {head} THEN {day} END"  # infinity is none


def _integer(column: Integer, field: str, base: str) -> str:
    if base in _WIDTH and max(abs(column.low), abs(column.high)) < 2**61:
        return _whole(column, field, base)
    number = _double(field, base)
    if column.exact_in_doubles:
        # a fraction goes to the nearest step from its own value; inside the bounds a double is exact enough
        nearest = f"floor(({number} - ({column.low})) / {column.step} + 0.5)::BIGINT"
        return _within(number, column.low, column.high, column.size, nearest)
    # bounds that doubles cannot tell apart: a small number by its own halves, exactly, a large one as a whole
    low, high, step = column.low, column.high, column.step
    exact = f"TRY_CAST({field if base in WHOLE else number} AS HUGEINT)"
    if base not in (*WHOLE, *FLOATS):  # digits say it exactly, whatever else is as large counts as a double
        exact = f"coalesce({_digits(field, base)}, {exact})"
    halves = f"(floor(2 * {number})::HUGEINT - ({2 * low}) + {step}) // {2 * step}"
    inside = f"(greatest({low}, least({high}, {exact})) - ({low}) + {step // 2}) // {step}"
    return (
        f"(CASE WHEN {number} IS NULL OR isnan({number}) THEN NULL "
        f"WHEN abs({number}) < {2**52} THEN greatest(0, least({column.size - 1}, {halves})) "
        f"WHEN {exact} IS NULL THEN CASE WHEN {number} < 0 THEN 0 ELSE {column.size - 1} END "
        f"ELSE {inside} END)::BIGINT"
    )


def _whole(column: Integer, field: str, base: str) -> str:
    """Whole numbers of a type whose width is known: clamped first, in whole numbers, which is quick."""
    low, high = column.low, column.high
    wide = field if max(abs(low), abs(high)) < 2 ** (_WIDTH[base] - 1) else f"({field})::BIGINT"
    inside = f"(CASE WHEN {wide} < {low} THEN {low} WHEN {wide} > {high} THEN {high} ELSE {wide} END)"
    if column.step == 1:
        return inside if low == 0 else f"({inside}::BIGINT - ({low}))"
    return f"(({inside}::BIGINT - ({low}) + {column.step // 2}) // {column.step})"


def _within(number: str, low: Fraction | float, high: Fraction | float, size: int, code: str) -> str:
    """Clamps before anything is computed, so that nothing overflows whatever the value."""
    return (
        f"CASE WHEN {number} IS NULL OR isnan({number}) THEN NULL "
        f"WHEN {number} <= {float(low)!r} THEN 0 WHEN {number} >= {float(high)!r} THEN {size - 1} ELSE {code} END"
    )


@takes(source=Source)
def doubles(source: Source, names: Sequence[str]) -> npt.NDArray[np.float64]:
    """The columns as doubles, in the order of the rows; nan for what is missing or no number."""
    source.need(*names)
    casts = ", ".join(
        f"{_double(quoted(name), base_type(source.types[name]))} AS c{i}" for i, name in enumerate(names)
    )
    found = in_order(source, f"SELECT {casts} FROM {source.relation}")
    parts = [np.ma.filled(np.ma.asarray(found[f"c{i}"], np.float64), np.nan) for i in range(len(names))]
    return np.stack(parts, axis=1)


def texts(source: Source, query: str) -> list[str | None]:
    """The one column of texts that a query finds, for the steward's eyes. What is not UTF-8 is shown as escapes."""
    rows = source.connection.execute(f"SELECT encode(found) FROM ({query}) AS every(found)").fetchall()
    return [None if row[0] is None else row[0].decode("utf-8", "backslashreplace") for row in rows]


def in_order(source: Source, query: str) -> dict[str, Values]:
    """What a query finds, in the order of the data; elsewhere the order does not matter, and is not kept."""
    source.connection.execute("SET preserve_insertion_order = true")
    try:
        found: dict[str, Values] = source.connection.execute(query).fetchnumpy()
        return found
    finally:
        source.connection.execute("SET preserve_insertion_order = false")


def _double(field: str, base: str) -> str:
    if base in WHOLE or base in FLOATS or base == "BOOLEAN":
        return f"CAST({field} AS DOUBLE)"
    if (
        base == "DECIMAL"
    ):  # by its text: a cast divides doubles, which is not the nearest one where there are many digits
        return f"CAST(CAST({field} AS VARCHAR) AS DOUBLE)"
    # beyond the grammar DuckDB's cast takes 1_000 and +-1, and not-a-number, which counts as missing
    text = _text(field, base)
    return f"CASE WHEN contains({text}, '_') OR contains({text}, '+-') THEN NULL ELSE TRY_CAST({text} AS DOUBLE) END"


def _digits(field: str, base: str) -> str:
    """A whole number that is written in digits, of any width; null for what is not."""
    text = _text(field, base)
    return f"CASE WHEN regexp_full_match({text}, '{BLANKS}{WHOLE_TEXT}{BLANKS}') THEN TRY_CAST({text} AS HUGEINT) END"


def _text(field: str, base: str) -> str:
    return field if base == "VARCHAR" else f"CAST({field} AS VARCHAR)"


def _category(column: Category, field: str, base: str) -> str:
    if isinstance(column.values[0], int):
        return _whole_label(column, field, base)
    labels = ", ".join(literal(str(value)) for value in column.values)
    return f"enum_code(TRY_CAST({_text(field, base)} AS ENUM({labels})))::BIGINT"


def _whole_label(column: Category, field: str, base: str) -> str:
    """The code of a declared whole number. Doubles tell whole numbers apart below 2^53 alone."""
    cases = " ".join(f"WHEN {value} THEN {code}" for code, value in enumerate(column.values)) + " END"
    if base in WHOLE:
        return f"CASE CAST({field} AS HUGEINT) {cases}"
    number = _double(field, base)
    if column.exact_in_doubles:
        return f"CASE {number} {cases}"
    # a double this large is whole; a text or a decimal may not be, so it must say so in digits
    whole = f"TRY_CAST({field} AS HUGEINT)" if base in FLOATS else _digits(field, base)
    return f"CASE WHEN abs({number}) < {2**53} THEN CASE {number} {cases} ELSE CASE {whole} {cases} END"


@takes(source=Source, columns=each_of(Column))
def check_columns(source: Source, columns: Sequence[Column]) -> list[dict[str, object]]:
    """For the steward's eyes: how many values of each column are missing or out of bounds. Not private.

    >>> for found in ob.engine.check_columns(source, columns):
    ...     print(found)
    {'column': 'age', 'rows': 4, 'missing': 1, 'unknown': 0, 'below': 0, 'above': 1}
    {'column': 'sex', 'rows': 4, 'missing': 0, 'unknown': 0, 'below': 0, 'above': 0}
    """
    report = []
    for column in columns:
        source.need(column.name)
        base = base_type(source.types[column.name])
        field = quoted(column.name)
        bare = _code_without_missing(column, field, base)
        below = above = "0"
        if isinstance(column, Integer | Real):
            number = _double(field, base)
            below, above = (
                f"count(*) FILTER (NOT isnan({number}) AND {number} {test})"
                for test in (f"< {float(column.low)!r}", f"> {float(column.high)!r}")
            )
        elif isinstance(column, Date):
            day = _day(field, base)
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


# Exact sums of codes and of their products, in 128 bits.

MOST_ROWS = 2**38  # more than any table has; sums of so many rows fit
Term = tuple[int, ...]  # which columns are multiplied; () is a count


def add_up(
    source: Source,
    columns: Sequence[Column],
    terms: Sequence[Term],
    unit: Unit,
    *,
    by: Sequence[Column] = (),
    condition: str | None = None,
) -> dict[int, list[int]]:
    """For each group, by its mixed-radix number: the sum over its rows of each term. Groups without rows are absent.

    (0,) is the sum of the first column's codes, (0, 1) that of the products of the first two, () the count.

    >>> added = ob.engine.add_up(source, columns, [(0,), ()], ob.Unit.row(), by=columns[1:])
    >>> added == {0: [31, 1], 1: [153, 2]}
    True
    """
    check_width(columns, terms)
    source.need(*[column.name for column in (*columns, *by)])
    group = "0::BIGINT"
    for column in by:
        group = f"({group}) * {column.size} + ({code_sql(column, source.types[column.name])})"
    fields = {f"c{i}": code_sql(column, source.types[column.name]) for i, column in enumerate(columns)}
    fields = {**fields, "g": group} if by or not fields else fields
    sums = ", ".join(_sum(columns, term) for term in terms)
    grouped = " GROUP BY g HAVING count(c0) > 0" if by and columns else " GROUP BY g" if by else ""

    def added(rows: str) -> dict[int, list[int]]:
        query = f"SELECT {'g' if by else '0'}, {sums} FROM ({rows}){grouped}"
        found = source.connection.execute(query).fetchall()
        return {int(row[0]): [int(value or 0) for value in row[1:]] for row in found if row[0] is not None}

    alone = condition is None and not by and len(columns) == 1 and set(terms) <= {(), (0,)}
    if alone and (stored := held(source, columns[0])) is not None:
        count, total = stored.add_up()
        totals = {0: [total if term else count for term in terms]}
        left_out = [] if unit.kind == "row" else [rows_of_nobody(source, fields, unit)]
    else:
        # sums skip nulls by themselves: with one column at most no row need be looked at twice
        rows = all_rows if len(columns) <= 1 else full_rows
        totals, left_out = added(rows(source, fields, unit, condition)), []
    if unit.kind == "person":
        left_out.append(dropped_rows(source, fields, unit, condition))
    for query in left_out:
        for place, less in added(query).items():
            totals[place] = [total - part for total, part in zip(totals[place], less, strict=True)]
    return totals


def check_width(columns: Sequence[Column], terms: Sequence[Term]) -> None:
    """Refuses what could overflow 128 bits, by public bounds alone.

    >>> ob.engine.check_width(columns, [(0, 0)])
    >>> ob.engine.check_width([ob.Integer("n", 0, 2**60)], [(0, 0)])
    Traceback (most recent call last):
        ...
    oboro.errors.DomainError: products of n are too large to add up
      given   1152921504606846977 x 1152921504606846977
      needed  at most 2^88 in all
      fix     a larger step
    """
    for term in terms:
        largest = prod(columns[i].size for i in term)
        if largest * MOST_ROWS >= 2**127:
            names = ", ".join(dict.fromkeys(columns[i].name for i in term))
            raise DomainError(
                f"products of {names} are too large to add up",
                given=" x ".join(str(columns[i].size) for i in term),
                needed="at most 2^88 in all",
                fix="a larger step",
            )


def _sum(columns: Sequence[Column], term: Term) -> str:
    if not term:
        return "count(c0)" if columns else "count(*)"
    wide = "HUGEINT" if prod(columns[i].size for i in term) >= 2**62 else "BIGINT"
    factors = " * ".join(f"c{i}::{wide}" if len(term) > 1 else f"c{i}" for i in term)
    return f"sum({factors})"
