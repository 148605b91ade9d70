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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb

from oboro.arrays import Integers
from oboro.noise import Bits, exponential_mechanism, uniform_integer
from oboro.noise.draws import uniform_integers
from oboro.noise.lazy import Uniform, ball, precision
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
    more than what it is a minimum of. So only rows near the quantile are looked at one by one.
    """
    n, grain = part.last - part.first, min(share.denominator, _GRAIN)
    wanted = math.floor(grain * share * n)
    eta = eps / (2 * math.ceil(grain * max(share, 1 - share)))
    cut = min(math.ceil((math.log(part.high - part.low) + 60) / eta) + grain, _HIGHEST)
    near = -(-cut // grain)
    start, stop = max(0, wanted // grain - near), min(n, wanted // grain + near + 1)
    # interval i holds the places with i rows of the part below them: (place of row i-1, place of row i]
    edges = np.empty(stop - start + 2, np.int64)
    if n:
        rows = np.arange(max(0, start - 1), min(n, stop + 1), dtype=np.int64) + part.first
        inner = ranks.places(rows, fine)
        edges[(1 if start == 0 else 0) : (1 if start == 0 else 0) + inner.size] = inner
    if start == 0:
        edges[0] = part.low - 1
    if stop == n:
        edges[-1] = part.high - 1
    edges = np.clip(edges, part.low - 1, part.high - 1)
    below = np.arange(start, stop + 1, dtype=np.int64)
    scores = np.minimum(np.abs(grain * below - wanted), cut)
    counts = np.diff(edges)
    left, right = int(edges[0]) - (part.low - 1), part.high - 1 - int(edges[-1])
    chosen = exponential_mechanism(np.append(scores, [cut, cut]), eta, np.append(counts, [left, right]), bits)
    if chosen < counts.size:
        place = int(edges[chosen]) + 1 + uniform_integer(int(counts[chosen]), bits)
        return place, part.first + start + chosen
    far = part.low if chosen == counts.size else int(edges[-1]) + 1
    place = far + uniform_integer(left if chosen == counts.size else right, bits)
    return place, part.first + _rows_below(ranks, fine, part, place)


def _rows_below(ranks: Ranks, fine: int, part: _Part, place: int) -> int:
    """How many rows of the part lie below a place, by bisection."""
    low, high = 0, part.last - part.first
    while low < high:
        middle = (low + high) // 2
        at = int(ranks.places(np.asarray([part.first + middle], np.int64), fine)[0])
        low, high = (middle + 1, high) if at < place else (low, middle)
    return low


# Several quantiles at once by the joint exponential mechanism [Gillenwater, Joseph, Kulesza 2021], sampled exactly.
#
# Outputs t_1 <= ... <= t_m cut the n rows into m + 1 pieces. The score is how far their sizes are from those that the
# quantiles ask for, sum |size - wanted|, and outputs are taken with probability proportional to e^(-eta score).
#
# Why it can be sampled
#     Only the interval between two neighbouring rows in which an output lies matters for the score, and the score is a
#     sum over consecutive outputs. Let F[j][i] be the total weight of the first j outputs if the last of them lie
#     in interval i, and the next will lie further up. g outputs can be put into an interval of w places in
#     binom(w + g - 1, g) ways in increasing order. So F follows from its predecessors by sums of products, and outputs
#     are drawn from the last to the first in proportion to the summands.
#
# Why it is exact
#     All summands are positive, so in floating point every sum has a relative error below 8 m (3n + 50) 2^-53: each of
#     at most m levels has a few products and one sum of at most n terms, and kernels are at most n products. A
#     draw that this error could change is decided by ball arithmetic on more bits of the same uniform real.

Weights: TypeAlias = npt.NDArray[Any]  # floats, or balls

MOST_QUANTILES = 12
MOST_ROWS = 4000  # the work grows with the square
_TINY = 2.0**-900


@dataclass(frozen=True, slots=True)
class Joint:
    """Rows on places, the pieces that are wanted, and the tables that sampling needs; made once, drawn from often."""

    edges: Integers  # of intervals: interval i is edges[i] < place <= edges[i + 1]
    fine: int
    size: int
    wanted: tuple[Fraction, ...]
    eta: Fraction
    _tables: dict[int, _Tables] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, ranks: Ranks, size: int, quantiles: Sequence[Fraction], eta: Fraction) -> Joint:
        fine = fineness(size)
        places = ranks.places(np.arange(ranks.rows, dtype=np.int64), fine)
        edges = np.concatenate([[-1], places, [(size << fine) - 1]])
        cuts = [Fraction(0), *quantiles, Fraction(1)]
        wanted = tuple((b - a) * ranks.rows for a, b in pairwise(cuts))
        return cls(edges, fine, size, wanted, eta)

    @property
    def rows(self) -> int:
        return len(self.edges) - 2

    def draw(self, bits: Bits) -> list[int]:
        """Codes near all quantiles, in order."""
        left = len(self.wanted) - 1
        interval = self._pick(lambda t: t.ends, bits)
        groups: list[tuple[int, int]] = []
        while True:
            count = 1 + self._pick(lambda t, j=left, i=interval: t.sizes(j, i), bits)
            groups.append((interval, count))
            left -= count
            if left == 0:
                break
            interval = self._pick(lambda t, j=left, i=interval: t.before(j, i), bits)
        found: list[int] = []
        for interval, count in groups:
            low, high = int(self.edges[interval]) + 1, int(self.edges[interval + 1]) + 1
            found += _increasing(low, high, count, bits)
        return [min(place >> self.fine, self.size - 1) for place in sorted(found)]

    def _pick(self, weights: Callable[..., Weights], bits: Bits) -> int:
        """An index in proportion to its weight: by floats if they are sure, else by balls."""
        u = Uniform(bits, bits.integer(64), 64)
        sums = np.cumsum(weights(self._at(0)))
        total = float(sums[-1])
        if total > _TINY:
            at = u.value * 2.0**-64 * total
            slack = total * (8 * len(self.wanted) * (3 * self.rows + 50) * 2.0**-53 + 2.0**-60)
            i = int(np.searchsorted(sums, at, side="right"))
            if i < sums.size and (i == 0 or sums[i - 1] + slack <= at) and at + slack < sums[i]:
                return i
        while True:
            with precision(2 * u.known):
                balls = list(accumulate(weights(self._at(2 * u.known))))
                at = u.ball() * balls[-1]
                i = next((i for i, edge in enumerate(balls) if not edge <= at), len(balls))
                if i < len(balls) and at < balls[i]:
                    return i
            u.extend(u.known)

    def _at(self, bits: int) -> _Tables:
        """Tables in floats (0), or in balls of so many bits."""
        if bits not in self._tables:
            with precision(bits or 128):
                self._tables[bits] = _Tables.of(self, exact=bits > 0)
        return self._tables[bits]


@dataclass(frozen=True, slots=True)
class _Tables:
    """Weights of everything that may be drawn, as floats or as balls."""

    kernels: list[Weights]  # [j][d] = e^(-eta |d - wanted of piece j|)
    ways: list[Any]  # [g][i] = binom(width + g - 1, g), scaled
    totals: list[Any]  # [j][i] = F
    reached: list[Weights]  # [j][i] = sum over i' < i of F[j][i'] kernel(i - i')
    ends: Any

    @classmethod
    def of(cls, joint: Joint, *, exact: bool) -> _Tables:
        n, m = joint.rows, len(joint.wanted) - 1
        widths = [int(w) for w in np.diff(joint.edges)]
        kernels = [_kernel(joint.eta, wanted, n, exact) for wanted in joint.wanted]
        scale = joint.size << joint.fine
        ways: list[Any] = [None]  # an interval of no width, between tied places, has none
        for g in range(1, m + 1):
            ways.append(_numbers([Fraction(comb(w + g - 1, g), scale**g) for w in widths], exact))
        totals: list[Any] = [None]
        reached: list[Weights] = [kernels[0]]
        tables = cls(kernels, ways, totals, reached, None)
        for j in range(1, m + 1):
            totals.append(sum(tables._summands(j)))
            if j < m:
                reached.append(_reach(totals[j], kernels[j]))
        return cls(kernels, ways, totals, reached, totals[m] * kernels[m][::-1])

    def _summands(self, j: int) -> list[Weights]:
        """F[j], by how many outputs share the last interval."""
        parts = []
        same: Any = 1  # the pieces of size 0 between outputs in one interval
        for g in range(1, j + 1):
            parts.append(self.reached[j - g] * self.ways[g] * same)
            same = same * self.kernels[j - g][0]
        return parts

    def sizes(self, j: int, i: int) -> Weights:
        return np.asarray([part[i] for part in self._summands(j)])

    def before(self, j: int, i: int) -> Weights:
        found: Weights = self.totals[j][:i] * self.kernels[j][i:0:-1]
        return found


def _kernel(eta: Fraction, wanted: Fraction, n: int, exact: bool) -> Weights:
    """e^(-eta |d - wanted|) for d = 0, ..., n, from three exponentials and powers."""
    down, up = wanted.numerator // wanted.denominator, -(-wanted.numerator // wanted.denominator)
    first, second, ratio = (ball(-eta * x).exp() for x in (wanted - down, up - wanted, Fraction(1)))
    if exact:
        values = [
            first * ratio ** (down - d) if d <= down else second * ratio ** (d - up) for d in range(n + 1)
        ]
        return np.asarray(values, object)
    powers = np.cumprod(np.concatenate([[1.0], np.full(n + 1, float(ratio.mid()))]))
    d = np.arange(n + 1)
    return np.where(
        d <= down,
        float(first.mid()) * powers[np.maximum(down - d, 0)],
        float(second.mid()) * powers[np.maximum(d - up, 0)],
    )


def _reach(totals: Weights, kernel: Weights) -> Weights:
    """Sum over i' < i of totals[i'] kernel[i - i'], for each i."""
    size = len(totals)
    if totals.dtype != object:
        padded = np.concatenate([np.zeros(size), kernel[1:size], [0.0]])  # kernel[d] at size - 1 + d
        rows = np.lib.stride_tricks.sliding_window_view(padded[: 2 * size - 1], size)[:, ::-1]
        return rows @ totals
    out = [sum((totals[b] * kernel[i - b] for b in range(i)), arb(0)) for i in range(size)]
    return np.asarray(out, object)


def _numbers(values: Sequence[Fraction], exact: bool) -> Weights:
    return np.asarray([ball(v) for v in values], object) if exact else np.asarray([float(v) for v in values])


def _increasing(low: int, high: int, count: int, bits: Bits) -> list[int]:
    """A uniform choice among all increasing (not strictly) sequences of `count` numbers in [low, high).

    Sequences a_1 <= ... <= a_g correspond to sets {a_1, a_2 + 1, ..., a_g + g - 1} of g different numbers.
    """
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(low + uniform_integer(high - low + count - 1, bits))
    return [value - place for place, value in enumerate(sorted(chosen))]
