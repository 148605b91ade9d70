"""Several quantiles at once by the joint exponential mechanism [Gillenwater, Joseph, Kulesza 2021], sampled exactly.

Outputs t_1 <= ... <= t_m cut the n rows into m + 1 pieces. The score is how far their sizes are from those that the
quantiles ask for, sum |size - wanted|, but at most `cut`, a public number. Outputs are taken with probability proportional to
e^(-eta score). A minimum with a constant moves no more than what it is a minimum of, so the cut costs nothing; it is so
high that all outputs beyond it together weigh e^-60 of the best.

Why a draw costs the same at any n
    Let e_j be how many ranks output j is off. The pieces below t_j miss by |e_j| in all, those above it as well, so the score is at
    least 2 |e_j|: outputs with a score below the cut lie *near*, each within cut/2 ranks of what it is to be. So propose outputs
    with weight [near] e^(-eta sum) + e^(-eta cut): near ones by the tables below, others uniformly. That is no less than
    e^(-eta score), and at most twice that where the score is below the cut. Accepted with the quotient, proposals follow
    the law exactly; nearly all are accepted.

Why near outputs can be drawn
    Only the interval between two neighbouring rows in which an output lies matters, and the sum goes over consecutive
    outputs. Let F[j][i] be the weight of the first j outputs if the last of them lie in interval i (with i rows below), and the
    next lies further up. g outputs fit into an interval of w places in binom(w + g - 1, g) ways in increasing order. So F
    follows from its predecessors by sums of products, and outputs are drawn from the last to the first in proportion to
    the summands. A sum over predecessors x with e^(-eta |i - x - wanted|) is one over those below i - wanted and one over those
    above, each with weights that fall by e^-eta from row to row: sums over 1, 2, 4, ... rows give it in log n steps.

Why it is exact
    All summands are positive. Floats carry an exponent of their own, so none underflows, and each operation errs by 2^-53 of its
    result. Of an output a weight takes fewer than 8 (log2 rows + 8) operations. A draw that this error could change is decided by
    ball arithmetic on more bits of the same uniform real.
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
from flint import arb

from oboro.arrays import Floats, Integers
from oboro.noise import Bits, uniform_integer
from oboro.noise.lazy import Ball, Uniform, ball, precision
from oboro.statistics.ranks import Ranks, edges_between, fineness, rows_below

MOST_QUANTILES = 12  # the work grows with the square
MOST_GROUPS = 1000
MOST_NEAR = 1 << 18  # rows about each quantile that tables are made for
_BEYOND = 60  # all outputs beyond the cut weigh at most e^-60 of the best
_ROOM = 1 << 24  # floats that are kept between draws
_ERROR = 2.0**-52  # of an operation in floats, with room for what two errors make together


def cut_of(size: int, quantiles: int, eta: Fraction) -> int:
    """The score beyond which outputs are all alike. That of the best is at most 2 for each quantile, where values differ."""
    outputs = comb((size << fineness(size)) + quantiles - 1, quantiles)
    return math.ceil((math.log(outputs) + _BEYOND) / eta) + 2 * quantiles + 2


def near(size: int, quantiles: int, eta: Fraction) -> int:
    """How many rows about each quantile a draw looks at, at most: cut/2 on either side."""
    return cut_of(size, quantiles, eta) + 1


@dataclass(frozen=True, slots=True)
class Joint:
    """Rows on places, the pieces that are wanted, and the tables that sampling needs; made once, drawn from often."""

    ranks: Ranks
    size: int
    aims: tuple[Fraction, ...]  # 0, the rank of each quantile, n
    eta: Fraction
    cut: int
    windows: tuple[_Window, ...]
    _tables: dict[int, _Tables] = field(default_factory=dict, repr=False)
    _sums: dict[tuple[str, int, int], Floats] = field(
        default_factory=dict, repr=False
    )  # of weights in floats, while there is room

    @classmethod
    def of(cls, ranks: Ranks, size: int, quantiles: Sequence[Fraction], eta: Fraction) -> Joint:
        n, cut = ranks.rows, cut_of(size, len(quantiles), eta)
        aims = tuple(q * n for q in (Fraction(0), *quantiles, Fraction(1)))
        windows = []
        for aim in aims[1:-1]:
            low, high = max(0, math.ceil(aim - Fraction(cut, 2))), min(n, math.floor(aim + Fraction(cut, 2)))
            windows.append(_Window(low, high, edges_between(ranks, size, fineness(size), low, high)))
        return cls(ranks, size, aims, eta, cut, tuple(windows))

    def draw(self, bits: Bits) -> list[int]:
        """Codes near all quantiles, in order."""
        while True:
            places = self._proposed(bits)
            if Uniform(bits, bits.integer(64), 64).below(self._kept(places)):
                return [min(place >> fineness(self.size), self.size - 1) for place in places]

    def _kept(self, places: Sequence[int]) -> Callable[[], Ball]:
        """With which probability a proposal is kept: the weight of outputs over that with which they are proposed."""
        below = [rows_below(self.ranks, fineness(self.size), place) for place in places]
        if not all(w.low <= i <= w.high for w, i in zip(self.windows, below, strict=True)):
            return lambda: arb(1)
        off = [i - aim for i, aim in zip((0, *below, self.ranks.rows), self.aims, strict=True)]
        score = sum((abs(b - a) for a, b in pairwise(off)), Fraction(0))
        return lambda: 1 / (1 + ball(-self.eta * abs(self.cut - score)).exp())

    def _proposed(self, bits: Bits) -> list[int]:
        left = len(self.windows)
        last = self.windows[-1]
        i = self._pick("ends", 0, 0, bits)
        if i > last.high - last.low:  # anywhere
            return _increasing(0, self.size << fineness(self.size), left, bits)
        interval, found = last.low + i, list[int]()
        while True:
            count = 1 + self._pick("shared", left, interval, bits)
            first = self.windows[left - 1].first(interval)
            found += _increasing(first, first + self.windows[left - 1].width(interval), count, bits)
            left -= count
            if left == 0:
                return sorted(found)
            at = self._pick("before", left, interval, bits)
            interval = self.windows[left - 1].low + at

    def _pick(self, which: str, j: int, interval: int, bits: Bits) -> int:
        """An index in proportion to its weight: by floats if they are sure, else by balls."""
        u = Uniform(bits, bits.integer(64), 64)
        sums = self._sums.get((which, j, interval))
        if sums is None:
            sums = np.cumsum(self._at(0).weights(which, j, interval).plain())
            if (len(self._sums) + 1) * max(sums.size, self._at(0).ends.fraction.size) <= _ROOM:
                self._sums[which, j, interval] = sums
        at, operations = u.value * 2.0**-64 * float(sums[-1]), self._at(0).operations + sums.size
        slack = float(sums[-1]) * (4 * operations * _ERROR + 2.0**-60)
        i = int(np.searchsorted(sums, at, side="right"))
        if i < sums.size and (i == 0 or sums[i - 1] + slack <= at) and at + slack < sums[i]:
            return i
        while True:
            with precision(2 * u.known):
                balls = list(accumulate(self._at(2 * u.known).weights(which, j, interval)))
                at = u.ball() * balls[-1]
                i = next((i for i, edge in enumerate(balls) if not edge <= at), len(balls))
                if i < len(balls) and at < balls[i]:
                    return i
            u.extend(u.known)

    def _at(self, bits: int) -> _Tables:
        """Tables in floats (0), or in balls of so many bits."""
        if bits not in self._tables:
            with precision(bits or 128):
                self._tables[bits] = _Tables.of(self, _Balls() if bits else _Doubles())
        return self._tables[bits]


@dataclass(frozen=True, slots=True)
class _Window:
    """Intervals low, ..., high; interval i has i rows below it: the places edges[i - low] + 1, ..., edges[i - low + 1]."""

    low: int
    high: int
    edges: Integers

    def first(self, interval: int) -> int:
        return int(self.edges[interval - self.low]) + 1

    def width(self, interval: int) -> int:
        return int(self.edges[interval - self.low + 1]) + 1 - self.first(interval)


# -- tables ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """e^(-eta |size - wanted|): from `up` rows on it is `above` e^(-eta (size - up)), below that `below` e^(-eta (up - 1 - size))."""

    up: int
    above: Any
    below: Any
    none: Any  # of size 0, between two outputs in one interval

    def weights(self, sizes: Integers, powers: Weights) -> Weights:
        over = sizes >= self.up
        if bool(over.all()):
            return powers[sizes - self.up] * self.above
        if not bool(over.any()):
            return powers[self.up - 1 - sizes] * self.below
        cut = int(np.argmax(over != over[0]))  # sizes come in order, up or down
        return type(powers).joined([self.weights(sizes[:cut], powers), self.weights(sizes[cut:], powers)])


@dataclass(frozen=True, slots=True)
class _Tables:
    """Weights of everything that may be drawn, as floats or as balls. Outputs are 1, ..., m; piece j lies above output j."""

    windows: tuple[_Window, ...]
    pieces: list[_Piece]
    powers: Weights  # [k] = e^(-eta k)
    numbers: _Doubles | _Balls
    totals: list[Weights]  # [j] = F, in the window of output j
    reached: list[
        Weights
    ]  # [j] = sum over x < i of F[j][x] times piece j of size i - x, in the window of output j + 1
    ends: Weights

    @property
    def operations(self) -> float:
        return 8 * (len(self.pieces) + 1) * (math.log2(len(self.powers)) + 8)

    @classmethod
    def of(cls, joint: Joint, numbers: _Doubles | _Balls) -> _Tables:
        m, eta, aims = len(joint.windows), joint.eta, joint.aims
        n = joint.ranks.rows
        pieces = []
        for wanted in (b - a for a, b in pairwise(aims)):
            up = max(1, math.ceil(wanted))
            none = min(wanted, Fraction(joint.cut + 1))  # beyond the cut no interval is near both outputs
            factors = (numbers.exp(-eta * x) for x in (up - wanted, wanted - (up - 1), none))
            pieces.append(_Piece(up, *factors))
        powers = _powers(numbers, eta, min(joint.cut, n) + 2)
        first, last = joint.windows[0], joint.windows[-1]
        reached = [pieces[0].weights(np.arange(first.low, first.high + 1), powers)]
        tables = cls(joint.windows, pieces, powers, numbers, [numbers.none], reached, numbers.none)
        for j in range(1, m + 1):
            tables.totals.append(tables._total(j))
            if j < m:
                tables.reached.append(tables._reach(j, eta))
        after = pieces[m].weights(n - np.arange(last.low, last.high + 1), powers)
        outputs = comb((joint.size << fineness(joint.size)) + m - 1, m)
        anywhere = numbers.whole([outputs]) * numbers.exp(-eta * joint.cut)
        ends = type(after).joined([tables.totals[m] * after, anywhere])
        return replace(tables, ends=ends)

    def _total(self, j: int) -> Weights:
        """F[j]: outputs j - g + 1, ..., j share the last interval, for each g. An interval of no width takes none."""
        mine, numbers = self.windows[j - 1], self.numbers
        size = mine.high - mine.low + 1
        widths = np.diff(mine.edges)
        found, ways = numbers.zeros(size), numbers.whole([1])
        for g in range(1, j + 1):
            theirs = self.windows[j - g]
            count = theirs.high - mine.low + 1
            if count <= 0:
                break
            # binom(w + g - 1, g) from binom(w + g - 2, g - 1)
            ways = ways[:count] * numbers.whole(widths[:count] + (g - 1)) * numbers.share(g)
            part = self.reached[j - g][mine.low - theirs.low :] * ways * self._between(j, g)
            found = found + (part if count == size else _shifted(part, 0, size, numbers))
        return found

    def _between(self, j: int, g: int) -> Any:
        """Pieces of size 0 between outputs j - g + 1, ..., j, which share an interval."""
        found = self.numbers.exp(Fraction(0))
        for piece in self.pieces[j - g + 1 : j]:
            found = found * piece.none
        return found

    def _reach(self, j: int, eta: Fraction) -> Weights:
        mine, following, piece = self.windows[j - 1], self.windows[j], self.pieces[j]
        total, numbers = self.totals[j], self.numbers
        # those at least `up` below interval i: rows ..., i - up
        rising = _decayed(total[::-1], len(total), numbers, eta)[::-1]
        far = _shifted(
            rising, following.low - piece.up - mine.low, following.high - following.low + 1, numbers
        )
        # those nearer, but below it: rows i - up + 1, ..., i - 1
        start, count = following.low - piece.up + 1 - mine.low, following.high - following.low + 1
        behind = max(0, -start)
        padded = total if behind == 0 else type(total).joined([numbers.zeros(behind), total])
        falling = _decayed(padded, piece.up - 1, numbers, eta)
        close = _shifted(falling, max(0, start), count, numbers)
        return far * piece.above + close * piece.below

    def weights(self, which: str, j: int, i: int) -> Weights:
        """Of what is drawn next: where the last outputs lie, how many `shared` interval i, or where the one `before` lies."""
        if which == "ends":
            return self.ends
        return self.shared(j, i) if which == "shared" else self.before(j, i)

    def shared(self, j: int, i: int) -> Weights:
        """How many outputs, j among them, lie in interval i."""
        width, parts = self.windows[j - 1].width(i), list[Weights]()
        for g in range(1, j + 1):
            theirs = self.windows[j - g]
            if i > theirs.high:
                break
            ways, there = self.numbers.whole([comb(width + g - 1, g)]), i - theirs.low
            parts.append(self.reached[j - g][there : there + 1] * ways * self._between(j, g))
        return type(self.powers).joined(parts)

    def before(self, j: int, i: int) -> Weights:
        """In which interval output j lies, if the next lies in interval i."""
        window = self.windows[j - 1]
        intervals = np.arange(window.low, min(window.high, i - 1) + 1)
        return self.totals[j][: intervals.size] * self.pieces[j].weights(i - intervals, self.powers)


def _powers(numbers: _Doubles | _Balls, eta: Fraction, count: int) -> Weights:
    found = numbers.whole([1])
    while len(found) < count:
        found = type(found).joined([found, found * numbers.exp(-eta * len(found))])
    return found[:count]


def _decayed(values: Weights, length: int, numbers: _Doubles | _Balls, eta: Fraction) -> Weights:
    """[z] = sum over k < length of values[z + k] e^(-eta k)."""
    size = len(values)
    length, found, done = min(length, size), numbers.zeros(size), 0
    block, width = values, 1  # of `width` summands
    while length:
        if length & width:
            found = found + _shifted(block, done, size, numbers) * numbers.exp(-eta * done)
            done, length = done + width, length - width
        if length:
            block = block + _shifted(block, width, size, numbers) * numbers.exp(-eta * width)
            width *= 2
    return found


def _shifted(values: Weights, start: int, count: int, numbers: _Doubles | _Balls) -> Weights:
    """values[start], values[start + 1], ...: so many, 0 where there are none."""
    before = min(count, max(0, -start))
    there = values[max(0, start) : max(0, start + count)]
    parts = [numbers.zeros(before), there, numbers.zeros(count - before - len(there))]
    return type(values).joined([part for part in parts if len(part)] or parts[:1])


# -- numbers -----------------------------------------------------------------------------------------------

_NOTHING = -(1 << 60)  # the exponent of 0


@dataclass(frozen=True, slots=True)
class _Wide:
    """Floats at least 0, each with an exponent of its own: fraction 2^exponent."""

    fraction: Floats
    exponent: Integers

    @classmethod
    def of(cls, fraction: Floats, exponent: Integers) -> _Wide:
        found, more = np.frexp(fraction)
        return cls(found, np.where(found == 0, _NOTHING, exponent + more))

    @staticmethod
    def joined(parts: Sequence[_Wide]) -> _Wide:
        return _Wide(
            np.concatenate([one.fraction for one in parts]), np.concatenate([one.exponent for one in parts])
        )

    def __len__(self) -> int:
        return len(self.fraction)

    def __getitem__(self, at: Any) -> _Wide:
        return _Wide(self.fraction[at], self.exponent[at])

    def __mul__(self, other: _Wide) -> _Wide:
        return _Wide.of(self.fraction * other.fraction, self.exponent + other.exponent)

    def __add__(self, other: _Wide) -> _Wide:
        top = np.maximum(self.exponent, other.exponent)
        return _Wide.of(self._at(top) + other._at(top), top)

    def _at(self, top: Integers) -> Floats:
        """As floats in units of 2^top; what is below 2^-1022 of it is lost, which no sum notices."""
        found: Floats = np.ldexp(self.fraction, np.maximum(self.exponent - top, -1100).astype(np.int32))
        return found

    def plain(self) -> Floats:
        return self._at(self.exponent.max())


class _Many(np.ndarray[Any, Any]):
    """Balls."""

    @staticmethod
    def joined(parts: Sequence[Any]) -> Any:
        return np.concatenate(parts).view(_Many)


Weights: TypeAlias = Any  # _Wide, or balls in an array


class _Doubles:
    none = _Wide(np.zeros(0), np.zeros(0, np.int64))

    def exp(self, x: Fraction) -> _Wide:
        digits, exponent = ball(x).exp().mid().man_exp()
        fraction, more = math.frexp(float(int(digits)))
        return _Wide(np.array([fraction]), np.array([more + int(exponent)]))

    def zeros(self, count: int) -> _Wide:
        return _Wide(np.zeros(count), np.full(count, _NOTHING))

    def whole(self, values: Integers | list[int]) -> _Wide:
        if isinstance(values, list):
            with precision(128):
                digits = [arb(one).mid().man_exp() for one in values]
            return _Wide.of(
                np.array([float(int(a)) for a, _ in digits]), np.array([int(b) for _, b in digits], np.int64)
            )
        return _Wide.of(values.astype(np.float64), np.zeros(values.shape, np.int64))

    def share(self, g: int) -> _Wide:
        return _Wide.of(np.array([1 / g]), np.zeros(1, np.int64))


class _Balls:
    none = np.empty(0, object).view(_Many)

    def exp(self, x: Fraction) -> Any:
        return ball(x).exp()

    def zeros(self, count: int) -> Any:
        return np.full(count, arb(0), object).view(_Many)

    def whole(self, values: Integers | list[int]) -> Any:
        found = np.empty(len(values), object)
        found[:] = [arb(int(value)) for value in values]
        return found.view(_Many)

    def share(self, g: int) -> Any:
        return arb(1) / g


def _increasing(low: int, high: int, count: int, bits: Bits) -> list[int]:
    """A uniform choice among all increasing (not strictly) sequences of `count` numbers in [low, high).

    Sequences a_1 <= ... <= a_g correspond to sets {a_1, a_2 + 1, ..., a_g + g - 1} of g different numbers.
    """
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(low + uniform_integer(high - low + count - 1, bits))
    return [value - place for place, value in enumerate(sorted(chosen))]
