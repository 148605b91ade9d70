"""Learning a conjunction: which attributes every positive row has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Column, Domain
from oboro.errors import DomainError, ParameterError, declaration, setting, told
from oboro.exact import Number, positive, show
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, Plan, part, register, same_noise
from oboro.statistics.decoding import counted_codes
from oboro.statistics.points import check_different
from oboro.statistics.scope import Scope


@register
@dataclass(frozen=True)
class ConjunctionPlan(Plan):
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
    def unit(self) -> Unit:
        return self.scope.unit

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

    def prepare(self, data: Any) -> Integers:
        codes = counted_codes(self.scope, (*self.attributes, self.label), data)
        held = codes[codes[:, -1] == 1]
        return np.append(held[:, :-1].sum(axis=0), len(held)).astype(np.int64)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        shape = prepared.shape if trials is None else (trials, *prepared.shape)
        return prepared + self.noise.sample(shape, bits)

    def publish(self, measured: Integers) -> Any:
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

    def describe(self) -> dict[str, Any]:
        return {
            "released": f"conjunction of {len(self.attributes)} attributes for {self.label.name} = {self.label.value(1)}",
            "noise": {**self.noise.to_dict(), "sensitivity": str(self.sensitivity)},
            "domain": Domain(self.scope.columns((*self.attributes, self.label))).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """A positive row with all attributes, or another, or nobody."""
        yield from self.scope.pairs((*self.attributes, self.label))


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
