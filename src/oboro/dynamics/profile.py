"""The Gaussian mechanism's exact delta, as a function of v = (distance / standard deviation)^2, and a
majorant.

    g(v) = Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m),  m = sqrt(v)          [Balle and Wang 2018]

g is convex up to the inflection v0 = 2 (sqrt(1 + eps^2) - 1) and concave after it. `majorant` follows g up to
v0 and then its tangent: the least convex function above g that is straight beyond v0.
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


def slope(v: float, eps: float) -> float:
    """g'(v) = phi(m/2 - eps/m) / (2 m)."""
    m = math.sqrt(v)
    return math.exp(-((m / 2 - eps / m) ** 2) / 2) / (math.sqrt(2 * math.pi) * 2 * m)


def inflection(eps: float) -> float:
    """v0, written without cancellation: 2 (sqrt(1 + eps^2) - 1) = 2 eps^2 / (sqrt(1 + eps^2) + 1)."""
    return 2 * eps * eps / (math.sqrt(1 + eps * eps) + 1)


def above(v: npt.ArrayLike, eps: float) -> Floats:
    """How far the tangent at v0 lies above g, for v >= v0: never negative."""
    at = inflection(eps)
    v = np.asarray(v, float)
    line = float(gaussian(at, eps)) + slope(at, eps) * (v - at)
    return np.asarray(np.maximum(line - gaussian(v, eps), 0.0))


def majorant(v: npt.ArrayLike, eps: float) -> Floats:
    """The convex majorant of g."""
    v = np.asarray(v, float)
    return gaussian(v, eps) + np.where(v > inflection(eps), above(v, eps), 0.0)
