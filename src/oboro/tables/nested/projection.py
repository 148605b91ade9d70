"""Leaves of the tree and cells of the table; and from estimates to what is published."""

from __future__ import annotations

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.cells import Layout
from oboro.tables.nested.lattice import AreaLattice, Branches, Known
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


def least_held(branches: Branches, known: Known | None) -> tuple[dict[int, Integers], dict[int, Integers]]:
    """Of the nodes of every level: the known totals, -1 where there is none, and what those below are known to hold."""
    fixed = {at: np.full(branches.nodes(at), -1, np.int64) for at in range(branches.depth + 1)}
    fixed |= dict(known or {})
    low = {branches.depth: np.zeros(branches.leaves, np.int64)}
    for at in range(branches.depth - 1, -1, -1):
        below = np.where(fixed[at + 1] >= 0, fixed[at + 1], low[at + 1])
        low[at] = np.add.reduceat(below, branches.firsts[at][:-1])
    return fixed, low


def project(lattice: AreaLattice, estimates: Floats, possible: Bools | None, known: Known | None) -> Integers:
    """Whole counts of all leaves, near to `estimates`; known totals are shared out as they are."""
    from oboro.tables.nested._compiled import share_nodes

    branches = lattice.branches
    size = branches.leaves
    flat = estimates.reshape(size, -1)
    groups = flat.shape[1]
    good = None if possible is None else possible.reshape(size, -1)
    fixed, low = least_held(branches, known)
    total = int(fixed[0][0]) if fixed[0][0] >= 0 else max(whole_total(float(flat.sum())), int(low[0][0]))
    held = beside(
        np.array([total], np.int64),
        list(lattice.beside),
        estimates.sum(axis=0),
        None if possible is None else np.asarray(possible.any(axis=0)),
    )
    held = np.asarray(held).reshape(1, groups)
    for at in range(1, branches.depth + 1):
        wanted = np.ascontiguousarray(branches.sums(flat, at))
        may = np.ones((1, groups), np.bool_) if good is None else branches.sums(good.astype(np.int64), at) > 0
        out = np.empty(wanted.shape, np.int64)
        share_nodes(branches.firsts[at - 1], held, wanted, may, good is None, fixed[at], low[at], out)
        held = out
    return held.reshape(size, *lattice.groups)
