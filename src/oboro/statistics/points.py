"""Rows as points: whole numbers from -REACH to REACH in each column, so that all columns weigh the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Column, Date, Integer, Real
from oboro.errors import DomainError, declaration
from oboro.statistics.decoding import counted_codes
from oboro.statistics.scope import Scope

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


def points(scope: Scope, columns: Sequence[Column], data: Any) -> Integers:
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


def centres_table(columns: Sequence[Column], centres: npt.ArrayLike) -> Any:
    """Points in the units of the columns, in a fixed order."""
    import pyarrow as pa

    found = values(columns, np.clip(centres, -REACH, REACH))
    found = found[np.lexsort(found.T[::-1])]
    return pa.table({column.name: found[:, i] for i, column in enumerate(columns)})


def _low(column: Column) -> float:
    return float(column.low) if isinstance(column, Integer | Real) else 0.0


def _step(column: Column) -> float:
    return float(column.step) if isinstance(column, Integer | Real) else 1.0
