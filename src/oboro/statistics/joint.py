"""Several quantiles at once by the joint exponential mechanism [Gillenwater, Joseph, Kulesza 2021], sampled exactly.

Outputs t_1 <= ... <= t_m cut the n rows into m + 1 pieces. The score is how far their sizes are from those that the
quantiles ask for, sum |size - wanted|, and outputs are taken with probability proportional to e^(-eta score).

Why it can be sampled
    Only the interval between two neighbouring rows in which an output lies matters for the score, and the score is a
    sum over consecutive outputs. Let F[j][i] be the total weight of the first j outputs if the last of them lie
    in interval i, and the next will lie further up. g outputs can be put into an interval of w places in
    binom(w + g - 1, g) ways in increasing order. So F follows from its predecessors by sums of products, and outputs
    are drawn from the last to the first in proportion to the summands.

Why it is exact
    All summands are positive, so in floating point every sum has a relative error below 8 m (3n + 50) 2^-53: each of
    at most m levels has a few products and one sum of at most n terms, and kernels are at most n products. A
    draw that this error could change is decided by ball arithmetic on more bits of the same uniform real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb
from typing import Any

import numpy as np
from flint import arb

from oboro.noise import Bits, uniform_integer
from oboro.noise.lazy import Uniform, ball, precision
from oboro.statistics.ranks import Ranks, fineness

MOST_QUANTILES = 12
MOST_ROWS = 4000  # the work grows with the square
_TINY = 2.0**-900


@dataclass(frozen=True, slots=True)
class Joint:
    """Rows on places, the pieces that are wanted, and the tables that sampling needs; made once, drawn from often."""

    edges: Any  # of intervals: interval i is edges[i] < place <= edges[i + 1]
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

    def _pick(self, weights: Any, bits: Bits) -> int:
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

    kernels: list[Any]  # [j][d] = e^(-eta |d - wanted of piece j|)
    ways: list[Any]  # [g][i] = binom(width + g - 1, g), scaled
    totals: list[Any]  # [j][i] = F
    reached: list[Any]  # [j][i] = sum over i' < i of F[j][i'] kernel(i - i')
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
        reached: list[Any] = [kernels[0]]
        tables = cls(kernels, ways, totals, reached, None)
        for j in range(1, m + 1):
            totals.append(sum(tables._summands(j)))
            if j < m:
                reached.append(_reach(totals[j], kernels[j]))
        return cls(kernels, ways, totals, reached, totals[m] * kernels[m][::-1])

    def _summands(self, j: int) -> list[Any]:
        """F[j], by how many outputs share the last interval."""
        parts = []
        same: Any = 1  # the pieces of size 0 between outputs in one interval
        for g in range(1, j + 1):
            parts.append(self.reached[j - g] * self.ways[g] * same)
            same = same * self.kernels[j - g][0]
        return parts

    def sizes(self, j: int, i: int) -> Any:
        return np.asarray([part[i] for part in self._summands(j)])

    def before(self, j: int, i: int) -> Any:
        return self.totals[j][:i] * self.kernels[j][i:0:-1]


def _kernel(eta: Fraction, wanted: Fraction, n: int, exact: bool) -> Any:
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


def _reach(totals: Any, kernel: Any) -> Any:
    """Sum over i' < i of totals[i'] kernel[i - i'], for each i."""
    size = len(totals)
    if totals.dtype != object:
        padded = np.concatenate([np.zeros(size), kernel[1:size], [0.0]])  # kernel[d] at size - 1 + d
        rows = np.lib.stride_tricks.sliding_window_view(padded[: 2 * size - 1], size)[:, ::-1]
        return rows @ totals
    out = [sum((totals[b] * kernel[i - b] for b in range(i)), arb(0)) for i in range(size)]
    return np.asarray(out, object)


def _numbers(values: Sequence[Fraction], exact: bool) -> Any:
    return np.asarray([ball(v) for v in values], object) if exact else np.asarray([float(v) for v in values])


def _increasing(low: int, high: int, count: int, bits: Bits) -> list[int]:
    """A uniform choice among all increasing (not strictly) sequences of `count` numbers in [low, high).

    Sequences a_1 <= ... <= a_g correspond to sets {a_1, a_2 + 1, ..., a_g + g - 1} of g different numbers.
    """
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(low + uniform_integer(high - low + count - 1, bits))
    return [value - place for place, value in enumerate(sorted(chosen))]
