"""How much Gaussian noise (eps, delta) takes, exactly: the analytic Gaussian mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from oboro.errors import GuaranteeError, told
from oboro.exact import usable

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball as Enclosure


@lru_cache(maxsize=256)
def analytic_sigma(eps: Fraction, delta: Fraction) -> Fraction:
    """A standard deviation, for sensitivity 1, that is enough beyond doubt, and within 1e-6 of the least.

    Enough if Phi(1/(2s) - eps s) - e^eps Phi(-1/(2s) - eps s) <= delta [Balle, Wang 2018], which falls as s grows.
    A float search suggests s; ball arithmetic decides.
    """
    from oboro.noise.lazy import precision

    guess = _search(usable("eps", eps), usable("delta", delta, (-250, 0)))
    for extra in (2e-7, 1e-6, 1e-5, 1e-3, 0.1, 1.0):
        sigma = Fraction(guess * (1 + extra)).limit_denominator(10**8)
        with precision(256):
            if spent(sigma, eps) <= _ball(delta):
                return sigma
    raise GuaranteeError(
        "no Gaussian noise was found for this guarantee", given=told(eps=f"{eps}", delta=f"{delta}")
    )


def spent(sigma: Fraction, eps: Fraction) -> Enclosure:
    """The delta that Gaussian noise costs at eps, enclosed."""
    root, half = _ball(Fraction(2)).sqrt(), _ball(1 / (2 * sigma))
    first = ((_ball(eps * sigma) - half) / root).erfc() / 2
    second = ((_ball(eps * sigma) + half) / root).erfc() / 2
    return first - _ball(eps).exp() * second


def _search(eps: float, delta: float) -> float:
    from scipy.special import log_ndtr

    def cost(sigma: float) -> float:
        first = log_ndtr(1 / (2 * sigma) - eps * sigma)
        second = eps + log_ndtr(-1 / (2 * sigma) - eps * sigma)
        return float(math.exp(first) * -math.expm1(min(0.0, second - first)))

    low, high = 1e-6, 1.0
    while cost(high) > delta and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) > delta else (low, middle)
    return high


def _ball(number: Fraction) -> Enclosure:
    from oboro.noise.lazy import ball

    return ball(number)
