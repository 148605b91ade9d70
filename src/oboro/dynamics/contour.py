"""Theorem 1's Q, and the tighter mixture, as one integral each. No stable density is needed.

With k = (eps/z)^alpha, and E e^(-s A) = exp(-(2s)^(alpha/2)) for the mixing variable A, both come down to

    theorem1   Q(z)     = e^(eps/2 - k)/(2 pi)  int e^(i eps t/2) / (1 + i t)   * w(t) dt
    mixture    delta(z) = e^(eps/2 - k)/pi   Im int e^(i eps t/2) t / (1 + t^2) * w(t) dt

over the real line, with w(t) = exp(-k ((1+t^2)^(alpha/2) - 1)). On it the integrand cancels almost to nothing when delta is small. So the line is moved to
t = sinh(x + i theta): theta near the saddle point, where the integrand is about as large as its integral, and
sinh so that it dies off doubly exponentially. It is analytic in a strip around that line, hence the plain
trapezoid rule converges geometrically [Trefethen and Weideman 2014]. For alpha = 2, A = 2 and both are
closed.

What doubles may have lost is added: for an eps beyond 100 or so, alpha near 2, the line cannot follow the saddle far
enough, and the integrand is larger than its integral by more digits than there are. Then this says 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

NODES = 401  # on the right half of the line; the left half is its mirror image
_ANGLES = np.linspace(0.25, 1.0, 40)  # below the real line the integrand explodes: stay well above it
_LOOK = np.linspace(0.0, 1.0, 80)
_STEEPEST = (
    1.25  # the pole at theta = pi/2 stays 0.32 away: the trapezoid error is then below e^(-2 pi 0.32 / step)
)
_ROUNDING = 2.0**-52
_NOTHING = 42.0  # e^-42 of the largest value is not worth a node


def theorem1(alpha: float, eps: float, k: float) -> float:
    """Q at k = (eps/z)^alpha: the mean over A of the normal tail at eps sqrt(A)/z - z/(2 sqrt(A))."""
    if alpha == 2:
        from scipy.special import ndtr

        root = math.sqrt(2 * k)  # eps sqrt(2) / z
        return float(ndtr(eps / (2 * root) - root))
    line = _line(alpha, eps, k)
    return line.integral(line.cosh / (1 + 1j * line.sinh), 1)


def mixture(alpha: float, eps: float, k: float) -> float:
    """The mean over A of the Gaussian mechanism's own delta at variance A, at k = (eps/z)^alpha."""
    if alpha == 2:
        from oboro.dynamics.profile import from_above

        return from_above(eps * eps / (2 * k), eps)
    line = _line(alpha, eps, k)
    return line.integral(-1j * line.sinh / line.cosh, 2)


class _Line(NamedTuple):
    """The nodes of the trapezoid rule."""

    step: float
    sinh: np.ndarray
    cosh: np.ndarray
    exponent: np.ndarray
    unsure: np.ndarray  # the relative error that rounding of the exponent leaves

    def integral(self, factor: np.ndarray, times: int) -> float:
        """The real part of the integral over half of the line, over pi, and what rounding may have taken off; 1 at most."""
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.exp(self.exponent) * factor
            value = terms.real
            found = float(value.sum() - value[0] / 2 + np.abs(terms) @ self.unsure)
        found *= times * self.step / math.pi
        return min(found, 1.0) if math.isfinite(found) else 1.0


def _line(alpha: float, eps: float, k: float) -> _Line:
    # Re cosh(x + i theta)^alpha must grow with x: alpha theta < pi/2
    angles = _ANGLES * min(_STEEPEST, 0.9 * math.pi / (2 * alpha))
    sine = np.sin(angles)
    size = -eps * sine / 2 + k * (1 - np.cos(angles) ** alpha) - np.log1p(-sine)
    angle = float(angles[np.argmin(size)])
    reach = 4.0 + math.log1p(
        60 / eps
    )  # beyond it e^(-eps e^x sin(theta) / 4) is below e^-42, as sin(theta) >= 0.17
    look = reach * _LOOK
    w = look + 1j * angle
    fall = (0.5j * eps * np.sinh(w) - k * np.exp(alpha * np.log(np.cosh(w)))).real
    alive = look[np.flatnonzero(fall >= fall.max() - _NOTHING)[-1]]
    reach = min(reach, float(alive) + 2 * reach / _LOOK.size)
    x = np.linspace(0.0, reach, NODES)
    sinh, cosh = np.sinh(x + 1j * angle), np.cosh(x + 1j * angle)
    oscillating, falling = 0.5j * eps * sinh, k * np.exp(alpha * np.log(cosh))
    unsure = _ROUNDING * (4 + eps / 2 + 2 * k + np.abs(oscillating) + np.abs(falling))
    return _Line(float(x[1]), sinh, cosh, oscillating - falling + eps / 2, unsure)
