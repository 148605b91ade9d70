"""How many rows there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.engine import add_up
from oboro.noise import Bits
from oboro.privacy import Pure, guarantee_from
from oboro.release import Forecast, Pair, register
from oboro.statistics.scope import Scope
from oboro.statistics.terms import Integers, Promise, Term, counted, measured, promise_from, term


@register
@dataclass(frozen=True, slots=True)
class CountPlan:
    """How many rows meet the condition. (For each of several groups: a histogram.)

    Privacy
        At most k rows of a unit count, k = `unit.max_rows`. Adding, removing or replacing a unit changes the
        count by at most k: replaced rows change it only where one meets the condition and the other does not.
        Discrete Laplace noise of scale k/eps on integers is eps-DP [Ghosh, Roughgarden, Sundararajan 2009]; discrete
        Gaussian noise of variance k^2/(2 rho) is rho-zCDP [Canonne, Kamath, Steinke 2020].
        The number of all rows under replace is public: the answer is n itself, and costs nothing.
    """

    scope: Scope
    guarantee: Promise
    kind = "statistics.count"
    leaves_out = "covers the noise; not errors in the data, nor records left out"
    interval_in_files = True
    footnote = (
        "noise may take a count below 0; it is left there, so that sums of counts stay right on average"
    )

    @property
    def unit(self) -> Any:
        return self.scope.unit

    @property
    def public(self) -> bool:
        """Whether the answer is n, which is public."""
        return self.guarantee == Pure(0)

    @property
    def term(self) -> Term:
        return term("count", 1, self.scope.rows, self.guarantee)

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

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.scope.to_dict([]), "guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> CountPlan:
        scope, _ = Scope.from_dict(record)
        guarantee = promise_from(guarantee_from(record["guarantee"]))
        free = scope.all_count([])
        return cls(scope, Pure(0) if free else guarantee)


def count_plan(scope: Scope, promise: Promise) -> CountPlan:
    """A count at `promise`; free where the answer is public."""
    if scope.all_count([]):
        return CountPlan(scope, Pure(0))
    plan = CountPlan(scope, promise)
    plan.term  # noqa: B018  # refuses noise beyond what can be drawn
    return plan
