"""Whether a row of a table over areas would be published with another noisy count: what its interval rests on.

Proof of coverage
    That of `tree.rows`, "whatever decides", as it stands. It needs that the noise of the cell is independent of all other noise,
    symmetric and log-concave, and S, the noisy counts with which the cell is published, all other noise as it is: any set. The
    interval begins above the m-th count of a chain downwards if the first m are all in S, and at 0 otherwise; it goes up to the
    m-th count of a chain upwards that is in S. Who says "not in S" too often only makes intervals wider: the low end becomes 0,
    and the high end a later member.

    What is in S is computed as the table itself was: the estimates with another noisy count of this one cell, then the
    projection along the path from the root to the cell. Least squares is linear, so that estimates change by what one count
    more does times how many more there are. Let e be the category of the cell, W_j e what part j sees of it. Upwards, with a
    and S of `lattice`,

        z_j = p/q_j at the cell,  z_j(v) = (a_v/S_v) z_j(child)     at the nodes v above it, and 0 elsewhere,

    and downwards, x_j = z_j at the root and x_j(c) = z_j(c) + (a_c/S_v)(x_j(v) - z_j(child of v above the cell)) for all children
    c of these nodes. A node is given more by the sum over j of x_j W_j e; known totals have a = 0 and stay. What a node on the
    path shares out among its children depends on their estimates and on its own counts alone, so that nothing off the path
    matters.

    Known totals, and cells that are ruled out, are facts like the others, and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.nested.known import Fixed
from oboro.tables.nested.lattice import AreaLattice, Pass
from oboro.tables.nested.projection import alike, level_facts, stages_of
from oboro.tables.tree.lattice import Level


@dataclass(frozen=True, eq=False)
class Paths:
    """How areas are shared out: what is published if one noisy count were another."""

    lattice: AreaLattice
    estimates: Floats  # of leaves
    possible: Bools | None
    known: Fixed | None
    ways: Mapping[Level, Pass]
    precision: float  # of the noisy counts of cells

    @cached_property
    def _starts(self) -> Integers:
        sizes = [self.lattice.branches.nodes(at) for at in range(self.lattice.branches.depth + 1)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def _tree(self) -> tuple[Integers, Integers]:
        """The children of each node, and the node above it, among all nodes."""
        branches, starts = self.lattice.branches, self._starts
        firsts = np.zeros((int(starts[-2]), 2), np.int64)
        parents = np.zeros(int(starts[-1]), np.int64)
        for level, (first, above) in enumerate(zip(branches.firsts, branches.parents, strict=True)):
            own = slice(int(starts[level]), int(starts[level + 1]))
            firsts[own, 0], firsts[own, 1] = starts[level + 1] + first[:-1], starts[level + 1] + first[1:]
            parents[starts[level + 1] : starts[level + 2]] = starts[level] + above
        return firsts, parents

    def _of_nodes(self, leaves: np.ndarray) -> np.ndarray:
        branches = self.lattice.branches
        return np.concatenate([branches.sums(leaves, at) for at in range(branches.depth + 1)])

    @cached_property
    def _facts(self) -> tuple[Floats, Bools, bool, bool, Integers, Integers, Integers]:
        """Of all nodes: what each should hold and can, what is known, and what is known to be in it at least, by other columns too
        for the levels of which that is known."""
        size = self.lattice.branches.leaves
        wanted = self._of_nodes(self.estimates.reshape(size, -1))
        may = np.ones((1, 1), np.bool_)
        if self.possible is not None:
            may = self._of_nodes(self.possible.reshape(size, -1).astype(np.int64)) > 0
        branches = self.lattice.branches
        fixed, low, floor = zip(
            *(level_facts(self.lattice, self.known, at) for at in range(branches.depth + 1)), strict=True
        )
        last = max((at for at, each in enumerate(floor) if each.size), default=-1)
        width = floor[0].shape[1]
        floors = [
            each if each.size else np.zeros((branches.nodes(at), width), np.int64)
            for at, each in enumerate(floor[: last + 1])
        ]
        return (
            wanted,
            may,
            self.possible is None,
            self.known is not None,
            np.concatenate(fixed),
            np.concatenate(low),
            np.concatenate(floors) if floors else np.zeros((0, width), np.int64),
        )

    @cached_property
    def _ways(self) -> tuple[Integers, int, Integers, Integers, Bools, int]:
        """How the other columns are divided, and where sharing out begins."""
        groups = int(np.prod(self.lattice.groups, dtype=np.int64))
        good = alike(self.possible)
        stages, none = stages_of(self.known, groups), np.zeros((0, 0), np.int64)
        crossing, margins = (none, none) if self.known is None else (self.known.crossing, self.known.margins)
        start, cut = (0, 1) if self.known is None else (self.known.start, self.known.cut)
        return stages, cut, crossing, margins, np.ones(groups, np.bool_) if good is None else good, start

    @cached_property
    def _response(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Of every part: a and S of all nodes, what it makes of a noisy count of a cell, and its projection."""
        lattice, ways = self.lattice, list(self.ways.items())
        groups = int(np.prod(lattice.groups, dtype=np.int64))
        a = np.stack([np.concatenate(way.a) for _, way in ways])
        sums = np.stack([np.concatenate(way.sums) if way.sums else np.zeros(0) for _, way in ways])
        weights = np.array([self.precision / way.precisions[-1] for _, way in ways])
        finest = tuple(tree.depth for tree in lattice.beside)
        parts = np.zeros((len(ways), groups, *lattice.groups))
        for own, (part, _) in zip(parts, ways, strict=True):
            each = np.eye(groups).reshape(groups, *lattice.groups)
            lattice.add_spread(lattice.detail(each, finest, part), part, own)
        return a, sums, weights, parts.reshape(len(ways), groups, groups)

    def published(self, leaves: Integers, more: int) -> Bools:
        """Whether each cell would be published if its noisy count alone were so much more."""
        from oboro.tables.nested._compiled import still_held

        lattice = self.lattice
        own, *others = np.unravel_index(leaves, (lattice.branches.leaves, *lattice.groups))
        groups = (
            np.ravel_multi_index(tuple(others), lattice.groups) if others else np.zeros(leaves.size, np.int64)
        )
        order = np.lexsort((own, groups))  # those that share their path, one after the other
        firsts, parents = self._tree
        found, out = np.empty(leaves.size, np.bool_), np.empty(leaves.size, np.bool_)
        still_held(
            own[order].astype(np.int64),
            groups[order].astype(np.int64),
            float(more),
            self._starts,
            firsts,
            parents,
            *self._facts,
            *self._ways,
            *self._response,
            np.array(lattice.groups, np.int64),
            np.array([arity for tree in lattice.beside for arity in tree.arities], np.int64),
            LARGEST_TOTAL,
            found,
        )
        out[order] = found
        return out
