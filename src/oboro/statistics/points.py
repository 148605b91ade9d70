"""Rows as points: whole numbers from -REACH to REACH in each column, so that all columns weigh the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oboro.arrays import Data, Floats, Integers, Table, Values
from oboro.domain import Category, Column, Date, Integer, Real
from oboro.engine import stream_codes
from oboro.engine.protocol import in_order
from oboro.errors import DomainError, declaration
from oboro.statistics.scope import Scope

# Rows on the public grid, as integers and as values again: what plans that look at whole rows read.

Rows = dict[str, Values]


def counted_codes(scope: Scope, columns: Sequence[Column], data: Data) -> Integers:
    """One row of codes for each row that counts. A record that any column leaves out is left out."""
    source, condition = scope.open(data)
    found = [np.empty((0, len(columns)), np.int64), *stream_codes(source, columns, scope.unit, condition)]
    return np.concatenate(found)


def all_codes(scope: Scope, columns: Sequence[Column], data: Data) -> tuple[Integers, Integers]:
    """One row of codes for each row of the data, in its order, and whose it is. -1 where a record is left out.

    For a unit of rows, row i belongs to unit i: its position, which is public under replace. A row that belongs to
    nobody, or does not meet the condition, is left out too.
    """
    source, condition = scope.open(data)
    ordered = in_order(source)
    ordered.need(*[column.name for column in columns])
    codes, met, units = ordered.all_codes(columns, scope.unit, condition)
    codes[~met] = -1
    return codes, np.arange(len(codes)) if units is None else units


def rows_from(columns: Sequence[Column], codes: Integers) -> Rows:
    """Codes as the values that they stand for: numbers, texts or dates, an array for each column."""
    return {column.name: _values(column, codes[:, i]) for i, column in enumerate(columns)}


def one_unit(
    scope: Scope, columns: Sequence[Column], own: Sequence[int] | None, rest: Sequence[int]
) -> dict[str, Sequence[object]]:
    """A table for the audit: one unit with these codes in all its rows, or nobody; under replace, n - 1 others."""
    mine = 0 if own is None else scope.rows
    others = max(0, (scope.n or 1) - 1) if scope.replaced else 0
    table: dict[str, Sequence[object]] = {
        column.name: [column.value((own or rest)[i])] * mine + [column.value(rest[i])] * others
        for i, column in enumerate(columns)
    }
    if scope.unit.column is not None:
        table[scope.unit.column] = ["own"] * mine + [f"other {i}" for i in range(others)]
    return table


def _values(column: Column, codes: Integers) -> Values:
    if isinstance(column, Integer):
        return column.low + column.step * codes
    if isinstance(column, Real):
        return float(column.low) + float(column.step) * codes
    if isinstance(column, Date):
        return np.datetime64(column.first, "D") + codes.astype("timedelta64[D]")
    assert isinstance(column, Category)
    return np.asarray(column.values)[codes]


REACH = (
    2**10
)  # half the points of the grid that a column is put on; -REACH is its lowest value, REACH its highest


def check_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Points need numbers with a width."""
    check_different(columns)
    wrong = [c for c in columns if not isinstance(c, Integer | Real | Date) or c.size < 2]
    if wrong or not columns:
        raise DomainError(
            "points need columns of numbers",
            given=f"{wrong[0].kind} column {wrong[0].name!r}" if wrong else "no column",
            needed="integer, real or date columns with more than one value",
            fix=declaration("real", name="height", low=0, high=250, step="0.1"),
        )
    return tuple(columns)


def check_different(columns: Sequence[Column]) -> None:
    """A column is used once, and each is one that rows have a value of."""
    for column in columns:
        if not isinstance(column, Integer | Real | Category | Date):
            raise DomainError(
                f"column {column.name!r} cannot be read from rows here",
                given=column.kind,
                needed="integer, real, category or date",
            )
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise DomainError(
            "a column is named twice",
            given=", ".join(names),
            needed="different columns",
            fix='["age", "income"]',
        )


def points(scope: Scope, columns: Sequence[Column], data: Data) -> Integers:
    """A point for each row that counts. Each coordinate depends on that row alone."""
    return scaled(columns, counted_codes(scope, columns, data))


def scaled(columns: Sequence[Column], codes: Integers) -> Integers:
    """Codes as points."""
    out = np.empty_like(codes)
    for i, column in enumerate(columns):
        last = column.size - 1
        if last < 2**50:  # the product does not overflow
            out[:, i] = (2 * REACH * codes[:, i] + last // 2) // last - REACH
        else:
            out[:, i] = np.minimum(codes[:, i] // (last // (2 * REACH)), 2 * REACH) - REACH
    return out


def values(columns: Sequence[Column], at: npt.ArrayLike) -> Floats:
    """Points, whole or not, in the units of their columns."""
    low = np.asarray([_low(column) for column in columns])
    high = np.asarray([_low(column) + _step(column) * (column.size - 1) for column in columns])
    return np.asarray(low + (np.asarray(at, float) / REACH + 1) / 2 * (high - low))


def centres_table(columns: Sequence[Column], centres: npt.ArrayLike) -> Table:
    """Points in the units of the columns, in a fixed order."""
    import pyarrow as pa

    found = values(columns, np.clip(centres, -REACH, REACH))
    found = found[np.lexsort(found.T[::-1])]
    return pa.table({column.name: found[:, i] for i, column in enumerate(columns)})


def _low(column: Column) -> float:
    return float(column.low) if isinstance(column, Integer | Real) else 0.0


def _step(column: Column) -> float:
    return float(column.step) if isinstance(column, Integer | Real) else 1.0
