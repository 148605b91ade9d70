"""Learning a linear rule: a perceptron that sees noisy sums only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column, Domain
from oboro.exact import Number, positive, whole
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Forecast, Pair, Part, Plan, part, register
from oboro.statistics.conjunctions import check_two_values
from oboro.statistics.decoding import counted_codes, one_unit
from oboro.statistics.points import REACH, check_columns, check_different, scaled
from oboro.statistics.scope import Scope


@register
@dataclass(frozen=True)
class PerceptronPlan(Plan):
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
    def unit(self) -> Unit:
        return self.scope.unit

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

    def prepare(self, data: Any) -> Integers:
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

    def publish(self, measured: Integers) -> Any:
        """Weights for columns scaled to [-1, 1] and the constant, so that the largest is 1."""
        import pyarrow as pa

        weights = measured.sum(axis=0).astype(float)
        weights = weights / max(1.0, float(np.abs(weights).max()))
        names = [*(column.name for column in self.attributes), "constant"]
        return pa.table({"attribute": names, "weight": weights})

    def describe(self) -> dict[str, Any]:
        return {
            "released": f"perceptron for {self.label.name} = {self.label.value(1)}, {self.rounds} rounds",
            "noise": {**self.noise.to_dict(), "sensitivity": str(self.sensitivity)},
            "domain": Domain(self.scope.columns((*self.attributes, self.label))).to_dict(),
        }

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
