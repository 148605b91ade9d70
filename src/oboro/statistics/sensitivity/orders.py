"""Sensitivities of order statistics and trimmed means, under replacement of one value.

What these functions return depends on the data and is private: they are for study. Releases use the same
numbers without showing them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, whole
from oboro.kinds import list_of, takes
from oboro.noise.laplace import as_float
from oboro.statistics.smooth_noise import Decaying, largest_terms, slack

# The heart of order statistics and trimmed means: the best window around a place in sorted data.
#
# Sorted data x_1 <= ... <= x_n are padded with the lowest value before and the highest after. A window reaches `a`
# places to the left of one place, and gains g there; it reaches `b` places to the right of another, and gains h.
# Its term is (gap + g + h) e^(-beta (a + b - 1)), and the smooth sensitivity is the largest of all.
#
# For a fixed left end the best right end moves outwards as g falls: (g + h')/(g + h) with h' >= h falls as g grows. So
# the search divides and conquers: O(n log n) after the sort. Ends from which even the widest window would be too
# small are left out first; for most data few remain.

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


_DECIMALS = 15
_LARGEST = 2**61  # of a value on its grid: differences still fit into 64 bits


def local_order_statistic(values: npt.ArrayLike, rank: int, bounds: Sequence[Number]) -> float:
    """How far replacing one value moves the value of this rank (1 is the smallest), for these very data.

    >>> from oboro.statistics.sensitivity import local_order_statistic
    >>> local_order_statistic([1, 2, 3, 4, 100], 3, (0, 100))
    1.0
    """
    data, step = on_grid(values, bounds)
    rank = whole("rank", rank, least=1, most=data.n)
    here = data.at(rank)
    return float(step * max(data.at(rank + 1) - here, here - data.at(rank - 1)))


def smooth_order_statistic(values: npt.ArrayLike, rank: int, bounds: Sequence[Number], beta: Number) -> float:
    """The beta-smooth sensitivity of the value of this rank: max over k of e^(-beta k) times the largest local
    sensitivity after k replacements.

    >>> from oboro.statistics.sensitivity import smooth_order_statistic
    >>> smooth_order_statistic([1, 2, 3, 4, 100], 3, (0, 100), 1)
    35.6843...
    """
    data, step = on_grid(values, bounds)
    return float(order_statistic(data, whole("rank", rank, least=1, most=data.n), beta).times(step))


def smooth_trimmed_mean(values: npt.ArrayLike, trim: int, bounds: Sequence[Number], beta: Number) -> float:
    """The beta-smooth sensitivity of the mean without the `trim` smallest and the `trim` largest values.

    >>> from oboro.statistics.sensitivity import smooth_trimmed_mean
    >>> smooth_trimmed_mean([1, 2, 3, 4, 100], 1, (0, 100), 1)
    32.6666...
    """
    data, step = on_grid(values, bounds)
    return float(trimmed_mean(data, trim, beta).times(step))


def order_statistic(data: Sorted, rank: int, beta: Number) -> Decaying:
    """max over i <= rank <= j of (x_j - x_i) e^(-beta (j-i-1)), in steps of the grid.

    After k replacements the value of this rank can be pushed anywhere between x_(rank-k) and x_(rank+k), and one more
    replacement moves it across a window of k + 1 gaps that holds the rank [Nissim, Raskhodnikova, Smith 2007].
    """
    return widest(data, rank, rank, positive("beta", beta))


def trimmed_mean(data: Sorted, trim: int, beta: Number) -> Decaying:
    """max of (x_(n-m+b) - x_(m+1-a)) e^(-beta (a+b-1)) / (n - 2m) over a + b >= 1, in steps of the grid.

    One replacement moves the kept sum by at most the range of the values that are, or could be, kept; k earlier
    ones widen that range by a places at one end and b at the other, a + b = k + 1.
    """
    trim = whole("trim", trim, least=0, most=max(0, (data.n - 1) // 2))
    kept = data.n - 2 * trim
    return widest(data, trim + 1, data.n - trim, positive("beta", beta)).times(Fraction(1, kept))


@takes(bounds=list_of)
def on_grid(values: npt.ArrayLike, bounds: Sequence[Number]) -> tuple[Sorted, Fraction]:
    """Values clamped to their bounds, as whole numbers of a common step, sorted; and the step."""
    if len(bounds) != 2:
        raise ParameterError(
            "bounds are two numbers", given=f"{len(bounds)} of them", fix=setting(bounds=(0, 10))
        )
    low, high = (rational("bounds", bound) for bound in bounds)
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if high < low or array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biuf":
        raise ParameterError(
            "values and bounds do not fit",
            given=f"{array.dtype} values of shape {array.shape}, " + told(bounds=f"{tuple(bounds)}"),
            needed="numbers in one row, at least one, and bounds from the lowest to the highest",
            fix="smooth_order_statistic([1, 2, 3], 2, (0, 10), beta=1)",
        )
    scale = math.lcm(low.denominator, high.denominator)
    if array.dtype.kind == "f":
        scale = math.lcm(scale, _decimal_scale(array))
    top = int(max(abs(low), abs(high)) * scale)
    if max(top, scale) > _LARGEST:
        raise _no_grid()
    if array.dtype.kind == "f":
        scaled = np.rint(np.clip(array, float(low), float(high)) * scale).astype(np.int64)
    else:
        scaled = np.clip(array, math.floor(low), math.ceil(high)).astype(np.int64) * scale
    ends = int(low * scale), int(high * scale)
    return Sorted.of(np.clip(scaled, *ends), *ends), Fraction(1, scale)


def _decimal_scale(array: Floats) -> int:
    """The smallest power of ten that makes every float a whole number: a float is the shortest decimal that prints it."""
    finite = array[np.isfinite(array)].astype(np.float64)
    if finite.size < array.size:
        raise _no_grid()
    for places in range(_DECIMALS + 1):
        scale: int = 10**places
        whole_numbers = np.rint(finite * scale)
        # division rounds to the nearest double, so equality says: this decimal is read as that double
        if np.all(np.abs(whole_numbers) < 2.0**53) and np.array_equal(whole_numbers / scale, finite):
            return scale
    raise _no_grid()


def _no_grid() -> ParameterError:
    return ParameterError(
        "the values lie on no common grid",
        given="floats with too many digits, or not finite",
        needed="whole numbers, or decimals with a common number of places",
        fix="np.round(values, 6)",
    )
