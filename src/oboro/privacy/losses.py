"""Privacy loss distributions, composed without a float: the true delta of a batch, or a little more, never less.

The privacy loss of an output is ln(P/Q), where P and Q are its probabilities with and without the unit. The losses of a
batch add up, so their distributions are convolved, and

    delta(eps) = P(loss = infinity) + sum over losses l > eps of P(l) (1 - exp(eps - l)).

Privacy
    1. *Masses are rounded up.* delta(eps) is a sum of products of masses of P with factors that are not negative. So it never
       falls when a mass rises, when mass moves to a greater loss, or to infinity. Masses are multiples of 2^-bits above
       their ball; products of polynomials are exact integers, rounded up again.
    2. *Losses go to a lattice by splitting.* An output with masses (p, q) becomes two, with masses (p1, q1) and (p2, q2) that
       add up to it, at the lattice points below and above its loss. Whoever forgets which of the two came out has the
       first mechanism again: it is a post-processing of the split one, and costs no more. The same holds for all the
       outputs between two lattice points together [Doroshenko et al. 2022, "connect the dots"].
    3. *Tails.* What is cut off above goes to infinity, what is cut off below goes up to the first point that is kept.

Discrete Laplace noise of scale t has the losses -s/t, (2-s)/t, .., s/t for a unit that moves by s: a lattice already, so nothing is
split. With s = 1, and for any pure cost as its own worst case, this is randomised response, and the answer is the
truth up to 2^-40 of delta. The worst case of an (eps, delta) is randomised response that tells all with probability
delta [Kairouz, Oh, Viswanath 2015]. Gaussian noises compose to a Gaussian noise. All of these laws are
symmetric: Q(loss = l) = P(loss = -l), so one order of the neighbours is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import count as numbers
from math import ceil, floor, gcd, log
from typing import Protocol

from oboro.noise.lazy import Ball, ball, precision
from oboro.privacy.guarantee import round_up

LONGEST = 1 << 15  # lattice points of a distribution; a longer one goes to a lattice of twice the step
_CELLS = 2048  # lattice cells for the losses of one continuous noise
_SPARE = 40  # bits of delta that cut tails may cost: 2^-40 of it
_SHARED = 256  # bits of a lattice step that all parts share; finer, they are split instead


class Law(Protocol):
    """The losses of one release: symmetric, between -reach and reach, but for tails that are cut there."""

    @property
    def reach(self) -> Fraction: ...

    @property
    def gap(self) -> Fraction | None:
        """The distance of neighbouring losses, where they are discrete."""

    def masses(self, low: Fraction, high: Fraction) -> tuple[Ball, Ball]:
        """P and Q of a loss above `low` and at most `high`."""

    def lowest(self) -> Ball:
        """P of a loss of at most -reach."""

    def lost(self) -> Ball:
        """P of a loss above reach."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Discrete Laplace noise of this scale on an integer that one unit moves by `moves`; 1 is randomised response.

    The losses are -reach + j gap, for j = 0 .. moves.
    """

    scale: Fraction
    moves: int = 1

    @property
    def reach(self) -> Fraction:
        return self.moves / self.scale

    @property
    def gap(self) -> Fraction:
        return 2 / self.scale

    def masses(self, low: Fraction, high: Fraction) -> tuple[Ball, Ball]:
        first = floor((low + self.reach) / self.gap) + 1
        last = min(floor((high + self.reach) / self.gap), self.moves)
        return self._between(first, last), self._between(self.moves - last, self.moves - first)

    def lowest(self) -> Ball:
        return self._between(0, 0)

    def lost(self) -> Ball:
        return ball(0)

    def _between(self, first: int, last: int) -> Ball:
        """P of the losses number `first` to `last`, to a small relative error."""
        if first > last:
            return ball(0)
        falls = (ball(-1 / self.scale)).exp()

        def tail(steps: int) -> Ball:
            return (ball(-steps / self.scale)).exp()

        top = ball(1) if last == self.moves else tail(self.moves - last)
        if first == 0:
            return ball(1) if last == self.moves else top / (1 + falls)
        if last == self.moves:
            return (1 + falls - tail(self.moves - first + 1)) / (1 + falls)
        return (top - tail(self.moves - first + 1)) / (1 + falls)


@dataclass(frozen=True, slots=True)
class Slope:
    """Continuous Laplace noise of scale 1/reach on a number that one unit moves by 1."""

    reach: Fraction
    gap = None

    def masses(self, low: Fraction, high: Fraction) -> tuple[Ball, Ball]:
        width, top = min(high, self.reach) - low, high >= self.reach
        p = ball((low - self.reach) / 2).exp() * (ball(width / 2).exp() - 1) / 2
        q = ball((-low - self.reach) / 2).exp() * (1 - ball(-width / 2).exp()) / 2
        return (p + ball(Fraction(1, 2)), q + ball(-self.reach).exp() / 2) if top else (p, q)

    def lowest(self) -> Ball:
        return ball(-self.reach).exp() / 2

    def lost(self) -> Ball:
        return ball(0)


@dataclass(frozen=True, slots=True)
class Bell:
    """Continuous Gaussian noise: losses are normal, of mean square/2 and variance `square`, the squared signal to noise."""

    square: Fraction
    reach: Fraction
    gap = None

    def masses(self, low: Fraction, high: Fraction) -> tuple[Ball, Ball]:
        return self._between(low, high), self._between(-high, -low)

    def lowest(self) -> Ball:
        return self._above(self.reach + self.square / 2)

    def lost(self) -> Ball:
        return self._above(self.reach - self.square / 2)

    def _between(self, low: Fraction, high: Fraction) -> Ball:
        low, high = low - self.square / 2, high - self.square / 2
        return (
            self._above(low) - self._above(high) if low + high > 0 else self._above(-high) - self._above(-low)
        )

    def _above(self, height: Fraction) -> Ball:
        return (ball(height) / ball(2 * self.square).sqrt()).erfc() / 2

    @classmethod
    def of(cls, square: Fraction, cut: Fraction) -> Bell:
        """With tails of at most `cut`."""
        wide = Fraction(ceil((2 * (log(cut.denominator) - log(cut.numerator))) ** 0.5))
        return cls(square, square / 2 + wide * round_up(lambda: ball(square).sqrt()))


@dataclass(frozen=True, slots=True)
class _Losses:
    """Masses at start, start + step, .., as multiples of 2^-bits, none below the truth; `lost` is at infinity."""

    start: Fraction
    level: int  # step = unit 2^level
    masses: Sequence[int]
    lost: int


class _Lattice:
    """Where distributions are written down: steps of unit 2^level, masses in 2^-bits."""

    def __init__(self, unit: Fraction, bits: int, cut: int) -> None:
        self.unit, self.bits, self.cut = unit, bits, cut

    def step(self, level: int) -> Fraction:
        return self.unit * Fraction(2) ** level

    def up(self, mass: Ball) -> int:
        return max(0, int((mass * (ball(2) ** self.bits)).upper().ceil().unique_fmpz()))

    def of(self, law: Law, level: int, lost: Fraction) -> _Losses:
        """One release, that tells all with probability `lost`."""
        step, start = self.step(level), -law.reach
        cells = ceil(2 * law.reach / step)
        masses = [0] * (cells + 1)
        with precision(self.bits + 128 + step.denominator.bit_length()):
            kept, falls = ball(1 - lost), ball(-step).exp()
            masses[0] = self.up(law.lowest() * kept)
            if law.gap is None or 2 * law.reach > cells * law.gap:
                touched: Iterable[int] = range(cells)
            else:
                losses = range(1, int(2 * law.reach / law.gap) + 1)
                touched = sorted({ceil(j * law.gap / step) - 1 for j in losses})
            for cell in touched:
                at = start + cell * step
                p, q = law.masses(at, at + step)
                q *= ball(at).exp()  # p = p1 + p2 and q exp(at) = p1 + p2 exp(-step)
                masses[cell] += self.up((q - p * falls) / (1 - falls) * kept)
                masses[cell + 1] += self.up((p - q) / (1 - falls) * kept)
            return _Losses(self.short(start, level), level, masses, self.up(ball(lost) + law.lost() * kept))

    def short(self, start: Fraction, level: int) -> Fraction:
        """`start`, or a little more: the sum of many odd fractions would not end."""
        fine = self.step(level - 64)
        return ceil(start / fine) * fine

    def product(self, one: _Losses, two: _Losses) -> _Losses:
        """Both together."""
        from flint import fmpz_poly

        while one.level != two.level:
            fine, coarse = (one, two) if one.level < two.level else (two, one)
            if 2 * len(coarse.masses) <= LONGEST:
                one, two = fine, _finer(coarse)
            else:
                one, two = self.coarser(fine), coarse
        masses = (fmpz_poly(one.masses) * fmpz_poly(two.masses)).coeffs()
        lost = one.lost + two.lost - ((one.lost * two.lost) >> self.bits)
        start = self.short(one.start + two.start, one.level)
        return self.trimmed(_Losses(start, one.level, [-(-m >> self.bits) for m in masses], lost))

    def power(self, one: _Losses, times: int) -> _Losses:
        """`times` independent copies together."""
        result = None
        while True:
            if times & 1:
                result = one if result is None else self.product(result, one)
            times >>= 1
            if not times:
                assert result is not None
                return result
            one = self.product(one, one)

    def trimmed(self, losses: _Losses) -> _Losses:
        """Without tails of at most `cut`, and short."""
        masses, low, high = losses.masses, 0, len(losses.masses)
        below, lost = 0, 0
        while high > 1 and lost + masses[high - 1] <= self.cut:
            high, lost = high - 1, lost + masses[high - 1]
        while low < high - 1 and below + masses[low] <= self.cut:
            low, below = low + 1, below + masses[low]
        kept = list(masses[low:high])
        kept[0] += below
        start = losses.start + low * self.step(losses.level)
        result = _Losses(start, losses.level, kept, losses.lost + int(lost))
        while len(result.masses) > LONGEST:
            result = self.coarser(result)
        return result

    def coarser(self, losses: _Losses) -> _Losses:
        """On a lattice of twice the step: every second point is split between its neighbours."""
        with precision(self.bits + 64):
            falls = ball(-self.step(losses.level)).exp()
            low, high = self.up(falls / (1 + falls)), self.up(1 / (1 + falls))
        even, odd = list(losses.masses[::2]), losses.masses[1::2]
        if len(even) == len(odd):
            even.append(0)
        for place, mass in enumerate(odd):
            even[place] += -(-mass * low >> self.bits)
            even[place + 1] += -(-mass * high >> self.bits)
        return _Losses(losses.start, losses.level + 1, even, losses.lost)

    def eps(self, losses: _Losses, delta: Fraction) -> Fraction | None:
        """The least eps, rounded up, at which delta(eps) is at most `delta`; None where there is none.

        Between two lattice points delta(eps) = rest - exp(eps - lower point) near, with `rest` the masses above and `near` the
        same masses, each times exp(lower point - its loss).
        """
        step, target = self.step(losses.level), floor(delta * 2**self.bits)
        if losses.lost > target:
            return None
        with precision(self.bits + 64):
            falls = int((ball(-step).exp() * ball(2) ** self.bits).lower().floor().unique_fmpz())
        rest, near, at = losses.lost, 0, losses.start
        for place in range(
            len(losses.masses) - 1, -1, -1
        ):  # down to the first step in which delta(eps) exceeds
            mass = int(losses.masses[place])
            rest, near = rest + mass, ((near + mass) * falls) >> self.bits
            at = losses.start + (place - 1) * step
            if rest - near > target or at <= 0:
                break
        if rest <= target:
            return Fraction(0)
        if near == 0:  # a step so wide that nothing is known but its upper end
            return max(Fraction(0), at + step)
        return max(Fraction(0), round_up(lambda: ball(at) + ball(Fraction(rest - target, near)).log()))


def _finer(losses: _Losses) -> _Losses:
    """On a lattice of half the step, nothing changed."""
    masses = [0] * (2 * len(losses.masses) - 1)
    masses[::2] = losses.masses
    return _Losses(losses.start, losses.level - 1, masses, losses.lost)


def eps_of(laws: Sequence[tuple[Law, Fraction, int]], delta: Fraction) -> Fraction | None:
    """The least eps, rounded up, that a batch keeps at `delta`; None where it keeps none.

    A batch is a law of losses, the probability that all is told, and the number of times, for each of its parts.
    """
    if not laws:
        return Fraction(0)
    times = sum(times for _, _, times in laws)
    smallest = delta.denominator.bit_length() - delta.numerator.bit_length()
    bits = 2 * times.bit_length() + smallest + _SPARE + 64
    lattice = _Lattice(
        _unit([law for law, _, _ in laws]), bits, int(delta * 2 ** (bits - _SPARE - 2) / times)
    )
    cells = max(64, LONGEST // len(laws))
    order = numbers()  # of two equally long ones the earlier is taken first
    heap = []
    for law, lost, count in laws:
        one = lattice.of(law, _level(law, lattice.unit, cells), lost)
        whole = lattice.power(one, count)
        heap.append((len(whole.masses), next(order), whole))
    heapify(heap)
    while len(heap) > 1:
        whole = lattice.product(heappop(heap)[2], heappop(heap)[2])
        heappush(heap, (len(whole.masses), next(order), whole))
    return lattice.eps(heap[0][2], delta)


def _unit(laws: Iterable[Law]) -> Fraction:
    """A step that all discrete losses share, unless it is too fine to be written down."""
    shared: Fraction | None = None
    largest = Fraction(0)
    for law in laws:
        largest = max(largest, law.reach)
        if law.gap is not None and (shared is None or shared.denominator.bit_length() < _SHARED):
            one, two = shared or law.gap, law.gap
            shared = Fraction(
                gcd(one.numerator * two.denominator, two.numerator * one.denominator),
                one.denominator * two.denominator,
            )
    return largest / _CELLS if shared is None else shared


def _level(law: Law, unit: Fraction, cells: int) -> int:
    """How fine the lattice of one law is: its own points where they are few enough, else about `cells` of them."""
    ratio = 2 * law.reach / unit / (cells if law.gap is not None else _CELLS)
    level = max(
        ratio.numerator.bit_length() - ratio.denominator.bit_length() - 1,
        0 if law.gap is not None else -(10**6),
    )
    while Fraction(2) ** level < ratio:
        level += 1
    return level
