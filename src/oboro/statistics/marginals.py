"""Counts, sums and means of a batch that share their marginals: which noisy tables answer them all, and how well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Ends, Floats, Integers, Table, numbers_in
from oboro.domain import Column
from oboro.domain.columns import LARGEST
from oboro.engine import Source, add_up, count_units, open_data, stream_codes
from oboro.engine.protocol import Ordered
from oboro.errors import DataError, ParameterError, setting
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure
from oboro.release import Additive, Pair, Part, Plan, noise_by_column, part
from oboro.statistics.histogram import HistogramPlan
from oboro.statistics.means import MeanPlan
from oboro.statistics.reaches import reach_of_sum
from oboro.statistics.scope import MOST_GROUPS, Bins, Scope, columns_of
from oboro.statistics.subjects import (
    Axes,
    Exact,
    Frame,
    What,
    combined,
    subject_of,
    subsets,
    targets,
)
from oboro.statistics.sums import CountPlan, SumPlan, grid_of
from oboro.statistics.terms import Noise, Promise, Term, measured
from oboro.statistics.where import Condition, absent

if TYPE_CHECKING:
    from oboro.arrays import Data

MOST_AXES = 6
MOST_VALUES = 4
MOST_MARGINS = 64
_SMALLEST_SCALE = 1  # of Laplace noise: below it the variance is not near 2 b^2 - 1/6
_FAR = 2**62


@dataclass(frozen=True)
class Margin:
    """A noisy table over some axes of a strategy, for a price: rows, the sum of a value, or its distances to both bounds."""

    axes: Axes
    what: What
    price: Promise
    value: int | None = None  # which value column


@dataclass(frozen=True)
class Strategy:
    """Questions of a batch that are answered together, and the tables that are measured for them.

    The axes are the groups of the questions, each once, and one more slot for rows whose group is missing, where they are
    not left out by the condition or have a value declared. So every row that counts is in one cell of every table, and a table
    is the margin of any table with more axes.

    Privacy
        At most k = `unit.max_rows` rows of a unit count, chosen once for all tables; each is in one cell of each table.
        A row that comes or goes moves its cell: a count by 1; a sum by at most g = max(|low|, |high|); the
        distances c and M - c to both bounds, in steps, by M in all and by at most M in the 2-norm; a row without the value
        has a sum of 0, distances of 0, and M in a third column, which also counts M in all. One that
        is replaced within its cell: 0; max(r, g), r = high - low; 2M in all, sqrt 2 M in the 2-norm. One that moves to another
        cell: twice as far as one that comes, in squares as well. k rows: k times as far [group privacy]. So under add/remove a table moves by D = k reach; under
        replace by the worst of these three, whatever the other tables see: their costs are added up table by table, not case by case.
        Discrete Laplace noise of scale D/eps on whole numbers is eps-DP; discrete Gaussian noise of variance D2/(2 rho), D2 the
        square in the 2-norm, rho-zCDP. Noises are independent and tables fixed in advance, so costs add up in either.
        What each question gets is worked out from the noisy tables and public facts [post-processing].

    Accuracy
        Each cell has a vector of states z: rows, rows with a value, and its sum about the middle, over M. A table is u'z of its
        cells. Noise that is alike in all cells of a table is independent for each set A of axes, in what is left of
        the table over A after taking means along each axis: so least squares over all tables is one small system
        for each A, with the matrix sum of u u'/(v Pi n_i), i in T - A, over tables T with A in T, of variance v. A question q over
        Q has the variance sum over A in Q of Pi_{Q-A} n_i^-2 Pi_A (1 - 1/n_i) q' I_A^-1 q [as ResidualPlanner, Xiao et al. 2023].
        These are rationals. None may be larger than the variance of the question's own noise.
    """

    answers: tuple[int, ...]
    margins: tuple[Margin, ...]


# -- a strategy at work ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """A strategy with the questions that it answers: its noises, its variances, its answers."""

    strategy: Strategy
    plans: tuple[Plan, ...]  # those that it answers

    @cached_property
    def frame(self) -> Frame:
        found = [subject_of(plan) for plan in self.plans]
        if len(found) < 1 or any(one is None for one in found):
            raise _wrong("a question has tables of its own")
        subjects = tuple(one for one in found if one is not None)
        if len({(one.unit, one.where, type(one.price)) for one in subjects}) > 1:
            raise _wrong("the questions are about different rows")
        frame = Frame(subjects)
        if len(frame.axes) > MOST_AXES or len(frame.values) > MOST_VALUES:
            raise _wrong("there are too many groups or values")
        return frame

    def check(self) -> None:
        """Refuses tables that do not answer every question at least as well as its own noise would."""
        frame, margins = self.frame, self.strategy.margins
        if not 1 <= len(margins) <= MOST_MARGINS:
            raise _wrong(f"there are {len(margins)} tables")
        kind = type(frame.subjects[0].price)
        for one in margins:
            known = list(one.axes) == sorted(set(one.axes)) and all(
                0 <= i < len(frame.axes) for i in one.axes
            )
            valued = one.value is None if one.what == "count" else one.value in range(len(frame.values))
            if not known or not valued or type(one.price) is not kind or frame.cells(one.axes) > MOST_GROUPS:
                raise _wrong("a table is not of the questions' groups and values")
        loss = self.loosest
        for subject in frame.subjects:
            for direction, alone in targets(frame, subject):
                found = self.variance(frame.axes_of(subject), direction)
                if found is None or found * loss > alone:
                    raise _wrong("a question would have a larger error than alone")

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        return tuple(
            self.frame.noise(one.axes, one.what, one.value, one.price) for one in self.strategy.margins
        )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """One for each table: what moves it most, whatever moves the others."""
        return tuple(
            part(
                noise,
                f"shared {self._name(one)}",
                moves=self.frame.moves(one.axes, one.what, one.value, isinstance(one.price, Pure)),
            )
            for one, noise in zip(self.strategy.margins, self.noises, strict=True)
        )

    def _name(self, one: Margin) -> str:
        by = " and ".join(self.frame.axes[i].name for i in one.axes)
        of = "count" if one.value is None else f"{one.what} of {self.frame.values[one.value].name}"
        return of + (f" by {by}" if by else "")

    def words(self) -> list[dict[str, object]]:
        """For the certificate."""
        return [
            {"of": f"shared {self._name(one)}", **noise.to_dict(), "share": str(one.price)}
            for one, noise in zip(self.strategy.margins, self.noises, strict=True)
        ]

    def columns(self, one: Margin) -> int:
        return len(self.frame.directions(one.what, one.value))

    def added(self) -> list[Additive]:
        return [
            noise_by_column([noise] * self.columns(one))
            for one, noise in zip(self.strategy.margins, self.noises, strict=True)
        ]

    def neighbours(self, n: int | None) -> Iterator[Pair]:
        """One unit that moves in every axis, and every value, at once."""
        frame = self.frame
        axes = tuple(map(Bins, columns_of(frame.axes)))
        yield from Scope(frame.unit, frame.where, axes, n).pairs(frame.values)

    # from data to noisy tables

    def prepare(self, data: Data) -> list[Integers]:
        """Each table: cells in mixed-radix order, and their columns."""
        frame, margins = self.frame, self.strategy.margins
        source = open_data(data)
        n = next((one.n for one in frame.subjects if one.n is not None), None)
        if n is not None and (found := count_units(source, frame.unit)) != n:
            raise DataError(
                "the data has another number of units than the plan, and under replace that number is public",
                given=f"{found:,} units",
                needed=f"{n:,}",
                fix="a plan with " + setting(n=found),
            )
        columns = list(dict.fromkeys((*(bins.column for bins in frame.axes), *frame.values)))
        tables = [np.zeros((frame.cells(one.axes), self.columns(one)), np.int64) for one in margins]
        grouped = prod(bins.column.size for bins in frame.axes) <= LARGEST and frame.unit.kind == "row"
        if grouped and not isinstance(source, Ordered):  # a cluster adds up where the rows are
            for codes, sums in self._added_up(source, columns):
                self._add(tables, codes, columns, sums)
            return tables
        for codes in stream_codes(source, columns, frame.unit, frame.where, keep=True):
            self._add(tables, codes, columns)
        return tables

    def _added_up(self, source: Source, columns: list[Column]) -> Iterator[tuple[Integers, list[Integers]]]:
        """For each set of columns that rows may lack: a row of codes for each cell, how many there are, and sums of values."""
        frame = self.frame
        for lacked in subsets(tuple(i for i, column in enumerate(columns) if not frame.there(column))):
            missing = [columns[i] for i in lacked]
            by = [one for one in columns_of(frame.axes) if one not in missing]
            values = [one for one in frame.values if one not in missing]
            condition = frame.where
            for column in missing:
                test = Condition(absent(column))
                condition = test if condition is None else condition.and_also(test)
            terms = [(), *((i,) for i in range(len(values)))]
            found = add_up(source, values, terms, frame.unit, by=by, condition=condition)
            cells = np.fromiter(found, np.int64, len(found))
            codes = np.zeros((len(found), len(columns)), np.int64)
            for column in reversed(by):
                cells, codes[:, columns.index(column)] = np.divmod(cells, column.size)
            codes[:, list(lacked)] = [column.size for column in missing]
            count, *sums = (
                np.fromiter((row[k] for row in found.values()), np.int64, len(found))
                for k in range(len(terms))
            )
            nothing = np.zeros(len(found), np.int64)
            each = [sums[values.index(one)] if one in values else nothing for one in frame.values]
            yield codes, [count, *each]

    def _add(
        self,
        tables: list[Integers],
        codes: Integers,
        columns: list[Column],
        sums: list[Integers] | None = None,
    ) -> None:
        """Adds rows to the tables. `sums`: a row of codes stands for so many rows, with these sums of each value."""
        frame = self.frame
        many = np.ones(len(codes), np.int64) if sums is None else sums[0]
        slots = []
        for bins in frame.axes:
            own = codes[:, columns.index(bins.column)]
            inside = own < bins.column.size
            slots.append(np.where(inside, bins.fold(np.where(inside, own, 0)), bins.size))
        for table, one in zip(tables, self.strategy.margins, strict=True):
            cell = np.zeros(len(codes), np.int64)
            for i in one.axes:
                cell = cell * frame.sizes[i] + slots[i]
            size = len(table)
            if one.value is None:
                table[:, 0] += _tally(cell, many, size)
                continue
            column = frame.values[one.value]
            code = codes[:, columns.index(column)]
            has = code < column.size
            if table.shape[1] == 3:
                table[:, 2] += (column.size - 1) * _tally(cell[~has], many[~has], size)
            total = code if sums is None else sums[1 + one.value]
            rows, above = (_tally(cell[has], each[has], size) for each in (many, total))
            if one.what == "distances":
                table[:, 0] += above
                table[:, 1] += (column.size - 1) * rows - above
            else:
                _, lowest, step = grid_of(column)
                table[:, 0] += lowest * rows + step * above

    def measure(self, prepared: Sequence[Integers], bits: Bits, trials: int | None) -> list[Integers]:
        return [
            measured([Term("", noise, 1)] * self.columns(one), table, bits, trials)
            for one, noise, table in zip(self.strategy.margins, self.noises, prepared, strict=True)
        ]

    # least squares

    @cached_property
    def model(self) -> tuple[Fraction, ...]:
        """The variance of each table's noise, over the square of its reach."""
        return tuple(
            _variance(noise) / self.frame.reach(one.what, one.value) ** 2
            for one, noise in zip(self.strategy.margins, self.noises, strict=True)
        )

    @cached_property
    def loosest(self) -> Fraction:
        """How many times as large a variance may really be, at most."""
        return max(_most_variance(noise) / _variance(noise) for noise in self.noises)

    @cached_property
    def _solved(self) -> dict[tuple[Axes, Exact], Exact | None]:
        return {}

    def solved(self, axes: Axes, direction: Exact) -> Exact | None:
        """x with I_A x = q, in rationals; None where no table tells."""
        key = (axes, direction)
        if key not in self._solved:
            size = self.frame.states
            matrix = [[Fraction(0)] * size for _ in range(size)]
            for one, variance in zip(self.strategy.margins, self.model, strict=True):
                if not set(axes) <= set(one.axes):
                    continue
                weight = 1 / (variance * self._spread(one.axes, axes))
                for u in self.frame.directions(one.what, one.value):
                    for i in range(size):
                        for j in range(size):
                            if u[i] and u[j]:
                                matrix[i][j] += weight * u[i] * u[j]
            self._solved[key] = _solve(matrix, direction)
        return self._solved[key]

    def _spread(self, whole: Axes, kept: Axes) -> int:
        return prod(self.frame.sizes[i] for i in whole if i not in kept)

    def variance(self, axes: Axes, direction: Exact) -> Fraction | None:
        """Of a cell over these axes; None where no table tells."""
        total = Fraction(0)
        for kept in subsets(axes):
            x = self.solved(kept, direction)
            if x is None:
                return None
            left = prod((1 - Fraction(1, self.frame.sizes[i]) for i in kept), start=Fraction(1))
            total += left * _dot(direction, x) / self._spread(axes, kept) ** 2
        return total

    def estimates(self, noisy: Sequence[Integers]) -> list[Integers]:
        """What each question would have measured itself: whole numbers, the nearest to least squares."""
        return [self._estimate(place, noisy) for place in range(len(self.plans))]

    def _estimate(self, place: int, noisy: Sequence[Integers]) -> Integers:
        frame, subject = self.frame, self.frame.subjects[place]
        axes, reach = frame.axes_of(subject), frame.reach(subject.what, frame.value_of(subject))
        wanted = frame.directions(subject.what, frame.value_of(subject))[:2]  # not the rows without a value
        found = [self._least_squares(noisy, axes, direction) for direction in wanted]
        order = [axes.index(frame.axes.index(bins)) for bins in subject.by]
        whole = np.stack([np.transpose(one, order).copy() for one in found], axis=-1) * reach
        kept = whole[tuple(slice(0, bins.size) for bins in subject.by)].reshape(-1, len(found))
        counts: Integers = np.clip(np.rint(kept), -_FAR, _FAR).astype(np.int64)
        return counts[:, 0] if isinstance(self.plans[place], HistogramPlan) else counts

    def _least_squares(self, noisy: Sequence[Integers], axes: Axes, direction: Exact) -> Floats:
        total = np.zeros([self.frame.sizes[i] for i in axes])
        for kept in subsets(axes):
            x = self.solved(kept, direction)
            assert x is not None
            some: Floats = np.zeros([self.frame.sizes[i] for i in kept])
            for one, table, variance in zip(self.strategy.margins, noisy, self.model, strict=True):
                if not set(kept) <= set(one.axes):
                    continue
                weight = 1 / (variance * self._spread(one.axes, kept) * self._spread(axes, kept))
                reach = self.frame.reach(one.what, one.value)
                for column, u in enumerate(self.frame.directions(one.what, one.value)):
                    if share := float(weight * _dot(u, x) / reach):
                        some = some + share * self._left(one, table[:, column], kept)
            shape = [self.frame.sizes[i] if i in kept else 1 for i in axes]
            total += some.reshape(shape)
        return total

    def _left(self, one: Margin, table: Integers, kept: Axes) -> Floats:
        """A table over the axes that are kept, less its means along each of them."""
        whole: Floats = table.astype(float).reshape([self.frame.sizes[i] for i in one.axes])
        some: Floats = np.asarray(whole.sum(axis=tuple(k for k, i in enumerate(one.axes) if i not in kept)))
        for k in range(len(kept)):
            some = some - some.mean(axis=k, keepdims=True)
        return some

    # intervals

    def weights(self, axes: Axes, direction: Exact) -> tuple[Floats, Floats, Floats]:
        """The noise of an estimate is a sum of independent noises: the weight of each, how many are alike, and its scale.

        A cell of a table counts by which of the axes it has in common with the cell that is asked about, and agrees in.
        """
        weights, alike, scales = [], [], []
        for one, noise, variance in zip(self.strategy.margins, self.noises, self.model, strict=True):
            common = tuple(i for i in axes if i in one.axes)
            reach = self.frame.reach(one.what, one.value)
            by_set = {}
            for kept in subsets(common):
                x = self.solved(kept, direction)
                assert x is not None
                weight = 1 / (variance * self._spread(one.axes, kept) * self._spread(axes, kept) * reach)
                by_set[kept] = [
                    float(weight * _dot(u, x)) for u in self.frame.directions(one.what, one.value)
                ]
            for same in product((True, False), repeat=len(common)):
                inverse = {i: 1 / self.frame.sizes[i] for i in common}
                part_of = {i: float(agrees) - inverse[i] for i, agrees in zip(common, same, strict=True)}
                many = prod(
                    1 if agrees else self.frame.sizes[i] - 1 for i, agrees in zip(common, same, strict=True)
                )
                for column in range(self.columns(one)):
                    weights.append(
                        sum(found[column] * prod(part_of[i] for i in kept) for kept, found in by_set.items())
                    )
                    alike.append(many * self._spread(one.axes, common))
                    scales.append(_scale(noise))
        return np.asarray(weights), np.asarray(alike, float), np.asarray(scales)

    @property
    def pure(self) -> bool:
        return isinstance(self.noises[0], DiscreteLaplace)

    def within(self, place: int, level: float) -> float:
        """How far the noise of a count or a sum goes with this probability, in its own whole numbers; without rounding."""
        subject = self.frame.subjects[place]
        value = self.frame.value_of(subject)
        (direction,) = self.frame.directions(subject.what, value)
        weights = self.weights(self.frame.axes_of(subject), direction)
        return self.frame.reach(subject.what, value) * reach_of_sum(*weights, level, self.pure)

    def mean_within(self, place: int, at: Floats, level: float) -> Floats:
        """How far the noise of (sum - m count) goes, in steps of half a code: m lies `at` from -1 to 1 across the bounds."""
        nodes = self._mean_nodes(place, level)
        return np.asarray(np.interp(at, np.linspace(-1, 1, len(nodes)), nodes))

    @cached_property
    def _known_nodes(self) -> dict[tuple[int, float], Floats]:
        return {}

    def _mean_nodes(self, place: int, level: float) -> Floats:
        if (place, level) not in self._known_nodes:
            subject, frame = self.frame.subjects[place], self.frame
            value = frame.value_of(subject)
            assert value is not None
            axes = frame.axes_of(subject)
            of_sum, alike, scales = self.weights(axes, frame.moment(value))
            of_count = self.weights(axes, frame.rows_with(value))[0]
            ends = [of_sum - at * of_count for at in np.linspace(-1, 1, _NODES)]
            # between two places no weight is larger than at the worse of both, and then the sum goes no further [Anderson 1955]
            between = [
                reach_of_sum(np.maximum(np.abs(a), np.abs(b)), alike, scales, level, self.pure)
                for a, b in pairwise(ends)
            ]
            nodes = np.maximum([between[0], *between], [*between, between[-1]])
            self._known_nodes[place, level] = nodes * frame.reach(subject.what, value)
        return self._known_nodes[place, level]

    def deviation(self, place: int, *, at: float | None = None) -> float:
        """The standard deviation of a count or sum, or of (sum - m count) of a mean, as above."""
        frame, subject = self.frame, self.frame.subjects[place]
        value = frame.value_of(subject)
        if at is None:
            (direction,) = frame.directions(subject.what, value)
        else:
            assert value is not None
            direction = combined(Fraction(1), frame.moment(value), -Fraction(at), frame.rows_with(value))
        variance = self.variance(frame.axes_of(subject), direction)
        assert variance is not None
        return math.sqrt(variance) * frame.reach(subject.what, value)

    def intervals(self, place: int, table: Table, level: float) -> Ends:
        """As the question's own, with the noise of the estimate."""
        plan = self.plans[place]
        if isinstance(plan, MeanPlan):
            frame, column = plan.frame, plan.columns[0]
            unit, span = frame.unit(0), column.size - 1
            half, middle = unit * span, frame.centre(0)

            def noise(i: int, m: Floats, level: float) -> Floats:
                rounding = unit + np.abs(m - middle) / span  # both distances are rounded
                return self.mean_within(place, (m - middle) / half, level) * unit + rounding

            return plan.ends_by(table, level, noise)
        within = self.within(place, level) + 0.5
        if isinstance(plan, SumPlan):
            value: Floats = np.asarray(numbers_in(table, "value"), float)
            reach = within * float(plan.grid[0])
            return value - reach, value + reach
        most = _FAR
        if isinstance(plan, CountPlan) and plan.scope.n is not None:
            most = plan.scope.n * plan.scope.rows
        low, high = self.raw_intervals(place, table, level)
        return np.clip(low, 0, most), np.clip(high, 0, most)

    def raw_intervals(self, place: int, table: Table, level: float) -> tuple[Integers, Integers]:
        """Of a count or a histogram: about the noisy counts, also where they are below 0."""
        within = self.within(place, level) + 0.5
        counts = table.column(table.num_columns - 1).to_numpy()
        low, high = np.ceil(counts - within), np.floor(counts + within)
        return low.astype(np.int64), high.astype(np.int64)

    def forecast(self, place: int) -> list[tuple[str, float]]:
        """As the question's own forecast: of what, and how far 95% of the noise goes."""
        plan, frame = self.plans[place], self.frame.subjects[place]
        by_itself = plan.forecast().rows
        if isinstance(plan, MeanPlan):
            size, unit = plan.scope.size or 1, plan.frame.unit(0)
            reach = self.mean_within(place, np.asarray([0.0, 1.0]), 0.95) * unit / size
            return [(str(row[0]), float(end)) for row, end in zip(by_itself, reach, strict=True)]
        worth = float(plan.grid[0]) if isinstance(plan, SumPlan) else 1.0
        within = self.within(place, 0.95)
        within = math.floor(within + 0.5) if frame.what == "count" else within * worth
        return [(str(row[0]), float(within)) for row in by_itself]

    @cached_property
    def gain(self) -> float:
        """How many times smaller the standard deviations are than alone, in the geometric mean over the questions."""
        logs = []
        for subject in self.frame.subjects:
            each = []
            for direction, alone in targets(self.frame, subject):
                found = self.variance(self.frame.axes_of(subject), direction)
                assert found is not None
                each.append(math.log(alone / found) / 2)
            logs.append(sum(each) / len(each))
        return math.exp(sum(logs) / len(logs))

    def in_words(self) -> str:
        """What sharing gains, for forecasts."""
        return (
            f"shared noisy tables: {len(self.strategy.margins)}; the standard errors of {len(self.plans)} questions are "
            f"{self.gain:.2f} times smaller than alone, in the geometric mean"
        )

    def figure_within(self, place: int, field: str, level: float) -> float:
        """How far the noisy sum, or the noisy count, of a mean goes."""
        plan, frame, subject = self.plans[place], self.frame, self.frame.subjects[place]
        assert isinstance(plan, MeanPlan)
        value = frame.value_of(subject)
        assert value is not None
        axes, span, unit = frame.axes_of(subject), plan.columns[0].size - 1, plan.frame.unit(0)
        of_count, alike, scales = self.weights(axes, frame.rows_with(value))
        if field == "count":
            return reach_of_sum(of_count, alike, scales, level, self.pure) + 1 / span
        of_sum = self.weights(axes, frame.moment(value))[0]
        both = of_sum * unit * span + of_count * plan.frame.centre(0)
        return reach_of_sum(both, alike, scales, level, self.pure) + unit + abs(plan.frame.centre(0)) / span


_NODES = 17


def _tally(cell: Integers, numbers: Integers, size: int) -> Integers:
    """Sums for each cell. Those of a chunk are whole numbers below 2^53, which doubles add up exactly; larger ones come alone."""
    if numbers.size and int(numbers.max()) * numbers.size >= 2**53:
        found = np.zeros(size, np.int64)
        np.add.at(found, cell, numbers)
        return found
    return np.bincount(cell, weights=numbers, minlength=size).astype(np.int64)


def _variance(noise: Noise) -> Fraction:
    """Of Laplace noise 2 b^2 - 1/6 + 1/(120 b^2) - ...: the first two terms; 2 b^2 where b is small, which is more."""
    if isinstance(noise, DiscreteLaplace):
        return 2 * noise.scale**2 - (Fraction(1, 6) if noise.scale >= _SMALLEST_SCALE else 0)
    return noise.sigma2


def _most_variance(noise: Noise) -> Fraction:
    if isinstance(noise, DiscreteLaplace) and noise.scale >= _SMALLEST_SCALE:
        return _variance(noise) + 1 / (120 * noise.scale**2)
    return _variance(noise)


def _scale(noise: Noise) -> float:
    return float(noise.scale) if isinstance(noise, DiscreteLaplace) else math.sqrt(noise.sigma2)


def _dot(one: Exact, other: Exact) -> Fraction:
    return sum((x * y for x, y in zip(one, other, strict=True) if x and y), Fraction(0))


def _solve(matrix: list[list[Fraction]], right: Exact) -> Exact | None:
    """One solution of a symmetric system in rationals; None if there is none."""
    size = len(right)
    rows = [[*matrix[i], right[i]] for i in range(size)]
    pivots: list[int] = []
    for column in range(size):
        at = len(pivots)
        found = next((i for i in range(at, size) if rows[i][column]), None)
        if found is None:
            continue
        rows[at], rows[found] = rows[found], rows[at]
        lead = rows[at][column]
        rows[at] = [number / lead for number in rows[at]]
        for i in range(size):
            if i != at and (times := rows[i][column]):
                rows[i] = [a - times * b for a, b in zip(rows[i], rows[at], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    x = [Fraction(0)] * size
    for row, column in zip(rows, pivots, strict=False):
        x[column] = row[-1]
    return tuple(x)


def _wrong(why: str) -> ParameterError:
    return ParameterError(
        "the tables of the batch do not answer its questions",
        given=why,
        needed="a strategy as the planner makes it",
        fix="with session.batch(eps=1) as batch:",
    )
