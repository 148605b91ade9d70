"""Several quantiles by recursive splitting, and one quantile on the grid; both sampled exactly.

    one quantile       permute-and-flip: the score of a value is how many ranks it is away from the quantile, below 0 where the
                       quantile lies among rows that share the value
    recursive          the middle quantile first, then those below among the rows below, and so on [Kaplan, Schnapp,
                       Stemmer 2022]: a row takes part once in each level, so levels share the price, not quantiles

Both are given whole scores with how many values share them, so that a draw costs as much as there are distinct values, not as
the grid. The exponential mechanism, which splits, picks a value with probability proportional to e^(-eta score).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from oboro.arrays import Integers
from oboro.noise import Bits, exponential_mechanism, uniform_integer
from oboro.noise.draws import bernoulli_exp, uniform_integers
from oboro.noise.selection import permuted_and_flipped

# Sorted values as a search for quantiles sees them: on the public grid, with ties spread over their step.
#
# Several quantiles need values that differ. So each step of the grid is divided into K = 2^24 places (fewer on a huge
# grid), and the i-th of the rows that share a value goes to place number `reversed(i)`, the bits of i in reverse
# order: 0, 1/2, 1/4, 3/4, 1/8, ... of the step. Which row is the i-th does not matter: rows that share a value are
# alike. One row more or less is one place more or less, so neighbours stay neighbours, and the places fill the
# step evenly. A place leads back to its value, whatever its part of the step.

_FINEST_BITS = 24  # bits


@dataclass(frozen=True, slots=True)
class Ranks:
    """The distinct codes that occur, in order, and how many rows lie at or below each."""

    codes: Integers
    upto: Integers
    placed: tuple[int, Integers] | None = None  # bits, and where each row lies: for many draws from few rows

    @classmethod
    def of(cls, codes: Integers, counts: Integers) -> Ranks:
        order = np.argsort(codes, kind="stable")  # quick where they are in order already
        return cls(codes[order], np.cumsum(counts[order], dtype=np.int64))

    @property
    def rows(self) -> int:
        return int(self.upto[-1]) if self.upto.size else 0

    def places(self, ranks: Integers, bits: int) -> Integers:
        """Where the rows of these ranks (0 is the lowest) lie: code * 2^bits + place in the step."""
        if self.placed is not None and self.placed[0] == bits:
            return self.placed[1][ranks]
        at = np.searchsorted(self.upto, ranks, side="right")
        before = np.concatenate([[0], self.upto])[at]
        return (self.codes[at] << bits) + spread(self.upto[at] - before, ranks - before, bits)

    def looked_up(self, bits: int) -> Ranks:
        """The same, with the place of each row kept at hand if there are not too many."""
        if self.rows > _AT_HAND:
            return self
        return replace(self, placed=(bits, self.places(np.arange(self.rows, dtype=np.int64), bits)))


_AT_HAND = 2**20  # rows


def fineness(size: int) -> int:
    """How many bits of a place in a step fit beside a grid of this size."""
    return max(0, min(_FINEST_BITS, 61 - (size - 1).bit_length()))


def spread(ties: Integers, rank: Integers, bits: int) -> Integers:
    """The rank-th smallest of reversed(0), ..., reversed(ties - 1), for each pair.

    Digit by digit: among i < ties with the low bits so far, those whose next bit is 0 come first. There are
    ceil((ties - low bits)/2^(digit + 1)) of them. With more than 2^bits ties the places repeat.
    """
    left, low, place = rank.copy(), np.zeros_like(rank), np.zeros_like(rank)
    for digit in range(bits):
        zeros = np.maximum(0, -(-(ties - low) >> (digit + 1)))
        one = left >= zeros
        left = np.where(one, left - zeros, left)
        low = np.where(one, low + (1 << digit), low)
        place = np.where(one, place + (1 << (bits - 1 - digit)), place)
    return place


def rows_below(ranks: Ranks, bits: int, place: int) -> int:
    """How many rows lie below a place: those with a smaller code, and of its own those that `spread` puts below it."""
    code = place >> bits
    at = int(np.searchsorted(ranks.codes, code))
    found = int(ranks.upto[at - 1]) if at else 0
    if at == ranks.codes.size or ranks.codes[at] != code:
        return found
    ties, low = int(ranks.upto[at]) - found, 0
    for digit in range(bits):
        if place >> (bits - 1 - digit) & 1:
            found += max(0, -(-(ties - low) >> (digit + 1)))
            low += 1 << digit
    return found


def edges_between(ranks: Ranks, size: int, bits: int, low: int, high: int) -> Integers:
    """The ends of intervals low, ..., high, where interval i has i rows below it: from the place of row i - 1 to that of row i."""
    rows = np.arange(max(0, low - 1), min(ranks.rows, high + 1), dtype=np.int64)
    parts = [ranks.places(rows, bits)] if rows.size else []
    before, after = [[-1]] if low == 0 else [], [[(size << bits) - 1]] if high == ranks.rows else []
    return np.concatenate([*before, *parts, *after]).astype(np.int64)


_GRAIN = 2**24  # of a score: the denominators of shares of shares have up to 60 bits
_HIGHEST = 2**62  # score; with fewer than 2^38 rows none is as high


def grid_quantile(ranks: Ranks, size: int, q: Fraction, eta: Fraction, bits: Bits) -> int:
    """A code near the q-quantile, by permute-and-flip with e^(-eta * score).

    With a rows below the value, b at or below it and n in all, the score is denominator * max(a - qn, qn - b), a whole number:
    at most 0 at the quantile, and the lower the more rows share its value.
    """
    scores, starts, counts = _grid(ranks, size, q)
    chosen = int(permuted_and_flipped(scores, eta, 1, counts, bits)[0])
    return int(starts[chosen]) + uniform_integer(int(counts[chosen]), bits)


def grid_quantiles(ranks: Ranks, size: int, q: Fraction, eta: Fraction, bits: Bits, trials: int) -> Integers:
    """Many independent draws of `grid_quantile` at once."""
    scores, starts, counts = _grid(ranks, size, q)
    chosen = permuted_and_flipped(scores, eta, trials, counts, bits)
    found = starts[chosen]
    for index in np.unique(chosen):
        mine = chosen == index
        found[mine] += uniform_integers(int(counts[index]), int(mine.sum()), bits)
    return found


def _grid(ranks: Ranks, size: int, q: Fraction) -> tuple[Integers, Integers, Integers]:
    """Scores of the values before the first code, of the first code, of those between, of the second code, ...;
    the first value of each, and how many there are."""
    n, p, s = ranks.rows, q.numerator, q.denominator
    codes = ranks.codes
    below = np.concatenate([[0], ranks.upto])  # below[i]: rows below the i-th distinct code
    starts = np.empty(2 * codes.size + 1, np.int64)
    counts = np.empty_like(starts)
    starts[1::2], counts[1::2] = codes, 1
    starts[0::2] = np.concatenate([[0], codes + 1])
    counts[0::2] = np.concatenate([codes, [size]]) - starts[0::2]
    a = np.repeat(below, 2)[:-1]
    b = np.repeat(below, 2)[1:]
    scores = np.maximum(s * a - p * n, p * n - s * b)
    return scores, starts, counts


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows first, ..., last - 1 lie on places low, ..., high - 1; the quantiles between `below` and `above` are
    looked for here."""

    first: int
    last: int
    low: int
    high: int
    below: Fraction
    above: Fraction


def levels(quantiles: int) -> int:
    """How often the rows are split: ceil(log2(quantiles + 1))."""
    return quantiles.bit_length()


def split_errors(quantiles: Sequence[Fraction], own: Callable[[Fraction], float]) -> list[float]:
    """How far each quantile may be off, if one that is looked for at a share of a part is off by own(share) more.

    The ends of a part are off as well. They move what is looked for in proportion to how near they are.
    """
    found = [0.0] * len(quantiles)
    parts = [(0, len(quantiles), Fraction(0), Fraction(1), 0.0, 0.0)]
    while parts:
        first, last, below, above, off_below, off_above = parts.pop()
        if first < last:
            middle = (first + last) // 2
            q = quantiles[middle]
            share = (q - below) / (above - below)
            found[middle] = own(share) + float(1 - share) * off_below + float(share) * off_above
            parts.append((first, middle, below, q, off_below, found[middle]))
            parts.append((middle + 1, last, q, above, found[middle], off_above))
    return found


def split_quantiles(
    ranks: Ranks, size: int, quantiles: Sequence[Fraction], eps: Fraction, bits: Bits
) -> list[int]:
    """Codes near all quantiles (in increasing order). Adding or removing a row costs `eps` in each level.

    In one part with n rows and the quantile q of the part, the score of a place with a rows below it is |g a - floor(g q n)|, for
    a public whole number g: the denominator of q, or 2^24 if that is smaller. A row more or less changes g a - g q n by
    -g q or by g (1 - q), hence the score by at most D = ceil(g max(q, 1 - q)), and eta = eps/(2 D) costs eps.
    g a stays below 2^62, as there are fewer than 2^38 rows.
    """
    fine = fineness(size)
    found: list[int] = [0] * len(quantiles)
    parts = [(_Part(0, ranks.rows, 0, size << fine, Fraction(0), Fraction(1)), 0, len(quantiles))]
    while parts:
        part, first, last = parts.pop()
        if first == last:
            continue
        middle = (first + last) // 2
        share = (quantiles[middle] - part.below) / (part.above - part.below)
        place, row = _split(ranks, fine, part, share, eps, bits)
        found[middle] = min(place >> fine, size - 1)
        q = quantiles[middle]
        parts.append(
            (_Part(part.first, row, part.low, max(place, part.low + 1), part.below, q), first, middle)
        )
        parts.append(
            (_Part(row, part.last, min(place, part.high - 1), part.high, q, part.above), middle + 1, last)
        )
    return found


def _split(
    ranks: Ranks, fine: int, part: _Part, share: Fraction, eps: Fraction, bits: Bits
) -> tuple[int, int]:
    """A place near the quantile of a part, and the first row that is not below it.

    Scores are cut off where they no longer matter, at a public height: a minimum with a constant changes no
    more than what it is a minimum of. So only rows near the quantile are looked at, and `_block` of them together: a place is
    proposed with the smallest score of its block and kept with probability e^(-eta (its own score - that one)), which is no less
    than e^(-1/4). What is kept follows the law exactly, and a draw costs the same at any n and eps.
    """
    n, grain = part.last - part.first, min(share.denominator, _GRAIN)
    wanted = grain * share.numerator * n // share.denominator
    eta = _eta(share, eps)
    cut = min(math.ceil((math.log(part.high - part.low) + 60) / eta) + grain, _HIGHEST)
    near, block = -(-cut // grain), _block(eta * grain)
    start, stop = max(0, wanted // grain - near), min(n, wanted // grain + near + 1)
    # interval i holds the places with i rows of the part below them: (place of row i-1, place of row i]
    first = np.arange(start, stop + 1, block, dtype=np.int64)  # interval of each block
    last = np.append(first[1:] - 1, stop)
    edges = np.append(first - 1, stop)  # rows, and then their places
    inner = (edges >= 0) & (edges < n)
    edges[inner] = ranks.places(edges[inner] + part.first, fine)
    if start == 0:
        edges[0] = part.low - 1
    if stop == n:
        edges[-1] = part.high - 1
    edges = np.minimum(np.maximum(edges, part.low - 1), part.high - 1)
    counts = edges[1:] - edges[:-1]
    left, right = int(edges[0]) - (part.low - 1), part.high - 1 - int(edges[-1])
    scores = np.full(
        first.size + 2, cut, np.int64
    )  # of each block, and of what lies beyond them on either side
    near_ones = np.maximum(np.maximum(grain * first - wanted, wanted - grain * last), 0)
    np.minimum(near_ones, cut, out=scores[:-2])
    choices = scores, eta, np.append(counts, [left, right])
    while True:
        chosen = exponential_mechanism(*choices, bits)
        if chosen < counts.size:
            place = int(edges[chosen]) + 1 + uniform_integer(int(counts[chosen]), bits)
            if block == 1:
                return place, part.first + start + chosen
        else:
            far = part.low if chosen == counts.size else int(edges[-1]) + 1
            place = far + uniform_integer(left if chosen == counts.size else right, bits)
        row = min(max(rows_below(ranks, fine, place), part.first), part.last)
        if chosen >= counts.size:
            return place, row
        score = min(abs(grain * (row - part.first) - wanted), cut)
        if bernoulli_exp(eta * (score - int(scores[chosen])), 1, bits)[0]:
            return place, row


@lru_cache(maxsize=1024)
def _eta(share: Fraction, eps: Fraction) -> Fraction:
    """How much the score of a part counts, in which the quantile `share` is looked for."""
    grain = min(share.denominator, _GRAIN)
    return eps / (2 * math.ceil(grain * max(share, 1 - share)))


def _block(rate: Fraction) -> int:
    """How many rows are drawn together, by how much one row changes eta times the score: in a block it changes by 1/4 at most."""
    return max(1, math.floor(1 / (4 * rate)))
