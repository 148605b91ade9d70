"""The tree as a strategy: counts at a few levels of a product lattice, least squares, top-down projection."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice, product

import numpy as np

from oboro.arrays import Floats, Integers, Table
from oboro.domain import Domain
from oboro.errors import GuaranteeError, setting, told
from oboro.exact import percent, remembered, show
from oboro.noise import Bits, DiscreteLaplace
from oboro.noise.laplace import check_level
from oboro.privacy import ZCDP, Approx, Unit
from oboro.records import write
from oboro.release import Forecast
from oboro.release import Part as PrivacyPart
from oboro.release import part as privacy_part
from oboro.tables import wavelet
from oboro.tables.cells import Cells, Layout
from oboro.tables.strategy import Noise, Strategy, counts_move, counts_move_squared, key_columns, zigzag
from oboro.tables.tree.answers import Where, choices
from oboro.tables.tree.intervals import (
    MOST,
    Answer,
    Choice,
    Estimates,
    estimates,
    hull,
    in_shapes,
    without_intervals,
)
from oboro.tables.tree.lattice import Lattice, Level, Tree, lattice_of
from oboro.tables.tree.measure import Measured, measure, spine_of
from oboro.tables.tree.outlook import SHAPES, Outlook, range_of, tree_outlook
from oboro.tables.tree.partition import Blocks, tree_blocks
from oboro.tables.tree.planner import moments, plan_shares
from oboro.tables.tree.workload import DEFAULT, Design, Part, Workload, block, chosen, precision, profiles

# What a steward shows the boss before spending: errors by block size and by category, and what they mean for cells.
#
# The errors are exact, for numbers before they are kept at 0 or more. Which cells can be trusted, and how many will
# show people though nobody is there, depends on how people live: outlook.py tries that out.

_WITHIN = math.log(20) / math.sqrt(2)  # the 95% point of Laplace noise in standard errors; sums have less
_TRUSTED = 0.2
_MOST_ROWS = 48


def tree_forecast(strategy: PlannedTree, expected_total: int | None) -> Forecast:
    """Errors of the nodes of levels: blocks by all of the other columns together, and by each of them."""
    lattice, rows, places = strategy.lattice, [], []
    spine = spine_of(lattice)
    for level in block_levels(lattice):
        profile = np.ones(())
        for tree, at in zip(lattice.trees, level, strict=True):
            profile = np.multiply.outer(profile, block(tree, at))
        error = math.sqrt(float((profile / strategy.moments).sum()))
        rows.append(
            (lattice.name(level), lattice.covers(level), error, _WITHIN * error, _WITHIN * error / _TRUSTED)
        )
        places += [error] if not any(at for i, at in enumerate(level) if i != spine) else []
    lines = [
        "before counts are kept at 0 or more, which mostly makes errors smaller (single sizes have reached 1.2 times the figure)",
        *zigzag(places),
        *strategy.notes,
        *strategy.remarks(expected_total),
    ]
    columns = ("block size", "cells", "standard error", "95% within ±", "trusted at ±20% from")
    return Forecast("expected error of a table by tree, by block size", columns, tuple(rows), tuple(lines))


def block_levels(lattice: Lattice) -> list[Level]:
    """Levels that people ask about: each of the places, times all or each of every other column."""
    spine = spine_of(lattice)
    tree = lattice.trees[spine]
    named = [level for level, _ in tree.labels]
    every = [0, *(named or range(1, tree.depth + 1))]
    others = [
        [at] if i == spine else ([0, t.depth] if t.depth else [0])
        for i, t in enumerate(lattice.trees)
        for at in [0]
    ]
    if len(every) * math.prod(len(o) for i, o in enumerate(others) if i != spine) > _MOST_ROWS:
        others = [[0, t.depth] if t.depth else [0] for t in lattice.trees]
        every = [0, tree.depth]
    others[spine] = every
    found = list(product(*others))
    return sorted(found, key=lambda level: (lattice.under(level), level), reverse=False)[:_MOST_ROWS]


# With delta: discrete Gaussian noise, accounted in zCDP and promised as (eps, delta).

_DIGITS = 10**6


@remembered(64)
def rho_of(promise: Approx) -> Fraction:
    """The largest rho, to six digits, for which rho-zCDP keeps the promise [Canonne, Kamath, Steinke 2020, Prop. 12]."""
    if promise.delta <= 0:
        raise GuaranteeError(
            "Gaussian noise needs a delta above 0",
            given=told(delta="0"),
            needed="such as 1e-10",
            fix=setting(delta=None),
        )
    unit = (
        promise.eps**2 / _DIGITS
    )  # rho is below eps^2 for any delta of use, and above it only for huge ones
    low, high = 0, 1
    while ZCDP(high * unit).to_approx(promise.delta).eps <= promise.eps:
        low, high = high, 2 * high
    while high - low > max(1, low >> 20):
        middle = (low + high) // 2
        low, high = (
            (middle, high)
            if ZCDP(middle * unit).to_approx(promise.delta).eps <= promise.eps
            else (low, middle)
        )
    if low == 0:
        raise GuaranteeError(
            "no Gaussian noise keeps so small a delta at so large an eps",
            given=str(promise),
            needed="a larger delta",
            fix=setting(delta=None),
        )
    return low * unit


# Intervals for the cells of a published tree, and answers to questions about any part of it.


def tree_intervals(strategy: PlannedTree, published: Measured, level: float) -> tuple[Integers, Integers]:
    """The lowest and highest count of each published row, the published one and its estimate between them."""
    found = _estimates(strategy, published)
    leaves = _leaves(strategy, published)
    low, high = found.row_ends(leaves, published.counts, check_level(level))
    return np.minimum(low, published.counts), np.maximum(high, published.counts)


def tree_answer(strategy: PlannedTree, published: Measured, where: Where, level: float) -> Answer:
    """The sum of the published counts of some cells, and an interval for the true sum."""
    found = _estimates(strategy, published)
    lattice = found.lattice
    chosen = choices(strategy.layout, lattice, where)
    leaves = _leaves(strategy, published)
    parts = np.unravel_index(leaves, tuple(tree.leaves for tree in lattice.trees))
    inside = np.ones(leaves.size, np.bool_)
    for choice, part in zip(chosen, parts, strict=True):
        inside &= choice[part]
    value = int(published.counts[inside].sum())
    if value and all(int(choice.sum()) == 1 for choice in chosen):
        return _of_cell(found, chosen, value, level, 0)
    spread = 0 if strategy.publish is None else found.spread(leaves, chosen)
    if all(int(choice.sum()) == 1 for choice in chosen):
        return _of_cell(found, chosen, 0, level, spread)
    value += spread
    answer, error = found.answer(chosen)
    estimate, low, high = hull(answer, error.reach(level), value)
    return Answer(value, int(low), int(high), error.sd, level, spread, int(estimate))


def _of_cell(found: Estimates, chosen: Sequence[Choice], shown: int, level: float, spread: int) -> Answer:
    """One cell: as its row has it, if it is published; otherwise it holds no more than its noisy count may be off."""
    places = tuple(int(np.flatnonzero(choice)[0]) for choice in chosen)
    leaf = np.ravel_multi_index(places, tuple(tree.leaves for tree in found.lattice.trees))
    leaves, counts = np.array([leaf], np.int64), np.array([shown], np.int64)
    low, high = found.row_ends(leaves, counts, check_level(level))
    value, lowest = shown + spread, min(int(low[0]), shown) if shown else 0
    estimate = max(int(found.raw[leaf]), 0)
    return Answer(value, lowest, max(int(high[0]), value), found.noise.sd, level, spread, estimate)


def tree_unallocated(strategy: PlannedTree, published: Measured) -> Table:
    """Blocks that hold people in no published cell: the columns of their first cell, cells, held, unallocated."""
    import pyarrow as pa

    found, layout = _estimates(strategy, published), strategy.layout
    lattice = found.lattice
    left, cells = found.left(lattice.leaf(layout, published.keys))
    held = np.asarray(lattice.sums(found.counts, found.block), np.int64)
    some = np.nonzero(held)
    first = [at * tree.under(level) for at, tree, level in zip(some, lattice.trees, found.block, strict=True)]
    leaves = np.ravel_multi_index(tuple(first), tuple(tree.leaves for tree in lattice.trees))
    beside = {"cells": cells[some], "held": held[some], "unallocated": left[some]}
    return pa.table({**dict(key_columns(lattice.keys(layout, leaves), layout)), **beside})


def _estimates(strategy: PlannedTree, published: Measured) -> Estimates:
    """The least-squares solution of a table; the last one is kept, unless no file carries as much: nobody asks it again."""
    design, layout = strategy.chosen, strategy.layout
    share, total = strategy.publish, strategy.total
    facts = (layout.domain.to_dict(), write(design), strategy.eps, strategy.unit, total, share)
    digest = hashlib.sha256(repr(facts).encode() + layout.heads[1].tobytes()).digest()
    kept = _last[0] if _last else None  # taken once: another thread may ask another table meanwhile
    if kept is None or not are(kept[0], published.noisy) or kept[1] != digest:
        shapes = [strategy.lattice.nodes(level) for level in design.levels]
        noisy = in_shapes(published.noisy, shapes)
        found = estimates(layout, design, strategy.noises, noisy, total, share)
        if sum(each.size for each in noisy) > MOST:
            return found
        kept = (published.noisy, digest, found)
        _last[:] = [kept]
    return kept[2]


_last: list[tuple[tuple[Integers, ...], bytes, Estimates]] = []


def are(some: Sequence[Integers], others: Sequence[Integers]) -> bool:
    """Whether these are the very arrays, which a file that is asked again has (`noisy_in`)."""
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _leaves(strategy: PlannedTree, published: Measured) -> Integers:
    """Those of the published cells; the last ones are kept."""
    kept = _last_leaves[0] if _last_leaves else None
    if kept is None or kept[0] is not published.keys:
        kept = (published.keys, strategy.lattice.leaf(strategy.layout, published.keys))
        _last_leaves[:] = [kept]
    return kept[1]


_last_leaves: list[tuple[Integers, Integers]] = []


LARGEST = 2**26  # leaves: half a gigabyte for each array of 64 bits
_NAMED = 8  # levels that a forecast names, those with the largest shares


def preferred(layout: Layout, total: int | None) -> str:
    """The strategy where none is asked for: the tree, or for more cells than can be listed its filtered variant.

    That one cannot start from a public total; the wavelet can.
    """
    if fits_memory(layout) is None:
        return "tree"
    return "filtered" if total is None else "wavelet"


def design_for(
    layout: Layout, unit: Unit, workload: Workload = DEFAULT, rho: Fraction | None = None
) -> Design:
    """Levels and shares for a workload. From public facts, without data.

    The default plan has no block size with a larger error than under the wavelet method, where that makes errors no
    more than 5% larger on average: so it does for places by themselves, not where there are columns beside them.
    """
    lattice = lattice_of(layout.domain)
    if workload.minimax:
        workload = Workload((Part("never_worse"),))
    if rho is None and (workload.minimax or workload == DEFAULT):
        every = [places_of(layout, lattice, height) for height in range(layout.bits + 1)]
        fits = _is_block if workload.minimax else _is_node
        blocks = [h for h, own in enumerate(every) if all(map(fits, lattice.trees, own))]
        errors = _wavelet_errors(layout, unit)
        reference, sizes = tuple(errors[h] for h in blocks), tuple(every[h] for h in blocks)
        levels, shares = plan_shares(lattice, workload, 2, reference, sizes)
    else:
        levels, shares = plan_shares(lattice, workload, 2 if rho is None else 1)
    return Design(levels, shares, rho)


def _wavelet_errors(layout: Layout, unit: Unit) -> tuple[float, ...]:
    """The wavelet's variance for blocks of every height, as the planner counts: at eps 1 and D = 1, halved.

    Blocks of the wavelet are those of the first columns, summed over all of the later ones. Of others it says
    nothing as such; they may have any error.
    """
    noise = DiscreteLaplace(Fraction(1000 * wavelet.sensitivity(unit, layout.bits, layout.distinct)))
    moved = 2e6 * counts_move(unit) ** 2
    return tuple(
        wavelet.block_variance(noise, layout.bits, height) / moved for height in range(layout.bits + 1)
    )


def places_of(layout: Layout, lattice: Lattice, height: int) -> tuple[int, ...]:
    """How many places of each column a block of keys covers; all of them are those that were filled up too."""
    found: list[int] = []
    axes = iter(zip(layout.sizes, layout.pattern, strict=True))
    for tree in lattice.trees:
        sides = [
            min(size, 1 << sum(place < height for place in places))
            for size, places in islice(axes, len(tree.sizes))
        ]
        size = math.prod(sides)
        found.append(tree.leaves if size == math.prod(tree.sizes) else size)
    return tuple(found)


def _is_block(tree: Tree, size: int) -> bool:
    """Whether so many places are a block that people ask for: not the first 8 x 8 meshes of 10 x 10."""
    halves = not tree.filled_up and all(arity & (arity - 1) == 0 for arity in tree.arities)
    return halves or tree.depth <= 1 or _is_node(tree, size)


def _is_node(tree: Tree, size: int) -> bool:
    """Whether so many places are a block size of the tree: a square, a mesh of a level, all of it."""
    return any(tree.under(at) == size for at in range(tree.depth + 1))


def block_profile(layout: Layout, height: int) -> Floats:
    """The profile of the cells that share all but the last `height` bits of their keys."""
    found, below = np.ones(()), height
    own_profiles = []
    for tree, column in reversed(list(zip(lattice_of(layout.domain).trees, layout.domain, strict=True))):
        own = Layout(Domain([column]))
        covered = min(below, own.bits)
        below -= covered
        sides = [1 << sum(place < covered for place in places) for places in own.pattern]
        fits = [
            level
            for level in range(tree.depth + 1)
            if all(
                tree.side(axis, level) == side or (side >= size and tree.side(axis, level) >= size)
                for axis, (side, size) in enumerate(zip(sides, tree.sizes, strict=True))
            )
        ]
        if fits:
            own_profiles.append(block(tree, fits[0]))
        else:
            inside = tree.product([np.arange(tree.side(a, 0)) < side for a, side in enumerate(sides)])
            own_profiles.append(chosen(tree, inside.astype(float)))
    for profile in reversed(own_profiles):
        found = np.multiply.outer(found, profile)
    return found


@dataclass(frozen=True, eq=False)
class PlannedTree(Strategy):
    """Counts at the levels of a design, which may be given; otherwise it is made for the workload."""

    name = "tree"
    title = "counts at planned levels, least squares, projection"
    takes_total = takes_delta = planned = carries = True
    slowness = 40
    notes = ("least squares over all measured levels, then counts are kept at 0 or more",)

    def needs(self) -> str | None:
        return fits_memory(self.layout)

    def check(self) -> None:
        super().check()
        if self.workload is not None:
            self.workload.check(self.layout.domain.names)
        self.chosen.check(self.lattice)
        if self.chosen.rho is None and isinstance(self.guarantee, Approx):
            raise GuaranteeError(
                "Laplace noise has no use for a delta",
                given=f"{self.guarantee}, and a design without rho",
                needed="a plan as its function makes it",
                fix=setting(delta=None),
            )

    @cached_property
    def lattice(self) -> Lattice:
        return lattice_of(self.layout.domain)

    @cached_property
    def chosen(self) -> Design:
        """The levels that are counted, and their shares."""
        if self.design is not None:
            return self.design
        rho = rho_of(self.guarantee) if isinstance(self.guarantee, Approx) else None
        return design_for(self.layout, self.unit, self.workload or DEFAULT, rho)

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each level. Privacy: see `Design.laplace` and `Design.gaussian`."""
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

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Measured]:
        return measure(cells, self.layout, self.chosen, self.noises, bits, self.total, trials, self.publish)

    @cached_property
    def moments(self) -> Floats:
        """What least squares makes of the noise, by level."""
        precisions = [precision(noise) for noise in self.noises]
        return moments(self.lattice, self.chosen.levels, precisions, self.total)

    def variance(self, height: int) -> float:
        profile = block_profile(self.layout, height).reshape(self.lattice.shape)
        return float((profile / self.moments).sum())

    def forecast(self, expected_total: int | None = None) -> Forecast:
        return tree_forecast(self, expected_total)

    def remarks(self, expected_total: int | None) -> list[str]:
        helps = [] if self.chosen.rho is None else [self._against_laplace()]
        measured = sorted(zip(self.chosen.shares, self.chosen.levels, strict=True), reverse=True)
        named = [f"{self.lattice.name(level)} ({float(share):.1%})" for share, level in measured[:_NAMED]]
        more = [f"{len(measured) - _NAMED} more"] if len(measured) > _NAMED else []
        outlook = (
            []
            if expected_total is None
            else [
                *self._beside_adaptive(expected_total),
                *self.outlook(expected_total).notes,
                self._range(expected_total),
                self._trade(expected_total),
            ]
        )
        lacks = self.lacking(expected_total)
        return [*helps, "measured: " + "; ".join([*named, *more]), *lacks, *outlook]

    def lacking(self, people: int | None) -> list[str]:
        sizes = [math.prod(self.lattice.nodes(level)) for level in self.chosen.levels]
        return without_intervals(zip(sizes, [noise.sd for noise in self.noises], strict=True))

    def _beside_adaptive(self, total: int) -> list[str]:
        """Whether a table that looks would be better for what this tree was planned for, and by how much."""
        from oboro.tables.tree import trial

        asked = self.workload or DEFAULT
        if self.chosen.rho is not None or self.publish is not None or not trial.tried(self.layout, asked):
            return []
        found = trial.ratios(self.layout, self.eps, self.unit, asked, total)
        ratio = found[trial.looking(found)] / min(found[trial.PLANNED], found[trial.USUAL])
        if ratio > trial.FAR:
            return []
        return [
            f"for so many people strategy adaptive is likely to be better: about {ratio:.2f} of these errors on made-up tables"
        ]

    def _range(self, total: int) -> str:
        """The same in other shapes of place: what comes out lies between, more likely than at one figure."""
        facts = (self.lattice, self.layout.cells, self.chosen, self.noises, total, self.publish)
        return range_of([tree_outlook(*facts, shape) for shape in SHAPES])

    def _trade(self, total: int) -> str:
        """What a limit on empty cells among the published ones would cost, in the same made-up place."""
        told = []
        for share in (Fraction(3, 10), Fraction(1, 10), Fraction(1, 100)):
            found = tree_outlook(self.lattice, self.layout.cells, self.chosen, self.noises, total, share)
            told.append(f"{show(share)}: {percent(found.published / found.cells)} / {percent(found.empty)}")
        trade = "; ".join(told)
        return f"with publish fewer cells are published, and fewer of them hold nobody (publish: published / of which hold nobody): {trade}; the people of all others stay in their block's total"

    def outlook(self, total: int) -> Outlook:
        return tree_outlook(self.lattice, self.layout.cells, self.chosen, self.noises, total, self.publish)

    def words(self) -> dict[str, object]:
        levels = [
            {"level": part.of, "share": show(share), **part.noise.to_dict()}
            for part, share in zip(self.parts, self.chosen.shares, strict=True)
        ]
        asked = {} if self.workload is None else {"planned for": str(self.workload)}
        return {
            **self.noise.to_dict(),
            "strategy": self.name,
            "levels": levels,
            "sensitivity": str(counts_move(self.unit)),
            **asked,
        }

    def intervals(self, published: Measured, level: float) -> tuple[Integers, Integers]:
        return tree_intervals(self, published, level)

    def answer(self, published: Measured, where: Where, level: float) -> Answer:
        return tree_answer(self, published, where, level)

    def part_alone(self, table: Table) -> bool:
        return self.publish is None

    def of_blocks(
        self, published: Measured, side: int, questions: Sequence[Where], level: float
    ) -> Blocks | None:
        if self.publish is not None:
            return None
        found, leaves = _estimates(self, published), _leaves(self, published)
        return tree_blocks(found, self.layout, published, leaves, side, questions, level)

    def unallocated(self, table: Table) -> Table:
        return (
            super().unallocated(table)
            if self.publish is None
            else tree_unallocated(self, self.published(table))
        )

    def _against_laplace(self) -> str:
        """Whether the delta helps: Gaussian noise against Laplace noise, both planned for the default workload."""
        designs = [design_for(self.layout, self.unit, DEFAULT, rho) for rho in (self.chosen.rho, None)]
        mine, theirs = (np.log(_errors(self.layout, own, self.eps, self.unit)).mean() for own in designs)
        ratio = math.exp(mine - theirs)
        if ratio < 1:
            return f"the delta helps: errors are {ratio:.2f} of those of Laplace noise at the same eps without it"
        return f"the delta does not help: errors are {ratio:.2f} times those of Laplace noise at the same eps without it"


def _errors(layout: Layout, design: Design, eps: Fraction, unit: Unit) -> Floats:
    """The standard errors of the questions of the default workload."""
    lattice = lattice_of(layout.domain)
    mu = moments(lattice, design.levels, [precision(noise) for noise in design.noises(eps, unit)])
    return np.sqrt(profiles(DEFAULT, lattice)[0] @ (1 / mu.reshape(-1)))


def fits_memory(layout: Layout) -> str | None:
    """What a table needs whose cells are listed, if it is too large for that."""
    if lattice_of(layout.domain).leaves <= LARGEST:
        return None
    return f"at most 2^{LARGEST.bit_length() - 1} cells: every one is listed"
