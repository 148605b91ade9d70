"""Which questions answer the figures that a statement asks for, and which of them share a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from oboro.errors import ParameterError
from oboro.privacy import Approx
from oboro.statistics.questions import Asked, BatchPlan, Build, batch_of
from oboro.statistics.scope import Bins
from oboro.statistics.session import Builds, Learning
from oboro.statistics.statement import Call, Expression, Figure, Ordering, Output, StatementPlan
from oboro.statistics.terms import Promise
from oboro.statistics.where import Condition, Junction, absent


@dataclass(frozen=True)
class Aggregate(Expression):
    """A figure that is asked for, before it is known which question answers it."""

    word: str
    columns: tuple[str, ...] = ()
    number: Fraction = Fraction(0)  # which quantile, how many values
    place: int = 0


@dataclass(frozen=True)
class Statement:
    """A statement that was understood: what it asks of whom, and what is shown of it."""

    asked: Learning[Any]
    condition: Condition | None
    groups: tuple[Bins, ...]
    outputs: tuple[Output, ...]
    having: Expression | None
    order: tuple[Ordering, ...]
    limit: int | None

    def plan(self, promise: Promise | Approx, asked: Asked) -> StatementPlan:
        """The plan that answers it for this price, all questions alike."""
        expected: Asked = {"expected_n": asked["expected_n"]} if "expected_n" in asked else {}
        wanted = self.wanted
        if not wanted:
            raise ParameterError(
                "the statement asks for no figure",
                given="groups alone, which are public",
                needed="a figure, such as COUNT(*)",
                fix="COUNT(*)",
            )
        base = self.asked
        questions = Builds(
            base.domain,
            base.unit,
            base.n,
            condition=self.condition,
            groups=self.groups,
            everybody=base.everybody,
        )
        builds, figures = _questions(questions, wanted, expected)
        batch: BatchPlan = batch_of(builds, [Fraction(1)] * len(builds), promise)

        def put(expression: Expression) -> Expression:
            if isinstance(expression, Aggregate):
                return figures[expression]
            return (
                replace(expression, parts=tuple(map(put, expression.parts)))
                if isinstance(expression, Call)
                else expression
            )

        return StatementPlan(
            batch,
            tuple(Output(one.name, put(one.of)) for one in self.outputs),
            None if self.having is None else put(self.having),
            tuple(Ordering(put(one.of), one.descending) for one in self.order),
            self.limit,
        )

    @property
    def wanted(self) -> list[Aggregate]:
        """The figures that it asks for, each once."""
        return list(dict.fromkeys(_aggregates(self._expressions())))

    def _expressions(self) -> list[Expression]:
        having = [] if self.having is None else [self.having]
        return [*(one.of for one in self.outputs), *having, *(one.of for one in self.order)]


def _aggregates(expressions: Iterable[Expression]) -> Iterable[Aggregate]:
    for one in expressions:
        if isinstance(one, Aggregate):
            yield one
        elif isinstance(one, Call):
            yield from _aggregates(one.parts)


# -- which questions answer what is asked --------------------------------------------------------------------------------------------


def _questions(
    asked: Builds, wanted: Sequence[Aggregate], expected: Asked
) -> tuple[list[Build], dict[Aggregate, Figure]]:
    """One question for figures that share a measurement, in the order in which they are first asked for."""
    builds: dict[object, Build] = {}
    keys: dict[Aggregate, tuple[object, str, int]] = {}
    of: dict[str, set[str]] = {}  # the words that a column is asked by
    for one in wanted:
        for name in one.columns:
            of.setdefault(name, set()).add(one.word)
    present = {name for name in of if _always_there(asked, name)}
    shared = {name for name, words in of.items() if "avg" in words or {"sum", "count"} <= words}
    by_quantile = {
        name: sorted({one.number for one in wanted if one.word == "quantile" and one.columns == (name,)})
        for name in of
    }
    longest = {
        name: max(
            [int(one.number) for one in wanted if one.word == "top" and one.columns == (name,)], default=0
        )
        for name in of
    }
    correlated = {one.columns for one in wanted if one.word == "corr"}
    counts_all = next((name for name in of if name in present and name in shared), None)
    if counts_all is None and any(
        one.word == "rows" for one in wanted
    ):  # a sum with a count is a mean's measurement
        counts_all = next((name for name in of if name in present and "sum" in of[name]), None)
        shared |= {counts_all} if counts_all is not None else set()

    def ask(key: object, build: Callable[[], Any]) -> None:
        if key not in builds:
            builds[key] = build()

    for one in wanted:
        word, columns = one.word, one.columns
        name = columns[0] if columns else ""
        key: object = (word, columns)
        field, place = "value", 0
        if word == "rows" or (word == "count" and name in present and name not in shared):
            key, field = (("mean", counts_all), "count") if counts_all is not None else (("rows",), "value")
            if counts_all is not None:
                ask(key, lambda: asked.mean(str(counts_all), **expected))
            else:
                ask(key, lambda: asked.count(**expected))
        elif word in ("avg", "sum", "count") and name in shared:
            key, field = ("mean", name), {"avg": "value"}.get(word, word)
            ask(key, lambda name=name: asked.mean(name, **expected))  # type: ignore[misc]
        elif word == "sum":
            ask(key, lambda name=name: asked.sum(name, **expected))  # type: ignore[misc]
        elif word == "count":
            there = asked._picked(Condition(Junction("not", (absent(asked.domain[name]),))))
            ask(key, lambda there=there: there.count(**expected))  # type: ignore[misc]
        elif word in ("variance", "deviation"):
            key, field = ("variance", name), "value" if word == "variance" else "deviation"
            ask(key, lambda name=name: asked.variance(name, **expected))  # type: ignore[misc]
        elif word in ("covariance", "corr"):
            both = columns in correlated
            key, place = ("covariance", columns), 1 if both and word == "covariance" else 0
            field = "correlation" if word == "corr" else "value"
            if both:
                ask(key, lambda columns=columns: asked.covariance(list(columns), **expected))  # type: ignore[misc]
            else:
                ask(key, lambda columns=columns: asked.cross_covariance(*columns, **expected))  # type: ignore[misc]
        elif word == "quantile":
            key, place = ("quantile", name), by_quantile[name].index(one.number)
            at = by_quantile[name]
            ask(key, lambda name=name, at=at: asked.quantile(name, at, **expected))  # type: ignore[misc]
        elif word == "top":
            key, place = ("top", name), one.place
            ask(key, lambda name=name: asked.top(name, longest[name], **expected))  # type: ignore[misc]
        else:
            ask(key, lambda: asked.persons(**expected))
        keys[one] = key, field, place
    places = {key: place for place, key in enumerate(builds)}
    return list(builds.values()), {
        one: Figure(places[key], field, at) for one, (key, field, at) in keys.items()
    }


def _always_there(asked: Builds, name: str) -> bool:
    """Whether no row that counts lacks the column: what is missing has a value, or was left out by WHERE or GROUP BY."""
    column = asked.domain[name]
    tested = () if asked.condition is None else asked.condition.needed
    return column.missing_code is not None or name in {
        one.name for one in (*tested, *(bins.column for bins in asked.groups))
    }
