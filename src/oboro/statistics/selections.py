"""The most frequent values of a column: report noisy max, and top k."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from oboro.arrays import Data, Integers, Table
from oboro.domain import Column, Date
from oboro.engine import count_cells
from oboro.errors import DomainError, ParameterError, setting, told
from oboro.exact import show
from oboro.noise import Bits, uniform_integer
from oboro.noise.draws import uniform_integers
from oboro.noise.selection import permuted_and_flipped
from oboro.privacy import Pure
from oboro.records import inline
from oboro.release import Forecast, Pair, Part, Selection, register
from oboro.statistics.quantiles import check_eps
from oboro.statistics.scope import Scope, ScopedPlan, fold_groups
from oboro.statistics.terms import cases

MOST_CHOSEN = 1000
MOST_CANDIDATES = 2**22  # values of all groups: a count of each is held


@register
@dataclass(frozen=True)
class TopPlan(ScopedPlan):
    """The k most frequent values of a column in each group, the most frequent first. How frequent they are is not told.

    Privacy
        Permute-and-flip on the counts of all values that the column may have, k times, each without those chosen before
        ("peeling"). One choice costs eta r if the counts of neighbours differ by amounts in an interval of length r
        (noise/selection.py), and choices add up, as each is made for a fixed eta whatever the ones before were. Adding or
        removing a row raises or lowers one count by 1: r = 1. Replacing one within a group raises one and lowers another:
        r = 2. A row that moves to another group does the first in each: 1 + 1. k rows of a unit: k times as much.
        So eta = eps/(k rows) for k choices under add/remove, half of that under replace. Values that never occur are
        candidates like all others.

    >>> plan = people.plan.top("age", 2, eps="0.1")
    >>> for part in plan.parts:
    ...     print(part.noise, part.of, part.moves, part.costs, part.case, sep=" | ")
    Selection(eta=Fraction(1, 40)) | 2 choices | 1 | eps = 0.05 | a row comes or goes
    Selection(eta=Fraction(1, 40)) | 2 choices | 2 | eps = 0.1 | a row is replaced within its group
    """

    column: Column
    k: int
    scope: inline[Scope]
    guarantee: Pure
    kind = "statistics.top"

    def check(self) -> None:
        self.scope.check_groups(besides=self.column)
        check_eps(self.guarantee)
        if not 1 <= self.k <= min(self.column.size, MOST_CHOSEN):
            raise ParameterError(
                f"so many values of column {self.column.name!r} cannot be chosen",
                given=told(k=f"{self.k}"),
                needed=f"1 to {min(self.column.size, MOST_CHOSEN)}",
                fix=setting(k=1),
            )
        if self.scope.groups * self.column.size > MOST_CANDIDATES or self._cells > 2**62:
            raise DomainError(
                f"column {self.column.name!r} has too many values to choose from",
                given=f"{self.column.size} values, {self.scope.groups} groups",
                needed=f"at most {MOST_CANDIDATES:,} in all groups together",
                fix="a larger step, or fewer groups",
            )

    @property
    def _cells(self) -> int:
        return prod(column.size for column in (*self.scope.by_columns, self.column))

    @cached_property
    def eta(self) -> Fraction:
        price = self.scope.price(self.guarantee, 2)
        assert isinstance(price, Pure)
        return price.eps / (self.k * self.scope.rows)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Counts that all move the same way move by half of that up to a constant, which changes nothing."""
        comes, inside = Fraction(self.k * self.scope.rows, 2), Fraction(self.k * self.scope.rows)
        of = f"{self.k} choices" if self.k > 1 else "a choice"
        return cases(
            Selection(self.eta), of, comes, inside, groups=self.scope.groups, replaced=self.scope.replaced
        )

    @property
    def slowness(self) -> int:
        return 1 if self.k == 1 else 10

    def forecast(self) -> Forecast:
        behind = math.ceil(math.log(self.column.size * self.k / 0.05) / float(self.eta))
        note = f"out of {self.column.size:,} values; where the best is further ahead of the rest than this, it is found"
        return Forecast(
            f"expected error of the most frequent values of {self.column.name}",
            ("of each", "95% within ±"),
            (("rows that a chosen value has fewer than the best that is left", behind),),
            (note,),
        )

    def prepare(self, data: Data) -> Integers:
        """How many rows have each value, for each group."""
        source, condition = self.scope.open(data)
        columns = [*self.scope.by_columns, self.column]
        cells, counts = count_cells(source, columns, self.unit, condition)
        group, codes = np.divmod(cells, self.column.size)
        table = np.zeros((self.scope.groups, self.column.size), np.int64)
        np.add.at(table, (fold_groups(self.scope.by, group), codes), counts)
        return table

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        """Codes: one row for each group, the most frequent first."""
        drawn = [self._peeled(counts, bits, trials or 1) for counts in prepared]
        codes = np.stack(drawn, axis=1)
        return codes[0] if trials is None else codes

    def _peeled(self, counts: Integers, bits: Bits, trials: int) -> Integers:
        """The k codes of each trial. Trials that have chosen alike so far choose the next together."""
        chosen = np.empty((trials, 0), np.int64)
        for _ in range(self.k):
            following = np.empty(trials, np.int64)
            for before in np.unique(chosen, axis=0):
                mine = np.flatnonzero((chosen == before).all(axis=1))
                following[mine] = self._best(counts, before, bits, mine.size)
            chosen = np.column_stack([chosen, following])
        return chosen

    def _best(self, counts: Integers, without: Integers, bits: Bits, trials: int) -> Integers:
        """Values of one count share one draw; which of them it is, is a uniform choice."""
        left = np.setdiff1d(np.arange(counts.size), without)
        found, which, sizes = np.unique(-counts[left], return_inverse=True, return_counts=True)
        won = permuted_and_flipped(found, self.eta, trials, sizes, bits)
        members = np.argsort(which, kind="stable")
        firsts = np.concatenate([[0], np.cumsum(sizes)])
        place = firsts[won]
        for one in np.unique(won):
            mine = won == one
            if mine.sum() == 1:
                place[mine] += uniform_integer(int(sizes[one]), bits)
            else:
                place[mine] += uniform_integers(int(sizes[one]), int(mine.sum()), bits)
        return np.asarray(left[members[place]], np.int64)

    @property
    def published_rows(self) -> int:
        return self.scope.groups * self.k

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        groups = len(measured)
        labels = {
            name: column.take(pa.array(np.repeat(np.arange(groups), self.k)))
            for name, column in self.scope.labels().items()
        }
        found = [self.column.value(int(code)) for code in measured.ravel()]
        place = {"place": np.tile(np.arange(1, self.k + 1), groups)} if self.k > 1 else {}
        value = pa.array(found, pa.date32()) if isinstance(self.column, Date) else pa.array(found)
        return pa.table({**labels, **place, "value": value})

    def describe(self) -> dict[str, object]:
        what = "most frequent value" if self.k == 1 else f"{self.k} most frequent values"
        return self.wording(
            f"{what} of {self.column.name}{self.scope.words()}",
            {"law": "permute-and-flip", "eta": show(self.eta)},
        )

    def neighbours(self) -> Iterator[Pair]:
        """One unit at either end, by itself and among others that lie at both ends."""
        yield from super().neighbours()
        yield from self.scope.divided_pairs([self.column], Fraction(1, 2))


def top_plan(column: Column, k: int, scope: Scope, promise: Pure) -> TopPlan:
    """The k most frequent values of a column."""
    return TopPlan(column, k, scope, promise)
