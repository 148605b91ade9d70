"""The questions that can be asked, in one vocabulary: of a session, of a forecast, of a batch, of a plan."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from math import isqrt, prod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack

from oboro.domain import Column, Domain
from oboro.errors import ParameterError, told
from oboro.exact import Number, show, whole
from oboro.kinds import names_of, nearest, shown, takes
from oboro.noise import Bits
from oboro.privacy import ZCDP, Approx, Guarantee, Pure, Unit, compose
from oboro.release import Additive, Forecast, Pair, Part, Plan, noise_by_plan, register
from oboro.release.forecast import Row
from oboro.release.release import raw_and_cut
from oboro.statistics.answers import columns_side_by_side, fit_side_by_side, groups_of, side_by_side
from oboro.statistics.balls import Ball
from oboro.statistics.histogram import HistogramPlan
from oboro.statistics.marginals import Shared, Strategy
from oboro.statistics.means import mean_plan
from oboro.statistics.moments import CovariancePlan, covariance_plan
from oboro.statistics.persons import persons_plan
from oboro.statistics.planner import strategies
from oboro.statistics.quantiles import quantile_plan
from oboro.statistics.scope import Bins, Edges, Scope, ScopedPlan, bins_of, group_of
from oboro.statistics.selections import top_plan
from oboro.statistics.sums import count_plan, sums_plan
from oboro.statistics.terms import Promise
from oboro.statistics.where import Condition, parse

if TYPE_CHECKING:
    from oboro.arrays import Data, Table

# Several questions that are paid for together.

MOST_QUESTIONS = 10_000
_FINE = 256  # what tight composition saves is found in steps of 1/256


@register
@dataclass(frozen=True)
class BatchPlan(Plan):
    """Plans for the same unit that are reserved, measured and released together.

    Privacy
        The plans are fixed in advance and draw independent noise, so their costs add up: the sum of eps, or of rho.
        With a delta, a batch of pure plans has the guarantee that their privacy loss distributions give, each the worst
        with its eps, in exact integers (privacy/losses.py). That is valid because no question depends on an answer.
        What each question promises covers its own parts, which was checked when it was made. A unit may come for one
        question and be replaced for another, so it is their promises that add up, not parts case by case.
        Questions that share tables (`shared`, see Strategy in marginals.py) are not measured themselves: the tables are, and
        their costs stand in for the questions' promises.

    >>> two = (people.plan.median("age", eps="0.1"), people.plan.mean("age", eps="0.2"))
    >>> ob.statistics.BatchPlan(two, ob.Pure("0.3")).cost
    Pure('0.3')
    """

    plans: tuple[Plan, ...]
    guarantee: Guarantee
    shared: tuple[Strategy, ...] = ()  # tables that answer several questions at once
    kind = "statistics.batch"

    def check(self) -> None:
        if not 1 <= len(self.plans) <= MOST_QUESTIONS:
            raise ParameterError(
                "a batch needs questions",
                given=f"{len(self.plans)} questions",
                needed=f"1 to {MOST_QUESTIONS:,}",
                fix="batch.count()",
            )
        if len({plan.unit for plan in self.plans}) > 1:
            raise ParameterError("the questions of a batch protect different units", needed="one unit")
        answered = [place for one in self.shared for place in one.answers]
        known = all(0 <= place < len(self.plans) for place in answered)
        if (
            not known
            or len(set(answered)) != len(answered)
            or (self.shared and isinstance(self.guarantee, Approx))
        ):
            raise ParameterError(
                "the tables of the batch do not answer its questions",
                given="questions that are answered twice or are not there, or a delta",
                needed="a strategy as the planner makes it",
                fix="with session.batch(eps=1) as batch:",
            )
        for one in self.strategies:
            one.check()

    @cached_property
    def strategies(self) -> tuple[Shared, ...]:
        """What is shared, with the questions that it answers."""
        return tuple(Shared(one, tuple(self.plans[place] for place in one.answers)) for one in self.shared)

    @cached_property
    def alone(self) -> tuple[int, ...]:
        """The questions that are measured by themselves."""
        answered = {place for one in self.shared for place in one.answers}
        return tuple(place for place in range(len(self.plans)) if place not in answered)

    def _answered_by(self, place: int) -> tuple[Shared, int] | None:
        for one in self.strategies:
            if place in one.strategy.answers:
                return one, one.strategy.answers.index(place)
        return None

    @property
    def unit(self) -> Unit:
        return self.plans[0].unit

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of every question that is measured by itself, then the tables that are shared."""
        own = tuple(
            replace(part, of=f"question {place}: {part.of}")
            for place in self.alone
            for part in self.plans[place].parts
        )
        return own + tuple(part for one in self.strategies for part in one.parts)

    @cached_property
    def cost(self) -> Guarantee:
        tables = [part.costs for one in self.strategies for part in one.parts]
        return total([self.plans[place].guarantee for place in self.alone] + tables, self.guarantee)

    def added(self) -> Additive | None:
        own = [self.plans[place].added() for place in self.alone]
        return noise_by_plan([*own, *(form for one in self.strategies for form in one.added())])

    @property
    def slowness(self) -> int:
        return max(plan.slowness for plan in self.plans)

    def forecast(self) -> Forecast:
        """What each question costs, and its first expected error."""
        rows: list[Row] = []
        for place, plan in enumerate(self.plans):
            by_itself, answered = plan.forecast().rows, self._answered_by(place)
            found = by_itself if answered is None else answered[0].forecast(answered[1])
            for row, one in zip(found, by_itself, strict=True):
                share = (str(plan.guarantee), one[-1]) if self.shared else (str(plan.guarantee),)
                rows.append((f"{plan.describe()['released']}: {row[0]}", *share, row[-1]))
        guarantees = [plan.guarantee for plan in self.plans]
        saved = total(guarantees, Pure(0)) if isinstance(self.guarantee, Approx) else None
        many = len(self.plans)
        notes = [f"{many} questions, together {self.guarantee}"] if many > 1 else []
        if isinstance(saved, Pure):
            notes.append(f"asked one by one they would cost eps = {show(saved.eps)}")
        for strategy in self.strategies:
            notes.append(strategy.in_words())
        alone = ("alone ±",) if self.shared else ()
        return Forecast(
            "a batch", ("question", "its share", *alone, "95% within ±"), tuple(rows), tuple(notes)
        )

    def prepare(self, data: Data) -> list[object]:
        """Of each question that is measured by itself, then the tables that are shared."""
        from oboro.engine import open_data

        source = open_data(data)
        own: list[object] = [self.plans[place].prepare(source) for place in self.alone]
        return own + [table for one in self.strategies for table in one.prepare(source)]

    def measure(self, prepared: list[object], bits: Bits, trials: int | None = None) -> list[object]:
        own = len(self.alone)
        found = [
            self.plans[place].measure(part, bits, trials)
            for place, part in zip(self.alone, prepared[:own], strict=True)
        ]
        for one, tables in self._tables(prepared):
            found += one.measure(tables, bits, trials)
        return found

    def _tables(self, parts: list[Any]) -> Iterator[tuple[Shared, list[Any]]]:
        """The tables of each strategy."""
        at = len(self.alone)
        for one in self.strategies:
            many = len(one.strategy.margins)
            yield one, parts[at : at + many]
            at += many

    def tables(self, measured: list[Any]) -> list[Table]:
        """What each question releases, as it would by itself."""
        found: dict[int, Any] = dict(zip(self.alone, measured[: len(self.alone)], strict=True))
        for one, noisy in self._tables(measured):
            found |= zip(one.strategy.answers, one.estimates(noisy), strict=True)
        return [plan.publish(found[place]) for place, plan in enumerate(self.plans)]

    def ends_of(self, place: int, table: Table, level: float) -> tuple[Any, Any] | None:
        """The intervals of a question's table, with the noise that it has here; None where it has none."""
        answered = self._answered_by(place)
        if answered is not None:
            return answered[0].intervals(answered[1], table, level)
        plan = self.plans[place]
        return None if plan.intervals is None else plan.intervals(table, level)

    @property
    def has_counts(self) -> bool:
        return any(plan.has_counts for plan in self.plans)

    def not_negative(self, table: Table, level: float) -> Table:
        """The rows of its counts and histograms, raw and at 0 or more, with the interval of each."""
        import pyarrow as pa

        numbers, parts = table.column("number").to_numpy(), []
        for place, plan in enumerate(self.plans):
            if not plan.has_counts:
                continue
            mine = table.filter(numbers == place).select(["number", "question", "of", "value"])
            counts = mine.column("value").cast(pa.int64())
            mine = mine.set_column(3, "value", counts)
            parts.append(raw_and_cut(mine, counts, *self.count_ends(place, counts, level)))
        return pa.concat_tables(parts)

    def count_ends(self, place: int, counts: Any, level: float) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """The intervals of noisy counts of a question: raw, and at 0 or more. Each follows from its own count."""
        import pyarrow as pa

        plan, own, answered = self.plans[place], pa.table({"value": counts}), self._answered_by(place)
        assert plan.raw_intervals is not None
        raw = (
            plan.raw_intervals(own, level)
            if answered is None
            else answered[0].raw_intervals(answered[1], own, level)
        )
        cut = self.ends_of(place, own, level)
        assert cut is not None
        return raw, cut

    def mean_reach(self, place: int, field: str, level: float) -> float | None:
        """How far the noisy sum or count of a mean goes, where it comes from shared tables."""
        answered = self._answered_by(place)
        return None if answered is None else answered[0].figure_within(answered[1], field, level)

    @property
    def published_rows(self) -> int:
        if fit_side_by_side(self.plans):
            return prod(bins.size for bins in groups_of(self.plans[0]))
        return sum(plan.published_rows or 1 for plan in self.plans)

    @property
    def published_columns(self) -> int:
        return columns_side_by_side(self.plans) if fit_side_by_side(self.plans) else 8

    @property
    def longest_text(self) -> int:
        return max(max(len(plan.describe()["released"]), plan.longest_text) for plan in self.plans)

    def publish(self, measured: list[object]) -> Table:
        """One row for each number: the question, what it is of, the value, and a 95% interval where there is one."""
        import pyarrow as pa

        rows: list[dict[str, object]] = []
        for place, table in enumerate(self.tables(measured)):
            rows += _rows(place, self.plans[place], table, self.ends_of(place, table, 0.95))
        schema = [
            ("number", pa.int32()),
            ("question", pa.string()),
            ("of", pa.string()),
            ("value", pa.float64()),
        ]
        schema += [("low", pa.float64()), ("high", pa.float64())]
        for name, kind in (("day", pa.date32()), ("text", pa.string())):
            if any(name in row for row in rows):
                schema.append((name, kind))
        return pa.Table.from_pylist(rows, pa.schema(schema))

    def filed(self, table: Table) -> Table:
        """One row a group, where all questions have the same groups."""
        return side_by_side(self.plans, table)

    def describe(self) -> dict[str, object]:
        parts = [plan.describe() for plan in self.plans]
        own = [{**parts[place]["noise"], "share": str(self.plans[place].guarantee)} for place in self.alone]
        tables = [words for one in self.strategies for words in one.words()]
        return {
            "released": f"{len(parts)} questions: " + "; ".join(part["released"] for part in parts),
            "noise": {"parts": own + tables},
        }

    def neighbours(self) -> Iterator[Pair]:
        """Each question's worst cases, with one unit at an end of every column that the others ask about."""
        columns = {name: column for plan in self.plans for name, column in _asked_about(plan).items()}
        scopes = [plan.scope for plan in self.plans if isinstance(plan, ScopedPlan)]
        n = next((scope.n for scope in scopes if scope.n is not None), None)
        for pairs in (
            *(one.neighbours(n) for one in self.strategies),
            *(
                plan.of_so_many(n) if isinstance(plan, HistogramPlan) else plan.neighbours()
                for plan in self.plans
            ),
        ):
            for pair in pairs:
                for end in (0, 1):
                    one, other = (_with_columns(data, columns, end) for data in (pair.one, pair.other))
                    yield Pair(one, other, pair.why)
                    if one is pair.one:
                        break  # the question is about every column already


def total(costs: Sequence[Guarantee], kind: Guarantee) -> Guarantee:
    """What costs are together: exact sums, or privacy loss distributions where the kind is (eps, delta)."""
    if isinstance(kind, Approx) and kind.delta > 0:
        summed = compose(*costs)
        if isinstance(summed, Pure) and summed.eps <= kind.eps:
            return summed
        return compose(*costs, delta=kind.delta)
    return compose(*costs)


def shares(promise: Promise | Approx, weights: Sequence[Fraction]) -> list[Promise]:
    """What each question may cost, in proportion to its weight, so that all together keep the promise.

    With a delta every share is raised by the largest factor, in steps of 1/256, that tight composition allows.
    """
    whole = sum(weights, Fraction(0))
    if isinstance(promise, ZCDP):
        return [ZCDP(promise.rho * weight / whole) for weight in weights]
    plain = [promise.eps * weight / whole for weight in weights]
    if isinstance(promise, Pure):
        return [Pure(eps) for eps in plain]

    def fits(steps: int) -> bool:
        raised = [Pure(eps * steps / _FINE) for eps in plain]
        return compose(*raised, delta=promise.delta).to_approx(promise.delta).eps <= promise.eps

    low, high = _FINE, _FINE * (len(plain) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return [Pure(eps * low / _FINE) for eps in plain]


def batch_of(
    builds: Sequence[Callable[[Promise], Plan]], weights: Sequence[Fraction], promise: Promise | Approx
) -> BatchPlan:
    """One plan for all questions, each with its share. What is public costs nothing."""
    free = [isinstance(plan := build(Pure(1)), Plan) and plan.guarantee == Pure(0) for build in builds]
    paid = [weight for weight, is_free in zip(weights, free, strict=True) if not is_free]
    price = iter(shares(promise, paid) if paid else ())
    plans = [build(Pure(1) if is_free else next(price)) for build, is_free in zip(builds, free, strict=True)]
    shared = () if isinstance(promise, Approx) or len(paid) < 2 else strategies(plans)
    return BatchPlan(tuple(plans), promise if paid else Pure(0), shared)


def as_pure(promise: Promise) -> Pure:
    """For a question that only has a pure form: eps with eps^2/2 <= rho, rounded down."""
    if isinstance(promise, Pure):
        return promise
    fine = 10**12
    return Pure(Fraction(isqrt(int(2 * promise.rho * fine * fine)), fine))


def _asked_about(plan: Plan) -> dict[str, Column]:
    """The columns that a question uses, by name."""
    record = plan.describe().get("domain")
    return {} if not record else {column.name: column for column in Domain.from_dict(record)}


def _with_columns(data: Data, columns: dict[str, Column], end: int) -> Data:
    """An example table with the columns that it lacks: all rows at their lowest values, or at their highest."""
    import pyarrow as pa

    if not isinstance(data, pa.Table):
        return data
    for name, column in columns.items():
        if name not in data.column_names:
            value = column.value((column.size - 1) * end)
            data = data.append_column(name, pa.array([value] * data.num_rows, pa.array([value]).type))
    return data


def _rows(place: int, plan: Plan, table: Table, intervals: tuple[Any, Any] | None) -> list[dict[str, object]]:
    value = "value" if "value" in table.column_names else table.column_names[-1]
    labels = table.column_names[: table.column_names.index(value)]
    ends = None if intervals is None else zip(*(end.tolist() for end in intervals), strict=True)
    question = plan.describe()["released"]
    rows = []
    for record in table.to_pylist():
        of = ", ".join(str(record[name]) for name in labels)
        row = {"number": place, "question": question, "of": of}
        found = record[value]
        name = "day" if isinstance(found, date) else "text" if isinstance(found, str) else "value"
        row |= {name: float(found) if name == "value" else found}
        if ends is not None:
            low, high = next(ends)
            row |= {"low": float(low), "high": float(high)}
        rows.append(row)
    return rows


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
    table: str = field(default="data", kw_only=True)  # the name of the dataset in SQL
    everybody: bool = field(
        default=True, kw_only=True
    )  # False: of several tables, where a unit may have no row in this one

    weighted: ClassVar[bool] = False  # whether questions share one price

    def _answer(self, build: Build, asked: Asked, question: tuple[object, ...] = ()) -> Result:
        """What `build` makes, for a price. `question`: what was asked, in the caller's own words, where it may be asked again."""
        raise NotImplementedError  # pragma: no cover

    def _known(self, asked: Asked, question: str) -> None:
        """Refuses a word that the question does not know, or that means nothing here: it would be paid for without it."""
        for name, value in asked.items():
            if name not in Asked.__annotations__:
                raise self._stranger(name, value, question)
        if "weight" in asked and not self.weighted:
            raise ParameterError(
                "a weight is for the questions of a batch",
                given=told(weight=shown(asked["weight"])),
                needed="questions that share one price",
                fix="with session.batch(eps=1) as batch:",
            )

    def _stranger(self, name: str, value: object, question: str) -> ParameterError:
        """The error for an argument that a question does not have, with the nearest that it has."""
        own = inspect.signature(getattr(self, question)).parameters
        known = [one for one in own if one != "asked"]
        known += [one for one in Asked.__annotations__ if one != "weight" or self.weighted]
        close = nearest(name, known)
        return ParameterError(
            f"{question} has no argument {name!r}" + (f": did you mean {close!r}?" if close else ""),
            given=told(**{name: shown(value)}),
            needed=", ".join(known),
            fix=told(**{close: shown(value)}) if close else f"without {name}",
        )

    def where(self, condition: str) -> Self:
        """Only rows that meet a condition, such as "age >= 20 and region = 'north'"."""
        return self._picked(parse(condition, self.domain))

    @takes(columns=names_of)
    def by(self, *columns: str) -> Self:
        """One answer for each value of a column, or for each combination of several.

        Or for each of bins(age, 10), year(day), month(day); of calendar years and months, "day=year" and "day=month".
        """
        return self._narrowed(groups=(*self.groups, *(group_of(self.domain, name) for name in columns)))

    def count(self, **asked: Unpack[Asked]) -> Result:
        """How many rows; with groups, how many in each."""
        if self.groups:
            return self._histogram(self.groups, asked, "count")
        scope = self._scope(asked, "count")
        return self._answer(lambda promise: count_plan(scope, promise), asked, ("count",))

    def _picked(self, condition: Condition) -> Self:
        """`where`, for a condition that was read already."""
        return self._narrowed(
            condition=condition if self.condition is None else self.condition.and_also(condition)
        )

    def persons(self, **asked: Unpack[Asked]) -> Result:
        """How many persons, each counted once; with groups, how many in each. For a unit of persons."""
        scope, everybody = self._scope(asked, "persons"), self.everybody
        return self._answer(lambda promise: persons_plan(scope, promise, everybody=everybody), asked)

    def mode(self, column: str, **asked: Unpack[Asked]) -> Result:
        """The most frequent value of a column."""
        self._known(asked, "mode")
        return self.top(column, 1, **asked)

    def top(self, column: str, k: int, **asked: Unpack[Asked]) -> Result:
        """The k most frequent values of a column, the most frequent first."""
        scope, of, how_many = self._scope(asked, "top"), self.domain[column], whole("k", k, least=1)
        return self._answer(lambda promise: top_plan(of, how_many, scope, as_pure(promise)), asked)

    def sum(self, column: str | Sequence[str], *, ball: Ball | None = None, **asked: Unpack[Asked]) -> Result:
        """The sum of a column, or of several at once; with groups, of each. With a ball about 0, rows outside it move to its
        edge first."""
        scope, of = self._scope(asked, "sum"), self._columns(column)
        return self._answer(lambda promise: sums_plan(of, scope, promise, ball), asked, ("sum", column, ball))

    def mean(
        self,
        columns: str | Sequence[str],
        *,
        ball: Ball | None = None,
        origin: Number | Sequence[Number] | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The mean of a column, or of several at once. With a ball, rows outside it move to its edge first.

        `origin` is a public guess of each mean, under replace: where the number of rows with a value is private, a mean near
        it has less error.
        """
        scope, of = self._scope(asked, "mean"), self._columns(columns)
        question = "mean", columns, ball, origin
        return self._answer(lambda promise: mean_plan(of, scope, promise, ball, origin), asked, question)

    def variance(self, column: str, **asked: Unpack[Asked]) -> Result:
        """The variance of a column, divided by n."""
        return self.covariance([column], **asked)

    def covariance(
        self, columns: Sequence[str], *, ball: Ball | None = None, **asked: Unpack[Asked]
    ) -> Result:
        """The covariances of all pairs of columns, divided by n. With a ball, rows outside it move to its edge first."""
        scope, of = self._scope(asked, "covariance"), self._columns(columns)
        return self._answer(lambda promise: covariance_plan(of, scope, promise, ball), asked)

    def cross_covariance(self, column: str, other: str, **asked: Unpack[Asked]) -> Result:
        """The covariance of two columns, divided by n, without their variances: it pays for one number, not for three."""
        scope, of = self._scope(asked, "cross_covariance"), self._columns([column, other])
        return self._answer(lambda promise: CovariancePlan(tuple(of), scope, promise, crossed=True), asked)

    def quantile(
        self,
        column: str,
        quantiles: Number | Sequence[Number],
        *,
        method: str | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The values at one or more quantiles between 0 and 1."""
        scope, of = self._scope(asked, "quantile"), self.domain[column]
        return self._answer(
            lambda promise: quantile_plan(of, quantiles, scope, as_pure(promise), method=method),
            asked,
            ("quantile", column, quantiles, method),
        )

    def median(self, column: str, **asked: Unpack[Asked]) -> Result:
        """The value that half of the rows lie below."""
        self._known(asked, "median")
        return self.quantile(column, Fraction(1, 2), **asked)

    @takes(columns=names_of, by=names_of)
    def histogram(
        self,
        columns: str | Sequence[str],
        *,
        edges: Edges | None = None,
        by: str | Sequence[str] = (),
        **asked: Unpack[Asked],
    ) -> Result:
        """How many rows have each value, or lie in each interval between edges."""
        groups = [group_of(self.domain, name) for name in ([by] if isinstance(by, str) else by)]
        names = [columns] if isinstance(columns, str) else list(columns)
        bins = (*self.groups, *groups, *bins_of(self.domain, names, edges))
        return self._histogram(
            bins, asked, "histogram", columns, edges, *([by] if isinstance(by, str) else by)
        )

    def _histogram(self, bins: tuple[Bins, ...], asked: Asked, question: str, *said: object) -> Result:
        self._known(asked, question)
        unit, condition, expected = self.unit, self.condition, asked.get("expected_n")

        def build(promise: Promise) -> Plan:
            return HistogramPlan(bins, unit, promise, condition, expected)

        return self._answer(build, asked, (question, *said))

    @takes(columns=names_of)
    def _columns(self, columns: str | Sequence[str]) -> list[Column]:
        return [self.domain[name] for name in ([columns] if isinstance(columns, str) else columns)]

    def _scope(self, asked: Asked, question: str) -> Scope:
        self._known(asked, question)
        return Scope(self.unit, self.condition, self.groups, self.n, asked.get("expected_n"))

    def _narrowed(self, **changes: object) -> Self:
        other = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other
