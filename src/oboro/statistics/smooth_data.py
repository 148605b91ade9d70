"""What releases by smooth sensitivity share: sorted codes with a public n, forecasts for made-up data, examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.domain import Column, Integer, Real
from oboro.engine import code_sql, counted_rows
from oboro.errors import DomainError, UnitError, setting, told
from oboro.privacy import Unit
from oboro.release import Forecast
from oboro.statistics.decay import Decaying
from oboro.statistics.scope import Scope
from oboro.statistics.sensitivity.windows import Sorted
from oboro.statistics.smooth_noise import SmoothNoise


@dataclass(frozen=True, slots=True)
class Smooth:
    """The true answer and its smooth sensitivity. Both are private."""

    centre: Fraction
    sensitivity: Decaying


def check_scope(scope: Scope) -> Scope:
    """Smooth sensitivity is about one replaced value among n, n public."""
    if not scope.replaced or scope.rows != 1 or not scope.n:
        raise UnitError(
            "smooth sensitivity is for replaced units with one row each, and a public n",
            given=f"{scope.unit}, " + told(n=f"{scope.n}"),
            needed=setting(unit=Unit.row("replace")) + ", and at least one row",
            fix=setting(unit=Unit.row("replace")),
        )
    if scope.by:
        raise DomainError(
            "a smooth release has no groups", given=scope.words().strip(), fix="one release for each"
        )
    return scope


def sorted_codes(scope: Scope, column: Column, data: Any, q: Fraction) -> Sorted:
    """The codes of the rows that count, with those that are left out at the bounds."""
    source, condition = scope.open(data)
    source.need(column.name)
    rows = counted_rows(source, {"c0": code_sql(column, source.types[column.name])}, scope.unit, condition)
    found = source.connection.execute(
        f"SELECT c0, count(*)::BIGINT AS n FROM ({rows}) GROUP BY c0 ORDER BY c0"
    ).fetchnumpy()
    codes, counts = (np.asarray(found[name]).astype(np.int64) for name in ("c0", "n"))
    left_out = (scope.n or 0) - int(counts.sum())
    below = math.floor(q * left_out)
    last = column.size - 1
    ends, extra = np.asarray([0, last]), np.asarray([below, left_out - below])
    codes, place = np.unique(np.concatenate([ends, codes]), return_inverse=True)
    totals = np.zeros(codes.size, np.int64)
    np.add.at(totals, place, np.concatenate([extra, counts]))
    return Sorted.of(codes[totals > 0], 0, last, totals[totals > 0])


def sum_between(data: Sorted, skipped: int, until: int) -> int:
    """The exact sum of x_(skipped+1), ..., x_until. In three parts of 21 bits, none of which can overflow."""
    first = np.concatenate([[0], data.last[:-1]])
    copies = np.maximum(np.minimum(data.last, until) - np.maximum(first, skipped), 0)
    parts = [(data.values >> shift) & ((1 << 21) - 1) for shift in (0, 21, 42)]
    return sum(int(np.dot(part, copies)) << shift for part, shift in zip(parts, (0, 21, 42), strict=True))


def even_terms(column: Column, n: int, gaps: int, over: int, beta: Fraction) -> list[tuple[Fraction, int]]:
    """For data spread evenly over the bounds: k + 1 + `gaps` gaps are in reach after k replacements."""
    best = max(0, min(n, math.ceil(1 / beta)) - 1 - gaps)  # (k + 1 + gaps) e^(-beta k) is largest about there
    gap = Fraction(column.size - 1, (n + 1) * over)
    return [(gap * min(k + 1 + gaps, n + 1), k) for k in (0, best, best + 1)]


def even_forecast(noise: SmoothNoise, column: Column, even: float) -> Forecast:
    step = float(column.step) if isinstance(column, Integer | Real) else 1.0
    rows = [
        (what, noise.within(size * step, 0.5), noise.within(size * step, 0.95))
        for what, size in (("data spread evenly", even), ("the worst data", float(column.size - 1)))
    ]
    notes = ("the noise follows the data, privately: for data that crowd near the answer it is smaller",)
    return Forecast("expected error", ("for", "half within ±", "95% within ±"), tuple(rows), notes)


def example(scope: Scope, column: Column, groups: list[tuple[int, int]]) -> Any:
    """A table with so many rows of each code, for the audit. A person has one row."""
    import pyarrow as pa

    codes = np.repeat([code for code, _ in groups], [count for _, count in groups])
    table: dict[str, Any] = {
        column.name: pa.array([column.value(code) for code, _ in groups]).take(
            pa.array(np.repeat(np.arange(len(groups)), [count for _, count in groups]))
        )
    }
    if scope.where is not None:
        found = next(scope.where.examples(), {})
        for other in scope.where.columns:
            if other.name != column.name:
                table[other.name] = pa.array([other.value(found.get(other.name, 0))] * codes.size)
    if scope.unit.column is not None:
        table[scope.unit.column] = pa.array(np.arange(codes.size))
    return pa.table(table)
