"""What means and covariances share: rows as vectors of whole numbers about a public centre, and the plan around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from oboro.arrays import Data, Floats, Integers, Table
from oboro.domain import Column
from oboro.engine import add_up, check_width
from oboro.errors import DomainError, ParameterError
from oboro.noise import Bits
from oboro.privacy import Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, noise_by_column, register
from oboro.release.forecast import Row
from oboro.statistics.balls import Ball, InBall, Totals
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.terms import (
    Promise,
    Term,
    Vector,
    counted,
    ends,
    measured,
    part,
    shared,
    values,
    vector_parts,
)

MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Box:
    """Vectors within the bounds of the columns: a code c in 0, ..., M becomes s = 2c - M in [-M, M].

    Means may be taken about another public `origin`, g halves of a step above the lowest value: s = 2c - g in [-g, 2M - g].
    """

    columns: tuple[Column, ...]
    crossed: bool = False  # of two columns: their product alone, without the squares
    origin: tuple[Fraction, ...] | None = None  # for sums alone, not for products

    @property
    def spans(self) -> list[int]:
        return [column.size - 1 for column in self.columns]

    def unit(self, i: int) -> float:
        """What one whole number is worth."""
        return float(ends(self.columns[i])[1]) / 2

    def centre(self, i: int) -> float:
        low, step = ends(self.columns[i])
        return float(low + step * self.origins[i] / 2)

    @property
    def origins(self) -> list[int]:
        """Where 0 lies, in halves of a step above the lowest value: in the middle, or as near to the origin as they allow."""
        if self.origin is None:
            return self.spans
        lines = map(ends, self.columns)
        return [round(2 * (at - low) / step) for (low, step), at in zip(lines, self.origin, strict=True)]

    def across(self, i: int) -> Fraction:
        """How many times as far s moves from end to end as from 0 to the farther end: 2 in the middle, 1 at an end."""
        span, at = self.spans[i], self.origins[i]
        return Fraction(2 * span, max(at, 2 * span - at)) if span else Fraction(2)

    def low(self, i: int) -> float:
        return float(ends(self.columns[i])[0])

    def high(self, i: int) -> float:
        low, step = ends(self.columns[i])
        return float(low + step * (self.columns[i].size - 1))

    def rounding(self, i: int) -> float:
        """How far the grid moves a value that is within bounds."""
        return 0.0

    def spread(self, i: int, j: int) -> float:
        """The largest variance, or covariance, that the bounds allow."""
        return prod(self.unit(c) * self.spans[c] for c in (i, j))

    def sums(self, rows: int, price: Promise, inside: Fraction) -> tuple[Vector, ...]:
        """The sum of each column, which share the price. `inside`: see `Vector`; about another origin it is `across`."""
        each = part(price, Fraction(1, len(self.columns)))
        vectors = []
        for i, (column, span, at) in enumerate(zip(self.columns, self.spans, self.origins, strict=True)):
            if self.origin is not None:
                inside = self.across(i) ** (1 if isinstance(price, Pure) else 2)
            reach = max(at, 2 * span - at)
            vectors.append(shared([f"sum of {column.name}"], reach, rows, each, inside))
        return tuple(vectors)

    def products(self, rows: int, price: Promise, inside: Fraction) -> tuple[Vector, ...]:
        """The sum of products of each pair, which share the price."""
        each = part(price, Fraction(1, len(self._pairs)))
        return tuple(
            shared([f"sum of {self._name(pair)}"], self._reach(pair), rows, each, inside)
            for pair in self._pairs
        )

    def covariances(self, others: int, price: Promise) -> tuple[Vector, ...]:
        """n^2 times the covariance of each pair, if n - 1 = others, where rows are replaced."""
        each = part(price, Fraction(1, len(self._pairs)))
        return tuple(
            shared(
                [f"n^2 covariance of {self._name(pair)}"],
                4 * others * self._reach(pair),
                1,
                each,
                1,
                split=False,
            )
            for pair in self._pairs
        )

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return [(0, 1)] if self.crossed else upper_triangle(len(self.columns))

    def _name(self, pair: tuple[int, int]) -> str:
        return " x ".join(self.columns[i].name for i in pair)

    def _reach(self, pair: tuple[int, int]) -> int:
        return prod(self.spans[i] for i in pair)

    def totals(self, scope: Scope, data: Data, products: bool) -> dict[int, Totals]:
        """The rows, the sums of s and of products s t in each group that has rows, exactly."""
        source, condition = scope.open(data)
        d, spans, origins = len(self.columns), self.spans, self.origins
        pairs = self._pairs if products else []
        asked = [(), *((i,) for i in range(d)), *pairs]
        found = add_up(source, self.columns, asked, scope.unit, by=scope.by_columns, condition=condition)

        def moved(n: int, codes: Sequence[int], both: Sequence[int]) -> Totals:
            s = [2 * code - at * n for code, at in zip(codes, origins, strict=True)]
            st = [
                4 * product - 2 * spans[j] * codes[i] - 2 * spans[i] * codes[j] + spans[i] * spans[j] * n
                for product, (i, j) in zip(both, pairs, strict=True)
            ]
            return n, s, st

        return {group: moved(n, rest[:d], rest[d:]) for group, (n, *rest) in scope.folded(found).items()}


@dataclass(frozen=True)
class Moments(ScopedPlan):
    """A plan of noisy sums over rows of several columns, within their bounds or clipped to a ball."""

    columns: tuple[Column, ...]
    scope: inline[Scope]
    guarantee: Promise
    ball: Ball | None = None
    light = True

    def check(self) -> None:
        """Different number columns, not too many of them; groups that are not too many; a ball that fits."""
        self.scope.check_groups()
        for column in self.columns:
            ends(column)
        names = [column.name for column in self.columns]
        if not 1 <= len(names) <= MOST_COLUMNS or len(set(names)) != len(names):
            raise DomainError(
                "the columns must be different, and some",
                given=", ".join(names) or "no column",
                needed=f"1 to {MOST_COLUMNS} different number columns",
                fix='"income"',
            )
        if self.ball is not None:
            InBall(self.columns, self.ball).check()

    @cached_property
    def frame(self) -> Box | InBall:
        """How rows become vectors of whole numbers."""
        return Box(self.columns) if self.ball is None else InBall(self.columns, self.ball)

    @cached_property
    def sure(self) -> bool:
        """Whether every row counts, so that n is public and a row is replaced and nothing else."""
        return self.scope.all_count(self.columns)

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """The noisy sums, by what one unit moves together."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The noisy sums, in order."""
        return tuple(term for vector in self.vectors for term in vector.terms)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return vector_parts(
            self.vectors, groups=self.scope.groups, replaced=self.scope.replaced, sure=self.sure
        )

    def added(self) -> Additive:
        return noise_by_column(term.noise for term in self.terms)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured(self.terms, prepared, bits, trials)

    def neighbours(self) -> Iterator[Pair]:
        yield from super().neighbours()
        if isinstance(self.frame, InBall):
            yield from self.frame.pairs(self.scope)

    def described(self, what: str, **facts: object) -> dict[str, object]:
        """What is released, and with which noise."""
        names = ", ".join(column.name for column in self.columns)
        clipped = {} if self.ball is None else {"clipped to": str(self.ball)}
        return self.wording(
            f"{what} of {names}{self.scope.words()}",
            {"terms": [term.to_dict() for term in self.terms], **facts, **clipped},
        )

    def size_in_words(self, missing: str) -> str:
        """For how many rows a forecast speaks."""
        size = self.scope.size
        if size is None:
            return f"how many rows there are is private: say expected_n for {missing}"
        return f"for {size:,} rows" + (" in each group" if self.scope.by else "")


def upper_triangle(d: int) -> list[tuple[int, int]]:
    return list(combinations_with_replacement(range(d), 2))


# Variance of a column, and covariances of several, for each of several groups; within bounds, or in a ball.


@register
@dataclass(frozen=True)
class CovariancePlan(Moments):
    """Covariances of all pairs of columns (divided by n, not n - 1); for one column its variance.

    Codes are moved to s = 2c - M in [-M, M], as for means. With a ball, rows are vectors of whole numbers in it.

    Privacy
        If every row counts for sure, n is public and V = n sum(s t) - sum(s) sum(t) is a whole number, n^2 times the
        covariance. Replacing row z by z', with the mean m of the other n - 1 rows, changes it by
        (n-1) ((z'-m)(z'-m)^T - (z-m)(z-m)^T), so one entry by at most 4 (n-1) M M', and all entries of the upper
        triangle can be moved so far at once. (The slides' 8 g^2/n is twice that for one column.) In a ball of radius
        g they move together by at most (n-1) times 5 g^2 or 2 sqrt(d(d+3)) g^2 in the 1-norm, 4 g^2 in the 2-norm.
        Otherwise the noisy sums of s, of s t (of 2 s^2 - M^2 on the diagonal, but not in a ball) and of 1 are
        released; for a single covariance the product of both columns alone. Let them cost e, f and h where a row comes or goes, e + f + h in all. Replacing inside a group costs at
        most 2 (e + f), and for one column with e = f at most (25/8) e: |u-u'| + 2|u^2-u'^2| for u, u' in [-1, 1]
        is largest at u = 1, u' = -1/4. With Gaussian noise 4 (e + f), and in a ball 4 e + 2 f: its products move
        by sqrt 2 g^2. `Scope.price` puts these together. k rows of a unit: k times the noise.

    >>> plan = people.plan.covariance(["age", "income"], eps="0.1")
    >>> [part.of for part in plan.parts if part.case == "a row comes or goes"]
    ['sum of age', 'sum of income', 'sum of age x age', 'sum of age x income', 'sum of income x income', 'count']
    """

    crossed: bool = (
        False  # of two columns: their covariance alone, which pays for one number in place of three
    )
    kind = "statistics.covariance"
    light = True
    leaves_out = "covers the noise, cautiously; not errors in the data, nor records left out or clamped"
    interval_in_files = True

    def check(self) -> None:
        super().check()
        if self.ball is None:
            check_width(self.columns, self.pairs)
        if self.crossed and (len(self.columns) != 2 or self.ball is not None):
            raise ParameterError(
                "a single covariance is of two columns, without a ball",
                given=", ".join(column.name for column in self.columns),
                needed="two columns",
                fix='people.cross_covariance("age", "income", eps="0.1")',
            )

    @cached_property
    def frame(self) -> Box | InBall:
        return Box(self.columns, self.crossed) if self.ball is None else InBall(self.columns, self.ball)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        return [(0, 1)] if self.crossed else upper_triangle(len(self.columns))

    @cached_property
    def split(self) -> tuple[Fraction, Fraction, Fraction]:
        """e, f and h, as shares of what a row costs that comes or goes."""
        pure, boxed = isinstance(self.guarantee, Pure), self.ball is None
        if not self.scope.replaced or (self.scope.by and pure):
            shares = (1, 1, 1)
        elif self.scope.by:
            shares = (1, 1, 2) if boxed else (1, 2, 1)
        elif pure:
            shares = (8, 8, 9) if boxed and len(self.columns) == 1 else (1, 1, 2)
        else:
            shares = (1, 1, 6) if boxed else (1, 2, 5)
        sums, products, count = (Fraction(share, sum(shares)) for share in shares)
        return sums, products, count

    @cached_property
    def inside(self) -> tuple[Fraction, Fraction]:
        """How many times as far sums and products move where a row is replaced within its group, where both cost most."""
        if not isinstance(self.guarantee, Pure):
            return Fraction(4), Fraction(4 if self.ball is None else 2)
        sums, products, _ = self.split
        one_column = self.ball is None and len(self.columns) == 1 and sums == products
        return (Fraction(5, 4), Fraction(15, 8)) if one_column else (Fraction(2), Fraction(2))

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """V of each pair; or each sum, each product, and the count."""
        if self.sure:
            return self.frame.covariances(max(1, (self.scope.n or 1) - 1), self.guarantee)
        shares, inside, rows = self.split, self.inside, self.scope.rows
        within = shares[0] * inside[0] + shares[1] * inside[1]
        sums, products, count = (part(self.scope.price(self.guarantee, within), share) for share in shares)
        return (
            *self.frame.sums(rows, sums, inside[0]),
            *self.frame.products(rows, products, inside[1]),
            shared(["count"], 1, rows, count, 0, split=False),
        )

    def forecast(self) -> Forecast:
        """Of what will be printed: half of the interval, which is wider the farther the means lie from the middle."""
        size, n = self.scope.size, self.scope.n or 1
        rows: list[Row] = []
        for at, (i, j) in enumerate(self.pairs):
            noise, scale = self.terms[at if self.sure else len(self.columns) + at], self._scale(i, j)
            scale /= n**2 if self.sure else (size or 1) * self._doubled(i, j)
            name = self._name(i, j) + ("" if self.sure or size else " x rows")
            within = [noise.within(0.95) * scale]
            if not self.sure and size:
                within = [self._printed(at, i, j, size, off) for off in (0.0, 0.5)]
            rows.append((name, noise.sd * scale, *within))
        middle = "middle of the range" if self.ball is None else "origin"
        notes = [
            f"near the {middle}; more where the means are far from it",
            self.size_in_words("the error itself"),
        ]
        if self.sure:
            notes = [f"n = {n:,} is public, and every row counts"]
        columns: tuple[str, ...] = ("of each", "standard error", "95% within ±")
        if not self.sure and size:
            columns += ("means at an end ±",)
            notes[0] = (
                f"what will be printed lies between the two: the first for means near the {middle}, the second for means at an end"
            )
        return Forecast("expected error of each covariance", columns, tuple(rows), tuple(notes))

    def _printed(self, at: int, i: int, j: int, size: int, off: float) -> float:
        """Half of the interval that is printed for values spread evenly, their means so many ranges off the middle."""
        spans = [self.frame.high(c) - self.frame.low(c) for c in (i, j)]
        one, other = (np.array([off * span]) for span in spans)
        spread = spans[0] ** 2 / 12 if i == j and off == 0 else 0.0
        low, high = self._worst(
            at, i, j, 1 - 0.05 / 4, one * other + spread, one, other, np.array([float(size)])
        )
        least, most = self._range(i, j)
        return min(float((high - low)[0]) / 2, (most - least) / 2)

    def prepare(self, data: Data) -> Integers:
        found = self.frame.totals(self.scope, data, products=True)
        sums = {group: self._combined(*totals) for group, totals in found.items()}
        return counted(self.terms, self.scope.groups, sums)

    def _combined(self, n: int, s: Sequence[int], st: Sequence[int]) -> list[int]:
        if self.sure:
            return [n * both - s[i] * s[j] for both, (i, j) in zip(st, self.pairs, strict=True)]
        moved = [
            2 * both - (self.columns[i].size - 1) ** 2 * n if self._doubled(i, j) == 2 else both
            for both, (i, j) in zip(st, self.pairs, strict=True)
        ]
        return [*s, *moved, n]

    def _doubled(self, i: int, j: int) -> int:
        """2 where 2 s^2 - M^2 is released in place of s^2."""
        return 2 if i == j and self.ball is None else 1

    @property
    def published_rows(self) -> int:
        return self.scope.groups if self.scope.by else len(self.pairs)

    @property
    def figures(self) -> tuple[str, ...]:
        if len(self.columns) == 1:
            return ()
        names = [[self.columns[k].name for k in dict.fromkeys(pair)] for pair in self.pairs]
        return tuple(
            f"{'covariance' if len(both) > 1 else 'variance'} of {' and '.join(both)}" for both in names
        )

    def publish(self, measured: Integers) -> Table:
        """For each pair the covariance; where n is private also the noisy moments that it comes from."""
        import pyarrow as pa

        noisy, d, frame, parts = values(self.terms, measured), len(self.columns), self.frame, []
        for at, (i, j) in enumerate(self.pairs):
            scale, span = self._scale(i, j), self.columns[i].size - 1
            named: dict[str, object] = {**self.scope.labels()}
            if d > 1:
                named |= {
                    "column": [self.columns[i].name] * len(noisy),
                    "with": [self.columns[j].name] * len(noisy),
                }
            if self.sure:
                value = noisy[:, at] * scale / (self.scope.n or 1) ** 2
                parts.append(pa.table({**named, "value": np.clip(value, *self._range(i, j))}))
                continue
            count = noisy[:, -1]
            rows = np.maximum(count, 1)
            both = noisy[:, d + at]
            both = both if self._doubled(i, j) == 1 else (both + span**2 * count) / 2
            one, other = (noisy[:, c] / rows * frame.unit(c) for c in (i, j))
            moment = both * scale / rows
            value = np.clip(moment - one * other, *self._range(i, j))
            means = {"mean": frame.centre(i) + one} | (
                {"other mean": frame.centre(j) + other} if d > 1 else {}
            )
            moments = {"moment": moment, **means, "count": count}
            parts.append(pa.table({**named, "value": value, **moments}))
        return pa.concat_tables(parts)

    def intervals(self, table: Table, level: float) -> tuple[Floats, Floats]:
        """For each covariance a range that holds the true one with at least this probability.

        Where several noises take part, each is bounded with its share of what may be missed, and the worst is taken.
        """
        low, high = np.zeros(len(table)), np.zeros(len(table))
        value, frame = table.column("value").to_numpy(), self.frame
        groups = self.scope.groups
        for at, (i, j) in enumerate(self.pairs):
            mine = slice(at * groups, (at + 1) * groups)
            if len(value[mine]) == 0:
                break  # the first rows of a table are shown by themselves
            if self.sure:
                reach = self.terms[at].within(level) * self._scale(i, j) / (self.scope.n or 1) ** 2
                low[mine], high[mine] = value[mine] - reach, value[mine] + reach
            else:
                last = "other mean" if len(self.columns) > 1 else "mean"
                moment, one, other, count = (
                    table.column(name).to_numpy()[mine] for name in ("moment", "mean", last, "count")
                )
                centred = one - frame.centre(i), other - frame.centre(j)
                low[mine], high[mine] = self._worst(at, i, j, 1 - (1 - level) / 4, moment, *centred, count)
            slack = 4 * sum(frame.rounding(c) * (frame.high(c) - frame.low(c)) for c in (i, j))
            low[mine] = np.clip(low[mine] - slack, *self._range(i, j))
            high[mine] = np.clip(high[mine] + slack, *self._range(i, j))
        return low, high

    def _worst(
        self, at: int, i: int, j: int, level: float, moment: Floats, one: Floats, other: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        terms, d, frame = self.terms, len(self.columns), self.frame
        c = terms[-1].within(level)
        rows = np.maximum(count, 1)
        fewest, most = np.maximum(count - c, 1), np.maximum(count + c, 1)
        reach = terms[d + at].within(level) / self._doubled(i, j)
        if self._doubled(i, j) == 2:
            reach += (self.columns[i].size - 1) ** 2 * c / 2
        spread = [(moment * rows, reach * self._scale(i, j))]
        for column, centre in ((i, one), (j, other)):
            spread.append((centre * rows, terms[column].within(level) * frame.unit(column)))
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

    def _scale(self, i: int, j: int) -> float:
        """From s t to the product of values."""
        return self.frame.unit(i) * self.frame.unit(j)

    def _range(self, i: int, j: int) -> tuple[float, float]:
        """The smallest and largest covariance that there can be."""
        largest = self.frame.spread(i, j)
        return (0.0 if i == j else -largest), largest

    def _name(self, i: int, j: int) -> str:
        names = [self.columns[c].name for c in (i, j)]
        return f"variance of {names[0]}" if i == j else f"covariance of {names[0]}, {names[1]}"

    def describe(self) -> dict[str, object]:
        what = "variance" if len(self.columns) == 1 else "covariance" if self.crossed else "covariances"
        return self.described(what)


def covariance_plan(
    columns: Sequence[Column], scope: Scope, promise: Promise, ball: Ball | None = None
) -> CovariancePlan:
    """The covariances of number columns, over the rows that have them all."""
    return CovariancePlan(tuple(columns), scope, promise, ball)


def _over(low: Floats, high: Floats, fewest: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The range of total/count for a total in [low, high] and a count in [fewest, most], all positive."""
    return np.where(low >= 0, low / most, low / fewest), np.where(high >= 0, high / fewest, high / most)
