"""The plan for a table of counts: non-negative whole numbers for the cells of a domain of any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from oboro.arrays import Data, Integers, Table
from oboro.domain import Areas, Column, Domain
from oboro.engine import Source, open_data
from oboro.errors import DomainError, ParameterError, UnitError, setting, told
from oboro.exact import Number, positive, rational, show, whole
from oboro.kinds import path_of, shown, takes, text_of, unknown
from oboro.ledger import Ledger
from oboro.noise import Bits
from oboro.noise.laplace import check_level
from oboro.privacy import Approx, Pure, Unit
from oboro.release import Forecast, Pair, Part, Plan, Release, register, run, upgrade
from oboro.release.folder import is_manifest, manifest
from oboro.release.release import carries_ends, carrying_ends
from oboro.tables.cells import LARGEST_TOTAL, Cells, Layout
from oboro.tables.geography import RASTER, VECTOR, check_places, encoded_places, with_outlines
from oboro.tables.input import read_cells
from oboro.tables.mask import Mask, impossible_cells, layout_of, possible_cells, ruled_out
from oboro.tables.neighbours import pairs, random_pair
from oboro.tables.nested.known import KnownTotals, known_totals
from oboro.tables.nested.strategy import AreaTree
from oboro.tables.papers.dense import RIVALS
from oboro.tables.strategy import Noise, Strategy, count_name, estimate_name, to_table
from oboro.tables.subtrees.parts import Parts, in_parts, keep_list
from oboro.tables.subtrees.spread import Opened, Parted, Spread, spread_over
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.answers import Where
from oboro.tables.tree.filtered import Filtered
from oboro.tables.tree.intervals import NOISY, Answer, check_rows, with_noisy
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.older import OlderAdaptive
from oboro.tables.tree.outlook import Outlook
from oboro.tables.tree.pruned import Pruned
from oboro.tables.tree.sized import Sized, Way
from oboro.tables.tree.strategy import PlannedTree, preferred
from oboro.tables.tree.workload import DEFAULT, Design, Workload
from oboro.tables.wavelet import Wavelet

if TYPE_CHECKING:
    from oboro.tables.series.plan import SeriesPlan

_TRIAL_BITS = 16  # the audit looks at every cell of every trial


@register
@dataclass(frozen=True)
class TablePlan(Plan):
    """Counts of all cells of a domain by one of the strategies.

    `design` says which levels a tree counts, and their shares of the budget; `workload` what it was planned for. Without
    a design a tree is planned here, for its workload; without `by_people`, so are the ways of a table that asks first how many people there are. With `publish_share` a tree publishes only cells that stand out, so
    that no more than this share of them hold nobody, on average.

    Privacy
        Records become counts by a rule that looks at one record at a time (input.py), so that one unit moves
        the counts by no more than it declares: `max_per_cell` in each of `max_cells` cells, or 1 for each of
        `max_rows` rows, and twice that under replace. The strategy measures whole numbers that are linear in
        the counts, and puts discrete Laplace noise of scale D/eps on each, D being how far one unit moves them
        in all: for the wavelet `wavelet.sensitivity`, for the tree see `Design.laplace` (and `Design.gaussian`
        with delta), for the others the largest column of their matrix times what the counts move. This is eps-DP
        [Ghosh, Roughgarden, Sundararajan 2009]. Each strategy lists what it measures as `parts`, and their costs add
        up. All that follows looks at noisy numbers, coins, and public facts. That noise is drawn only where it matters
        leaves the law of the output as it is: where a node publishes 0 its noise would change nothing.

        A public `total` is not measured. It is allowed under replace, where the number of units is public.
        Running time and memory depend on the data and are outside the promise.

    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, strategy="laplace")
    >>> plan.parts
    (Part(noise=DiscreteLaplace('1'), of='every cell', moves=Fraction(1, 1), costs=Pure(1), case=''),)
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
    publish_share: Fraction | None = None
    known: tuple[KnownTotals, ...] = ()
    by_people: tuple[Way, ...] = ()
    kind = "tables.table"
    leaves_out = "covers the noise; not errors in the data, nor records left out"
    with_shapes = VECTOR

    def check(self) -> None:
        positive("eps", self.guarantee.eps)
        if self.unit.kind not in ("row", "person", "cells"):
            raise UnitError(
                "a table counts rows or cells",
                given=str(self.unit),
                needed="a unit of cells, rows or persons",
                fix=setting(unit=Unit.cells()),
            )
        self._check_count()
        if self.total is not None:
            whole("total", self.total, least=0, most=LARGEST_TOTAL)
        if self.publish_share is not None and not 0 < self.publish_share < 1:
            raise ParameterError(
                "publish is the share of published cells that may hold nobody",
                given=told(publish=show(self.publish_share)),
                needed="a number between 0 and 1",
                fix=setting(publish="0.1"),
            )
        self.mechanism.check()
        if self.mechanism.planned and self.design is None:
            object.__setattr__(self, "workload", self.workload or DEFAULT)
            object.__setattr__(self, "design", self.mechanism.chosen)
        if isinstance(self.mechanism, Sized) and not self.by_people:
            object.__setattr__(self, "workload", self.workload or DEFAULT)
            object.__setattr__(self, "by_people", self.mechanism.taken)

    def _check_count(self) -> None:
        if self.count is None:
            return
        sources = [name for column in self.domain for name in column.sources]
        if not self.count or self.count in sources:
            raise ParameterError(
                "count must name a column beside those of the domain",
                given=told(count=repr(self.count)),
                fix=setting(count="people"),
            )
        if self.unit.kind != "cells":
            raise UnitError(
                "data that is counted already does not show its rows",
                given=told(count=repr(self.count)) + f" and {self.unit}",
                needed="how many cells one unit is in, and with how much",
                fix=setting(unit=Unit.cells()),
            )

    @cached_property
    def layout(self) -> Layout:
        """Where the cells lie, in one row."""
        return layout_of(self.domain, self.mask)

    @cached_property
    def mechanism(self) -> Strategy:
        """The strategy, bound to the facts of this plan."""
        planned = self.workload is not None or self.design is not None
        bind = strategy_called(self.strategy, self.domain, planned=planned)
        facts = (self.layout, self.guarantee, self.unit, self.total, self.workload, self.design)
        return bind(*facts, self.publish_share, self.known, self.by_people)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return self.mechanism.parts

    @property
    def noise(self) -> Noise:
        """The noise of each number that is measured; of a tree, of each cell."""
        return self.mechanism.noise

    @property
    def levels(self) -> tuple[str, ...]:
        """What a tree counts."""
        return () if self.design is None else tuple(part.of for part in self.parts)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the budget that each level has: rationals that add up to 1."""
        return () if self.design is None else self.mechanism.shares

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(name for column in self.domain for name in column.sources)

    @property
    def slowness(self) -> int:
        return self.mechanism.slowness

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """Error by block size. With `expected_total`, a guess at how many people there are, also what that means."""
        if expected_total is not None:
            expected_total = whole("expected_total", expected_total, least=0, most=LARGEST_TOTAL)
        return self.mechanism.forecast(self.total if expected_total is None else expected_total)

    def outlook(self, expected_total: int) -> Outlook | None:
        """What a guess at how many people there are means for cells; where the strategy can tell."""
        return self.mechanism.outlook(whole("expected_total", expected_total, least=0, most=LARGEST_TOTAL))

    def open(self, data: Data | Spread) -> Source | Opened:
        return data.opened() if isinstance(data, Spread) else open_data(data)

    def prepare(self, data: Data | Opened) -> Any:
        if isinstance(data, Opened):
            return data.prepare(self)
        return read_cells(data, self.layout, self.unit, self.count)

    def measure(self, prepared: Cells | Parted, bits: Bits, trials: int | None = None) -> Any:
        """The published cells; with `trials`, the counts of all keys, one row for each trial."""
        if isinstance(prepared, Parted):
            return prepared.measure(self, bits)
        if trials is None:
            return self.mechanism.measure(prepared, bits)[0]
        if self.layout.bits > _TRIAL_BITS:
            raise DomainError(
                "the domain is too large for trials",
                given=f"2^{self.layout.bits} cells",
                needed=f"at most 2^{_TRIAL_BITS}",
                fix="a smaller domain",
            )
        counts = np.zeros((trials, 1 << self.layout.bits), np.int64)
        for row, published in zip(counts, self.mechanism.measure(prepared, bits, trials), strict=True):
            row[published.keys] = published.counts
        return counts

    def publish(self, measured: Cells | Parts) -> Table:
        if isinstance(measured, Parts):
            return manifest(measured.listed())
        name = count_name(self.count, self.domain)
        if not isinstance(measured, Measured):
            return self._labelled(to_table(measured, self.layout, name))
        table = self._labelled(to_table(measured, self.layout, name, measured.estimates))
        table = with_noisy(table, self.to_dict(), measured.noisy)
        if NOISY in table.schema.metadata:
            return table
        return carrying_ends(table, self.mechanism.intervals(measured, 0.95))

    def part(self, measured: Cells) -> Table:
        """A part of the published table, as a file of its own: with the interval of each row where there is one."""
        name = count_name(self.count, self.domain)
        estimates = measured.estimates if isinstance(measured, Measured) else None
        table = self._labelled(to_table(measured, self.layout, name, estimates))
        if not isinstance(measured, Measured):
            return table
        return carrying_ends(table, self.mechanism.intervals(measured, 0.95))

    @property
    def footnote(self) -> str | None:
        """Which number to use for what, and which rows have no interval."""
        if not self.mechanism.carries:
            return None
        own = self.mechanism
        if not (own.planned or own.sized or self.strategy == "filtered"):  # one number
            return "the interval holds for each row, not for the largest one, nor for rows picked out by their values"
        name = count_name(self.count, self.domain)
        other = estimate_name(name, self.domain)
        return (
            f"for areas add up {self.heading(name)}; for a single row use {other}, where it is given: the interval is its own. "
            "It holds for each row, not for the largest one, nor for rows picked out by their values"
        )

    @property
    def intervals(self) -> Callable[[Any, float], tuple[Any, Any]] | None:  # type: ignore[override]
        """Intervals for the rows of the published table: (table, level) to (low, high)."""
        return self._intervals if self.mechanism.carries else None

    def _intervals(self, table: Any, level: float) -> tuple[Integers, Integers]:
        if is_manifest(table):
            raise in_parts()
        published = self.mechanism.published(table)
        check_rows(table, published, self.layout)
        return self.mechanism.intervals(published, level)

    def ask(self, table: Table, where: Where, level: float = 0.95) -> Answer:
        """What the published table says about a part of it, with an interval."""
        if is_manifest(table):
            raise in_parts()
        return self.mechanism.answer(self.mechanism.published(table), where, check_level(level))

    @property
    def formats(self) -> tuple[str, ...]:
        return (*super().formats, *VECTOR, *RASTER)

    @property
    def published_rows(self) -> int:
        """Perhaps far fewer: what is below the threshold does not go out. But how many, the noise decides."""
        return self.layout.cells

    def check_file(self, ending: str, rows: int | None = None) -> None:
        super().check_file(ending, rows)
        if ending in (*VECTOR, *RASTER):
            check_places(self.domain, ending)

    def encoded(self, table: Table, ending: str) -> bytes:
        """Also as what GIS reads: cells as polygons, or as a raster, with the 95% interval of each where there is one."""
        if ending not in (*VECTOR, *RASTER):
            return super().encoded(table, ending)
        count = count_name(self.count, self.domain)
        has = "low" in table.column_names or carries_ends(table)
        if self.mechanism.carries and not has and count in table.column_names:
            low, high = self._intervals(table, 0.95)
            table = table.append_column("low", [low]).append_column("high", [high])
        return encoded_places(table, self.domain, count, ending)

    def table_by(self, table: Table, by: Sequence[str], level: float = 0.95) -> Table:
        """The published table by areas of a level, perhaps by other columns too: counts with their intervals."""
        count = count_name(self.count, self.domain)
        return self._labelled(
            self.mechanism.by(self.mechanism.published(table), by, count, check_level(level))
        )

    def outlined(self, table: Table, by: Sequence[str], outlines: Path) -> Table:
        """A table by areas with the shape of each, for files that GIS reads."""
        levels = [name for column in self.domain if isinstance(column, Areas) for name in column.levels[:-1]]
        named = [name for name in levels if name in by]
        if not named:
            raise ParameterError(
                "outlines are of areas",
                given=told(by=", ".join(by)),
                needed=", ".join(levels) or "a column of areas",
                argument="outlines",
            )
        return with_outlines(table, named[-1], outlines)

    def _labelled(self, table: Table) -> Table:
        """Labels of columns, as files that have a place for them carry them: of each field, `label`."""
        import pyarrow as pa

        labels = dict(self.domain.labels)
        if labels.keys().isdisjoint(table.column_names):
            return table
        fields = [
            own.with_metadata({"label": labels[own.name]}) if own.name in labels else own
            for own in table.schema
        ]
        return table.cast(pa.schema(fields, table.schema.metadata))

    def heading(self, name: str) -> str:
        return self.domain.label(name)

    def describe(self) -> dict[str, object]:
        names = " by ".join(self.domain.label(name) for name in self.key_columns)
        counted = "counts" if self.count is None else self.domain.label(self.count)
        return {
            "released": f"table of {counted} by {names}",
            "noise": self.mechanism.words(),
        }

    @property
    def reads(self) -> tuple[Column, ...]:
        return ()

    def random_pair(self, random: np.random.Generator) -> Pair:
        return random_pair(self.layout, self.unit, self.count, random)

    def neighbours(self) -> Iterator[Pair]:
        return pairs(self.layout, self.unit, self.count, self.noise, self.mechanism.crowds)


@overload
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
    expected_total: int | None = None,
    publish: Number | None = None,
    known: Any = None,
) -> TablePlan: ...
@overload
def plan(
    domain: Domain,
    *,
    unit: Unit,
    eps: Number,
    delta: Number | None = None,
    workload: Workload | None = None,
    count: str | None = None,
    possible: Any = None,
    impossible: Any = None,
    ticks: int,
    max_ticks: int | None = None,
    event: bool = False,
) -> SeriesPlan: ...
@takes(domain=Domain, unit=Unit, strategy=text_of, workload=Workload, event=bool)
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
    expected_total: int | None = None,
    publish: Number | None = None,
    known: Any = None,
    ticks: int | None = None,
    max_ticks: int | None = None,
    event: bool = False,
) -> TablePlan | SeriesPlan:
    """A plan for a table of counts, or with `ticks` for a series of them.

    strategy     how it is measured. By default `tree`, or `filtered` for more cells than can be listed. For one column of places,
                 numbers or dates what was best for these questions on made-up tables: for as many people as a total says a tree, or `adaptive`,
                 mostly where people are few or rectangles are asked for; where nobody says how many there are and that matters, `sized`, which asks
                 for it first and then goes one of these ways.
                 `adaptive` with a workload is a tree for it that looks, as good for blocks of all sizes
    delta        with it the noise of a tree is Gaussian, and the promise (eps, delta)
    workload     what readers will ask, for a tree; by default blocks and squares
    count        the column that says how many; without it every row counts 1
    possible     a table of the only cells that can hold anyone (some columns of the domain are enough), or
    impossible   a table of those that cannot. Public knowledge, never read off the data. Without either, what the domain declares impossible
    total        how many there are in all, where that is public (under replace)
    expected_total   a guess at that, by which the strategy is chosen and nothing else
    publish      the share of published cells that may hold nobody, for a tree
    known        totals of areas that are public from elsewhere, and hold exactly: {"prefecture": {"34": 2_700_000}},
                 or a table of them, {"prefecture": "totals.csv"}; {"total": n} is that of all areas. By other columns too:
                 {"sex": {"F": 64_000_000, "M": 62_000_000}}, {("prefecture", "sex"): {"34": {"F": ..., "M": ...}}}
    ticks        how many tables come one after the other (`ob.tables.series`): the data has a column `tick`, from 0 on
    max_ticks    in how many of them one unit counts, in one cell each: the first that hold a person
    event        with a unit of rows: that one tick of somebody is protected, and not a person over time

    >>> plan = ob.tables.plan(mesh, unit=unit, eps="0.5", count="people", strategy="tree")
    >>> plan.levels
    ('32 x 32 of row,col', '8 x 8 of row,col', '1 x 1 of row,col')
    >>> for row in plan.forecast().rows[:3]:
    ...     print(row)
    ('1 x 1 of row,col', 1, 4.4255..., 9.3746..., 46.8731...)
    ('2 x 2 of row,col', 4, 8.6608..., 18.3462..., 91.7310...)
    ('4 x 4 of row,col', 16, 15.7076..., 33.2735..., 166.3676...)
    """
    if possible is not None and impossible is not None:
        raise ParameterError(
            "only one mask can be given", given="possible and impossible", needed="one of them"
        )
    mask: Mask | None
    if possible is not None:
        mask = possible_cells(domain, possible)
    elif impossible is not None:
        mask = impossible_cells(domain, impossible)
    else:
        mask = ruled_out(domain)
    guarantee = Pure(positive("eps", eps)) if delta is None else Approx(positive("eps", eps), delta)
    if ticks is not None:
        from oboro.tables.series.plan import series_plan

        _refuse_beside_ticks(
            strategy=strategy, total=total, expected_total=expected_total, publish=publish, known=known
        )
        return series_plan(
            domain,
            unit=unit,
            guarantee=guarantee,
            ticks=ticks,
            max_ticks=max_ticks,
            event=event,
            workload=workload,
            count=count,
            mask=mask,
        )
    if max_ticks is not None or event:
        raise ParameterError(
            "max_ticks and event belong to a series of tables",
            given=told(max_ticks=shown(max_ticks), event=shown(event)),
            needed="ticks as well",
            fix=setting(ticks=24),
        )
    share = None if publish is None else rational("publish", publish)
    totals = known_totals(known, domain)
    if expected_total is not None:
        expected_total = whole("expected_total", expected_total, least=0, most=LARGEST_TOTAL)
    over_areas = any(isinstance(column, Areas) for column in domain)
    usual = "tree" if over_areas else preferred(layout_of(domain, mask), total)
    made = TablePlan(
        domain, unit, guarantee, strategy or usual, count, mask, total, workload, None, share, totals
    )
    if made.strategy != PlannedTree.name or over_areas or share is not None or delta is not None:
        return made
    from oboro.tables.tree import trial  # loaded where a choice is made

    return trial.best(made, total if expected_total is None else expected_total, strategy is None)


def _refuse_beside_ticks(**given: object) -> None:
    """What a single table has and a series has not."""
    for name, value in given.items():
        if value is not None:
            raise ParameterError(
                f"a series of tables has no {name}",
                given=told(**{name: shown(value)}),
                needed="a plan without it",
                fix=setting(**{name: None}),
            )


@takes(plan=TablePlan, ledger=Ledger, count=text_of)
def release(
    data: Data,
    plan: TablePlan,
    *,
    ledger: Ledger,
    count: str | None = None,
    name: str | None = None,
    workers: int | None = None,
    parts: str | Path | None = None,
    shared: str | Path | None = None,
) -> Release:
    """Runs a plan; `count` names the column that says how many, if the plan does not.

    With `workers`, so many processes measure its sub-trees, of strategies `filtered` and `wavelet`, and `tree` of one column: a table of the same law, with less memory for each.
    With `parts` too, they write the table into that folder, as Parquet files; the ledger keeps the list of their hashes, and the folder has
    its certificate.
    A table of a Spark is measured by the workers of that Spark if `shared` names a folder that all of them and this program reach by the same path: what is written
    there meanwhile is as secret as the data.

    >>> plan = ob.tables.plan(mesh, unit=ob.Unit.cells(), eps=1, count="people")
    >>> release = ob.tables.release(cells, plan, ledger=ledger)
    >>> release.to_arrow().column_names, ledger.remaining
    (['row', 'col', 'people', 'estimate'], Pure(0))
    """
    plan = with_count(plan, count)
    with spread_over(data, plan, workers, parts, shared) as spread:
        released = run(plan, spread, ledger, name)
    if parts is not None:
        keep_list(released, path_of("parts", parts), ledger)
    return released


def with_count(plan: TablePlan, count: str | None) -> TablePlan:
    """The same plan for data with this count column."""
    return plan if count is None else dataclasses.replace(plan, count=count)


def _of_older(record: dict[str, object]) -> dict[str, object]:
    """A record of oboro 0.1: `adaptive` was another method, and a workload could give sides to questions that have none."""
    if record.get("strategy") == "adaptive":
        return {**record, "strategy": OlderAdaptive.name}
    asked = record.get("workload")
    if not isinstance(asked, list) or not all(isinstance(part, dict) for part in asked):
        return record
    sided = ("squares", "rectangles")
    parts = [
        part if part.get("kind") in sided else {k: v for k, v in part.items() if k != "sides"}
        for part in asked
    ]
    return {**record, "workload": parts}


upgrade("tables", _of_older)


_LISTED: tuple[type[Strategy], ...] = (Wavelet, PlannedTree, Adaptive, Sized, Filtered, *RIVALS)
STRATEGIES = {strategy.name: strategy for strategy in _LISTED}


def strategy_called(name: object, domain: Domain | None = None, *, planned: bool = False) -> type[Strategy]:
    """A strategy by its name, to be bound to the facts of a plan."""
    if name == AreaTree.name and domain is not None and any(isinstance(c, Areas) for c in domain):
        return AreaTree
    if name == OlderAdaptive.name:
        return OlderAdaptive
    if name == Pruned.name and planned:
        return Pruned
    if not isinstance(name, str) or name not in STRATEGIES:
        raise unknown("strategy", name, ["tree", *sorted(STRATEGIES.keys() - {"tree"})])
    return STRATEGIES[name]
