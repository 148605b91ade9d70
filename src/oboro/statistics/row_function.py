"""The sum of a function of each row, between 0 and 1: the sum query of the slides.

The function never sees data. It is computed for every row that the domain allows, before anything is read or reserved, so what
it gives is a public table, and each row of the data is looked up in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np

from oboro.arrays import Data, Ends, Integers, Table, numbers_in, table_of
from oboro.domain import Column
from oboro.engine import add_up
from oboro.errors import DomainError, ParameterError
from oboro.exact import Number, positive
from oboro.kinds import unknown
from oboro.noise import Bits
from oboro.privacy import ZCDP, Conditional, Pure
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, noise_by_column, register
from oboro.statistics.blocks import check_run
from oboro.statistics.isolation import (
    PLAIN,
    SEALED,
    Computing,
    Job,
    called,
    can_seal,
    label_of,
    rehearse,
    text_of,
)
from oboro.statistics.points import Rows, check_different, one_unit, rows_from
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.terms import Promise, Term, counted, measured, moved_parts, term

FINE = 1000  # what the function gives is rounded to thousandths
MOST_ROWS = 2**16  # different ones, that the domain allows
ASSUMPTION = "functions that are run without a seal look at nothing but the row that they are given"
EACH = """

def oboro_each_row(rows):
    found = []
    for i in range(len(next(iter(rows.values())))):
        row = {{name: values[i] for name, values in rows.items()}}
        value = float({name}(row))
        if not 0 <= value <= 1:
            raise ValueError(f"{{value}} is not between 0 and 1, for {{row}}")
        found.append(value)
    return found
"""


@register
@dataclass(frozen=True)
class RowFunctionPlan(ScopedPlan):
    r"""The sum over rows of a function of each, between 0 and 1.

    Privacy
        The function is computed for every row of values that the columns allow, in a sealed process that has no data
        (seal.py), before any are read: a public table of whole thousandths from 0 to 1000. Rows of the data are
        looked up in it, so each adds at most 1000, whatever the function is: one that comes, goes or is replaced
        moves the sum by 1000 at most, k rows of a unit by k times that. Discrete Laplace noise of scale 1000 k/eps is
        eps-DP [Ghosh, Roughgarden, Sundararajan 2009]; discrete Gaussian noise of variance (1000 k)^2/(2 rho) is rho-zCDP.
        With isolation "none" nothing keeps the function from looking for data elsewhere, and the guarantee is conditional.

    >>> plan = people.plan.sum_of("def old(row):\n    return min(row['age'] / 80, 1)", columns=["age"], eps="0.1")
    >>> plan.parts[0].noise, plan.cost
    (DiscreteLaplace('10000'), Pure('0.1'))
    """

    label: str
    function: str  # as text
    columns: tuple[Column, ...]
    scope: inline[Scope]
    guarantee: Promise | Conditional
    seconds: Fraction  # for all rows that the domain allows
    isolation: Literal["sealed", "none"]
    kind = "statistics.row_function"
    leaves_out = "covers the noise; not errors in the data, nor records left out, clamped or rounded"
    interval_in_files = True

    def check(self) -> None:
        check_run(self.label, self.function, self.seconds)
        check_different(self.columns)
        self.scope.check_whole("a sum of a function has")
        if not self.columns or self.cells > MOST_ROWS:
            raise DomainError(
                "the columns allow too many different rows, or none",
                given=" x ".join(str(column.size) for column in self.columns) or "no column",
                needed=f"1 to {MOST_ROWS:,} different rows: the function is computed for each",
                fix="fewer columns, or columns with larger steps",
            )
        assumed = () if self.isolation == SEALED else (ASSUMPTION,)
        if not isinstance(self.guarantee.unconditional, Pure | ZCDP) or not set(assumed) <= set(
            self.guarantee.assumptions
        ):
            raise ParameterError(
                "the promise does not fit the plan",
                given=str(self.guarantee),
                needed="eps or rho, and without a seal the assumption about the function",
                fix=repr(Pure(1) if self.isolation == SEALED else Conditional(Pure(1), ASSUMPTION)),
            )

    @property
    def cells(self) -> int:
        return prod(column.size for column in self.columns)

    @cached_property
    def term(self) -> Term:
        price = self.guarantee.unconditional
        assert isinstance(price, Pure | ZCDP)
        return term("sum", FINE, self.scope.rows, price)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return moved_parts(
            self.term.noise,
            "sum",
            rows=self.scope.rows,
            groups=1,
            replaced=self.scope.replaced,
            comes=-(-FINE // self.term.quantum),
            inside=-(-FINE // self.term.quantum),
        )

    def added(self) -> Additive:
        return noise_by_column([self.term.noise])

    @property
    def slowness(self) -> int:
        return 2

    @property
    def rows(self) -> Rows:
        """Every row that the columns allow, in mixed-radix order."""
        sizes = [column.size for column in self.columns]
        codes = np.stack(np.unravel_index(np.arange(self.cells), sizes), axis=1)
        return rows_from(self.columns, codes.astype(np.int64))

    @cached_property
    def values(self) -> tuple[int, ...]:
        """What the function gives for each of them, in thousandths. Only public facts are in play, so what goes wrong is said."""
        names = tuple(column.name for column in self.columns)
        source = self.function + EACH.format(name=called(self.function))
        rows = self.rows
        job = rehearse(Job(source, names, self.cells, float(self.seconds), self.isolation), rows)
        with Computing(job) as compute:
            found = compute(rows)
        if found is None or not all(0 <= value <= 1 for value in found):
            raise ParameterError(
                "the function fails on made-up rows, so nothing was reserved",
                given="no number between 0 and 1, or not in time",
                needed="a number from 0 to 1 for any row",
                fix="let it return a number where it cannot tell",
            )
        return tuple(round(value * FINE) for value in found)

    def forecast(self) -> Forecast:
        return Forecast.of(self.term.noise, each="sum", step=self.term.quantum / FINE)

    def prepare(self, data: Data) -> Integers:
        """The public table first, then the data."""
        table = self.values
        source, condition = self.scope.open(data)
        found = add_up(source, [], [()], self.unit, by=self.columns, condition=condition)
        return counted([self.term], 1, {0: [sum(table[cell] * count for cell, (count,) in found.items())]})

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        return measured([self.term], prepared, bits, trials)

    def publish(self, measured: Integers) -> Table:
        return table_of({"value": measured[:, 0] * (self.term.quantum / FINE)})

    def intervals(self, table: Table, level: float) -> Ends:
        """The range that holds the true sum with this probability."""
        value = np.asarray(numbers_in(table, "value"), np.float64)
        reach = self.term.within(level) / FINE
        return value - reach, value + reach

    def describe(self) -> dict[str, object]:
        return self.wording(f"sum over rows of {self.label}" + self.scope.words(), self.term.to_dict())

    def neighbours(self) -> Iterator[Pair]:
        """And a unit where the function is largest, against one where it is smallest, or nobody."""
        yield from super().neighbours()
        if self.scope.where is not None or self.scope.nobody:
            return
        values, sizes = self.values, [column.size for column in self.columns]
        low, high = (
            [int(code) for code in np.unravel_index(values.index(end), sizes)]
            for end in (min(values), max(values))
        )
        one = one_unit(self.scope, self.columns, high, low)
        other = one_unit(self.scope, self.columns, low if self.scope.replaced else None, low)
        yield Pair(one, other, "one unit where the function is largest")


def row_function_plan(
    scope: Scope,
    columns: Sequence[Column],
    function: str | Callable[[Any], object],
    promise: Promise,
    *,
    seconds: Number = 60,
    label: str | None = None,
    isolation: str | None = None,
) -> RowFunctionPlan:
    """A plan for the sum of `function(row)`, a row being a dictionary of values, one for each column."""
    text = text_of(function)
    if isolation not in (None, SEALED, PLAIN):
        raise unknown("isolation", isolation, (SEALED, PLAIN))
    chosen: Any = isolation or (SEALED if can_seal() else PLAIN)
    return RowFunctionPlan(
        label_of(function, text) if label is None else label,
        text,
        tuple(columns),
        scope,
        promise if chosen == SEALED else Conditional(promise, ASSUMPTION),
        positive("seconds", seconds),
        chosen,
    )
