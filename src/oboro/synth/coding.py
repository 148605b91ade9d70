"""Rows to codes and back: what synthetic data reads, and how it writes.

Every value becomes a code of its column by the rules of oboro.domain. A value that is missing, unknown or unreadable is
kept as missing, with one code more, and comes out as a null; where the column declares `missing=` it becomes that value
instead. So every record counts, and none raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.engine import code_sql, open_data
from oboro.engine.bounding import counted_rows
from oboro.engine.source import Source
from oboro.errors import DataError, DomainError, UnitError, setting, told
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


def read_codes(data: Any, domain: Domain, unit: Unit, n: int | None = None) -> Integers:
    """The codes of all rows that count, one line for each column. With a public `n`, refused unless there are so many rows.

    Of a person with more than `max_rows` rows only that many are kept, chosen by a hash of the person and the row.
    """
    source = open_data(data)
    source.need(*domain.names)
    query = _rows(source, domain.columns, unit)
    result = source.connection.execute(query).fetchnumpy()
    codes = np.empty((len(domain), len(result["c0"])), np.int64)
    for place in range(len(domain)):
        codes[place] = result[f"c{place}"]
    if n is not None and codes.shape[1] != n:
        raise DataError(
            "the data has another number of rows than the plan",
            given=f"{codes.shape[1]:,} rows",
            needed=f"n = {n:,}: under replace the number of rows is public",
            fix=told(n=f"{codes.shape[1]}"),
        )
    return codes


def count_rows(data: Any) -> int:
    """How many rows the data has; public under replace."""
    source = open_data(data)
    return int(source.connection.execute(f"SELECT count(*) FROM {source.relation}").fetchone()[0])


def _rows(source: Source, columns: Sequence[Column], unit: Unit) -> str:
    """SQL for the codes of the rows that count: none is null, so all do, up to a person's limit."""
    coded = {
        f"c{place}": f"coalesce(({code_sql(column, source.types[column.name])})::BIGINT, {column.size})"
        for place, column in enumerate(columns)
    }
    return counted_rows(source, coded, unit)


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
