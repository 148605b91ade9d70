"""Counts of every bin of one or more columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from oboro.arrays import Data, Integers, Table
from oboro.domain import Domain
from oboro.engine import count_cells, open_data
from oboro.errors import DomainError, UnitError, setting
from oboro.exact import Number, whole
from oboro.kinds import names_of, takes
from oboro.ledger import Ledger
from oboro.noise import Bits
from oboro.privacy import Pure, Unit
from oboro.release import Additive, Forecast, Pair, Part, Plan, Release, register, run, same_noise
from oboro.statistics.scope import (
    MOST_GROUPS,
    MOST_UNITS,
    Bins,
    Edges,
    Scope,
    bins_of,
    columns_of,
    fold_groups,
)
from oboro.statistics.terms import Noise, Promise, in_groups, moved_parts, noise_for, noise_note, promised
from oboro.statistics.where import Condition, parse

MOST_BINS = 2**27


@register
@dataclass(frozen=True)
class HistogramPlan(Plan):
    """Counts of every bin, each with discrete Laplace noise; with discrete Gaussian noise if rho is asked for.

    Privacy
        Adding or removing one unit changes the counts by at most `unit.max_rows` in all, because at most so
        many of its rows are counted (replace: twice that, out with the old and in with the new). This is the
        L1 sensitivity D. Independent discrete Laplace noise of scale D/eps on integers is eps-DP [Ghosh,
        Roughgarden, Sundararajan 2009]: the probability of any output changes by at most
        exp(sum |change| / scale) <= exp(eps). In the 2-norm the counts move by at most `unit.max_rows`, and
        sqrt 2 times that under replace: discrete Gaussian noise of variance D2^2/(2 rho) is rho-zCDP [Canonne,
        Kamath, Steinke 2020]. Every bin of the domain is noised, empty or not, and which bins there are is
        public. A condition only picks rows, each by itself.

    >>> plan = people.plan.histogram("age", edges=[0, 20, 65, 99], eps="0.1")
    >>> for part in plan.parts:
    ...     print(part.noise, part.of, part.moves, part.costs, part.case, sep=" | ")
    DiscreteLaplace('20') | counts | 1 | eps = 0.05 | a row comes or goes
    DiscreteLaplace('20') | counts | 0 | eps = 0 | a row is replaced within its group
    DiscreteLaplace('20') | counts | 2 | eps = 0.1 | a row moves to another group
    """

    bins: tuple[Bins, ...]
    unit: Unit
    guarantee: Promise
    where: Condition | None = None
    expected_n: int | None = None  # a guess of how many units there are: for the forecast alone
    kind = "statistics.histogram"
    light = True
    leaves_out = "covers the noise; not errors in the data, nor records left out or clamped"
    footnote = (
        "noise may take a count below 0; it is left there, so that sums of counts stay right on average"
    )

    def check(self) -> None:
        if self.unit.kind not in ("row", "person"):
            raise UnitError(
                "a histogram counts rows",
                given=str(self.unit),
                needed="a unit of rows or persons",
                fix=setting(unit=Unit.row()),
            )
        if not self.bins or len({bins.name for bins in self.bins}) != len(self.bins):
            raise DomainError("a histogram needs one or more different columns", fix='"age"')
        if prod(self.shape) > MOST_BINS:
            raise DomainError(
                "the histogram has too many bins",
                given=" x ".join(map(str, self.shape)),
                needed=f"at most {MOST_BINS:,}",
                fix=setting(edges=range(0, 121, 10))
                + ", or a table (oboro table release), which may be huge and sparse",
            )
        Domain(columns_of(self.bins)).cells  # noqa: B018  # refuses more than a number of 64 bits can tell
        if self.expected_n is not None:
            whole("expected_n", self.expected_n, least=0, most=MOST_UNITS)

    @property
    def sensitivity(self) -> int:
        """How far one unit moves the counts, in all."""
        return self.unit.contributions * (2 if self.unit.adjacency == "replace" else 1)

    @cached_property
    def noise(self) -> Noise:
        """Bins are disjoint groups in which a replacement costs nothing; two of them notice a row that moves."""
        price = in_groups(self.guarantee, self.unit.adjacency, 2, inside=0)
        return noise_for(self.unit.contributions, price)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        rows, replaced = self.unit.contributions, self.unit.adjacency == "replace"
        return moved_parts(self.noise, "counts", rows=rows, groups=2, replaced=replaced, comes=1, inside=0)

    def added(self) -> Additive:
        return same_noise(self.noise)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(bins.size for bins in self.bins)

    @property
    def interval_in_files(self) -> bool:
        """Beside each count, unless there are so many that files would grow for nothing."""
        return prod(self.shape) <= MOST_GROUPS

    def forecast(self) -> Forecast:
        counts = prod(self.shape)
        grows = f"{counts:,} counts; the error of a sum of k of them grows as sqrt(k)"
        reach = self.noise.interval(0.95)[1]
        return Forecast.of(
            self.noise, each="count", notes=(grows, *noise_note(counts, self.expected_n, reach))
        )

    def prepare(self, data: Data) -> Integers:
        """True counts of every bin, in mixed-radix order."""
        source = open_data(data)
        cells, counts = count_cells(source, columns_of(self.bins), self.unit, self.where)
        totals = np.zeros(prod(self.shape), np.int64)
        np.add.at(totals, fold_groups(self.bins, cells), counts)
        return totals

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Integers:
        shape = prepared.shape if trials is None else (trials, *prepared.shape)
        return prepared + self.noise.sample(shape, bits)

    @property
    def published_rows(self) -> int:
        return prod(self.shape)

    def publish(self, measured: Integers) -> Table:
        import pyarrow as pa

        columns: dict[str, object] = {}
        repeat, tile = measured.size, 1
        for bins in self.bins:
            repeat //= bins.size
            labels = pa.array(bins.labels)
            columns[bins.name] = labels.take(pa.array(np.tile(np.repeat(np.arange(bins.size), repeat), tile)))
            tile *= bins.size
        name = "count"
        while name in columns:
            name = f"noisy {name}"
        return pa.table({**columns, name: measured})

    def intervals(self, table: Table, level: float) -> tuple[Integers, Integers]:
        """For each count the range that holds the true one with this probability. Counts are never below 0."""
        low, high = self.raw_intervals(table, level)
        return np.maximum(low, 0), np.maximum(high, 0)

    def raw_intervals(self, table: Table, level: float) -> tuple[Integers, Integers]:
        """The same about the noisy counts, also where they are below 0."""
        low, high = self.noise.interval(level)
        counts = table.column(table.num_columns - 1).to_numpy()
        return counts + low, counts + high

    def describe(self) -> dict[str, object]:
        names = " by ".join(bins.name for bins in self.bins)
        size = {"sensitivity": str(self.sensitivity)} if isinstance(self.guarantee, Pure) else {}
        return {
            "released": f"histogram of {names}" + (f", where {self.where}" if self.where else ""),
            "noise": {**self.noise.to_dict(), **size},
            "domain": Domain(self._scope.columns([])).to_dict(),
        }

    def neighbours(self) -> Iterator[Pair]:
        """One unit with all its rows in one bin, against nobody; and, under replace, against the last bin."""
        yield from self._scope.pairs([])

    def of_so_many(self, n: int | None) -> Iterator[Pair]:
        """The same among n units, for whoever asks more of the same data."""
        yield from replace(self._scope, n=n).pairs([])

    @cached_property
    def _scope(self) -> Scope:
        """The same rows by the values of the columns: for worst cases and words."""
        return Scope(self.unit, self.where, tuple(map(Bins, columns_of(self.bins))))


@takes(domain=Domain, columns=names_of, unit=Unit)
def histogram_plan(
    domain: Domain,
    columns: str | Sequence[str],
    *,
    unit: Unit,
    eps: Number | None = None,
    rho: Number | None = None,
    edges: Edges | None = None,
    where: str | None = None,
    expected_n: int | None = None,
) -> HistogramPlan:
    """A plan for the counts of every value, or of every interval between `edges`, of one or more columns.

    >>> plan = ob.histogram_plan(domain, "age", edges=[0, 20, 65, 99], unit=unit, eps="0.1")
    >>> print(plan.forecast())
    expected error of each count
      of each  standard error  mean |error|  95% within ±
      count             28.28         19.99            60
      note: 3 counts; the error of a sum of k of them grows as sqrt(k)
    """
    bins = bins_of(domain, [columns] if isinstance(columns, str) else list(columns), edges)
    condition = None if where is None else parse(where, domain)
    return HistogramPlan(bins, unit, promised(eps, rho), condition, expected_n)


@takes(domain=Domain, columns=names_of, ledger=Ledger)
def histogram(
    data: Data,
    domain: Domain,
    columns: str | Sequence[str],
    *,
    eps: Number | None = None,
    rho: Number | None = None,
    edges: Edges | None = None,
    where: str | None = None,
    ledger: Ledger,
    name: str | None = None,
) -> Release:
    """Releases a histogram for the ledger's unit.

    >>> release = ob.histogram(data, domain, "age", edges=[0, 20, 65, 99], eps="0.1", ledger=ledger)
    >>> release.to_arrow()["age"].to_pylist()
    ['0 to 19', '20 to 64', '65 to 99']
    """
    plan = histogram_plan(domain, columns, unit=ledger.unit, eps=eps, rho=rho, edges=edges, where=where)
    return run(plan, data, ledger, name)
