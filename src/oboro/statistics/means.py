"""Means of one column or several, for each of several groups; within bounds, or clipped to a ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from oboro.arrays import Data, Floats, Integers, Table, numbers_in, table_of
from oboro.domain import Column
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, rational, show
from oboro.kinds import list_of
from oboro.noise import DiscreteLaplace
from oboro.noise.laplace import check_level
from oboro.privacy import Pure
from oboro.release import Forecast, register
from oboro.release.forecast import Row
from oboro.statistics.balls import Ball, InBall
from oboro.statistics.moments import Box, Moments
from oboro.statistics.scope import Scope
from oboro.statistics.terms import (
    Noise,
    Promise,
    Term,
    Vector,
    counted,
    ends,
    noise_note,
    part,
    shared,
    values,
)

# Intervals for quotients of noisy numbers, by Fieller's way: all m that the noise does not rule out.
#
# A true mean m makes a combination of two true sums 0. The same combination of the noisy sums is then noise
# alone, of a law that is public for each m. The interval is every m for which that noise would be among the
# likely ones. It covers with the probability that it says, whatever the sums are.

_MOST_FOR_SUMS = Fraction(9, 10)  # of what a row may cost that comes or goes: something is left for the count
_DIGITS = 60  # binary ones, of an end between the best value and a bound


def two_noises(one: Term, other: Term, a: Floats, b: Floats, level: float) -> Floats:
    """How far a X + b Y goes with probability `level`, for the noises X, Y of two terms.

    Computed for the continuous law, plus a step of each: a discrete Laplace draw can be coupled to a continuous
    one at a distance of at most 1.
    """
    slack: Floats = np.abs(a) * one.quantum + np.abs(b) * other.quantum
    first: Floats = np.abs(a) * _scale(one.noise) * one.quantum
    second: Floats = np.abs(b) * _scale(other.noise) * other.quantum
    if isinstance(one.noise, DiscreteLaplace):
        return _two_laplace(first, second, level) + slack
    return normal_reach(check_level(level)) * np.hypot(first, second) + slack


def _scale(noise: Noise) -> float:
    return float(noise.scale) if isinstance(noise, DiscreteLaplace) else math.sqrt(noise.sigma2)


def _two_laplace(first: Floats, second: Floats, level: float) -> Floats:
    """The q with P(|aX + bY| > q) = 1 - level: the tail is (a^2 e^(-q/a) - b^2 e^(-q/b))/(a^2 - b^2)."""
    large = np.maximum(np.maximum(first, second), 1e-300)
    ratio = np.clip(np.minimum(first, second) / large, 1e-9, 1 - 1e-6)
    if ratio.size > 4:
        return np.asarray(_at_ratio(ratio, level) * large)
    # a forecast asks for two, at ratios that no price changes but for their last digits
    return np.asarray(np.reshape(_at_few(tuple(ratio.ravel().tolist()), level), ratio.shape) * large)


@lru_cache(maxsize=1024)
def _at_few(ratio: tuple[float, ...], level: float) -> tuple[float, ...]:
    return tuple(_at_ratio(np.asarray(ratio), level).tolist())


def _at_ratio(ratio: Floats, level: float) -> Floats:
    """The q where the larger scale is 1."""
    miss = 1 - level
    q = -np.log(miss * (1 - ratio**2))  # the tail is below `miss` here
    for _ in range(12):
        # Newton's way on the logarithm of the tail, which is concave: from the right it never goes too far
        slow, fast = np.exp(-q), ratio**2 * np.exp(-q / ratio)
        tail = np.maximum(slow - fast, 1e-300)
        step = np.log(tail / (1 - ratio**2) / miss) * tail / np.maximum(slow - fast / ratio, 1e-300)
        q = q + step
        if np.all(np.abs(step) <= 1e-14 * q):
            break
    return np.asarray(q)


@lru_cache(maxsize=64)
def normal_reach(level: float) -> float:
    """z with P(|N| <= z) = level."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > 1 - level else (low, middle)
    return high


def not_ruled_out(
    excess: Callable[[Floats], Floats], best: Floats, lowest: float, highest: float
) -> tuple[Floats, Floats]:
    """The ends of the set where `excess` <= 0, on either side of `best`, within bounds.

    `excess` is |combination| minus what the noise may do: concave on either side of `best`, so that it crosses 0
    at most once before a bound where it is positive. If it is not positive at a bound, the set reaches the bound.

    Both sides are looked for at once, at as many points in each step as a small table allows: one call for 31 points takes
    hardly longer than for one, and finds 5 digits. The furthest that is not ruled out counts, wherever the nearer ones are:
    `best` itself may be ruled out where a noisy count is below 1.
    """
    bounds = np.stack([np.full_like(best, lowest), np.full_like(best, highest)])
    inner, outer = np.stack([best, best]), bounds
    reaches = excess(bounds) <= 0
    points = 31 if best.size <= 256 else 1
    parts = np.arange(points + 2)[:, None, None] / (points + 1)
    for _ in range(math.ceil(_DIGITS / math.log2(points + 1))):
        at = inner + parts * (outer - inner)
        inside = excess(at[1:-1]) <= 0
        last = np.where(inside, np.arange(1, points + 1)[:, None, None], 0).max(axis=0)[None]
        inner, outer = (np.take_along_axis(at, last + more, axis=0)[0] for more in (0, 1))
    low, high = np.where(reaches, bounds, outer)
    return low, high


@register
@dataclass(frozen=True)
class MeanPlan(Moments):
    """The mean of each column over the rows of each group, from noisy sums.

    A code c in 0, ..., M is moved to s = 2c - M in [-M, M], so that the middle of the range is 0. With a ball, rows are
    vectors t of whole numbers about its origin (balls.py). How many rows count is private as soon as some may be
    left out. Four forms, by public facts alone:

        n public      every row counts for sure (replace, no condition, no groups, `missing` declared): S, divided by n
        centred       replace, one group: S and the count C. The count is free: see below. With a public `origin` g, a guess of
                      the mean, codes are moved to s = 2c - g instead
        two-sided     add/remove or several groups, one column: A = sum of c and B = sum of M - c; S = A - B, C = (A+B)/M
        joint         the same, several columns or a ball: S of each, and C

    Privacy
        Let S cost e and C cost f where a row comes or goes: with Laplace noise of scale M d/e on each of d sums, or of the
        ball's reach of sums/e, and 1/f on the count; k times that for k rows.
        - Coming or going costs e + f; replacing inside a group costs 2e, with Gaussian noise 4e, for what moves is
          twice as large. Where n is public nothing else can happen. A mean of vectors in a ball of radius g then
          has noise for 2g/n, and for 2 g sqrt(d)/n with Laplace noise in an L2 ball.
        - Two-sided: one row adds c + (M - c) = M to A and B together, so scale M/eps costs eps; replacing inside a group
          moves them by |dc| + |dc| <= 2M: twice. In squares c^2 + (M-c)^2 <= M^2, and at most 2 M^2: twice as well.
        `Scope.price` puts these together: under replace with one group max(e + f, 2e), so e = f = eps/2 and the
        count costs nothing extra; between groups 2 (e + f).
        - About an origin: a row that comes or goes moves S by at most D = max(g, 2M - g), one that is replaced by at most 2M,
          so r = 2M/D times as far, 1 <= r <= 2. Then replacing costs r e (Gaussian: r^2 e), over several columns on average.
        What is published is computed from these noisy sums and public facts.

    >>> plan = people.plan.mean("income", eps="0.1")
    >>> for part in plan.parts:
    ...     print(part.noise, part.of, part.moves, part.costs, part.case, sep=" | ")
    DiscreteLaplace('2000') | sum of income | 100 | eps = 0.05 | a row comes or goes
    DiscreteLaplace('2000') | sum of income | 200 | eps = 0.1 | a row is replaced within its group
    DiscreteLaplace('20') | count | 1 | eps = 0.05 | a row comes or goes
    DiscreteLaplace('20') | count | 0 | eps = 0 | a row is replaced within its group
    """

    origin: tuple[Fraction, ...] | None = (
        None  # a public guess of the means, for the centred form without a ball
    )
    kind = "statistics.mean"
    light = True
    leaves_out = "covers the noise; not errors in the data, nor records left out or clamped"
    interval_in_files = True

    def check(self) -> None:
        super().check()
        if self.origin is None:
            return
        if self.form != "centred" or self.ball is not None:
            raise ParameterError(
                "an origin is for means whose count is private under replace, without groups and without a ball",
                given=told(origin=", ".join(map(show, self.origin))),
                needed="a mean without an origin" if self.ball is None else "the origin of the ball itself",
                fix="leave it out" if self.ball is None else 'ob.statistics.Ball("l2", 50, [30])',
                argument="origin",
            )
        if len(self.origin) != len(self.columns):
            raise ParameterError(
                "the origin has a number for each column",
                given=f"{len(self.origin)} numbers for {len(self.columns)} columns",
                fix=told(origin=f"{[0] * len(self.columns)}"),
            )
        for column, at in zip(self.columns, self.origin, strict=True):
            low, step = ends(column)
            high = low + step * (column.size - 1)
            if not low <= at <= high:
                raise ParameterError(
                    f"the origin lies outside the bounds of {column.name!r}",
                    given=told(origin=show(at)),
                    needed=f"{show(low)} to {show(high)}, a guess of the mean made without looking at the data",
                    fix=setting(origin=show((low + high) / 2)),
                    argument="origin",
                )

    @cached_property
    def frame(self) -> Box | InBall:
        return super().frame if self.origin is None else Box(self.columns, origin=self.origin)

    @property
    def footnote(self) -> str | None:
        """Why a count may look strange, where it is noisy."""
        noisy = "the mean comes from a noisy sum and a noisy count, which may be fractional or below 0"
        return None if self.form == "n public" else noisy

    @cached_property
    def form(self) -> str:
        if self.sure:
            return "n public"
        if self.scope.replaced and not self.scope.by:
            return "centred"
        return "two-sided" if len(self.columns) == 1 and self.ball is None else "joint"

    @property
    def most_rows(self) -> float:
        """How many rows can count, where that is public. A noisy count above it is cut to it: closer to the truth, and
        intervals hold all the same, for the noise of the sum is symmetric and falls off from 0, given that of the count:
        whatever brings the count's noise closer to 0 makes a large combination of both less likely [Anderson 1955].
        """
        return math.inf if self.scope.n is None else float(self.scope.n * self.scope.rows)

    @cached_property
    def split(self) -> tuple[Fraction, Fraction]:
        """e and f, as shares of what a row costs that comes or goes."""
        pure, d = isinstance(self.guarantee, Pure), len(self.columns)
        if self.form == "n public":
            return Fraction(1), Fraction(0)
        if self.form == "centred":
            for_sums = min(
                1 / self.inside, _MOST_FOR_SUMS
            )  # what replacing leaves of coming and going is the count's
            return for_sums, 1 - for_sums
        if self.scope.replaced and not pure:
            return Fraction(1, 2), Fraction(1, 2)
        if self.ball is not None:
            return Fraction(2, 3), Fraction(1, 3)
        return Fraction(d, d + 1), Fraction(1, d + 1)

    @cached_property
    def price(self) -> Promise:
        """What a row may cost that comes or goes."""
        moved = self.inside * self.split[0]
        if self.form == "n public":
            return part(self.guarantee, 1 / moved)
        return self.scope.price(self.guarantee, self.inside if self.form == "two-sided" else moved)

    @property
    def inside(self) -> Fraction:
        """How many times as far the sums move where a row is replaced within its group, in the norm of the noise."""
        if self.origin is not None and isinstance(self.frame, Box):
            power = 1 if isinstance(self.guarantee, Pure) else 2
            each = [self.frame.across(i) ** power for i in range(len(self.columns))]
            return sum(each, Fraction(0)) / len(each)
        return Fraction(2 if isinstance(self.guarantee, Pure) or self.form == "two-sided" else 4)

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """A and B, or each S and then C. A row that is replaced within its group is counted before and after."""
        rows = self.scope.rows
        if self.form == "two-sided":
            names = [f"distance to {end}" for end in ("low", "high")]
            span = self.columns[0].size - 1
            return (shared(names, span, rows, self.price, self.inside, of="distances to the bounds"),)
        for_sums, for_count = self.split
        sums = self.frame.sums(rows, part(self.price, for_sums), self.inside)
        if self.form == "n public":
            return sums
        return (*sums, shared(["count"], 1, rows, part(self.price, for_count), 0, split=False))

    def forecast(self) -> Forecast:
        size, frame = self.scope.size, self.frame
        rows: list[Row] = []
        near = (
            (f"near the {'middle' if self.origin is None else 'origin'}", "near a bound")
            if self.ball is None
            else ("near the origin", "near the edge")
        )
        least = 0.0  # from how many rows on the noise of a mean reaches less than a quarter of its range
        for i, column in enumerate(self.columns):
            low, middle, high = frame.low(i), frame.centre(i), frame.high(i)
            m = np.asarray([middle, low if middle - low >= high - middle else high])
            errors = self._noise_at(i, m, 0.95, sd=True), self._noise_at(i, m, 0.95)
            name = f"mean of {column.name}" + ("" if size else " x rows")
            for place, where in enumerate(near):
                both = (float(error[place]) / (size or 1) for error in errors)
                rows.append((f"{name}, {where}", *both))
            least = max(least, float(errors[1][0]) / max((high - low) / 4, 1e-300))
        notes = (
            self._split_in_words(),
            self.size_in_words("the error of the mean itself"),
            *self._missing_in_words(),
            *noise_note(self.scope.groups, self.scope.units, least, "group"),
        )
        title = "expected error of each mean"
        return Forecast(title, ("of each", "standard error", "95% within ±"), tuple(rows), notes)

    def prepare(self, data: Data) -> Integers:
        found = self.frame.totals(self.scope, data, products=False)
        sums = {group: self._combined(count, s) for group, (count, s, _) in found.items()}
        return counted(self.terms, self.scope.groups, sums)

    def _combined(self, count: int, s: Sequence[int]) -> list[int]:
        if self.form == "two-sided":
            whole = (self.columns[0].size - 1) * count
            return [(whole + s[0]) // 2, (whole - s[0]) // 2]
        return [*s] if self.form == "n public" else [*s, count]

    @property
    def published_rows(self) -> int:
        return self.scope.groups if self.scope.by else len(self.columns)

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(f"mean of {column.name}" for column in self.columns) if len(self.columns) > 1 else ()

    @cached_property
    def lines(self) -> list[tuple[float, float, float, float]]:
        """What one whole number is worth in each column, where its 0 lies, and its ends."""
        frame = self.frame
        return [
            (frame.unit(i), frame.centre(i), frame.low(i), frame.high(i)) for i in range(len(self.columns))
        ]

    def publish(self, measured: Integers) -> Table:
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
        count = np.minimum(count, self.most_rows)
        parts = []
        for i, column in enumerate(self.columns):
            unit, centre, low, high = self.lines[i]
            above = moved[:, i] * unit
            mean = centre + above / np.maximum(count, 1)
            named = {"column": [column.name] * len(noisy)} if len(self.columns) > 1 else {}
            parts.append(
                table_of(
                    {
                        **self.scope.labels(),
                        **named,
                        "value": np.clip(mean, low, high),
                        "sum": above + centre * count,
                        "count": count,
                    }
                )
            )
        return pa.concat_tables(parts)

    def intervals(self, table: Table, level: float) -> tuple[Floats, Floats]:
        """For each mean the range that holds the true one with at least this probability; within the bounds."""
        return self.ends_by(table, level, self._noise_at)

    def ends_by(
        self, table: Table, level: float, noise: Callable[[int, Floats, float], Floats]
    ) -> tuple[Floats, Floats]:
        """The same, for noise in (sum - m count) of any law: (column, m, level) to how far it goes."""
        names = (
            table.column("column").to_pylist()
            if len(self.columns) > 1
            else [self.columns[0].name] * len(table)
        )
        value, total, count = (numbers_in(table, name) for name in ("value", "sum", "count"))
        low, high, frame = np.zeros(len(table)), np.zeros(len(table)), self.frame
        for i, column in enumerate(self.columns):
            mine = np.asarray([name == column.name for name in names], bool)
            s, c, ends = total[mine], count[mine], (frame.low(i), frame.high(i))

            def excess(m: Floats, s: Floats = s, c: Floats = c, i: int = i) -> Floats:
                return np.asarray(np.abs(s - m * c) - noise(i, m, level))

            low[mine], high[mine] = not_ruled_out(excess, value[mine], *ends)
            low[mine] = np.maximum(low[mine] - frame.rounding(i), ends[0])
            high[mine] = np.minimum(high[mine] + frame.rounding(i), ends[1])
        return low, high

    def _noise_at(self, i: int, m: Floats, level: float, sd: bool = False) -> Floats:
        """The noise in (sum - m count): how far it goes with probability `level`, or its standard deviation."""
        terms, frame = self.terms, self.frame
        if self.form == "two-sided":
            share = (m - frame.low(i)) / max(1, self.columns[i].size - 1)
            one, other = terms
            a, b = 2 * frame.unit(i) - share, share  # A (high - m)/span - B (m - low)/span
        else:
            one, other = terms[i], terms[-1]
            a, b = np.full_like(m, frame.unit(i)), (frame.centre(i) - m) * (self.form != "n public")
        if sd:
            return np.asarray(np.hypot(a * one.sd, b * other.sd))
        return two_noises(one, other, np.asarray(a, float), np.asarray(b, float), level)

    def _missing_in_words(self) -> tuple[str, ...]:
        """What it would save to say what stands for a missing value: then every row counts, and their number is public."""
        names = [column.name for column in self.columns if column.missing is None]
        rows_alone = self.scope.unit.kind == "row" and self.scope.where is None and self.ball is None
        if self.form != "centred" or not rows_alone or not names or not self.scope.n or self.origin:
            return ()
        edge = np.asarray([self.frame.low(0)])
        saved = float(self._noise_at(0, edge, 0.95, sd=True)[0]) / (self.terms[0].sd * self.frame.unit(0))
        declared = f"with missing= declared for {', '.join(names)} every row counts: the error near a bound would be {saved:.2g} times smaller"
        guessed = (
            "with origin=, a public guess of the mean, the error near that guess is as small as it can be"
        )
        return declared, guessed

    def _split_in_words(self) -> str:
        if self.form == "n public":
            return f"n = {self.scope.n:,} is public, and every row counts"
        if self.form == "centred":
            return "the noisy count costs nothing extra under replace"
        if self.form == "two-sided":
            return "sum and count both come from the distances to the two bounds, which share the whole guarantee"
        sums, count = self.split
        return f"split: {sums} for the sums, {count} for the count" + (
            "; a row that is replaced pays twice" if self.scope.replaced else ""
        )

    def describe(self) -> dict[str, object]:
        about = {} if self.origin is None else {"about": ", ".join(map(show, self.origin))}
        return self.described("mean", form=self.form, **about)


def mean_plan(
    columns: Sequence[Column],
    scope: Scope,
    promise: Promise,
    ball: Ball | None = None,
    origin: Number | Sequence[Number] | None = None,
) -> MeanPlan:
    """The means of one or more number columns, over the rows that have them all.

    `origin` is a public guess of each mean. Where the number of rows with a value is private, a mean near it has less error.
    """
    guess = [origin] if isinstance(origin, int | float | str | Fraction | Decimal) else origin
    at = None if guess is None else tuple(rational("origin", number) for number in list_of("origin", guess))
    return MeanPlan(tuple(columns), scope, promise, ball, at)
