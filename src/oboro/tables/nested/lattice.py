"""The levels of a table with areas: a tree of any form for the areas, and regular trees for the columns beside it.

The tree of the areas has a level for each level of the public table. Below the last of them it goes on through what each
area shares with the blocks of the mesh or grid, from coarse ones to fine ones, down to the cells. Without that, blocks
would have 3 to 4 times the error that they have in a mesh of their own. The nodes of a level are ranges of cells.

Least squares is exact in two passes over the tree. With one precision p_l for each level (0 where it is not counted), a node
and what lies below it have the estimate z and its variance a:

    cells     a = 1/p, z = y
    up        S = sum of a_c, s = sum of z_c over the children;  a = 1/(p + 1/S), z = a (p y + s/S)
    down      x = z at the root;  x_c = z_c + (a_c/S)(x - s)
    variance  V = a at the root;  V_c = a_c - (a_c/S)^2 (S - V)

What is known without error has a = 0. (Known totals by all values of some columns are known to each part that these columns see,
and to no other.) The regular columns beside the areas split the table into orthogonal parts: on the part
W_j that their level j sees and no coarser one does, a count of level k covers n_k leaves as if it were one of precision n_k p if
k is as fine as j, and sees nothing otherwise. So part j is a tree by itself with precisions q_i = sum over k >= j of n_k p_ik,
and all of it is linear in the number of cells. The variance of a node B by a choice r of the other columns is the sum over j of
|W_j r|^2 V_j(B). (Two columns of areas would not split like that, and are refused.)

All of this works on noisy counts: it is post-processing, and may use floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.domain import Areas, Domain
from oboro.tables.tree.lattice import Level, Tree, node_name, tree_of

if TYPE_CHECKING:
    from oboro.tables.nested.known import Fixed

_GROWS = 1.3  # a level has so many times the nodes of the one above it, or is left out


@dataclass(frozen=True, eq=False)
class Branches:
    """The tree of the areas. Its leaves are the cells, in an order in which every node is a range of them."""

    column: Areas
    bounds: tuple[Integers, ...]  # of each level: where its nodes begin, and where the last one ends
    names: tuple[str, ...]  # what a node of each level is
    order: Integers  # the code of each leaf
    blocks: tuple[int | None, ...]  # of each level: of which level of the mesh or grid its nodes are pieces

    @classmethod
    def of(cls, column: Areas) -> Branches:
        size = column.size
        bounds, names = [np.array([0, size], np.int64)], [f"all of {column.name}"]
        blocks: list[int | None] = [None] * len(column.levels)
        for level in column.levels[:-1]:
            bounds.append(column.bounds(level))
            names.append(f"each {level}")
        last = np.repeat(np.arange(bounds[-1].size - 1), np.diff(bounds[-1]))
        order = np.arange(size, dtype=np.int64)
        if column.of is not None:
            base = tree_of(column.of)
            leaf = base.leaf(_axes(column))
            order = np.lexsort((leaf, last)).astype(np.int64)
            leaf = leaf[order]
            for at in range(1, base.depth):
                block = leaf // base.under(at)
                starts = np.flatnonzero((np.diff(block, prepend=-1) != 0) | (np.diff(last, prepend=-1) != 0))
                if _GROWS * (bounds[-1].size - 1) < starts.size and _GROWS * starts.size < size:
                    bounds.append(np.append(starts, size).astype(np.int64))
                    names.append(f"each {column.levels[-2]} by {node_name(base, at)}")
                    blocks.append(at)
            names.append(node_name(base, base.depth))
            blocks.append(base.depth)
        else:
            names.append(f"each {column.name}")
            blocks.append(None)
        cells = np.arange(size + 1, dtype=np.int64)
        return cls(column, (*bounds, cells), tuple(names), order, tuple(blocks))

    @property
    def depth(self) -> int:
        return len(self.bounds) - 1

    @property
    def leaves(self) -> int:
        return int(self.bounds[0][-1])

    def nodes(self, level: int) -> int:
        return self.bounds[level].size - 1

    @cached_property
    def pieces(self) -> tuple[float, ...]:
        """How many nodes of each level are pieces of one block of the mesh or grid, on average."""
        if self.column.of is None:
            return (1.0,) * len(self.bounds)
        base, leaf = tree_of(self.column.of), np.sort(self.places)
        return tuple(
            1.0 if at is None else self.nodes(level) / (1 + np.count_nonzero(np.diff(leaf // base.under(at))))
            for level, at in enumerate(self.blocks)
        )

    @cached_property
    def places(self) -> Integers:
        """The leaf of each cell in the tree of its mesh or grid."""
        return tree_of(self.column.of).leaf(_axes(self.column))[self.order]  # type: ignore[arg-type]

    @cached_property
    def leaf_of(self) -> Integers:
        """The leaf of each code."""
        found = np.empty(self.leaves, np.int64)
        found[self.order] = np.arange(self.leaves)
        return found

    @cached_property
    def firsts(self) -> tuple[Integers, ...]:
        """For each level below the root: which of its nodes are the first children of the nodes above, and how many there are."""
        return tuple(
            np.searchsorted(finer, coarser)
            for coarser, finer in zip(self.bounds, self.bounds[1:], strict=False)
        )

    @cached_property
    def parents(self) -> tuple[Integers, ...]:
        """For each level below the root: the node above each of its nodes."""
        return tuple(np.repeat(np.arange(first.size - 1), np.diff(first)) for first in self.firsts)

    def sums(self, values: np.ndarray, level: int, down_to: int | None = None) -> np.ndarray:
        """What each node of a level holds of values that are given for all leaves, or for all nodes of a finer level."""
        finer = self.depth if down_to is None else down_to
        if level == finer:
            return values
        starts = np.searchsorted(self.bounds[finer], self.bounds[level])[:-1]
        return np.add.reduceat(values, starts, axis=0)


def _axes(column: Areas) -> list[Integers]:
    from oboro.domain import Mesh

    places = column.decode(np.arange(column.size))
    return column.of.axes(places[0]) if isinstance(column.of, Mesh) else places


@dataclass(frozen=True, eq=False)
class AreaLattice:
    """The levels of a table with one column of areas: one level of it and one of each column beside it."""

    branches: Branches
    beside: tuple[Tree, ...]
    axis: int  # which column the areas are

    @classmethod
    def of(cls, domain: Domain) -> AreaLattice:
        axis = next(i for i, column in enumerate(domain) if isinstance(column, Areas))
        own = domain.columns[axis]
        assert isinstance(own, Areas)
        return cls(Branches.of(own), tuple(tree_of(c) for i, c in enumerate(domain) if i != axis), axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return self._put(self.branches.depth + 1, tuple(tree.depth + 1 for tree in self.beside))

    def _put(self, own: int, others: Level) -> Level:
        return (*others[: self.axis], own, *others[self.axis :])

    def split(self, level: Level) -> tuple[int, Level]:
        """The level of the areas, and those of the columns beside them."""
        return level[self.axis], (*level[: self.axis], *level[self.axis + 1 :])

    def joined(self, own: int, others: Level) -> Level:
        return self._put(own, others)

    @property
    def finest(self) -> Level:
        return tuple(size - 1 for size in self.shape)

    @cached_property
    def levels(self) -> list[Level]:
        return list(product(*(range(size) for size in self.shape)))

    @cached_property
    def parts(self) -> list[Level]:
        """The levels of the columns beside the areas: orthogonal parts too."""
        return list(product(*(range(tree.depth + 1) for tree in self.beside)))

    @property
    def groups(self) -> tuple[int, ...]:
        """The leaves of the columns beside the areas."""
        return tuple(tree.leaves for tree in self.beside)

    @property
    def leaves(self) -> int:
        return self.branches.leaves * prod(self.groups)

    def nodes(self, level: Level) -> tuple[int, ...]:
        """The form of the counts of a level: areas first, whatever their place in the domain."""
        own, others = self.split(level)
        return (
            self.branches.nodes(own),
            *(tree.nodes(at) for tree, at in zip(self.beside, others, strict=True)),
        )

    def under(self, others: Level) -> int:
        return prod(tree.under(at) for tree, at in zip(self.beside, others, strict=True))

    def name(self, level: Level) -> str:
        own, others = self.split(level)
        names = [node_name(tree, at) for tree, at in zip(self.beside, others, strict=True)]
        names.insert(self.axis, self.branches.names[own])
        return "; ".join(names)

    def sums(self, values: np.ndarray, level: Level) -> np.ndarray:
        """What each node of a level holds of `values`, which are given for all leaves."""
        own, others = self.split(level)
        for axis, (tree, at) in enumerate(zip(self.beside, others, strict=True), 1):
            if at < tree.depth:
                before, after = values.shape[:axis], values.shape[axis + 1 :]
                values = values.reshape(*before, tree.nodes(at), tree.under(at), *after).sum(axis=axis + 1)
        return self.branches.sums(values, own)

    def detail(self, values: Floats, level: Level, part: Level) -> Floats:
        """What the part sees of counts of a level of the columns beside, for each node of its own level."""
        for axis, (tree, at, own) in enumerate(zip(self.beside, level, part, strict=True), 1):
            before, after = values.shape[:axis], values.shape[axis + 1 :]
            per = tree.under(own) // tree.under(at)
            if per > 1:
                values = values.reshape(*before, tree.nodes(own), per, *after).mean(axis=axis + 1)
            if own:
                arity = tree.arities[own - 1]
                parted = values.reshape(*before, tree.nodes(own - 1), arity, *after)
                values = (parted - parted.mean(axis=axis + 1, keepdims=True)).reshape(values.shape)
        return values

    def add_spread(self, values: Floats, part: Level, to: Floats) -> None:
        """Adds the value of each node of the columns beside to all its leaves, in place."""
        split: list[int] = [values.shape[0]]
        held: list[int] = [values.shape[0]]
        for tree, at in zip(self.beside, part, strict=True):
            split += [tree.nodes(at), tree.under(at)]
            held += [tree.nodes(at), 1]
        view = to.reshape(split)
        view += values.reshape(held)

    def precisions(self, levels: Sequence[Level], precisions: Sequence[float]) -> dict[Level, Floats]:
        """q_i of every part."""
        found = {part: np.zeros(self.branches.depth + 1) for part in self.parts}
        for level, precision in zip(levels, precisions, strict=True):
            own, others = self.split(level)
            for part in found:
                if all(at >= j for at, j in zip(others, part, strict=True)):
                    found[part][own] += precision * self.under(others)
        return found


# what is known without error, for levels of the areas: of which nodes, and what a part of the other columns sees of them
PartKnown = Mapping[int, tuple[Bools, Floats]]


@dataclass(frozen=True, eq=False)
class Pass:
    """What the way up leaves behind: of every level the variances a, and of every level above the cells their sums S."""

    branches: Branches
    precisions: Floats
    a: tuple[Floats, ...]
    sums: tuple[Floats, ...]

    @classmethod
    def up(cls, branches: Branches, precisions: Floats, known: PartKnown | None = None) -> Pass:
        a = [_held(np.full(branches.leaves, 1 / precisions[-1]), branches.depth, known)]
        sums: list[Floats] = []
        for level in range(branches.depth - 1, -1, -1):
            total = np.add.reduceat(a[0], branches.firsts[level][:-1])
            sums.insert(0, total)
            a.insert(0, _held(total / (1 + precisions[level] * total), level, known))
        return cls(branches, precisions, tuple(a), tuple(sums))

    def solve(self, counts: Mapping[int, Floats], known: PartKnown | None = None) -> Floats:
        """The estimate of each leaf from what was counted, level by level: arrays of nodes by something else."""
        depth = self.branches.depth
        z = [_fixed(counts[depth], depth, known)]
        s: list[Floats] = []
        for level in range(depth - 1, -1, -1):
            total = np.add.reduceat(z[0], self.branches.firsts[level][:-1], axis=0)
            s.insert(0, total)
            q, a, below = self.precisions[level], self.a[level], self.sums[level]
            if q > 0 and level in counts:
                total = (a * q)[:, None] * counts[level] + np.divide(
                    a, below, out=np.ones_like(a), where=below > 0
                )[:, None] * total
            elif q > 0:
                total = np.divide(a, below, out=np.ones_like(a), where=below > 0)[:, None] * total
            z.insert(0, _fixed(total, level, known))
        x = z[0]
        for level in range(1, depth + 1):
            parent = self.branches.parents[level - 1]
            share = self.shares(level)
            x = z[level] + share[:, None] * (x - s[level - 1])[parent]
        return x

    def shares(self, level: int) -> Floats:
        """Of what is found for a node above, how much of it goes to each child."""
        total = self.sums[level - 1][self.branches.parents[level - 1]]
        return np.divide(self.a[level], total, out=np.zeros_like(total), where=total > 0)

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """Of the nodes of every level, once all is put together."""
        found = [self.a[0]]
        for level in range(1, self.branches.depth + 1):
            parent = self.branches.parents[level - 1]
            share = self.shares(level)
            left = (self.sums[level - 1] - found[-1])[parent]
            found.append(np.maximum(self.a[level] - share**2 * left, 0.0))
        return tuple(found)


def _held(a: Floats, level: int, known: PartKnown | None) -> Floats:
    return a if known is None or level not in known else np.where(known[level][0], 0.0, a)


def _fixed(z: Floats, level: int, known: PartKnown | None) -> Floats:
    if known is None or level not in known:
        return z
    flags, values = known[level]
    return np.where(flags[:, None], values, z)


def passes(
    lattice: AreaLattice, levels: Sequence[Level], precisions: Sequence[float], known: Fixed | None = None
) -> dict[Level, Pass]:
    """The way up of every part."""
    found = {}
    for part, own in lattice.precisions(levels, precisions).items():
        found[part] = Pass.up(lattice.branches, own, None if known is None else known.of_part(part))
    return found


def least_squares(
    lattice: AreaLattice,
    levels: Sequence[Level],
    precisions: Sequence[float],
    noisy: Sequence[Integers],
    known: Fixed | None = None,
    ways: Mapping[Level, Pass] | None = None,
) -> Floats:
    """The estimate of every leaf from the noisy counts of some levels, the finest among them."""
    found = np.zeros((lattice.branches.leaves, *lattice.groups))
    ways = passes(lattice, levels, precisions, known) if ways is None else ways
    for part, way in ways.items():
        seen: dict[int, Floats] = {}
        for level, precision, counts in zip(levels, precisions, noisy, strict=True):
            own, others = lattice.split(level)
            if all(at >= j for at, j in zip(others, part, strict=True)):
                weight = precision / way.precisions[own]
                detail = weight * lattice.detail(np.asarray(counts, float), others, part)
                flat = detail.reshape(detail.shape[0], -1)
                seen[own] = seen[own] + flat if own in seen else flat
        solved = way.solve(seen, None if known is None else known.of_part(part))
        lattice.add_spread(solved, part, found)
    return found
