"""Exactly how much an elliptical stable vector in d dimensions hides: delta, and the pure eps.

The density f(|x|) falls with |x|. So x is likelier by e^eps or more under the law around 0 than under the law
around a point at distance z if and only if its distance r2 from that point is at least R(r), where r = |x|
and log f(R(r)) = log f(r) - eps. Given r, x is uniform on a sphere and r2^2 = r^2 + z^2 - 2 r z cos(theta).
With p the density of |x| and H the distribution function of cos(theta), and f(R) = e^-eps f(r) to do away
with e^eps,

    delta(z) = P(|x| <= r0) + int p(r) [H(k1) - (R/r)^(d-1) R'(r) (1 - H(k2))] dr  over R(r) - r <= z <= R(r) + r,
    k1 = (r^2 + z^2 - R^2)/(2 r z),  k2 = (R^2 + z^2 - r^2)/(2 R z),  R(r0) + r0 = z (r0 = 0 if z < R(0)).

If z is below every R(r) - r there is no such x at all: eps is pure, and the largest such z is min (R(r) - r).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.dynamics.mixing import Nodes, nodes

Floats = npt.NDArray[np.float64]

_POINTS = 64
# of sqrt(2 d), the size of a Gaussian vector; small alpha spreads over many decades
_CUTS = np.concatenate([10.0 ** np.arange(-40, -1), [0.03, 0.3, 0.7, 1.0, 1.5, 3.0, 10.0, 50.0, 1e3, 1e5]])


@dataclass(frozen=True, slots=True, eq=False)
class Radial:
    """The law of scale 1 in `dims` dimensions, and R for one eps."""

    dims: int
    eps: float
    rule: Nodes
    gap: Any  # R(r) - r as a cubic spline: where a root is looked for, and where Newton's steps start
    pure: float  # min (R(r) - r): the largest distance at which eps is pure

    def partner(self, r: Floats) -> tuple[Floats, Floats]:
        """R(r) and R'(r)."""
        return _partner(self.rule, self.dims, self.eps, r, r + self.gap(r), 2)

    def delta(self, z: float) -> float:
        """The exact delta at distance z."""
        from scipy.special import gammainc

        if z <= self.pure:
            return 0.0
        ends = self._ends(z)
        end = float(ends[-1]) if ends.size else float(self.gap.x[-1])
        if self.gap(0.0) >= z:
            return max(0.0, self._partly(float(ends[0]), end, z)) if ends.size > 1 else 0.0
        start = self._ball(z)  # also R(0) < z: a ball around 0 is inside in every direction
        whole = float(self.rule.weight @ gammainc(self.dims / 2, start**2 / (2 * self.rule.value)))
        return max(0.0, whole + self._partly(start, end, z))

    def _ends(self, z: float) -> Floats:
        """Every r with R(r) - r = z: roots of the spline, and two steps of Newton on R itself."""
        r = np.sort(self.gap.solve(z, extrapolate=False))
        r = r[np.isfinite(r)]
        for _ in range(2 if r.size else 0):
            far, growth = self.partner(r)
            r = r - np.clip((far - r - z) / (growth - 1), -1e-3 * r, 1e-3 * r)
        return np.asarray(r)

    def _ball(self, z: float) -> float:
        """The r with R(r) + r = z."""
        from scipy.optimize import brentq

        return float(brentq(lambda r: float(self.gap(r)) + 2 * r - z, 0.0, z, xtol=1e-15 * z))

    def _partly(self, start: float, end: float, z: float) -> float:
        """The integral from r0, or the first r with R(r) - r = z, to the last. A sine takes the root-like ends away."""
        x, w = np.polynomial.legendre.leggauss(_POINTS)
        cuts = math.sqrt(2.0 * self.dims) * _CUTS
        edges = np.array([start, *cuts[(cuts > start) & (cuts < end)], end])
        half = np.diff(edges)[:, None] / 2
        r = (edges[:-1, None] + half * (1 + np.sin(np.pi * x / 2))).ravel()
        step = (half * np.pi / 2 * np.cos(np.pi * x / 2) * w).ravel()
        far, growth = self.partner(r)
        log_p = (
            _log_density(self.rule, self.dims, r)[0] + _log_sphere(self.dims) + (self.dims - 1) * np.log(r)
        )
        near = np.exp(log_p) * _below((r**2 + z**2 - far**2) / (2 * r * z), self.dims)
        there = np.exp(log_p + (self.dims - 1) * np.log(far / r)) * growth
        return float(step @ (near - there * _below((r**2 - far**2 - z**2) / (2 * far * z), self.dims)))


@lru_cache(maxsize=64)
def radial(alpha: float, dims: int, eps: float) -> Radial:
    """For 0 < alpha < 2. Takes some 50 milliseconds the first time, more in many dimensions."""
    from scipy.interpolate import CubicHermiteSpline

    rule = nodes(alpha, dims)
    first, last = 1e-2 * math.sqrt(dims * rule.value[0]), 1e7 * math.sqrt(2.0 * dims)
    r = np.concatenate([[0.0], np.geomspace(first, last, int(50 * math.log10(last / first)))])
    value, _ = _log_density(rule, dims, r)
    guess = np.interp(-(value - eps), -value, r)
    beyond = value - eps < value[-1]
    guess[beyond] = r[beyond] * math.exp(eps / (dims + alpha))  # the power law of the tail
    far, growth = _partner(rule, dims, eps, r, guess, 5)
    gap = CubicHermiteSpline(r, far - r, growth - 1)
    turns = gap.derivative().roots(extrapolate=False)
    turns = turns[np.isfinite(turns)]
    lowest = (
        _partner(rule, dims, eps, turns, turns + gap(turns), 2)[0] - turns
    )  # flat there: as good as R itself
    return Radial(dims, eps, rule, gap, float(min(lowest.min(initial=np.inf), (far - r).min())))


def _partner(
    rule: Nodes, dims: int, eps: float, r: Floats, guess: Floats, steps: int
) -> tuple[Floats, Floats]:
    """R and R' by Newton's steps on log f."""
    start, slope = _log_density(rule, dims, r)
    at = guess
    for _ in range(steps):
        value, down = _log_density(rule, dims, at)
        at = np.maximum(at - (value - start + eps) / down, at / 2)
    down = _log_density(rule, dims, at)[1]
    return at, slope / down


def _log_density(rule: Nodes, dims: int, r: Floats) -> tuple[Floats, Floats]:
    base = np.log(rule.weight) - dims / 2 * np.log(2 * np.pi * rule.value)
    each = base[None, :] - (r**2)[:, None] / (2 * rule.value)[None, :]
    top = each.max(axis=1)
    share = np.exp(each - top[:, None])
    total = share.sum(axis=1)
    return top + np.log(total), -r * (share @ (1 / rule.value)) / total


def _log_sphere(dims: int) -> float:
    """log of the area of the unit sphere in `dims` dimensions; in one, its two points."""
    return math.log(2) + dims / 2 * math.log(math.pi) - math.lgamma(dims / 2)


def _below(k: Floats, dims: int) -> Floats:
    """H(k) = P(cos(theta) <= k), theta the angle of a uniform direction."""
    from scipy.special import betainc

    if dims == 1:
        return np.where(k < -1, 0.0, np.where(k < 1, 0.5, 1.0))
    half = (dims - 1) / 2
    side = 0.5 * betainc(half, 0.5, np.clip(1 - k * k, 0.0, 1.0))
    return np.asarray(np.where(k <= -1, 0.0, np.where(k >= 1, 1.0, np.where(k < 0, side, 1 - side))))
