"""The heart of order statistics and trimmed means: the best window around a place in sorted data.

Sorted data x_1 <= ... <= x_n are padded with the lowest value before and the highest after. A window reaches `a`
places to the left of one place, and gains g there; it reaches `b` places to the right of another, and gains h.
Its term is (gap + g + h) e^(-beta (a + b - 1)), and the smooth sensitivity is the largest of all.

For a fixed left end the best right end moves outwards as g falls: (g + h')/(g + h) with h' >= h falls as g grows. So
the search divides and conquers: O(n log n) after the sort. Ends from which even the widest window would be too
small are left out first; for most data few remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from oboro.arrays import Integers
from oboro.noise.laplace import as_float
from oboro.statistics.decay import Decaying, largest_terms, slack

_TINY = 2.0**-1000  # a smaller beta leaves nothing out anyway
_OUTER = 1 << 20  # so many windows are looked at one and all, without loading the compiler


@dataclass(frozen=True, slots=True)
class Sorted:
    """Sorted data by its distinct values: `values` increase, `last[i]` is the place of the last copy of values[i].

    Places count from 1. `low` and `high` are the bounds: places below 1 hold low, places above n hold high.
    """

    values: Integers
    last: Integers
    low: int
    high: int

    @classmethod
    def of(cls, values: Integers, low: int, high: int, counts: Integers | None = None) -> Sorted:
        """From values in any order; with `counts`, from distinct values that increase, and how often each occurs."""
        if counts is None:
            values, counts = np.unique(values, return_counts=True)
        return cls(values, np.cumsum(counts, dtype=np.int64), low, high)

    @property
    def n(self) -> int:
        return int(self.last[-1]) if self.last.size else 0

    def at(self, place: int) -> int:
        """The value at a place, inside or outside."""
        if place < 1:
            return self.low
        if place > self.n:
            return self.high
        return int(self.values[np.searchsorted(self.last, place)])

    def to_the_left(self, place: int) -> tuple[Integers, Integers]:
        """How far each smaller value is from `place`, counting from its last copy, and how much smaller it is."""
        here = self.at(place)
        smaller = np.searchsorted(self.values, here)
        reach = np.concatenate([[0], place - self.last[:smaller][::-1]])
        gain = np.concatenate([[0], here - self.values[:smaller][::-1]])
        return _with_bound(reach, gain, max(place, 0), here - self.low)

    def to_the_right(self, place: int) -> tuple[Integers, Integers]:
        """How far each larger value is from `place`, counting from its first copy, and how much larger it is."""
        here = self.at(place)
        larger = np.searchsorted(self.values, here, side="right")
        first = np.concatenate([[0], self.last])[larger:-1] + 1
        reach = np.concatenate([[0], first - place])
        gain = np.concatenate([[0], self.values[larger:] - here])
        return _with_bound(reach, gain, max(self.n + 1 - place, 0), self.high - here)


def widest(data: Sorted, left: int, right: int, beta: Fraction) -> Decaying:
    """The largest term of all windows that reach left of place `left` and right of place `right`."""
    gap = data.at(right) - data.at(left)
    a, g = data.to_the_left(left)
    b, h = data.to_the_right(right)
    # windows that reach one way only give a first bound; what cannot reach it is left out
    first = [(gap, 0), *_one_way(gap, a, g, beta), *_one_way(gap, b, h, beta)]
    w, k = np.asarray(first, np.int64).T
    bound = largest_terms(w, k, beta)
    if bound:
        best = max(float(np.log(float(w))) - as_float(beta) * k for w, k in bound)
        margin = slack(beta, max(k for _, k in bound))
        most = float(np.log(float(max(1, data.high - data.low)))) + margin
        limit = (most - best) / max(as_float(beta), _TINY) + 2
        a, g = _within(a, g, limit)
        b, h = _within(b, h, limit)
    both = _all_windows(gap, a, g, b, h) if a.size * b.size <= _OUTER else _search(gap, a, g, b, h, beta)
    w, k = (np.concatenate([one, two]) for one, two in zip((w, k), both, strict=True))
    return Decaying(largest_terms(w, k, beta), beta)


def _with_bound(reach: Integers, gain: Integers, far: int, most: int) -> tuple[Integers, Integers]:
    if gain[-1] < most:  # the bound itself, unless some value lies there already
        reach, gain = np.append(reach, far), np.append(gain, most)
    return reach.astype(np.int64), gain.astype(np.int64)


def _one_way(gap: int, reach: Integers, gain: Integers, beta: Fraction) -> list[tuple[int, int]]:
    return largest_terms(gap + gain[1:], reach[1:] - 1, beta)


def _within(reach: Integers, gain: Integers, limit: float) -> tuple[Integers, Integers]:
    kept = int(np.searchsorted(reach, limit, side="right")) if limit < 2**62 else reach.size
    return reach[: max(1, kept)], gain[: max(1, kept)]


def _all_windows(gap: int, a: Integers, g: Integers, b: Integers, h: Integers) -> tuple[Integers, Integers]:
    w = (gap + g[:, None] + h).ravel()[1:]  # the first reaches nowhere
    k = (a[:, None] + b).ravel()[1:] - 1
    return w, k


def _search(
    gap: int, a: Integers, g: Integers, b: Integers, h: Integers, beta: Fraction
) -> tuple[Integers, Integers]:
    from oboro.statistics.sensitivity._compiled import conquer

    rate = as_float(beta)
    margin = slack(beta, int(a[-1] + b[-1]))
    none = np.empty(0, np.int64)
    best, _ = conquer(gap, a, g, b, h, rate, margin, -np.inf, none, none)
    room = 1 << 12
    while True:
        w, k = np.empty(room, np.int64), np.empty(room, np.int64)
        _, found = conquer(gap, a, g, b, h, rate, margin, best - margin, w, k)
        if found <= room:
            return w[:found], k[:found]
        room *= 4
