"""Shares of the budget for the levels of a table with areas: from public facts alone.

What is made small is the mean logarithm of the mean variance of the nodes of each level that readers ask for, as for regular
trees. Nodes differ in size here, so that variances come from the passes over the tree, and their gradient from going back over
them. Children of one node that have the same form below them have the same variance, and are one with a number; so only a part
of the nodes is looked at. A search from many starts goes over a tree of mean sizes, of one node a level, and what it finds is
improved on the true one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import prod

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Domain
from oboro.exact import remembered
from oboro.tables.nested.lattice import AreaLattice, Branches
from oboro.tables.tree.lattice import Lattice, Level, Tree, tree_of
from oboro.tables.tree.planner import improved, moments, pruned, rounded
from oboro.tables.tree.planner import plan_shares as plan_regular
from oboro.tables.tree.workload import DEFAULT, Workload, block

_SMALL = 4000  # nodes of different forms: with so few the search looks at all of them
_EVERY = 8  # levels: with so few it starts from every choice of them
_FEW = 16  # levels: with so few one start more costs little
_STARTS = 7
_BLOCK = 64  # cells of the blocks that are kept near the error that they have without areas
_ALLOWED = 1.07  # how near, for these and for cells
_WANTED = 0.36  # how much smaller the error of the last areas is to be
_SOME = 48  # areas whose error without areas is looked at
_STEEPNESS = (30.0, 1000.0)
_BACK = 0.03  # so much is given to all levels alike before each of these: a level that is out may come back


@dataclass(frozen=True, eq=False)
class Forms:
    """The tree with nodes alike as one: of each level below the root the node above, how often each is there below one
    such node, and how many there are in all."""

    parents: tuple[Integers, ...]
    times: tuple[Floats, ...]
    counts: tuple[Floats, ...]  # of the root too

    @classmethod
    def of(cls, branches: Branches, roughly: bool = False) -> Forms:
        if roughly:
            sizes = [np.diff(bounds) for bounds in branches.bounds]
            classes = [
                np.where(s < 9, s, np.rint(np.log(s / 9) / np.log(1.6)) + 9).astype(np.int64) for s in sizes
            ]
        else:
            classes = _classes(branches)
        parents, times, counts = [], [], [np.ones(1)]
        nodes = np.zeros(1, np.int64)  # one of each kind
        for level, first in enumerate(branches.firsts, 1):
            number = np.diff(first)[nodes]
            group = np.repeat(np.arange(nodes.size), number)
            child = np.repeat(first[nodes] - np.cumsum(number) + number, number) + np.arange(
                int(number.sum())
            )
            kinds = int(classes[level].max()) + 1
            known, at, often = np.unique(
                group * kinds + classes[level][child], return_index=True, return_counts=True
            )
            parents.append(known // kinds)
            times.append(often.astype(float))
            counts.append(counts[-1][parents[-1]] * often)
            nodes = child[at]
        return cls(tuple(parents), tuple(times), tuple(counts))

    @classmethod
    def mean(cls, branches: Branches) -> Forms:
        """One node a level, with as many children as nodes have on average."""
        sizes = np.array([branches.nodes(level) for level in range(branches.depth + 1)], float)
        zeros = tuple(np.zeros(1, np.int64) for _ in sizes[1:])
        return cls(
            zeros, tuple(np.array([n]) for n in sizes[1:] / sizes[:-1]), tuple(np.array([n]) for n in sizes)
        )

    @property
    def size(self) -> int:
        return sum(each.size for each in self.counts)

    @cached_property
    def _starts(self) -> tuple[Integers, ...]:
        """The first child of every node; parents are in order."""
        return tuple(
            np.searchsorted(up, np.arange(above.size))
            for up, above in zip(self.parents, self.counts, strict=False)
        )

    @cached_property
    def _weights(self) -> tuple[Floats, ...]:
        """Of the nodes of every level, for means."""
        return tuple(each / each.sum() for each in self.counts)

    def variances(self, q: Floats) -> tuple[Floats, tuple[list[Floats], ...]]:
        """The mean variance of the nodes of each level, and what `slopes` needs. q: [level, part], so is what is found."""
        depth = len(self.parents)
        a: list[Floats] = [np.empty(0)] * (depth + 1)
        sums: list[Floats] = [np.empty(0)] * depth
        a[depth] = np.broadcast_to(1 / q[depth], (self.counts[depth].size, q.shape[1]))
        for level in range(depth - 1, -1, -1):
            weighted = self.times[level][:, None] * a[level + 1]
            sums[level] = np.add.reduceat(weighted, self._starts[level], axis=0)
            a[level] = sums[level] / (1 + q[level] * sums[level])
        v = [a[0]]
        u: list[Floats] = []
        for level in range(1, depth + 1):
            u.append((sums[level - 1] - v[-1]) / sums[level - 1] ** 2)
            v.append(a[level] - a[level] ** 2 * u[-1][self.parents[level - 1]])
        means = np.array([weights @ own for weights, own in zip(self._weights, v, strict=True)])
        return means, (a, sums, v, u)

    def slopes(self, q: Floats, kept: tuple[list[Floats], ...], weights: Floats) -> Floats:
        """The gradient with respect to q of the sum of `weights` times mean variances."""
        a, sums, v, u = kept
        depth = len(self.parents)
        gv = [np.multiply.outer(c, weights[level]) for level, c in enumerate(self._weights)]
        ga = [np.zeros_like(one) for one in a]
        gs = [np.zeros_like(one) for one in sums]
        for level in range(depth, 0, -1):
            up = self.parents[level - 1]
            ga[level] += gv[level] * (1 - 2 * a[level] * u[level - 1][up])
            gu = np.add.reduceat(-(a[level] ** 2) * gv[level], self._starts[level - 1], axis=0)
            s, above = sums[level - 1], v[level - 1]
            gs[level - 1] += gu * (2 * above / s**3 - 1 / s**2)
            gv[level - 1] = gv[level - 1] - gu / s**2
        ga[0] += gv[0]
        found = np.zeros_like(q)
        for level in range(depth):
            shrunk = 1 / (1 + q[level] * sums[level])
            gs[level] += ga[level] * shrunk**2
            found[level] = -(ga[level] * a[level] ** 2).sum(axis=0)
            ga[level + 1] += self.times[level][:, None] * gs[level][self.parents[level]]
        found[depth] = -(ga[depth] * a[depth] ** 2).sum(axis=0)
        return found


def _classes(branches: Branches) -> list[Integers]:
    """Which nodes of each level have the same form below them: a number for each form."""
    classes = [np.zeros(branches.leaves, np.int64)]
    random = np.random.default_rng(1)
    for first in reversed(branches.firsts):
        marks = random.integers(1, 2**62, int(classes[0].max()) + 1)
        summed = np.add.reduceat(marks[classes[0]], first[:-1])  # wraps: a hash of what lies below
        classes.insert(0, np.unique(summed, return_inverse=True)[1])
    return classes


@dataclass(frozen=True, eq=False)
class Problem:
    """Shares of all levels, to be chosen: what readers ask is a level of the areas by a level of the other columns.

    `most` are log variances that some rows should not exceed; nan where there is none.
    """

    lattice: AreaLattice
    forms: Forms
    rows: tuple[Level, ...]
    weights: Floats
    power: int
    most: Floats | None = None
    steepness: float = 0.0

    @cached_property
    def _levels(self) -> tuple[Integers, Floats]:
        """Of every level: that of the areas, and what a count of precision 1 gives each part."""
        lattice = self.lattice
        split = [lattice.split(level) for level in lattice.levels]
        seen = [
            [lattice.under(o) if all(a >= b for a, b in zip(o, j, strict=True)) else 0 for j in lattice.parts]
            for _, o in split
        ]
        return np.array([own for own, _ in split]), np.array(seen, float)

    @cached_property
    def _asked(self) -> tuple[Integers, Floats]:
        """Of every row: the level of the areas, and what each part sees of the other columns."""
        split = [self.lattice.split(row) for row in self.rows]
        return np.array([own for own, _ in split]), np.array([profile(self.lattice, o) for _, o in split])

    @property
    def size(self) -> int:
        return len(self.lattice.levels)

    def _precisions(self, shares: Floats) -> Floats:
        own, seen = self._levels
        q = np.zeros((self.lattice.branches.depth + 1, len(self.lattice.parts)))
        np.add.at(q, own, shares[:, None] ** self.power * seen)
        q[-1] = np.maximum(q[-1], 1e-12)
        return q

    def variances(self, shares: Floats) -> Floats:
        """The mean variance of each row, at precisions of share to the power."""
        own, profiles = self._asked
        means, _ = self.forms.variances(self._precisions(shares))
        return np.asarray((profiles * means[own]).sum(axis=1))

    def value(self, shares: Floats) -> tuple[float, Floats]:
        """The objective and its gradient with respect to the shares."""
        q = self._precisions(shares)
        own, profiles = self._asked
        means, kept = self.forms.variances(q)
        rows = (profiles * means[own]).sum(axis=1)
        logs = np.log(rows)
        value, pull = float((self.weights * logs).sum()), self.weights
        if self.most is not None:
            over = np.where(np.isnan(self.most), 0.0, np.maximum(logs - np.nan_to_num(self.most), 0))
            value += self.steepness * float((over**2).sum())
            pull = pull + 2 * self.steepness * over
        weights = np.zeros_like(means)
        np.add.at(weights, own, (pull / rows)[:, None] * profiles)
        slopes = self.forms.slopes(q, kept, weights)
        at, seen = self._levels
        return value, (slopes[at] * seen).sum(axis=1) * self.power * shares ** (self.power - 1)

    def improved(self, start: Floats, kept: Sequence[int]) -> tuple[float, Floats]:
        """The best shares of some levels, from a start."""
        return improved(self.value, start, kept)


def profile(lattice: AreaLattice, others: Level) -> list[float]:
    """What each part sees of one node of a level of the columns beside the areas."""
    of = [block(tree, at) for tree, at in zip(lattice.beside, others, strict=True)]
    return [prod(float(own[j]) for own, j in zip(of, part, strict=True)) for part in lattice.parts]


@remembered(16)
def plan_shares(
    domain: Domain, workload: Workload, power: int = 2
) -> tuple[tuple[Level, ...], tuple[Fraction, ...]]:
    """The levels to measure and their shares of the budget."""
    lattice = AreaLattice.of(domain)
    if lattice.leaves == 1 or len(lattice.levels) == 1:
        return (lattice.finest,), (Fraction(1),)
    rows, weights = questions(lattice, workload)
    most = _most(lattice, rows) if workload == DEFAULT and power == 2 else None
    forms = Forms.of(lattice.branches)
    small = forms.size <= _SMALL
    true = Problem(
        lattice, forms if small else Forms.of(lattice.branches, roughly=True), rows, weights, power
    )
    if most is not None:
        starts = list(_starts(lattice))
        if len(lattice.levels) <= _FEW:
            starts.append(_searched(replace(true, forms=Forms.mean(lattice.branches)))[1])
        _, shares = min((_kept_within(true, most, start) for start in starts), key=lambda one: one[0])
        return rounded(lattice.levels, shares)
    found = [_searched(true if small else replace(true, forms=Forms.mean(lattice.branches)))]
    if small and len(lattice.levels) <= _EVERY:
        found += [true.improved(_alike(lattice, some), some) for some in _subsets(len(lattice.levels))]
    _, shares = min(found, key=lambda one: one[0])
    _, shares = pruned(true, *true.improved(shares, _kept(shares)))
    return rounded(lattice.levels, shares)


def _kept_within(problem: Problem, most: Floats, shares: Floats) -> tuple[float, Floats]:
    """From one start, with a penalty on what exceeds the limits that grows steeper."""
    for steepness in _STEEPNESS:
        start = (1 - _BACK) * shares + _BACK / shares.size
        steep = replace(problem, most=most, steepness=steepness)
        value, shares = steep.improved(start, range(shares.size))
    return pruned(steep, value, shares)


def _starts(lattice: AreaLattice) -> Iterator[Floats]:
    """The last area, blocks and cells; areas and blocks by all of the other columns together, or by each of them."""
    branches = lattice.branches
    for others in dict.fromkeys((lattice.parts[0], lattice.parts[-1])):
        start = np.zeros(len(lattice.levels))
        last = len(branches.column.levels) - 1
        for own, share in ((last - 1, 0.06), (last, 0.15), (_middle(branches), 0.29)):
            start[lattice.levels.index(lattice.joined(own, others))] += share
        start[-1] += 0.5
        yield start


def _alike(lattice: AreaLattice, some: Sequence[int]) -> Floats:
    start = np.zeros(len(lattice.levels))
    start[list(some)] = 1 / len(some)
    return start


def _kept(shares: Floats) -> list[int]:
    return [i for i in range(shares.size) if shares[i] > 5e-3 or i == shares.size - 1]


def _subsets(size: int) -> Iterator[tuple[int, ...]]:
    """Every choice of levels, the finest among them."""
    for number in range(size):
        for some in combinations(range(size - 1), number):
            yield (*some, size - 1)


def _searched(problem: Problem) -> tuple[float, Floats]:
    """The best of several starts: all levels alike, and levels picked by a fixed generator."""
    size = problem.size
    generator = np.random.default_rng(4)
    best = problem.improved(np.full(size, 1 / size), range(size))
    for _ in range(_STARTS if size <= 64 else 2):
        start = generator.dirichlet(np.full(size, 0.3)) + 1e-3 / size
        start[-1] += 0.3
        best = min(best, problem.improved(start / start.sum(), range(size)), key=lambda one: one[0])
    return best


def questions(lattice: AreaLattice, workload: Workload) -> tuple[tuple[Level, ...], Floats]:
    """The rows of a workload, and how much each counts: what is asked of all other columns together as much as all the rest.

    Squares and rectangles anywhere are taken for blocks: they are put together from blocks of all sizes.
    """
    branches, beside = lattice.branches, lattice.beside
    column = branches.column
    named = {level: at for at, level in enumerate(column.levels[:-1], 1)} | {column.name: branches.depth}
    ends = [sorted({0, tree.depth}) for tree in beside]
    every = [list(range(tree.depth + 1)) for tree in beside]
    rows: dict[Level, None] = {}
    for part in workload.parts:
        areas = list(range(1, len(column.levels)))
        blocks = [0, *range(len(column.levels), branches.depth + 1)]
        if part.kind == "cells":
            found = [(branches.depth, *(tree.depth for tree in beside))]
        elif part.kind == "marginals":
            groups = part.columns or (*((level,) for level in named), *((tree.name,) for tree in beside))
            found = [
                (
                    max((named[name] for name in names if name in named), default=0),
                    *(tree.depth if tree.name in names else 0 for tree in beside),
                )
                for names in groups
            ]
        elif part.kind == "areas":
            some = [named[name] for names in part.columns for name in names] or areas
            found = list(product(some, *ends))
        else:
            found = list(
                product(
                    blocks if workload != DEFAULT else areas + blocks,
                    *(every if part.kind == "blocks" else ends),
                )
            )
        rows |= dict.fromkeys(lattice.joined(level[0], tuple(level[1:])) for level in found)
    asked = tuple(rows)
    whole = np.array([not any(lattice.split(row)[1]) for row in asked])
    weights = np.ones(len(asked))
    if whole.any() and not whole.all():
        weights[whole] = (~whole).sum() / whole.sum()
    return asked, weights / weights.sum()


def mesh_design(lattice: AreaLattice) -> tuple[Lattice, Floats] | None:
    """The default tree of the mesh or grid without its areas, and its moments at precisions of share squared."""
    of = lattice.branches.column.of
    if of is None:
        return None
    own = Lattice((tree_of(of), *lattice.beside))
    levels, shares = plan_regular(own, DEFAULT)
    return own, moments(own, levels, [float(share) ** 2 for share in shares])


def mesh_variance(lattice: AreaLattice, level: Level) -> float | None:
    """The mean variance of nodes in the default tree of the mesh or grid: of areas, or of the blocks of which these nodes are
    pieces, over how many pieces a block has."""
    own, others = lattice.split(level)
    branches, found = lattice.branches, mesh_design(lattice)
    if found is None:
        return None
    mesh, mu = found
    at, base = branches.blocks[own], mesh.trees[0]
    seen = _areas_seen(branches, own, base) if at is None else block(base, at)
    for tree, here in zip(mesh.trees[1:], others, strict=True):
        seen = np.multiply.outer(seen, block(tree, here))
    return float((seen / mu).sum()) / branches.pieces[own]


def _areas_seen(branches: Branches, own: int, base: Tree) -> Floats:
    """The mean profile of some areas of a level in the tree of the mesh or grid."""
    bounds = branches.bounds[own]
    some = np.unique(np.linspace(0, bounds.size - 2, _SOME).astype(np.int64))
    leaf = branches.places
    squares = np.zeros(base.depth + 1)
    for node in some.tolist():
        inside = leaf[bounds[node] : bounds[node + 1]]
        for at in range(base.depth + 1):
            held = np.unique(inside // base.under(at), return_counts=True)[1].astype(float)
            squares[at] += float((held**2).sum()) / base.under(at) / some.size
    return np.maximum(np.diff(squares, prepend=0.0), 0.0)


def _middle(branches: Branches) -> int:
    """The level of blocks of about 8 x 8; of cells where there is none."""
    if branches.column.of is None:
        return branches.depth
    base = tree_of(branches.column.of)
    places = [(own, base.under(at)) for own, at in enumerate(branches.blocks) if at is not None]
    return min(places, key=lambda one: abs(np.log(one[1] / _BLOCK)))[0]


def _most(lattice: AreaLattice, rows: Sequence[Level]) -> Floats | None:
    """Cells, and blocks of about 8 x 8, may have a little more error than in the default tree of the mesh; the last areas are to
    have far less. Where not all of that can be had, each gives way a little."""
    branches = lattice.branches
    if branches.column.of is None:
        return None
    limits = {_middle(branches): _ALLOWED, branches.depth: _ALLOWED, len(branches.column.levels) - 1: _WANTED}
    found = np.full(len(rows), np.nan)
    for i, row in enumerate(rows):
        own, _ = lattice.split(row)
        if own in limits:
            variance = mesh_variance(lattice, row)
            found[i] = np.nan if variance is None else np.log(variance) + 2 * np.log(limits[own])
    return found
