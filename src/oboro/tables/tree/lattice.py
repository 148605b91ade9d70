"""The levels at which a table can be counted: a product of trees, one for each column.

A column is divided step by step: a grid into quarters, quarters of quarters, and so on down to its cells; a
category in one step into its values. So a column has levels 0 (all of it) to its depth (its places), and the
table has a level for every choice of one level of each column: "blocks of 8 x 8, by sex", "all places, by sex and
age". They form a lattice: one level is finer than another if it is finer, or the same, in every column.

All nodes of a level cover the same number of leaves. For that a side is filled up, by at most a quarter: 500
becomes 5 x 2 x 2 ... = 640 at worst, a power of two stays. What is filled up is impossible, in public, like what
a mask rules out. Categories are never filled up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Bools, Floats, Integers
from oboro.domain import Category, Column, Domain, Grid, Mesh
from oboro.domain.mesh import LEVELS, width
from oboro.tables.cells import Layout, column_groups

Level = tuple[int, ...]
Step = tuple[tuple[int, int], ...]  # which axes a step divides, and into how many parts each

_LOOKED_UP = 2**16  # leaves
FLAT = 32  # numbers and dates of so few values are divided in one step
_FACTORS = {1: (), 2: (2,), 3: (3,), 4: (2, 2), 5: (5,), 6: (3, 2), 7: (7,), 8: (2, 2, 2)}


@dataclass(frozen=True)
class Tree:
    """How one column is divided, from all of it down to its places."""

    name: str
    sizes: tuple[int, ...]  # places along each axis of the column
    steps: tuple[Step, ...]
    directions: tuple[
        tuple[int, ...], ...
    ]  # axes that continue one another, such as the rows of ever finer meshes
    labels: tuple[tuple[int, str], ...] = ()  # names that levels have already: those of JIS X 0410

    @cached_property
    def arities(self) -> tuple[int, ...]:
        return tuple(prod(parts for _, parts in step) for step in self.steps)

    @property
    def depth(self) -> int:
        return len(self.steps)

    @property
    def leaves(self) -> int:
        return self._under[0]

    def nodes(self, level: int) -> int:
        return self.leaves // self._under[level]

    def under(self, level: int) -> int:
        """How many leaves one node of this level covers."""
        return self._under[level]

    def side(self, axis: int, level: int) -> int:
        """How many places along an axis one node of this level covers."""
        return self._sides[axis][level]

    def shown_side(self, axis: int, level: int) -> int:
        """The same without the places that fill the axis up and that nobody declared."""
        return min(self.side(axis, level), self.sizes[axis])

    def covers(self, level: int) -> int:
        """How many declared places one whole node of this level covers."""
        return prod(self.shown_side(axis, level) for axis in range(len(self.sizes)))

    @cached_property
    def _under(self) -> tuple[int, ...]:
        return _products(self.arities)

    @cached_property
    def _sides(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            _products([dict(step).get(axis, 1) for step in self.steps]) for axis in range(len(self.sizes))
        )

    @cached_property
    def _digits(self) -> tuple[tuple[int, int], ...]:
        """A leaf's number is a number of these digits, the first highest: (axis, radix)."""
        return tuple(pair for step in self.steps for pair in step)

    def leaf(self, places: Sequence[npt.ArrayLike]) -> Integers:
        """The leaf at a place, given along every axis: a sum over the axes, so that many are looked up axis by axis."""
        rest = [np.asarray(place, np.int64) for place in places]
        sides = [self.side(axis, 0) for axis in range(len(self.sizes))]
        if sum(place.size for place in rest) > 4 * sum(sides):
            nowhere = [0] * len(sides)
            return sum(
                self.leaf([*nowhere[:axis], np.arange(side), *nowhere[axis + 1 :]]).take(place, mode="clip")
                for axis, (side, place) in enumerate(zip(sides, rest, strict=True))
            )  # type: ignore[return-value]
        number, weight = np.zeros(np.broadcast_shapes(*(r.shape for r in rest)), np.int64), 1
        for axis, parts in reversed(self._digits):
            rest[axis], digit = np.divmod(rest[axis], parts)
            number, weight = number + digit * weight, weight * parts
        return number

    def places(self, leaves: Integers) -> list[Integers]:
        """Where a leaf lies along every axis: a sum over its digits, so that many are looked up in two parts."""
        rest = np.asarray(leaves, np.int64)
        level = next(at for at in range(self.depth + 1) if self.under(at) <= _LOOKED_UP)
        low, high = self.under(level), self.nodes(level)
        if 0 < level < self.depth and rest.size > 4 * (low + high):
            upper, lower = np.divmod(rest, low)
            tables = zip(self.places(np.arange(high) * low), self.places(np.arange(low)), strict=True)
            return [coarse[upper] + fine[lower] for coarse, fine in tables]
        found = [np.zeros(rest.shape, np.int64) for _ in self.sizes]
        weight = [1] * len(self.sizes)
        for axis, parts in reversed(self._digits):
            rest, digit = np.divmod(rest, parts)
            found[axis] += digit * weight[axis]
            weight[axis] *= parts
        return found

    def product(self, choices: Sequence[Bools]) -> Bools:
        """Which leaves lie in a choice of places along every axis; a choice is as long as the tree, filled up, is wide."""
        split: list[int] = []
        axes = [0] * len(self._digits)
        for axis in range(len(self.sizes)):
            for place, (own, parts) in enumerate(self._digits):
                if own == axis:
                    axes[place] = len(split)
                    split.append(parts)
        both = reduce(np.logical_and.outer, choices)
        return np.asarray(both.reshape(split).transpose(axes).reshape(-1))

    @cached_property
    def filled_up(self) -> bool:
        return self.leaves > prod(self.sizes)


@dataclass(frozen=True)
class Lattice:
    """The levels of a table."""

    trees: tuple[Tree, ...]

    @property
    def finest(self) -> Level:
        return tuple(tree.depth for tree in self.trees)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return tuple(tree.depth + 1 for tree in self.trees)

    @cached_property
    def levels(self) -> list[Level]:
        """All levels, the last column fastest."""
        return list(product(*(range(size) for size in self.shape)))

    @property
    def leaves(self) -> int:
        return prod(tree.leaves for tree in self.trees)

    def nodes(self, level: Level) -> tuple[int, ...]:
        return tuple(tree.nodes(at) for tree, at in zip(self.trees, level, strict=True))

    def under(self, level: Level) -> int:
        """How many leaves one node of this level covers."""
        return prod(tree.under(at) for tree, at in zip(self.trees, level, strict=True))

    def covers(self, level: Level) -> int:
        """How many cells of the domain one whole node of this level covers."""
        return prod(tree.covers(at) for tree, at in zip(self.trees, level, strict=True))

    def sums(self, values: npt.NDArray[Any], level: Level) -> npt.NDArray[Any]:
        """What each node of a level holds of `values`, which are given for all leaves."""
        for axis, (tree, at) in enumerate(zip(self.trees, level, strict=True)):
            if at < tree.depth:
                before, after = values.shape[:axis], values.shape[axis + 1 :]
                values = values.reshape(*before, tree.nodes(at), tree.under(at), *after).sum(axis=axis + 1)
        return values

    def add_spread(self, values: Floats, level: Level, to: Floats) -> None:
        """Adds the value of each node to all its leaves, in place."""
        split, held = [], []
        for tree, at in zip(self.trees, level, strict=True):
            split += [tree.nodes(at), tree.under(at)]
            held += [tree.nodes(at), 1]
        view = to.reshape(split)
        view += values.reshape(held)

    def name(self, level: Level) -> str:
        """What a node of this level is: "8 x 8 of row,col; each sex"."""
        return "; ".join(node_name(tree, at) for tree, at in zip(self.trees, level, strict=True))

    # A key is bits and a leaf is digits, and both are sums: a digit is some bits of a key, or one of them. So many are
    # looked up in two halves.

    def leaf(self, layout: Layout, keys: Integers) -> Integers:
        """The leaves of cells, as numbers in one row. They may be the keys themselves."""
        half = layout.bits // 2
        low, high = 1 << half, 1 << (layout.bits - half)
        if keys.size <= 4 * (low + high):
            return self._leaf(layout, keys)
        lower, upper = self._leaf(layout, np.arange(low)), self._leaf(layout, np.arange(high) << half)
        if _the_same(lower, upper):
            return keys
        return np.asarray(upper[keys >> half] + lower[keys & (low - 1)])

    def _leaf(self, layout: Layout, keys: Integers) -> Integers:
        if keys.size == 0:
            return np.empty(0, np.int64)
        axes = iter(layout.places(keys))
        parts = [tree.leaf([next(axes) for _ in tree.sizes]) for tree in self.trees]
        return np.ravel_multi_index(tuple(parts), tuple(tree.leaves for tree in self.trees)).astype(np.int64)

    def keys(self, layout: Layout, leaves: Integers) -> Integers:
        """The keys of cells from their leaves. They may be the leaves themselves."""
        below = _products([parts for tree in self.trees for _, parts in tree._digits])
        low = min(below, key=lambda under: under + self.leaves // under)
        high = self.leaves // low
        if leaves.size <= 4 * (low + high):
            return self._keys(layout, leaves)
        lower, upper = self._keys(layout, np.arange(low)), self._keys(layout, np.arange(high) * low)
        if _the_same(lower, upper):
            return leaves
        coarse = leaves // low  # np.divmod takes several times as long
        return np.asarray(upper[coarse] + lower[leaves - coarse * low])

    def _keys(self, layout: Layout, leaves: Integers) -> Integers:
        parts = np.unravel_index(leaves, tuple(tree.leaves for tree in self.trees))
        axes = [place for tree, part in zip(self.trees, parts, strict=True) for place in tree.places(part)]
        return layout.keys(axes)

    def possible(self, layout: Layout) -> npt.NDArray[np.bool_] | None:
        """Which leaves are cells; None if all are."""
        if layout.allowed is None and not any(tree.filled_up for tree in self.trees):
            return None
        good = np.ones(tuple(tree.leaves for tree in self.trees), np.bool_)
        for axis, tree in enumerate(self.trees):
            inside = tree.product([np.arange(tree.side(a, 0)) < size for a, size in enumerate(tree.sizes)])
            good &= inside.reshape([-1 if a == axis else 1 for a in range(len(self.trees))])
        if layout.allowed is not None:
            leaves = np.flatnonzero(good)
            good.reshape(-1)[leaves] = layout.possible(self.keys(layout, leaves))
        return good


def _the_same(lower: Integers, upper: Integers) -> bool:
    """Whether keys and leaves are one number: halves that are looked up are found where they stand."""
    return bool(
        (lower == np.arange(lower.size)).all() and (upper == np.arange(upper.size) * lower.size).all()
    )


def _products(parts: Sequence[int]) -> tuple[int, ...]:
    """Of all parts, of all but the first, and so on down to none."""
    return tuple(prod(parts[i:]) for i in range(len(parts) + 1))


def lattice_of(domain: Domain) -> Lattice:
    """The lattice of a domain's columns."""
    return Lattice(tuple(tree_of(column) for column in domain))


def tree_of(column: Column) -> Tree:
    """How a column is divided: places in quarters, values of a category at once, long ranges in halves."""
    groups = column_groups(column)
    sizes = tuple(size for group in groups for size in group)
    if isinstance(column, Category) or (not isinstance(column, Grid | Mesh) and column.size <= FLAT):
        return Tree(column.name, sizes, (((0, column.size),),) if column.size > 1 else (), ((0,),))
    steps: list[Step] = []
    ends: list[int] = []
    axis = 0
    for group in groups:
        steps += _woven(range(axis, axis + len(group)), group)
        ends.append(len(steps))
        axis += len(group)
    if not isinstance(column, Mesh):
        return Tree(column.name, sizes, tuple(steps), tuple((a,) for a in range(axis)))
    # the first axis says which 80 km mesh; then follow rows and columns of ever finer ones
    directions = tuple(tuple(range(first, axis, 2)) for first in (1, 2) if first < axis)
    names = [name.replace("km", " km").replace("0m", "0 m") + " mesh" for name in LEVELS]
    return Tree(column.name, sizes, tuple(steps), directions, tuple(zip(ends, names, strict=False)))


def _woven(axes: Sequence[int], sizes: Sequence[int]) -> list[Step]:
    """Steps that divide several axes together; the longer ones begin earlier."""
    parts = [radices(size) for size in sizes]
    longest = max(map(len, parts))
    return [
        tuple(
            (axis, own[i - longest + len(own)])
            for axis, own in zip(axes, parts, strict=True)
            if i >= longest - len(own)
        )
        for i in range(longest)
    ]


def radices(size: int) -> tuple[int, ...]:
    """Into how many parts a side is divided at each step, coarse first: halves, but for the first steps."""
    halvings = max(width(size) - 3, 0)
    return _FACTORS[-(-size // (1 << halvings))] + (2,) * halvings


def node_name(tree: Tree, level: int) -> str:
    """What a node of a level of one column is: "8 x 8 of row,col"."""
    if level == 0:
        return f"all of {tree.name}"
    if level in (labels := dict(tree.labels)):
        return labels[level]
    if level == tree.depth and len(tree.sizes) == 1:
        return f"each {tree.name}"
    sides = [prod(tree.shown_side(axis, level) for axis in axes) for axes in tree.directions] or [
        tree.covers(level)
    ]
    if tree.labels and level < tree.labels[0][0]:
        return f"{tree.under(level) // tree.under(tree.labels[0][0])} x {tree.labels[0][1]}"
    return " x ".join(map(str, sides)) + f" of {tree.name}"
