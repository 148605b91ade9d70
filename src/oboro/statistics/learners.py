"""Learning a conjunction: which attributes every positive row has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Data, Integers, Table
from oboro.domain import Column
from oboro.errors import DomainError, ParameterError, declaration, setting, told
from oboro.exact import Number, positive, show, whole
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, part, register, same_noise
from oboro.statistics.points import REACH, check_columns, check_different, counted_codes, one_unit, scaled
from oboro.statistics.scope import Scope, ScopedPlan


@register
@dataclass(frozen=True)
class ConjunctionPlan(ScopedPlan):
    """The literals (an attribute with one of its two values) that hardly any positive row goes against.

    Privacy
        Counted are the positive rows, and of these, for each of d attributes, those that have its second value. A row
        adds at most 1 to each of the d + 1 counts, and replacing it changes each by at most 1. With m rows to a unit
        the L1 sensitivity is m (d+1). Discrete Laplace noise of scale m (d+1)/eps is eps-DP [Ghosh,
        Roughgarden, Sundararajan 2009]. Which literals are kept follows from the noisy counts. This is the statistical
        query learner of Kearns (1993), its queries asked together.
    """

    attributes: tuple[Column, ...]
    label: Column
    failure: Fraction
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.conjunction"

    def check(self) -> None:
        self.scope.check_whole("a conjunction has")
        check_two_values((*self.attributes, self.label))
        check_different((*self.attributes, self.label))
        if not self.attributes:
            raise DomainError("a conjunction needs attributes", given="none", fix='["smokes", "drinks"]')
        if not 0 < self.failure < 1:
            raise ParameterError(
                "failure must lie between 0 and 1",
                given=told(failure=show(self.failure)),
                fix=setting(failure="0.01"),
            )

    @property
    def sensitivity(self) -> int:
        return self.scope.rows * (len(self.attributes) + 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.sensitivity) / self.guarantee.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (part(self.noise, "positive rows, all and by attribute", moves=self.sensitivity),)

    def added(self) -> Additive:
        return same_noise(self.noise)

    @cached_property
    def threshold(self) -> int:
        """More than the noise of a count, or of a difference of two, reaches for any literal but for `failure`."""
        each = float(self.failure) / (4 * len(self.attributes))
        return 2 * self.noise.interval(1 - each)[1]

    def forecast(self) -> Forecast:
        notes = [
            f"a literal that {2 * self.threshold:,} positive rows or more go against is left out for sure"
        ]
        if self.scope.size is not None and 2 * self.threshold > self.scope.size:
            notes.append("the noise will drown the answer: more eps, or fewer attributes")
        return Forecast.of(self.noise, each="count", notes=notes)

    def prepare(self, data: Data) -> Integers:
        codes = counted_codes(self.scope, (*self.attributes, self.label), data)
        held = codes[codes[:, -1] == 1]
        return np.append(held[:, :-1].sum(axis=0), len(held)).astype(np.int64)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        shape = prepared.shape if trials is None else (trials, *prepared.shape)
        return prepared + self.noise.sample(shape, bits)

    def publish(self, measured: Integers) -> Table:
        """A literal stands if fewer positive rows go against it than the noise reaches, or than a quarter of them."""
        import pyarrow as pa

        second, total = measured[:-1], int(measured[-1])
        limit = min(self.threshold, max(0, total) / 4)
        kept = [
            (column.name, str(column.value(value)))
            for column, ones in zip(self.attributes, second.tolist(), strict=True)
            for value, against in ((1, total - ones), (0, ones))
            if against < limit and total - against >= limit
        ]
        names, values = [name for name, _ in kept], [value for _, value in kept]
        # of these types also where nothing stands: the form of a release does not hang on its numbers
        return pa.table({"attribute": pa.array(names, pa.string()), "equals": pa.array(values, pa.string())})

    def describe(self) -> dict[str, object]:
        return self.wording(
            f"conjunction of {len(self.attributes)} attributes for {self.label.name} = {self.label.value(1)}",
            {**self.noise.to_dict(), "sensitivity": str(self.sensitivity)},
        )


def conjunction_plan(
    scope: Scope, attributes: Sequence[Column], label: Column, *, eps: Number, failure: Number = "0.01"
) -> ConjunctionPlan:
    """A plan for the conjunction of attributes with two values each that makes `label` take its second value."""
    return ConjunctionPlan(
        tuple(attributes), label, positive("failure", failure), scope, Pure(positive("eps", eps))
    )


def check_two_values(columns: Sequence[Column]) -> None:
    """Refuses columns that do not have exactly two values."""
    for column in columns:
        if column.size != 2:
            raise DomainError(
                f"column {column.name!r} does not have two values",
                given=f"{column.size} values",
                needed="two: the first is no, the second is yes",
                fix=declaration("category", name=column.name, values=["no", "yes"]),
            )


# Learning a linear rule: a perceptron that sees noisy sums only.


@register
@dataclass(frozen=True)
class PerceptronPlan(ScopedPlan):
    """Weights w and a constant b such that w x + b > 0 for rows with a positive label, if there are such.

    Privacy
        Rows are points x of whole numbers from -R to R, with a last coordinate of R for the constant, and a sign y for
        the label. In each round the noisy sum of y x over the rows that the weights so far get wrong is added to the
        weights, which are public. A row adds at most (d+1) R to that sum (L1), a unit of m rows m times that, replaced
        twice. Discrete Laplace noise of scale D/(eps/rounds) on each coordinate costs eps/rounds [Ghosh, Roughgarden,
        Sundararajan 2009], eps in all. Which rows are wrong is decided in whole numbers. [Blum et al. 2005, section 4.4]
    """

    attributes: tuple[Column, ...]
    label: Column
    rounds: int
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.perceptron"

    def check(self) -> None:
        self.scope.check_whole("a perceptron has")
        check_two_values([self.label])
        check_columns(self.attributes)
        check_different((*self.attributes, self.label))
        whole("rounds", self.rounds, least=1, most=1000)

    @property
    def sensitivity(self) -> int:
        return self.scope.rows * (len(self.attributes) + 1) * REACH * (2 if self.scope.replaced else 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.sensitivity) * self.rounds / self.guarantee.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        of = "sums over the rows that are wrong, in each round"
        return (part(self.noise, of, moves=self.sensitivity, times=self.rounds),)

    @property
    def slowness(self) -> int:
        return 4

    def forecast(self) -> Forecast:
        size = self.scope.size
        notes = ["against the sums over all rows that are wrong, at most so many as there are rows"]
        if size is not None and self.noise.sd / REACH > size / 4:
            notes.append("the noise will drown the answer: more eps, fewer attributes or fewer rounds")
        return Forecast.of(self.noise, each="sum, in widths of a column", step=0.5 / REACH, notes=notes)

    def prepare(self, data: Data) -> Integers:
        """y x for each row, with the constant: the weights are right about a row where their product with it is positive."""
        codes = counted_codes(self.scope, (*self.attributes, self.label), data)
        at = scaled(self.attributes, codes[:, :-1])
        rows = np.concatenate([at, np.full((len(at), 1), REACH)], axis=1)
        return np.asarray(rows * np.where(codes[:, -1:] == 1, 1, -1), np.int64)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        """The noisy sum of each round."""
        noise = self.noise.sample((trials or 1, self.rounds, prepared.shape[1]), bits)  # depends on no answer
        for run in noise:
            weights = np.zeros(prepared.shape[1], np.int64)
            for found in run:
                found += prepared[prepared @ weights <= 0].sum(axis=0)
                weights += found
        return noise[0] if trials is None else noise

    def publish(self, measured: Integers) -> Table:
        """Weights for columns scaled to [-1, 1] and the constant, so that the largest is 1."""
        import pyarrow as pa

        weights = measured.sum(axis=0).astype(float)
        weights = weights / max(1.0, float(np.abs(weights).max()))
        names = [*(column.name for column in self.attributes), "constant"]
        return pa.table({"attribute": names, "weight": weights})

    def describe(self) -> dict[str, object]:
        return self.wording(
            f"perceptron for {self.label.name} = {self.label.value(1)}, {self.rounds} rounds",
            {**self.noise.to_dict(), "sensitivity": str(self.sensitivity)},
        )

    def neighbours(self) -> Iterator[Pair]:
        """A row at a corner of the box, with one label or the other, or away."""
        if self.scope.nobody:
            return
        columns = (*self.attributes, self.label)
        corner = [column.size - 1 for column in self.attributes]
        one = one_unit(self.scope, columns, [*corner, 1], [*corner, 0])
        if self.scope.replaced:
            yield Pair(one, one_unit(self.scope, columns, [*corner, 0], [*corner, 0]), "one label changes")
        else:
            yield Pair(one, one_unit(self.scope, columns, None, [*corner, 0]), "one unit or nobody")


def perceptron_plan(
    scope: Scope, attributes: Sequence[Column], label: Column, *, eps: Number, rounds: int = 5
) -> PerceptronPlan:
    """A plan for a linear rule by which `label`, a column with two values, is told from number columns."""
    return PerceptronPlan(
        tuple(attributes),
        label,
        whole("rounds", rounds, least=1, most=1000),
        scope,
        Pure(positive("eps", eps)),
    )


# Learning a decision tree: ID3 on noisy counts.

MOST_COUNTS = 2**20


@register
@dataclass(frozen=True)
class TreePlan(ScopedPlan):
    """A tree of `depth` questions about attributes with few values, and the likeliest label at each leaf.

    Privacy
        At each level, for each leaf so far and each attribute, rows are counted by value and label. A row is at one leaf,
        and adds 1 to one count for each of d attributes: a unit of m rows moves the counts of a level by m d in all,
        replaced by twice that. Discrete Laplace noise of scale D/(eps/depth) costs eps/depth [Ghosh, Roughgarden,
        Sundararajan 2009]; the next level's leaves follow from noisy counts only, so eps in all. Labels are read off the
        counts of the last level. [Blum, Dwork, McSherry, Nissim 2005, section 4.3]
    """

    attributes: tuple[Column, ...]
    label: Column
    depth: int
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.tree"

    def check(self) -> None:
        self.scope.check_whole("a tree has")
        check_different((*self.attributes, self.label))
        if not self.attributes:
            raise DomainError("a tree needs attributes", given="none", fix='["smokes", "drinks"]')
        whole("depth", self.depth, least=1, most=min(20, len(self.attributes)))
        if self.branches**self.depth * len(self.attributes) * self.label.size > MOST_COUNTS:
            raise DomainError(
                "the tree has too many counts",
                given=f"{self.branches} values, {self.depth} questions deep, {len(self.attributes)} attributes",
                needed=f"at most {MOST_COUNTS:,}",
                fix="a smaller depth, or columns with fewer values",
            )

    @property
    def sensitivity(self) -> int:
        return self.scope.rows * len(self.attributes) * (2 if self.scope.replaced else 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.sensitivity) * self.depth / self.guarantee.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The counts of each level, one after the other."""
        return (part(self.noise, "counts of each level", moves=self.sensitivity, times=self.depth),)

    @property
    def slowness(self) -> int:
        return 40

    @property
    def branches(self) -> int:
        """Values of the attribute that has the most. A question with fewer leaves the other branches empty."""
        return max(column.size for column in self.attributes)

    def forecast(self) -> Forecast:
        notes = []
        leaves = self.branches**self.depth
        if self.scope.size is not None and 4 * self.noise.sd > self.scope.size / leaves:
            notes = [
                f"the noise will drown the answer at many of up to {leaves:,} leaves: a smaller depth, or more eps"
            ]
        return Forecast.of(self.noise, each="count of a value and a label at a leaf", notes=notes)

    def prepare(self, data: Data) -> Integers:
        return counted_codes(self.scope, (*self.attributes, self.label), data)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> list[Integers]:
        """The noisy counts [leaf, attribute, value, label] of each level."""
        d, values, labels = len(self.attributes), self.branches, self.label.size
        noise = [  # drawn together, as no noise depends on any answer
            self.noise.sample((trials or 1, values**level, d, values, labels), bits)
            for level in range(self.depth)
        ]
        for trial in range(trials or 1):
            self._levels(prepared, [level[trial] for level in noise])
        return [level[0] for level in noise] if trials is None else noise

    def _levels(self, rows: Integers, noisy: list[Integers]) -> None:
        """Adds what is true to the noise, level by level."""
        leaf = np.zeros(len(rows), np.int64)
        for level, counts in enumerate(noisy):
            for i in range(len(self.attributes)):
                np.add.at(counts[:, i], (leaf, rows[:, i], rows[:, -1]), 1)
            asked = self._questions(noisy[: level + 1])[-1]
            leaf = leaf * self.branches + np.take_along_axis(rows, asked[leaf][:, None], axis=1)[:, 0]

    def _questions(self, found: Sequence[Integers]) -> list[Integers]:
        """For each level the attribute that is asked at each leaf: the one that tells most, among those not yet asked."""
        asked: list[Integers] = []
        used = np.zeros((1, len(self.attributes)), np.bool_)
        for noisy in found:
            counts = np.maximum(noisy, 0).astype(float)
            for i, column in enumerate(self.attributes):
                counts[:, i, column.size :] = 0
            totals = counts.sum(axis=3, keepdims=True)
            part = counts / np.maximum(totals, 1e-12)
            left = -(counts * np.log(np.maximum(part, 1e-12))).sum(
                axis=(2, 3)
            )  # entropy that is left, times rows
            left = left / np.maximum(counts.sum(axis=(2, 3)), 1e-12)
            best = np.where(used, np.inf, left).argmin(axis=1)
            asked.append(best)
            used = used.copy()
            used[np.arange(len(best)), best] = True
            used = np.repeat(used, self.branches, axis=0)
        return asked

    def publish(self, measured: list[Integers]) -> Table:
        """A row for each leaf: the values on the way to it, and the label."""
        import pyarrow as pa

        asked = self._questions(measured)
        last, question = measured[-1], asked[-1]
        conditions, labels = [], []
        for leaf in range(self.branches**self.depth):
            path = [leaf // self.branches ** (self.depth - 1 - i) for i in range(self.depth)]
            steps = [
                (self.attributes[int(asked[i][at // self.branches])], at % self.branches)
                for i, at in enumerate(path)
            ]
            if all(value < column.size for column, value in steps):
                counts = last[leaf // self.branches, question[leaf // self.branches], leaf % self.branches]
                conditions.append(
                    " and ".join(f"{column.name} = {column.value(value)}" for column, value in steps)
                )
                labels.append(str(self.label.value(int(counts.argmax()))))
        return pa.table({"where": conditions, self.label.name: labels})

    def describe(self) -> dict[str, object]:
        return self.wording(
            f"tree for {self.label.name}, {self.depth} questions deep",
            {**self.noise.to_dict(), "sensitivity": str(self.sensitivity)},
        )


def tree_plan(
    scope: Scope, attributes: Sequence[Column], label: Column, *, eps: Number, depth: int = 3
) -> TreePlan:
    """A plan for a decision tree, not deeper than there are attributes."""
    deep = min(whole("depth", depth, least=1, most=20), max(1, len(attributes)))
    return TreePlan(tuple(attributes), label, deep, scope, Pure(positive("eps", eps)))
