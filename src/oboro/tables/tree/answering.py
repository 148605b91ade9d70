"""Intervals for the cells of a published tree, and answers to questions about any part of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Integers, Table
from oboro.noise.laplace import check_level
from oboro.records import write
from oboro.tables.tree.asking import Where, choices
from oboro.tables.tree.carrying import NOISY, cells_in, noisy_in
from oboro.tables.tree.intervals import Answer, Estimates, estimates, hull

if TYPE_CHECKING:
    from oboro.tables.tree.strategy import PlannedTree


def tree_intervals(strategy: PlannedTree, table: Table, level: float) -> tuple[Integers, Integers]:
    """The lowest and highest count of each row of the published table."""
    found, layout = _estimates(strategy, table), strategy.layout
    cells = cells_in(table, layout)  # in the order of keys, as the rows are
    at = found.leaves.reshape(-1)[found.lattice.leaf(layout, cells.keys)]
    return hull(at, found.errors(), cells.counts, check_level(level))


def tree_answer(strategy: PlannedTree, table: Table, where: Where, level: float) -> Answer:
    """The sum of the published counts of some cells, and an interval for the true sum."""
    found = _estimates(strategy, table)
    lattice = found.lattice
    chosen = choices(strategy.layout, lattice, where)
    value, error = found.answer(chosen)
    cells = cells_in(table, strategy.layout)
    parts = np.unravel_index(
        lattice.leaf(strategy.layout, cells.keys), tuple(tree.leaves for tree in lattice.trees)
    )
    inside = np.ones(cells.keys.size, np.bool_)
    for choice, part in zip(chosen, parts, strict=True):
        inside &= choice[part]
    published = cells.counts[inside].sum()
    low, high = hull(np.array(value), error, np.array(published), level)
    return Answer(int(published), int(low), int(high), error, level)


def _estimates(strategy: PlannedTree, table: Table) -> Estimates:
    """The least-squares solution of a table; the last one is kept."""
    design, layout = strategy.chosen, strategy.layout
    packed = (table.schema.metadata or {}).get(NOISY, b"")
    facts = (layout.domain.to_dict(), write(design), strategy.eps, strategy.unit, strategy.total)
    digest = hashlib.sha256(packed + repr(facts).encode() + layout.heads[1].tobytes()).digest()
    if digest not in _last:
        shapes = [strategy.lattice.nodes(level) for level in design.levels]
        found = estimates(layout, design, strategy.noises, noisy_in(table, shapes), strategy.total)
        _last.clear()
        _last[digest] = found
    return _last[digest]


_last: dict[bytes, Estimates] = {}
