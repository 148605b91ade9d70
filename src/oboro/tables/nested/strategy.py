"""The tree over areas as a strategy: counts at planned levels, least squares, projection, intervals at every level."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain import Areas, Grid, Mesh
from oboro.errors import ParameterError, setting, told
from oboro.exact import show, whole
from oboro.kinds import nearest
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import check_level
from oboro.privacy import Approx
from oboro.release import Forecast
from oboro.release import Part as PrivacyPart
from oboro.release import part as privacy_part
from oboro.tables.cells import LARGEST_TOTAL, Cells, Layout, progress
from oboro.tables.nested.lattice import AreaLattice, Known, Pass, least_squares, passes
from oboro.tables.nested.planner import mesh_variance, plan_shares
from oboro.tables.strategy import Noise, Strategy, counts_move, counts_move_squared
from oboro.tables.tree.answers import Where, chosen_leaves, listed, meshes_named, no_value, places_named
from oboro.tables.tree.errors import Error, ends_of
from oboro.tables.tree.intervals import Answer, hull, in_shapes, without_intervals
from oboro.tables.tree.lattice import Level
from oboro.tables.tree.measure import Measured, beside, draws, whole_total
from oboro.tables.tree.strategy import rho_of
from oboro.tables.tree.workload import DEFAULT, Design, Workload, chosen, precision

if TYPE_CHECKING:
    from oboro.domain import Column

LARGEST = 2**26  # leaves: half a gigabyte for each array of 64 bits
_WITHIN = math.log(20) / math.sqrt(2)  # the 95% point of Laplace noise in standard errors; sums have less
_TRUSTED = 0.2
_NAMED = 8  # levels that a forecast names
_FINE = 3  # noise of at least this scale: its steps of 1 hardly matter
_MARGIN = 1.01  # for sums of a few noises, between one noise and a Gaussian
_SMALLEST = 1e-3  # weights of noises below this part of the largest count as Gaussian together


@dataclass(frozen=True)
class KnownTotals:
    """Totals of areas of one level that are public from elsewhere: constants, fixed beforehand."""

    level: str
    areas: tuple[str, ...]
    totals: tuple[int, ...]


def known_by_level(lattice: AreaLattice, known: Iterable[KnownTotals], total: int | None) -> Known | None:
    """The known totals, by level of the tree, with all that follows from them; refuses what cannot be.

    For areas within areas that is decided by public facts: a total is no less than what the areas within are known to hold, and
    just that where all of them are known.
    """
    branches = lattice.branches
    found = {at: np.full(branches.nodes(at), -1, np.int64) for at in range(branches.depth + 1)}
    if total is not None:
        found[0][0] = total
    given = list(known)
    for one in given:
        at, labels = _level(branches.column, one.level)
        place = {label: i for i, label in enumerate(labels)}
        if len(one.areas) != len(one.totals) or len(set(one.areas)) != len(one.areas):
            raise ParameterError("known totals need one total for each area", given=one.level)
        for label, number in zip(one.areas, one.totals, strict=True):
            if label not in place:
                close = nearest(label, place)
                raise ParameterError(
                    f"there is no {one.level} of this name" + (f": did you mean {close!r}?" if close else ""),
                    given=told(known=f"{one.level} {label}"),
                    needed="areas of the domain",
                    argument="known",
                )
            found[at][place[label]] = whole(f"known total of {label}", number, least=0, most=LARGEST_TOTAL)
    if total is None and not given:
        return None
    for at in range(len(branches.column.levels) - 2, -1, -1):
        first = branches.firsts[at][:-1]
        inside, low = found[at + 1], np.add.reduceat(np.maximum(_least(found, branches, at + 1), 0), first)
        complete = np.logical_and.reduceat(inside >= 0, first)
        own = found[at]
        wrong = np.flatnonzero((own >= 0) & ((own < low) | (complete & (own != low))))
        if wrong.size:
            node = int(wrong[0])
            raise ParameterError(
                "known totals contradict one another",
                given=f"{_named(branches.column, at, node)}: {own[node]:,}, and {low[node]:,} in areas within it",
                needed="as many as the areas within it hold" if complete[node] else "at least as many",
                argument="known",
            )
        found[at] = np.where(complete, low, own)
    return {at: each for at, each in found.items() if (each >= 0).any()}


def _least(found: dict[int, Integers], branches: Any, at: int) -> Integers:
    """What each node is known to hold at least."""
    if at == branches.depth:
        return found[at]
    below = np.add.reduceat(np.maximum(_least(found, branches, at + 1), 0), branches.firsts[at][:-1])
    return np.where(found[at] >= 0, found[at], below)


def _level(column: Areas, name: str) -> tuple[int, tuple[str, ...]]:
    if name == "total":
        return 0, ("total",)
    if name not in column.levels[:-1]:
        close = nearest(name, column.levels)
        raise ParameterError(
            "known totals are of areas of a level" + (f": did you mean {close!r}?" if close else ""),
            given=told(known=name),
            needed=", ".join(("total", *column.levels[:-1])),
            argument="known",
        )
    return 1 + column.levels.index(name), column.labels(name)


def _named(column: Areas, at: int, node: int) -> str:
    return "all areas" if at == 0 else f"{column.levels[at - 1]} {column.labels(column.levels[at - 1])[node]}"


@dataclass(frozen=True, eq=False)
class AreaTree(Strategy):
    """Counts at planned levels of areas, blocks within them and cells, by the other columns.

    Privacy
        The nodes of a level do not overlap: each cell lies in one area of every level, and in one block of that. So one unit
        moves the counts of a level by no more, in all, than it moves the counts of cells, D = `counts_move(unit)`, and level l
        with discrete Laplace noise of scale D/(share_l eps) costs share_l eps (`Design.laplace`; with delta `Design.gaussian`).
        The shares add up to 1. The table of areas is public and fixed beforehand, and so are known totals: they are
        constants here, and what follows the noise is post-processing. eps bounds what this release adds to them; they are
        not protected by it.
    """

    name = "tree"
    title = "counts of areas, blocks and cells at planned levels, least squares, projection"
    takes_total = takes_known = takes_areas = planned = carries = True
    slowness = 40
    notes = ("least squares over all measured levels, then counts are kept at 0 or more",)

    def needs(self) -> str | None:
        columns = [column for column in self.layout.domain if isinstance(column, Areas)]
        if len(columns) > 1:
            return "one column of areas: two trees of any form have no least squares in two passes"
        if self.lattice.leaves > LARGEST:
            return f"at most 2^{LARGEST.bit_length() - 1} cells: every one is listed"
        return None

    def check(self) -> None:
        super().check()
        if self.publish is not None:
            raise ParameterError(
                "the share of empty cells among those that are published is not limited for areas",
                given=told(publish=show(self.publish)),
                needed="no publish",
                fix=setting(publish=None),
            )
        if self.workload is not None:
            self._check_workload(self.workload)
        self.chosen.check(self.lattice)
        if (self.known or self.total is not None) and self.possible is not None:
            raise ParameterError(
                "known totals and cells that are ruled out cannot be used together",
                given=told(known=", ".join(one.level for one in self.known) or "total"),
                needed="known totals of a table in which every combination is possible",
                argument="known",
            )
        self.fixed  # noqa: B018  # refuses totals that contradict one another

    def _check_workload(self, workload: Workload) -> None:
        column = self.lattice.branches.column
        if workload.minimax:
            raise ParameterError(
                "areas have no wavelet method to be compared with",
                given=told(workload=repr(str(workload))),
                needed="another workload",
                fix=told(workload=f'ob.tables.areas("{column.levels[0]}")'),
            )
        for part in workload.parts:
            for name in (name for names in part.columns for name in names if part.kind == "areas"):
                if name not in column.levels:
                    raise ParameterError(
                        "the workload names a level that the areas do not have",
                        given=f"areas({name!r})",
                        needed=", ".join(column.levels),
                    )
        workload.check([*self.layout.domain.names, *column.levels[:-1]])

    @cached_property
    def lattice(self) -> AreaLattice:
        return AreaLattice.of(self.layout.domain)

    @cached_property
    def fixed(self) -> Known | None:
        return known_by_level(self.lattice, self.known, self.total)

    @cached_property
    def possible(self) -> Bools | None:
        """Which leaves are cells; None if all are."""
        return possible_leaves(self.lattice, self.layout)

    @cached_property
    def chosen(self) -> Design:
        """The levels that are counted, and their shares."""
        if self.design is not None:
            return self.design
        rho = rho_of(self.guarantee) if isinstance(self.guarantee, Approx) else None
        levels, shares = plan_shares(self.layout.domain, self.workload or DEFAULT, 2 if rho is None else 1)
        return Design(levels, shares, rho)

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        return tuple(self.chosen.noises(self.eps, self.unit))

    @property
    def noise(self) -> Noise:
        return self.noises[self.chosen.levels.index(self.lattice.finest)]

    @cached_property
    def parts(self) -> tuple[PrivacyPart, ...]:
        moves = counts_move(self.unit) if self.chosen.rho is None else counts_move_squared(self.unit)
        return tuple(
            privacy_part(noise, self.lattice.name(level), moves=moves)
            for noise, level in zip(self.noises, self.chosen.levels, strict=True)
        )

    @cached_property
    def precisions(self) -> list[float]:
        return [precision(noise) for noise in self.noises]

    @cached_property
    def ways(self) -> dict[Level, Pass]:
        return passes(self.lattice, self.chosen.levels, self.precisions, self.fixed)

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Measured]:
        lattice = self.lattice
        counts = np.zeros((lattice.branches.leaves, *lattice.groups), np.int64)
        counts.reshape(-1)[leaves_of(lattice, self.layout, cells.keys)] = cells.counts
        true = [np.asarray(lattice.sums(counts, level), np.int64) for level in self.chosen.levels]
        del counts
        return [self._published(noisy) for noisy in draws(true, self.noises, bits, trials)]

    def _published(self, noisy: Sequence[Integers]) -> Measured:
        """All that follows the noise: post-processing."""
        lattice = self.lattice
        estimates = self.estimated(noisy)
        progress("making whole", 0.5)
        counts = project(lattice, estimates, self.possible, self.fixed).reshape(-1)
        raw = noisy[self.chosen.levels.index(lattice.finest)].reshape(-1)
        leaves = np.flatnonzero(counts)
        keys = keys_of(lattice, self.layout, leaves)
        order = np.argsort(keys)
        progress("making whole", 1.0)
        return Measured(keys[order], counts[leaves][order], tuple(noisy), np.maximum(raw[leaves], 0)[order])

    def estimated(self, noisy: Sequence[Integers]) -> Floats:
        """Least squares; what has no possible cell holds 0 for certain."""
        counts = list(noisy)
        if self.possible is not None:
            counts = [
                np.where(self.lattice.sums(self.possible.astype(np.int64), level) > 0, each, 0)
                for level, each in zip(self.chosen.levels, noisy, strict=True)
            ]
        progress("least squares", 0.0)
        return least_squares(self.lattice, self.chosen.levels, self.precisions, counts, self.fixed, self.ways)

    def node_variances(self, own: int, seen: Sequence[float]) -> Floats:
        """Of the nodes of a level of the areas, by a choice of which each part sees so much."""
        total = np.zeros(self.lattice.branches.nodes(own))
        for part, weight in zip(self.lattice.parts, seen, strict=True):
            if weight > 0:
                total += weight * self.ways[part].variances[own]
        return total

    def variance(self, height: int) -> float:
        """Of a cell, on average."""
        return float(self.node_variances(self.lattice.branches.depth, self._seen(None)).mean())

    def _seen(self, others: Level | None) -> list[float]:
        from oboro.tables.nested.planner import profile

        return profile(self.lattice, others or tuple(tree.depth for tree in self.lattice.beside))

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """Errors of areas, of blocks within them and of cells; by all of the other columns together, and by each of them."""
        lattice, rows = self.lattice, []
        branches = lattice.branches
        ends = sorted({(0,) * len(lattice.beside), tuple(tree.depth for tree in lattice.beside)})
        for own, others in product(reversed(range(branches.depth + 1)), ends):
            error = math.sqrt(float(self.node_variances(own, self._seen(others)).mean()))
            size = branches.leaves / branches.nodes(own) * lattice.under(others)
            name = lattice.name(lattice.joined(own, others))
            rows.append((name, round(size), error, _WITHIN * error, _WITHIN * error / _TRUSTED))
        rows.sort(key=lambda row: row[1])
        notes = [
            "before counts are kept at 0 or more, which mostly makes errors smaller (single sizes have reached 1.2 times the figure)",
            "areas of a level differ in size: cells and errors are those of an average one",
            *self.notes,
            *self._price(),
            *self.remarks(expected_total),
        ]
        columns = ("area or block", "cells", "standard error", "95% within ±", "trusted at ±20% from")
        title = "expected error of a table by tree, by area or block"
        return Forecast(title, columns, tuple(rows), tuple(notes))

    def _price(self) -> list[str]:
        """What blocks pay for the areas: against the default tree of the mesh or grid at the same eps."""
        if self.chosen.rho is not None or self.known:
            return []
        lattice, told_ = self.lattice, []
        scale = 2 * (counts_move(self.unit) / float(self.eps)) ** 2
        nothing = (0,) * len(lattice.beside)
        for own in range(len(lattice.branches.column.levels), lattice.branches.depth + 1):
            found = mesh_variance(lattice, lattice.joined(own, nothing))
            if found is not None:
                mean = float(self.node_variances(own, self._seen(nothing)).mean())
                name = lattice.branches.names[own].partition(" by ")[2] or lattice.branches.names[own]
                told_.append(f"{name}: {math.sqrt(mean / (found * scale)):.2f}")
        return [f"errors over those of a tree of the mesh without areas: {'; '.join(told_)}"] if told_ else []

    def remarks(self, expected_total: int | None) -> list[str]:
        measured = sorted(zip(self.chosen.shares, self.chosen.levels, strict=True), reverse=True)
        named = [f"{self.lattice.name(level)} ({float(share):.1%})" for share, level in measured[:_NAMED]]
        more = [f"{len(measured) - _NAMED} more"] if len(measured) > _NAMED else []
        sizes = [math.prod(self.lattice.nodes(level)) for level in self.chosen.levels]
        lacks = without_intervals(zip(sizes, [noise.sd for noise in self.noises], strict=True))
        known = [KNOWN] if self.known or self.total is not None else []
        return ["measured: " + "; ".join([*named, *more]), *lacks, *known, *super().remarks(expected_total)]

    def words(self) -> dict[str, object]:
        levels = [
            {"level": part.of, "share": show(share), **part.noise.to_dict()}
            for part, share in zip(self.parts, self.chosen.shares, strict=True)
        ]
        asked = {} if self.workload is None else {"planned for": str(self.workload)}
        known = {"known": KNOWN} if self.known else {}
        return {
            **self.noise.to_dict(),
            "strategy": self.name,
            "levels": levels,
            "sensitivity": str(counts_move(self.unit)),
            **asked,
            **known,
        }

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        found, leaves = self._solved(published), leaves_of(self.lattice, self.layout, published.keys)
        low, high = self._row_ends(found, leaves, published.counts, level)
        return np.minimum(low, published.counts), np.maximum(high, published.counts)

    def _solved(self, published: Measured) -> Solved:
        """The least-squares solution of a table; the last one is kept."""
        digest = hashlib.sha256(
            repr((self.chosen, self.eps, self.unit, self.known, self.total)).encode()
        ).digest()
        if not _last or _last[0][0] is not published.noisy or _last[0][1] != digest:
            noisy = in_shapes(published.noisy, [self.lattice.nodes(level) for level in self.chosen.levels])
            raw = noisy[self.chosen.levels.index(self.lattice.finest)].reshape(-1)
            _last[:] = [(published.noisy, digest, Solved(self.estimated(noisy), raw))]
        return _last[0][2]

    def _row_ends(
        self, found: Solved, leaves: Integers, published: Integers, level: float
    ) -> tuple[Integers, Integers]:
        """The interval of single cells by their own noisy counts, as in trees of several columns (`Estimates.row_ends`).

        The low end is 0 unless the cell would be published with a count that much smaller too: what a cell is given falls by no
        more than its noisy count does, times the factor by which it is given more than its estimate, and by 1 for rounding.
        """
        below, above = ends_of(self.noise, check_level(level))
        y = found.raw[leaves]
        now = np.maximum(found.estimates.reshape(-1)[leaves], 1e-9)
        still = published - (below + 1) * np.maximum(published / now, 1.0) >= 2
        return np.where(still, np.maximum(y - below, 0), 0), np.maximum(y + above, 0)

    def inside(self, keys: Integers, where: Where) -> Bools:
        """Which cells a question chooses."""
        areas, others = self._choices(where)
        leaves = leaves_of(self.lattice, self.layout, keys)
        parts = np.unravel_index(leaves, (self.lattice.branches.leaves, *self.lattice.groups))
        found = areas[parts[0]]
        for choice, place in zip(others, parts[1:], strict=True):
            found &= choice[place]
        return found

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        found, lattice = self._solved(published), self.lattice
        areas, others = self._choices(where)
        value = int(published.counts[self.inside(published.keys, where)].sum())
        if int(areas.sum()) == 1 and all(int(choice.sum()) == 1 for choice in others):
            return self._of_cell(found, (areas, *others), value, level)
        estimate = found.estimates[areas]
        for axis, choice in enumerate(others, 1):
            estimate = estimate.compress(choice, axis=axis)
        node = self._node(areas)
        seen = [
            chosen(tree, choice.astype(float)) for tree, choice in zip(lattice.beside, others, strict=True)
        ]
        if node is not None and self._smooth:
            sd = math.sqrt(float(self.node_variances(node[0], _product(lattice, seen))[node[1]]))
            reach = self._reach(level) * sd
        else:
            error = self._error(areas, others)
            sd, reach = error.sd, error.reach(level)
        middle, low, high = hull(float(estimate.sum()), reach, value)
        return Answer(value, int(low), int(high), sd, level, 0, int(middle))

    def _of_cell(self, found: Solved, choices: Sequence[Bools], value: int, level: float) -> Answer:
        places = tuple(int(np.flatnonzero(choice)[0]) for choice in choices)
        leaf = int(np.ravel_multi_index(places, (self.lattice.branches.leaves, *self.lattice.groups)))
        low, high = self._row_ends(found, np.array([leaf]), np.array([value]), level)
        lowest = min(int(low[0]), value) if value else 0
        estimate = max(int(found.raw[leaf]), 0)
        return Answer(value, lowest, max(int(high[0]), value), self.noise.sd, level, 0, estimate)

    @property
    def _smooth(self) -> bool:
        """Whether noise is wide enough for its law to be taken as continuous."""
        return min(noise.sd for noise in self.noises) >= _FINE * math.sqrt(2)

    def _reach(self, level: float) -> float:
        """How many standard errors the sum of noises of an area reaches: no less than one noise, or as many as make a Gaussian."""
        gaussian = NormalDist().inv_cdf((1 + check_level(level)) / 2)
        if not any(isinstance(noise, DiscreteLaplace) for noise in self.noises):
            return _MARGIN * gaussian
        return _MARGIN * max(gaussian, -math.log(1 - level) / math.sqrt(2))

    def _node(self, areas: Bools) -> tuple[int, int] | None:
        """The level and the number of the node that is asked for, if it is one."""
        ends = np.flatnonzero(np.diff(areas.astype(np.int8), prepend=0, append=0))
        if ends.size != 2:
            return None
        for own, bounds in enumerate(self.lattice.branches.bounds):
            at = int(np.searchsorted(bounds, ends[0]))
            if at < bounds.size - 1 and bounds[at] == ends[0] and bounds[at + 1] == ends[1]:
                return own, at
        return None

    def _error(self, areas: Bools, others: Sequence[Bools]) -> Error:
        """The law of the error of any choice: each noise by its weight in the least-squares answer."""
        lattice, found = self.lattice, Error()
        known = None if self.fixed is None else {at: np.where(k >= 0, 0, -1) for at, k in self.fixed.items()}
        depth = lattice.branches.depth
        solved = {
            part: way.solve({depth: areas[:, None] / way.precisions[-1]}, known if not any(part) else None)[
                :, 0
            ]
            for part, way in self.ways.items()
        }
        for level, noise in zip(self.chosen.levels, self.noises, strict=True):
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

    def _choices(self, where: Where) -> tuple[Bools, list[Bools]]:
        """The leaves that a question chooses: of the areas, and of the other columns."""
        lattice = self.lattice
        column = lattice.branches.column
        known = [name for own in self.layout.domain for name in own.asked]
        for name in where:
            if name not in known:
                raise ParameterError(
                    "the question names a column that the table does not have",
                    given=str(name),
                    needed=", ".join(known),
                    fix=setting(**{nearest(name, known) or known[0]: 0}),
                )
        inside = np.ones(lattice.branches.leaves, np.bool_)
        for at, level in enumerate(column.levels[:-1], 1):
            if level in where:
                inside &= _areas_named(column, level, lattice.branches.bounds[at], where[level])
        inside &= _cells_named(column, where)[lattice.branches.order]
        others = [own for i, own in enumerate(self.layout.domain) if i != lattice.axis]
        return inside, [
            chosen_leaves(tree, own, where) for tree, own in zip(lattice.beside, others, strict=True)
        ]

    def by(self, published: Measured, names: Sequence[str], count: str, level: float) -> Table:
        """The table by areas of a level, and by other columns: every area, with its count and the interval of it."""
        import pyarrow as pa

        lattice, found = self.lattice, self._solved(published)
        column = lattice.branches.column
        others = [own for i, own in enumerate(self.layout.domain) if i != lattice.axis]
        own, at = self._columns_named(column, others, names)
        counts = np.zeros((lattice.branches.leaves, *lattice.groups), np.int64)
        counts.reshape(-1)[leaves_of(lattice, self.layout, published.keys)] = published.counts
        rows = lattice.joined(own, at)
        values = np.asarray(lattice.sums(counts, rows), np.int64)
        estimates = np.asarray(lattice.sums(found.estimates, rows), float)
        good = np.ones(values.shape, np.bool_)
        for axis, (here, beside_) in enumerate(zip(at, others, strict=True), 1):
            if here:  # what was filled up is no value
                inside = np.arange(values.shape[axis]) < beside_.size
                good &= inside.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
        if self._smooth:
            sds = np.sqrt(self.node_variances(own, self._seen(at)))
            reach = self._reach(level) * sds
            reaches = np.broadcast_to(reach.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
        else:
            reaches = self._each_reach(own, at, values.shape, level)
        _, low, high = hull(estimates, reaches, values)  # type: ignore[arg-type]
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


KNOWN = (
    "known totals are constants fixed beforehand; eps bounds what this release adds to them. They are not protected by it, and "
    "if they count the same people, whoever knows all others learns the last one's area. Intervals assume that they are true"
)


@dataclass(frozen=True, eq=False)
class Solved:
    """The least-squares estimate of every leaf, and the noisy counts of cells themselves."""

    estimates: Floats
    raw: Integers


_last: list[tuple[tuple[Integers, ...], bytes, Solved]] = []


def _product(lattice: AreaLattice, seen: Sequence[Floats]) -> list[float]:
    return [math.prod(float(own[j]) for own, j in zip(seen, part, strict=True)) for part in lattice.parts]


def _held(tree: Any, choice: Floats, level: int, part: int) -> Floats:
    """What each node of a level holds of the part of a choice that level `part` sees and no coarser one does."""

    def averaged(at: int) -> Floats:
        return np.repeat(choice.reshape(tree.nodes(at), -1).mean(axis=1), tree.under(at))

    own = averaged(part) - averaged(part - 1) if part else averaged(0)
    return np.asarray(own.reshape(tree.nodes(level), -1).sum(axis=1))


def _areas_named(column: Areas, level: str, bounds: Integers, values: object) -> Bools:
    place = {label: i for i, label in enumerate(column.labels(level))}
    inside = np.zeros(column.size, np.bool_)
    for value in listed(values):
        if str(value) not in place:
            raise no_value(level, value)
        inside[bounds[place[str(value)]] : bounds[place[str(value)] + 1]] = True
    return inside


def _cells_named(column: Areas, where: Where) -> Bools:
    """In the order of codes."""
    inside = np.ones(column.size, np.bool_)
    for axis, name in enumerate(column.sources):
        if name not in where:
            continue
        if isinstance(column.of, Mesh):
            inside &= meshes_named(column.of, column.decode(np.arange(column.size))[0], listed(where[name]))
        elif isinstance(column.of, Grid):
            wanted = places_named(name, where[name], column.of.shape[axis])
            inside &= np.isin(column.decode(np.arange(column.size))[axis], wanted)
        else:
            codes = [column.code(str(value)) for value in listed(where[name])]
            if any(code is None for code in codes):
                raise no_value(name, where[name])
            inside &= np.isin(np.arange(column.size), np.array(codes, np.int64))
    return inside


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


def project(lattice: AreaLattice, estimates: Floats, possible: Bools | None, known: Known | None) -> Integers:
    """Whole counts of all leaves, near to `estimates`; known totals are shared out as they are."""
    from oboro.tables.nested._compiled import share_nodes

    branches = lattice.branches
    size = branches.leaves
    flat = estimates.reshape(size, -1)
    groups = flat.shape[1]
    good = None if possible is None else possible.reshape(size, -1)
    fixed = {at: np.full(branches.nodes(at), -1, np.int64) for at in range(branches.depth + 1)}
    fixed |= dict(known or {})
    low = {branches.depth: np.zeros(size, np.int64)}
    for at in range(branches.depth - 1, -1, -1):
        below = np.where(fixed[at + 1] >= 0, fixed[at + 1], low[at + 1])
        low[at] = np.add.reduceat(below, branches.firsts[at][:-1])
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
