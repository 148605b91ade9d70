"""The questions that can be asked, in one vocabulary: of a session, of a forecast, of a batch, of a plan."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack

from oboro.domain import Domain
from oboro.errors import ParameterError, told
from oboro.exact import Number
from oboro.kinds import names_of, shown, takes, unknown
from oboro.privacy import Unit
from oboro.release import Plan
from oboro.statistics.arguments import parse
from oboro.statistics.balls import Ball
from oboro.statistics.batch import as_pure
from oboro.statistics.bins import Bins, bins_of
from oboro.statistics.counts import count_plan
from oboro.statistics.covariances import covariance_plan
from oboro.statistics.histogram import HistogramPlan
from oboro.statistics.means import mean_plan
from oboro.statistics.quantiles import quantile_plan
from oboro.statistics.scope import Scope
from oboro.statistics.sums import sum_plan
from oboro.statistics.terms import Promise
from oboro.statistics.where import Condition

Result = TypeVar("Result")
Build = Callable[[Promise], Plan]


class Asked(TypedDict, total=False):
    """What may be said with every question."""

    eps: Number | None  # a pure guarantee, Laplace noise
    rho: Number | None  # a zCDP guarantee, Gaussian noise
    name: str | None  # of the release: asked again under it, it costs nothing
    expected_n: int | None  # a guess of how many units there are, for forecasts under add/remove
    weight: Number  # in a batch: its share of the whole, compared with the others


@dataclass(frozen=True)
class Questions(Generic[Result]):
    """Questions about the rows of one dataset. `where` and `by` narrow them; the rest asks."""

    domain: Domain
    unit: Unit
    n: int | None
    condition: Condition | None = field(default=None, kw_only=True)
    groups: tuple[Bins, ...] = field(default=(), kw_only=True)

    weighted: ClassVar[bool] = False  # whether questions share one price

    def _answer(self, build: Build, asked: Asked) -> Result:
        raise NotImplementedError  # pragma: no cover

    def _known(self, asked: Asked) -> None:
        """Refuses a word that no question knows, or that means nothing here: it would be paid for without it."""
        for name in asked:
            if name not in Asked.__annotations__:
                raise unknown("argument", name, Asked.__annotations__)
        if "weight" in asked and not self.weighted:
            raise ParameterError(
                "a weight is for the questions of a batch",
                given=told(weight=shown(asked["weight"])),
                needed="questions that share one price",
                fix="with session.batch(eps=1) as batch:",
            )

    def where(self, condition: str) -> Self:
        """Only rows that meet a condition, such as "age >= 20 and region = 'north'"."""
        new = parse(condition, self.domain)
        return self._narrowed(condition=new if self.condition is None else self.condition.and_also(new))

    @takes(columns=names_of)
    def by(self, *columns: str) -> Self:
        """One answer for each value of a column, or for each combination of several."""
        return self._narrowed(groups=(*self.groups, *(Bins(self.domain[name]) for name in columns)))

    def count(self, **asked: Unpack[Asked]) -> Result:
        """How many rows; with groups, how many in each."""
        if self.groups:
            return self._histogram(self.groups, asked)
        scope = self._scope(asked)
        return self._answer(lambda promise: count_plan(scope, promise), asked)

    def sum(self, column: str, **asked: Unpack[Asked]) -> Result:
        """The sum of a column; with groups, of each."""
        scope, of = self._scope(asked), self.domain[column]
        return self._answer(lambda promise: sum_plan(of, scope, promise), asked)

    def mean(
        self, columns: str | Sequence[str], *, ball: Ball | None = None, **asked: Unpack[Asked]
    ) -> Result:
        """The mean of a column, or of several at once. With a ball, rows outside it move to its edge first."""
        scope, of = self._scope(asked), self._columns(columns)
        return self._answer(lambda promise: mean_plan(of, scope, promise, ball), asked)

    def variance(self, column: str, **asked: Unpack[Asked]) -> Result:
        """The variance of a column, divided by n."""
        return self.covariance([column], **asked)

    def covariance(
        self, columns: Sequence[str], *, ball: Ball | None = None, **asked: Unpack[Asked]
    ) -> Result:
        """The covariances of all pairs of columns, divided by n. With a ball, rows outside it move to its edge first."""
        scope, of = self._scope(asked), self._columns(columns)
        return self._answer(lambda promise: covariance_plan(of, scope, promise, ball), asked)

    def quantile(
        self,
        column: str,
        quantiles: Number | Sequence[Number],
        *,
        method: str | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The values at one or more quantiles between 0 and 1."""
        scope, of = self._scope(asked), self.domain[column]
        return self._answer(
            lambda promise: quantile_plan(of, quantiles, scope, as_pure(promise), method=method), asked
        )

    def median(self, column: str, **asked: Unpack[Asked]) -> Result:
        """The value that half of the rows lie below."""
        return self.quantile(column, Fraction(1, 2), **asked)

    @takes(columns=names_of, by=names_of)
    def histogram(
        self,
        columns: str | Sequence[str],
        *,
        edges: Mapping[str, Sequence[Any]] | Sequence[Any] | None = None,
        by: str | Sequence[str] = (),
        **asked: Unpack[Asked],
    ) -> Result:
        """How many rows have each value, or lie in each interval between edges."""
        groups = [Bins(self.domain[name]) for name in ([by] if isinstance(by, str) else by)]
        names = [columns] if isinstance(columns, str) else list(columns)
        bins = (*self.groups, *groups, *bins_of(self.domain, names, edges))
        return self._histogram(bins, asked)

    def _histogram(self, bins: tuple[Bins, ...], asked: Asked) -> Result:
        self._known(asked)
        unit, condition, expected = self.unit, self.condition, asked.get("expected_n")
        return self._answer(lambda promise: HistogramPlan(bins, unit, promise, condition, expected), asked)

    @takes(columns=names_of)
    def _columns(self, columns: str | Sequence[str]) -> list[Any]:
        return [self.domain[name] for name in ([columns] if isinstance(columns, str) else columns)]

    def _scope(self, asked: Asked) -> Scope:
        self._known(asked)
        return Scope(self.unit, self.condition, self.groups, self.n, asked.get("expected_n"))

    def _narrowed(self, **changes: Any) -> Self:
        other = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other
