"""How many rows, and sums of one column or several, for each of several groups: the subset sums of the slides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd

import numpy as np

from oboro.arrays import Data, Ends, Integers, Table, numbers_in, table_of
from oboro.domain import Column
from oboro.engine import add_up
from oboro.errors import DomainError, ParameterError
from oboro.noise import Bits
from oboro.privacy import ZCDP, Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, noise_by_column, part, register
from oboro.release.forecast import Row
from oboro.statistics.balls import Ball, InBall
from oboro.statistics.moments import Moments
from oboro.statistics.points import one_unit
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.terms import (
    Promise,
    Term,
    Vector,
    counted,
    counting,
    ends,
    measured,
    moved_parts,
    noise_note,
    shared,
    term,
    values,
)
from oboro.statistics.terms import part as part_of


@register
@dataclass(frozen=True)
class SumPlan(ScopedPlan):
    """The sum of a column's values, for each group.

    Privacy
        Values lie in [low, high] on a public grid, so sums are whole numbers of a public step. Let
        g = max(|low|, |high|) and r = high - low. One row that comes or goes moves one group's sum by at most g.
        A replaced row moves it by at most max(r, g) if there is one group (r where every row counts for sure),
        and by 2g in all, sqrt 2 g in the 2-norm, if it moves between two groups: the L1 sensitivity of subset
        sums is 2g, not the 4g of the slides. k rows of a unit: k times as much. Discrete Laplace noise of scale
        sensitivity/eps on integers is eps-DP; discrete Gaussian of variance sensitivity^2/(2 rho) is rho-zCDP.

    >>> plan = people.plan.sum("income", eps="0.1")
    >>> for part in plan.parts:
    ...     print(part.noise, part.of, part.moves, part.costs, part.case, sep=" | ")
    DiscreteLaplace('1000') | sum | 100 | eps = 0.1 | a row comes or goes
    DiscreteLaplace('1000') | sum | 100 | eps = 0.1 | a row is replaced within its group
    """

    column: Column
    scope: inline[Scope]
    guarantee: Promise
    kind = "statistics.sum"
    light = True
    leaves_out = "covers the noise; not errors in the data, nor records left out or clamped"
    interval_in_files = True

    def check(self) -> None:
        self.scope.check_groups()
        ends(self.column)

    @cached_property
    def grid(self) -> tuple[Fraction, int, int]:
        return grid_of(self.column)

    @property
    def reach(self) -> tuple[int, int]:
        return reach_of(self.column)

    @cached_property
    def term(self) -> Term:
        largest, spread = self.reach
        if self.scope.all_count([self.column]):
            return term("sum", spread, self.scope.rows, self.guarantee)
        inside = Fraction(spread, largest) ** (2 if isinstance(self.guarantee, ZCDP) else 1)
        return term("sum", largest, self.scope.rows, self.scope.price(self.guarantee, inside), split=True)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        quantum = self.term.quantum
        comes, inside = (-(-reach // quantum) for reach in self.reach)
        return moved_parts(
            self.term.noise,
            "sum",
            rows=self.scope.rows,
            groups=self.scope.groups,
            replaced=self.scope.replaced,
            comes=inside if self.scope.all_count([self.column]) else comes,
            inside=inside,
        )

    def added(self) -> Additive:
        return noise_by_column([self.term.noise])

    def forecast(self) -> Forecast:
        notes = noise_note(
            self.scope.groups, self.scope.units, self.term.within(0.95) / self.reach[0], "group"
        )
        return Forecast.of(
            self.term.noise, each="sum", step=float(self.grid[0]) * self.term.quantum, notes=notes
        )

    def prepare(self, data: Data) -> Integers:
        source, condition = self.scope.open(data)
        by = self.scope.by_columns
        found = add_up(source, [self.column], [(), (0,)], self.scope.unit, by=by, condition=condition)
        _, lowest, step = self.grid
        folded = self.scope.folded(found)
        sums = {group: [lowest * count + step * codes] for group, (count, codes) in folded.items()}
        return counted([self.term], self.scope.groups, sums)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured([self.term], prepared, bits, trials)

    @property
    def published_rows(self) -> int:
        return self.scope.groups

    def publish(self, measured: Integers) -> Table:
        noisy = values([self.term], measured)[:, 0] * float(self.grid[0])
        whole = self.grid[0].denominator == 1 and self.term.quantum == 1
        exact = measured[:, 0] * int(self.grid[0]) if whole else noisy
        return table_of({**self.scope.labels(), "value": exact})

    def intervals(self, table: Table, level: float) -> Ends:
        """For each sum the range that holds the true one with this probability."""
        value = table.column("value").to_numpy()
        reach = self.term.within(level) * float(self.grid[0])
        return value - reach, value + reach

    def describe(self) -> dict[str, object]:
        return self.wording(f"sum of {self.column.name}{self.scope.words()}", self.term.to_dict())


def grid_of(column: Column) -> tuple[Fraction, int, int]:
    """(unit, lowest, step): values are unit * (lowest + step * code), all whole numbers but the unit."""
    low, step = ends(column)
    unit = Fraction(gcd(low.numerator * step.denominator, step.numerator * low.denominator))
    unit /= low.denominator * step.denominator
    return unit, int(low / unit), int(step / unit)


def reach_of(column: Column) -> tuple[int, int]:
    """How far a row moves a sum that comes or goes, and one that is replaced, in units of `grid_of`."""
    _, lowest, step = grid_of(column)
    highest = lowest + step * (column.size - 1)
    return max(abs(lowest), abs(highest), 1), highest - lowest


# Sums of several columns, or of rows that are clipped to a ball.


@register
@dataclass(frozen=True)
class SumsPlan(Moments):
    """The sums of several columns over the rows that have them all, or of rows clipped to a ball, for each group.

    Privacy
        Within bounds, column i as for SumPlan: a row moves its sum by g_i where it comes or goes, and by r_i = high - low
        where it is replaced within its group. Of d columns each has noise for a share of 1/d: what a row costs that comes
        or goes is e, in all, and one that is replaced within its group costs e times the mean of r_i/g_i, of their squares for
        Gaussian noise. In a ball of radius g about 0 a row that comes or goes moves all sums together by g in the norm of
        the ball, or by sqrt(d) g with Laplace noise in an L2 ball; replaced, by twice that (balls.py). These are
        the slides' subset sums of vectors: 2g where a row moves between groups, not 4g.
        `Scope.price` puts this together: one that moves between groups costs 2 e. Where every row counts for sure, a row is
        replaced and nothing else. k rows of a unit: k times the noise. Discrete Laplace noise is eps-DP, discrete Gaussian
        noise rho-zCDP, for what moves in the 1-norm or the 2-norm.

    >>> plan = people.plan.sum(["age", "income"], eps="0.1")
    >>> for part in plan.parts[::2]:
    ...     print(part.noise, part.of, part.moves, part.costs, part.case, sep=" | ")
    DiscreteLaplace('1980') | sum of age | 99 | eps = 0.05 | a row comes or goes
    DiscreteLaplace('2000') | sum of income | 100 | eps = 0.05 | a row comes or goes
    """

    kind = "statistics.sums"
    light = True
    leaves_out = "covers the noise; not errors in the data, nor records left out, clamped or rounded"
    interval_in_files = True

    def check(self) -> None:
        super().check()
        if self.ball is not None and self.ball.origin is not None and any(self.ball.origin) and not self.sure:
            raise ParameterError(
                "a sum has no origin but 0 where the number of rows is private",
                given=str(self.ball),
                needed="a ball about 0",
                fix="a mean with that ball: it has a noisy sum and a noisy count",
            )

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        power, d, rows = (1 if isinstance(self.guarantee, Pure) else 2), len(self.columns), self.scope.rows
        if isinstance(self.frame, InBall):
            inside = Fraction(2**power)
            price = (
                part_of(self.guarantee, 1 / inside) if self.sure else self.scope.price(self.guarantee, inside)
            )
            return self.frame.sums(rows, price, inside)
        names = [f"sum of {column.name}" for column in self.columns]
        if self.sure:
            each = part_of(self.guarantee, Fraction(1, d))
            return tuple(
                shared([name], max(1, reach_of(column)[1]), rows, each, 1, split=False)
                for name, column in zip(names, self.columns, strict=True)
            )
        ratios = []  # how many times as far a row moves a sum that is replaced, in multiples of its quantum
        for column in self.columns:
            comes, spread = reach_of(column)
            quantum, steps = counting(comes, rows, split=True)
            ratios.append(Fraction(rows * -(-spread // quantum), steps))
        moved = sum((ratio**power for ratio in ratios), Fraction(0)) / d
        each = part_of(self.scope.price(self.guarantee, moved), Fraction(1, d))
        return tuple(
            shared([name], reach_of(column)[0], rows, each, ratio**power)
            for name, column, ratio in zip(names, self.columns, ratios, strict=True)
        )

    def unit_of(self, i: int) -> Fraction:
        """What one whole number of a sum is worth."""
        frame = self.frame
        return frame.step if isinstance(frame, InBall) else grid_of(self.columns[i])[0]

    def forecast(self) -> Forecast:
        rows: list[Row] = []
        least = 0.0
        for i, (column, one) in enumerate(zip(self.columns, self.terms, strict=True)):
            unit, within = float(self.unit_of(i)), one.within(0.95)
            largest = self.frame.radius if isinstance(self.frame, InBall) else reach_of(column)[0]
            least = max(least, within / largest)
            rows.append((f"sum of {column.name}", one.sd * unit, within * unit))
        notes = noise_note(self.scope.groups, self.scope.units, least, "group")
        return Forecast(
            "expected error of each sum", ("of each", "standard error", "95% within ±"), tuple(rows), notes
        )

    def prepare(self, data: Data) -> Integers:
        if isinstance(self.frame, InBall):
            totals = self.frame.totals(self.scope, data, products=False)
            return counted(self.terms, self.scope.groups, {group: s for group, (_, s, _) in totals.items()})
        source, condition = self.scope.open(data)
        by, d = self.scope.by_columns, len(self.columns)
        asked = [(), *((i,) for i in range(d))]
        found = add_up(source, self.columns, asked, self.scope.unit, by=by, condition=condition)
        grids = [grid_of(column) for column in self.columns]
        sums = {
            group: [low * count + step * code for code, (_, low, step) in zip(codes, grids, strict=True)]
            for group, (count, *codes) in self.scope.folded(found).items()
        }
        return counted(self.terms, self.scope.groups, sums)

    @property
    def published_rows(self) -> int:
        return self.scope.groups if self.scope.by else len(self.columns)

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(f"sum of {column.name}" for column in self.columns) if len(self.columns) > 1 else ()

    def publish(self, measured: Integers) -> Table:
        """Columns of groups, then the column and its sum."""
        import pyarrow as pa

        units = [self.unit_of(i) for i in range(len(self.columns))]
        noisy = values(self.terms, measured) * [float(unit) for unit in units]
        whole = all(unit.denominator == 1 for unit in units) and all(one.quantum == 1 for one in self.terms)
        sums = measured * [int(unit) for unit in units] if whole else noisy
        if self.ball is not None and self.ball.origin is not None:  # n is public
            sums = noisy + [float(at * (self.scope.n or 0)) for at in self.ball.origin]
        parts = [
            table_of(
                {
                    **self.scope.labels(),
                    "column": pa.array([column.name] * len(sums)),
                    "value": np.asarray(sums)[:, i],
                }
            )
            for i, column in enumerate(self.columns)
        ]
        return pa.concat_tables(parts)

    def intervals(self, table: Table, level: float) -> Ends:
        """For each sum the range that holds the true one with this probability."""
        names = [column.name for column in self.columns]
        reach = [one.within(level) * float(self.unit_of(i)) for i, one in enumerate(self.terms)]
        each = np.asarray([reach[names.index(name)] for name in table.column("column").to_pylist()])
        value = numbers_in(table, "value")
        return value - each, value + each

    def describe(self) -> dict[str, object]:
        return self.described("sum")

    def neighbours(self) -> Iterator[Pair]:
        """And, of several columns, each at the end that is further from 0."""
        yield from super().neighbours()
        if isinstance(self.frame, InBall) or self.scope.by or self.scope.where or self.scope.nobody:
            return
        far = [
            column.size - 1 if abs(low + step * (column.size - 1)) >= abs(low) else 0
            for column, (_, low, step) in zip(self.columns, map(grid_of, self.columns), strict=True)
        ]
        near = [column.size - 1 - code for column, code in zip(self.columns, far, strict=True)]
        one = one_unit(self.scope, self.columns, far, near)
        other = one_unit(self.scope, self.columns, near if self.scope.replaced else None, near)
        yield Pair(one, other, "one unit with every column as far from 0 as can be")


def sums_plan(
    columns: Sequence[Column], scope: Scope, promise: Promise, ball: Ball | None = None
) -> SumPlan | SumsPlan:
    """The sums of one or more number columns, over the rows that have them all."""
    if len(columns) == 1 and ball is None:
        return SumPlan(columns[0], scope, promise)
    return SumsPlan(tuple(columns), scope, promise, ball)


# How many rows there are.


@register
@dataclass(frozen=True)
class CountPlan(ScopedPlan):
    """How many rows meet the condition. (For each of several groups: a histogram.)

    Privacy
        At most k rows of a unit count, k = `unit.max_rows`. Adding, removing or replacing a unit changes the
        count by at most k: replaced rows change it only where one meets the condition and the other does not.
        Discrete Laplace noise of scale k/eps on integers is eps-DP [Ghosh, Roughgarden, Sundararajan 2009]; discrete
        Gaussian noise of variance k^2/(2 rho) is rho-zCDP [Canonne, Kamath, Steinke 2020].
        The number of all rows under replace is public: the answer is n itself, and costs nothing.

    >>> people.where("age >= 65").plan.count(eps="0.1").parts
    (Part(noise=DiscreteLaplace('10'), of='count', moves=Fraction(1, 1), costs=Pure('0.1'), case=''),)
    """

    scope: inline[Scope]
    guarantee: Promise
    kind = "statistics.count"
    light = True
    leaves_out = "covers the noise; not errors in the data, nor records left out"
    interval_in_files = True
    footnote = (
        "noise may take a count below 0; it is left there, so that sums of counts stay right on average"
    )

    def check(self) -> None:
        if self.scope.by:
            raise DomainError(
                "a count has no groups",
                given=", ".join(bins.column.name for bins in self.scope.by),
                needed="no groups",
                fix="a histogram",
            )

    @property
    def public(self) -> bool:
        """Whether the answer is n, which is public."""
        return self.scope.all_count([])

    @cached_property
    def term(self) -> Term:
        return term("count", 1, self.scope.rows, self.guarantee)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """A row counts or does not, also one that is replaced."""
        if self.public:
            return ()
        moves = Fraction(self.scope.rows)
        return (
            part(self.term.noise, "count", moves=moves if isinstance(self.guarantee, Pure) else moves**2),
        )

    def added(self) -> Additive | None:
        return None if self.public else noise_by_column([self.term.noise])

    def forecast(self) -> Forecast:
        if self.public:
            note = f"n = {self.scope.n:,} is public under replace: exact, and free"
            return Forecast(
                "expected error of the count", ("of each", "standard error"), (("count", 0),), (note,)
            )
        return Forecast.of(self.term.noise, each="count")

    def prepare(self, data: Data) -> Integers:
        source, condition = self.scope.open(data)
        if self.public:
            return np.full((1, 1), self.scope.n, np.int64)
        found = add_up(source, [], [()], self.scope.unit, condition=condition)
        return counted([self.term], 1, found)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        if self.public:
            return prepared if trials is None else np.broadcast_to(prepared, (trials, 1, 1)).copy()
        return measured([self.term], prepared, bits, trials)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        return pa.table({"value": measured[:, 0]})

    def intervals(self, table: Table, level: float) -> Ends:
        """The range that holds the true count with this probability; never below 0, nor above a public n."""
        low, high = self.raw_intervals(table, level)
        most = np.iinfo(np.int64).max if self.scope.n is None else self.scope.n * self.scope.rows
        return np.clip(low, 0, most), np.clip(high, 0, most)

    def raw_intervals(self, table: Table, level: float) -> tuple[Integers, Integers]:
        """The same about the noisy count, also where it is below 0."""
        value = table.column("value").to_numpy()
        low, high = (0, 0) if self.public else self.term.noise.interval(level)
        return value + low, value + high

    def describe(self) -> dict[str, object]:
        noise = {"law": "none: n is public"} if self.public else self.term.to_dict()
        return self.wording("count" + self.scope.words(), noise)


def count_plan(scope: Scope, promise: Promise) -> CountPlan:
    """A count at `promise`; free where the answer is public."""
    return CountPlan(scope, Pure(0) if scope.all_count([]) else promise)
