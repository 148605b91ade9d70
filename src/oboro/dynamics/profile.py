"""The Gaussian mechanism's exact delta, as a function of v = (distance / standard deviation)^2.

g(v) = Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m),  m = sqrt(v)          [Balle and Wang 2018]
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats

_SMALLEST = 1e-300


def gaussian(v: npt.ArrayLike, eps: float) -> Floats:
    """g(v), for an array of v >= 0."""
    from scipy.special import log_ndtr, ndtr

    m = np.sqrt(np.maximum(np.asarray(v, float), _SMALLEST))
    with np.errstate(over="ignore"):
        return np.asarray(ndtr(m / 2 - eps / m) - np.exp(eps + log_ndtr(-m / 2 - eps / m)))


def from_above(v: float, eps: float) -> float:
    """g(v), plus what rounding may have taken off: its two parts all but cancel if eps is small."""
    from scipy.special import log_ndtr

    m = math.sqrt(max(v, _SMALLEST))
    log_parts = float(log_ndtr(m / 2 - eps / m)), eps + float(log_ndtr(-m / 2 - eps / m))
    size = 4 + eps + abs(log_parts[0]) + (m / 2 + eps / m) ** 2
    lost = 2.0**-52 * size * sum(math.exp(min(part, 0.0)) for part in log_parts)
    return min(1.0, float(gaussian(v, eps)) + lost)
