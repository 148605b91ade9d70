"""Values to codes on the public grid, in DuckDB, by the rules of domain/columns.py, alike for every record."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from oboro.domain import Category, Column, Date, Integer, Real
from oboro.domain.grammar import BLANKS
from oboro.domain.grammar import WHOLE as WHOLE_TEXT
from oboro.engine.protocol import Field, Whole
from oboro.errors import DomainError

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


_WIDTH = {
    "TINYINT": 7,
    "SMALLINT": 15,
    "INTEGER": 31,
    "BIGINT": 63,
    "UTINYINT": 8,
    "USMALLINT": 16,
    "UINTEGER": 32,
}


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def exactly(number: Fraction | float) -> str:
    """A double as an SQL number. Without an exponent DuckDB would take it for a decimal, and round twice."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def code_sql(column: Column, type_name: str) -> str:
    """An SQL expression for the code of a column's value; null where the record is left out.

    >>> from oboro.engine.codes import code_sql
    >>> code_sql(ob.Integer("age", 0, 99), "BIGINT")
    '(CASE WHEN "age" < 0 THEN 0 WHEN "age" > 99 THEN 99 ELSE "age" END)'
    """
    code = bare_sql(column, quoted(column.name), base_type(type_name))
    return code if column.missing_code is None else f"coalesce({code}, {column.missing_code})"


def bare_sql(column: Column, field: str, base: str) -> str:
    """The same without what stands in for a missing value."""
    if isinstance(column, Category):
        return _category(column, field, base)
    if isinstance(column, Date):
        day = day_sql(field, base)
        code = f"greatest(0, least({column.size - 1}, {day} - DATE {literal(column.first.isoformat())}))"
        return f"CASE WHEN {day} IS NULL THEN NULL ELSE {code} END"  # greatest and least skip nulls
    if isinstance(column, Integer):
        return _integer(column, field, base)
    if isinstance(column, Real):
        number = double_sql(field, base)
        # one rule for every record: the double nearest to the value, then the nearest step
        step = f"floor(({number} - ({exactly(column.low)})) / {exactly(column.step)} + 0.5)"
        code = f"greatest(0, least({column.size - 1}, {step}::BIGINT))"
        return _within(number, float(column.low), float(column.high), column.size, code)
    raise DomainError(
        f"column {column.name!r} cannot be read from rows here",
        given=column.kind,
        needed="integer, real, category or date",
    )


def day_sql(field: str, base: str) -> str:
    """A day; null for what is none."""
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
    number = double_sql(field, base)
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
        f"WHEN {number} <= {exactly(low)} THEN 0 WHEN {number} >= {exactly(high)} THEN {size - 1} ELSE {code} END"
    )


def double_sql(field: str, base: str) -> str:
    """A number as the double nearest to it; null, or not a number, for what is none."""
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
    if base == "DECIMAL":
        return decimal_text(field)
    return field if base == "VARCHAR" else f"CAST({field} AS VARCHAR)"


def decimal_text(field: str) -> str:
    """A decimal as it is written everywhere else: DuckDB leaves out the 0 before the point where all digits stand behind it."""
    return rf"regexp_replace(CAST({field} AS VARCHAR), '^(-?)[.]', '\10.')"


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
    number = double_sql(field, base)
    if column.exact_in_doubles:
        return f"CASE {number} {cases}"
    # a double this large is whole; a text or a decimal may not be, so it must say so in digits
    whole = f"TRY_CAST({field} AS HUGEINT)" if base in FLOATS else _digits(field, base)
    return f"CASE WHEN abs({number}) < {2**53} THEN CASE {number} {cases} ELSE CASE {whole} {cases} END"


# Fields of cells, and counts: what tables of places read. The rule of tables/input.py.

_DIGITS = "DECIMAL(38,18)"  # that a count written as text is read by


def field_sql(field: Field, types: Mapping[str, str]) -> str:
    """A whole number below the field's size; null where there is none."""
    if isinstance(field, Whole):
        sql = _place(field.name, base_type(types[field.name]))
    else:
        sql = code_sql(field, types[field.name])
    # the narrow type halves what is copied, and nothing that passes can overflow it
    narrow = "INTEGER" if field.size <= 2**31 else "BIGINT"
    return f"CASE WHEN ({sql}) BETWEEN 0 AND {field.size - 1} THEN TRY_CAST(({sql}) AS {narrow}) END"


def _place(name: str, base: str) -> str:
    """A whole number as it stands; null for a fraction: there is no nearest place."""
    if base in WHOLE:
        return f"TRY_CAST({quoted(name)} AS BIGINT)"
    number = double_sql(quoted(name), base)
    return f"CASE WHEN {number} = floor({number}) AND abs({number}) < 9007199254740992 THEN TRY_CAST({number} AS BIGINT) END"


def count_sql(name: str, type_name: str, most: int) -> str:
    """A count, at most `most`; 0 for what is none."""
    base, field = base_type(type_name), quoted(name)
    if base in WHOLE:
        return f"coalesce(TRY_CAST(least(greatest({field}, 0), {most}) AS BIGINT), 0)"
    number = double_sql(field, base)
    most = min(most, 2**24 if base == "FLOAT" else most if base == "DECIMAL" else 2**53)
    nearest = f"TRY_CAST(CASE WHEN {number} < {2**52} THEN ceil({number} - 0.5) ELSE {number} END AS BIGINT)"  # from there on whole
    if base == "DECIMAL":
        nearest = _nearest_below_half(field, type_name)
    elif base not in FLOATS:
        exact = f"TRY_CAST({_text(field, base)} AS {_DIGITS})"
        nearest = f"coalesce({_nearest_below_half(exact, _DIGITS)}, {nearest})"
    return (
        f"CASE WHEN {number} IS NULL OR isnan({number}) THEN 0 "
        f"WHEN {number} >= {exactly(most)} THEN {most} ELSE greatest({nearest}, 0) END"
    )


def _nearest_below_half(exact: str, kind: str) -> str:
    """The whole number nearest to a decimal. DuckDB goes up at the half, so there one is taken off."""
    up = f"TRY_CAST({exact} AS BIGINT)"
    if kind.endswith(",0)"):
        return up
    return f"({up} - CASE WHEN TRY_CAST({up}::DECIMAL(20,1) - 0.5 AS {kind}) = {exact} THEN 1 ELSE 0 END)"
