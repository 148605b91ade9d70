"""How many rows there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.engine import add_up
from oboro.errors import DomainError
from oboro.noise import Bits
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, Plan, noise_by_column, part, register
from oboro.statistics.scope import Scope
from oboro.statistics.terms import Promise, Term, counted, measured, term


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

    def prepare(self, data: Any) -> Integers:
        source, condition = self.scope.open(data)
        if self.public:
            return np.full((1, 1), self.scope.n, np.int64)
        found = add_up(source, [], [()], self.scope.unit, condition=condition)
        return counted([self.term], 1, found)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        if self.public:
            return prepared if trials is None else np.broadcast_to(prepared, (trials, 1, 1)).copy()
        return measured([self.term], prepared, bits, trials)

    def publish(self, measured: Integers) -> Any:
        import pyarrow as pa

        return pa.table({"value": measured[:, 0]})

    def intervals(self, table: Any, level: float) -> tuple[Any, Any]:
        """The range that holds the true count with this probability; never below 0, nor above a public n."""
        value = table.column("value").to_numpy()
        low, high = (0, 0) if self.public else self.term.noise.interval(level)
        most = np.iinfo(np.int64).max if self.scope.n is None else self.scope.n * self.scope.rows
        return np.clip(value + low, 0, most), np.clip(value + high, 0, most)

    def describe(self) -> dict[str, Any]:
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
