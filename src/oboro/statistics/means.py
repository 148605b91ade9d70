"""Means of one column or several, for each of several groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column, Domain
from oboro.engine import add_up
from oboro.errors import DomainError
from oboro.noise import Bits
from oboro.privacy import Pure, guarantee_from
from oboro.release import Forecast, Pair, register
from oboro.statistics.intervals import not_ruled_out, two_noises
from oboro.statistics.scope import Scope
from oboro.statistics.sums import ends
from oboro.statistics.terms import (
    Integers,
    Promise,
    Term,
    counted,
    measured,
    part,
    promise_from,
    term,
    values,
)

Floats = npt.NDArray[np.float64]
MOST_COLUMNS = 64


@register
@dataclass(frozen=True, slots=True)
class MeanPlan:
    """The mean of each column over the rows of each group, from noisy sums.

    A code c in 0, ..., M is moved to s = 2c - M in [-M, M], so that the middle of the range is 0. How many rows count
    is private as soon as some may be left out. Four forms, by public facts alone:

        n public      every row counts for sure (replace, no condition, no groups, `missing` declared): S, divided by n
        centred       replace, one group: S and the count C. The count is free: see below
        two-sided     add/remove or several groups, one column: A = sum of c and B = sum of M - c; S = A - B, C = (A+B)/M
        joint         the same, several columns: S of each, and C

    Privacy
        Per row, with Laplace noise of scale M d/e on each of d sums and 1/f on the count, k times that for k rows:
        - coming or going costs sum |s|/(M d/e) + f <= e + f; replacing inside a group costs at most 2e, and e + f
          where a row is left out afterwards. So replace with one group costs max(2e, e + f): e = f = eps/2, and
          the count costs nothing extra. Moving between groups costs 2(e + f).
        - two-sided: one row adds c + (M - c) = M to A and B together, so scale M/eps costs eps under add/remove;
          inside a group |dc| + |dc| <= 2M and between groups 2M: twice under replace.
        With Gaussian noise the same in squares: 4 e and e + f; 2 (e + f) between groups; two-sided c^2 + (M-c)^2 <= M^2,
        and at most 2 M^2 under replace.
        What is published is computed from these noisy sums and public facts.
    """

    columns: tuple[Column, ...]
    scope: Scope
    guarantee: Promise
    kind = "statistics.mean"
    leaves_out = "covers the noise; not errors in the data, nor records left out or clamped"

    @property
    def unit(self) -> Any:
        return self.scope.unit

    @property
    def form(self) -> str:
        if self.scope.all_count(self.columns):
            return "n public"
        if self.scope.replaced and not self.scope.by:
            return "centred"
        return "two-sided" if len(self.columns) == 1 else "joint"

    @property
    def terms(self) -> tuple[Term, ...]:
        """The noisy sums, in order: A and B, or each S and then C."""
        rows, spans = self.scope.rows, [column.size - 1 for column in self.columns]
        if self.form == "two-sided":
            price = part(self.guarantee, Fraction(1, 2) if self.scope.replaced else 1)
            return tuple(
                term(f"distance to {end}", spans[0], rows, price, split=True) for end in ("low", "high")
            )
        for_sums, for_count = self.split
        sums = [
            term(f"sum of {column.name}", span, rows, part(self.guarantee, for_sums / len(spans)))
            for column, span in zip(self.columns, spans, strict=True)
        ]
        if self.form == "n public":
            return tuple(sums)
        return (*sums, term("count", 1, rows, part(self.guarantee, for_count)))

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        """What the sums together and the count cost when a row comes or goes, as shares of the guarantee."""
        pure, d = isinstance(self.guarantee, Pure), len(self.columns)
        if self.form in ("n public", "centred"):
            return (Fraction(1, 2), Fraction(1, 2)) if pure else (Fraction(1, 4), Fraction(3, 4))
        if self.scope.replaced:
            return (
                (Fraction(d, 2 * (d + 1)), Fraction(1, 2 * (d + 1)))
                if pure
                else (Fraction(1, 4), Fraction(1, 4))
            )
        return Fraction(d, d + 1), Fraction(1, d + 1)

    def forecast(self) -> Forecast:
        size = self.scope.size
        rows: list[tuple[Any, ...]] = []
        for column in self.columns:
            for where, at in (("near the middle", self._mid(column)), ("near a bound", self._low(column))):
                m = np.asarray([at])
                errors = self._noise_at(column, m, 0.95, sd=True), self._noise_at(column, m, 0.95)
                name = f"mean of {column.name}" + ("" if size else " x rows")
                rows.append((f"{name}, {where}", *(float(error[0]) / (size or 1) for error in errors)))
        notes = [self._split_in_words()]
        if size is None:
            notes.append(
                "how many rows there are is private: say expected_n for the error of the mean itself"
            )
        else:
            notes.append(f"for {size:,} rows" + (" in each group" if self.scope.by else ""))
        title = "expected error of each mean"
        return Forecast(title, ("of each", "standard error", "95% within ±"), tuple(rows), tuple(notes))

    def prepare(self, data: Any) -> Integers:
        source, condition = self.scope.open(data)
        singles = [(i,) for i in range(len(self.columns))]
        by = [bins.column for bins in self.scope.by]
        found = add_up(source, self.columns, [(), *singles], self.scope.unit, by=by, condition=condition)
        spans = [column.size - 1 for column in self.columns]
        sums = {group: self._combined(count, codes, spans) for group, (count, *codes) in found.items()}
        return counted(self.terms, self.scope.groups, sums)

    def _combined(self, count: int, codes: Sequence[int], spans: Sequence[int]) -> list[int]:
        if self.form == "two-sided":
            return [codes[0], spans[0] * count - codes[0]]
        centred = [2 * code - span * count for code, span in zip(codes, spans, strict=True)]
        return centred if self.form == "n public" else [*centred, count]

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured(self.terms, prepared, bits, trials)

    def publish(self, measured: Integers) -> Any:
        """Columns of groups, then the mean, the noisy sum and the noisy count that it comes from."""
        import pyarrow as pa

        noisy = values(self.terms, measured)
        if self.form == "two-sided":
            span = max(1, self.columns[0].size - 1)
            moved, count = noisy[:, :1] - noisy[:, 1:], noisy.sum(axis=1) / span
        elif self.form == "n public":
            moved, count = noisy, np.full(len(noisy), float(self.scope.n or 0))
        else:
            moved, count = noisy[:, :-1], noisy[:, -1]
        parts = []
        for i, column in enumerate(self.columns):
            above = moved[:, i] * self._step(column) / 2
            mean = self._mid(column) + above / np.maximum(count, 1)
            named = {"column": [column.name] * len(noisy)} if len(self.columns) > 1 else {}
            parts.append(
                pa.table(
                    {
                        **self.scope.labels(),
                        **named,
                        "value": np.clip(mean, self._low(column), self._high(column)),
                        "sum": above + self._mid(column) * count,
                        "count": count,
                    }
                )
            )
        return pa.concat_tables(parts)

    def intervals(self, table: Any, level: float) -> tuple[Floats, Floats]:
        """For each mean the range that holds the true one with at least this probability; within the bounds."""
        names = (
            table.column("column").to_pylist()
            if len(self.columns) > 1
            else [self.columns[0].name] * len(table)
        )
        value, total, count = (table.column(name).to_numpy() for name in ("value", "sum", "count"))
        low, high = np.zeros(len(table)), np.zeros(len(table))
        for column in self.columns:
            mine = np.asarray([name == column.name for name in names], bool)
            s, c = total[mine], count[mine]

            def excess(m: Floats, s: Floats = s, c: Floats = c, column: Column = column) -> Floats:
                return np.asarray(np.abs(s - m * c) - self._noise_at(column, m, level))

            low[mine], high[mine] = not_ruled_out(excess, value[mine], self._low(column), self._high(column))
        return low, high

    def _noise_at(self, column: Column, m: Floats, level: float, sd: bool = False) -> Floats:
        """The noise in (sum - m count): how far it goes with probability `level`, or its standard deviation."""
        terms, step, mid = self.terms, self._step(column), self._mid(column)
        at = self.columns.index(column)
        if self.form == "two-sided":
            share = (m - self._low(column)) / max(1, column.size - 1)
            one, other, a, b = terms[0], terms[1], step - share, share  # A (high - m)/span - B (m - low)/span
        else:
            one, other = terms[at], terms[-1]
            a, b = np.full_like(m, step / 2), (mid - m) * (self.form != "n public")
        if sd:
            return np.asarray(np.hypot(a * one.sd, b * other.sd))
        return two_noises(one, other, np.asarray(a, float), np.asarray(b, float), level)

    def _low(self, column: Column) -> float:
        return float(ends(column)[0])

    def _high(self, column: Column) -> float:
        low, step = ends(column)
        return float(low + step * (column.size - 1))

    def _mid(self, column: Column) -> float:
        return (self._low(column) + self._high(column)) / 2

    def _step(self, column: Column) -> float:
        return float(ends(column)[1])

    def _split_in_words(self) -> str:
        if self.form == "n public":
            return f"n = {self.scope.n:,} is public, and every row counts"
        if self.form == "centred":
            return "the noisy count costs nothing extra under replace"
        if self.form == "two-sided":
            return "sum and count both come from the distances to the two bounds, which share the whole guarantee"
        sums, count = self.split
        return f"split: {sums} for the sums, {count} for the count" + (
            " (replace doubles both)" if self.scope.replaced else ""
        )

    def describe(self) -> dict[str, Any]:
        names = ", ".join(column.name for column in self.columns)
        return {
            "released": f"mean of {names}{self.scope.words()}",
            "noise": {"terms": [term.to_dict() for term in self.terms], "form": self.form},
            "domain": Domain(self.scope.columns(self.columns)).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        yield from self.scope.pairs(self.columns)

    def to_dict(self) -> dict[str, Any]:
        names = [column.name for column in self.columns]
        record = {"kind": self.kind, "columns": names, **self.scope.to_dict(self.columns)}
        return {**record, "guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> MeanPlan:
        scope, columns = Scope.from_dict(record)
        promise = promise_from(guarantee_from(record["guarantee"]))
        return mean_plan([columns[name] for name in record["columns"]], scope, promise)


def mean_plan(columns: Sequence[Column], scope: Scope, promise: Promise) -> MeanPlan:
    """The means of one or more number columns, over the rows that have them all."""
    scope.check_groups()
    check_columns(columns)
    plan = MeanPlan(tuple(columns), scope, promise)
    plan.terms  # noqa: B018  # refuses noise beyond what can be drawn
    return plan


def check_columns(columns: Sequence[Column]) -> None:
    """Different number columns, and not too many."""
    for column in columns:
        ends(column)
    names = [column.name for column in columns]
    if not 1 <= len(names) <= MOST_COLUMNS or len(set(names)) != len(names):
        raise DomainError(
            "the columns must be different, and some",
            given=", ".join(names) or "no column",
            needed=f"1 to {MOST_COLUMNS} different number columns",
            fix='"income"',
        )
