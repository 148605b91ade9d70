"""Discrete Gaussian noise of rational variance, exactly.

Law
    P(Z = k) proportional to e^(-k^2/(2 variance)) for integers k.

Method [Canonne, Kamath, Steinke 2020, Algorithm 3]
    Propose y from the discrete Laplace law of scale t = floor(sigma) + 1, by an integer square root. Keep
    it with probability exp(-(|y| - variance/t)^2/(2 variance)); otherwise propose again.

Why it is exact
    The proposals are exact (laplace.py). Keeping is V < e^-x for a uniform real V and a rational x. The
    compiled loop knows 32 bits of V and computes e^-x in double precision with a proved relative error
    below 2^-30; where the two could still swap, 64 more bits of V are compared with an enclosure of e^-x of
    matching width, and so on. A double never decides a draw whose ideal decision could be another.

    The bound. e^-x is computed to a relative error of 3 * 2^-53 (floatball.py, + - * / of IEEE 754 alone). x
    itself: |y| is exact below 2^53 (a larger one has x > 40), shift = variance/t and rate = 1/(2 variance) are
    rounded once, so |dx| <= (2 |away| shift rate + 4 x) 2^-53 < 2^-43 for x <= 40, because shift <= sigma. The
    sum is below 2^-42; the margin is 2^-30.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, HalfWords, Integers
from oboro.errors import ParameterError, told
from oboro.exact import Number, positive, show
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import checked_size
from oboro.noise.laplace import _SMALL, DiscreteLaplace, Size, as_float, check_level

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
        if count > _SMALL:
            from oboro.noise._compiled import accept_gaussian as accept
        else:
            accept = _accept_nothing
        proposal = DiscreteLaplace(math.isqrt(math.floor(self.sigma2)) + 1)
        shift = self.sigma2 / proposal.scale
        out = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            proposed = proposal.sample(
                int((count - filled) * 1.33) + 8, bits
            )  # 0.76 of them are kept for large sigma
            halves = bits.halves(proposed.size)
            at = 0
            while filled < count and at < proposed.size:
                filled, at, unsure = accept(proposed, halves, float(shift), self._rate, out, filled, at)
                if unsure:
                    if self._kept(int(proposed[at]), int(halves[at]), shift, bits):
                        out[filled] = proposed[at]
                        filled += 1
                    at += 1
        return out.reshape(size)

    @property
    def _rate(self) -> float:
        return as_float(1 / (2 * self.sigma2))

    def _kept(self, y: int, half: int, shift: Fraction, bits: Bits) -> bool:
        from oboro.noise.lazy import Uniform, ball

        x = (abs(y) - shift) ** 2 / (2 * self.sigma2)
        return Uniform(bits, half, 32).below(lambda: ball(-x).exp())

    def pmf(self, k: npt.ArrayLike) -> Floats:
        """P(Z = k)."""
        at = np.asarray(k, float)
        found: Floats = np.exp(-at * at * self._rate) / _shape(self.sigma2).total
        return found

    def cdf(self, k: npt.ArrayLike) -> Floats:
        """P(Z <= k)."""
        at = np.floor(np.asarray(k, float))
        tail = _shape(self.sigma2).tail(np.abs(np.where(at >= 0, at + 1, at)))  # P(Z >= that)
        return np.where(at >= 0, 1 - tail, tail)

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """The smallest symmetric range that holds a draw with at least this probability."""
        miss = 1 - check_level(level)
        tail = _shape(self.sigma2).tail
        low, high = -1, max(1, math.ceil(40 * math.sqrt(self.sigma2)))
        while high - low > 1:  # P(|Z| > high) <= miss < P(|Z| > low)
            middle = (low + high) // 2
            low, high = (low, middle) if 2 * float(tail(np.asarray(middle + 1.0))) <= miss else (middle, high)
        return -high, high

    @property
    def mean_abs(self) -> float:
        """E|Z|."""
        return _shape(self.sigma2).mean_abs

    @property
    def variance(self) -> float:
        """The variance of a draw."""
        return _shape(self.sigma2).variance

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
def _shape(sigma2: Fraction) -> _Shape:
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


def _accept_nothing(
    proposals: Integers, halves: HalfWords, shift: float, rate: float, out: Integers, filled: int, start: int
) -> tuple[int, int, bool]:
    """Leaves every proposal open: a few draws are made one by one, without loading the compiler."""
    return filled, start, True
