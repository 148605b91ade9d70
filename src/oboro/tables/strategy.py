"""What a strategy is: how a table is measured, what that costs, and what comes out, for one plan.

A strategy is bound to the public facts of its plan: where the cells lie, the promise, the unit, a public total, and for a
tree the workload and the design. So whatever follows from them is computed once, and asked for without naming them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from oboro.arrays import Integers, Table
from oboro.errors import DataError, DomainError, GuaranteeError, ParameterError, setting, told
from oboro.exact import show
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Approx, Pure, Unit
from oboro.release import Forecast, Part
from oboro.tables.cells import Cells
from oboro.tables.forecasting import few_people, forecast_of
from oboro.tables.layout import MOST_BITS, Layout

if TYPE_CHECKING:
    from oboro.tables.tree.asking import Where
    from oboro.tables.tree.design import Design
    from oboro.tables.tree.intervals import Answer
    from oboro.tables.tree.outlook import Outlook
    from oboro.tables.tree.workload import Workload

Noise = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, eq=False)
class Strategy:
    """Takes sorted cells and gives sorted cells, with counts that are whole and above 0."""

    layout: Layout
    guarantee: Pure | Approx
    unit: Unit
    total: int | None = None
    workload: Workload | None = None
    design: Design | None = None

    name: ClassVar[str]
    title: ClassVar[str]
    largest_bits: ClassVar[int] = MOST_BITS
    why: ClassVar[str] = "a cell is named by a number of 62 bits"
    takes_total: ClassVar[bool] = False  # can start from a public total
    planned: ClassVar[bool] = False  # counts at levels that were planned for a workload, and can use a delta
    carries: ClassVar[bool] = False  # the published file carries what intervals come from
    slowness: ClassVar[int] = 1  # see `Plan.slowness`
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def eps(self) -> Fraction:
        return self.guarantee.eps

    def needs(self) -> str | None:
        """What it needs, if the domain is not of the right form."""
        return None

    @property
    def chosen(self) -> Design | None:
        """The levels that are counted, and their shares, where they are planned."""
        return None

    def check_domain(self) -> None:
        """Refuses a domain that this strategy cannot serve."""
        if self.layout.bits > self.largest_bits:
            raise DomainError(
                f"the domain is too large for strategy {self.name!r}",
                given=f"2^{self.layout.bits} cells",
                needed=f"at most 2^{self.largest_bits}: {self.why}",
                fix=setting(strategy="wavelet"),
            )
        needed = self.needs()
        if needed is not None:
            raise DomainError(
                f"strategy {self.name!r} cannot serve this domain",
                given=", ".join(self.layout.domain.names),
                needed=needed,
                fix=setting(strategy="wavelet"),
            )

    def check(self) -> None:
        """Refuses facts that this strategy cannot serve."""
        if self.total is not None and (self.unit.adjacency != "replace" or not self.takes_total):
            raise ParameterError(
                "a public total cannot be used here",
                given=told(total=f"{self.total}") + f", {self.unit}, " + told(strategy=repr(self.name)),
                needed=setting(strategy="tree")
                + " and "
                + setting(adjacency="replace")
                + ", under which the number of units is public",
                fix=setting(total=None),
            )
        if not self.planned and (self.workload is not None or self.design is not None):
            raise ParameterError(
                "only a tree is planned for a workload",
                given=told(workload=repr(str(self.workload)), strategy=repr(self.name)),
                needed=setting(strategy="tree"),
                fix=setting(strategy="tree"),
            )
        if not self.planned and isinstance(self.guarantee, Approx):
            raise GuaranteeError(
                "only a tree uses a delta",
                given=told(strategy=repr(self.name)),
                needed=setting(strategy="tree"),
                fix=setting(delta=None),
            )
        self.check_domain()

    @cached_property
    def noise(self) -> Noise:
        """The noise of each number that is measured; where there are several, of each cell."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Each noise, what it is added to, how far one unit moves that, what it costs."""
        raise NotImplementedError  # pragma: no cover

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> Sequence[Cells]:
        """The published cells, so many times, each with noise of its own."""
        raise NotImplementedError  # pragma: no cover

    def variance(self, height: int) -> float:
        """Of the sum of an aligned block of 2^height cells, before negative counts become 0."""
        raise NotImplementedError  # pragma: no cover

    def remarks(self, expected_total: int | None) -> Sequence[str]:
        """What a forecast says beyond errors; more, if someone guesses how many people there are."""
        return () if expected_total is None else few_people(self, expected_total)

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """The error by area, and what else there is to say before spending."""
        return forecast_of(self, expected_total)

    def outlook(self, total: int) -> Outlook | None:
        """What so many people would mean for cells, where that can be told."""
        return None

    def words(self) -> dict[str, Any]:
        """For the certificate: the noise, and what it was made for."""
        words: dict[str, Any] = {**self.noise.to_dict(), "strategy": self.name}
        if isinstance(self.noise, DiscreteLaplace):
            words |= {"sensitivity": show(self.noise.scale * self.eps)}
        return words

    def intervals(self, table: Table, level: float) -> tuple[Integers, Integers]:
        """The lowest and highest count of each row of the published table, where its file carries what they come from."""
        raise self._carries_nothing()

    def answer(self, table: Table, where: Where, level: float) -> Answer:
        """What the published table says about a part of it, with an interval for the true number."""
        raise self._carries_nothing()

    def unallocated(self, table: Table) -> Table:
        """Blocks that hold people who are in no published cell."""
        raise DataError(
            "only a filtered table leaves people unallocated", needed="a table by strategy filtered"
        )

    def _carries_nothing(self) -> DataError:
        return DataError(
            f"a table by strategy {self.name} carries nothing that intervals could come from",
            needed="a table by one of the strategies tree, filtered, adaptive",
            fix=setting(strategy="tree"),
        )


def counts_move(unit: Unit) -> int:
    """How far one unit moves all counts together, in the 1-norm: those of cells, or of any places that do not overlap.

    Privacy
        A unit adds at most `max_per_cell` to each of at most `max_cells` cells, or 1 for each of at most
        `max_rows` rows. Under replace it takes that away in one place and adds it in another.
    """
    return unit.contributions * (unit.max_per_cell or 1) * (2 if unit.adjacency == "replace" else 1)


def counts_move_squared(unit: Unit) -> int:
    """The same in the squared 2-norm.

    Privacy
        All that a unit adds may fall into one place: m = max_cells max_per_cell (or max_rows) in the 2-norm. Under replace
        it also takes away as much elsewhere: m sqrt 2.
    """
    moved = unit.contributions * (unit.max_per_cell or 1)
    return moved**2 * (2 if unit.adjacency == "replace" else 1)
