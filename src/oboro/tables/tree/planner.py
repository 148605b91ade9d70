"""Which levels to count, and how much of the budget each gets: from the workload alone, before data is touched.

Level l with share w_l has noise of precision p_l proportional to w_l^2 (Laplace, pure eps) or w_l (Gaussian, zCDP).
The errors of all questions follow from that in closed form (below), and so does their gradient. What is made
small is the mean logarithm of their variances; for `never_worse` the largest ratio to the wavelet's variance. The
default plan is the first, kept within the wavelet's error at every block size where that costs little (`_smoothed`).

Under pure eps this is not convex: it pays to put the budget on few levels, three or four mostly. So the search
starts from several places (BFGS on w = u^2 / sum u^2, with fixed starts, so that a plan can be made again), then
drops levels that hardly matter and moves others up or down while that helps.

Nothing here touches the guarantee: whatever the shares, they add up to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count, product
from typing import Any, Protocol, TypeVar

import numpy as np

from oboro.arrays import Floats, Integers, Numbers
from oboro.exact import remembered
from oboro.tables.tree.lattice import Lattice, Level
from oboro.tables.tree.workload import Workload, profiles, sized_profiles

Objective = Callable[[Floats], tuple[float, Floats]]  # value and gradient
Loop = TypeVar("Loop", bound=Callable[..., Any])

_STEPS, _GAIN = 150, 1e-9  # of a search: at most so many, until two gain less
_STARTS = 8
# of the smooth maximum for never_worse: in the end within log(questions)/128 of it
_SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_BACK = 0.03  # so much is given to all levels alike before each but the last steps: a level that is out may come back
_DROP = 1e-3  # a level that gains less is left out: so much of the mean log variance
_PRICE = 1.05  # so much larger, at most, may errors be on average for a plan without large ones at single block sizes
_MARGIN = 0.02  # of log variances: what rounding the shares may add
_FEW = 36  # levels; where several columns cross there are more, and it would cost far more than 5%
_SMALL = 400  # numbers that a search looks at in each step: of so few, lists in Python take less time than compiling
_PATIENCE = 150  # searches of so few in one process, some five plans: one that goes on like this gains by compiling, which takes as long as fourteen
_STEEPNESS = (1.0, 10.0, 100.0, 1000.0, 10000.0)
_DIGITS = 1000  # shares are multiples of 1/1000
_LEAST = 20  # of them for the cells, whatever readers ask: a table without its cells is none

_searches = count()


@dataclass(frozen=True)
class Problem:
    questions: Floats  # profiles, one row for each question
    weights: Floats  # how much each counts
    under: Floats
    shape: tuple[int, ...]
    power: int  # precision is share to this power
    reference: Floats | None  # log variances not to be exceeded
    sharpness: float = _SHARPNESS[-1]
    limits: tuple[Floats, Floats] | None = (
        None  # profiles of blocks, and log variances that they should not exceed
    )
    steepness: float = 0.0  # of what they exceed them by, squared

    def value(self, shares: Floats) -> float:
        """The objective."""
        return self._at(shares)[0]

    def inverse(self, shares: Floats) -> Floats:
        """1/mu of every level: what a question's profile is weighted with."""
        return self._at(shares)[1]

    def _at(self, shares: Floats) -> tuple[float, Floats]:
        from oboro.tables.tree._search import INVERSE, SHARES, objective

        levels = self._facts[0]
        levels[SHARES] = self._room(shares)
        return self._loop(objective)(*self._facts), np.array(levels[INVERSE])

    def improved(self, start: Floats, kept: Sequence[int]) -> tuple[float, Floats]:
        """The best shares of some levels, from a start."""
        from oboro.tables.tree._search import AT, VALUE, improve

        index = np.array(kept)
        known, single = map(self._room, _begun(start[index]))
        self._loop(improve)(self._room(index), known, single, *self._facts, _STEPS, _GAIN)
        return float(single[VALUE]), _squared(np.array(known[AT]), index, start.size)

    @cached_property
    def _small(self) -> bool:
        """Whether its search runs in Python, which finds the same: of few numbers, in a process that has not searched often."""
        held = 0 if self.limits is None else len(self.limits[0])
        few = (len(self.questions) + held) * self.under.size <= _SMALL
        return few and next(_searches) < _PATIENCE

    def _room(self, numbers: Numbers) -> Any:
        return numbers.tolist() if self._small else numbers

    def _loop(self, loop: Loop) -> Loop:
        from oboro.noise.compiler import interpreted

        return interpreted(loop) if self._small else loop

    @cached_property
    def _facts(self) -> tuple[Any, Any, Any, int, int, float, float]:
        """As the loops take them: the profiles below room for the numbers of each level, and what they aim at."""
        from oboro.tables.tree._search import UNDER

        held, most = self.limits or (np.empty((0, self.under.size)), np.empty(0))
        room = np.zeros((4, self.under.size))
        room[UNDER] = self.under
        aims = self.weights if self.reference is None else self.reference
        profiles = np.stack([own := np.concatenate([aims, most]), np.zeros_like(own)])
        sharpness = 0.0 if self.reference is None else self.sharpness
        numbers = np.concatenate([room, self.questions, held]), profiles, np.array(self.shape)
        levels, aims, shape = map(self._room, numbers)
        return levels, aims, shape, self.power, len(held), sharpness, self.steepness


def improved(of_shares: Objective, start: Floats, kept: Sequence[int]) -> tuple[float, Floats]:
    """The best shares of some levels, from a start, for an objective in Python."""
    from oboro.tables.tree._search import AT, NEW_SLOPE, THERE, VALUE, advance

    index = np.array(kept)
    known, single = _begun(start[index])
    more = True
    while more:
        u = known[THERE]
        shares = _squared(u, index, start.size)
        value, slope = of_shares(shares)
        own = slope[index]
        known[NEW_SLOPE] = 2 * u / float(u @ u) * (own - float(own @ shares[index]))
        more = advance(known, single, value, _STEPS, _GAIN)
    return float(single[VALUE]), _squared(known[AT], index, start.size)


def _begun(shares: Floats) -> tuple[Floats, Floats]:
    """What a search knows at its start: shares are u^2 / sum u^2."""
    from oboro.tables.tree._search import THERE

    known = np.zeros((6 + shares.size, shares.size))
    known[THERE] = np.sqrt(shares)
    return known, np.zeros(6)


def _squared(u: Floats, index: Integers, size: int) -> Floats:
    shares = np.zeros(size)
    shares[index] = u * u / float(u @ u)
    return shares


class Improved(Protocol):
    """A problem that finds the best shares of some levels."""

    def improved(self, start: Floats, kept: Sequence[int]) -> tuple[float, Floats]: ...  # pragma: no cover


@remembered(64)
def plan_shares(
    lattice: Lattice,
    workload: Workload,
    power: int = 2,
    reference: tuple[float, ...] | None = None,
    sizes: tuple[tuple[int, ...], ...] | None = None,
) -> tuple[tuple[Level, ...], tuple[Fraction, ...]]:
    """The levels to measure and their shares of the budget.

    `reference` are variances of blocks not to be exceeded: the nodes of the lattice, or with `sizes` blocks of so many
    places of each column. For never_worse they are all that counts; otherwise they are kept if that costs little.
    """
    if lattice.leaves == 1:
        return (lattice.finest,), (Fraction(1),)
    under = np.array([lattice.under(level) for level in lattice.levels], float)
    asked = profiles(workload, lattice)
    blocks = asked if sizes is None else sized_profiles(lattice, sizes)
    if workload.minimax and reference is not None:
        problem = Problem(*blocks, under, lattice.shape, power, np.log(np.array(reference)))
        return rounded(lattice.levels, _smallest_maximum(problem))
    problem = Problem(*asked, under, lattice.shape, power, None)
    value, shares = _searched(problem)
    value, shares = pruned(problem, value, shares)
    shares = shifted(problem, lattice, value, shares)
    if reference is not None:
        shares = _smoothed(problem, blocks, np.log(np.array(reference)), shares)
    return rounded(lattice.levels, shares)


def _smoothed(problem: Problem, blocks: tuple[Floats, Floats], most: Floats, shares: Floats) -> Floats:
    """Shares with which no block exceeds its limit, if errors are at most 5% larger for it, in the geometric mean.

    The best plan counts few sizes, so that errors zigzag with the size of a block: those between are put together from
    many. From several starts a penalty on what exceeds the limits is made steeper, step by step.
    """
    held, weights = blocks
    logs = np.log(held @ problem.inverse(shares))
    if (logs <= most).all() or shares.size > _FEW:
        return shares
    before = problem.value(shares)
    price = 2 * float(np.log(_PRICE))
    alike = np.full(shares.size, 1 / shares.size)
    largest = _smallest_maximum(replace(problem, questions=held, weights=weights, reference=most))
    starts = (0.9 * shares + 0.1 * alike, (shares + largest) / 2, largest, alike)
    near = np.where(
        held.sum(axis=1) > 1, most, logs + price
    )  # cells too no more than 5% larger, if that can be
    for limits in (near, most):
        _, best = min((_held(problem, held, limits, start) for start in starts), key=lambda one: one[0])
        kept = (np.log(held @ problem.inverse(best)) <= limits - _MARGIN / 2).all()
        if kept and problem.value(best) - before <= price:
            return best
    return shares


def _held(problem: Problem, held: Floats, most: Floats, start: Floats) -> tuple[float, Floats]:
    """From one start, with a penalty that grows steeper."""
    alike, shares = np.full(start.size, 1 / start.size), start
    for steepness in _STEEPNESS:
        if steepness < 100:
            shares = (1 - _BACK) * shares + _BACK * alike
        steep = replace(problem, limits=(held, most - _MARGIN), steepness=steepness)
        value, shares = steep.improved(shares, np.flatnonzero(shares > 1e-4).tolist())
    return pruned(steep, value, shares)


def _searched(problem: Problem) -> tuple[float, Floats]:
    """The best of several starts: all levels alike, and levels picked by a fixed generator."""
    size = problem.under.size
    generator = np.random.default_rng(4)
    every = list(range(size))
    best = problem.improved(np.full(size, 1 / size), every)
    for _ in range(_STARTS - 1 if size <= 64 else 2):
        start = generator.dirichlet(np.full(size, 0.3)) + 1e-3 / size
        start[-1] += (
            0.3  # the cells themselves are measured in every plan: without them they have no estimate
        )
        best = min(best, problem.improved(start / start.sum(), every), key=lambda found: found[0])
    return best


def _smallest_maximum(problem: Problem) -> Floats:
    """For never_worse: many levels take part, and one start is enough, if the maximum is sharpened little by little."""
    alike = np.full(problem.under.size, 1 / problem.under.size)
    shares = alike
    for sharpness in _SHARPNESS:
        if sharpness <= 16:
            shares = (1 - _BACK) * shares + _BACK * alike
        kept = np.flatnonzero(shares > 1e-4).tolist()
        _, shares = replace(problem, sharpness=sharpness).improved(shares, kept)
    return shares


def pruned(problem: Improved, value: float, shares: Floats) -> tuple[float, Floats]:
    """Without levels that hardly matter."""
    last = shares.size - 1
    kept = [i for i in range(shares.size) if shares[i] > 5e-3 or i == last]
    value, shares = problem.improved(shares, kept)
    for i in sorted(kept, key=lambda i: float(shares[i])):
        rest = [k for k in kept if k != i]
        if i == last or not rest:
            continue
        found = problem.improved(shares, rest)
        if found[0] < value + _DROP:
            kept, (value, shares) = rest, found
    return value, shares


def shifted(
    problem: Problem, lattice: Lattice, value: float, shares: Floats, *, cells_too: bool = False
) -> Floats:
    """Levels one step up or down in one column, while that helps; single cells stay, unless `cells_too`."""
    place = {level: i for i, level in enumerate(lattice.levels)}
    better = True
    while better:
        better = False
        for i in np.flatnonzero(shares if cells_too else shares[:-1]).tolist():
            level = lattice.levels[i]
            for axis in range(len(level)):
                for by in (-1, 1):
                    other = place.get((*level[:axis], level[axis] + by, *level[axis + 1 :]))
                    if other is None or shares[other] > 0 or shares[i] == 0:
                        continue
                    start = shares.copy()
                    start[other], start[i] = start[i], 0.0
                    found = problem.improved(start, np.flatnonzero(start).tolist())
                    if found[0] < value - 1e-4:
                        (value, shares), better = found, True
    return shares


def rounded(levels: Sequence[Level], shares: Floats) -> tuple[tuple[Level, ...], tuple[Fraction, ...]]:
    """Shares as multiples of 1/1000 that add up to exactly 1."""
    units = np.rint(shares * _DIGITS).astype(int)
    units[-1] = max(units[-1], _LEAST)
    units[int(units.argmax())] += _DIGITS - int(units.sum())
    picked = np.flatnonzero(units).tolist()
    return tuple(levels[i] for i in picked), tuple(Fraction(int(units[i]), _DIGITS) for i in picked)


# Least squares over all measured levels, in closed form.
#
# Let P_l average over the nodes of level l, and n_l be the leaves of one node. The counts of level l, with noise of
# precision p_l (one over its variance), enter the normal equations as p_l n_l P_l. All P_l commute. On the part W_j
# of the space that level j sees and no coarser level does, the normal matrix is the number
#
#     mu_j = sum over levels l that are as fine as j or finer, of n_l p_l,
#
# so that the solution is the sum over j of (1/mu_j) W_j b, with b = sum_l p_l A_l' y_l. W_j is a product over columns
# of P_j - P_(j-1). Sorted by averages instead, the solution is
#
#     sum over l of c_l P_l b,    c_l = sum over s in {0, 1}^columns of (-1)^|s| / mu_(l+s),
#
# and c_l is 0 for all but a few levels: those that are measured, and where they meet.
#
# The variance of a question q is sum_j t_j(q) / mu_j, where t_j(q) = |W_j q|^2 (workload.py).
#
# All of this works on noisy counts: it is post-processing, and may use floating-point numbers.


def moments(
    lattice: Lattice, levels: Sequence[Level], precisions: Sequence[float], total: int | None = None
) -> Floats:
    """mu_j for all levels j. A public `total` is known without error."""
    mu = np.zeros(lattice.shape)
    for level, precision in zip(levels, precisions, strict=True):
        mu[tuple(slice(0, at + 1) for at in level)] += precision * lattice.under(level)
    if total is not None:
        mu.reshape(-1)[0] = np.inf
    return mu


def coefficients(mu: Floats) -> Floats:
    """c_l for all levels l."""
    inverse = np.pad(1 / mu, [(0, 1)] * mu.ndim)
    total, largest = np.zeros(mu.shape), np.zeros(mu.shape)
    for shift in product((0, 1), repeat=mu.ndim):
        part = inverse[tuple(slice(s, s + size) for s, size in zip(shift, mu.shape, strict=True))]
        total += (-1) ** sum(shift) * part
        largest = np.maximum(largest, part)
    return np.where(np.abs(total) > 1e-12 * largest, total, 0.0)  # what cancels leaves only rounding


@remembered(16)
def _coefficients(lattice: Lattice, levels: tuple[Level, ...], precisions: tuple[float, ...]) -> Floats:
    return coefficients(moments(lattice, levels, precisions))


def level_coefficients(lattice: Lattice, levels: Sequence[Level], precisions: Sequence[float]) -> Floats:
    """c_l for all levels l, of counts with these precisions."""
    return _coefficients(lattice, tuple(levels), tuple(map(float, precisions)))


def least_squares(
    lattice: Lattice,
    levels: Sequence[Level],
    precisions: Sequence[float],
    noisy: Sequence[Integers],
    total: int | None = None,
) -> Floats:
    """The estimate of every leaf from the noisy counts of some levels, the finest among them.

    With a public `total` the estimates add up to it.
    """
    b = np.zeros(tuple(tree.leaves for tree in lattice.trees))
    for level, precision, counts in zip(levels, precisions, noisy, strict=True):
        lattice.add_spread(np.multiply(counts, precision, dtype=np.float64), level, b)
    c = level_coefficients(lattice, levels, precisions)
    found = np.zeros_like(b)
    for level in lattice.levels:
        if c[level] != 0:
            weight = c[level] / lattice.under(level)
            lattice.add_spread(weight * np.asarray(lattice.sums(b, level), float), level, found)
    if total is not None:
        found += (total - found.sum()) / found.size
    return found
