"""Series of tables, tried on made-up days: what each tick prints as it is published, what the final table prints, and what is said of a tick that was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from oboro.arrays import Integers, Table
from oboro.audit.figures import Tally, people
from oboro.domain import Domain, Grid
from oboro.noise import Bits
from oboro.privacy import Unit
from oboro.tables.plan import plan as table_plan
from oboro.tables.series.plan import Counted, SeriesPlan
from oboro.tables.series.sizes import each_tick, mean_over_ticks
from oboro.tables.tree.workload import Workload

_SIDE, _TICKS, _LOST = 16, 6, 2
_TOGETHER = 4  # as the rows of a tree do


def series(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Blocks at each tick and cells by the day; and cells at each tick, so that blocks of time tell what was lost."""
    asked = each_tick("4x4") + mean_over_ticks("cells")
    _tried(tally, name, _plan(eps, asked), levels, runs, bits)
    _tried(
        tally,
        f"{name}, cells",
        _plan(eps, each_tick("cells") + mean_over_ticks("all")),
        levels,
        max(runs // 4, 1),
        bits,
    )
    _tried(tally, f"{name}, Gaussian", _plan(eps, asked, delta="1e-6"), levels, max(runs // 4, 1), bits)
    _tried(tally, f"{name}, event level", _plan(eps, asked, event=True), levels, max(runs // 4, 1), bits)


def _plan(eps: str, workload: Workload, delta: str | None = None, event: bool = False) -> SeriesPlan:
    domain = Domain([Grid("row", "col", shape=(_SIDE, _SIDE))])
    unit, most = (Unit.row(), 1) if event else (Unit.cells(), _TICKS)
    count = None if event else "n"
    made = table_plan(
        domain,
        unit=unit,
        eps=eps,
        delta=delta,
        ticks=_TICKS,
        max_ticks=most,
        event=event,
        workload=workload,
        count=count,
    )
    assert isinstance(made, SeriesPlan)
    return made


def _day() -> Integers:
    """A dense corner and empty land, from which people come and to which they go."""
    land, rng = people(), np.random.default_rng(13)
    return np.stack([rng.poisson(np.roll(land[12:28, 12:28], tick, axis=tick % 2)) for tick in range(_TICKS)])


def _tried(tally: Tally, name: str, plan: SeriesPlan, levels: Sequence[float], runs: int, bits: Bits) -> None:
    day = _day()
    tick, row, col = np.nonzero(day)
    counts = day[tick, row, col]
    if plan.count is None:
        tick, row, col = (np.repeat(own, counts) for own in (tick, row, col))
    data = {"tick": tick.tolist(), "row": row.tolist(), "col": col.tolist()}
    prepared = plan.prepare(data if plan.count is None else {**data, plan.count: counts.tolist()})
    # without noise the least-squares answer is the truth
    truth = [np.asarray(table["estimate"], np.int64) for _, table in _published(plan, prepared)]
    for _ in range(runs):
        for true, (what, table) in zip(truth, _published(plan, plan.measure(prepared, bits)), strict=True):
            single = np.asarray(table["ticks"], np.int64) == 1
            for level in levels:
                low, high = plan.intervals(table, level)
                inside, width = (low <= true) & (true <= high), high - low
                for rows, of in ((single, "ticks"), (~single, "all of the time")):
                    if rows.any():
                        tally.add(
                            f"{name}, {of} {what}", level, inside[rows], float(width[rows].sum()), _TOGETHER
                        )


def _published(plan: SeriesPlan, counts: Sequence[Integers]) -> Iterator[tuple[str, Table]]:
    """Every table that goes out: of each tick, the final one, and that of a series that lost a tick."""
    measured = [Counted(piece, own) for piece, own in zip(plan.every, counts, strict=True)]
    for tick in range(plan.ticks):
        past = [one for one in measured if one.piece.span[-1] <= tick]
        yield "at once", plan.provisional(past, range(tick + 1), tick)
    yield "in the end", plan.final(measured, range(plan.ticks))
    rest = [tick for tick in range(plan.ticks) if tick != _LOST]
    yield "with one lost", plan.final([one for one in measured if one.piece.span[-1] in rest], rest)
