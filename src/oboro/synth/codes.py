"""Rows to codes and back: what synthetic data reads, and how it writes.

Every value becomes a code of its column by the rules of oboro.domain. A value that is missing, unknown or unreadable is
kept as missing, with one code more, and comes out as a null; where the column declares `missing=` it becomes that value
instead. So every record counts, and none raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Data, Floats, Integers
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.domain.grammar import BLANKS
from oboro.engine import count_units, open_data, stream_codes
from oboro.engine.codes import FLOATS, WHOLE, bare_sql, base_type, day_sql, double_sql, quoted
from oboro.engine.duck import DuckTable, in_order, on_this_machine
from oboro.errors import DataError, DomainError, UnitError, setting, told
from oboro.exact import about
from oboro.privacy import Unit


def code_count(column: Column) -> int:
    """How many codes a column has here: its values, and one for missing unless it declares what stands in."""
    return column.size + (column.missing_code is None)


def check_synthesisable(domain: Domain, unit: Unit) -> None:
    """Refuses what public facts rule out."""
    if unit.kind not in ("row", "person"):
        raise UnitError(
            "synthetic data is made from rows",
            given=str(unit),
            needed="a unit of rows or persons",
            fix=setting(unit=Unit.row()),
        )
    for column in domain:
        if not isinstance(column, Integer | Real | Category | Date):
            raise DomainError(
                f"column {column.name!r} cannot be synthesised",
                given=column.kind,
                needed="integer, real, category or date",
                fix="a category with the places as values",
            )
    if unit.column is not None and unit.column in domain:
        raise DomainError(
            f"column {unit.column!r} says who a row belongs to and cannot be synthesised",
            given=f"unit {unit}, and a column of the domain",
            needed="a domain without it",
            fix=f"a domain without {unit.column!r}",
        )


def read_codes(data: Data, domain: Domain, unit: Unit, n: int | None = None) -> Integers:
    """The codes of all rows that count, one line for each column. With a public `n`, refused unless there are so many rows.

    Of a person with more than `max_rows` rows only that many are kept, chosen by a hash of the person and the row.
    """
    source = open_data(data)
    parts = [rows.T for rows in stream_codes(source, domain.columns, unit, keep=True)]
    codes = np.concatenate([np.empty((len(domain), 0), np.int64), *parts], axis=1)
    if n is not None and codes.shape[1] != n:
        raise DataError(
            "the data has another number of rows than the plan",
            given=f"{codes.shape[1]:,} rows",
            needed=f"n = {n:,}: under replace the number of rows is public",
            fix=told(n=f"{codes.shape[1]}"),
        )
    return codes


def count_rows(data: Data) -> int:
    """How many rows the data has; public under replace."""
    return count_units(open_data(data), Unit.row())


def to_table(domain: Domain, codes: Sequence[Integers]) -> Any:
    """Codes as an Arrow table: columns in the domain's order, each with its own type, missing as null."""
    import pyarrow as pa

    return pa.table({column.name: to_array(column, code) for column, code in zip(domain, codes, strict=True)})


def to_array(column: Column, codes: Integers) -> Any:
    import pyarrow as pa

    missing = codes >= column.size
    known = np.where(missing, 0, codes)
    if isinstance(column, Integer):
        return pa.array(column.low + known * column.step, mask=missing)
    if isinstance(column, Real):
        return pa.array(_real_values(column, known), mask=missing)
    if isinstance(column, Date):
        first = np.datetime64(column.first, "D")
        return pa.array(first + known.astype("timedelta64[D]"), pa.date32(), mask=missing)
    assert isinstance(column, Category)
    values = pa.array(list(column.values))
    return values.take(pa.array(known, mask=missing))


def _real_values(column: Real, codes: Integers) -> npt.NDArray[np.float64]:
    """The floats that `column.value` gives, each found once."""
    distinct, where = np.unique(codes, return_inverse=True)
    return np.asarray([column.value(int(code)) for code in distinct], float)[where]


# Two tables side by side, real and synthetic, column by column as numbers or labels. For quality reports; not private.

BINS = 20
HEAVY = 5  # rows that a value needs at least for a bin of its own
MOST_LABELS = 50

_NUMERIC = (*WHOLE, *FLOATS, "DECIMAL", "BOOLEAN")


@dataclass(frozen=True, slots=True)
class Compared:
    """One column of both tables: numbers with nan where missing, or codes of labels; and both in the same bins."""

    name: str
    numeric: bool
    real: Floats
    synthetic: Floats
    labels: tuple[str, ...]  # of the bins
    real_bins: Integers
    synthetic_bins: Integers
    shown: Callable[[float], str] = str  # a number of this column as text

    @property
    def size(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Both:
    """The columns that two tables share, and the names of those that only one of them has."""

    columns: tuple[Compared, ...]
    only_real: tuple[str, ...]
    only_synthetic: tuple[str, ...]


def read_both(data: Data, synthetic: Any, domain: Domain | None = None) -> Both:
    """The columns that the two tables share, in the order of the synthetic one. A domain says which hold numbers, days and labels."""
    real, made = (on_this_machine(open_data(table), "a quality report") for table in (data, synthetic))
    names = [name for name in made.types if name in real.types]
    if not names:
        real.check_separator(tuple(made.types), "data")
        made.check_separator(tuple(real.types), "synthetic")
        real.check_separator()
        raise DataError(
            "the two tables share no column",
            given=f"real: {', '.join(real.types)}; synthetic: {', '.join(made.types)}",
            needed="columns of the same names",
        )
    if real.count_units(Unit.row()) == 0:
        raise DataError(
            "the real table has no rows",
            given="0 rows",
            needed="rows to compare the synthetic ones with",
        )
    if made.count_units(Unit.row()) == 0:
        raise DataError(
            "the synthetic table has no rows",
            given="0 rows",
            needed="records that a model drew: oboro synth sample",
        )
    declared = {} if domain is None else {column.name: column for column in domain}
    return Both(
        tuple(_compared(name, real, made, declared.get(name)) for name in names),
        tuple(name for name in real.types if name not in made.types),
        tuple(name for name in made.types if name not in real.types),
    )


def _compared(name: str, real: DuckTable, made: DuckTable, column: Column | None) -> Compared:
    shape = _declared(column) or _shape(real, name)
    if column is None and _shape(made, name) != shape:
        shape = "label"
    if shape == "label":
        return _label_bins(name, _labels(real, name, column), _labels(made, name, column))
    one, two = _numbers(real, name, shape), _numbers(made, name, shape)
    bins = _number_bins(one, two, _day if shape == "day" else _number)
    return Compared(name, True, one, two, *bins, _day if shape == "day" else about)


def _declared(column: Column | None) -> str | None:
    if column is None:
        return None
    return "label" if isinstance(column, Category) else "day" if isinstance(column, Date) else "number"


def code_like(text: str) -> str:
    """SQL: whether a text is a number to a reader of numbers, and a code to whoever wrote it: 01, 007, -05."""
    return f"regexp_matches({text}, '^{BLANKS}[+-]?0[0-9]')"


def _shape(source: DuckTable, name: str) -> str:
    """What a column holds, by its type; a column of texts by whether a release would read all of them as numbers, or as days."""
    base = base_type(source.types[name])
    if base in _NUMERIC:
        return "number"
    if base == "DATE" or base.startswith("TIMESTAMP"):
        return "day"
    if base != "VARCHAR":
        return "label"
    field = quoted(name)
    query = (
        f"SELECT count(*) FILTER (replace({field}, ' ', '') != ''), count({double_sql(field, base)}), "
        f"count({day_sql(field, base)}), count(*) FILTER ({code_like(field)}) FROM {source.relation}"
    )
    known, numbers, days, codes = source.connection.execute(query).fetchone()
    if known and days == known:
        return "day"
    return "number" if known and numbers == known and not codes else "label"


def _number(number: float) -> str:
    """As people write it: whole numbers as they are, others to six digits; with commas from ten thousand on, where no year is."""
    if not 10_000 <= abs(number) < 1e15:
        return f"{number:g}"
    return f"{number:,.0f}" if number.is_integer() or abs(number) >= 1e6 else f"{number:,.1f}"


def _day(number: float) -> str:
    return str(np.datetime64(int(number), "D"))


def _numbers(source: DuckTable, name: str, shape: str) -> Floats:
    """As a release reads them; nan for what it does not, and for what is not finite."""
    base, field = base_type(source.types[name]), quoted(name)
    number = (
        f"CAST({day_sql(field, base)} - DATE '1970-01-01' AS DOUBLE)"
        if shape == "day"
        else double_sql(field, base)
    )
    # columns are read one by one, and a row must stand at the same place in each
    values = in_order(source, f"SELECT {number} AS v FROM {source.relation}")["v"]
    known = np.asarray(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan), float)
    return np.where(np.isfinite(known), known, np.nan)


def _labels(source: DuckTable, name: str, column: Column | None) -> list[str | None]:
    base, field = base_type(source.types[name]), quoted(name)
    text = f"CAST({field} AS VARCHAR)"
    if isinstance(column, Category) and isinstance(column.values[0], int):  # 1.0 and 1 are one value
        cases = " ".join(f"WHEN {code} THEN '{value}'" for code, value in enumerate(column.values))
        text = f"CASE {bare_sql(column, field, base)} {cases} ELSE {text} END"
    values = np.ma.asarray(in_order(source, f"SELECT encode({text}) AS v FROM {source.relation}")["v"])
    # not np.ma.filled, to which None means a value of its own
    return [
        None if masked or value is None else bytes(value).decode("utf-8", "backslashreplace")
        for value, masked in zip(np.ma.getdata(values), np.ma.getmaskarray(values), strict=True)
    ]


def _number_bins(
    one: Floats, two: Floats, shown: Callable[[float], str]
) -> tuple[tuple[str, ...], Integers, Integers]:
    """Bins that hold about equally many real records, and a last one for what is missing.

    A value that fills a bin has it to itself, and so has what lies beyond all real values: else nothing would show what stands in
    for them. Bins that are empty in both tables are left out.
    """
    known = one[~np.isnan(one)]
    lower, upper = np.zeros((2, 0))  # edges, which belong to the bin above and to the bin below
    if known.size:
        values, counts = np.unique(known, return_counts=True)
        heavy = values[counts >= max(known.size / BINS, HEAVY)]
        cuts = np.quantile(known, np.linspace(0, 1, BINS + 1)[1:], method="inverted_cdf")
        lower, upper = np.union1d(heavy, values[:1]), np.union1d(heavy, cuts)
    last = lower.size + upper.size + 1

    def place(values: Floats) -> Integers:
        numbers = np.nan_to_num(values)
        bins = np.searchsorted(lower, numbers, side="right") + np.searchsorted(upper, numbers, side="left")
        return np.where(np.isnan(values), last, bins).astype(np.int64)

    edges = sorted([(float(edge), 0) for edge in lower] + [(float(edge), 1) for edge in upper])
    labels = [f"up to {shown(edge)}" if kind else f"below {shown(edge)}" for edge, kind in edges]
    for i in range(1, len(edges)):
        if edges[i - 1] == (edges[i][0], 0):
            labels[i] = shown(edges[i][0])
    labels += [f"above {shown(edges[-1][0])}" if edges else "above lowest", "missing"]
    first, second = place(one), place(two)
    used = (np.bincount(first, minlength=last + 1) + np.bincount(second, minlength=last + 1)) > 0
    used[last] = True
    to = np.cumsum(used) - 1
    return tuple(label for label, kept in zip(labels, used, strict=True) if kept), to[first], to[second]


def _label_bins(name: str, one: list[str | None], two: list[str | None]) -> Compared:
    """Labels by how frequent they are in both tables; the rare ones share a bin, and so does what is missing.

    By the real ones alone, those would have bins that happen to be frequent there, and a perfect model would seem to lack them.
    """
    counts: dict[str, int] = {}
    for label in (*one, *two):
        if label is not None:
            counts[label] = counts.get(label, 0) + 1
    order = sorted(counts, key=lambda label: (-counts[label], label))
    shown = order if len(order) <= MOST_LABELS else order[: MOST_LABELS - 1]
    codes = {label: place for place, label in enumerate(order)}
    rest = len(shown)
    labels = [*shown, *(["others"] if len(order) > len(shown) else []), "missing"]

    def coded(values: list[str | None]) -> Floats:
        return np.array([np.nan if value is None else codes[value] for value in values], float)

    def place(values: Floats) -> Integers:
        return np.where(np.isnan(values), len(labels) - 1, np.minimum(np.nan_to_num(values), rest)).astype(
            np.int64
        )

    first, second = coded(one), coded(two)
    return Compared(name, False, first, second, tuple(labels), place(first), place(second))
