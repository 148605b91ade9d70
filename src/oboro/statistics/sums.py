"""Sums of a column, for each of several groups: the subset sums of the slides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd

import numpy as np

from oboro.arrays import Data, Ends, Integers, Table, table_of
from oboro.domain import Column, Date, Domain, Integer, Real
from oboro.engine import add_up
from oboro.errors import DomainError, question
from oboro.noise import Bits
from oboro.privacy import ZCDP, Pure, Unit
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, Plan, noise_by_column, part, register
from oboro.statistics.scope import Scope
from oboro.statistics.terms import Promise, Term, counted, measured, moved_parts, noise_note, term, values


@register
@dataclass(frozen=True)
class SumPlan(Plan):
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
    leaves_out = "covers the noise; not errors in the data, nor records left out or clamped"
    interval_in_files = True

    def check(self) -> None:
        self.scope.check_groups()
        ends(self.column)

    @property
    def unit(self) -> Unit:
        return self.scope.unit

    @cached_property
    def grid(self) -> tuple[Fraction, int, int]:
        """(unit, lowest, step): values are unit * (lowest + step * code), all whole numbers but the unit."""
        low, step = ends(self.column)
        unit = Fraction(gcd(low.numerator * step.denominator, step.numerator * low.denominator))
        unit /= low.denominator * step.denominator
        return unit, int(low / unit), int(step / unit)

    @property
    def reach(self) -> tuple[int, int]:
        """How far a row moves the sum that comes or goes, and one that is replaced."""
        _, lowest, step = self.grid
        highest = lowest + step * (self.column.size - 1)
        return max(abs(lowest), abs(highest), 1), highest - lowest

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
        _, lowest, step = self.grid
        largest = max(abs(lowest), abs(lowest + step * (self.column.size - 1)), 1)
        notes = noise_note(self.scope.groups, self.scope.units, self.term.within(0.95) / largest, "group")
        return Forecast.of(
            self.term.noise, each="sum", step=float(self.grid[0]) * self.term.quantum, notes=notes
        )

    def prepare(self, data: Data) -> Integers:
        source, condition = self.scope.open(data)
        by = [bins.column for bins in self.scope.by]
        found = add_up(source, [self.column], [(), (0,)], self.scope.unit, by=by, condition=condition)
        _, lowest, step = self.grid
        sums = {group: [lowest * count + step * codes] for group, (count, codes) in found.items()}
        return counted([self.term], self.scope.groups, sums)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured([self.term], prepared, bits, trials)

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
        return {
            "released": f"sum of {self.column.name}{self.scope.words()}",
            "noise": self.term.to_dict(),
            "domain": Domain(self.scope.columns([self.column])).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        yield from self.scope.pairs([self.column])


def sum_plan(column: Column, scope: Scope, promise: Promise) -> SumPlan:
    """The sum of a number column."""
    return SumPlan(column, scope, promise)


def ends(column: Column) -> tuple[Fraction, Fraction]:
    """The lowest value and the step of a number column; refuses a column of another kind."""
    if isinstance(column, Integer | Real):
        return Fraction(column.low), Fraction(column.step)
    raise DomainError(
        f"column {column.name!r} has no numbers to add up",
        given=f"a column of kind {column.kind!r}",
        needed="an Integer or Real column",
        fix=question("median" if isinstance(column, Date) else "histogram", column.name),
        argument="column",
    )


# How many rows there are.


@register
@dataclass(frozen=True)
class CountPlan(Plan):
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
    def unit(self) -> Unit:
        return self.scope.unit

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
        value = table.column("value").to_numpy()
        low, high = (0, 0) if self.public else self.term.noise.interval(level)
        most = np.iinfo(np.int64).max if self.scope.n is None else self.scope.n * self.scope.rows
        return np.clip(value + low, 0, most), np.clip(value + high, 0, most)

    def describe(self) -> dict[str, object]:
        noise = {"law": "none: n is public"} if self.public else self.term.to_dict()
        columns = [column.to_dict() for column in self.scope.columns([])]
        return {
            "released": "count" + self.scope.words(),
            "noise": noise,
            **({"domain": {"columns": columns}} if columns else {}),
        }

    def neighbours(self) -> Iterator[Pair]:
        """One unit with all its rows, against nobody; under replace, against rows that do not count."""
        yield from self.scope.pairs([])


def count_plan(scope: Scope, promise: Promise) -> CountPlan:
    """A count at `promise`; free where the answer is public."""
    return CountPlan(scope, Pure(0) if scope.all_count([]) else promise)
