"""A database that answers privately: open data once, ask, and let the ledger pay."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack

from oboro.domain import Category, Column, Date, Domain, Integer, Real
from oboro.engine import Source, count_units, open_data
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, about, positive, show
from oboro.kinds import takes, text_of
from oboro.language import aligned, phrase, plain, said
from oboro.ledger import Ledger
from oboro.privacy import Approx, Pure, Unit
from oboro.privacy.unit import check_unit
from oboro.release import Forecast, Plan, Release, run
from oboro.release.plan import a_plan
from oboro.release.run import Made, made, run_again
from oboro.statistics.blocks import sample_aggregate_plan
from oboro.statistics.clusters import clusters_plan
from oboro.statistics.components import components_plan
from oboro.statistics.oracle import Oracle
from oboro.statistics.points import Rows
from oboro.statistics.questions import Asked, BatchPlan, Build, Questions, as_pure, batch_of
from oboro.statistics.row_function import row_function_plan
from oboro.statistics.scope import Scope
from oboro.statistics.smooth import smooth_quantile_plan, trimmed_mean_plan
from oboro.statistics.smooth_noise import SmoothPromise
from oboro.statistics.terms import Promise, promised

if TYPE_CHECKING:
    from oboro.arrays import Data, Table
    from oboro.noise.laws import Law

# Further questions: smooth sensitivity, any function, clusters, components, and an oracle to learn from.

Result = TypeVar("Result")


class Learning(Questions[Result]):
    """Questions of a session, a forecast or a plan that go beyond sums and counts."""

    def quantile(
        self,
        column: str,
        quantiles: Number | Sequence[Number],
        *,
        method: str | None = None,
        delta: Number | None = None,
        noise: Law | None = None,
        beta: Number | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The values at one or more quantiles between 0 and 1.

        `method="smooth"` is for one quantile: noise in proportion to its smooth sensitivity, by default Cauchy for eps,
        Laplace for eps and delta, Laplace-log-normal for rho.
        """
        if method != "smooth":
            if delta is not None or noise is not None or beta is not None:
                raise ParameterError(
                    "delta, noise and beta are for smooth sensitivity",
                    given=told(method=repr(method)),
                    fix=setting(method="smooth"),
                )
            return super().quantile(column, quantiles, method=method, **asked)
        one = quantiles if not isinstance(quantiles, Sequence) or isinstance(quantiles, str) else None
        if one is None:
            raise ParameterError(
                "smooth sensitivity is for one quantile at a time",
                given=f"{quantiles}",
                fix='quantile("age", 0.5, ...)',
            )
        scope, of = self._scope(asked, "quantile"), self.domain[column]
        return self._answer(
            lambda promise: smooth_quantile_plan(
                scope, of, one, guarantee=with_delta(promise, delta), noise=noise, beta=beta
            ),
            asked,
        )

    def median(
        self,
        column: str,
        *,
        method: str | None = None,
        delta: Number | None = None,
        noise: Law | None = None,
        beta: Number | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The value that half of the rows lie below."""
        self._known(asked, "median")
        half = Fraction(1, 2)
        return self.quantile(column, half, method=method, delta=delta, noise=noise, beta=beta, **asked)

    def trimmed_mean(
        self,
        column: str,
        trim: Number = "0.1",
        *,
        delta: Number | None = None,
        noise: Law | None = None,
        beta: Number | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The mean without the `trim` part of smallest and of largest values."""
        scope, of = self._scope(asked, "trimmed_mean"), self.domain[column]
        return self._answer(
            lambda promise: trimmed_mean_plan(
                scope, of, trim, guarantee=with_delta(promise, delta), noise=noise, beta=beta
            ),
            asked,
        )

    def sample_and_aggregate(
        self,
        function: str | Callable[[Rows], object],
        *,
        blocks: int,
        bounds: Sequence[Number] | Sequence[Sequence[Number]],
        columns: Sequence[str] | None = None,
        step: Number | None = None,
        seconds: Number = 5,
        label: str | None = None,
        isolation: str | None = None,
        aggregator: str = "median",
        copies: int = 1,
        **asked: Unpack[Asked],
    ) -> Result:
        """The median or mean over blocks of any function of the rows, given as a dictionary of arrays.

        The function is a `def` that needs nothing from around it, its text, or "module:function". Each block is computed
        in a sealed process that has its block and nothing else; with `isolation="none"`, and on systems that cannot seal,
        in a plain one, with a conditional guarantee. `aggregator` is "median", "mean", or "smooth" for a median with noise by its
        smooth sensitivity. With `copies` each unit draws so many blocks, which then overlap.
        """
        scope, of = (
            self._scope(asked, "sample_and_aggregate"),
            self._columns(self.domain.names if columns is None else columns),
        )
        return self._answer(
            lambda promise: sample_aggregate_plan(
                scope,
                of,
                function,
                blocks=blocks,
                bounds=bounds,
                eps=as_pure(promise).eps,
                step=step,
                seconds=seconds,
                label=label,
                isolation=isolation,
                aggregator=aggregator,
                copies=copies,
            ),
            asked,
        )

    def sum_of(
        self,
        function: str | Callable[[Any], object],
        *,
        columns: Sequence[str],
        seconds: Number = 60,
        label: str | None = None,
        isolation: str | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The sum over rows of any function of one, between 0 and 1. A row is given as a dictionary of its values in `columns`.

        The function is given as to `sample_and_aggregate`. It is computed, sealed, for every row that the columns allow, and
        never sees data.
        """
        scope, of = self._scope(asked, "sum_of"), self._columns(columns)
        return self._answer(
            lambda promise: row_function_plan(
                scope, of, function, promise, seconds=seconds, label=label, isolation=isolation
            ),
            asked,
        )

    def kmeans(
        self, columns: Sequence[str], k: int, *, method: str | None = None, **asked: Unpack[Asked]
    ) -> Result:
        """The centres of k clusters: from a noisy grid, by noisy rounds, or as the slides have it."""
        scope, of = self._scope(asked, "kmeans"), self._columns(columns)
        return self._answer(
            lambda promise: clusters_plan(scope, of, k, eps=as_pure(promise).eps, method=method), asked
        )

    def components(
        self,
        columns: Sequence[str],
        k: int,
        *,
        radius: Number,
        origin: Sequence[Number] | None = None,
        delta: Number | None = None,
        method: str | None = None,
        **asked: Unpack[Asked],
    ) -> Result:
        """The k principal components about a public origin: Gaussian noise for rho, or for eps and delta."""
        scope, of = self._scope(asked, "components"), self._columns(columns)
        return self._answer(
            lambda promise: components_plan(
                scope,
                of,
                k,
                radius=radius,
                origin=origin,
                guarantee=with_delta(promise, delta),
                method=method,
            ),
            asked,
        )

    def sql(self, text: str, *, delta: Number | None = None, **asked: Unpack[Asked]) -> Result:
        """What a statement of SQL asks: one batch, one table, one price; see the page on SQL.

        SELECT groups and figures FROM the table's name, with WHERE, GROUP BY, HAVING, ORDER BY and LIMIT. What is not private
        is worked out after the release. Anything else is refused, and nothing is spent.
        """
        from oboro.statistics.sql import read_statement

        self._known(asked, "sql")
        statement = read_statement(text, self._find)
        return self._answer(lambda promise: statement.plan(with_delta(promise, delta), asked), asked)

    def _find(self, name: str, joined: str | None, key: str | None) -> Learning[Any]:
        """The table that a statement names: this one."""
        from oboro.statistics.sql import refused

        if name.casefold() != self.table.casefold():
            raise refused("there is no such table", f"FROM {name}", f"SELECT COUNT(*) FROM {self.table}")
        if joined is not None:
            raise refused(
                "there is no table to join", f"JOIN {joined}", "several tables: see the page on SQL"
            )
        return self


def with_delta(promise: Promise, delta: Number | None) -> SmoothPromise:
    """The promise, with a delta if there is one."""
    if delta is None:
        return promise
    if not isinstance(promise, Pure):
        raise ParameterError("delta goes with eps", given="rho and delta", fix=setting(delta=None))
    return Approx(promise.eps, positive("delta", delta))


def check_private(plan: Plan, n: int | None) -> None:
    """Refuses what is public, and says it: a ledger has no entries that cost nothing."""
    if plan.guarantee == Pure(0):
        raise ParameterError(
            "the answer is public: there is nothing to pay for",
            given=plan.describe()["released"],
            needed="a question whose answer depends on values",
            fix=f"the public n, which is {n}",
        )


Words = tuple[tuple[type, object], ...]
_MOST = 64  # questions that are kept
_PLAIN = frozenset({str, int, float, Fraction, range, type(None)})  # what says the same whenever it is equal


def _words(question: tuple[object, ...], asked: Asked) -> Words | None:
    """A question in the caller's words, each with its kind; None where it says something that may change under it."""
    if not question:
        return None
    said: list[object] = [len(question), *question]  # a column may be called as what is said with a question
    for name, value in asked.items():
        if name != "name":
            said += [name, value]
    kinds = [*map(type, said)]
    return tuple(zip(kinds, said, strict=True)) if _PLAIN.issuperset(kinds) else None


@dataclass(frozen=True, init=False, repr=False)
class Session(Learning[Release]):
    """Data, its domain, who is protected, and the ledger that pays.

    Nothing is read but the names and types of columns, and under "replace" the number of units, which is public.

    >>> print(people.forecast.mean("income", eps="0.1"))
    expected error of each mean
      of each                          standard error  95% within ±
      mean of income, near the middle           141.4         299.6
      mean of income, near a bound                200         416.4
      note: the noisy count costs nothing extra under replace
      note: for 1,000 rows
      note: with missing= declared for income every row counts: the error near a bound would be 1.4 times smaller
      note: with origin=, a public guess of the mean, the error near that guess is as small as it can be
    >>> release = people.where("age >= 20").count(eps="0.1")
    >>> release.cost, type(release.value)
    (Approx('0.1', 0), <class 'int'>)
    >>> ledger.remaining
    Approx('1.9', '1e-5')
    """

    source: Source
    ledger: Ledger
    # Questions by their words, and the plans made of them: of the very same question no plan is made twice. Nobody else holds these.
    _lately: OrderedDict[Words, tuple[tuple[object, ...], Made]] = field(compare=False, repr=False)

    @takes(domain=Domain, ledger=Ledger, unit=Unit)
    def __init__(
        self,
        data: Data,
        *,
        domain: Domain,
        ledger: Ledger,
        unit: Unit | None = None,
        name: str | None = None,
    ) -> None:
        source, unit = open_data(data), unit or ledger.unit
        source.need(*[name for column in domain for name in column.sources])
        check_unit(unit, ledger.unit, ledger.budget)
        public = unit.adjacency == "replace" and unit.kind in ("row", "person")
        super().__init__(domain, unit, count_units(source, unit) if public else None)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "ledger", ledger)
        object.__setattr__(self, "_lately", OrderedDict())
        stem = Path(data).name.partition(".")[0] if isinstance(data, str | Path) else ""
        object.__setattr__(self, "table", text_of("name", name) if name is not None else stem or "data")

    @property
    def forecast(self) -> Forecasts:
        """The same questions, answered by the error that is to be expected: free."""
        return Forecasts(
            self.domain,
            self.unit,
            self.n,
            condition=self.condition,
            groups=self.groups,
            table=self.table,
            everybody=self.everybody,
        )

    @property
    def plan(self) -> Plans:
        """The same questions, answered by their plans: to save, to price, to audit."""
        return Plans(
            self.domain,
            self.unit,
            self.n,
            condition=self.condition,
            groups=self.groups,
            table=self.table,
            everybody=self.everybody,
        )

    @property
    def oracle(self) -> Oracle:
        """Statistical queries, priced by their tolerance, and learners on top."""
        return Oracle(self.domain, Scope(self.unit, self.condition, self.groups, self.n), self.run)

    @takes(plan=a_plan)
    def run(self, plan: Plan, name: str | None = None) -> Release:
        """Runs any plan on this data, and pays for it."""
        check_private(plan, self.n)
        return run(plan, self.source, self.ledger, name)

    def batch(
        self,
        *,
        eps: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        name: str | None = None,
    ) -> Batch:
        """Several questions for one price; with a delta, composed tightly. They are asked when the block ends."""
        promise = with_delta(promised(eps, rho), delta)
        return Batch(
            self.domain,
            self.unit,
            self.n,
            promise,
            self.run,
            name,
            condition=self.condition,
            groups=self.groups,
            everybody=self.everybody,
        )

    def describe(self) -> Description:
        """Public facts only: who is protected, what is declared, what is left of the budget."""
        facts = {"dataset": self.ledger.dataset, "unit": str(self.unit)}
        if self.n is not None:
            facts["n"] = f"{self.n:,} (public under replace)"
        if self.condition is not None:
            facts["where"] = str(self.condition)
        facts |= {"budget": str(self.ledger.budget), "left": str(self.ledger.remaining)}
        return Description(facts, tuple(described(column) for column in self.domain))

    def _answer(self, build: Build, asked: Asked, question: tuple[object, ...] = ()) -> Release:
        here = self.domain, self.unit, self.n, self.condition, self.groups, self.everybody
        words = _words(question, asked)
        known = None if words is None else self._lately.pop(words, None)
        if known is None or not all(map(operator.is_, known[0], here)):
            plan = build(promised(asked.get("eps"), asked.get("rho")))
            check_private(plan, self.n)
            known = here, made(plan)
        if words is not None and known[1].kept:
            self._lately[words] = known
            while len(self._lately) > _MOST:
                self._lately.popitem(last=False)
        return run_again(known[1], self.source, self.ledger, asked.get("name"))

    def __repr__(self) -> str:
        return (
            f"Session(dataset={self.ledger.dataset!r}, unit={self.unit!r}, columns={list(self.domain.names)})"
        )


@dataclass(frozen=True)
class Forecasts(Learning[Forecast]):
    """Questions that are answered by a forecast."""

    def _answer(self, build: Build, asked: Asked, question: tuple[object, ...] = ()) -> Forecast:
        return build(promised(asked.get("eps"), asked.get("rho"))).forecast()


@dataclass(frozen=True)
class Plans(Learning[Plan]):
    """Questions that are answered by their plan."""

    def _answer(self, build: Build, asked: Asked, question: tuple[object, ...] = ()) -> Plan:
        return build(promised(asked.get("eps"), asked.get("rho")))


@dataclass(frozen=True)
class Builds(Learning[Build]):
    """Questions that are answered by what makes their plan, for a price."""

    def _answer(self, build: Build, asked: Asked, question: tuple[object, ...] = ()) -> Build:
        return build


_SHOWN = 12  # rows of an answer that are printed


@dataclass(eq=False, repr=False)
class Answer:
    """A question of a batch. It has a value when the batch is done. Prints well."""

    build: Build
    weight: Fraction
    _table: Table | None = None
    _question: str = ""

    def answered(self, place: int, table: Table) -> None:
        """Takes its rows from what the batch released."""
        own = table.filter(table.column("number").to_numpy() == place)
        self._question = own.column("question")[0].as_py() if own.num_rows else ""
        self._table = own.drop_columns(["number", "question"])

    def __repr__(self) -> str:
        """In the reader's language: of what, value, low, high; or that it waits for the end of its block."""
        if self._table is None:
            return said("the batch has not been asked yet")
        rows = [[_text(cell) for cell in row.values()] for row in self._table.slice(0, _SHOWN).to_pylist()]
        head = [said(name) for name in self._table.column_names]
        kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
        texts = [[row[i] for i in kept] for row in (head, *rows)]
        sides = "".join("<" if "string" in str(self._table.schema.types[i]) else ">" for i in kept)
        more = self._table.num_rows - len(rows)
        rest = ["  " + said(f"... {more:,} more")] if more > 0 else []
        return "\n".join([phrase(self._question), "", *aligned(texts, sides), *rest])

    @property
    def table(self) -> Table:
        """What was released about this question: of what, value, low, high."""
        if self._table is None:
            raise ParameterError(
                "the batch has not been asked yet",
                needed="the end of its block",
                fix="with people.batch(...) as batch:",
            )
        return self._table

    @property
    def value(self) -> Any:
        """A number where the answer is one number; otherwise the table."""
        if self.table.num_rows != 1:
            return self.table
        row = self.table.to_pylist()[0]
        return next((row[name] for name in ("day", "text") if row.get(name) is not None), row["value"])


@dataclass(frozen=True)
class Batch(Questions[Answer]):
    """Questions that are collected, and asked together at the end of a `with` block.

    >>> with people.batch(eps="0.5") as batch:
    ...     income, age = batch.mean("income", weight=2), batch.median("age")
    >>> ledger.remaining
    Approx('1.5', '1e-5')
    """

    weighted: ClassVar[bool] = True
    promise: Promise | Approx
    _run: Callable[[Plan, str | None], Release] = field(repr=False)
    name: str | None
    _asked: list[Answer] = field(default_factory=list, repr=False)
    _released: list[Release] = field(default_factory=list, repr=False)

    @property
    def plan(self) -> BatchPlan:
        """One plan for all questions so far, each with its share."""
        builds, weights = [answer.build for answer in self._asked], [answer.weight for answer in self._asked]
        return batch_of(builds, weights, self.promise)

    @property
    def forecast(self) -> Forecast:
        """The split, and the error of each answer: free."""
        return self.plan.forecast()

    @property
    def release(self) -> Release:
        """What was released, when the block has ended."""
        if not self._released:
            raise ParameterError("the batch has not been asked yet", needed="the end of its block")
        return self._released[0]

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._asked:
            return  # nothing is asked, and nothing is spent
        release = self._run(self.plan, self.name)
        table = release.to_arrow()
        for place, answer in enumerate(self._asked):
            answer.answered(place, table)
        self._released.append(release)

    def _answer(self, build: Build, asked: Asked, question: tuple[object, ...] = ()) -> Answer:
        if asked.get("eps") is not None or asked.get("rho") is not None or asked.get("name") is not None:
            raise ParameterError(
                "a batch has one price and one name for all its questions",
                given=", ".join(asked),
                needed="a weight, if a question matters more than others",
                fix='batch.mean("income", weight=2)',
            )
        build(Pure(1))  # refuses what cannot be asked, now and not at the end
        answer = Answer(build, positive("weight", asked.get("weight", 1)))
        self._asked.append(answer)
        return answer


def _text(value: object) -> str:
    if isinstance(value, float):
        return about(value, 6)
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Description:
    """Public facts about a session. Prints well."""

    facts: dict[str, str]
    columns: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        lines = [f"{name:<8} {plain(value)}" for name, value in self.facts.items()]
        return "\n".join([*lines, "columns", *aligned(self.columns, "<")])

    __repr__ = __str__


def described(column: Column) -> tuple[str, str, str]:
    if isinstance(column, Category):
        text = ", ".join(str(value) for value in column.values[:6]) + (", ..." if column.size > 6 else "")
    elif isinstance(column, Date):
        text = f"{column.first} to {column.last}"
    elif isinstance(column, Integer | Real):
        text = f"{show(column.low)} to {show(column.high)}, step {show(column.step)}"
    else:
        text = f"{column.size:,} values"
    missing = "left out if missing" if column.missing is None else f"{column.missing} if missing"
    return column.name, text, missing
