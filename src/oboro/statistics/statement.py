"""A statement: questions that are asked together, and one table of what was released, worked out after the release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from oboro.arrays import Floats, numbers_in
from oboro.domain import Domain
from oboro.errors import ParameterError
from oboro.exact import whole
from oboro.kinds import shown
from oboro.noise import Bits
from oboro.privacy import Guarantee, Unit
from oboro.release import Additive, Forecast, Pair, Part, Plan, register
from oboro.statistics.answers import codes_of, groups_of, labels_of
from oboro.statistics.histogram import HistogramPlan
from oboro.statistics.means import MeanPlan, two_noises
from oboro.statistics.moments import CovariancePlan
from oboro.statistics.quantiles import QuantilePlan
from oboro.statistics.questions import BatchPlan
from oboro.statistics.scope import Bins
from oboro.statistics.selections import TopPlan

if TYPE_CHECKING:
    from oboro.arrays import Data, Table

LEVEL = 0.95
MOST_OUTPUTS = 200
DEEPEST = 40
LARGEST_CONSTANT = 2**1000  # what is worked out is floats
Range: TypeAlias = (
    "tuple[Any, Any, Any]"  # values, and the ends of their intervals; None where there are none
)


class Expression:
    """What is worked out for each group from released figures: post-processing, without data or noise."""


@dataclass(frozen=True)
class Figure(Expression):
    """A released figure of a question: `field` of its table. `place`: which quantile, which pair, which of the most frequent."""

    question: int
    field: str = "value"
    place: int = 0
    kind = "figure"


@dataclass(frozen=True)
class Group(Expression):
    """The label of a group: of the bins at this place."""

    place: int
    kind = "group"


@dataclass(frozen=True)
class Constant(Expression):
    """A number of the statement."""

    value: Fraction
    kind = "constant"


@dataclass(frozen=True)
class Call(Expression):
    """Arithmetic, rounding, or a comparison of released figures."""

    word: str
    parts: tuple[Expression, ...]
    kind = "call"


ARITHMETIC = {"+": 2, "-": 2, "*": 2, "/": 2, "negative": 1, "round": 2}
TESTS = {"=": 2, "!=": 2, "<": 2, "<=": 2, ">": 2, ">=": 2, "and": 2, "or": 2, "not": 1}


@dataclass(frozen=True)
class Output:
    """A column of the result."""

    name: str
    of: Expression


@dataclass(frozen=True)
class Ordering:
    """Which rows come first."""

    of: Expression
    descending: bool = False


def _columns_of(output: Output) -> Iterator[str]:
    """How its columns are called: the figure, and the ends of its interval."""
    yield output.name
    if not isinstance(output.of, Group):
        yield f"{output.name} low"
        yield f"{output.name} high"


def encodable(text: str) -> bool:
    """Whether a text can be written to a file: half a sign of UTF-16 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@register
@dataclass(frozen=True)
class StatementPlan(Plan):
    """Questions that share one price, and one table that is worked out from their answers.

    Arithmetic, ROUND, HAVING, ORDER BY and LIMIT look at released figures alone. Each figure has a 95% interval; one that
    is worked out from k figures has theirs at 1 - 0.05/k each, which together hold with 95% or more.

    Privacy
        What is measured is the batch, with its parts and its noise; the rest is a function of what it releases, and
        public facts [post-processing].

    >>> from oboro.statistics.statement import Figure, Output
    >>> batch = ob.statistics.BatchPlan((people.plan.mean("income", eps="0.1"),), ob.Pure("0.1"))
    >>> plan = ob.statistics.StatementPlan(batch, (Output("avg(income)", Figure(0)),))
    >>> plan.guarantee, plan.publish(plan.measure(plan.prepare(data), ob.noise.Bits())).column_names
    (Pure('0.1'), ['avg(income)', 'avg(income) low', 'avg(income) high'])
    """

    batch: BatchPlan
    outputs: tuple[Output, ...]
    having: Expression | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    kind = "statistics.statement"

    def check(self) -> None:
        groups = self.groups
        if any(groups_of(plan) != groups for plan in self.batch.plans):
            raise ParameterError("the questions of a statement have different groups", needed="one GROUP BY")
        names = [name for output in self.outputs for name in _columns_of(output)]
        fits = 1 <= len(self.outputs) <= MOST_OUTPUTS and all(output.name for output in self.outputs)
        if not fits or len(set(names)) != len(names) or not all(map(encodable, names)):
            raise ParameterError(
                "the columns of the result need different names",
                given=ascii(", ".join(one.name for one in self.outputs[:20]))[1:-1] or "no column",
                needed=f"1 to {MOST_OUTPUTS} different names, also with low and high after them",
                fix="AVG(age) AS mean_age",
            )
        for expression in (*(one.of for one in self.outputs), *(one.of for one in self.order)):
            self._check(expression, number=False)
        if self.having is not None:
            self._check(self.having, test=True)
        if self.limit is not None:
            whole("limit", self.limit, least=0, most=2**31)

    def _check(
        self, expression: Expression, depth: int = 0, *, number: bool = True, test: bool = False
    ) -> None:
        if isinstance(expression, Figure) and 0 <= expression.question < len(self.batch.plans):
            plan = self.batch.plans[expression.question]
            known = expression.place in fields_of(plan).get(expression.field, ())
            if known and not test and (not number or is_number(plan)):
                return
        elif isinstance(expression, Group):
            if not number and not test and 0 <= expression.place < len(self.groups):
                return
        elif isinstance(expression, Constant):
            if not test and abs(expression.value) < LARGEST_CONSTANT:
                return
        elif isinstance(expression, Call) and depth < DEEPEST:
            words = TESTS if test else ARITHMETIC
            if words.get(expression.word) == len(expression.parts):
                if expression.word == "round":
                    self._check_digits(expression.parts[1])
                joined = expression.word in ("and", "or", "not")
                for part in expression.parts:
                    self._check(part, depth + 1, test=joined)
                return
        raise ParameterError(
            "a column of the result cannot be worked out",
            given=shown(expression),
            needed="arithmetic, ROUND and comparisons of figures that are numbers",
            fix="AVG(age) / 2",
        )

    @staticmethod
    def _check_digits(digits: Expression) -> None:
        fine = isinstance(digits, Constant) and digits.value.denominator == 1 and abs(digits.value) <= 30
        if not fine:
            raise ParameterError(
                "ROUND takes whole numbers of digits", given=shown(digits), fix="ROUND(AVG(age), 1)"
            )

    @property
    def unit(self) -> Unit:
        return self.batch.unit

    @property
    def guarantee(self) -> Guarantee:
        return self.batch.guarantee

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return self.batch.parts

    @cached_property
    def cost(self) -> Guarantee:
        return self.batch.cost

    @property
    def groups(self) -> tuple[Bins, ...]:
        return groups_of(self.batch.plans[0])

    @property
    def footnote(self) -> str:
        each = "low and high are the 95% interval of each figure by itself; they cover the noise, not errors in the data, nor records left out or clamped"
        picked = "; ORDER BY, LIMIT and HAVING look at noisy figures, and no interval is promised for rows that they pick"
        return each + (picked if self.order or self.having or self.limit is not None else "")

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Years and codes are written as they are."""
        return tuple(one.name for one in self.outputs if isinstance(one.of, Group))

    @property
    def slowness(self) -> int:
        return self.batch.slowness

    def added(self) -> Additive | None:
        return self.batch.added()

    def forecast(self) -> Forecast:
        return replace(self.batch.forecast(), title="expected error of each figure")

    def prepare(self, data: Data) -> list[object]:
        return self.batch.prepare(data)

    def measure(self, prepared: list[object], bits: Bits, trials: int | None = None) -> list[object]:
        return self.batch.measure(prepared, bits, trials)

    @property
    def published_rows(self) -> int:
        rows = prod(bins.size for bins in self.groups)
        return rows if self.limit is None else min(rows, self.limit)

    @property
    def published_columns(self) -> int:
        return sum(1 for output in self.outputs for _ in _columns_of(output))

    def publish(self, measured: list[object]) -> Table:
        """The outputs as columns, each with low and high where it has an interval; picked and in order."""
        import pyarrow as pa

        worked = _Worked(self, self.batch.tables(measured))
        columns: dict[str, pa.Array] = {}
        for output in self.outputs:
            value, low, high = worked.out(output.of)
            columns[output.name] = _arrow(value)
            if low is not None:
                columns[f"{output.name} low"], columns[f"{output.name} high"] = _arrow(low), _arrow(high)
        table = pa.table(columns)
        rows = np.arange(table.num_rows)
        if self.having is not None:
            rows = rows[worked.test(self.having)[0]]
        for ordering in reversed(self.order):  # the last key first, each time in a stable way
            keys = worked.keys(ordering.of)[rows]
            rows = rows[np.argsort(-keys if ordering.descending else keys, kind="stable")]
        return table.take(pa.array(rows[: self.limit]))

    @property
    def _counts(self) -> dict[str, Figure]:
        """Columns that are counts: of a question of their own, or beside a mean. What is worked out from counts is none."""
        found = {one.name: one.of for one in self.outputs if isinstance(one.of, Figure)}
        return {
            name: own
            for name, own in found.items()
            if own.field == "count" or self.batch.plans[own.question].has_counts
        }

    def _count_ends(self, own: Figure, counts: Any, level: float) -> tuple[Any, Any]:
        """The intervals of noisy counts: raw, and at 0 or more."""
        if own.field != "count":
            return self.batch.count_ends(own.question, counts, level)
        plan, reach = self.batch.plans[own.question], self.batch.mean_reach(own.question, "count", level)
        assert isinstance(plan, MeanPlan)
        reach = mean_reach(plan, "count", level) if reach is None else reach
        value = np.asarray(counts.to_numpy(zero_copy_only=False), float)
        raw = value - reach, value + reach
        return raw, tuple(np.maximum(end, 0) for end in raw)

    @property
    def has_counts(self) -> bool:
        return bool(self._counts)

    def not_negative(self, table: Table, level: float) -> Table:
        """Each column of counts raw and at 0 or more, with low and high for either; the other columns as they are."""
        import pyarrow as pa
        import pyarrow.compute as pc

        figures, columns = self._counts, dict[str, Any]()
        skipped = {f"{name} {end}" for name in figures for end in ("low", "high")}
        for name in table.column_names:
            if name in skipped:
                continue
            columns[name] = table.column(name)
            if name in figures:
                counts = table.column(name).combine_chunks()
                raw, cut = self._count_ends(figures[name], counts, level)
                other = f"{name} at 0 or more"
                while {other, f"{other} low", f"{other} high"} & set(table.column_names):
                    other += " here"  # another column has that name
                columns[f"{name} low"], columns[f"{name} high"] = map(pa.array, raw)
                columns[other] = pc.max_element_wise(counts, pa.scalar(0, counts.type))
                columns[f"{other} low"], columns[f"{other} high"] = map(pa.array, cut)
        return pa.table(columns)

    def describe(self) -> dict[str, object]:
        found = {
            column.name: column
            for plan in self.batch.plans
            for column in plan.reads
            if plan.describe().get("domain")
        }
        inner = self.batch.plans[0] if len(self.batch.plans) == 1 else self.batch
        return {
            "released": inner.describe()["released"],
            "noise": self.batch.describe()["noise"],
            **({"domain": Domain(found.values()).to_dict()} if found else {}),
        }

    def neighbours(self) -> Iterator[Pair]:
        yield from self.batch.neighbours()


# -- figures: what a question released, for each group, with its interval -------------------------------------------------------------


def fields_of(plan: Plan) -> dict[str, range]:
    """The figures of a question: the fields, and how many of each there are."""
    if isinstance(plan, MeanPlan) and len(plan.columns) == 1:
        return {name: range(1) for name in ("value", "sum", "count")}
    if isinstance(plan, CovariancePlan) and plan.ball is None:
        if len(plan.columns) == 1:
            return {"value": range(1), "deviation": range(1)}
        several = {"correlation": range(1)} if len(plan.pairs) == 3 else {}
        return {"value": range(len(plan.pairs)), **several}
    if isinstance(plan, QuantilePlan):
        return {"value": range(len(plan.quantiles))}
    if isinstance(plan, TopPlan):
        return {"value": range(plan.k)}
    return {} if isinstance(plan, MeanPlan | CovariancePlan) else {"value": range(1)}


def is_number(plan: Plan) -> bool:
    """Whether its figures are numbers: the most frequent value may be a text, a median a day."""
    from oboro.domain import Integer, Real

    return not isinstance(plan, QuantilePlan | TopPlan) or isinstance(plan.column, Integer | Real)


class _Worked:
    """Figures and what is worked out from them."""

    def __init__(self, plan: StatementPlan, tables: Sequence[Table]) -> None:
        self.plan, self.tables = plan, tables
        self.size = int(np.prod([bins.size for bins in plan.groups], dtype=np.int64))

    def out(self, expression: Expression) -> Range:
        """The values, and the ends of intervals that hold together."""
        if isinstance(expression, Group):
            return labels_of(self.plan.groups, expression.place), None, None
        if isinstance(expression, Figure):
            return self.figure(expression, LEVEL)
        figures = set(_figures(expression))
        level = 1 - (1 - LEVEL) / max(1, len(figures))
        found = self.range(expression, level)
        known = all(self.figure(one, level)[1] is not None for one in figures)
        return found if known and figures else (found[0], None, None)

    def keys(self, expression: Expression) -> Floats:
        """Numbers in the order of the values; groups are in the order in which the domain lists them."""
        if isinstance(expression, Group):
            return codes_of(self.plan.groups, expression.place).astype(float)
        value = self.out(expression)[0]
        if not isinstance(value, np.ndarray):
            values = value.to_pylist()
            ranks = {one: place for place, one in enumerate(sorted(set(values)))}
            return np.asarray([ranks[one] for one in values], float)
        return value.astype(float)  # what could not be worked out is NaN, which comes last, either way round

    def figure(self, one: Figure, level: float) -> Range:
        plan, table = self.plan.batch.plans[one.question], self.tables[one.question]
        if isinstance(plan, QuantilePlan | TopPlan):
            several = len(plan.quantiles) if isinstance(plan, QuantilePlan) else plan.k
            column = table.column("value").combine_chunks()
            value = column.take(_places(one.place, several, len(column)))
            return (value.to_numpy(zero_copy_only=False) if is_number(plan) else value), None, None
        if isinstance(plan, MeanPlan) and one.field != "value":
            value, reach = (
                numbers_in(table, one.field),
                self.plan.batch.mean_reach(one.question, one.field, level),
            )
            reach = mean_reach(plan, one.field, level) if reach is None else reach
            return value, value - reach, value + reach
        if isinstance(plan, CovariancePlan):
            return self._covariance(plan, table, one, level)
        name = table.column_names[-1] if isinstance(plan, HistogramPlan) else "value"
        ends = self.plan.batch.ends_of(one.question, table, level)
        assert ends is not None
        low, high = ends
        return table.column(name).to_numpy(), low, high

    def _covariance(self, plan: CovariancePlan, table: Table, one: Figure, level: float) -> Range:
        level = 1 - (1 - level) / 3 if one.field == "correlation" else level
        assert plan.intervals is not None
        every = (table.column("value").to_numpy(), *plan.intervals(table, level))
        pairs = [
            [ends[at * self.size : (at + 1) * self.size] for ends in every] for at in range(len(plan.pairs))
        ]
        if one.field == "deviation":
            value, low, high = (np.sqrt(np.maximum(ends, 0)) for ends in pairs[0])
            return value, low, high
        if one.field == "correlation":
            return _correlation(*pairs)
        value, low, high = pairs[one.place]
        return value, low, high

    def range(self, expression: Expression, level: float) -> Range:
        """Values and ends, by interval arithmetic; constants are their own interval."""
        if isinstance(expression, Constant):
            exact = np.full(self.size, float(expression.value))
            return exact, exact, exact
        if isinstance(expression, Figure):
            value, low, high = (
                None if one is None else np.asarray(one, float) for one in self.figure(expression, level)
            )
            return value, value if low is None else low, value if high is None else high
        assert isinstance(expression, Call)
        with np.errstate(all="ignore"):
            if expression.word == "round":
                digits = int(expression.parts[1].value)  # type: ignore[attr-defined]
                value, low, high = (_rounded(one, digits) for one in self.range(expression.parts[0], level))
                return value, low, high
            return _OPERATIONS[expression.word](*(self.range(part, level) for part in expression.parts))

    def test(self, expression: Expression) -> tuple[Any, Any]:
        """Which groups meet a condition on released figures, and which do not: neither where one could not be worked out."""
        assert isinstance(expression, Call)
        if expression.word in ("and", "or", "not"):
            yes, no = zip(*(self.test(part) for part in expression.parts), strict=True)
            if expression.word == "not":
                return no[0], yes[0]
            every, some = np.logical_and, np.logical_or
            return (every(*yes), some(*no)) if expression.word == "and" else (some(*yes), every(*no))
        one, other = (self.range(part, LEVEL)[0] for part in expression.parts)
        known, met = ~(np.isnan(one) | np.isnan(other)), _COMPARED[expression.word](one, other)
        return known & met, known & ~met


def mean_reach(plan: MeanPlan, field: str, level: float) -> float:
    """How far the noise of a mean's noisy sum or noisy count goes with this probability."""
    frame, terms, one = plan.frame, plan.terms, np.ones(1)
    unit, centre, span = frame.unit(0), frame.centre(0), max(1, plan.columns[0].size - 1)
    if field == "count":
        if plan.form == "n public":
            return 0.0
        a, b = (1 / span, 1 / span) if plan.form == "two-sided" else (0.0, 1.0)
    elif plan.form == "two-sided":
        a, b = unit + centre / span, centre / span - unit
    else:
        a, b = unit, 0.0 if plan.form == "n public" else centre
    return float(two_noises(terms[0], terms[-1], a * one, b * one, level)[0])


def _places(first: int, step: int, end: int) -> Any:
    return np.arange(first, end, step)


def _figures(expression: Expression) -> Iterator[Figure]:
    if isinstance(expression, Figure):
        yield expression
    for part in expression.parts if isinstance(expression, Call) else ():
        yield from _figures(part)


def _arrow(values: Any) -> Any:
    import pyarrow as pa

    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "f":
        return pa.array(values, mask=~np.isfinite(values))
    return pa.array(values)


def _rounded(values: Any, digits: int) -> Any:
    """As a number is written, half away from 0."""
    scale = 10.0**digits
    return np.sign(values) * np.floor(np.abs(values) * scale + 0.5) / scale


def _spread(combine: Callable[[Any, Any], Any]) -> Callable[[Range, Range], Range]:
    def work(one: Range, other: Range) -> Range:
        ends = [combine(a, b) for a in one[1:] for b in other[1:]]
        return combine(one[0], other[0]), np.min(ends, axis=0), np.max(ends, axis=0)

    return work


def _divided(one: Range, other: Range) -> Range:
    crosses = (other[1] <= 0) & (other[2] >= 0)
    value, low, high = _spread(np.divide)(one, other)
    value = np.where(other[0] == 0, np.nan, value)
    return value, np.where(crosses, -np.inf, low), np.where(crosses, np.inf, high)


def _correlation(first: Any, cross: Any, second: Any) -> Range:
    """From intervals of both variances and the covariance that hold together."""
    with np.errstate(all="ignore"):
        value = np.clip(cross[0] / np.sqrt(first[0] * second[0]), -1, 1)
        smallest, largest = (np.sqrt(np.maximum(first[i] * second[i], 0)) for i in (1, 2))
        low = np.where(cross[1] >= 0, cross[1] / largest, cross[1] / smallest)
        high = np.where(cross[2] >= 0, cross[2] / smallest, cross[2] / largest)
        unknown = np.isnan(low) | np.isnan(high)
    low, high = np.where(unknown, -1.0, np.clip(low, -1, 1)), np.where(unknown, 1.0, np.clip(high, -1, 1))
    return value, low, high


_OPERATIONS: dict[str, Callable[..., Range]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2]),
    "-": lambda a, b: (a[0] - b[0], a[1] - b[2], a[2] - b[1]),
    "*": _spread(np.multiply),
    "/": _divided,
    "negative": lambda a: (-a[0], -a[2], -a[1]),
}
_COMPARED: dict[str, Callable[..., Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
