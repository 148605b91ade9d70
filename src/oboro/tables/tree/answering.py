"""Intervals for the cells of a published table, and answers to questions about any part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from oboro.errors import DataError
from oboro.noise.laplace import check_level
from oboro.privacy import Approx, Pure, Unit
from oboro.tables.layout import Layout
from oboro.tables.tree.asking import Where, choices
from oboro.tables.tree.carrying import NOISY, cells_in, noisy_in
from oboro.tables.tree.design import Design
from oboro.tables.tree.grid_answers import adaptive_answer, adaptive_intervals
from oboro.tables.tree.intervals import Answer, Estimates, estimates, hull
from oboro.tables.tree.lattice import Integers, lattice_of
from oboro.tables.tree.leftover import filtered_answer, filtered_intervals
from oboro.tables.tree.outlook import Outlook, filtered_outlook, tree_outlook
from oboro.tables.tree.region import region_of

Table = Any  # pyarrow.Table, loaded on first use


class Planned(Protocol):
    """What is needed of a plan: public facts."""

    @property
    def layout(self) -> Layout: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def guarantee(self) -> Pure | Approx: ...
    @property
    def strategy(self) -> str: ...
    @property
    def design(self) -> Design | None: ...
    @property
    def total(self) -> int | None: ...


Intervals = Callable[[Table, float], tuple[Integers, Integers]]
CARRY = ("tree", "filtered", "adaptive")  # strategies whose files carry what intervals come from


def intervals_of(plan: Planned) -> Intervals | None:
    """Intervals for the rows of the published table, where its file carries what they come from."""
    facts = (plan.layout, plan.guarantee.eps, plan.unit)
    if plan.strategy == "filtered":
        return lambda table, level: filtered_intervals(table, level, *facts)
    if plan.strategy == "adaptive":
        return lambda table, level: adaptive_intervals(table, level, *facts, plan.total)
    return None if plan.design is None else partial(cell_intervals, plan)


def outlook_of(plan: Planned, total: int) -> Outlook | None:
    """What so many people would mean for cells, where that can be told."""
    layout, eps, unit = plan.layout, plan.guarantee.eps, plan.unit
    if plan.strategy == "filtered":
        return filtered_outlook(layout, eps, unit, total)
    if plan.design is None:
        return None
    noises = tuple(plan.design.noises(eps, unit))
    return tree_outlook(lattice_of(layout.domain), layout.cells, plan.design, noises, total)


def cell_intervals(plan: Planned, table: Table, level: float) -> tuple[Integers, Integers]:
    """The lowest and highest count of each row of the published table."""
    found = _estimates(plan, table)
    cells = cells_in(table, plan.layout)  # in the order of keys, as the rows are
    at = found.leaves.reshape(-1)[found.lattice.leaf(plan.layout, cells.keys)]
    return hull(at, found.errors(), cells.counts, check_level(level))


def answered(plan: Planned, table: Table, where: Where, level: float) -> Answer:
    """The sum of the published counts of some cells, and an interval for the true sum."""
    check_level(level)
    facts = (plan.layout, plan.guarantee.eps, plan.unit)
    if plan.strategy == "filtered":
        return filtered_answer(table, region_of(plan.layout, where), level, *facts)
    if plan.strategy == "adaptive":
        return adaptive_answer(table, region_of(plan.layout, where), level, *facts, plan.total)
    if plan.design is None:
        raise DataError(
            f"a table by strategy {plan.strategy} carries nothing that intervals could come from",
            needed=f"a table by one of the strategies {', '.join(CARRY)}",
            fix='strategy="tree"',
        )
    found = _estimates(plan, table)
    lattice = found.lattice
    chosen = choices(plan.layout, lattice, where)
    value, error = found.answer(chosen)
    cells = cells_in(table, plan.layout)
    parts = np.unravel_index(
        lattice.leaf(plan.layout, cells.keys), tuple(tree.leaves for tree in lattice.trees)
    )
    inside = np.ones(cells.keys.size, np.bool_)
    for choice, part in zip(chosen, parts, strict=True):
        inside &= choice[part]
    published = cells.counts[inside].sum()
    low, high = hull(np.array(value), error, np.array(published), level)
    return Answer(int(published), int(low), int(high), error, level)


def _estimates(plan: Planned, table: Table) -> Estimates:
    """The least-squares solution of a table; the last one is kept."""
    design, layout, eps = plan.design, plan.layout, plan.guarantee.eps
    assert design is not None
    packed = (table.schema.metadata or {}).get(NOISY, b"")
    made = repr((layout.domain.to_dict(), design.to_dict(), eps, plan.unit, plan.total)).encode()
    digest = hashlib.sha256(packed + made + layout.heads[1].tobytes()).digest()
    if digest not in _last:
        shapes = [lattice_of(layout.domain).nodes(level) for level in design.levels]
        found = estimates(layout, design, design.noises(eps, plan.unit), noisy_in(table, shapes), plan.total)
        _last.clear()
        _last[digest] = found
    return _last[digest]


_last: dict[bytes, Estimates] = {}
