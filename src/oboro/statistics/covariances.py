"""Variance of a column, and covariances of several, for each of several groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.domain import Column, Domain
from oboro.engine import add_up, check_width
from oboro.noise import Bits
from oboro.privacy import Pure, guarantee_from
from oboro.release import Forecast, Pair, register
from oboro.statistics.means import check_columns
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


@register
@dataclass(frozen=True, slots=True)
class CovariancePlan:
    """Covariances of all pairs of columns (divided by n, not n - 1); for one column its variance.

    Codes are moved to s = 2c - M in [-M, M], as for means.

    Privacy
        If every row counts for sure, n is public and V = n sum(s t) - sum(s) sum(t) is a whole number, n^2 times the
        covariance. Replacing row z by z', with the mean m of the other n - 1 rows, changes it by
        (n-1) ((z'-m)(z'-m)^T - (z-m)(z-m)^T), so one entry by at most 4 (n-1) M M', and all entries of the upper
        triangle can be moved so far at once. (The slides' 8 g^2/n is twice that for one column.)
        Otherwise the noisy sums of s, of s t (of 2 s^2 - M^2 on the diagonal) and of 1 are released. Let
        them cost e, f and h for a row that comes or goes: e + f + h in all under add/remove, twice that between groups.
        Replacing inside a group costs at most 2 (e + f), and for one column with e = f at most (25/8) e:
        |u-u'| + 2|u^2-u'^2| for u, u' in [-1, 1] is largest at u = 1, u' = -1/4. Leaving out costs e + f + h.
        With Gaussian noise the same in squares, 4 (e + f) inside a group. k rows of a unit: k times the noise.
    """

    columns: tuple[Column, ...]
    scope: Scope
    guarantee: Promise
    kind = "statistics.covariance"
    leaves_out = "covers the noise, cautiously; not errors in the data, nor records left out or clamped"

    @property
    def unit(self) -> Any:
        return self.scope.unit

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The upper triangle."""
        return list(combinations_with_replacement(range(len(self.columns)), 2))

    @property
    def direct(self) -> bool:
        return self.scope.all_count(self.columns)

    @property
    def split(self) -> tuple[Fraction, Fraction, Fraction]:
        """What the sums, the products and the count cost when a row comes or goes, as shares of the guarantee."""
        pure, one = isinstance(self.guarantee, Pure), len(self.columns) == 1
        if self.scope.replaced and self.scope.by:
            shares = (4, 4, 4) if pure else (3, 3, 6)  # of 24
        elif self.scope.replaced:
            shares = ((8, 8, 9) if one else (6, 6, 12)) if pure else (3, 3, 18)
            return tuple(Fraction(share, 25 if pure and one else 24) for share in shares)  # type: ignore[return-value]
        else:
            shares = (8, 8, 8)
        return tuple(Fraction(share, 24) for share in shares)  # type: ignore[return-value]

    @property
    def terms(self) -> tuple[Term, ...]:
        """V of each pair; or each sum, each product, and the count."""
        spans, names = [column.size - 1 for column in self.columns], [column.name for column in self.columns]
        labels = [f"{names[i]} x {names[j]}" for i, j in self.pairs]
        reach = [spans[i] * spans[j] for i, j in self.pairs]
        if self.direct:
            price, others = (
                part(self.guarantee, Fraction(1, len(self.pairs))),
                max(1, (self.scope.n or 1) - 1),
            )
            return tuple(
                term(f"n^2 covariance of {label}", 4 * others * r, 1, price)
                for label, r in zip(labels, reach, strict=True)
            )
        rows = self.scope.rows
        sums, products, count = (part(self.guarantee, share) for share in self.split)
        each_sum, each_product = part(sums, Fraction(1, len(spans))), part(products, Fraction(1, len(reach)))
        return (
            *(term(f"sum of {n}", s, rows, each_sum, split=True) for n, s in zip(names, spans, strict=True)),
            *(
                term(f"sum of {n}", r, rows, each_product, split=True)
                for n, r in zip(labels, reach, strict=True)
            ),
            term("count", 1, rows, count),
        )

    def forecast(self) -> Forecast:
        size = self.scope.size
        rows: list[tuple[Any, ...]] = []
        for at, (i, j) in enumerate(self.pairs):
            name = self._name(i, j)
            if self.direct:
                noise, scale = self.terms[at], self._scale(i, j) / (self.scope.n or 1) ** 2
                rows.append((name, noise.sd * scale, noise.within(0.95) * scale))
            else:
                noise = self.terms[len(self.columns) + at]
                scale = self._scale(i, j) / (size or 1) / (2 if i == j else 1)
                rows.append(
                    (name + ("" if size else " x rows"), noise.sd * scale, noise.within(0.95) * scale)
                )
        notes = ["near the middle of the range; more where the means are far from it"]
        if self.direct:
            notes = [f"n = {self.scope.n:,} is public, and every row counts"]
        elif size is None:
            notes.append("how many rows there are is private: say expected_n for the error itself")
        else:
            notes.append(f"for {size:,} rows" + (" in each group" if self.scope.by else ""))
        columns = ("of each", "standard error", "95% within ±")
        return Forecast("expected error of each covariance", columns, tuple(rows), tuple(notes))

    def prepare(self, data: Any) -> Integers:
        source, condition = self.scope.open(data)
        singles = [(i,) for i in range(len(self.columns))]
        asked = [(), *singles, *self.pairs]
        by = [bins.column for bins in self.scope.by]
        found = add_up(source, self.columns, asked, self.scope.unit, by=by, condition=condition)
        sums = {group: self._combined(totals) for group, totals in found.items()}
        return counted(self.terms, self.scope.groups, sums)

    def _combined(self, totals: Sequence[int]) -> list[int]:
        """From sums of codes to sums of s = 2c - M, exactly."""
        d, spans = len(self.columns), [column.size - 1 for column in self.columns]
        n, codes, products = totals[0], totals[1 : d + 1], totals[d + 1 :]
        s = [2 * code - span * n for code, span in zip(codes, spans, strict=True)]
        st = [
            4 * both - 2 * spans[j] * codes[i] - 2 * spans[i] * codes[j] + spans[i] * spans[j] * n
            for both, (i, j) in zip(products, self.pairs, strict=True)
        ]
        if self.direct:
            return [n * both - s[i] * s[j] for both, (i, j) in zip(st, self.pairs, strict=True)]
        moved = [
            2 * both - spans[i] ** 2 * n if i == j else both
            for both, (i, j) in zip(st, self.pairs, strict=True)
        ]
        return [*s, *moved, n]

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured(self.terms, prepared, bits, trials)

    def publish(self, measured: Integers) -> Any:
        """For each pair the covariance; where n is private also the noisy moments that it comes from."""
        import pyarrow as pa

        noisy, d, parts = values(self.terms, measured), len(self.columns), []
        for at, (i, j) in enumerate(self.pairs):
            scale, span = self._scale(i, j), self.columns[i].size - 1
            named: dict[str, Any] = {**self.scope.labels()}
            if d > 1:
                named |= {
                    "column": [self.columns[i].name] * len(noisy),
                    "with": [self.columns[j].name] * len(noisy),
                }
            if self.direct:
                value = noisy[:, at] * scale / (self.scope.n or 1) ** 2
                parts.append(pa.table({**named, "value": np.clip(value, *self._range(i, j))}))
                continue
            count = noisy[:, -1]
            rows = np.maximum(count, 1)
            both = noisy[:, d + at] if i != j else (noisy[:, d + at] + span**2 * count) / 2
            one, other = (noisy[:, c] / rows * float(ends(self.columns[c])[1]) / 2 for c in (i, j))
            moment = both * scale / rows
            value = np.clip(moment - one * other, *self._range(i, j))
            means = {"mean": self._mid(i) + one} | ({"other mean": self._mid(j) + other} if d > 1 else {})
            moments = {"moment": moment, **means, "count": count}
            parts.append(pa.table({**named, "value": value, **moments}))
        return pa.concat_tables(parts)

    def intervals(self, table: Any, level: float) -> tuple[Floats, Floats]:
        """For each covariance a range that holds the true one with at least this probability.

        Where several noises take part, each is bounded with its share of what may be missed, and the worst is taken.
        """
        low, high = np.zeros(len(table)), np.zeros(len(table))
        value = table.column("value").to_numpy()
        groups = self.scope.groups
        for at, (i, j) in enumerate(self.pairs):
            mine = slice(at * groups, (at + 1) * groups)
            if len(value[mine]) == 0:
                break  # the first rows of a table are shown by themselves
            if self.direct:
                reach = self.terms[at].within(level) * self._scale(i, j) / (self.scope.n or 1) ** 2
                low[mine], high[mine] = value[mine] - reach, value[mine] + reach
            else:
                last = "other mean" if len(self.columns) > 1 else "mean"
                moment, one, other, count = (
                    table.column(name).to_numpy()[mine] for name in ("moment", "mean", last, "count")
                )
                centred = one - self._mid(i), other - self._mid(j)
                low[mine], high[mine] = self._worst(at, i, j, 1 - (1 - level) / 4, moment, *centred, count)
            low[mine], high[mine] = (np.clip(end[mine], *self._range(i, j)) for end in (low, high))
        return low, high

    def _worst(
        self, at: int, i: int, j: int, level: float, moment: Floats, one: Floats, other: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        terms, d = self.terms, len(self.columns)
        c = terms[-1].within(level)
        rows = np.maximum(count, 1)
        fewest, most = np.maximum(count - c, 1), np.maximum(count + c, 1)
        reach = terms[d + at].within(level) / (2 if i == j else 1)
        if i == j:
            reach += (self.columns[i].size - 1) ** 2 * c / 2
        spread = [(moment * rows, reach * self._scale(i, j))]
        for column, centre in ((i, one), (j, other)):
            spread.append(
                (centre * rows, terms[column].within(level) * float(ends(self.columns[column])[1]) / 2)
            )
        ranges = [_over(total - r, total + r, fewest, most) for total, r in spread]
        products = [a * b for a in ranges[1] for b in ranges[2]]
        if i == j:
            smallest, largest = np.abs(ranges[1][0]), np.abs(ranges[1][1])
            crosses = (ranges[1][0] <= 0) & (ranges[1][1] >= 0)
            products = [
                np.where(crosses, 0.0, np.minimum(smallest, largest) ** 2),
                np.maximum(smallest, largest) ** 2,
            ]
        return ranges[0][0] - np.max(products, axis=0), ranges[0][1] - np.min(products, axis=0)

    def _mid(self, i: int) -> float:
        low, step = ends(self.columns[i])
        return float(low + step * (self.columns[i].size - 1) / 2)

    def _scale(self, i: int, j: int) -> float:
        """From s t to the product of values."""
        return float(prod(ends(self.columns[c])[1] for c in (i, j)) / 4)

    def _range(self, i: int, j: int) -> tuple[float, float]:
        """The smallest and largest covariance that the bounds allow."""
        spans = [column.size - 1 for column in (self.columns[i], self.columns[j])]
        largest = self._scale(i, j) * prod(spans)
        return (0.0 if i == j else -largest), largest

    def _name(self, i: int, j: int) -> str:
        names = [self.columns[c].name for c in (i, j)]
        return f"variance of {names[0]}" if i == j else f"covariance of {names[0]}, {names[1]}"

    def describe(self) -> dict[str, Any]:
        names = ", ".join(column.name for column in self.columns)
        what = "variance" if len(self.columns) == 1 else "covariances"
        return {
            "released": f"{what} of {names}{self.scope.words()}",
            "noise": {"terms": [term.to_dict() for term in self.terms]},
            "domain": Domain(self.scope.columns(self.columns)).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        yield from self.scope.pairs(self.columns)

    def to_dict(self) -> dict[str, Any]:
        names = [column.name for column in self.columns]
        record = {"kind": self.kind, "columns": names, **self.scope.to_dict(self.columns)}
        return {**record, "guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> CovariancePlan:
        scope, columns = Scope.from_dict(record)
        promise = promise_from(guarantee_from(record["guarantee"]))
        return covariance_plan([columns[name] for name in record["columns"]], scope, promise)


def covariance_plan(columns: Sequence[Column], scope: Scope, promise: Promise) -> CovariancePlan:
    """The covariances of number columns, over the rows that have them all."""
    scope.check_groups()
    check_columns(columns)
    plan = CovariancePlan(tuple(columns), scope, promise)
    check_width(columns, plan.pairs)
    plan.terms  # noqa: B018  # refuses noise beyond what can be drawn
    return plan


def _over(low: Floats, high: Floats, fewest: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The range of total/count for a total in [low, high] and a count in [fewest, most], all positive."""
    return np.where(low >= 0, low / most, low / fewest), np.where(high >= 0, high / fewest, high / most)
