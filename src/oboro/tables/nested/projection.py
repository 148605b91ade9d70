"""Leaves of the tree and cells of the table; and from estimates to what is published."""

from __future__ import annotations

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.cells import Layout
from oboro.tables.nested.known import Fixed
from oboro.tables.nested.lattice import AreaLattice
from oboro.tables.tree.measure import beside, whole_total


def leaves_of(lattice: AreaLattice, layout: Layout, keys: Integers) -> Integers:
    """The leaves of cells, as numbers in one row."""
    if keys.size == 0:
        return np.empty(0, np.int64)
    axes = layout.places(keys)
    own, rest, at = np.empty(0, np.int64), [], 0
    trees = iter(lattice.beside)
    for i in range(len(layout.domain)):
        if i == lattice.axis:
            own, at = lattice.branches.leaf_of[axes[at]], at + 1
        else:
            tree = next(trees)
            rest.append(tree.leaf(axes[at : at + len(tree.sizes)]))
            at += len(tree.sizes)
    form = (lattice.branches.leaves, *lattice.groups)
    return np.ravel_multi_index((own, *rest), form).astype(np.int64)


def keys_of(lattice: AreaLattice, layout: Layout, leaves: Integers) -> Integers:
    """The keys of cells from their leaves."""
    own, *rest = np.unravel_index(leaves, (lattice.branches.leaves, *lattice.groups))
    places = [tree.places(part) for tree, part in zip(lattice.beside, rest, strict=True)]
    places.insert(lattice.axis, [lattice.branches.order[own]])
    return layout.keys([place for each in places for place in each])


def possible_leaves(lattice: AreaLattice, layout: Layout) -> Bools | None:
    if layout.allowed is None and not any(tree.filled_up for tree in lattice.beside):
        return None
    good = np.ones((lattice.branches.leaves, *lattice.groups), np.bool_)
    for axis, tree in enumerate(lattice.beside, 1):
        inside = tree.product([np.arange(tree.side(a, 0)) < size for a, size in enumerate(tree.sizes)])
        good &= inside.reshape([-1 if a == axis else 1 for a in range(good.ndim)])
    if layout.allowed is not None:
        leaves = np.flatnonzero(good)
        good.reshape(-1)[leaves] = layout.possible(keys_of(lattice, layout, leaves))
    return good


# From estimates to what is published: whole numbers, 0 or more, and every area the sum of what lies in it. From the top down:
# the whole is shared out among the values of the other columns, then each area among the areas, blocks or cells in it, all
# these values together. Levels that were not counted help too: a projection onto many children at once spoils blocks.


def alike(possible: Bools | None) -> Bools | None:
    """The possible categories, where they are the same everywhere; None where every one is possible, or it depends on the place."""
    if possible is None or not bool((possible == possible[:1]).all()):
        return None
    return np.asarray(possible[0].reshape(-1))


def project(lattice: AreaLattice, estimates: Floats, possible: Bools | None, known: Fixed | None) -> Integers:
    """Whole counts of all leaves, near to `estimates`; known totals are shared out as they are."""
    from oboro.tables.nested._compiled import share_nodes

    branches = lattice.branches
    size = branches.leaves
    flat = estimates.reshape(size, -1)
    groups = flat.shape[1]
    good = None if possible is None else possible.reshape(size, -1)
    start = 0 if known is None else known.start
    held = _roots(lattice, estimates, possible, known)
    for at in range(start + 1, branches.depth + 1):
        wanted = np.ascontiguousarray(branches.sums(flat, at))
        may = np.ones((1, groups), np.bool_) if good is None else branches.sums(good.astype(np.int64), at) > 0
        fixed, low, floor = level_facts(lattice, known, at)
        out = np.empty(wanted.shape, np.int64)
        stages = stages_of(known, groups)
        firsts = branches.firsts[at - 1]
        share_nodes(
            firsts, held, wanted, may, good is None, known is not None, fixed, low, floor, stages, out
        )
        held = out
    return held.reshape(size, *lattice.groups)


def level_facts(lattice: AreaLattice, known: Fixed | None, at: int) -> tuple[Integers, Integers, Integers]:
    """Of the nodes of a level: known totals, what each holds at least, and that by the other columns (`Fixed.level`)."""
    if known is not None:
        return known.level(at)
    size = lattice.branches.nodes(at)
    return np.full(size, -1, np.int64), np.zeros(size, np.int64), np.zeros((0, 0), np.int64)


def stages_of(known: Fixed | None, groups: int) -> Integers:
    return np.zeros((1, groups), np.int64) if known is None else known.stages


def _roots(lattice: AreaLattice, estimates: Floats, possible: Bools | None, known: Fixed | None) -> Integers:
    """Where sharing out begins: the whole, or each area of the level at which known totals cross one another."""
    from oboro.tables.nested._compiled import share_root

    branches, start = lattice.branches, 0 if known is None else known.start
    wanted = np.asarray(branches.sums(estimates.reshape(branches.leaves, -1), start), float)
    groups = wanted.shape[1]
    fixed, low, floor = level_facts(lattice, known, start)
    totals = [
        int(fixed[i]) if fixed[i] >= 0 else max(whole_total(float(wanted[i].sum())), int(low[i]))
        for i in range(wanted.shape[0])
    ]
    if known is None or not known.crossed:
        may = None if possible is None else np.asarray(possible.any(axis=0))
        shared = beside(np.array(totals, np.int64), list(lattice.beside), estimates.sum(axis=0), may)
        return np.asarray(shared).reshape(1, groups)
    good = alike(possible)
    found = np.empty((wanted.shape[0], groups), np.int64)
    good_ = np.ones(groups, np.bool_) if good is None else good
    ways = known.stages, known.cut, known.crossing
    for i, total in enumerate(totals):
        share_root(total, wanted[i], good_, floor[i : i + 1], *ways, known.margins[i], found[i])
    return found
