"""Answers for all blocks of a map at once: their sums, and the intervals that `answer` gives each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Bools, Integers
from oboro.domain import Column, Grid, Mesh
from oboro.tables.tree.answers import Where, choices
from oboro.tables.tree.errors import error_of
from oboro.tables.tree.intervals import Estimates, hull
from oboro.tables.tree.lattice import Tree

if TYPE_CHECKING:
    from oboro.tables.cells import Layout
    from oboro.tables.tree.measure import Measured

_MOST_LOOKED_AT = 2**30  # leaves, by all errors together: one for each form of a block


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows and columns of blocks that have a cell; and for each question their values and both ends of the intervals."""

    row: Integers
    col: Integers
    answers: tuple[tuple[Integers, Integers, Integers], ...]


def rows_cols(column: Grid | Mesh, places: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Where on the map places are, which are given as the column has them in a table."""
    return (places[0], places[1]) if isinstance(column, Grid) else column.locate(places[0])


def grouped(row: Integers, col: Integers) -> tuple[Integers, Integers, Integers]:
    """The pairs that there are, in order, and which of them each is."""
    across = int(col.max(initial=0)) + 1
    keys, place = np.unique(row * across + col, return_inverse=True)
    return keys // across, keys % across, place


def tree_blocks(
    found: Estimates,
    layout: Layout,
    published: Measured,
    leaves: Integers,
    side: int,
    questions: Sequence[Where],
    level: float,
) -> Blocks | None:
    """Of a table by a regular tree; None where that would take too long.

    How far an answer is off depends on how the block lies in the nodes of the tree, not on where: one error for each form of
    block is enough.
    """
    axis = next(i for i, column in enumerate(layout.domain) if isinstance(column, Grid | Mesh))
    column, tree = layout.domain.columns[axis], found.lattice.trees[axis]
    assert isinstance(column, Grid | Mesh)
    inside, row, col = _places(column, tree)
    rows, cols, group = grouped(row // side, col // side)
    forms, first = _forms(column, tree, side, rows, cols)
    if first.size * len(questions) * found.lattice.leaves > _MOST_LOOKED_AT:
        return None
    of_leaf = np.full(tree.leaves, -1, np.int64)
    of_leaf[inside] = group
    parts = np.unravel_index(leaves, tuple(each.leaves for each in found.lattice.trees))
    answers = []
    for where in questions:
        picked = choices(layout, found.lattice, where)
        picked[axis] = inside_only(tree, inside)
        kept = reduce(np.logical_and, (choice[part] for choice, part in zip(picked, parts, strict=True)))
        values = np.bincount(of_leaf[parts[axis][kept]], published.counts[kept], rows.size)
        sums = found.leaves
        for i in reversed(range(len(picked))):
            if i != axis:
                sums = np.asarray(np.compress(picked[i], sums, axis=i).sum(axis=i))
        totals = np.bincount(group, sums.reshape(-1)[inside], rows.size)
        reaches = np.empty(first.size)
        for form, block in enumerate(first.tolist()):
            asked = list(picked)
            asked[axis] = of_leaf == block
            error = error_of(found.lattice, found.design.levels, found.noises, found.mu, asked)
            reaches[form] = error.reach(level)
        whole = np.rint(values).astype(np.int64)
        _, low, high = hull(totals, reaches[forms], whole)
        answers.append((whole, low, high))
    return Blocks(rows, cols, tuple(answers))


def inside_only(tree: Tree, inside: Integers) -> Bools:
    found = np.zeros(tree.leaves, np.bool_)
    found[inside] = True
    return found


def _places(column: Column, tree: Tree) -> tuple[Integers, Integers, Integers]:
    """The leaves that are places, and where they are on the map."""
    places = tree.places(np.arange(tree.leaves))
    good = reduce(np.logical_and, (place < size for place, size in zip(places, tree.sizes, strict=True)))
    kept = [place[good] for place in places]
    if isinstance(column, Mesh):
        kept = [column.from_axes(kept)]
    assert isinstance(column, Grid | Mesh)
    return np.flatnonzero(good), *rows_cols(column, kept)


def _forms(
    column: Grid | Mesh, tree: Tree, side: int, rows: Integers, cols: Integers
) -> tuple[Integers, Integers]:
    """Which form each block has, and a block of each form.

    Along a side of a grid: how much of the nodes of every level the block takes. Blocks of meshes are nodes, but for those of
    5 km, which are quarters of one.
    """
    if isinstance(column, Mesh):
        keys = rows % 2 * 2 + cols % 2
    else:
        along = [
            _cuts(tree, axis, side, int(place.max(initial=0)) + 1) for axis, place in enumerate((rows, cols))
        ]
        keys = along[0][rows] * (int(along[1].max(initial=0)) + 1) + along[1][cols]
    _, first, forms = np.unique(keys, return_index=True, return_inverse=True)
    return forms, first


def _cuts(tree: Tree, axis: int, side: int, blocks: int) -> Integers:
    """A number for each block along an axis: equal ones take the same parts of nodes."""
    sides = sorted({tree.side(axis, level) for level in range(tree.depth + 1)} - {1})
    size, found = tree.sizes[axis], np.empty(blocks, np.int64)
    known: dict[tuple[tuple[int, ...], ...], int] = {}
    for at in range(blocks):
        start, end = at * side, min((at + 1) * side, size)
        cut = []
        for own in sides:
            edges = [start, *range((start // own + 1) * own, end, own), end]
            cut.append(tuple(after - before for before, after in pairwise(edges)))
        found[at] = known.setdefault(tuple(cut), len(known))
    return found
