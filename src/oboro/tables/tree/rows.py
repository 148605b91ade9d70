"""Intervals of published rows: they hold given that the row is published.

Let y be the noisy count of a cell, x the true one, f the law of the noise y - x: symmetric and log-concave. Rows are printed
because their noise went up, which the interval has to allow for. There are two rules, for one column and for several; with several
and Gaussian noise there is a third, in `members`.

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

What the other counts say
    Let z be the least-squares estimate of x by all counts but y, and v its variance. With Gaussian noise it says a good deal. All
    other noise is fixed in (1) and (2), and z with it. So A(x) may depend on z in any way: whatever z is, and however wrong, the
    interval holds. It is shortest on average, if x is as far from z as v says, when those y are taken first whose chance under
    x is largest beside their chance under z and v together [Pratt 1963; Yu, Hoff 2018]. For Gaussian noise of variance s^2 that
    is a range about x + (x - z) s^2/v, away from z: intervals then lie towards z. At 50% they are as short as those of least
    squares but for half a percent, and they hold given publication, which those do not.

    The threshold may be put higher, to z - B where that is more than t: rows of t <= y < z - B are then 0 to y + h like cells that
    are not published. They hold: let t' be the higher one. If x - h >= t, then (2) of t' is what is needed. Otherwise
    P(y in A(x)) >= level P(y >= t'), and all y from t to t' hold x. So few rules are enough, by z - t' from -B to B.

Where one person matters
    Whole numbers do not cover half: of Gaussian noise with a standard deviation of 2.5 three counts in a row have 46%, four 57%.
    Whoever takes four always is wider than 50% needs. So a coin decides whether A(x) is the shortest range that is likely enough, or
    one less, so often that both together are [Stevens 1950]: (1) and (2) then hold on average over the coin, and that is what
    they are for. Of chains, below, a coin takes those of one of two levels, l and u, with a share s of u: each hold with their level,
    and both together with s u + (1 - s) l >= level.

    The coin is a hash of the first noisy counts of cells and of the cell's own place: whoever has the file sees the same interval
    whenever he asks. It is as good as a coin of its own: were the hash drawn at random, the share that is covered would
    be right on average over all hashes, and off by a standard error of at most sqrt(C)/2, where C is how likely these counts
    come out twice the same. There is no coin unless C is below 2^-64, nor where the noise is wide.

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
        noise, of tables of areas, four are, for less than a tenth more.

    With a cut on noisy counts (`publish=`), S are those that reach the cut as well, which is the same for all that do [Benjamini,
    Hochberg 1995].
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
_REACH = 100  # standard deviations within which members are not far
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
WIDE = 64  # standard deviation from which on whole numbers hardly matter


@lru_cache(maxsize=64)
def from_threshold(noise: Noise, level: float) -> Threshold:
    """The narrower of the two that h = u and h = u + 1 give; as the plain interval has it where the noise is wide."""
    below, above = ends_of(noise, level)
    beyond = np.arange(below + 1)
    plain = Threshold(np.full(beyond.size, NONE), beyond + above, below, above, above)
    if noise.sd > WIDE:
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
    most = above + 4 * max(below + above, 1)
    k = np.arange(-math.ceil(3 * noise.sd) - 1, most + 1)
    law = law_of(noise, below + above)
    found = _ranges(law, level, hidden, k, np.zeros(k.size))
    start, long, needed = found.start.copy(), found.long, found.needed
    while True:  # upwards, as long as it holds x: that is less often where rows hold nobody
        higher = (k >= 0) & (start < 0) & (law.chance(start + 1, start + long) >= needed)
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
    return _turned(k, first, last, max(furthest, below) + 1, below, above, hidden)


@dataclass(frozen=True)
class Others:
    """What all other counts say of a cell: z, with a variance of `spread` times that of the cell's own noise.

    With a spread of infinity they say nothing.
    """

    noise: Noise
    spread: float

    @property
    def grain(self) -> int:
        """By how much z is rounded: it is a guess, and any will do."""
        return max(1, int(self.noise.sd / 4))

    @property
    def reach(self) -> int:
        """How far from the threshold z matters: five times as far as noisy counts are from z."""
        spread = self.spread if math.isfinite(self.spread) else 0.0
        return self.grain * math.ceil(5 * math.sqrt(1 + spread) * self.noise.sd / self.grain)

    def ends(
        self, y: Integers, beyond: Integers, z: Floats, level: float, turns: Integers | None
    ) -> tuple[Integers, Integers]:
        """For noisy counts, by how much each exceeds its threshold, z, and the coin of each, from 0 to TURNS - 1."""
        far, grain = self.reach, self.grain
        at = np.zeros(y.size, np.int64)
        if math.isfinite(self.spread):
            middle = np.rint(np.clip(z, -(2.0**52), 2.0**52)).astype(np.int64)
            at = np.maximum(np.minimum(middle - y + beyond, far), -far)
            at = grain * ((at + grain // 2) // grain)
            beyond = np.minimum(beyond, y - middle + far)  # the threshold is put higher
        low, high = np.zeros(y.size, np.int64), y + from_threshold(self.noise, level).hidden
        coin = np.full(y.size, TURNS) if turns is None else turns
        kind = np.where(beyond < 0, -1, (at + far) * (TURNS + 1) + coin)
        order = np.argsort(kind, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
            if some.size and kind[some[0]] >= 0:
                turn = None if turns is None else int(coin[some[0]])
                rule = _of_turn(self, level, int(at[some[0]]), turn)
                low[some], high[some] = rule.ends(y[some], beyond[some])
        return low, np.maximum(high, 0)


TURNS = 32
_PULL = 1.0  # standard deviations by which a range is moved away from z, at most


@lru_cache(maxsize=8192)
def _of_turn(others: Others, level: float, at: int, turn: int | None) -> Threshold:
    """The rule for z = t + `at`, and a coin."""
    k, ranges, hidden = _of_all(others, level, at)
    start, long = ranges.of(turn)
    below, above = int(start[-1] + long[-1] - 1), int(-start[-1])
    return _turned(k, k + start, k + start + long - 1, int(k[-1]) - above, below, above, hidden)


@lru_cache(maxsize=512)
def _of_all(others: Others, level: float, at: int) -> tuple[Integers, Ranges, int]:
    """x - t for all x that matter, and their ranges whatever the coin."""
    noise, spread = others.noise, others.spread
    below, above = ends_of(noise, level)
    hidden, sd = from_threshold(noise, level).hidden, noise.sd
    pulled = spread * _PULL if math.isfinite(spread) else 0.0
    most = max(at, 0) + math.ceil((pulled + 8) * sd) + 4 * (below + above + 2)
    k = np.arange(-math.ceil(3 * sd) - 1, most + 1)
    away = np.clip((k - at) / spread, -_PULL * sd, _PULL * sd)
    return k, _ranges(law_of(noise, below + above), level, hidden, k, away), hidden


class Law:
    """How likely the noise lies between two numbers."""

    def __init__(self, noise: Noise, more: int) -> None:
        self.size = math.ceil(40 * noise.sd) + more + 8
        law = np.asarray(noise.pmf(np.arange(-self.size, self.size + 1)), float)
        self._sums = np.concatenate([[0.0], np.cumsum(law)])

    def chance(self, first: Integers, last: Integers) -> Floats:
        size = self.size
        ends_ = np.clip(last, -size - 1, size) + size + 1, np.clip(first, -size, size + 1) + size
        return np.asarray(np.maximum(self._sums[ends_[0]] - self._sums[ends_[1]], 0.0))


@lru_cache(maxsize=64)
def law_of(noise: Noise, more: int) -> Law:
    return Law(noise, more)


@dataclass(frozen=True, eq=False)
class Ranges:
    """A(x) for all x: where it starts, from x, and how long it is; one less, in so many TURNS, if a coin says so."""

    start: Integers
    long: Integers
    start_less: Integers
    less: Integers
    share: Floats
    needed: Floats

    def of(self, turn: int | None) -> tuple[Integers, Integers]:
        if turn is None:
            return self.start, self.long
        whole = turn < np.ceil(TURNS * self.share)
        return np.where(whole, self.start, self.start_less), np.where(whole, self.long, self.less)


def _ranges(law: Law, level: float, hidden: int, k: Integers, away: Floats) -> Ranges:
    """The shortest A(x) about x + `away` for x = t + k that keep (1) and (2)."""
    size = law.size
    all_ = law.chance(-k, np.full(k.size, size))
    needed = np.maximum(level * all_, level - law.chance(np.full(k.size, -hidden), -k - 1)) + 1e-13

    def starts(long: Integers) -> Integers:
        about = np.ceil(away - (long - 1) / 2).astype(np.int64)  # with x in it, and from t on
        return np.where(k < 0, -k, np.maximum(np.clip(about, 1 - long, 0), -k))

    def likely(long: Integers) -> Floats:
        start = starts(long)
        return law.chance(start, start + long - 1)

    def lacks(long: Integers) -> Bools:
        # where publication is so rare that floats do not tell how rare, all that can be published is held
        return np.asarray((likely(long) < needed) & (starts(long) + long <= size))

    short, long = np.zeros(k.size, np.int64), np.ones(k.size, np.int64)
    while (wanting := lacks(long)).any():  # twice as long, then halving what lies between
        short[wanting] = long[wanting]
        long[wanting] *= 2
    while (long - short > 1).any():
        middle = (short + long) // 2
        wanting = lacks(middle)
        short, long = np.where(wanting, middle, short), np.where(wanting, long, middle)
    less = np.where(
        k < 0, long - 1, np.maximum(long - 1, 1)
    )  # none at all, if x would not be published by itself
    narrow, whole = np.where(less > 0, likely(less), 0.0), likely(long)
    share = np.where(whole > narrow, (needed - narrow) / np.maximum(whole - narrow, 1e-300), 0.0)
    share = np.where(lacks(long), 1.0, share)
    return Ranges(starts(long), long, starts(less), less, np.clip(share, 0.0, 1.0), needed)


def _turned(
    k: Integers, first: Integers, last: Integers, far: int, below: int, above: int, hidden: int
) -> Threshold:
    """From the ranges of all x to the intervals of all y. What lies between two that an interval holds, it holds too."""
    last = np.maximum.accumulate(last)
    first = np.minimum.accumulate(first[::-1])[::-1]
    beyond = np.arange(far)
    lows, highs = k[np.searchsorted(last, beyond)], k[np.searchsorted(first, beyond, side="right") - 1]
    return Threshold(np.where(lows == k[0], NONE, lows), highs, below, above, hidden)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Two levels, and the share of rows that have the higher one: together they hold with a level between."""

    lower: float
    higher: float
    share: float


COARSE = 8.0  # standard deviation up to which a coin is worth it
_SAVED = 0.01  # of the width, at least
_TRIED = 24  # levels on each side


@lru_cache(maxsize=64)
def mixture(noise: Noise, level: float) -> Mixture | None:
    """The two levels whose chains together are narrowest, if they are narrower than those of the level itself."""
    if noise.sd > 2 * COARSE:
        return None
    width = _of_chains
    own = width(noise, level)
    steps = np.arange(1, _TRIED + 1) / _TRIED
    lower = {at: width(noise, at) for at in (level * (1 - steps / 2)).tolist()}
    higher = {at: width(noise, at) for at in (1 - (1 - level) * (1 - 0.95 * steps)).tolist()}
    best, found = own * (1 - _SAVED), None
    for low, narrow in lower.items():
        for high, wide in higher.items():
            share = (level - low) / (high - low)
            if (1 - share) * narrow + share * wide < best - 1e-9:
                best = (1 - share) * narrow + share * wide
                found = Mixture(low, high, min(share * (1 + 1e-12), 1.0))
    return found


def _of_chains(noise: Noise, level: float) -> float:
    return float(sum(each.reach for each in chains(noise, level)))


@dataclass(frozen=True, eq=False)
class Coins:
    """A number from 0 to 1 for each cell, which the noisy counts of a table decide."""

    seed: int

    @classmethod
    def of(cls, raw: Integers, noise: Noise) -> Coins | None:
        """None if the noise of these counts is too little to be taken for a coin."""
        some = np.ascontiguousarray(raw[:_HASHED], "<i8")
        size = math.ceil(40 * noise.sd) + 1
        twice = float((np.asarray(noise.pmf(np.arange(-size, size + 1)), float) ** 2).sum())
        if some.size * -math.log2(min(twice, 1.0)) < _SECRET:
            return None
        return cls(int.from_bytes(hashlib.sha256(some.tobytes()).digest()[:8], "little"))

    def of_cells(self, leaves: Integers) -> Floats:
        """Rounds of multiplication and shifts: each bit of a place moves all [Steele, Lea, Flood 2014]."""
        z = (leaves.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.seed)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z ^= z >> np.uint64(31)
        return np.asarray((z >> np.uint64(11)).astype(float) / 2**53)


_HASHED = 1 << 14  # noisy counts of cells
_SECRET = 64  # bits


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
        return self.held(leaves, more) > 0

    def held(self, leaves: Integers, more: int) -> Integers:
        """What each cell would hold if its noisy count alone were so much more."""
        from oboro.tables.tree._compiled import still_held_jointly

        trees = [self.lattice.trees[i] for i in self._order]
        shape = tuple(tree.leaves for tree in self.lattice.trees)
        parts = [np.unravel_index(leaves, shape)[i] for i in self._order]
        beside_shape = tuple(tree.leaves for tree in trees[1:])
        groups = np.ravel_multi_index(tuple(parts[1:]), beside_shape)
        every, may = self._levels
        arities = np.array(trees[0].arities, np.int64)
        out = np.empty(leaves.size, np.int64)
        for group in np.unique(groups).tolist():
            own, sibling = (each.reshape(trees[0].depth + 1, -1) for each in self._response(group, trees[1:]))
            root = self._root(more * own[0], trees[1:])
            less = -more * np.stack([sibling, own], axis=1)[1:]
            here = np.flatnonzero(groups == group)
            here = here[np.argsort(parts[0][here], kind="stable")]  # neighbours share what lies above them
            found = np.empty(here.size, np.int64)
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


def _members(up: Chain, sd: float) -> Iterator[int]:
    """Those that are looked at: all that are near, fewer further away. A later member is as good, only further away."""
    i = 1
    while i * up.step <= LARGEST_TOTAL:
        yield i
        near = i <= up.count + _FURTHER
        i += 1 if near else (i // 16 + 1 if i * up.step < _REACH * sd else i)


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
    for i in _members(up, noise.sd):
        some = np.flatnonzero(left)
        if some.size == 0:
            break
        left[some] -= published(some, i * up.step)
        found = some[left[some] == 0]
        high[found] = np.maximum(y[found] + i * up.step + up.reach - up.step * up.count, 0)
    return low, high
