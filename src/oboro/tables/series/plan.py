"""The plan for a series of tables: one horizon, reserved once, published tick by tick."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from oboro.arrays import Bools, Data, Floats, Integers, Table
from oboro.domain import Areas, Column, Domain
from oboro.engine import Source, open_data
from oboro.errors import DomainError, ParameterError, UnitError, setting, told
from oboro.exact import positive, show, whole
from oboro.noise import Bits, DiscreteGaussian
from oboro.privacy import Approx, Pure, Unit
from oboro.release import Forecast, Pair, Part, Plan, part, register
from oboro.release.part import Additive
from oboro.tables.cells import Layout
from oboro.tables.input import MOST_TICKS, TICK
from oboro.tables.mask import Mask, layout_of
from oboro.tables.neighbours import some_possible
from oboro.tables.series import figures
from oboro.tables.series.clock import Clock
from oboro.tables.series.estimates import Counts, Estimates, Node
from oboro.tables.series.figures import NAMES
from oboro.tables.series.planner import lattice_over, plan_levels
from oboro.tables.series.sizes import shown, usual
from oboro.tables.series.visits import Visits, read_visits
from oboro.tables.strategy import Noise, count_name, counts_move, key_columns
from oboro.tables.tree.intervals import with_noisy
from oboro.tables.tree.lattice import Lattice, Level, lattice_of
from oboro.tables.tree.measure import spine_of
from oboro.tables.tree.strategy import rho_of
from oboro.tables.tree.workload import Design, Workload

LARGEST = 2**22  # cells of the places: each of them goes out
_MOST_COUNTS = 2**26  # noisy counts of a whole series
_CROWD = 20  # standard errors: so many others where there are many


@dataclass(frozen=True)
class Piece:
    """What is counted of one block of time at one level of places, as soon as it is over, and its noise."""

    of: int  # the place of its level in the design
    node: int  # the number of the block of time
    span: range
    level: Level  # of places
    noise: Noise


@dataclass(frozen=True)
class Counted:
    """A piece with its noisy counts."""

    piece: Piece
    counts: Integers


@register
@dataclass(frozen=True)
class SeriesPlan(Plan):
    """Counts over time and place, published tick by tick.

    `ticks` is the horizon. One unit is in at most one cell a tick, in at most `max_ticks` ticks. `design` says which levels of time and place are
    counted, and their shares of the budget; a part is counted as soon as it is over. Without a design it is planned here.

    Privacy
        One unit is a person over the whole horizon. Of its rows one counts in a tick, and only in the first M = `max_ticks` ticks that hold it:
        by a rule that looks at the rows of that person up to the tick alone (`engine.count_ticks`), so that the counts of a block of ticks are the
        same whenever they are read, if rows are only added to ticks to come. Rows that come late add nothing to this, since ticks are then published in their order (series.py has the proof);
        rows of the past that are taken away would, unless M is all ticks. At event level (rows) M = 1. Counted cells (`Unit.cells`) do not show
        whose they are: that one unit is in one cell a tick, in at most M ticks, with at most `max_per_cell` = w in each, is declared, and the promise rests on it.

        Every level l is counted in parts: blocks of time that do not overlap, each over places that do not. Each part is drawn once, with noise of its own, when its block of time is
        over. The data may react to what was published: fix the coins of whoever makes it. Given all that was published before, the data of both
        neighbours is then fixed, and so is d_v, by how much the counts of the part v differ between them, before the noise of v is drawn.

        How far: each tick lies in one part of a level, and there the unit is in one cell. So on every path, whatever was published, the sum of |d_v| over the parts of a
        level, in the 1-norm, is at most D = w M. In the 2-norm a block of tau ticks moves by at most w min(m, tau), m being the ticks of the unit in it; the sum of squares is convex
        in these, so it is largest if the unit fills as many blocks as it can: D2 = w^2 (floor(M/tau) tau^2 + (M mod tau)^2). Under replace one unit goes and another comes:
        2 D, and 2 D2 (where both are in one cell of one part they move it by less).

        Laplace: level l has discrete Laplace noise of scale D / (share_l eps). The ratio of the likelihoods of all that is published is a product over the parts, one after the other, each at
        most e^(|d_v| share_l eps / D); the sum of the exponents is at most share_l eps for a level and eps for all, on every path. That is eps-DP, adaptively
        [Ghosh, Roughgarden, Sundararajan 2009; the product as in Dwork, Rothblum, Vadhan 2010].

        Gaussian (with delta): level l has discrete Gaussian noise of variance D2_l / (2 share_l rho). Given the past a part has a Rényi divergence of order a of at most a d_v^2 / (2 sigma_l^2)
        [Canonne, Kamath, Steinke 2020]; their sum is at most a rho on every path, though each depends on the past. Then the product of the likelihood ratios to the power a, times
        e^(-(a-1) a times the sum so far), is a supermartingale, so that the divergence of all that is published is at most a rho [Feldman, Zrnic 2021, Theorem 3.1]: rho-zCDP. It is converted to
        (eps, delta) once, for the whole series; never part by part.

        All that follows, least squares, whole numbers, intervals, sees noisy counts and public facts. A part that was lost was drawn at most once, and is never drawn again.

    >>> plan = ob.tables.plan(mesh, unit=ob.Unit.person("who", max_rows=24), eps=1, ticks=24, max_ticks=24)
    >>> plan.parts[1]
    Part(noise=DiscreteLaplace('24000/499'), of='each tick; 8 x 8 of row,col', moves=Fraction(24, 1), costs=Pure('0.499'), case='')
    """

    domain: Domain
    unit: Unit
    guarantee: Pure | Approx
    ticks: int
    max_ticks: int
    count: str | None = None
    mask: Mask | None = None
    workload: Workload | None = None
    design: Design | None = None
    kind = "tables.series"
    leaves_out = "covers the noise; not errors in the data, nor rows left out"

    # What is decided

    def check(self) -> None:
        positive("eps", self.guarantee.eps)
        whole("ticks", self.ticks, least=2, most=MOST_TICKS)
        whole("max_ticks", self.max_ticks, least=1, most=self.ticks)
        self._check_unit()
        self._check_domain()
        if self.workload is None:
            object.__setattr__(self, "workload", usual(self.places))
        shown(self._asked, self.places)
        if self.design is None:
            rho = rho_of(self.guarantee) if isinstance(self.guarantee, Approx) else None
            moved = None if rho is None else tuple(self.moves_squared(a) for a in range(self.clock.depth + 1))
            levels, shares = plan_levels(self.clock, self.places, self._asked, moved)
            object.__setattr__(self, "design", Design(levels, shares, rho))
        self._check_design()

    def _check_unit(self) -> None:
        unit = self.unit
        wanted = {"person": unit.max_rows, "cells": unit.max_cells, "row": 1}.get(unit.kind)
        if wanted != self.max_ticks:
            raise UnitError(
                "the unit of a series is in one cell a tick, in max_ticks of them",
                given=f"{unit}, " + told(max_ticks=f"{self.max_ticks}"),
                needed="a plan as its function makes it",
                fix=setting(unit=Unit.person("user_id", max_rows=self.max_ticks)),
            )
        if self.count is not None and unit.kind != "cells":
            raise UnitError(
                "data that is counted already does not show its rows",
                given=told(count=repr(self.count)) + f" and {unit}",
                needed="how many cells one unit is in, and with how much",
                fix=setting(unit=Unit.cells()),
            )

    def _check_domain(self) -> None:
        taken = [*NAMES, *([] if self.count is None else [self.count])]
        sources = [name for column in self.domain for name in column.sources]
        clash = [name for name in sources if name in taken]
        if clash or self.count in (*NAMES, ""):
            raise DomainError(
                "the name of a column is taken by the series itself",
                given=", ".join(clash) or f"{self.count}",
                needed=f"names other than {', '.join(NAMES)}",
            )
        if any(isinstance(column, Areas) for column in self.domain):
            raise DomainError(
                "a series counts places that are divided regularly",
                given=", ".join(self.domain.names),
                needed="a domain without areas",
            )
        if self.places.leaves > LARGEST or self.places.leaves * self.ticks > 8 * _MOST_COUNTS:
            raise DomainError(
                "the domain is too large for a series",
                given=f"{self.places.leaves:,} cells, {self.ticks} ticks",
                needed=f"at most 2^{LARGEST.bit_length() - 1} cells: every one is listed",
            )

    def _check_design(self) -> None:
        design, lattice = self._design, lattice_over(self.clock, self.places)
        known = all(
            len(level) == len(lattice.shape)
            and all(0 <= at < size for at, size in zip(level, lattice.shape, strict=True))
            for level in design.levels
        )
        if not known or not any(level[1:] == self.places.finest for level in design.levels):
            raise ParameterError(
                "the levels and shares of the plan cannot be used",
                given=f"levels {[list(level) for level in design.levels]}",
                needed="levels of time and of the domain, one with its cells among them",
                fix="a plan as its function makes it",
            )
        if (design.rho is None) != isinstance(self.guarantee, Pure):
            raise ParameterError(
                "the noise of the plan does not fit its promise",
                given=str(self.guarantee),
                needed="a plan as its function makes it",
                fix=setting(delta=None),
            )

    @property
    def _design(self) -> Design:
        assert self.design is not None
        return self.design

    @property
    def _asked(self) -> Workload:
        assert self.workload is not None
        return self.workload

    @cached_property
    def layout(self) -> Layout:
        """Where the cells lie."""
        return layout_of(self.domain, self.mask)

    @cached_property
    def places(self) -> Lattice:
        return lattice_of(self.domain)

    @cached_property
    def possible(self) -> Bools | None:
        """Which leaves of the places are cells; None if all are."""
        return self.places.possible(self.layout)

    @cached_property
    def clock(self) -> Clock:
        return Clock(self.ticks)

    @cached_property
    def shown(self) -> Level:
        """The level of the blocks that each tick publishes."""
        return shown(self._asked, self.places)

    @property
    def in_order(self) -> bool:
        """Whether ticks must be published in their order: where the past decides in which of them a person counts."""
        return self.unit.kind == "person" and self.max_ticks < self.ticks

    # What one unit moves, and what that costs

    def moves_squared(self, level: int) -> int:
        """How far one unit moves the counts of a level of time, in the squared 2-norm: see the proof above."""
        tau, most = self.clock.length(level), self.max_ticks
        filled = (most // tau) * tau**2 + (most % tau) ** 2
        return filled * (self.unit.max_per_cell or 1) ** 2 * (2 if self.unit.adjacency == "replace" else 1)

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each level."""
        design = self._design
        if design.rho is None:
            return tuple(design.laplace(self.guarantee.eps, self.unit))
        return tuple(
            DiscreteGaussian(self.moves_squared(level[0]) / (2 * share * design.rho))
            for level, share in zip(design.levels, design.shares, strict=True)
        )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        lattice, gaussian = lattice_over(self.clock, self.places), self._design.rho is not None
        return tuple(
            part(
                noise,
                lattice.name(level),
                moves=self.moves_squared(level[0]) if gaussian else counts_move(self.unit),
            )
            for noise, level in zip(self.noises, self._design.levels, strict=True)
        )

    @property
    def levels(self) -> tuple[str, ...]:
        """What is counted."""
        return tuple(part.of for part in self.parts)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the budget that each level has."""
        return self._design.shares

    # Running

    def pieces(self, tick: int) -> list[Piece]:
        """What is counted with this tick: the blocks of time that it ends, at their levels of places."""
        found = []
        for time, node in self.clock.closing(tick):
            for i, level in enumerate(self._design.levels):
                if level[0] == time:
                    span = self.clock.span(time, node)
                    found.append(Piece(i, node, span, level[1:], self.noises[i]))
        return found

    def open(self, data: Data) -> Source:
        return open_data(data)

    def read(self, data: Data) -> Visits:
        """The data so far, from the first tick on."""
        return read_visits(data, self.layout, self.places, self.ticks, self.unit, self.count)

    def counted(self, visits: Visits, tick: int) -> list[Integers]:
        """The true counts of what is over with this tick, piece by piece."""
        return [visits.within(piece.span, self.places, piece.level) for piece in self.pieces(tick)]

    def drawn(
        self, pieces: Sequence[Piece], counts: Sequence[Integers], bits: Bits, trials: int | None = None
    ) -> list[Integers]:
        """Counts of pieces with noise on each; with `trials` so many times, along a new first axis."""
        times = () if trials is None else (trials,)
        return [
            own + piece.noise.sample((*times, *own.shape), bits)
            for piece, own in zip(pieces, counts, strict=True)
        ]

    # One release of the whole horizon: all ticks at once

    @cached_property
    def every(self) -> list[Piece]:
        return [piece for tick in range(self.ticks) for piece in self.pieces(tick)]

    def prepare(self, data: Data) -> list[Integers]:
        visits = self.read(data)
        return [counts for tick in range(self.ticks) for counts in self.counted(visits, tick)]

    def measure(self, prepared: Sequence[Integers], bits: Bits, trials: int | None = None) -> list[Integers]:
        return self.drawn(self.every, prepared, bits, trials)

    def added(self) -> Additive:
        def noises(prepared: Sequence[Integers]) -> list[Noise]:
            return [
                piece.noise for piece, own in zip(self.every, prepared, strict=True) for _ in range(own.size)
            ]

        return Additive(
            noises,
            lambda prepared: np.concatenate([own.reshape(-1) for own in prepared]),
            lambda prepared, bits, trials: [
                piece.noise.sample((trials, *own.shape), bits)
                for piece, own in zip(self.every, prepared, strict=True)
            ],
        )

    def publish(self, measured: Sequence[Integers]) -> Table:
        counted = [Counted(piece, own) for piece, own in zip(self.every, measured, strict=True)]
        return self.final(counted, range(self.ticks))

    def final(self, measured: Sequence[Counted], done: Sequence[int]) -> Table:
        """The table of the whole horizon, from what was counted with the ticks that are done."""
        estimates, values = self._from(measured, done)
        families = figures.final(estimates, values, self.shown, self.possible)
        return self._table(families, estimates, None)

    def provisional(self, measured: Sequence[Counted], done: Sequence[int], tick: int) -> Table:
        """The table of one tick, from what was counted in the longest block of time that is over with it."""
        block = self.clock.span(*self.clock.closing(tick)[0])
        estimates, values = self._from(measured, [one for one in done if one in block])
        families = figures.provisional(estimates, values, tick, self.shown, self.possible)
        return self._table(families, estimates, tick)

    def _from(
        self, measured: Sequence[Counted], done: Sequence[int]
    ) -> tuple[Estimates, Callable[[Sequence[Node], Level], dict[Node, Floats]]]:
        estimates = self.estimates(frozenset(done))
        counts: Counts = {(one.piece.of, one.piece.node): one.counts for one in measured}

        def values(wanted: Sequence[Node], level: Level) -> dict[Node, Floats]:
            return estimates.values(counts, wanted, level, self.possible)

        return estimates, values

    def _table(self, families: Sequence[figures.Family], estimates: Estimates, tick: int | None) -> Table:
        table = figures.table_of(families, estimates, self.layout, self.possible, self.count_column, tick)
        return with_noisy(table, self.to_dict(), ())

    def estimates(self, done: frozenset[int]) -> Estimates:
        """What is known once some ticks are done."""
        return Estimates(self.clock, self.places, self._design, self.noises, done)

    # What is said

    @property
    def count_column(self) -> str:
        return count_name(self.count, self.domain)

    @property
    def intervals(self) -> Callable[[Any, float], tuple[Any, Any]]:  # type: ignore[override]
        return self._intervals

    def _intervals(self, table: Table, level: float) -> tuple[Integers, Integers]:
        return figures.intervals(table, self.estimates(frozenset()), self.shown, self.count_column, level)

    @property
    def interval_in_files(self) -> bool:
        return True

    @property
    def key_columns(self) -> tuple[str, ...]:
        return (TICK, *(name for column in self.domain for name in column.sources))

    @property
    def published_rows(self) -> int:
        return math.prod(self.places.nodes(self.shown)) * self.ticks + self.layout.cells

    @property
    def footnote(self) -> str:
        return (
            f"{self.count_column} is over all ticks of a row: divide by ticks for the mean. "
            "A provisional row is estimated again when more of its block of time is over"
        )

    @property
    def reads(self) -> tuple[Column, ...]:
        return ()

    def describe(self) -> dict[str, object]:
        names = " by ".join(self.domain.label(name) for name in self.key_columns[1:])
        levels = [
            {"level": one.of, "share": show(share), **one.noise.to_dict()}
            for one, share in zip(self.parts, self.shares, strict=True)
        ]
        return {
            "released": f"series of {self.ticks} tables of counts by {names}",
            "noise": {"strategy": "series", "levels": levels, "counted": self.bounded},
        }

    @property
    def bounded(self) -> str:
        """How much of one unit counts, and whether that is enforced or declared."""
        if self.unit.kind == "row":
            return "one row, which is one tick of somebody: not a person over time"
        if self.unit.kind == "cells":
            return f"one unit is in one cell a tick, in at most {self.max_ticks} ticks: declared, counts cannot show it"
        return f"one cell a tick, in the first {self.max_ticks} ticks that hold a person"

    def forecast(self) -> Forecast:
        """Errors by block size: of one tick as it is published and in the end, and of the mean over all ticks."""
        spine, rows = spine_of(self.places), []
        tree, depth = self.places.trees[spine], self.clock.depth
        done = self.estimates(frozenset(range(self.ticks)))
        alone = self.estimates(frozenset([0]))
        times: list[tuple[str, Estimates, Node, int]] = [
            ("one tick, at once", alone, (depth, 0), 1),
            ("one tick, in the end", done, (depth, 0), 1),
            ("mean over ticks", done, (0, 0), self.ticks),
        ]
        for time, estimates, at, divided in times:
            for here in range(tree.depth, -1, -1):
                level = tuple(here if i == spine else t.depth for i, t in enumerate(self.places.trees))
                error = estimates.error(at, level)
                if error is not None:
                    size = self.places.covers(level)
                    rows.append(
                        (
                            time,
                            self.places.name(level),
                            size,
                            error.sd / divided,
                            error.reach(0.95) / divided,
                        )
                    )
        named = [f"{one.of} ({float(share):.1%})" for one, share in zip(self.parts, self.shares, strict=True)]
        columns = ("time", "block size", "cells", "standard error", "95% within ±")
        notes = (
            "before counts are kept at 0 or more, which mostly makes errors smaller",
            "measured: " + "; ".join(named),
            self.bounded,
        )
        return Forecast("expected error of a series, by time and block size", columns, tuple(rows), notes)

    # Worst cases, for the audit

    def neighbours(self) -> Iterator[Pair]:
        """One unit in the same cell for as many ticks as count, and one more; or nobody. Under replace, in two cells."""
        cells = some_possible(self.layout)
        here, there = cells[0], cells[-1]
        crowd = _CROWD * math.ceil(max(noise.sd for noise in self.noises)) + _CROWD
        longest = list(range(min(self.max_ticks + (self.unit.kind == "person"), self.ticks)))
        late = list(range(self.ticks - self.max_ticks, self.ticks))
        for ticks in [longest, late] if late != longest else [longest]:
            for others, where in ((0, "and nobody else"), (crowd, "among many")):
                moved = [(tick, there) for tick in ticks] if self.unit.adjacency == "replace" else []
                one, other = (
                    self._records(others, mine) for mine in ([(tick, here) for tick in ticks], moved)
                )
                yield Pair(one, other, f"one unit in ticks {ticks[0]} to {ticks[-1]}, {where}")

    def random_pair(self, random: np.random.Generator) -> Pair:
        cells = some_possible(self.layout)

        def visits() -> list[tuple[int, int]]:
            ticks = random.choice(self.ticks, self.max_ticks, replace=False)
            return [(int(tick), int(random.choice(cells))) for tick in ticks]

        mine, moved = visits(), visits() if self.unit.adjacency == "replace" else []
        others = int(random.integers(0, 4))
        one, other = (self._records(others, own) for own in (mine, moved))
        return Pair(one, other, "a random unit in random cells")

    def _records(self, others: int, mine: Sequence[tuple[int, int]]) -> Any:
        """Data with so many others in the first and the last cell, at the first and the last tick, and one unit where it is."""
        import pyarrow as pa

        cells = some_possible(self.layout)
        crowd = [(tick, cell) for tick in {0, self.ticks - 1} for cell in {cells[0], cells[-1]}]
        weight = self.unit.max_per_cell or 1
        if self.count is not None:
            visits = [*(crowd if others else []), *mine]
            beside = {
                self.count: pa.array([*([others] * (len(visits) - len(mine))), *([weight] * len(mine))])
            }
        else:
            strangers = [visit for visit in crowd for _ in range(others)]
            own = [visit for visit in mine for _ in range(weight)]
            visits = [*strangers, *own]
            people = [f"stranger {i}" for i in range(len(strangers))] + ["someone"] * len(own)
            beside = {} if self.unit.column is None else {self.unit.column: pa.array(people, pa.string())}
        keys = np.array([cell for _, cell in visits], np.int64)
        ticks = pa.array([tick for tick, _ in visits], pa.int64())
        return pa.table({TICK: ticks, **dict(key_columns(keys, self.layout)), **beside})


def series_plan(
    domain: Domain,
    *,
    unit: Unit,
    guarantee: Pure | Approx,
    ticks: int,
    max_ticks: int | None,
    event: bool,
    workload: Workload | None,
    count: str | None,
    mask: Mask | None,
) -> SeriesPlan:
    """A plan for a series, with its unit over the whole horizon."""
    ticks = whole("ticks", ticks, least=2, most=MOST_TICKS)
    if (unit.kind == "row") != event:
        raise UnitError(
            "a row is one tick of somebody, and no person over time: that is asked for by name"
            if unit.kind == "row"
            else "event level is for a unit of rows",
            given=str(unit),
            needed="a person over the whole horizon, or a row and event",
            fix=setting(event=True) if unit.kind == "row" else setting(unit=Unit.row()),
        )
    if unit.kind not in ("row", "person", "cells"):
        raise UnitError(
            "a table counts rows or cells",
            given=str(unit),
            needed="a unit of cells, rows or persons",
            fix=setting(unit=Unit.cells()),
        )
    if event:
        most = 1 if max_ticks is None else whole("max_ticks", max_ticks, least=1, most=1)
    elif max_ticks is None:
        raise ParameterError(
            "say in how many ticks one unit may count",
            given=told(ticks=f"{ticks}"),
            needed="a number from 1 to that of all ticks: what is beyond is left out",
            fix=setting(max_ticks=ticks),
        )
    else:
        most = whole("max_ticks", max_ticks, least=1, most=ticks)
    if unit.kind == "person":
        unit = replace(unit, max_rows=most)
    elif unit.kind == "cells":
        if (unit.max_cells or 1) > most:
            raise UnitError(
                "one unit is in one cell a tick, in at most max_ticks of them",
                given=f"{unit}, " + told(max_ticks=f"{most}"),
                needed="a unit in at most max_ticks cells",
                fix=setting(max_ticks=unit.max_cells),
            )
        unit = replace(unit, max_cells=most)
    return SeriesPlan(domain, unit, guarantee, ticks, most, count, mask, workload, None)
