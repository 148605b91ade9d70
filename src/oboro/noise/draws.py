"""Exact draws of the finite kind: integers, orders, subsets, coins and choices.

Each function has exactly the law that it names, for uniform bits. None uses a float to decide, except
through bounds that are proved; what the bounds leave open is settled with as many more bits as it takes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from flint import arb

from oboro.arrays import Bools, Integers, Words
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, not_negative, rational, show, whole
from oboro.kinds import takes
from oboro.noise.bits import Bits, system_bits
from oboro.noise.lazy import Ball, Real, Uniform, ball, enclosing, precision

# How many draws are wanted, and in which shape.

MOST = 1 << 27  # draws at once, 1 GB: more than most machines can hold is refused before it is asked for


def checked_size(size: object) -> tuple[Size, int]:
    """A number of draws or the shape of an array of them, and how many that are in all."""
    if type(size) is int and 0 <= size <= MOST:
        return size, size
    if type(size) is tuple and all(type(side) is int and side >= 0 for side in size):
        count = math.prod(size)
        if count <= MOST and max(size, default=0) <= MOST:
            return size, count
    shape: Size = (
        tuple(whole("size", side, most=MOST) for side in size)
        if isinstance(size, tuple | list)
        else whole("size", size, most=MOST)
    )
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    if count > MOST:
        raise ParameterError(
            "size is too large", given=f"{count:,} draws", needed=f"at most {MOST:,}", fix=setting(size=1000)
        )
    return shape, count


Size = int | tuple[int, ...]
Scalar = TypeVar("Scalar", bound=np.generic)

LARGEST = 1 << 62  # of what is counted or chosen from
_ALL = 1 << 64  # so many words of 64 bits


# -- integers, orders, subsets ---------------------------------------------------------------------------


def uniform_integer(below: int, bits: Bits | None = None) -> int:
    """A whole number in [0, below), of any width: just enough bits, drawn again while they are too large.

    Every number below `below` is as likely as any other before the rejection, hence after it.

    >>> 0 <= ob.noise.uniform_integer(10**30) < 10**30
    True
    """
    below = whole("below", below, least=1)
    bits = bits or system_bits()
    while True:
        value = bits.integer((below - 1).bit_length())
        if value < below:
            return value


def uniform_integers(below: int, size: Size, bits: Bits | None = None) -> Integers:
    """Many whole numbers in [0, below), below at most 2^63, by the same rejection: at most 2 words each, on average.

    >>> rolls = ob.noise.uniform_integers(6, (2, 100))
    >>> rolls.shape, set(rolls.ravel().tolist()) <= set(range(6))
    ((2, 100), True)
    """
    below = whole("below", below, least=1, most=1 << 63)
    bits = bits or system_bits()
    size, _ = checked_size(size)
    out = np.zeros(size, np.uint64)
    if below > 1:
        flat = out.reshape(-1)
        shift, limit = np.uint64(64 - (below - 1).bit_length()), np.uint64(below)
        again: npt.NDArray[np.intp] = np.arange(flat.size)
        while again.size:
            drawn = bits.words(again.size) >> shift
            flat[again] = drawn
            again = again[drawn >= limit]
    return out.astype(np.int64)


def permutation(n: int, bits: Bits | None = None) -> Integers:
    """A uniform order of 0, ..., n-1: the order of n random words, all drawn again if two are equal.

    Given that they differ, all n! orders of independent words of one law are equally likely.
    Two are equal with probability below n^2 / 2^65.

    >>> sorted(ob.noise.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    n = whole("n", n, most=1 << 32)
    bits = bits or system_bits()
    while True:
        words = bits.words(n)
        order = np.argsort(words)
        words = words[order]
        if not np.any(words[1:] == words[:-1]):
            return order.astype(np.int64)


@takes(array=np.ndarray)
def shuffle(array: npt.NDArray[Scalar], bits: Bits | None = None) -> npt.NDArray[Scalar]:
    """A copy with its rows in uniform order.

    >>> import numpy as np
    >>> sorted(ob.noise.shuffle(np.array([3, 1, 2])).tolist())
    [1, 2, 3]
    """
    if array.ndim == 0:
        raise ParameterError("array has no rows", given="a single value", needed="one dimension or more")
    return array[permutation(len(array), bits)]


def choose(n: int, k: int, bits: Bits | None = None) -> Integers:
    """A uniform set of k distinct numbers below n, in increasing order; n is at most 2^62.

    Draws numbers until k of them differ. Renaming the numbers renames the set and changes nothing else,
    so all sets of k are equally likely. If k > n/2, chooses what to leave out instead: each draw is new
    with probability 1/2 or more. All n are listed in that case alone, where the answer lists most of them.

    >>> sorted(ob.noise.choose(5, 5).tolist()), len(ob.noise.choose(1000, 3))
    ([0, 1, 2, 3, 4], 3)
    """
    n = whole("n", n, most=LARGEST)
    k = whole("k", k, most=n)
    bits = bits or system_bits()
    if 2 * k > n:
        keep = np.ones(n, np.bool_)
        keep[choose(n, n - k, bits)] = False
        return np.flatnonzero(keep).astype(np.int64)
    chosen = np.empty(0, np.int64)
    while chosen.size < k:
        chosen = np.union1d(chosen, uniform_integers(n, k - chosen.size, bits))  # never more than k
    return chosen


# -- coins -------------------------------------------------------------------------------------------------


def bernoulli(p: Number | Real, size: Size, bits: Bits | None = None) -> Bools:
    """True with probability p exactly: whether a uniform real is below p.

    `p` is a rational in [0, 1], or a function that encloses a real there. The first 64 bits of the uniform
    settle it unless they meet the enclosure of p, once in 2^64 or so; then `Uniform.below` goes on from them.

    >>> ob.noise.bernoulli("1/3", 4).dtype, ob.noise.bernoulli(1, 3)
    (dtype('bool'), array([ True,  True,  True]))
    """
    return _below(
        as_real(enclosing("p", p) if callable(p) else probability("p", p)), size, bits or system_bits()
    )


def bernoulli_exp(x: Number, size: Size, bits: Bits | None = None) -> Bools:
    """True with probability e^-x exactly, for a rational x >= 0.

    >>> ob.noise.bernoulli_exp(0, 3)
    array([ True,  True,  True])
    """
    exact = not_negative("x", x)
    return _below(lambda: (-ball(exact)).exp(), size, bits or system_bits())


def _below(threshold: Real, size: Size, bits: Bits) -> Bools:
    with precision(192):
        at = threshold() * _ALL
        low, high = at.lower().floor(), at.upper().ceil()
    size, count = checked_size(size)
    words = bits.words(count).reshape(size)
    out = _under(words, _whole(low))
    for index in np.argwhere(out ^ _under(words, _whole(high))):
        out[tuple(index)] = Uniform(bits, int(words[tuple(index)]), 64).below(threshold)
    return out


def _under(words: Words, limit: int) -> Bools:
    """words < limit, where limit may be 2^64."""
    return words <= np.uint64(limit - 1) if limit > 0 else np.zeros(words.shape, np.bool_)


def _whole(bound: Ball) -> int:
    """An exact ball as an integer, kept in [0, 2^64]."""
    return min(max(int(bound.unique_fmpz()), 0), _ALL)


# -- choices -----------------------------------------------------------------------------------------------


def exponential_mechanism(
    scores: npt.ArrayLike, eta: Number, counts: npt.ArrayLike | None = None, bits: Bits | None = None
) -> int:
    """Index i with probability proportional to counts[i] e^(-eta scores[i]); whole scores, rational eta >= 0.

    `counts`, up to 2^62 each, stand for many candidates that share a score; by default each counts once.

    >>> ob.noise.exponential_mechanism([5000, 0, 5000], eta=1)
    1
    """
    return int(exponential_choices(scores, eta, 1, counts, bits)[0])


def exponential_choices(
    scores: npt.ArrayLike,
    eta: Number,
    size: int,
    counts: npt.ArrayLike | None = None,
    bits: Bits | None = None,
) -> Integers:
    """Many independent draws of `exponential_mechanism` at once.

    Let C_i be the sum of the weights up to i, and C the sum of all. The answer is the i with
    C_(i-1) <= UC < C_i, for a uniform real U. The first 64 bits of U and float bounds of the C_i settle it,
    unless UC comes within their error of an edge; then balls do, with more bits of the same U.
    The smallest score is subtracted first: it cancels.
    """
    from oboro.noise import floatball

    rate = not_negative("eta", eta)
    bits = bits or system_bits()
    above, weights = candidates(scores, counts)
    low, high = floatball.cumulative_weights(above, weights, *_in_floats(*rate.as_integer_ratio()))
    words = bits.words(size)
    leading = words.astype(np.float64)
    least = leading * 2.0**-64 * low[-1] * (1 - 8 * floatball.U)  # four roundings at most, here and below
    most = (leading + 1) * 2.0**-64 * high[-1] * (1 + 8 * floatball.U)
    out: Integers = np.searchsorted(high, least, side="right").astype(np.int64)
    at = np.minimum(out, low.size - 1)
    sure = (out < low.size) & ((at == 0) | (high[at - 1] <= least)) & (most < low[at])
    for place in np.flatnonzero(~sure):
        out[place] = _choose_by_balls(above, weights, rate, Uniform(bits, int(words[place]), 64))
    return out


@lru_cache(maxsize=256)
def _in_floats(numerator: int, denominator: int) -> tuple[float, float]:
    """A float ball that contains a rational."""
    from oboro.noise import floatball

    with precision(128):
        return floatball.float_ball(ball(Fraction(numerator, denominator)))


def _choose_by_balls(above: Words, weights: Integers, eta: Fraction, u: Uniform) -> int:
    while True:
        with precision(2 * u.known):
            terms = (int(c) * ball(-eta * int(k)).exp() for k, c in zip(above, weights, strict=True))
            sums = list(accumulate(terms))
            at = u.ball() * sums[-1]
            i = next((i for i, edge in enumerate(sums) if not edge <= at), None)
            if i is not None and at < sums[i]:
                return i
        u.extend(u.known)


def candidates(scores: npt.ArrayLike, counts: npt.ArrayLike | None) -> tuple[Words, Integers]:
    """Scores above the smallest that counts, and how often each counts."""
    try:
        score = np.asarray(scores)
        count = np.ones(score.shape, np.int64) if counts is None else np.asarray(counts)
    except ValueError:  # rows of different lengths
        score = count = np.asarray(None)
    fits = (
        score.ndim == 1 and score.shape == count.shape and {score.dtype.kind, count.dtype.kind} <= set("iu")
    )
    if not fits or not np.all((count >= 0) & (count <= LARGEST)) or not np.any(count > 0):
        raise ParameterError(
            "scores and counts do not fit",
            given=f"{score.dtype} scores of shape {score.shape}, {count.dtype} counts of shape {count.shape}",
            needed="whole scores in one row, and a count for each, from 0 to 2^62, not all 0",
            fix="exponential_mechanism([0, 3, 5], eta, counts=[1, 10, 4])",
        )
    smallest = score[count > 0].min()
    return score.astype(np.uint64) - smallest.astype(np.uint64), count.astype(np.int64)  # exact modulo 2^64


def as_real(number: Fraction | Real) -> Real:
    """A rational as a function that encloses it; what is one already, as it is."""
    return number if callable(number) else lambda: ball(number)


def probability(name: str, value: Number) -> Fraction:
    """An exact rational from 0 to 1."""
    p = rational(name, value)
    if not 0 <= p <= 1:
        raise ParameterError(
            f"{name} is not a probability",
            given=told(**{name: show(p)}),
            needed="a number from 0 to 1",
            fix=setting(**{name: "0.5"}),
        )
    return p


# Exact binomial counts, at a cost that does not grow with them.


def binomial(n: int, p: Number | Real, bits: Bits | None = None) -> int:
    """How many of n independent trials succeed, each with probability p; n is at most 2^62.

    `p` is a rational in [0, 1], or a function that encloses a real strictly between. The cost does not
    grow with n or np: about 8 proposals, half a millisecond in all.

    Let f be the binomial law and m its mode (or next to it, with f(m) all but as large). f is log-concave,
    so f(m+k) <= f(m) e^(1 - f(m)|k|) [Devroye 1987]. For k > 0 let f(m+k) = f(m) e^-x, x >= 0. Then
    f(m+i) >= f(m) e^(-xi/k) for i = 0, ..., k; these sum to at most 1, so f(m) (1 - e^-x) <= 1 - e^(-x/k) <= x/k,
    and f(m) k <= x / (1 - e^-x) <= 1 + x. The other side is alike. Take a whole number t >= 1 / f(m). For |k| = jt + r, 0 <= r < t:

        f(m+k) / f(m) <= min(1, e^(1-j)) <= 2^(1-j).

    Propose j with probability 2^-(j+1), r below t and a sign, uniformly (0 with one sign only); accept
    with probability c 2^(j-1) f(m+k) / f(m). Whatever the constant c, accepted proposals follow f exactly.
    c = 1 - 2^-50 leaves room for an m that is next to the mode. The acceptance is decided on uniform reals,
    by enclosures from log-gamma.

    >>> 0 <= ob.noise.binomial(10, "1/3") <= 10, ob.noise.binomial(10, 1)
    (True, 10)
    """
    n = whole("n", n, most=LARGEST)
    bits = bits or system_bits()
    p = enclosing("p", p) if callable(p) else probability("p", p)
    if n == 0 or p in (0, 1):
        return n if p == 1 else 0
    real = as_real(p)
    mode, width = _mode_and_width(n, real)
    while True:
        slab, sign = _trailing_zeros(bits), bits.integer(1)
        away = slab * width + uniform_integer(width, bits)
        value = mode - away if sign else mode + away
        if not 0 <= value <= n or (sign and away == 0):
            continue

        def chance(value: int = value, slab: int = slab) -> Ball:
            log_ratio = _log_mass(n, real(), value) - _log_mass(n, real(), mode)
            return log_ratio.exp() * arb(2) ** (slab - 1) * (1 - 2.0**-50)

        if Uniform(bits, bits.integer(64), 64).below(chance):
            return value


def _mode_and_width(n: int, p: Real) -> tuple[int, int]:
    """The mode m, or a neighbour as likely up to a factor 1 + 2^-60, and a whole number t >= 1 / f(m).

    The mode is floor((n+1)p). The enclosure of (n+1)p may not tell on which side of a whole number m it
    lies, at a distance d < 2^-63. Then f(m-1) / f(m) = m(1-p) / ((n+1)p - mp) = 1 / (1 ± d / (m(1-p))), and
    m(1-p) is m(n+1-m)/(n+1), nearly, which is at least 1/2.
    """
    bits = 256
    while True:
        with precision(bits):
            at = (n + 1) * p()
            if at.rad() < 2.0**-64:
                mode = min(max(int(at.mid().floor().unique_fmpz()), 0), n)
                # not .neg(): up to python-flint 0.8 it gives x back
                scale = (-(arb(n + 1).lgamma() + _log_mass(n, p(), mode))).exp().upper()
                if scale.is_finite():
                    return mode, int(scale.ceil().unique_fmpz())
        bits *= 2


def _log_mass(n: int, p: Ball, k: int) -> Ball:
    """log of p^k (1-p)^(n-k) / (k! (n-k)!): the binomial law but for the factor n!."""
    powers = k * p.log() + (n - k) * (1 - p).log()
    return powers - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()


def _trailing_zeros(bits: Bits) -> int:
    """j with probability 2^-(j+1): how many tails before the first head."""
    count = 0
    while (word := bits.integer(64)) == 0:
        count += 64
    return count + (word & -word).bit_length() - 1
