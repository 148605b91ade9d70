"""The plan for a table of counts: non-negative whole numbers for the cells of a domain of any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.domain import Domain
from oboro.errors import DomainError, GuaranteeError, ParameterError
from oboro.exact import Number, positive, show, whole
from oboro.kinds import takes, text_of
from oboro.ledger import Ledger
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.privacy import Approx, Pure, Unit, guarantee_from, unit_from
from oboro.release import Forecast, Pair, Release, register, run
from oboro.tables.cells import LARGEST_TOTAL, Cells
from oboro.tables.forecasting import forecast
from oboro.tables.layout import Layout
from oboro.tables.mask import Mask, impossible_cells, layout_of, possible_cells
from oboro.tables.neighbours import pairs
from oboro.tables.publishing import count_name, to_table
from oboro.tables.reading import read_cells
from oboro.tables.refusing import checked
from oboro.tables.strategies import strategy_of
from oboro.tables.strategy import Strategy, counts_move
from oboro.tables.tree.answering import answered, intervals_of, outlook_of
from oboro.tables.tree.asking import Where
from oboro.tables.tree.carrying import with_noisy
from oboro.tables.tree.design import Design, described, design_from
from oboro.tables.tree.intervals import Answer
from oboro.tables.tree.lattice import lattice_of
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.outlook import Outlook
from oboro.tables.tree.promise import rho_of
from oboro.tables.tree.strategy import planned, preferred
from oboro.tables.tree.workload import DEFAULT, Workload

_TRIAL_BITS = 16  # the audit looks at every cell of every trial


@register
@dataclass(frozen=True, slots=True)
class TablePlan:
    """Counts of all cells of a domain by one of the strategies.

    `design` says which levels a tree counts, and their shares of the budget; `workload` what it was planned for.

    Privacy
        Records become counts by a rule that looks at one record at a time (reading.py), so that one unit moves
        the counts by no more than it declares: `max_per_cell` in each of `max_cells` cells, or 1 for each of
        `max_rows` rows, and twice that under replace. The strategy measures whole numbers that are linear in
        the counts, and puts discrete Laplace noise of scale D/eps on each, D being how far one unit moves them
        in all: for the wavelet `wavelet.sensitivity`, for the tree see `Design.laplace` (and `Design.gaussian`
        with delta), for the others the largest column of their matrix times what the counts move. This is eps-DP [Ghosh, Roughgarden, Sundararajan 2009]. All that follows looks at
        noisy numbers, coins, and public facts. That noise is drawn only where it matters leaves the law of the
        output as it is: where a node publishes 0 its noise would change nothing.

        A public `total` is not measured. It is allowed under replace, where the number of units is public.
        Running time and memory depend on the data and are outside the promise.
    """

    domain: Domain
    unit: Unit
    guarantee: Pure | Approx
    strategy: str = "wavelet"
    count: str | None = None
    mask: Mask | None = None
    total: int | None = None
    workload: Workload | None = None
    design: Design | None = None
    kind = "tables.table"
    leaves_out = "covers the noise; not errors in the data, nor records left out"

    @property
    def layout(self) -> Layout:
        """Where the cells lie, in one row."""
        return layout_of(self.domain, self.mask)

    @property
    def noise(self) -> DiscreteLaplace | DiscreteGaussian:
        """The noise of each number that is measured; of a tree, of each cell."""
        return self._strategy.noise(self.layout, self.guarantee.eps, self.unit)

    @property
    def levels(self) -> tuple[str, ...]:
        """What a tree counts."""
        lattice = lattice_of(self.domain)
        return () if self.design is None else tuple(lattice.name(level) for level in self.design.levels)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the budget that each level has: rationals that add up to 1."""
        return () if self.design is None else self.design.shares

    @property
    def _strategy(self) -> Strategy:
        return strategy_of(self.strategy, self.design)

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """Error by area. With `expected_total`, a guess at how many people there are, also what that means."""
        if expected_total is not None:
            expected_total = whole("expected_total", expected_total, least=0, most=LARGEST_TOTAL)
        if expected_total is None:
            expected_total = self.total
        strategy, eps = self._strategy, self.guarantee.eps
        if strategy.forecast is not None:
            return strategy.forecast(self.layout, eps, self.unit, expected_total)
        return forecast(self.layout, strategy, eps, self.unit, expected_total)

    def outlook(self, expected_total: int) -> Outlook | None:
        """What a guess at how many people there are means for cells; where the strategy can tell."""
        return outlook_of(self, whole("expected_total", expected_total, least=0, most=LARGEST_TOTAL))

    def prepare(self, data: Any) -> Cells:
        return read_cells(data, self.layout, self.unit, self.count)

    def measure(self, prepared: Cells, bits: Bits, trials: int | None = None) -> Any:
        """The published cells; with `trials`, the counts of all keys, one row for each trial."""
        if trials is None:
            return self._measured(prepared, bits, 1)[0]
        if self.layout.bits > _TRIAL_BITS:
            raise DomainError(
                "the domain is too large for trials",
                given=f"2^{self.layout.bits} cells",
                needed=f"at most 2^{_TRIAL_BITS}",
                fix="a smaller domain",
            )
        counts = np.zeros((trials, 1 << self.layout.bits), np.int64)
        for row, published in zip(counts, self._measured(prepared, bits, trials), strict=True):
            row[published.keys] = published.counts
        return counts

    def _measured(self, prepared: Cells, bits: Bits, trials: int) -> Sequence[Cells]:
        return self._strategy.measure(
            prepared, self.layout, self.guarantee.eps, self.unit, bits, self.total, trials
        )

    def publish(self, measured: Cells) -> Any:
        table = to_table(measured, self.layout, count_name(self.count, self.domain))
        return with_noisy(table, self.to_dict(), measured.noisy) if isinstance(measured, Measured) else table

    @property
    def intervals(self) -> Callable[[Any, float], tuple[Any, Any]] | None:
        """Intervals for the rows of the published table: (table, level) to (low, high)."""
        return intervals_of(self)

    def ask(self, table: Any, where: Where, level: float = 0.95) -> Answer:
        """What the published table says about a part of it, with an interval."""
        return answered(self, table, where, level)

    def describe(self) -> dict[str, Any]:
        names = " by ".join(name for column in self.domain for name in column.sources)
        noise: dict[str, Any] = {**self.noise.to_dict(), "strategy": self.strategy}
        if self.design is not None:
            noise |= {"levels": described(self.design, self.levels, self.guarantee.eps, self.unit)}
            noise |= {"sensitivity": str(counts_move(self.unit)), "planned for": str(self.workload)}
        elif isinstance(self.noise, DiscreteLaplace):
            noise |= {"sensitivity": show(self.noise.scale * self.guarantee.eps)}
        return {"released": f"table of {self.count or 'counts'} by {names}", "noise": noise}

    def neighbours(self) -> Iterator[Pair]:
        return pairs(self.layout, self.unit, self.count, self.noise)

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {"kind": self.kind, "strategy": self.strategy, "unit": self.unit.to_dict()}
        record |= {"guarantee": self.guarantee.to_dict(), "domain": self.domain.to_dict()}
        record |= {} if self.count is None else {"count": self.count}
        record |= {} if self.mask is None else {"mask": self.mask.to_dict()}
        record |= {} if self.workload is None else {"workload": self.workload.to_list()}
        record |= {} if self.design is None else {"design": self.design.to_dict()}
        return record | ({} if self.total is None else {"total": self.total})

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> TablePlan:
        guarantee = guarantee_from(record["guarantee"])
        if not isinstance(guarantee, Pure | Approx):
            raise GuaranteeError(
                "a table plan has a pure guarantee, or eps and delta",
                given=repr(guarantee),
                fix='kind = "pure"',
            )
        domain = Domain.from_dict(record["domain"])
        mask = Mask.from_dict(record["mask"], domain) if "mask" in record else None
        unit, strategy = unit_from(record["unit"]), record["strategy"]
        workload = Workload.from_list(record["workload"]) if "workload" in record else None
        design = design_from(record["design"], lattice_of(domain)) if "design" in record else None
        beside = (record.get("count"), mask, record.get("total"))
        return checked(cls(domain, unit, guarantee, strategy, *beside, workload, design))


@takes(domain=Domain, unit=Unit, strategy=text_of, workload=Workload)
def plan(
    domain: Domain,
    *,
    unit: Unit,
    eps: Number,
    delta: Number | None = None,
    strategy: str | None = None,
    workload: Workload | None = None,
    count: str | None = None,
    possible: Any = None,
    impossible: Any = None,
    total: int | None = None,
) -> TablePlan:
    """A plan for a table of counts.

    strategy     how it is measured; by default `tree`, or `filtered` for more cells than can be listed
    delta        with it the noise of a tree is Gaussian, and the promise (eps, delta)
    workload     what readers will ask, for a tree; by default blocks and squares
    count        the column that says how many; without it every row counts 1
    possible     a table of the only cells that can hold anyone (some columns of the domain are enough), or
    impossible   a table of those that cannot. Public knowledge, never read off the data
    total        how many there are in all, where that is public (under replace)
    """
    if possible is not None and impossible is not None:
        raise ParameterError(
            "only one mask can be given", given="possible and impossible", needed="one of them"
        )
    mask = None
    if possible is not None:
        mask = possible_cells(domain, possible)
    elif impossible is not None:
        mask = impossible_cells(domain, impossible)
    guarantee = Pure(positive("eps", eps)) if delta is None else Approx(positive("eps", eps), delta)
    strategy = strategy or preferred(layout_of(domain, mask), total)
    made = checked(TablePlan(domain, unit, guarantee, strategy, count, mask, total, workload))
    return made if strategy != "tree" else checked(designed(made))


def designed(plan: TablePlan) -> TablePlan:
    """The same plan with levels and shares for its workload."""
    workload = plan.workload or DEFAULT
    rho = rho_of(plan.guarantee) if isinstance(plan.guarantee, Approx) else None
    design = planned(plan.layout, plan.unit, workload, rho)
    return dataclasses.replace(plan, workload=workload, design=design)


@takes(plan=TablePlan, ledger=Ledger, count=text_of)
def release(
    data: Any, plan: TablePlan, *, ledger: Ledger, count: str | None = None, name: str | None = None
) -> Release:
    """Runs a plan; `count` names the column that says how many, if the plan does not."""
    return run(with_count(plan, count), data, ledger, name)


def with_count(plan: TablePlan, count: str | None) -> TablePlan:
    """The same plan for data with this count column."""
    return plan if count is None else checked(dataclasses.replace(plan, count=count))
