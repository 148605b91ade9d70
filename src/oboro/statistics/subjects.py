"""What the questions of a batch are about: counts, sums and distances of cells, and the frame of all cells that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Literal

from oboro.domain import Column
from oboro.exact import positive
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Pure, Unit
from oboro.release import Plan
from oboro.statistics.histogram import HistogramPlan
from oboro.statistics.means import MeanPlan
from oboro.statistics.scope import MOST_GROUPS, Bins
from oboro.statistics.sums import CountPlan, SumPlan, grid_of, reach_of
from oboro.statistics.terms import LARGEST_REACH, Noise, Promise
from oboro.statistics.where import Condition

if TYPE_CHECKING:
    pass

What = Literal["count", "sum", "distances"]
Axes = tuple[int, ...]
Exact = tuple[Fraction, ...]


@dataclass(frozen=True)
class Subject:
    """What a question needs of a cell."""

    by: tuple[Bins, ...]
    what: What
    column: Column | None
    unit: Unit
    where: Condition | None
    n: int | None
    price: Promise


def subject_of(plan: Plan) -> Subject | None:
    """What a question is about, if it may share its tables: counts, histograms, sums and means within bounds, of few groups."""
    found = _subject(plan)
    if found is None or prod(bins.size + 1 for bins in found.by) > MOST_GROUPS:
        return None
    if found.column is None:
        return found
    reach = max(reach_of(found.column)[0], found.column.size - 1)
    fine = found.column.size >= 2 and reach * found.unit.contributions <= LARGEST_REACH
    return found if fine else None


def _subject(plan: Plan) -> Subject | None:
    if isinstance(plan, HistogramPlan):
        return Subject(plan.bins, "count", None, plan.unit, plan.where, None, plan.guarantee)
    if isinstance(plan, CountPlan) and not plan.public:
        return Subject((), "count", None, plan.unit, plan.scope.where, plan.scope.n, plan.guarantee)
    if isinstance(plan, SumPlan) and not plan.scope.all_count([plan.column]):
        scope = plan.scope
        return Subject(scope.by, "sum", plan.column, plan.unit, scope.where, scope.n, plan.guarantee)
    if isinstance(plan, MeanPlan) and plan.form == "two-sided":
        scope = plan.scope
        return Subject(
            scope.by, "distances", plan.columns[0], plan.unit, scope.where, scope.n, plan.guarantee
        )
    return None


@dataclass(frozen=True)
class Frame:
    """Axes, values and states that the questions of a strategy share."""

    subjects: tuple[Subject, ...]

    @property
    def unit(self) -> Unit:
        return self.subjects[0].unit

    @property
    def where(self) -> Condition | None:
        return self.subjects[0].where

    @cached_property
    def axes(self) -> tuple[Bins, ...]:
        return tuple(dict.fromkeys(bins for one in self.subjects for bins in one.by))

    @cached_property
    def values(self) -> tuple[Column, ...]:
        return tuple(dict.fromkeys(one.column for one in self.subjects if one.column is not None))

    def there(self, column: Column) -> bool:
        """Whether every row that counts has a value in this column."""
        needed = () if self.where is None else self.where.needed
        return column.missing_code is not None or column in needed

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(bins.size + (0 if self.there(bins.column) else 1) for bins in self.axes)

    def cells(self, axes: Axes) -> int:
        return prod(self.sizes[i] for i in axes)

    def axes_of(self, one: Subject) -> Axes:
        return tuple(sorted(self.axes.index(bins) for bins in one.by))

    def value_of(self, one: Subject) -> int | None:
        return None if one.column is None else self.values.index(one.column)

    # states: rows; of each value its rows, where they may be others; of each value its sum about the middle, over M

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        places, after = [], 1
        for column in self.values:
            places.append(0 if self.there(column) else after)
            after += 0 if self.there(column) else 1
        return tuple(places)

    @cached_property
    def states(self) -> int:
        return 1 + sum(place > 0 for place in self._counts) + len(self.values)

    def unit_vector(self, place: int, size: Fraction | int = 1) -> Exact:
        return tuple(Fraction(size if i == place else 0) for i in range(self.states))

    def rows_with(self, value: int | None) -> Exact:
        return self.unit_vector(0 if value is None else self._counts[value])

    def moment(self, value: int) -> Exact:
        return self.unit_vector(self.states - len(self.values) + value)

    def directions(self, what: What, value: int | None) -> tuple[Exact, ...]:
        """The columns of a table, as combinations of states, over the reach of a row."""
        if what == "count" or value is None:
            return (self.rows_with(None),)
        count, moment = self.rows_with(value), self.moment(value)
        if what == "distances":
            half = Fraction(1, 2)
            both = combined(half, count, half, moment), combined(half, count, -half, moment)
            lacking = combined(Fraction(1), self.rows_with(None), Fraction(-1), count)
            return both if self.there(self.values[value]) else (*both, lacking)
        column = self.values[value]
        _, lowest, step = grid_of(column)
        reach, middle = reach_of(column)[0], Fraction(step * (column.size - 1), 2)
        return (combined((lowest + middle) / reach, count, middle / reach, moment),)

    def reach(self, what: What, value: int | None) -> int:
        """How far a row moves a table that comes or goes, in all."""
        if what == "count" or value is None:
            return 1
        column = self.values[value]
        return column.size - 1 if what == "distances" else reach_of(column)[0]

    def moves(self, axes: Axes, what: What, value: int | None, pure: bool) -> Fraction:
        """How far a unit moves a table in the worst case: in all for Laplace noise, in squares for Gaussian."""
        power = 1 if pure else 2
        reach = self.reach(what, value)
        times = Fraction(1)
        if self.unit.adjacency == "replace":
            inside = Fraction(0)
            if what == "distances":
                inside = Fraction(2)
            elif what == "sum" and value is not None:
                inside = Fraction(reach_of(self.values[value])[1], reach) ** power
            times = max(times, inside, Fraction(2 if axes else 1))
        return times * Fraction(self.unit.contributions * reach) ** power

    def noise(self, axes: Axes, what: What, value: int | None, price: Promise) -> Noise:
        moves = self.moves(axes, what, value, isinstance(price, Pure))
        return _noise(moves, price)


def _noise(moves: Fraction, price: Promise) -> Noise:
    if isinstance(price, Pure):
        return DiscreteLaplace(moves / positive("eps", price.eps))
    return DiscreteGaussian(moves / (2 * positive("rho", price.rho)))


def combined(a: Fraction, one: Exact, b: Fraction, other: Exact) -> Exact:
    return tuple(a * x + b * y for x, y in zip(one, other, strict=True))


def clusters(plans: Sequence[Plan]) -> list[tuple[int, ...]]:
    """The questions about the same rows that may share tables, two or more at a time."""
    found: dict[object, list[int]] = {}
    for place, plan in enumerate(plans):
        subject = subject_of(plan)
        if subject is not None and plan.guarantee != Pure(0):
            kind = type(subject.price)
            found.setdefault((subject.unit, str(subject.where), subject.where, kind), []).append(place)
    return [tuple(places) for places in found.values() if len(places) > 1]


def subsets(axes: Axes) -> Iterator[Axes]:
    for size in range(len(axes) + 1):
        yield from combinations(axes, size)


def targets(frame: Frame, subject: Subject) -> list[tuple[Exact, Fraction]]:
    """What of a question may not be worse than alone: each direction, and the least that its variance can be alone."""
    axes, value = frame.axes_of(subject), frame.value_of(subject)
    noise = frame.noise(axes, subject.what, value, subject.price)
    least = _least_variance(noise) / frame.reach(subject.what, value) ** 2
    if subject.what != "distances":
        (direction,) = frame.directions(subject.what, value)
        return [(direction, least)]
    assert value is not None
    return [(frame.moment(value), 2 * least), (frame.rows_with(value), 2 * least)]


def _least_variance(noise: Noise) -> Fraction:
    if isinstance(noise, DiscreteLaplace):
        return 2 * noise.scale**2 - Fraction(1, 6)
    return noise.sigma2 * (1 - Fraction(1, 10**6)) if noise.sigma2 >= 1 else Fraction(0)
