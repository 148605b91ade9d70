"""Exactly how much an elliptical stable vector in d dimensions hides: delta, and the pure eps.

The density f(|x|) falls with |x|. So x is likelier by e^eps or more under the law around 0 than under the law
around a point at distance z if and only if its distance r2 from that point is at least R(r), where r = |x|
and log f(R(r)) = log f(r) - eps. Given r, x is uniform on a sphere and r2^2 = r^2 + z^2 - 2 r z cos(theta).
With p the density of |x| and H the distribution function of cos(theta), and f(R) = e^-eps f(r) to do away
with e^eps,

    delta(z) = P(|x| <= r0) + int p(r) [H(k1) - (R/r)^(d-1) R'(r) (1 - H(k2))] dr  over R(r) - r <= z <= R(r) + r,
    k1 = (r^2 + z^2 - R^2)/(2 r z),  k2 = (R^2 + z^2 - r^2)/(2 R z),  R(r0) + r0 = z (r0 = 0 if z < R(0)).

If z is below every R(r) - r there is no such x at all: eps is pure, and the largest such z is min (R(r) - r).
Everything is a function of the level s (levels.py), which is also the variable of the integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.levels import Levels, levels, log_sinh

_POINTS, _KNOTS = 24, 24  # Gauss points in a piece, and knots of the table, which are closer where it bends
_LONGEST = 0.6  # of a piece, near 0; then ever longer
_CLOSE = 1e-10
_NEAREST = 1e-7  # R - r falls from s = 0 on, but before this by less than 1e-7 of r
_STEPS = (-1.3e-10, -7e-11, -2e-11, 3e-11, 8e-11, 1.1e-10)  # so close delta is a line, as far as it is known
_CANCELLED = 1e-9
_STRAIGHT = 1e-6  # a step so short leaves its square
_NOTHING = -60.0  # log of a probability
_ROUNDING = 1e-13  # of each part of delta


class Delta(NamedTuple):
    """delta at one z, its derivative by z, and how far off it may be: rounding, and what lies beyond the table."""

    value: float
    slope: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Radial:
    """The law of scale 1 in `dims` dimensions, for one eps."""

    law: Levels
    eps: float
    s: Floats  # levels, among them those where R - r is least
    gap: Floats  # R - r there
    total: Floats  # R + r there
    edges: Floats  # where the pieces of the integral end
    pure: float  # min (R - r): the largest distance at which eps is pure

    def delta(self, z: float) -> Delta:
        """The exact delta at distance z.

        Its derivative by z is e^eps times the integral of -f' over the same x, along the axis: given R, the mean
        of the cosine over the angles inside is -(1 - k2^2)^((d-1)/2), up to a constant.
        """
        from scipy.special import gammainc

        if z <= self.pure:
            return Delta(0.0, 0.0, 0.0)
        ends, inside = self._ends(z), 0.0
        if self.gap[0] < z:  # z > R(0): a ball around 0 lies inside in every direction
            start = self._ball(z)
            ends = np.insert(ends, 0, start)
            half = self.law.radius(start) ** 2 / 2
            inside = float(self.law.rule.weight @ gammainc(self.law.dims / 2, half / self.law.rule.value))
        if ends.size % 2:
            ends = np.append(ends, self.law.last)
        s, width = self._points(ends)
        partly = self._integrals(s, width, z)
        return Delta(max(0.0, inside + partly.value), partly.slope, partly.error + _ROUNDING * inside)

    def sure(self, z: float) -> Delta:
        """The same, with how far off it is seen to be: near the pure z its parts all but cancel, and it strays from a line."""
        found = self.delta(z)
        if found.error <= _CANCELLED * found.value:
            return found
        near = [(step, self.delta(z * (1 + step)).value) for step in _STEPS]
        strayed = max(abs(value - found.value - found.slope * z * step) for step, value in near)
        return found._replace(error=found.error + 2 * strayed)

    def calibrate(self, small: float, guess: float) -> float | None:
        """The z with delta(z) = small: Newton's steps on log delta in log(z - pure), where it is almost straight.

        None where delta is the difference of two numbers so close that z could not be told to 1e-10.
        """
        low, high = self.pure, math.inf
        z = self.pure + max(guess - self.pure, 1e-3 * self.pure)
        for _ in range(60):
            value, slope, error = self.delta(z)
            low, high = (z, high) if value < small else (low, z)
            change = 2.0 if value < small else -2.0
            if value > error and slope > 0:
                change = math.log(small / value) * value / (slope * (z - self.pure))
            new = self.pure + (z - self.pure) * math.exp(min(max(change, -8.0), 8.0))
            if abs(change) < _STRAIGHT:
                return new if error < 1e-10 * slope * z and self.sure(new).error < 1e-10 * slope * z else None
            z = new if low < new < high else (low + min(high, 4 * z)) / 2
        return None

    def _ends(self, z: float) -> Floats:
        """Every level with R - r = z, in order."""
        off = self.gap - z
        at = np.flatnonzero((off[:-1] < 0) != (off[1:] < 0))
        return self._roots(at, off, 0.0, z)

    def _ball(self, z: float) -> float:
        """The level with R + r = z."""
        off = self.total - z
        beyond = np.flatnonzero(off > 0)[:1]
        return float(self._roots(beyond - 1, off, 2.0, z)[0]) if beyond.size else self.law.last

    def _roots(self, at: npt.NDArray[np.intp], off: Floats, more: float, z: float) -> Floats:
        """The roots of R - r + more r - z between s[at] and s[at + 1]: Newton's steps, halving where they leave."""
        low, high, before = self.s[at], self.s[at + 1], off[at] < 0
        x = low + (high - low) * off[at] / (off[at] - off[at + 1])
        for _ in range(60 if at.size else 0):
            x = np.clip(x, np.nextafter(low, high), high)
            here = self.law.partners(x, self.eps)
            r = np.exp(here.log_r)
            miss = r * (np.expm1(here.apart) + more) - z
            left = (miss < 0) == before
            low, high = np.where(left, x, low), np.where(left, high, x)
            new = x - miss / (r * (np.exp(here.apart) * here.growth + (more - 1) * here.slope))
            new = np.where((new >= low) & (new <= high), new, (low + high) / 2)
            still = np.abs(new - x) > _CLOSE * x
            x = new
            if not still.any():
                break
        return np.asarray(x)

    def _points(self, ends: Floats) -> tuple[Floats, Floats]:
        """Levels and weights over every second interval. A sine takes away what is like a root at their ends."""
        place, weight = _gauss()
        s, width = [], []
        for start, end in ends.reshape(-1, 2).tolist():
            within = self.edges[(self.edges > start) & (self.edges < end)]
            first = max(start, float(self.edges[0])) if within.size else start  # before it there is nothing
            edges = np.concatenate([[first], within[within > first], [end]])
            length = np.diff(edges)[:, None]
            s.append((edges[:-1, None] + length * place).ravel())
            width.append((length * weight).ravel())
        return np.concatenate(s), np.concatenate(width)

    def _integrals(self, s: Floats, width: Floats, z: float) -> Delta:
        dims, here = self.law.dims, self.law.partners(s, self.eps)
        r = np.exp(here.log_r)
        far, gap = r * np.exp(here.apart), r * np.expm1(here.apart)
        square = gap * (far + r)  # R^2 - r^2
        log_p = self.law.log_shell(s, here.log_r)
        away = -(z * z + square) / (2 * far * z)  # -k2
        with np.errstate(under="ignore"):
            near, there = np.exp(log_p), np.exp(log_p + dims * here.apart)
            near *= here.slope * _below((z * z - square) / (2 * r * z), dims)
            lost = there * here.growth * _below(away, dims)
            rim = np.maximum((1 - away) * (1 + away), 0.0) ** ((dims - 1) / 2) * _rim(dims)
            slope = there / far * self.law.order * here.tanh * rim
        unsure = np.where(here.beyond, near + lost, _ROUNDING * (near + lost))
        return Delta(float(width @ (near - lost)), float(width @ slope), float(width @ unsure))


@lru_cache(maxsize=256)
def radial(alpha: float, dims: int, eps: float) -> Radial:
    """For 0 < alpha < 2."""
    law = levels(alpha, dims)
    knots = law.knots[1:]
    s = np.concatenate(
        [np.geomspace(_NEAREST, knots[0], 60)[:-1], knots]
    )  # for large eps R - r is least near 0
    gap, total = _gap(law, s, eps)
    lowest = _lowest(law, s, gap, eps)
    least, there = _gap(law, lowest, eps)
    at = np.searchsorted(s, lowest)
    first = [law.first_partner(eps)]
    s_all, gaps, totals = (
        np.concatenate([start, np.insert(values, at, new)])
        for start, values, new in (([0.0], s, lowest), (first, gap, least), (first, total, there))
    )
    return Radial(law, eps, s_all, gaps, totals, _edges(law, knots, eps), float(gaps.min()))


def _edges(law: Levels, s: Floats, eps: float) -> Floats:
    """Where to cut the integral: often where the table has many knots, or the level of R does."""
    lift = math.exp(min(eps / law.order, 700.0))
    back = np.arccosh(np.maximum(np.cosh(np.minimum(s, 300.0)) / lift, 1.0))
    bends = np.unique(np.concatenate([s, back[back > 0]]))[::_KNOTS]
    count = math.ceil(4 * math.log1p(law.last / 4) / _LONGEST)
    even = 4 * np.expm1(_LONGEST / 4 * np.arange(count))
    alive = int(np.argmax(law.log_shell(s, log_sinh(s) + law.shape(s)) > _NOTHING))
    first = float(s[alive]) if alive else 0.0
    cuts = np.unique(np.concatenate([bends, even]))
    cuts = cuts[(cuts > first + 0.1) & (cuts < law.last)]
    bend = (
        math.acosh(lift) if eps < law.order else 1.0
    )  # the level of R is about sqrt(s^2 + bend^2) where eps is small
    close = bend * 2.0 ** np.arange(-2, 60)
    close = close[(close > first) & (close < min(cuts.min(initial=law.last), 0.5))]
    return np.unique(np.concatenate([[first], close, cuts]))


def _gap(law: Levels, s: Floats, eps: float) -> tuple[Floats, Floats]:
    """R - r and R + r."""
    here = law.partners(s, eps)
    r = np.exp(here.log_r)
    gap = r * np.expm1(here.apart)
    return gap, gap + 2 * r


def _lowest(law: Levels, s: Floats, gap: Floats, eps: float) -> Floats:
    """The levels where R - r is least: ever smaller brackets around each lowest knot, and a parabola at last."""
    at = np.flatnonzero((gap[1:-1] <= gap[:-2]) & (gap[1:-1] < gap[2:])) + 1
    low, high = s[at - 1], s[at + 1]
    steps, column = np.linspace(0, 1, 17)[:, None], np.arange(at.size)
    for _ in range(3 if at.size else 0):
        tried = low + (high - low) * steps
        found = _gap(law, tried.ravel(), eps)[0].reshape(tried.shape)
        best = np.clip(np.argmin(found, axis=0), 1, 15)
        low, high = tried[best - 1, column], tried[best + 1, column]
    if not at.size:
        return low
    before, here, after = (found[best + k, column] for k in (-1, 0, 1))
    bend = before - 2 * here + after
    shift = np.where(bend > 0, (before - after) / (2 * np.where(bend > 0, bend, 1.0)), 0.0)
    return np.asarray((low + high) / 2 + np.clip(shift, -1, 1) * (high - low) / 2)


def _rim(dims: int) -> float:
    """c/(d - 1), c (1 - k^2)^((d-3)/2) the density of cos(theta): Gamma(d/2) / (2 sqrt(pi) Gamma((d+1)/2))."""
    return math.exp(math.lgamma(dims / 2) - math.lgamma((dims + 1) / 2)) / (2 * math.sqrt(math.pi))


@lru_cache(maxsize=1)
def _gauss() -> tuple[Floats, Floats]:
    """Gauss's points and weights on [0, 1], drawn towards both ends by a sine."""
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    return (1 + np.sin(np.pi * x / 2)) / 2, np.pi / 4 * np.cos(np.pi * x / 2) * w


def _below(k: Floats, dims: int) -> Floats:
    """H(k) = P(cos(theta) <= k), theta the angle of a uniform direction."""
    from scipy.special import betainc

    if dims == 1:
        return np.where(k < -1, 0.0, np.where(k < 1, 0.5, 1.0))
    half = (dims - 1) / 2
    side = 0.5 * betainc(half, 0.5, np.clip(1 - k * k, 0.0, 1.0))
    return np.asarray(np.where(k <= -1, 0.0, np.where(k >= 1, 1.0, np.where(k < 0, side, 1 - side))))
