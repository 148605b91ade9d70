"""Statistical queries: which part of the rows meets a condition, to a tolerance that is paid for. Price first.

The tolerance is about the rows that there are, not about the population that they were drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Data, Ends, Integers, Table
from oboro.domain import Domain
from oboro.engine import add_up
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, rational, show
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, Plan, Release, part, register, same_noise
from oboro.statistics.learners import conjunction_plan, perceptron_plan, tree_plan
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.smooth import check_scope
from oboro.statistics.where import parse


@register
@dataclass(frozen=True)
class QueryPlan(ScopedPlan):
    """The part of all rows that meets a condition, within `tolerance` but for a chance of `failure`.

    Privacy
        One of n rows is replaced, n is public: the count changes by at most 1. Discrete Laplace noise of scale 1/eps
        is eps-DP [Ghosh, Roughgarden, Sundararajan 2009]. eps is the least, rounded up, with
        P(|noise| > m) = 2 p^(m+1)/(1+p) <= failure, p = e^-eps, m = floor(n tolerance).

    >>> release = people.oracle.ask("age >= 65", tolerance=0.05)
    >>> release.plan.kind, release.cost
    ('statistics.query', Approx('0.091171', 0))
    """

    scope: inline[Scope]
    tolerance: Fraction
    failure: Fraction
    kind = "statistics.query"
    leaves_out = "covers the noise; not how the rows differ from a population"
    interval_in_files = True

    def check(self) -> None:
        check_scope(self.scope)
        for name in ("tolerance", "failure"):
            _part(name, getattr(self, name))

    @property
    def n(self) -> int:
        return self.scope.n or 1

    @cached_property
    def guarantee(self) -> Pure:
        return Pure(query_price(self.n, self.tolerance, self.failure))

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / self.guarantee.eps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (part(self.noise, "rows that meet the condition", moves=1),)

    def added(self) -> Additive:
        return same_noise(self.noise)

    def forecast(self) -> Forecast:
        note = f"within {show(self.tolerance)} but for a chance of {show(self.failure)}, at {self.guarantee}"
        return Forecast.of(self.noise, each="part of the rows", step=1 / self.n, notes=(note,))

    def prepare(self, data: Data) -> Integers:
        source, condition = self.scope.open(data)
        found = add_up(source, [], [()], self.unit, condition=condition)
        return np.asarray(found.get(0, [0]), np.int64)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return prepared + self.noise.sample((1,) if trials is None else (trials, 1), bits)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        return pa.table({"value": np.clip(measured, 0, self.n) / self.n})

    def intervals(self, table: Table, level: float) -> Ends:
        value = table.column("value").to_numpy()
        low, high = (end / self.n for end in self.noise.interval(level))
        return np.clip(value + low, 0, 1), np.clip(value + high, 0, 1)

    def describe(self) -> dict[str, object]:
        law = {**self.noise.to_dict(), "sensitivity": "1"}
        return self.wording("part of the rows" + self.scope.words(), law)

    def neighbours(self) -> Iterator[Pair]:
        """A row that meets the condition, or that does not."""
        yield from self.scope.pairs(self.scope.columns([]))


@dataclass(frozen=True, slots=True)
class Oracle:
    """Answers statistical queries about one dataset, and learns from such answers. `run` pays and releases.

    >>> people.oracle.price(tolerance=0.05)
    Pure('0.091171')
    """

    domain: Domain
    scope: Scope
    run: Callable[[Plan, str | None], Release]

    def price(self, tolerance: Number, failure: Number = "0.01") -> Pure:
        """What one answer costs. Free; depends on n alone."""
        n = check_scope(self.scope).n or 1
        return Pure(query_price(n, _part("tolerance", tolerance), _part("failure", failure)))

    def ask(
        self, predicate: str, tolerance: Number, failure: Number = "0.01", *, name: str | None = None
    ) -> Release:
        """The part of the rows that meets `predicate`, such as "age >= 20 and region = 'north'"."""
        condition = parse(predicate, self.domain)
        if self.scope.where is not None:
            condition = self.scope.where.and_also(condition)
        asked = replace(self.scope, where=condition)
        return self.run(query_plan(asked, tolerance=tolerance, failure=failure), name)

    def conjunction(
        self,
        attributes: Sequence[str],
        label: str,
        *,
        eps: Number,
        failure: Number = "0.01",
        name: str | None = None,
    ) -> Release:
        """Which attributes a row must have for its label to be positive."""
        columns = [self.domain[attribute] for attribute in attributes]
        plan = conjunction_plan(self.scope, columns, self.domain[label], eps=eps, failure=failure)
        return self.run(plan, name)

    def perceptron(
        self, attributes: Sequence[str], label: str, *, eps: Number, rounds: int = 5, name: str | None = None
    ) -> Release:
        """A linear rule for the label."""
        columns = [self.domain[attribute] for attribute in attributes]
        return self.run(
            perceptron_plan(self.scope, columns, self.domain[label], eps=eps, rounds=rounds), name
        )

    def tree(
        self, attributes: Sequence[str], label: str, *, eps: Number, depth: int = 3, name: str | None = None
    ) -> Release:
        """A decision tree for the label, by ID3."""
        columns = [self.domain[attribute] for attribute in attributes]
        return self.run(tree_plan(self.scope, columns, self.domain[label], eps=eps, depth=depth), name)


def query_plan(scope: Scope, *, tolerance: Number, failure: Number = "0.01") -> QueryPlan:
    """A plan for one answer; `scope.where` is the condition."""
    return QueryPlan(check_scope(scope), _part("tolerance", tolerance), _part("failure", failure))


def query_price(n: int, tolerance: Fraction, failure: Fraction) -> Fraction:
    """The least eps, rounded up to 6 digits, with 2 p^(m+1)/(1+p) <= failure, p = e^-eps, m = floor(n tolerance)."""
    from oboro.noise.lazy import ball, precision

    m = math.floor(n * tolerance)
    low, high = 0.0, -math.log(float(failure)) + 1
    for _ in range(200):
        eps = (low + high) / 2
        enough = 2 * math.exp(-eps * (m + 1)) / (1 + math.exp(-eps)) <= float(failure)
        low, high = (low, eps) if enough else (eps, high)
    digit = Fraction(10) ** (math.floor(math.log10(high)) - 5)
    price = math.ceil(Fraction(high) / digit) * digit
    while True:  # floats suggest, balls decide
        with precision(128):
            p = ball(-price).exp()
            if 2 * ball(-price * (m + 1)).exp() / (1 + p) <= ball(failure):
                return price
        price += digit


def _part(name: str, value: Number) -> Fraction:
    part = rational(name, value)
    if not Fraction(1, 10**250) <= part < 1:
        raise ParameterError(
            f"{name} must lie between 0 and 1",
            given=told(**{name: show(part)}),
            needed="at least 1e-250",
            fix=setting(**{name: "0.01"}),
        )
    return part
