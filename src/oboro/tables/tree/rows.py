"""Intervals of published rows: they hold given that the row is published.

Let y be the noisy count of a cell, x the true one, f the law of the noise y - x: symmetric and log-concave. Rows are printed
because their noise went up, which the interval has to allow for. There are two rules.

From a threshold on
    All other noise fixed, the cell of a table of one column is published if and only if y >= t (`Estimates.row_ends`), and t
    is computed. For each x a range A(x) of noisy counts from t on is chosen, and the interval of y is all x with y in A(x),
    and what lies between them. So it holds x, given that the cell is published, with at least the level if

        P(y in A(x))  >=  level P(y >= t).                                                              (1)

    A cell that was asked for beforehand may turn out not to be published. Then the interval is 0 to y + h. It holds x, published
    or not, with at least the level if

        P(y in A(x)) + P(x - h <= y < t)  >=  level.                                                    (2)

    A(x) is the shortest range that keeps both, with x in it if x >= t: with whole numbers that is shorter than the plain
    interval, y - w to y + u, cut at t. For x >= t + u that one, x - u to x + w, keeps both by itself; it is taken from where
    the shortest is no shorter. For x < t the law falls from t on, and all the faster the smaller x is, as f is log-concave: a
    range from t on that keeps (1) and (2) for x keeps them for all that is smaller. h is u, or u + 1 where that makes ranges
    shorter.

    Where the noise is wide, one person does not matter: A(x) is then t to t + w for x <= t, t to x + w up to t + u, and
    x - u to x + w beyond, with h = u. That holds the plain interval, hence (2). Let T = P(noise > w), U = P(noise > u), with 2 T
    and T + U at most 1 - level. (1): if x <= t, P(y > t + w | y >= t) <= P(noise > w | noise >= 0) <= T/(1/2), as f is
    log-concave; up to t + u, P(y > x + w | y >= t) <= T / P(noise >= 0) likewise; beyond, with e = P(y < t), both ends
    fail with (T + U - e)/(1 - e) <= T + U.

    Width. It cannot be had for nothing. Given y >= t, the law of y is the same for all x <= t if the noise is Laplace: whatever
    interval holds one of these x often enough holds all of them, from 0 on, on average as often as the level.
    `python -m bench widths` compares with the least mean width that any rule can have [Pratt 1961].

Whatever decides
    Several columns are shared out in turns of proportional fitting, and what rounding took is carried on. That a larger noisy
    count never unpublishes a cell is not proved there. So nothing of the kind is used: whether the cell would be published with
    another noisy count, all other noise as it is, is computed, for the few counts that matter.

    Let all other noise be fixed, and S be the noisy counts with which the cell is published: any set. A *chain* of step s from y
    goes through y - s, y - 2 s, ... downwards, or upwards.

        down    the interval begins above the m-th count of the chain if the first m are all in S; otherwise at 0
        up      it goes up to the m-th count of the chain that is in S

    Proof of coverage
        Look at one chain, all whole numbers that differ by multiples of s, and its members of S from x on, in order: z_0, z_1, ...
        The low end exceeds x with y = z_i only if i >= m: the m-th count below y is in S, and not below x. The members are
        at least s apart and z_0 >= x, so that f(z_i+1 - x)/f(z_i - x) <= f((i+1) s)/f(i s), as f is log-concave. Hence

            sum of f(z_i - x) over i >= m  <=  r  times the sum over all i,    r = sum of f(i s), i >= m / sum of f(i s), i >= 0,

        and so over all chains: P(low end > x and y in S) <= r P(y in S, y >= x). Likewise upwards, with members below x, the
        first of them at least 1 away: P(high end < x and y in S) <= r' P(y in S, y < x), r' with f(1 + i s) for f(i s). If neither r
        nor r' exceeds 1 - level, then both together are at most (1 - level) P(y in S): given that the cell is published, the
        interval misses with at most 1 - level. So it is with any distribution of the other noise, and for cells that were chosen
        beforehand (S is then all numbers).

        Where the noise is a few people, one of them matters, and the interval may end one before the m'-th member upwards: it
        misses only if that member is at most x. With the same s both ways the members on either side of x lie on one chain with x
        itself. If x is in S, and there are as many members as can be on both sides, then of that chain at most

            (sum of f(i s), i >= m, + sum of f(i s), i >= m')  /  sum of f(i s) over all i, negative too

        misses. If there are fewer on one side, this share lies between that and r or that and r with m' for m: what is missed
        over what is not is a quotient of linear functions of how likely the members of one side are. On other chains it is less.
        None of these may exceed 1 - level. With s = 1 that is the plain interval, y - w to y + u, and each number in it is looked
        at.

        For Laplace noise r = e^(-m s/scale): one count a side is enough, and the interval is as wide as the plain one. For Gaussian
        noise four are, for less than a tenth more.

    With a cut on noisy counts (`publish=`), S are those that reach the cut as well, which is the same for all that do [Benjamini,
    Hochberg 1995].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count, takewhile

import numpy as np

from oboro.arrays import Bools, Floats, Integers
from oboro.noise import DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.strategy import Noise
from oboro.tables.tree.errors import ends_of
from oboro.tables.tree.lattice import Lattice, Tree
from oboro.tables.tree.measure import beside, by_level, spine_of, whole_total
from oboro.tables.tree.planner import coefficients

_MOST_COUNTS = 8  # on a side, that are tried
_FURTHER = 16  # members of a chain that are looked for beyond these
_PRICE = 0.01  # of width that one more count must save


@dataclass(frozen=True, eq=False)
class Threshold:
    """The interval of y by how far y is above the threshold t: from t + lows[y - t] to t + highs[y - t].

    A low of `NONE` is 0, whatever t is; further away than `far` it is the plain interval. A cell that is not published
    holds at most y + hidden.
    """

    lows: Integers
    highs: Integers
    below: int
    above: int
    hidden: int

    @property
    def far(self) -> int:
        """How far above the threshold it still matters."""
        return self.lows.size

    def ends(self, y: Integers, beyond: Integers) -> tuple[Integers, Integers]:
        """For noisy counts, and by how much each exceeds its threshold."""
        near = np.minimum(beyond, self.far - 1)
        at = y - near
        low = np.where(beyond < self.far, at + self.lows[near], y - self.below)
        high = np.where(beyond < self.far, at + self.highs[near], y + self.above)
        low[(beyond < self.far) & (self.lows[near] == NONE)] = 0
        return np.maximum(low, 0), np.maximum(high, 0)


NONE = -(2**40)
_WIDE = 64  # standard deviation from which on whole numbers hardly matter


@lru_cache(maxsize=64)
def from_threshold(noise: Noise, level: float) -> Threshold:
    """The narrower of the two that h = u and h = u + 1 give; as the plain interval has it where the noise is wide."""
    below, above = ends_of(noise, level)
    beyond = np.arange(below + 1)
    plain = Threshold(np.full(beyond.size, NONE), beyond + above, below, above, above)
    if noise.sd > _WIDE:
        return plain
    return min((_shortest(noise, level, plain, hidden) for hidden in (above, above + 1)), key=_total)


def _total(rule: Threshold) -> int:
    """How wide intervals are, for thresholds of 0 and all counts up to where neither rule matters any more."""
    most = 8 * (rule.below + rule.above + 2)
    low, high = rule.ends(np.arange(most), np.arange(most))
    return int((high - low).sum())


def _shortest(noise: Noise, level: float, wide: Threshold, hidden: int) -> Threshold:
    """A(x) for x = t + k, for all k from where smaller ones have the same A on to where the plain interval is taken."""
    below, above = wide.below, wide.above
    size = math.ceil(40 * noise.sd) + below + above + 8
    far = max(below + above, 1)
    least, most = -math.ceil(3 * noise.sd) - 1, above + 4 * far
    law = np.asarray(noise.pmf(np.arange(-size, size + 1)), float)
    sums = np.concatenate([[0.0], np.cumsum(law)])

    def chance(first: Integers, last: Integers) -> Floats:
        """That the noise is between these."""
        ends_ = np.clip(last, -size - 1, size) + size + 1, np.clip(first, -size, size + 1) + size
        return np.asarray(np.maximum(sums[ends_[0]] - sums[ends_[1]], 0.0))

    k = np.arange(least, most + 1)
    all_ = chance(-k, np.full(k.size, size))
    needed = np.maximum(level * all_, level - chance(np.full(k.size, -hidden), -k - 1)) + 1e-13
    start = np.maximum(-k, 0)  # of the likeliest range of 1
    long = np.ones(k.size, np.int64)
    while True:
        # the likeliest range of each length lies about 0, as far as it is from t on
        start = np.where(k < 0, -k, np.maximum(-k, -((long - 1) // 2)))
        # where publication is so rare that floats do not tell how rare, all that can be published is held
        short = (chance(start, start + long - 1) < needed) & (start + long <= size)
        if not short.any():
            break
        long[short] += 1
    while True:  # upwards, as long as it holds x: that is less often where rows hold nobody
        higher = (k >= 0) & (start < 0) & (chance(start + 1, start + long) >= needed)
        if not higher.any():
            break
        start[higher] += 1
    plain = np.flatnonzero((k >= above) & (long >= below + above + 1))
    kept = int(plain[0]) if plain.size else k.size
    first, last = k - above, k + below
    first[:kept], last[:kept] = (k + start)[:kept], (k + start + long - 1)[:kept]
    furthest = int(last[:kept].max())
    if furthest > most - above:  # too far to be sure of what follows
        return wide
    # what lies between two that an interval holds, it holds too
    last = np.maximum.accumulate(last)
    first = np.minimum.accumulate(first[::-1])[::-1]
    beyond = np.arange(max(furthest, below) + 1)
    lows, highs = k[np.searchsorted(last, beyond)], k[np.searchsorted(first, beyond, side="right") - 1]
    return Threshold(np.where(lows == least, NONE, lows), highs, below, above, hidden)


@dataclass(frozen=True, slots=True)
class Chain:
    """`count` steps of a size to one side, and how far the interval then goes."""

    step: int
    count: int
    reach: int


@lru_cache(maxsize=64)
def chains(noise: Noise, level: float) -> tuple[Chain, Chain]:
    """Downwards and upwards: the narrowest pair that the proof allows, if it needs no more counts than it is worth."""
    miss = (1 - level) * (1 - 1e-12)
    every = range(1, _MOST_COUNTS + 1)
    found = [(_to_member(noise, miss, times, 0), _to_member(noise, miss, times, 1)) for times in every]
    found = [(Chain(down.step, down.count, down.reach - 1), up) for down, up in found]
    found += [pair for times in every for pair in _before_members(noise, miss, times)]
    return min(found, key=_price)


def _price(pair: tuple[Chain, Chain]) -> float:
    down, up = pair
    return (down.reach + up.reach + 1) * (1 + _PRICE * (down.count + up.count))


def _to_member(noise: Noise, miss: float, times: int, offset: int) -> Chain:
    step = _least(lambda step: _beyond(noise, step, times, offset) <= miss, noise.sd)
    return Chain(step, times, step * times)


def _before_members(noise: Noise, miss: float, times: int) -> list[tuple[Chain, Chain]]:
    """With the same step both ways, and upwards as many or one less."""

    def keeps(step: int, up: int) -> bool:
        law = _law(noise, step, 0)
        both = float(law[times:].sum() + law[up:].sum()) / float(2 * law.sum() - law[0])
        return both <= miss and _beyond(noise, step, up, 0) <= miss

    step = _least(lambda step: keeps(step, times), noise.sd)
    counts = [up for up in (times, times - 1) if up > 0 and keeps(step, up)]
    return [(Chain(step, times, step * times - 1), Chain(step, up, step * up - 1)) for up in counts]


def _least(good: Callable[[int], bool], sd: float) -> int:
    """The least step that is good: larger ones are. Steps of less than a 2000th of a standard error are not tried."""
    low = int(sd / 2000)
    high = low + 1
    while not good(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _beyond(noise: Noise, step: int, times: int, offset: int) -> float:
    """r: what lies beyond `times` steps, as a share of all."""
    law = _law(noise, step, offset)
    return float(law[times:].sum() / law.sum())


def _law(noise: Noise, step: int, offset: int) -> Floats:
    """f(offset + i step) for all i, divided by f(0)."""
    terms = math.ceil(40 * noise.sd / step) + _MOST_COUNTS + 1
    at = offset + step * np.arange(terms, dtype=float)
    rate = as_float(1 / noise.scale) if isinstance(noise, DiscreteLaplace) else None
    return np.exp(-rate * at) if rate is not None else np.asarray(noise.pmf(at) / noise.pmf(0))


@dataclass(frozen=True)
class Jointly:
    """How several columns are shared out: what is published if one noisy count were another."""

    lattice: Lattice
    estimates: Floats  # of leaves
    possible: Bools | None
    total: int | None
    mu: Floats
    precision: float  # of the noisy counts of cells

    @cached_property
    def _order(self) -> list[int]:
        spine = spine_of(self.lattice)
        return [spine, *(i for i in range(len(self.lattice.trees)) if i != spine)]

    @cached_property
    def _wanted(self) -> Floats:
        return np.ascontiguousarray(self.estimates.transpose(self._order))

    @cached_property
    def _good(self) -> Bools | None:
        return None if self.possible is None else np.ascontiguousarray(self.possible.transpose(self._order))

    @cached_property
    def _levels(self) -> tuple[Floats, Bools]:
        """What all nodes below the root should hold, and which can, by category."""
        tree = self.lattice.trees[self._order[0]]
        good = None if self._good is None else self._good.reshape(tree.leaves, -1)
        estimates, allowed = by_level(tree, self._wanted.reshape(tree.leaves, -1), good)
        may = [each for each in allowed if each is not None]
        return np.concatenate(estimates), np.concatenate(may) if may else np.ones((1, 1), np.bool_)

    @cached_property
    def _follow(self) -> tuple[Floats, Floats]:
        """How much larger estimates are if the noisy count of a cell is 1 more.

        For the nodes of each level of places, the one above the cell and its siblings; then by the finest level, of each
        other column, that has the cell and the category in one node. Two leaves that have the levels up to l in common
        see p times the sum of c_k / leaves of a node, over the levels k up to l.
        """
        trees = [self.lattice.trees[i] for i in self._order]
        weights = self.precision * coefficients(self.mu).transpose(self._order)
        for axis, tree in enumerate(trees):
            under = np.array([float(tree.under(at)) for at in range(tree.depth + 1)])
            weights = weights / under.reshape([-1 if i == axis else 1 for i in range(len(trees))])
        for axis in range(1, len(trees)):
            weights = np.cumsum(weights, axis=axis)
        spine = trees[0]
        at = range(spine.depth + 1)
        own = np.array([[float(spine.under(max(level, above))) for above in at] for level in at])
        other = np.array([[float(spine.under(level)) * (above < level) for above in at] for level in at])
        return np.tensordot(own, weights, axes=(1, 0)), np.tensordot(other, weights, axes=(1, 0))

    def published(self, leaves: Integers, more: int) -> Bools:
        """Whether each cell would be published if its noisy count alone were so much more."""
        from oboro.tables.tree._compiled import still_held_jointly

        trees = [self.lattice.trees[i] for i in self._order]
        shape = tuple(tree.leaves for tree in self.lattice.trees)
        parts = [np.unravel_index(leaves, shape)[i] for i in self._order]
        beside_shape = tuple(tree.leaves for tree in trees[1:])
        groups = np.ravel_multi_index(tuple(parts[1:]), beside_shape)
        every, may = self._levels
        arities = np.array(trees[0].arities, np.int64)
        out = np.empty(leaves.size, np.bool_)
        for group in np.unique(groups).tolist():
            own, sibling = (each.reshape(trees[0].depth + 1, -1) for each in self._response(group, trees[1:]))
            root = self._root(more * own[0], trees[1:])
            less = -more * np.stack([sibling, own], axis=1)[1:]
            here = np.flatnonzero(groups == group)
            found = np.empty(here.size, np.bool_)
            still_held_jointly(
                parts[0][here], group, root, every, may, self._good is None, arities, less, found
            )
            out[here] = found
        return out

    def _response(self, group: int, trees: list[Tree]) -> tuple[Floats, Floats]:
        """`_follow` for each category, if the cell is of this one."""
        values = np.unravel_index(group, tuple(tree.leaves for tree in trees))
        common = []
        for tree, value in zip(trees, values, strict=True):
            levels = [np.arange(tree.leaves) // tree.under(at) for at in range(1, tree.depth + 1)]
            common.append(sum((own == own[value] for own in levels), np.zeros(tree.leaves, np.int64)))
        own, sibling = (each[np.ix_(np.arange(len(each)), *common)] for each in self._follow)
        return own, sibling

    def _root(self, more: Floats, trees: list[Tree]) -> Integers:
        """What each category holds in all."""
        wanted = self._wanted.sum(axis=0) + more.reshape(self._wanted.shape[1:])
        total = whole_total(float(wanted.sum())) if self.total is None else self.total
        good = None if self._good is None else np.asarray(self._good.any(axis=0))
        return beside(np.array([total], np.int64), trees, wanted, good)


def ends(
    y: Integers, noise: Noise, level: float, published: Callable[[Integers, int], Bools]
) -> tuple[Integers, Integers]:
    """The interval of each row; `published` says whether some of them would be with so much more."""
    down, up = chains(noise, level)
    low = np.maximum(y - down.reach, 0)
    some = np.flatnonzero(low)
    for i in range(1, down.count + 1):
        some = some[published(some, -i * down.step)]
    low[np.setdiff1d(np.flatnonzero(low), some)] = 0
    high, left = np.full(y.size, LARGEST_TOTAL, np.int64), np.full(y.size, up.count)
    near = range(1, up.count + _FURTHER + 1)
    # a later member is as good, only further away
    far = takewhile(lambda i: i * up.step <= LARGEST_TOTAL, (near[-1] << k for k in count(1)))
    for i in [*near, *far]:
        some = np.flatnonzero(left)
        if some.size == 0:
            break
        left[some] -= published(some, i * up.step)
        found = some[left[some] == 0]
        high[found] = np.maximum(y[found] + i * up.step + up.reach - up.step * up.count, 0)
    return low, high
