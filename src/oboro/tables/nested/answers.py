"""Intervals of a published table over areas: of its rows, of any question, of areas and blocks as tables of their own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain import Areas, Grid, Mesh
from oboro.errors import ParameterError, Setting, asked, setting, told
from oboro.kinds import nearest
from oboro.noise import DiscreteLaplace
from oboro.noise.laplace import check_level
from oboro.tables.nested.lattice import AreaLattice, Branches, PartKnown, Pass
from oboro.tables.nested.projection import leaves_of
from oboro.tables.nested.rows import Paths
from oboro.tables.tree.answers import (
    Where,
    chosen_leaves,
    example,
    meshes_named,
    names_of,
    no_value,
    places_named,
)
from oboro.tables.tree.errors import Error
from oboro.tables.tree.intervals import MOST, Answer, hull, in_shapes
from oboro.tables.tree.lattice import Level
from oboro.tables.tree.measure import Measured
from oboro.tables.tree.partition import Blocks, grouped, rows_cols
from oboro.tables.tree.rows import chains, ends
from oboro.tables.tree.workload import chosen, precision

if TYPE_CHECKING:
    from oboro.domain import Column
    from oboro.tables.nested.strategy import AreaTree

_FINE = 3  # noise of at least this scale: its steps of 1 hardly matter
_MARGIN = 1.01  # for sums of a few noises, between one noise and a Gaussian
_NOTHING = 1e-9  # of the variance of a noise: what is known has none
_SMALLEST = 1e-3  # weights of noises below this part of the largest count as Gaussian together


@dataclass(frozen=True, eq=False)
class Solved:
    """The least-squares estimate of every leaf, and the noisy counts of cells themselves."""

    estimates: Floats
    raw: Integers


_last: list[tuple[tuple[Integers, ...], bytes, Solved]] = []


@dataclass(frozen=True, eq=False)
class Answers:
    """What a published table says, by the strategy that made it."""

    strategy: AreaTree
    published: Measured

    @property
    def lattice(self) -> AreaLattice:
        return self.strategy.lattice

    @cached_property
    def leaves(self) -> Integers:
        """Of the published rows."""
        return leaves_of(self.lattice, self.strategy.layout, self.published.keys)

    def intervals(self, level: float) -> tuple[Integers, Integers]:
        """Of the published rows."""
        return self._row_ends(self.leaves, self.published.counts, level)

    @cached_property
    def solved(self) -> Solved:
        """The least-squares solution of the table; the last one is kept, unless no file carries as much."""
        own, carried = self.strategy, self.published.noisy
        digest = hashlib.sha256(repr((own.chosen, own.eps, own.unit, own.known, own.total)).encode()).digest()
        kept = _last[0] if _last else None  # taken once: another thread may ask another table meanwhile
        if kept is None or kept[0] is not carried or kept[1] != digest:
            noisy = in_shapes(carried, [self.lattice.nodes(level) for level in own.chosen.levels])
            raw = noisy[own.chosen.levels.index(self.lattice.finest)].reshape(-1)
            found = Solved(own.estimated(noisy), raw)
            if sum(each.size for each in noisy) > MOST:
                return found
            kept = (carried, digest, found)
            _last[:] = [kept]
        return kept[2]

    @cached_property
    def paths(self) -> Paths:
        """How areas are shared out."""
        own, solved = self.strategy, self.solved
        return Paths(self.lattice, solved.estimates, own.possible, own.fixed, own.ways, precision(own.noise))

    def _row_ends(self, leaves: Integers, published: Integers, level: float) -> tuple[Integers, Integers]:
        """The interval of single cells, by their own noisy counts: it holds given that the row is published (`rows`).

        A cell that is not published, and was asked for beforehand, holds at most as much as its noisy count allows.
        """
        y, noise = self.solved.raw[leaves], self.strategy.noise
        _, up = chains(noise, check_level(level))
        low, high = np.zeros(y.size, np.int64), np.maximum(y + up.reach, 0)
        shown = np.flatnonzero(published)

        def would(some: Integers, more: int) -> Bools:
            return self.paths.published(leaves[shown[some]], more)

        low[shown], high[shown] = ends(y[shown], noise, level, would)
        if self.strategy.fixed is not None:  # what follows from known totals is no estimate
            own = leaves // max(math.prod(self.lattice.groups), 1)
            every = self.strategy.node_variances(self.lattice.branches.depth, self.strategy.seen(None))
            sure = every[own] < _NOTHING * noise.variance
            low, high = np.where(sure, published, low), np.where(sure, published, high)
        return np.minimum(low, published), np.maximum(high, published)

    def answer(self, where: Where, level: float) -> Answer:
        areas, others = choices_of(self.strategy, where)
        parts = np.unravel_index(self.leaves, (self.lattice.branches.leaves, *self.lattice.groups))
        inside = areas[parts[0]]
        for choice, place in zip(others, parts[1:], strict=True):
            inside &= choice[place]
        value = int(self.published.counts[inside].sum())
        if int(areas.sum()) == 1 and all(int(choice.sum()) == 1 for choice in others):
            return self._of_cell((areas, *others), value, level)
        estimate = self.solved.estimates[areas]
        for axis, choice in enumerate(others, 1):
            estimate = estimate.compress(choice, axis=axis)
        if self._smooth:
            variances = self._pieces(np.where(areas, 0, -1), 1).variances[:, 0]
            sd = math.sqrt(float((self._weights(others) * variances).sum()))
            reach = self._reach(level) * sd
        else:
            error = self._error(areas, others)
            sd, reach = error.sd, error.reach(level)
        middle, low, high = hull(float(estimate.sum()), reach, value)
        return Answer(value, int(low), int(high), sd, level, 0, int(middle))

    def _of_cell(self, choices: Sequence[Bools], value: int, level: float) -> Answer:
        places = tuple(int(np.flatnonzero(choice)[0]) for choice in choices)
        leaf = int(np.ravel_multi_index(places, (self.lattice.branches.leaves, *self.lattice.groups)))
        low, high = self._row_ends(np.array([leaf]), np.array([value]), level)
        estimate = max(int(self.solved.raw[leaf]), 0)
        return Answer(value, int(low[0]), int(high[0]), self.strategy.noise.sd, level, 0, estimate)

    def of_blocks(self, side: int, questions: Sequence[Where], level: float) -> Blocks | None:
        """All blocks of so many cells a side at once, for questions about the other columns: as `answer` has them.

        None where cells have no place, or noise is so small that each block needs the law of its own error.
        """
        branches = self.lattice.branches
        if branches.column.of is None or not self._smooth:
            return None
        row, col = rows_cols(branches.column.of, branches.column.decode(branches.order))
        rows, cols, group = grouped(row // side, col // side)
        pieces = self._pieces(group, rows.size)
        parts = np.unravel_index(self.leaves, (branches.leaves, *self.lattice.groups))
        reach, found = self._reach(level), []
        for where in questions:
            _, others = choices_of(self.strategy, where)
            inside = np.ones(self.leaves.size, np.bool_)
            estimates = self.solved.estimates
            for axis, (choice, place) in enumerate(zip(others, parts[1:], strict=True), 1):
                inside &= choice[place]
                estimates = estimates.compress(choice, axis=axis)
            values = np.bincount(group[parts[0][inside]], self.published.counts[inside], rows.size)
            sums = np.bincount(group, estimates.reshape(branches.leaves, -1).sum(axis=1), rows.size)
            sds = np.sqrt((self._weights(others)[:, None] * pieces.variances).sum(axis=0))
            whole = np.rint(values).astype(np.int64)
            _, low, high = hull(sums, reach * sds, whole)
            if all(int(choice.sum()) == 1 for choice in others):
                alone = np.flatnonzero((np.bincount(group, minlength=rows.size) == 1)[group])
                self._put_rows(
                    alone,
                    [int(np.flatnonzero(choice)[0]) for choice in others],
                    group[alone],
                    whole,
                    low,
                    high,
                    level,
                )
            found.append((whole, low, high))
        return Blocks(rows, cols, tuple(found))

    def _pieces(self, group: Integers, size: int) -> Pieces:
        return Pieces.of(self.strategy.ways, self.lattice.branches, group, size)

    def _put_rows(
        self,
        cells: Integers,
        values: Sequence[int],
        to: Integers,
        counts: Integers,
        low: Integers,
        high: Integers,
        level: float,
    ) -> None:
        """What consists of one cell by one value of every other column is a row, and has the interval of a row."""
        places = (cells, *(np.full(cells.size, value) for value in values))
        leaves = np.ravel_multi_index(places, (self.lattice.branches.leaves, *self.lattice.groups))
        low[to], high[to] = self._row_ends(np.asarray(leaves, np.int64), counts[to], level)

    def _weights(self, others: Sequence[Bools]) -> Floats:
        """What each part sees of a choice of the other columns."""
        trees = self.lattice.beside
        seen = [chosen(tree, choice.astype(float)) for tree, choice in zip(trees, others, strict=True)]
        return np.array(_product(self.lattice, seen))

    @property
    def _smooth(self) -> bool:
        """Whether noise is wide enough for its law to be taken as continuous."""
        return min(noise.sd for noise in self.strategy.noises) >= _FINE * math.sqrt(2)

    def _reach(self, level: float) -> float:
        """How many standard errors the sum of noises of an area reaches: no less than one noise, or as many as make a Gaussian."""
        gaussian = NormalDist().inv_cdf((1 + check_level(level)) / 2)
        if not any(isinstance(noise, DiscreteLaplace) for noise in self.strategy.noises):
            return _MARGIN * gaussian
        return _MARGIN * max(gaussian, -math.log(1 - level) / math.sqrt(2))

    def _error(self, areas: Bools, others: Sequence[Bools]) -> Error:
        """The law of the error of any choice: each noise by its weight in the least-squares answer."""
        lattice, found = self.lattice, Error()
        depth = lattice.branches.depth
        solved = {
            part: way.solve({depth: areas[:, None] / way.precisions[-1]}, self._without_error(part))[:, 0]
            for part, way in self.strategy.ways.items()
        }
        for level, noise in zip(self.strategy.chosen.levels, self.strategy.noises, strict=True):
            own, at = lattice.split(level)
            weights = np.zeros((lattice.branches.nodes(own), math.prod(lattice.nodes(level)[1:])))
            for part, v in solved.items():
                if all(a >= j for a, j in zip(at, part, strict=True)):
                    seen = np.ones(1)
                    for tree, choice, k, j in zip(lattice.beside, others, at, part, strict=True):
                        seen = np.multiply.outer(seen, _held(tree, choice.astype(float), k, j)).reshape(-1)
                    weights += np.multiply.outer(lattice.branches.sums(v, own), seen)
            flat = precision(noise) * weights.reshape(-1)
            large = np.abs(flat) > _SMALLEST * float(np.abs(flat).max(initial=0.0))
            rest = float((flat[~large] ** 2).sum()) * noise.variance
            found += Error.of(flat[large], np.ones(int(large.sum())), noise) + Error(rest=rest)
        return found

    def _without_error(self, part: Level) -> PartKnown | None:
        """What is known is off by nothing."""
        fixed = None if self.strategy.fixed is None else self.strategy.fixed.of_part(part)
        return fixed and {at: (flags, np.zeros((flags.size, 1))) for at, (flags, _) in fixed.items()}

    def by(self, names: Sequence[str], count: str, level: float) -> Table:
        """The table by areas of a level, and by other columns: every area, with its count and the interval of it."""
        import pyarrow as pa

        lattice = self.lattice
        column = lattice.branches.column
        others = [own for i, own in enumerate(self.strategy.layout.domain) if i != lattice.axis]
        own, at = self._columns_named(column, others, names)
        counts = np.zeros((lattice.branches.leaves, *lattice.groups), np.int64)
        counts.reshape(-1)[self.leaves] = self.published.counts
        rows = lattice.joined(own, at)
        values = np.asarray(lattice.sums(counts, rows), np.int64)
        estimates = np.asarray(lattice.sums(self.solved.estimates, rows), float)
        good = np.ones(values.shape, np.bool_)
        for axis, (here, beside_) in enumerate(zip(at, others, strict=True), 1):
            if here:  # what was filled up is no value
                inside = np.arange(values.shape[axis]) < beside_.size
                good &= inside.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
        if self._smooth:
            sds = np.sqrt(self.strategy.node_variances(own, self.strategy.seen(at)))
            reach = self._reach(level) * sds
            reaches = np.broadcast_to(reach.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
        else:
            reaches = self._each_reach(own, at, values.shape, level)
        _, low, high = hull(estimates, reaches, values)
        if lattice.under(at) == 1:  # an area of one cell is a row
            bounds = lattice.branches.bounds[own]
            alone = np.flatnonzero(np.diff(bounds) == 1)
            for value, where in enumerate(np.ndindex(values.shape[1:])):
                counts_, lows, highs = (
                    each.reshape(values.shape[0], -1)[:, value] for each in (values, low, high)
                )
                self._put_rows(bounds[alone], where, alone, counts_, lows, highs, level)
        index = np.nonzero(good)
        table: dict[str, Any] = {}
        for place, name in enumerate(column.levels[:own] if own else (), 1):
            above = (
                np.searchsorted(lattice.branches.bounds[place], lattice.branches.bounds[own][:-1], "right")
                - 1
            )
            labels = pa.array(column.labels(name))
            table[name] = labels.take(pa.array(above[index[0]]))
        for axis, (here, other) in enumerate(zip(at, others, strict=True), 1):
            if here:
                table[other.name] = pa.array([other.value(int(code)) for code in index[axis]])
        return pa.table({**table, count: values[index], "low": low[index], "high": high[index]})

    def _each_reach(self, own: int, at: Level, shape: tuple[int, ...], level: float) -> Floats:
        """Of each node by the exact law of its discrete noise; slower."""
        lattice, found = self.lattice, np.empty(shape)
        bounds = lattice.branches.bounds[own]
        others = [
            np.arange(tree.leaves) < tree.under(here) for tree, here in zip(lattice.beside, at, strict=True)
        ]
        for node in range(shape[0]):
            inside = np.zeros(lattice.branches.leaves, np.bool_)
            inside[bounds[node] : bounds[node + 1]] = True
            found[node] = self._error(inside, others).reach(level)
        return found

    def _columns_named(
        self, column: Areas, others: Sequence[Column], names: Sequence[str]
    ) -> tuple[int, Level]:
        known = [*column.levels[:-1], *(own.name for own in others)]
        for name in names:
            if name not in known:
                raise ParameterError(
                    "a table of its own is by areas and by other columns",
                    given=told(by=repr(name)),
                    needed=", ".join(known),
                    fix=setting(by=nearest(name, known) or known[0]),
                )
        own = max((1 + column.levels.index(name) for name in names if name in column.levels), default=0)
        at = tuple(
            tree.depth if other.name in names else 0
            for tree, other in zip(self.lattice.beside, others, strict=True)
        )
        return own, at


@dataclass(frozen=True, eq=False)
class Pieces:
    """Groups of leaves that are no nodes: the variance of each, for every part of the other columns.

    A sum of t_c x_c over children of one node v has, beside what comes from x_v, the variance sum of t_c^2 a_c - T^2/S with T the
    sum of t_c a_c; and x_v stands in it T/S times, as if it were asked for so often. So one way up the tree is enough.
    """

    variances: Floats  # [part, group]

    @classmethod
    def of(cls, passes: Mapping[Level, Pass], branches: Branches, group: Integers, size: int) -> Pieces:
        """`group` of each leaf, -1 for none."""
        nodes = np.flatnonzero(group >= 0)
        groups = group[nodes]
        ways = list(passes.values())
        t = np.ones((len(ways), nodes.size))
        found = np.zeros((len(ways), size))
        for level in range(branches.depth, 0, -1):
            above = branches.nodes(level - 1)
            keys, place = np.unique(groups * above + branches.parents[level - 1][nodes], return_inverse=True)
            next_groups, next_nodes = keys // above, keys % above
            after = np.zeros((len(ways), keys.size))
            for i, way in enumerate(ways):
                taken = t[i] * way.a[level][nodes]
                found[i] += np.bincount(groups, t[i] * taken, size)
                total = np.bincount(place, taken, keys.size)
                own = way.sums[level - 1][next_nodes]
                after[i] = np.divide(total, own, out=np.zeros_like(total), where=own > 0)
                found[i] -= np.bincount(next_groups, total * after[i], size)
            groups, nodes, t = next_groups, next_nodes, after
        for i, way in enumerate(ways):
            found[i] += np.bincount(groups, t[i] ** 2 * way.a[0][nodes], size)
        return cls(np.maximum(found, 0.0))


def _product(lattice: AreaLattice, seen: Sequence[Floats]) -> list[float]:
    return [math.prod(float(own[j]) for own, j in zip(seen, part, strict=True)) for part in lattice.parts]


def _held(tree: Any, choice: Floats, level: int, part: int) -> Floats:
    """What each node of a level holds of the part of a choice that level `part` sees and no coarser one does."""

    def averaged(at: int) -> Floats:
        return np.repeat(choice.reshape(tree.nodes(at), -1).mean(axis=1), tree.under(at))

    own = averaged(part) - averaged(part - 1) if part else averaged(0)
    return np.asarray(own.reshape(tree.nodes(level), -1).sum(axis=1))


def choices_of(strategy: AreaTree, where: Where) -> tuple[Bools, list[Bools]]:
    """The leaves that a question chooses: of the areas, and of the other columns."""
    lattice = strategy.lattice
    column = lattice.branches.column
    known = [name for own in strategy.layout.domain for name in own.asked]
    for name in where:
        if name not in known:
            raise ParameterError(
                "the question names a column that the table does not have",
                given=str(name),
                needed=", ".join(known),
                fix=_example(strategy, nearest(name, known) or known[0]),
            )
    inside = np.ones(lattice.branches.leaves, np.bool_)
    for at, level in enumerate(column.levels[:-1], 1):
        if level in where:
            inside &= _areas_named(column, level, lattice.branches.bounds[at], where[level])
    inside &= _cells_named(column, where)[lattice.branches.order]
    others = [own for i, own in enumerate(strategy.layout.domain) if i != lattice.axis]
    found = [chosen_leaves(tree, own, where) for tree, own in zip(lattice.beside, others, strict=True)]
    # all values of a column that was filled up are all of it: what was filled up holds nobody
    return inside, [
        np.ones_like(choice) if choice.sum() == math.prod(tree.sizes) else choice
        for tree, choice in zip(lattice.beside, found, strict=True)
    ]


def _example(strategy: AreaTree, name: str) -> Setting:
    column = next(own for own in strategy.layout.domain if name in own.asked)
    return asked(name, example(column, name))


def _areas_named(column: Areas, level: str, bounds: Integers, values: object) -> Bools:
    place = {label: i for i, label in enumerate(column.labels(level))}
    inside = np.zeros(column.size, np.bool_)
    for value in names_of(column, level, values):
        if str(value) not in place:
            raise no_value(column, level, value)
        inside[bounds[place[str(value)]] : bounds[place[str(value)] + 1]] = True
    return inside


def _cells_named(column: Areas, where: Where) -> Bools:
    """In the order of codes."""
    inside = np.ones(column.size, np.bool_)
    for axis, name in enumerate(column.sources):
        if name not in where:
            continue
        if isinstance(column.of, Mesh):
            inside &= meshes_named(
                column.of, column.decode(np.arange(column.size))[0], names_of(column, name, where[name])
            )
        elif isinstance(column.of, Grid):
            wanted = places_named(column.of, name, where[name])
            inside &= np.isin(column.decode(np.arange(column.size))[axis], wanted)
        else:
            codes = [column.code(str(value)) for value in names_of(column, name, where[name])]
            if any(code is None for code in codes):
                raise no_value(column, name, where[name])
            inside &= np.isin(np.arange(column.size), np.array(codes, np.int64))
    return inside
