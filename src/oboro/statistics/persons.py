"""How many persons there are, each counted once, however many rows a person has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from oboro.arrays import Data, Ends, Integers, Table, table_of
from oboro.engine import count_persons
from oboro.errors import ParameterError, UnitError, setting, told
from oboro.noise import Bits
from oboro.privacy import Pure, Unit
from oboro.records import inline
from oboro.release import Additive, Forecast, Pair, Part, noise_by_column, register
from oboro.statistics.scope import Scope, ScopedPlan
from oboro.statistics.terms import (
    Promise,
    Term,
    cases,
    counted,
    in_groups,
    measured,
    noise_for,
    noise_note,
)


@register
@dataclass(frozen=True)
class PersonsPlan(ScopedPlan):
    """How many persons have a row that counts, in all or in each of several groups.

    Privacy
        Which persons have a row in which groups is a set of pairs, so a person's number of rows does not matter. A person
        is in at most m = min(`unit.max_rows`, number of groups) groups: in one that is in more, m are kept, by a rule that
        looks at that person's rows alone. So adding or removing a person moves m counts by 1 each: m in the 1-norm, m
        in the square of the 2-norm. Replacing one moves at most twice as much; with one group by 1, as one comes
        and one goes. Discrete Laplace noise of scale m/eps is eps-DP, discrete Gaussian noise of variance m/(2 rho)
        is rho-zCDP, and twice that where a person can move between groups. The number of all persons under replace is
        public: where it is asked for, the answer is n itself, and costs nothing.

    >>> visits = ob.Session(
    ...     {"who": [1, 1, 2], "age": [31, 31, 54]},
    ...     domain=domain.only("age"),
    ...     ledger=ob.Ledger.create("v", dataset="v", unit=ob.Unit.person("who", 20), budget=ob.Pure(1)),
    ... )
    >>> visits.plan.persons(eps="0.1").parts
    (Part(noise=DiscreteLaplace('10'), of='persons', moves=Fraction(1, 1), costs=Pure('0.1'), case=''),)
    """

    scope: inline[Scope]
    guarantee: Promise
    kind = "statistics.persons"
    light = True
    leaves_out = "covers the noise; not errors in the data, nor records left out"
    interval_in_files = True
    footnote = (
        "noise may take a count below 0; it is left there, so that sums of counts stay right on average"
    )

    def check(self) -> None:
        self.scope.check_groups()
        if self.scope.unit.kind != "person":
            raise UnitError(
                "persons are counted where a person is protected",
                given=str(self.scope.unit),
                needed="a unit of persons, whose column says who each row belongs to",
                fix=setting(unit=Unit.person("person", 10)),
            )
        if self.public and not everyone(self.scope):
            raise ParameterError(
                "the number of persons costs something where it is not public",
                given=told(eps="0"),
                needed="a price above 0, or all persons under replace",
                fix=setting(eps="0.1"),
            )

    @property
    def public(self) -> bool:
        """Whether the answer is n, which is public."""
        return self.guarantee == Pure(0)

    @property
    def most(self) -> int:
        """In how many groups a person counts."""
        return min(self.scope.rows, self.scope.groups)

    @cached_property
    def term(self) -> Term:
        price = in_groups(self.guarantee, self.unit.adjacency, self.scope.groups, 0)
        if isinstance(price, Pure):
            return Term("persons", noise_for(self.most, price), 1)
        # in squares, m counts that move by 1 are m, not m^2
        return Term("persons", noise_for(1, type(price)(price.rho / self.most)), 1)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        if self.public:
            return ()
        replaced, groups = self.scope.replaced, self.scope.groups
        moves = Fraction(self.most)
        return cases(self.term.noise, "persons", moves, Fraction(0), groups=groups, replaced=replaced)

    def added(self) -> Additive | None:
        return None if self.public else noise_by_column([self.term.noise])

    def forecast(self) -> Forecast:
        if self.public:
            note = f"n = {self.scope.n:,} is public under replace: exact, and free"
            return Forecast(
                "expected error of the number of persons",
                ("of each", "standard error"),
                (("number of persons", 0),),
                (note,),
            )
        notes = noise_note(self.scope.groups, self.scope.units, self.term.within(0.95), "group")
        return Forecast.of(self.term.noise, each="number of persons", notes=notes)

    def prepare(self, data: Data) -> Integers:
        source, condition = self.scope.open(data)
        if self.public:
            return np.full((1, 1), self.scope.n, np.int64)
        by = [(bins.column, bins.runs, bins.size) for bins in self.scope.by]
        found = count_persons(source, by, self.unit, most=self.most, condition=condition)
        return counted([self.term], self.scope.groups, {group: [count] for group, count in found.items()})

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        if self.public:
            return prepared if trials is None else np.broadcast_to(prepared, (trials, 1, 1)).copy()
        return measured([self.term], prepared, bits, trials)

    @property
    def published_rows(self) -> int:
        return self.scope.groups

    def publish(self, measured: Integers) -> Table:
        """No number is above a public n, so that it lies within its interval. Below 0 it is left."""
        most = np.iinfo(np.int64).max if self.scope.n is None else self.scope.n
        return table_of({**self.scope.labels(), "value": np.minimum(measured[:, 0], most)})

    def intervals(self, table: Table, level: float) -> Ends:
        """For each number the range that holds the true one with this probability; never below 0, nor above a public n."""
        low, high = self.raw_intervals(table, level)
        most = np.iinfo(np.int64).max if self.scope.n is None else self.scope.n
        return np.clip(low, 0, most), np.clip(high, 0, most)

    def raw_intervals(self, table: Table, level: float) -> tuple[Integers, Integers]:
        """The same about the noisy number, also where it is below 0."""
        value = table.column("value").to_numpy()
        low, high = (0, 0) if self.public else self.term.noise.interval(level)
        return value + low, value + high

    def describe(self) -> dict[str, object]:
        noise = {"law": "none: n is public"} if self.public else self.term.to_dict()
        return self.wording(f"number of persons{self.scope.words()}", noise)

    def neighbours(self) -> Iterator[Pair]:
        yield from super().neighbours()
        if not self.scope.nobody and self.scope.by:
            yield from self._spread()

    def _spread(self) -> Iterator[Pair]:
        """A person in as many groups as count, against nobody, or against one who is in others or in none."""
        import pyarrow as pa

        pair, rows = next(self.scope.pairs([])), self.scope.rows
        bins = max(self.scope.by, key=lambda one: one.size)
        firsts = dict(reversed([(place, start) for start, place in bins.runs])) or {
            c: c for c in range(bins.size)
        }
        base, name = pair.one, bins.column.name
        assert isinstance(base, pa.Table)
        spread, others = base.slice(0, min(self.most, len(firsts))), base.slice(rows)
        values = [bins.column.value(code) for code in sorted(firsts.values())[: spread.num_rows]]
        spread = spread.set_column(spread.column_names.index(name), name, [values])
        other = pair.other if self.scope.replaced else others
        yield Pair(pa.concat_tables([spread, others]), other, "a person in as many groups as count")


def everyone(scope: Scope) -> bool:
    """Whether the question is how many persons there are in all, which is public under replace."""
    return scope.replaced and scope.n is not None and scope.where is None and not scope.by


def persons_plan(scope: Scope, promise: Promise, *, everybody: bool = True) -> PersonsPlan:
    """The number of persons in each group; free where the answer is public. `everybody`: each has a row in this table."""
    return PersonsPlan(scope, Pure(0) if everybody and everyone(scope) else promise)
