"""Which blocks of time and place to count, and how much of the budget each level gets. From the workload alone.

A level is one of time and one of every column of places. Level l with share w_l has noise of precision p_l proportional to
w_l^2 (Laplace: one unit moves every level by the same in the 1-norm) or to w_l / L_l (Gaussian: L_l is the squared 2-norm by which
it moves the level). With every part counted the variance of a question q is the sum over j of t_j(q) / mu_j, where mu_j is the sum of n_l p_l
over the levels l that are as fine as j or finer (tree/planner.py).

The order
    When tick t is published, of the blocks of time that hold it only those are counted that are over. Let the longest of them be of level a. No count
    joins it with other ticks yet, so that the least-squares answer is that of this block alone: of a tree of time whose root it is, and of
    whose levels j those from a on have the same mu_j as above, since only finer levels enter it. Its variance is the same sum with
    the profile of one tick in that tree. What is asked at each tick counts half as it is published, and half as it is in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

import numpy as np

from oboro.arrays import Floats
from oboro.exact import remembered
from oboro.tables.series.clock import Clock
from oboro.tables.series.sizes import asked
from oboro.tables.tree.lattice import Lattice, Level, Tree
from oboro.tables.tree.planner import Problem, shifted
from oboro.tables.tree.workload import Workload, block

_STARTS = 6
_DROP = 1e-3  # a level that gains less is left out
_DIGITS = 1000
_LEAST = 50  # thousandths for cells, whatever is asked: they are counted once for many ticks, and so little already tells them apart


def lattice_over(clock: Clock, places: Lattice) -> Lattice:
    """The levels of time and place; time comes first."""
    return Lattice((clock.tree, *places.trees))


def profile_in_block(tree: Tree, root: int) -> Floats:
    """The profile of one tick in a block of time of the level `root`, where nothing longer is counted."""
    found = block(tree, tree.depth).copy()
    found[root] = 1 / tree.under(root)
    found[:root] = 0.0
    return found


def questions(clock: Clock, places: Lattice, workload: Workload) -> tuple[Floats, Floats]:
    """The profiles of all questions over the levels of time and place, and how much each counts."""
    tree, rows, weights = clock.tree, [], []
    roots = np.bincount([clock.open_since(tick) for tick in range(clock.ticks)], minlength=tree.depth + 1)
    for kind, level in asked(workload, places):
        place = reduce(
            np.multiply.outer, [block(own, at) for own, at in zip(places.trees, level, strict=True)]
        )
        times: list[tuple[Floats, float]] = [(block(tree, 0), 1.0)]
        if kind == "each_tick":
            times = [(block(tree, tree.depth), 0.5)]
            times += [
                (profile_in_block(tree, root), 0.5 * number / clock.ticks)
                for root, number in enumerate(roots)
                if number
            ]
        for profile, weight in times:
            rows.append(np.multiply.outer(profile, place).reshape(-1))
            weights.append(weight)
    return np.array(rows), np.array(weights) / sum(weights)


@remembered(32)
def plan_levels(
    clock: Clock, places: Lattice, workload: Workload, moved: tuple[int, ...] | None
) -> tuple[tuple[Level, ...], tuple[Fraction, ...]]:
    """The levels to count and their shares. `moved`: the squared 2-norm by which a unit moves each level of time, for Gaussian noise."""
    lattice = lattice_over(clock, places)
    levels = lattice.levels
    heard = np.array([1.0 if moved is None else moved[0] / moved[level[0]] for level in levels])
    under = np.array([lattice.under(level) for level in levels], float) * heard
    profiles, weights = questions(clock, places, workload)
    problem = Problem(profiles, weights, under, lattice.shape, 2 if moved is None else 1, None)
    shares = _best(problem, _starts(profiles, len(levels)))
    shares = shifted(problem, lattice, problem.value(shares), shares, cells_too=True)
    units = np.rint(shares * _DIGITS).astype(int)
    cells = [i for i, level in enumerate(levels) if level[1:] == places.finest]
    if units[cells].sum() < _LEAST:
        # of all blocks of time those that tell most about the whole; single ticks where that is alike
        over = [clock.tree.nodes(levels[i][0]) / heard[i] ** (1 if moved else 2) for i in cells]
        units[cells[int(np.flatnonzero(np.isclose(over, min(over)))[-1])]] += _LEAST
    units[int(units.argmax())] += _DIGITS - int(units.sum())
    picked = np.flatnonzero(units).tolist()
    return tuple(levels[i] for i in picked), tuple(Fraction(int(units[i]), _DIGITS) for i in picked)


def _starts(profiles: Floats, size: int) -> list[Floats]:
    """All levels alike; those that are asked for; and levels picked by a fixed generator, so that a plan can be made again."""
    generator = np.random.default_rng(29)
    own = np.full(size, 1e-3 / size)
    for row in profiles:
        own[np.flatnonzero(row)[-1]] += 1 / len(profiles)
    found = [np.full(size, 1 / size), own / own.sum()]
    for _ in range(_STARTS if size <= 64 else 1):
        start = generator.dirichlet(np.full(size, 0.3)) + 1e-3 / size
        found.append((start + own) / (start.sum() + own.sum()))
    return found


def _best(problem: Problem, starts: Sequence[Floats]) -> Floats:
    """The best of several starts, without the levels that hardly matter."""
    found = (problem.improved(start, range(start.size)) for start in starts)
    value, shares = min(found, key=lambda one: one[0])
    kept = [i for i in range(shares.size) if shares[i] > 5e-3]
    value, shares = problem.improved(shares, kept)
    for i in sorted(kept, key=lambda i: float(shares[i])):
        rest = [k for k in kept if k != i]
        if rest and (without := problem.improved(shares, rest))[0] < value + _DROP:
            kept, (value, shares) = rest, without
    return shares
