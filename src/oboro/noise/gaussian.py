"""Discrete Gaussian noise of rational variance, exactly.

Law
    P(Z = k) proportional to e^(-k^2/(2 variance)) for integers k.

Method
    Magnitude and sign apart, as in laplace.py: |Z| has the weight w(k) = e^(-k^2/(2 variance)) for k >= 0, a fair bit is
    the sign, and (minus, 0) is thrown away, sign and magnitude together.

    1. Blocks of 2^low integers, so many that sigma is 128 to 256 of them; one integer each where sigma is below 256. A
       block h is drawn by its first integer, with a weight of w(2^low h), by inversion: it exceeds j if and only if
       V < S(j) for a uniform real V, where
           S(j) = sum over h > j of w(2^low h) / the same over h >= 0.
       31 bits of V, the integer u, decide against F = floor(2^31 S(j)), as for a digit of discrete Laplace noise.
    2. A place l in the block, uniformly, by `low` bits; it is kept with probability e^-x, x = l (2^(low+1) h + l)/(2 variance),
       and otherwise all is drawn again. About one draw in 300 is.

Why it is exact
    w(2^low h) 2^-low e^-x = 2^-low w(2^low h + l): what is kept has the law. No tail is lost: the table ends where its floors
    are 0, and a V of 31 zeros is open, to be compared with S(j) for as many j as it takes.

    The floors are certain: weights as integers in units of 2^-128, each rounded down from the one before, with a bound on all that was
    lost; whoever finds a floor that these leave open takes more bits. (If 2^31 S(j) were a whole number, that would not end. It
    depends on the variance alone, and none such is known.) An open draw is decided by balls, as is every comparison of a V with
    a real (`lazy.Uniform.below`): that ends with probability 1.

    The compiled loop keeps a place without more ado where V < 1 - x at the end of its block, for 1 - x <= e^-x. Elsewhere it
    computes e^-x in double precision. x is below 1/16: l and 2^(low+1) h + l are exact, their product, the rate
    1/(2 variance) and the product with it are rounded once each, and exp errs by 3 * 2^-53 of its value (floatball.py,
    + - * / of IEEE 754 alone): by less than 2^-50 together. The margin is 2^-40: where V is nearer, balls decide. A double never
    decides a draw whose ideal decision could be another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, HalfWords, Integers
from oboro.errors import ParameterError, told
from oboro.exact import Number, positive, show
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import checked_size
from oboro.noise.laplace import _BITS, _GUIDE, Size, as_float, check_level, compiled_pays

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball

LARGEST_VARIANCE = 2**80
_SUMMED = 2000  # up to this sigma, probabilities for forecasts are summed term by term


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Gaussian noise on the integers; `variance` is the parameter sigma^2, a positive rational up to 2^80.

    The variance of a draw, `.variance`, is a little smaller than the parameter when that is small.

    >>> noise = ob.noise.DiscreteGaussian(50)
    >>> noise.sd, noise.interval(0.95)
    (7.07106..., (-14, 14))
    >>> noise.sample((2, 3)).shape
    (2, 3)
    """

    sigma2: Fraction

    def __init__(self, variance: Number) -> None:
        exact = positive("variance", variance)
        if exact > LARGEST_VARIANCE:
            raise ParameterError(
                "variance is too large",
                given=told(variance=show(exact)),
                needed=f"at most 2^80 = {LARGEST_VARIANCE}",
                fix="a coarser step of the domain, or a larger rho",
            )
        object.__setattr__(self, "sigma2", exact)

    def sample(self, size: Size = 1, bits: Bits | None = None) -> Integers:
        """Independent draws as int64."""
        bits = bits or system_bits()
        size, count = checked_size(size)
        table = _table(self.sigma2.numerator, self.sigma2.denominator)
        out = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            wanted = int((count - filled) / table.kept * 1.002) + 8  # a little more than enough
            filled = table.fill(bits.halves(wanted * table.each), out, filled, bits)
        return out.reshape(size)

    @property
    def _rate(self) -> float:
        return as_float(1 / (2 * self.sigma2))

    def pmf(self, k: npt.ArrayLike) -> Floats:
        """P(Z = k)."""
        at = np.asarray(k, float)
        found: Floats = np.exp(-at * at * self._rate) / _shape(*self.sigma2.as_integer_ratio()).total
        return found

    def cdf(self, k: npt.ArrayLike) -> Floats:
        """P(Z <= k)."""
        at = np.floor(np.asarray(k, float))
        tail = _shape(*self.sigma2.as_integer_ratio()).tail(
            np.abs(np.where(at >= 0, at + 1, at))
        )  # P(Z >= that)
        return np.where(at >= 0, 1 - tail, tail)

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """The smallest symmetric range that holds a draw with at least this probability."""
        miss = 1 - check_level(level)
        tail = _shape(*self.sigma2.as_integer_ratio()).tail
        low, high = -1, max(1, math.ceil(40 * math.sqrt(self.sigma2)))
        while high - low > 1:  # P(|Z| > high) <= miss < P(|Z| > low)
            middle = (low + high) // 2
            low, high = (low, middle) if 2 * float(tail(np.asarray(middle + 1.0))) <= miss else (middle, high)
        return -high, high

    @property
    def mean_abs(self) -> float:
        """E|Z|."""
        return _shape(*self.sigma2.as_integer_ratio()).mean_abs

    @property
    def variance(self) -> float:
        """The variance of a draw."""
        return _shape(*self.sigma2.as_integer_ratio()).variance

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.variance)

    def to_dict(self) -> dict[str, str]:
        """The law and its public parameters, for certificates."""
        return {"law": "discrete Gaussian", "sigma^2": show(self.sigma2)}

    def __repr__(self) -> str:
        return f"DiscreteGaussian({show(self.sigma2)!r})"


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sums over the unnormalised law, in double precision, for forecasts."""

    total: float
    mean_abs: float
    variance: float
    tail: Callable[[Floats], Floats]  # P(Z >= k) for k >= 0


@lru_cache(maxsize=256)
def _shape(numerator: int, denominator: int) -> _Shape:
    """By whole numbers: those of a Fraction are looked up much more slowly."""
    sigma2 = Fraction(numerator, denominator)
    sigma = math.sqrt(sigma2)
    if sigma <= _SUMMED:
        k = np.arange(math.ceil(40 * sigma) + 2, dtype=float)
        weight = np.exp(-k * k * as_float(1 / (2 * sigma2)))
        total = 2 * weight.sum() - 1
        upper = np.concatenate([np.cumsum(weight[::-1])[::-1], [0.0]]) / total

        def summed(at: Floats) -> Floats:
            found: Floats = upper[np.minimum(at, k.size).astype(int)]
            return found

        return _Shape(
            float(total),
            float(2 * (k * weight).sum() / total),
            float(2 * (k * k * weight).sum() / total),
            summed,
        )

    # Poisson summation: the total differs from sqrt(2 pi) sigma by a factor of 1 + 2 exp(-2 pi^2 sigma^2).
    total = math.sqrt(2 * math.pi) * sigma

    def integrated(at: Floats) -> Floats:
        # Euler-Maclaurin at half-integers: sum_{j >= k} f(j) = int_{k-1/2} f + f'(k-1/2)/24 + O(f''')
        edge = (np.asarray(at, float) - 0.5) / sigma
        density = np.exp(-edge * edge / 2) / math.sqrt(2 * math.pi)
        half = np.vectorize(lambda z: 0.5 * math.erfc(z / math.sqrt(2)), otypes=[float])(edge)
        found: Floats = half - edge * density / (24 * sigma**2)
        return found

    # E|Z|: the sum of k f(k) is sigma^2 - 1/12 + O(1/sigma^2), twice
    return _Shape(total, 2 * (float(sigma2) - 1 / 12) / total, float(sigma2), integrated)


@dataclass(frozen=True, slots=True)
class _Table:
    """What the draws of one variance need, made once."""

    sigma2: Fraction
    low: int  # a block has 2^low integers
    kept: float  # how many of the draws that are begun
    floors: HalfWords  # [j] = floor(2^31 S(j)); the last is 0
    guide: npt.NDArray[np.uint16]  # [leading bits of u] = the least block among such u
    sure: Floats  # [h]: no place in the block is kept with a lower probability

    @property
    def each(self) -> int:
        """Half-words of a draw: for the block and the sign, and for the place and whether it is kept."""
        return 1 if self.low == 0 else 2 if self.low <= 16 else 3

    def fill(self, halves: HalfWords, out: Integers, filled: int, bits: Bits) -> int:
        """Turns half-words into draws; returns how many of `out` are there now."""
        if compiled_pays(out.size):
            from oboro.noise._compiled import fill_gaussian as fill
        else:
            fill = _fill_nothing
        used, rate = 0, as_float(1 / (2 * self.sigma2))
        while filled < out.size and used < halves.size:
            filled, used, open_draw = fill(
                halves, self.floors, self.guide, self.sure, self.low, rate, out, filled, used
            )
            if open_draw and used < halves.size:
                draw = self.resolve(halves[used : used + self.each], bits)
                used += self.each
                if draw is not None:
                    out[filled] = draw
                    filled += 1
        return filled

    def resolve(self, halves: HalfWords, bits: Bits) -> int | None:
        """One draw from its leading bits, with as many more as it takes; None if it is not kept."""
        from oboro.noise.lazy import Uniform, ball

        known = int(halves[0]) >> 1
        h = int(np.count_nonzero(self.floors > known))  # V < S(j) is certain for all j before
        if known == self.floors[h]:  # and V > S(h) is not
            v = Uniform(bits, known, _BITS)
            while v.below(partial(self.survival, h)):
                h += 1
        magnitude = h << self.low
        if self.low:
            word = int(halves[1]) | (int(halves[2]) << 32 if self.each == 3 else 0)
            place = word & ((1 << self.low) - 1)
            x = Fraction(place * (2 * magnitude + place)) / (2 * self.sigma2)
            if not Uniform(bits, word >> self.low, 32 * (self.each - 1) - self.low).below(
                lambda: ball(-x).exp()
            ):
                return None
            magnitude += place
        minus = int(halves[0]) & 1
        if minus and magnitude == 0:
            return None
        return -magnitude if minus else magnitude

    def survival(self, j: int) -> Ball:
        """S(j), enclosed."""
        return self._sum_from(j + 1) / self._sum_from(0)

    def _sum_from(self, start: int) -> Ball:
        """The sum of w(2^low h) over h >= start. A weight is less than the one before times e^-y, y = (2h + 1)/(2 s2)."""
        from flint import arb, ctx

        from oboro.noise.lazy import ball

        s2 = self.sigma2 / 4**self.low
        weight = ball(-(start**2) / (2 * s2)).exp()
        ratio, faster = ball(-(2 * start + 1) / (2 * s2)).exp(), ball(-1 / s2).exp()
        total, h, least = arb(0), start, weight * arb(2) ** -(ctx.prec + 16)
        while not weight < least:
            total, weight, ratio, h = total + weight, weight * ratio, ratio * faster, h + 1
        rest = weight * ball(_most(s2, h))
        return total + rest / 2 + rest * arb(0, 1) / 2  # from 0 to rest


def _most(s2: Fraction, h: int) -> int:
    """How many times the weight of h > 0 all from there on have together, at most: 1/(1 - e^-y) <= max(2, 2/y)."""
    return 2 + 2 * math.ceil(s2 / h)


@lru_cache(maxsize=256)
def _table(numerator: int, denominator: int) -> _Table:
    sigma2 = Fraction(numerator, denominator)  # of its own: that of a law can be written to
    low = max(0, math.isqrt(math.floor(sigma2)).bit_length() - 8)
    s2, digits = sigma2 / 4**low, 128
    while (found := _floors(s2, digits)) is None:
        digits *= 2
    floors = np.asarray(found, np.uint32)
    # the largest u of each bucket has the least block
    top = ((np.arange(1 << _GUIDE, dtype=np.uint32) + 1) << (_BITS - _GUIDE)) - 1
    guide = (floors.size - np.searchsorted(floors[::-1], top, side="right")).astype(np.uint16)
    end = (1 << low) - 1
    furthest: Floats = (
        end * (2.0 ** (low + 1) * np.arange(floors.size, dtype=float) + end) * as_float(1 / (2 * sigma2))
    )
    sure: Floats = (
        1 - furthest * (1 + 2.0**-40) - 2.0**-50
    )  # rounded down by more than all roundings together
    zero = 1 - floors[0] / 2.0**_BITS  # the share of block 0, and so 1/(sum of weights)
    kept = 1 - zero / 2 if low == 0 else math.sqrt(math.pi / 2 * s2) * zero
    for array in (floors, guide, sure):
        array.setflags(write=False)
    return _Table(sigma2, low, kept, floors, guide, sure)


def _floors(s2: Fraction, digits: int) -> list[int] | None:
    """floor(2^31 S(j)) up to the first that is 0; None if so many binary digits do not tell all of them.

    An integer x stands for a real between x and x + (what was lost), in units of 2^-digits. A product of two such, rounded
    down, has lost no more than both together and 1. So a ratio has lost at most 3 (h + 1), and a weight 4 (h + 1)^2.
    """
    from oboro.noise.lazy import ball, precision

    with precision(digits + 64):
        ratio, faster = (
            int((ball(-x).exp() * 2**digits).lower().floor().unique_fmpz()) for x in (1 / (2 * s2), 1 / s2)
        )
    weights = [1 << digits]
    while weights[-1] >> (digits - 64):
        weights.append(weights[-1] * ratio >> digits)
        ratio = ratio * faster >> digits
    last, end = weights.pop(), len(weights)
    lost = 4 * (end + 1) ** 3 + (last + 4 * (end + 1) ** 2) * _most(s2, end)
    total, tail, floors = sum(weights), 0, [0]
    for weight in weights[:0:-1]:
        tail += weight
        least, most = (tail << _BITS) // (total + lost), (tail + lost << _BITS) // total
        if least != most:
            return None
        if least:
            floors.append(least)
    return floors[::-1]


def _fill_nothing(
    halves: HalfWords,
    floors: HalfWords,
    guide: npt.NDArray[np.uint16],
    sure: Floats,
    low: int,
    rate: float,
    out: Integers,
    filled: int,
    used: int,
) -> tuple[int, int, bool]:
    """Leaves every draw open: a few draws are made one by one, without loading the compiler."""
    return filled, used, True
