"""Exact draws of the finite kind: integers, orders, subsets, coins, counts and choices.

Each function has exactly the law that it names, for uniform bits. None uses a float to decide, except
through bounds that are proved; what the bounds leave open is settled with as many more bits as it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from oboro.errors import ParameterError
from oboro.exact import not_negative, rational, show, whole
from oboro.noise.bits import Bits, Words, system_bits
from oboro.noise.lazy import Ball, Real, Uniform, ball, precision

Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Size = int | tuple[int, ...]
Scalar = TypeVar("Scalar", bound=np.generic)

_LARGEST = 1 << 62
_ALL = 1 << 64  # so many words of 64 bits


# -- integers, orders, subsets ---------------------------------------------------------------------------


def uniform_integer(below: int, bits: Bits | None = None) -> int:
    """A whole number in [0, below), of any width: just enough bits, drawn again while they are too large.

    Every number below `below` is as likely as any other before the rejection, hence after it.
    """
    below = whole("below", below, least=1)
    bits = bits or system_bits()
    while True:
        value = bits.integer((below - 1).bit_length())
        if value < below:
            return value


def uniform_integers(below: int, size: Size, bits: Bits | None = None) -> Integers:
    """Many whole numbers in [0, below), below at most 2^63, by the same rejection: at most 2 words each, on average."""
    below = whole("below", below, least=1, most=1 << 63)
    bits = bits or system_bits()
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
    """
    n = whole("n", n, most=1 << 32)
    bits = bits or system_bits()
    while True:
        words = bits.words(n)
        order = np.argsort(words)
        words = words[order]
        if not np.any(words[1:] == words[:-1]):
            return order.astype(np.int64)


def shuffle(array: npt.NDArray[Scalar], bits: Bits | None = None) -> npt.NDArray[Scalar]:
    """A copy with its rows in uniform order."""
    return array[permutation(len(array), bits)]


def choose(n: int, k: int, bits: Bits | None = None) -> Integers:
    """A uniform set of k distinct numbers below n, in increasing order; n is at most 2^62 and is never listed.

    Draws numbers until k of them differ. Renaming the numbers renames the set and changes nothing else,
    so all sets of k are equally likely. If k > n/2, chooses what to leave out instead: each draw is new
    with probability 1/2 or more.
    """
    n = whole("n", n, most=_LARGEST)
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


def bernoulli(p: Any, size: Size, bits: Bits | None = None) -> Bools:
    """True with probability p exactly: whether a uniform real is below p.

    `p` is a rational in [0, 1], or a function that encloses a real there. The first 64 bits of the uniform
    settle it unless they meet the enclosure of p, once in 2^64 or so; then `Uniform.below` goes on from them.
    """
    threshold = p if callable(p) else _constant(_chance("p", p))
    return _below(threshold, size, bits or system_bits())


def bernoulli_exp(x: Any, size: Size, bits: Bits | None = None) -> Bools:
    """True with probability e^-x exactly, for a rational x >= 0."""
    exact = not_negative("x", x)
    return _below(lambda: (-ball(exact)).exp(), size, bits or system_bits())


def _below(threshold: Real, size: Size, bits: Bits) -> Bools:
    with precision(192):
        at = threshold() * _ALL
        low, high = at.floor().lower(), at.ceil().upper()
    words = bits.words(int(np.prod(size, dtype=np.int64))).reshape(size)
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


def _constant(number: Fraction) -> Real:
    return lambda: ball(number)


def _chance(name: str, value: Any) -> Fraction:
    p = rational(name, value)
    if not 0 <= p <= 1:
        raise ParameterError(
            f"{name} is not a probability", given=f"{name}={show(p)}", needed="a number from 0 to 1", fix=f'{name}="0.5"'
        )
    return p
