"""Releases with smooth sensitivity: quantiles and trimmed means, with noise that follows the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Data, Integers, Table
from oboro.domain import Column, Date, Domain, Integer, Real
from oboro.domain.columns import LARGEST
from oboro.engine import count_cells
from oboro.errors import DomainError, ParameterError, UnitError, question, setting, told
from oboro.exact import Number, rational, show
from oboro.noise.bits import Bits
from oboro.records import inline
from oboro.release import Forecast, Pair, register
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.sensitivity.orders import Sorted, order_statistic, trimmed_mean
from oboro.statistics.smooth_noise import (
    Decaying,
    SmoothLaw,
    SmoothNoise,
    SmoothPlan,
    SmoothPromise,
    calibrate,
)

if TYPE_CHECKING:
    from oboro.noise.laws import Law


# What releases by smooth sensitivity share: sorted codes with a public n, forecasts for made-up data, examples.


@dataclass(frozen=True, slots=True)
class Smooth:
    """The true answer and its smooth sensitivity. Both are private."""

    centre: Fraction
    sensitivity: Decaying


def check_scope(scope: Scope) -> Scope:
    """Smooth sensitivity is about one replaced value among n, n public."""
    if not scope.replaced or scope.rows != 1 or not scope.n:
        single = replace(scope.unit, adjacency="replace", max_rows=1)
        raise UnitError(
            "smooth sensitivity is for replaced units with one row each, and a public n",
            given=f"{scope.unit}, " + told(n=f"{scope.n}"),
            needed=setting(unit=single) + ", and at least one row",
            fix=setting(unit=single),
        )
    if scope.by:
        raise DomainError(
            "a smooth release has no groups", given=scope.words().strip(), fix="one release for each"
        )
    return scope


def sorted_codes(scope: Scope, column: Column, data: Data, q: Fraction) -> Sorted:
    """The codes of the rows that count; under replace, with those that are left out at the bounds."""
    source, condition = scope.open(data)
    codes, counts = count_cells(source, [column], scope.unit, condition)
    left_out = (scope.n or 0) - int(counts.sum()) if scope.replaced else 0
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


def even_forecast(noise: SmoothNoise, column: Column, even: float | None) -> Forecast:
    """For data spread evenly, if anyone knows how many, and for the worst."""
    step = float(column.step) if isinstance(column, Integer | Real) else 1.0
    rows = [
        (what, noise.within(size * step, 0.5), noise.within(size * step, 0.95))
        for what, size in (("data spread evenly", even), ("the worst data", float(column.size - 1)))
        if size is not None
    ]
    notes: tuple[str, ...] = (
        "the noise follows the data, privately: for data that crowd near the answer it is smaller",
    )
    if even is None:
        notes += ("how many rows there are is private: say expected_n for data spread evenly",)
    return Forecast("expected error", ("for", "half within ±", "95% within ±"), tuple(rows), notes)


def example(scope: Scope, column: Column, groups: list[tuple[int, int]]) -> Table:
    """A table with so many rows of each code, for the audit. A person has one row."""
    import pyarrow as pa

    codes = np.repeat([code for code, _ in groups], [count for _, count in groups])
    table: dict[str, object] = {
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


FINER = 1000  # a trimmed mean is published in thousandths of the column's step


@register
@dataclass(frozen=True)
class SmoothQuantilePlan(SmoothPlan, ScopedPlan):
    """The value of rank ceil(q n) of one column, with noise in proportion to its smooth sensitivity.

    Privacy
        One unit, replaced, replaces one of n values; n is public. A record that is left out counts as a value at a
        bound: the first floor(q e) of e such records at the lowest, the others at the highest, so that they move a
        quantile the least and a record that appears or disappears is still one replacement. S is the beta-smooth
        sensitivity of the order statistic [Nissim, Raskhodnikova, Smith 2007], an exact real (sensitivity/orders.py).
        Where units come and go, n is private, a record that is left out is not there, and the rank p(n) = max(1, ceil(q n))
        moves by 0 or 1 with each (of no values the answer is the highest). Then S, the largest (x_j - x_i) e^(-beta (j-i-1))
        over i <= p(n) <= j, still is a beta-smooth bound. One more value leaves the answer between its two neighbours, as
        p moves on by one at most and the values do; one less does too: the windows with j - i = 1. And let y have one
        value more than x, so y_i <= x_i <= y_(i+1). A window i, j of x lies within i, j + 1 of y, which holds p(n+1); a
        window i, j of y lies within i - 1, j of x, which holds p(n). One gap more in each case: a factor of e^beta at most.
        The answer plus (S/s) Z, rounded to the column's grid by certified rounding, keeps the guarantee for the
        admissible s and beta of smooth_noise.py. S is private: there is no interval.

    >>> people.plan.median("income", method="smooth", eps=1).law
    Cauchy()
    """

    column: Column
    q: Fraction
    scope: inline[Scope]
    guarantee: SmoothPromise
    law: SmoothLaw
    beta: Fraction
    kind = "statistics.smooth_quantile"

    def check(self) -> None:
        if self.scope.replaced:
            check_scope(self.scope)
        elif self.scope.rows != 1:
            raise UnitError(
                "smooth sensitivity is for units with one row each",
                given=str(self.unit),
                needed="one row for each unit",
                fix=setting(unit=replace(self.unit, max_rows=1)),
            )
        self.scope.check_whole("a smooth release has")
        if not 0 <= self.q <= 1 or not isinstance(self.column, Integer | Real | Date):
            raise ParameterError(
                "a quantile is a part of an ordered column",
                given=told(q=show(self.q)) + f" of {self.column.kind} column {self.column.name!r}",
                needed="a number from 0 to 1, of an integer, real or date column",
                fix=setting(q="0.5")
                if isinstance(self.column, Integer | Real | Date)
                else question("histogram", self.column.name),
            )

    def rank(self, n: int) -> int:
        """The place of the answer among n values."""
        return max(math.ceil(self.q * n), 1)

    def forecast(self) -> Forecast:
        if self.scope.units is None:
            return even_forecast(self.noise, self.column, None)
        even = Decaying(even_terms(self.column, max(1, self.scope.units), 0, 1, self.beta), self.beta)
        return even_forecast(self.noise, self.column, float(even))

    def prepare(self, data: Data) -> Smooth:
        values = sorted_codes(self.scope, self.column, data, self.q)
        rank = self.rank(values.n)
        return Smooth(Fraction(values.at(rank)), order_statistic(values, rank, self.beta))

    def measure(self, prepared: Smooth, bits: Bits, trials: int | None = None) -> Integers:
        most = self.column.size - 1
        return self.noise.draw(prepared.centre, prepared.sensitivity, Fraction(1), most, bits, trials)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        return pa.table({"value": [self.column.value(int(code)) for code in measured]})

    def describe(self) -> dict[str, object]:
        return _described(self, f"quantile {show(self.q)} of {self.column.name}" + self.scope.words())

    def neighbours(self) -> Iterator[Pair]:
        """The answer itself jumps; and: the answer stays, but its sensitivity changes the most."""
        n, last = (self.scope.n or 1) if self.scope.replaced else 8, self.column.size - 1
        rank = self.rank(n)
        if self.scope.replaced:
            yield self._pair(
                [(0, rank), (last, n - rank)], [(0, rank - 1), (last, n - rank + 1)], "the quantile jumps"
            )
            yield self._pair([(0, n)], [(0, n - 1), (last, 1)], "one value at the other end")
            return
        low = (
            rank if self.rank(n - 1) == rank else rank - 1
        )  # the answer jumps if a low value goes, or a high one
        lower = (low - 1, n - low) if low == rank else (low, n - low - 1)
        yield self._pair(
            [(0, low), (last, n - low)], list(zip((0, last), lower, strict=True)), "the quantile jumps"
        )
        yield self._pair([(0, n)], [(0, n), (last, 1)], "one value at the other end, or none")
        yield self._pair([(0, 1)], [(0, 0)], "one value or none")

    def _pair(self, one: list[tuple[int, int]], other: list[tuple[int, int]], why: str) -> Pair:
        return Pair(example(self.scope, self.column, one), example(self.scope, self.column, other), why)


@register
@dataclass(frozen=True)
class TrimmedMeanPlan(SmoothPlan, ScopedPlan):
    """The mean of one column without the `trim` part of smallest and of largest values, with smooth noise.

    Privacy
        As for SmoothQuantilePlan: one of n values is replaced, n is public, and records that are left out count as
        values at the lowest and the highest bound in turn, where they are trimmed first. S is the beta-smooth
        sensitivity of the trimmed mean [Nissim, Raskhodnikova, Smith 2007; Bun and Steinke 2019], an exact real. The
        answer plus (S/s) Z is rounded to thousandths of the column's step by certified rounding. There is no interval.

    >>> people.plan.trimmed_mean("income", trim="0.1", eps=1).trimmed
    100
    """

    column: Column
    trim: Fraction
    scope: inline[Scope]
    guarantee: SmoothPromise
    law: SmoothLaw
    beta: Fraction
    kind = "statistics.trimmed_mean"

    def check(self) -> None:
        check_scope(self.scope)
        if not 0 <= self.trim < Fraction(1, 2) or not isinstance(self.column, Integer | Real):
            raise ParameterError(
                "a trimmed mean leaves off less than half at each end, of a column of numbers",
                given=told(trim=show(self.trim)) + f" of {self.column.kind} column {self.column.name!r}",
                needed="0 <= trim < 0.5, and an integer or real column",
                fix=setting(trim="0.1")
                if isinstance(self.column, Integer | Real)
                else question("median" if isinstance(self.column, Date) else "histogram", self.column.name),
            )
        if self.scope.where is not None:
            raise ParameterError(
                "a trimmed mean is about all rows",
                given=f"where {self.scope.where}",
                needed="no condition: rows that are left out count as values at the bounds",
                fix="people.mean with the same condition",
            )
        if self.column.size * FINER > LARGEST:  # what is published is a number of 64 bits
            raise DomainError(
                f"column {self.column.name!r} has too many values for this question",
                given=f"{self.column.size} values",
                needed=f"at most 2^62, in steps of a {FINER}th",
                fix="a larger step",
            )

    @property
    def n(self) -> int:
        return self.scope.n or 1

    @property
    def trimmed(self) -> int:
        """How many values are left off at each end."""
        return min(math.floor(self.trim * self.n), (self.n - 1) // 2)

    def forecast(self) -> Forecast:
        kept = self.n - 2 * self.trimmed
        even = Decaying(even_terms(self.column, self.n, kept - 1, kept, self.beta), self.beta)
        return even_forecast(self.noise, self.column, float(even))

    def prepare(self, data: Data) -> Smooth:
        values = sorted_codes(self.scope, self.column, data, Fraction(1, 2))
        kept = self.n - 2 * self.trimmed
        centre = Fraction(sum_between(values, self.trimmed, self.n - self.trimmed), kept)
        return Smooth(centre, trimmed_mean(values, self.trimmed, self.beta))

    def measure(self, prepared: Smooth, bits: Bits, trials: int | None = None) -> Integers:
        most = (self.column.size - 1) * FINER
        return self.noise.draw(prepared.centre, prepared.sensitivity, Fraction(1, FINER), most, bits, trials)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        assert isinstance(self.column, Integer | Real)
        low, step = Fraction(self.column.low), Fraction(self.column.step) / FINER
        return pa.table({"value": [float(low + step * int(index)) for index in measured]})

    def describe(self) -> dict[str, object]:
        return _described(self, f"mean of {self.column.name}, {show(self.trim)} trimmed at each end")

    def neighbours(self) -> Iterator[Pair]:
        """One value moves from end to end, among others that lie at both ends, or nearly all at one."""
        n, last = self.n, self.column.size - 1
        half, m = max(1, n // 2), self.trimmed
        for low, why in ((half, "in the middle"), (n - m, "as the first value that is kept")):
            one, other = [(0, low), (last, n - low)], [(0, low - 1), (last, n - low + 1)]
            yield Pair(
                example(self.scope, self.column, one),
                example(self.scope, self.column, other),
                f"one value moves {why}",
            )


def smooth_quantile_plan(
    scope: Scope,
    column: Column,
    q: Number,
    *,
    guarantee: SmoothPromise,
    noise: Law | None = None,
    beta: Number | None = None,
) -> SmoothQuantilePlan:
    """A plan for one quantile by smooth sensitivity. The default noise and beta suit the guarantee."""
    part, chosen = rational("q", q), calibrate(noise, guarantee, beta=beta)
    return SmoothQuantilePlan(column, part, scope, guarantee, chosen.law, chosen.beta)


def trimmed_mean_plan(
    scope: Scope,
    column: Column,
    trim: Number,
    *,
    guarantee: SmoothPromise,
    noise: Law | None = None,
    beta: Number | None = None,
) -> TrimmedMeanPlan:
    """A plan for a trimmed mean. `trim` is the part that is left off at each end, below one half."""
    part, chosen = rational("trim", trim), calibrate(noise, guarantee, beta=beta, share=Fraction(1, 10))
    return TrimmedMeanPlan(column, part, scope, guarantee, chosen.law, chosen.beta)


def _described(plan: SmoothQuantilePlan | TrimmedMeanPlan, released: str) -> dict[str, object]:
    columns = plan.scope.columns([plan.column])
    return {"released": released, "noise": plan.noise.to_dict(), "domain": Domain(columns).to_dict()}
