"""Discrete Laplace noise of rational scale, exactly.

Law
    P(Z = k) = (1 - p)/(1 + p) p^|k| for integers k, with p = e^(-1/scale).

Method
    1. |Z| is a geometric variable G with P(G >= k) = e^(-k/scale). Its digits in radix 256 are
       independent: digit i has P(digit > j) proportional to a geometric law of ratio r = e^(-256^i/scale),
       cut off at 255; the part above the last digit is geometric again, with no cut-off. So no tail is lost.
    2. Each digit by inversion: the digit exceeds j if and only if V < S(j), where V is a uniform real and
           S(j) = (r^(j+1) - r^256)/(1 - r^256)   for a digit that is cut off,
           S(j) = r^(j+1)                         for the last.
       31 bits of V, the integer u, decide against F = floor(2^31 S(j)): u < F means V < S(j), and u > F means
       V > S(j). If u = F the draw is open: 64 more bits of V are compared with a narrower enclosure of S(j),
       and so on (`lazy.Uniform.below`). About one draw in a million comes to that.
    3. A fair bit is the sign. (minus, 0) is thrown away, sign and magnitude together; otherwise 0 would be
       twice as likely.

Why it is exact
    The floors come from ball arithmetic, repeated with more bits until they are certain. S(j) is irrational
    unless it is 0 (Lindemann: e^-x is transcendental for rational x > 0), so that ends, and so does step 2,
    with probability 1. No floating-point number takes part.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, show
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import checked_size

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball, Real

Size = int | tuple[int, ...]

LARGEST_SCALE = 2**40
RADIX = 256
_BITS = 31  # of each digit's uniform; the lowest bit of the first digit's half-word is the sign
_GUIDE = 12  # leading bits of u that point to where the search for its digit starts
_SMALL = 64  # up to so many draws the compiled loop is not worth loading
_FEW = 16  # so many draws of one scale are made without tables, which take as long as hundreds of draws


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Two-sided geometric noise on the integers; `scale` is a positive rational of at most 2^40.

    >>> noise = ob.noise.DiscreteLaplace(10)
    >>> noise.sd, noise.interval(0.95)
    (14.1362..., (-30, 30))
    >>> noise.sample((2, 3)).shape
    (2, 3)
    """

    scale: Fraction

    def __init__(self, scale: Number) -> None:
        exact = positive("scale", scale)
        if exact > LARGEST_SCALE:
            raise ParameterError(
                "scale is too large",
                given=told(scale=show(exact)),
                needed=f"at most 2^40 = {LARGEST_SCALE}",
                fix="a coarser step of the domain, or a larger eps",
            )
        object.__setattr__(self, "scale", exact)

    def sample(self, size: Size = 1, bits: Bits | None = None) -> Integers:
        """Independent draws as int64. (A draw beyond 2^63, of probability below e^(-2^22), would wrap.)"""
        bits = bits or system_bits()
        size, count = checked_size(size)
        tables = _tables(self.scale.numerator, self.scale.denominator)
        out = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            # (minus, 0) comes up with probability (1 - p)/2; a little more than enough is drawn
            wanted = int((count - filled) / (1 - 0.5 * tables.zero) * 1.002) + 8
            halves = bits.halves(wanted * tables.digits)
            filled = tables.fill(halves, out, filled, bits)
        return out.reshape(size)

    def pmf(self, k: npt.ArrayLike) -> Floats:
        """P(Z = k)."""
        rate = as_float(1 / self.scale)
        found: Floats = np.tanh(rate / 2) * np.exp(-rate * np.abs(np.asarray(k, float)))
        return found

    def cdf(self, k: npt.ArrayLike) -> Floats:
        """P(Z <= k)."""
        rate = as_float(1 / self.scale)
        at = np.floor(np.asarray(k, float))
        tail = np.exp(np.maximum(-rate * np.where(at >= 0, at + 1, -at), -1e300)) / (1 + math.exp(-rate))
        found: Floats = np.where(at >= 0, 1 - tail, tail)
        return found

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """The smallest symmetric range that holds a draw with at least this probability."""
        rate = as_float(1 / self.scale)
        miss = 1 - check_level(level)
        # P(|Z| > m) = 2 p^(m+1)/(1+p)
        reach = (math.log(2 / miss) - math.log1p(math.exp(-rate))) / rate - 1
        m = max(0, math.ceil(reach - 1e-9))
        return -m, m

    @property
    def mean_abs(self) -> float:
        """E|Z|."""
        rate = as_float(1 / self.scale)
        return 1 / math.sinh(rate) if rate < 700 else 0.0

    @property
    def variance(self) -> float:
        rate = as_float(1 / self.scale)
        return 0.5 / math.sinh(rate / 2) ** 2 if rate < 700 else 0.0

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.variance)

    def to_dict(self) -> dict[str, str]:
        """The law and its public parameters, for certificates."""
        return {"law": "discrete Laplace", "scale": show(self.scale)}

    def __repr__(self) -> str:
        return f"DiscreteLaplace({show(self.scale)!r})"


def compiled_pays(draws: int) -> bool:
    """Whether the compiled loop is used: for many draws, and for few if it is loaded already. Both ways draw the same."""
    return draws > _SMALL or "oboro.noise._compiled" in sys.modules


def as_float(number: Fraction) -> float:
    """The nearest double; the largest one where that would overflow."""
    try:
        return float(number)
    except OverflowError:
        return 1e308


def check_level(level: float, name: str = "level") -> float:
    """A coverage strictly between 0 and 1."""
    exact = rational(name, level)
    if not 0 < exact < 1:
        raise ParameterError(
            f"{name} must lie between 0 and 1",
            given=told(**{name: repr(level)}),
            needed="such as 0.95",
            fix=setting(**{name: 0.95}),
        )
    return float(exact)


class _Tables:
    """What inversion needs for one scale. The first few draws compute the floors that they need; for more, all are made once."""

    def __init__(self, scale: Fraction) -> None:
        self.scale, self.digits = scale, 1
        while (
            RADIX**self.digits < 32 * scale
        ):  # so that floor(2^31 S(255)) = 0: the last digit's table ends the search
            self.digits += 1
        self._drawn = 0

    @cached_property
    def floors(self) -> npt.NDArray[np.uint32]:
        """[digit, j] = floor(2^31 S(j))."""
        floors = np.zeros((self.digits, RADIX), np.uint32)
        for i in range(self.digits):
            for j in range(RADIX if i == self.digits - 1 else RADIX - 1):
                floors[i, j] = self.floor(i, j)
        floors.setflags(write=False)
        return floors

    @cached_property
    def guide(self) -> npt.NDArray[np.uint8]:
        """[digit, leading bits of u] = the least digit among such u."""
        # the largest u of each bucket has the least digit
        top = ((np.arange(1 << _GUIDE, dtype=np.uint32) + 1) << (_BITS - _GUIDE)) - 1
        least = [RADIX - np.searchsorted(row[::-1], top, side="right") for row in self.floors]
        guide = np.array(least, np.uint8)
        guide.setflags(write=False)
        return guide

    @cached_property
    def zero(self) -> float:
        return -math.expm1(-as_float(1 / self.scale))

    def fill(self, halves: npt.NDArray[np.uint32], out: Integers, filled: int, bits: Bits) -> int:
        """Turns half-words into draws; returns how many of `out` are there now."""
        self._drawn += out.size
        few, used = self._drawn <= _FEW, 0
        compiled = not few and compiled_pays(out.size)
        if compiled:
            from oboro.noise._compiled import fill_laplace
        while filled < out.size and used < halves.size:
            open_draw = True  # without the compiled loop every draw is made as an open one
            if compiled:
                filled, used, open_draw = fill_laplace(halves, self.floors, self.guide, out, filled, used)
            if open_draw and used < halves.size:
                draw = self.resolve(halves[used : used + self.digits], bits, few=few)
                used += self.digits
                if draw is not None:
                    out[filled] = (draw + 2**63) % 2**64 - 2**63
                    filled += 1
        return filled

    def resolve(self, halves: npt.NDArray[np.uint32], bits: Bits, *, few: bool = False) -> int | None:
        """One draw from its leading bits, with as many more as it takes; None for (minus, 0)."""
        from oboro.noise.lazy import Uniform

        magnitude = 0
        for i in range(self.digits):
            known = int(halves[i]) >> 1
            last = i == self.digits - 1
            v = Uniform(bits, known, _BITS)
            floors = None if few else self.floors[i]
            # V < S(j') is certain for all j' below j: floors fall with j'
            j = self.searched(i, known) if floors is None else int(np.count_nonzero(floors > known))
            while last or j < RADIX - 1:
                # 2^31 S(j) < floor + 1 <= known <= 2^31 V: certain, too, however many more bits V has by now
                if floors is not None and j < RADIX and floors[j] < known:
                    break
                if not v.below(self.survival(i, j)):
                    break
                j += 1
            magnitude += j * RADIX**i
        minus = int(halves[0]) & 1
        if minus and magnitude == 0:
            return None
        return -magnitude if minus else magnitude

    def searched(self, i: int, known: int) -> int:
        """How many floors of digit i lie above `known`: two of them tell, next to each other, and floats say where to look."""
        most = RADIX if i == self.digits - 1 else RADIX - 1
        j = min(max(self._near(i, known), 0), most)
        while j < most and self.floor(i, j) > known:
            j += 1
        while j > 0 and self.floor(i, j - 1) <= known:
            j -= 1
        return j

    def _near(self, i: int, known: int) -> int:
        """About where S(j) passes known/2^31, by inversion in floats."""
        rate, v = as_float(RADIX**i / self.scale), (known + 0.5) / 2**_BITS
        missed = v - 1 if i == self.digits - 1 else (v - 1) * -math.expm1(-rate * RADIX)
        return int(min(-math.log1p(missed) / rate, float(RADIX)))

    def floor(self, i: int, j: int) -> int:
        return certain_floor(self.survival(i, j), _BITS)

    def survival(self, i: int, j: int) -> Real:
        """S(j) of digit i as an enclosed real."""
        from flint import arb, fmpq

        top, bottom = RADIX**i * self.scale.denominator, self.scale.numerator

        def log_power(k: int) -> Ball:
            """log r^k, with r = e^(-RADIX^i / scale)."""
            return arb(fmpq(-top * k, bottom))

        if i == self.digits - 1:
            return lambda: log_power(j + 1).exp()

        def cut_off() -> Ball:
            # r^(j+1) (1 - r^(255-j)) / (1 - r^256), with expm1 where r is close to 1
            return log_power(j + 1).exp() * log_power(RADIX - 1 - j).expm1() / log_power(RADIX).expm1()

        return cut_off


@lru_cache(maxsize=256)
def _tables(numerator: int, denominator: int) -> _Tables:
    return _Tables(Fraction(numerator, denominator))  # of its own: that of a law can be written to


def certain_floor(real: Real, bits: int) -> int:
    """floor(2^bits x) for an enclosed x in [0, 1], beyond doubt."""
    from flint import arb

    from oboro.noise.lazy import precision

    digits = 96
    while True:
        with precision(digits):
            scaled = real() * arb(2) ** bits
            low, high = (
                max(0, int(scaled.lower().floor().unique_fmpz())),
                int(scaled.upper().floor().unique_fmpz()),
            )
        if low == high:
            return low
        digits *= 2
