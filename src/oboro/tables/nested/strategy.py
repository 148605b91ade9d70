"""The tree over areas as a strategy: counts at planned levels, least squares, projection, intervals at every level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain import Areas
from oboro.errors import ParameterError, setting, told
from oboro.exact import show
from oboro.noise import Bits
from oboro.privacy import Approx
from oboro.progress import progress
from oboro.release import Forecast
from oboro.release import Part as PrivacyPart
from oboro.release import part as privacy_part
from oboro.tables.cells import Cells
from oboro.tables.nested.answers import Answers, choices_of
from oboro.tables.nested.known import KNOWN, Fixed, known_by_level
from oboro.tables.nested.lattice import AreaLattice, Pass, least_squares, passes
from oboro.tables.nested.planner import mesh_variance, plan_shares, profile
from oboro.tables.nested.projection import alike, keys_of, leaves_of, possible_leaves, project
from oboro.tables.strategy import Noise, Strategy, counts_move, counts_move_squared
from oboro.tables.tree.answers import Where
from oboro.tables.tree.intervals import Answer, without_intervals
from oboro.tables.tree.lattice import Level
from oboro.tables.tree.measure import Measured, draws
from oboro.tables.tree.partition import Blocks
from oboro.tables.tree.strategy import rho_of
from oboro.tables.tree.workload import DEFAULT, Design, Workload, precision

LARGEST = 2**26  # leaves: half a gigabyte for each array of 64 bits
_WITHIN = math.log(20) / math.sqrt(2)  # the 95% point of Laplace noise in standard errors; sums have less
_TRUSTED = 0.2
_NAMED = 8  # levels that a forecast names


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
    takes_total = takes_known = takes_areas = takes_delta = planned = carries = True
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
        ruled_out = self.possible is not None and alike(self.possible) is None
        if (self.known or self.total is not None) and ruled_out:
            raise ParameterError(
                "known totals and cells that are ruled out cannot be used together",
                given=told(known="; ".join(one.kind for one in self.known) or "total"),
                needed="known totals of a table in which the same combinations of other columns are possible in all places",
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
    def fixed(self) -> Fixed | None:
        return known_by_level(self.lattice, self.known, self.total, alike(self.possible))

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
        return float(self.node_variances(self.lattice.branches.depth, self.seen(None)).mean())

    def seen(self, others: Level | None) -> list[float]:
        return profile(self.lattice, others or tuple(tree.depth for tree in self.lattice.beside))

    def forecast(self, expected_total: int | None = None) -> Forecast:
        """Errors of areas, of blocks within them and of cells; by all of the other columns together, and by each of them."""
        lattice, rows = self.lattice, []
        branches = lattice.branches
        ends = sorted({(0,) * len(lattice.beside), tuple(tree.depth for tree in lattice.beside)})
        for own, others in product(reversed(range(branches.depth + 1)), ends):
            error = math.sqrt(float(self.node_variances(own, self.seen(others)).mean()))
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
                mean = float(self.node_variances(own, self.seen(nothing)).mean())
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

    def answers(self, published: Measured) -> Answers:
        return Answers(self, published)

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        return self.answers(published).intervals(level)

    def inside(self, keys: Integers, where: Where) -> Bools:
        """Which cells a question chooses."""
        areas, others = choices_of(self, where)
        leaves = leaves_of(self.lattice, self.layout, keys)
        parts = np.unravel_index(leaves, (self.lattice.branches.leaves, *self.lattice.groups))
        found = areas[parts[0]]
        for choice, place in zip(others, parts[1:], strict=True):
            found &= choice[place]
        return found

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        return self.answers(published).answer(where, level)

    def by(self, published: Measured, names: Sequence[str], count: str, level: float) -> Table:
        """The table by areas of a level, and by other columns: every area, with its count and the interval of it."""
        return self.answers(published).by(names, count, level)

    def of_blocks(
        self, published: Measured, side: int, questions: Sequence[Where], level: float
    ) -> Blocks | None:
        return self.answers(published).of_blocks(side, questions, level)
