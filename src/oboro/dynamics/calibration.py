"""How much noise: the largest distance z, in units of the noise's scale, that (eps, delta) allows.

    method         holds for                                                    uses
    "theorem1"     one A for the whole record          the paper's Theorem 1: the normal tail, averaged over A
    "mixture"      one A for the whole record          the Gaussian mechanism's exact delta, averaged over A
    "exact"        one A, in `dims` dimensions         the exact delta of the elliptical stable law (radial.py)
    "independent"  an A of its own for every number    the convex majorant of the Gaussian delta, averaged over A
    "discrete"     one A, discrete Gaussian noise      zCDP given A, averaged over A
    "pure"         one A, in `dims` dimensions         delta = 0: the largest likelihood ratio (alpha < 2)

z is the Euclidean distance between neighbours divided by the scale; the scale of S(alpha, scale) is that of
the characteristic function exp(-(scale |t|)^alpha), so that alpha = 2 has the variance 2 scale^2.

Why "mixture" holds
    Given A the mechanism is Gaussian, and any set is at most e^eps times likelier plus g(z^2/A). Average over A.

Why "independent" holds
    Given all A_t it is Gaussian with squared distance sum z_t^2/A_t = sum w_t (z^2/A_t), w_t = z_t^2/z^2. Its delta is at
    most ghat of that, ghat the convex majorant of g (profile.py). Jensen: the mean of ghat(sum w_t X_t) is at most
    sum w_t E ghat(X_t) = E ghat(z^2/A). However the change is spread over the numbers, and however many there are.

All are float64 quadratures of errors below 1e-10. A plan leaves ten times that as a margin (MARGIN).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oboro.dynamics import contour
from oboro.dynamics.mixing import kanter, nodes
from oboro.dynamics.profile import above, inflection, majorant
from oboro.dynamics.radial import radial
from oboro.errors import ParameterError
from oboro.exact import Number, positive, rational, show, whole

METHODS = ("theorem1", "mixture", "independent", "exact", "discrete", "pure")
MARGIN = 1e-9  # relative, of z: ten times the largest error of a calibration that was measured
_LEAST_K, _MOST_K = 1e-12, 3000.0


def calibrate(
    *, alpha: Number, eps: Number, delta: Number | None = None, method: str = "mixture", dims: int | None = None
) -> float:
    """The largest z with (eps, delta): Q^-1 for "theorem1". `dims` is for "exact" and "pure"."""
    tail, loss, dimensions = _checked(alpha, eps, method, dims)
    if method == "pure":
        if delta is not None and rational("delta", delta) != 0:
            raise ParameterError("pure has no delta", given=f"delta={delta}", needed="no delta", fix='method="exact"')
        return _pure(tail, loss, dimensions)
    small = _small(delta)
    return _calibrated(tail, loss, small, method, dimensions)


def delta(
    *, alpha: Number, eps: Number, z: Number, method: str = "mixture", dims: int | None = None
) -> float:
    """The delta that `method` proves at distance z."""
    tail, loss, dimensions = _checked(alpha, eps, method, dims)
    at = float(positive("z", z))
    if method == "pure":
        raise ParameterError("pure has no delta", given='method="pure"', needed=", ".join(METHODS[:-1]), fix='method="exact"')
    return _delta(tail, loss, at, method, dimensions)


def pure_eps(*, alpha: Number, z: Number, dims: int = 1) -> float:
    """The pure eps at distance z: the largest log-ratio of two elliptical stable densities, for alpha < 2."""
    from scipy.optimize import brentq

    tail, _, dimensions = _checked(alpha, 1, "pure", dims)
    at = float(positive("z", z))
    low = high = 2 * (dimensions + 1) * math.asinh(at / 2)
    while _pure(tail, low, dimensions) > at:
        low /= 2
    while _pure(tail, high, dimensions) < at:
        high *= 2
    return float(brentq(lambda guess: _pure(tail, guess, dimensions) - at, low, high, xtol=1e-12 * low))


def _delta(alpha: float, eps: float, z: float, method: str, dims: int) -> float:
    k = (eps / z) ** alpha
    if method == "theorem1":
        return contour.theorem1(alpha, eps, k)
    if method == "discrete":
        rule = nodes(alpha)
        return min(1.0, float(rule.weight @ _concentrated(z * z / (2 * rule.value), eps)))
    if method == "exact" and alpha < 2:
        return radial(alpha, dims, eps).delta(z)
    value = contour.mixture(alpha, eps, k)
    return value + _excess(alpha, eps, z) if method == "independent" and alpha < 2 else value


@lru_cache(maxsize=4096)
def _calibrated(alpha: float, eps: float, small: float, method: str, dims: int) -> float:
    """Solves delta(z) = small in log z; the bracket is that of k = (eps/z)^alpha, alike for every alpha."""
    if method == "independent" and alpha < 2:
        # the excess over the mixture is small where delta is: a few steps of the secant
        start = _calibrated(alpha, eps, small, "mixture", 1)
        return _secant(lambda z: _delta(alpha, eps, z, method, dims), start, small)
    low, high = (math.log(eps) - math.log(k) / alpha for k in (_MOST_K, _LEAST_K))
    if method == "exact" and alpha < 2:
        low = math.log(_pure(alpha, eps, dims)) + 1e-12
        high = max(math.log(_calibrated(alpha, eps, small, "mixture", 1)) + 3, low + 5)
    return math.exp(_root(lambda log_z: _delta(alpha, eps, math.exp(log_z), method, dims), low, high, small))


def _root(value: Callable[[float], float], low: float, high: float, small: float) -> float:
    from scipy.optimize import brentq

    def miss(x: float) -> float:
        return math.log(max(value(x), 1e-300) / small)

    return float(brentq(miss, low, high, xtol=1e-13, rtol=8.9e-16))


def _secant(value: Callable[[float], float], start: float, small: float) -> float:
    """The z at which log value(z) = log small; value grows with z, and is at least small at `start`."""
    x = math.log(start)
    miss = math.log(value(start) / small)
    other, other_miss = x - 0.5 * miss - 1e-6, 0.0
    for _ in range(60):
        other_miss = math.log(max(value(math.exp(other)), 1e-300) / small)
        if abs(other_miss) < 1e-13 or other == x or other_miss == miss:
            break
        step = -other_miss * (other - x) / (other_miss - miss)
        x, miss = other, other_miss
        other += max(-1.0, min(1.0, step))
        if abs(step) < 1e-14:
            break
    return math.exp(other)


def _pure(alpha: float, eps: float, dims: int) -> float:
    return 2 * math.sinh(eps / (2 * (dims + 1))) if alpha == 1 else radial(alpha, dims, eps).pure


def _excess(alpha: float, eps: float, z: float) -> float:
    """E[(ghat - g)(z^2/A)], from A < z^2/v0 alone. v = z^2/A = (z^2/2) X^((1-b)/b), with X = e^xi as in mixing.py."""
    rule = kanter(alpha)
    at = inflection(eps)
    first = (math.log(2 * at) - 2 * math.log(z)) / rule.power  # v = v0
    last = math.log(math.exp(min(first + rule.least, 700.0)) + 50.0) - rule.least  # q falls by e^-50
    if first + rule.least > 6.7:
        return 0.0  # e^-a(0)X is below e^-800
    cuts = [first, *[c for c in (-rule.least - 30, -rule.least - 4) if first < c < last], last]
    x, w = np.polynomial.legendre.leggauss(64)
    total = 0.0
    for low, high in zip(cuts, cuts[1:], strict=False):
        xi = low + (high - low) * (x + 1) / 2
        part = above(at * np.exp(rule.power * (xi - first)), eps) * rule.density(xi)
        total += float(part @ w) * (high - low) / 2
    return total


def _concentrated(rho: Any, eps: float) -> Any:
    """The delta of rho-zCDP at the best order a: exp((a-1)(a rho - eps)) (1-1/a)^a / (a-1) [Canonne et al. 2020].

    Its logarithm is convex in a, with the derivative (2a-1) rho - eps + log((a-1)/a): Newton in log(a-1).
    """
    rho = np.asarray(rho, float)
    x = np.log(np.maximum((eps / rho - 1) / 2, 1e-3) + 1e-3)
    for _ in range(60):
        less = np.exp(x)  # a - 1
        miss = (2 * less + 1) * rho - eps - np.log1p(1 / less)
        x = np.maximum(x - np.clip(miss / (2 * less * rho + 1 / (1 + less)), -2.0, 2.0), -600.0)
    less = np.exp(x)
    exponent = less * ((1 + less) * rho - eps + x) - (1 + less) * np.log1p(less)
    return np.exp(np.minimum(exponent, 0.0))


def _checked(alpha: Number, eps: Number, method: str, dims: int | None) -> tuple[float, float, int]:
    tail = check_alpha(alpha)
    loss = float(positive("eps", eps))
    if method not in METHODS:
        raise ParameterError("method is unknown", given=f"method={method!r}", needed=", ".join(METHODS), fix='method="mixture"')
    if method in ("exact", "pure") and dims is None:
        raise ParameterError(
            f"method {method!r} needs the number of dimensions", given="dims=None", needed="how many numbers get noise", fix="dims=10"
        )
    if method == "pure" and tail == 2:
        raise ParameterError(
            "Gaussian noise is never pure", given="alpha=2", needed="alpha below 2, or a delta", fix='delta="1e-6"'
        )
    return tail, loss, 1 if dims is None else whole("dims", dims, least=1, most=10**6)


def check_alpha(alpha: Number) -> float:
    """The tail index as a float: above 0, and at most 2."""
    tail = positive("alpha", alpha)
    if tail > 2:
        raise ParameterError("alpha must be at most 2", given=f"alpha={show(tail)}", needed="0 < alpha <= 2", fix="alpha=1.5")
    if tail < rational("alpha", "0.05"):
        raise ParameterError(
            "alpha is too small to calibrate", given=f"alpha={show(tail)}", needed="at least 0.05", fix="alpha=0.5"
        )
    return float(tail)


def _small(delta: Number | None) -> float:
    if delta is None:
        raise ParameterError("delta is missing", given="delta=None", needed="a number above 0 and below 1", fix='delta="1e-5"')
    value = positive("delta", delta)
    if value >= rational("delta", "0.9"):
        raise ParameterError("delta is too large", given=f"delta={show(value)}", needed="below 0.9", fix='delta="1e-5"')
    return float(value)


__all__ = ["MARGIN", "METHODS", "calibrate", "check_alpha", "delta", "majorant", "pure_eps"]
