"""Intervals of published rows where several columns are shared out together, and the noise is Gaussian.

Let y be the noisy count of a cell, x the true one, f the law of the noise: symmetric, log-concave. All other noise is fixed, and S
are the noisy counts with which the cell is published: any set. The interval may look at S, and at z, what all other counts say of
the cell (`rows`), in any way: neither depends on y.

The rule
    Of y only its remainder by a `step` s is fixed as well, so that few counts need be looked at: y then is one of
    y + i s, and x makes each of them as likely as f says. For a set M of these write M(x) for the sum of f(m - x) over M; F is the least sum over
    all of them, whatever the remainder. Let H be what a cell misses that was asked for beforehand and is not published, whose
    interval is 0 to y + h:

        C(x) = the smaller of (1 - level) S(x) and (1 - level) F - H(x)

    is what may be missed, given that the cell is published, and published or not. It is split in two, C = A(x) + B(x), and x is in the
    interval of y unless

        S(x) below y, and a share U of y itself  <=  A(x)      or      S(x) above y, and 1 - U of y  <=  B(x),

    where U is a coin from 0 to 1. The interval is from the least to the largest x that is in it, and y itself, from 0 on.

Proof of coverage
    Given x, and that the cell is published, S(x) below y and U of y is uniform between 0 and S(x), as in any law that a coin
    makes continuous. So the first happens with A(x)/S(x) and the second with B(x)/S(x), together C(x)/S(x) <= 1 - level. And published or
    not: A(x) + B(x) + H(x) <= (1 - level) F. That is so for every remainder of y, hence on average. Without a coin U is
    1 in the first and 0 in the second, and less is missed.

    H(x) are the counts below x - h that are not in S: what lies below x - h at all, which h is chosen for to be at most
    (1 - level) F/2, less the members of S among them.

The split
    It may depend on x, S and z in any way. With all counts in S, intervals are shortest on average, if x is as far from z as the variance
    v of z says, where A and B have the ratio that makes the range of y lie about x + (x - z) s^2/v [Pratt 1963; Yu, Hoff 2018]:
    B then is (1 - level) F times a share that falls with x. Counts that are not in S are missing on one side: those below x leave
    less than that to A. If there are fewer members above x than below, A has at least (1 - level) times the difference.

    No printed number lies outside its interval: what is published with y, and y itself. To hold them by widening the interval in the
    end would be wasted. So A has no more than the members below x that are printed with less than x, and B no more than those
    above that are printed with more, as far as both can be. Both have at least a thousandth of C.

What is computed
    Counts within `_REACH` standard deviations of y are looked at. Of the others it is assumed, each time anew, what makes the interval wider. For
    all x from a to b together, f(m - x) is at least that at the further end and at most that at the nearer one: so whole ranges
    of x are excluded at once, down to single ones. Beyond what was looked at: for x above all of these, S(x) below y over S(x) falls as x
    grows, since f is log-concave; where it is below a thousandth of (1 - level)/2 no larger x is in the interval. Otherwise
    it has no upper end. Downwards likewise, to 0.

    Neither S nor z depends on y, but for rounding errors: floating point is taken for exact here, as it is where rows are
    published.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from oboro.arrays import Floats, Integers
from oboro.noise import DiscreteLaplace
from oboro.noise.laplace import as_float
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.strategy import Noise

_FINE = 6  # counts looked at in a standard deviation
_REACH = 7  # standard deviations
_SHARES = 256  # on each side of z
_PULL = 1.5  # standard deviations by which a range is moved away from z, at most
_FAR = 1e-4  # of what may be missed, that lies as far away as all that is looked at, at most
_ROWS = 1 << 15  # at a time


@dataclass(frozen=True, eq=False)
class Members:
    """The rule for one noise, level and spread: the variance of z over that of the noise."""

    step: int
    many: int  # counts on each side that are looked at
    law: Floats  # f(k)/f(0) for k from 0 on
    tail: Floats  # f(k) + f(k + step) + ...
    beyond: float
    all_: float  # F
    hidden: int  # h
    below: float  # H with nothing in S, at most
    upper: Floats  # B's share of what may be missed, by how far x is from z
    each: float

    def ends(
        self,
        y: Integers,
        z: Floats,
        level: float,
        coins: Floats | None,
        held: Callable[[Integers, int], Integers],
    ) -> tuple[Integers, Integers]:
        """The interval of each row; `held` says what some of them would hold with so much more, 0 if they were not published."""
        from oboro.tables.tree._members import by_members

        low, high = np.empty(y.size, np.int64), np.empty(y.size, np.int64)
        middle = np.rint(np.clip(z, -(2.0**52), 2.0**52))
        for start in range(0, y.size, _ROWS):
            some = np.arange(start, min(start + _ROWS, y.size))
            values = np.empty((some.size, 2 * self.many + 1), np.int64)
            for i in range(-self.many, self.many + 1):
                values[:, i + self.many] = held(some, i * self.step)
            own = np.ones((some.size, 2))
            if coins is not None:
                own = np.stack([1 - coins[some], coins[some]], axis=1)
            law = self.law, self.tail, self.step, self.beyond, (1 - level) * (1 - 1e-12)
            facts = self.all_, self.hidden, self.below, LARGEST_TOTAL
            found = low[some], high[some]
            by_members(y[some], values, own, middle[some], self.upper, self.each, *law, *facts, *found)
            low[some], high[some] = found
        self._further(y, high, held)
        return low, high

    def _further(self, y: Integers, high: Integers, held: Callable[[Integers, int], Integers]) -> None:
        """Where no member above y was near, the interval ends at the next one: fewer counts are looked at further away."""
        i, some = self.many + 1, np.flatnonzero(high == LARGEST_TOTAL)
        while some.size and i * self.step <= LARGEST_TOTAL:
            found = held(some, i * self.step) > 0
            high[some[found]] = np.maximum(y[some[found]] + i * self.step, 0)
            some, i = some[~found], i + i // 16 + 1


@lru_cache(maxsize=64)
def members(noise: Noise, level: float, spread: float) -> Members:
    """The rule. With a spread of infinity z says nothing."""
    step = max(1, int(noise.sd / _FINE))
    many = math.ceil(_REACH * noise.sd / step)
    while _beyond(noise, step, many) > _FAR * (1 - level):
        many += 1
    size = 2 * (many + 2) * step
    law = weights(noise, size + step)
    tail = np.concatenate([law, np.full(step, 2 * law[-1])])
    for at in range(law.size - 1, -1, -1):
        tail[at] = law[at] + tail[at + step]
    sums = np.array([tail[r] + (tail[step - r] if r else tail[step]) for r in range(step)])
    all_ = float(sums.min()) * (1 - 1e-12)
    # what lies below x - h, the nearest of it 1 to `step` beyond: at most the sum from h + 1 on
    enough = np.flatnonzero(tail[: size + 1] <= (1 - level) / 2 * all_)
    hidden = int(enough[0]) - 1
    shares = np.array([_upper_share(i / _SHARES * _PULL, 1 - level) for i in range(-_SHARES, _SHARES + 1)])
    each = _PULL / _SHARES * (spread if math.isfinite(spread) else 1e18) * noise.sd
    beyond = float(tail[(many + 1) * step])
    return Members(
        step, many, law, tail[: law.size], beyond, all_, hidden, float(tail[hidden + 1]), shares, each
    )


def _beyond(noise: Noise, step: int, many: int) -> float:
    """What lies so many steps away or further, beside what lies at 0."""
    law = weights(noise, 4 * (many + 2) * step)
    return float(law[many * step :: step].sum() + 2 * law[-1])


def weights(noise: Noise, size: int) -> Floats:
    """f(k)/f(0) for k from 0 to `size`."""
    at = np.arange(size + 1, dtype=float)
    rate = as_float(1 / noise.scale) if isinstance(noise, DiscreteLaplace) else None
    return np.exp(-rate * at) if rate is not None else np.asarray(noise.pmf(at) / noise.pmf(0))


def _upper_share(away: float, miss: float) -> float:
    """The share w of what may be missed that lies above a range about so many standard deviations from x."""
    low, high = 1e-9, 1 - 1e-9
    while high - low > 1e-12:
        w = (low + high) / 2
        middle = (float(ndtri(1 - miss * w)) - float(ndtri(1 - miss * (1 - w)))) / 2
        low, high = (w, high) if middle > away else (low, w)
    return (low + high) / 2
