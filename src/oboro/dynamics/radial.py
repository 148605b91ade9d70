"""Exactly how much an elliptical stable vector in d dimensions hides: delta, and the pure eps.

The density f(|x|) falls with |x|. So x is likelier by e^eps or more under the law around 0 than under the law
around a point at distance z if and only if its distance r2 from that point is at least R(r), where r = |x|
and log f(R(r)) = log f(r) - eps. Given r, x is uniform on a sphere and r2^2 = r^2 + z^2 - 2 r z cos(theta).
With p the density of |x| and H the distribution function of cos(theta), and f(R) = e^-eps f(r) to do away
with e^eps,

    delta(z) = P(|x| <= r0) + int p(r) [H(k1) - (R/r)^(d-1) R'(r) (1 - H(k2))] dr  over R(r) - r <= z <= R(r) + r,
    k1 = (r^2 + z^2 - R^2)/(2 r z),  k2 = (R^2 + z^2 - r^2)/(2 R z),  R(r0) + r0 = z (r0 = 0 if z < R(0)).

If z is below every R(r) - r there is no such x at all: eps is pure, and the largest such z is min (R(r) - r).
Everything is a function of the level s, which is also the variable of the integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.mixing_variable import Nodes, nodes

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

# The radius of an elliptical stable law as a function of its log-density, tabulated once for each law.
#
# The density f(|x|) in d dimensions falls with |x|. Its levels are numbered by s >= 0, where
#
#     log f(0) - log f(r) = (d + alpha) log cosh(s),      r = sinh(s) e^(shape(s)).
#
# Cauchy's law (alpha = 1) has shape = 0. For the others `shape` is an even, smooth function between two
# constants, because all of them fall like r^-(d + alpha) at last: a spline holds it to some 1e-13. From one table
# come r and R, the radius where the density is e^-eps times that at r, for every eps, without a search.

_APART, _GROW = 0.08, 4.0  # knots of the first table: even up to s = 4 or so, then ever further apart
_ROUNDS, _CLOSE_KNOTS = 7, 3e-13  # a knot is added in the middle wherever the table is off by more
_MIRRORED = 12
_BLOCK = 24
_NO_PART = 60.0  # e^-60 of the largest part of a sum is left out
_FURTHEST = 1e8  # radii up to this many times sqrt(2 d) are tabulated; beyond it the law is a power


class Partners(NamedTuple):
    """Radii r and R at some levels s, with log f(R) = log f(r) - eps."""

    log_r: Floats
    slope: Floats  # of log r by s
    apart: Floats  # log R - log r, without cancellation
    growth: Floats  # of log R by s
    tanh: Floats  # of s: log f falls at the rate order * tanh(s)
    beyond: npt.NDArray[np.bool_]  # where R lies beyond the table, and its last radius is taken instead


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """One law of scale 1."""

    dims: int
    order: float  # d + alpha
    rule: Nodes
    log_peak: float  # log f(0)
    knots: Floats
    shape: BSpline
    bend: BSpline  # the derivative of shape

    @property
    def last(self) -> float:
        return float(self.knots[-1])

    def radius(self, s: float) -> float:
        return math.sinh(s) * math.exp(float(self.shape(s)))

    def partners(self, s: Floats, eps: float) -> Partners:
        """r and R at the levels s > 0: cosh(s2) = e^(eps/order) cosh(s), where s2 is the level of R."""
        slope = np.tanh(s)
        low = log_sinh(s)
        apart = 0.5 * np.log1p(math.expm1(2 * eps / self.order) / slope**2)  # of log sinh
        far = low + apart
        far = np.where(far < 20, np.arcsinh(np.exp(np.minimum(far, 20.0))), far + math.log(2))
        both = np.concatenate([s, np.minimum(far, self.last)])
        shape, bend = self.shape(both), self.bend(both) + 1 / np.tanh(both)
        near, there = slice(s.size), slice(s.size, None)
        return Partners(
            low + shape[near],
            bend[near],
            apart + (shape[there] - shape[near]),
            bend[there] * slope / np.tanh(both[there]),
            slope,
            far > self.last,
        )

    def first_partner(self, eps: float) -> float:
        """R(0)."""
        log_far = 0.5 * math.log(math.expm1(2 * eps / self.order))
        far = min(math.asinh(math.exp(log_far)) if log_far < 20 else log_far + math.log(2), self.last)
        return math.exp(log_far + float(self.shape(far)))

    def log_shell(self, s: Floats, log_r: Floats) -> Floats:
        """log of the density of log |x|, at the level s."""
        sphere = math.log(2) + self.dims / 2 * math.log(math.pi) - math.lgamma(self.dims / 2)
        return self.log_peak + sphere - self.order * log_cosh(s) + self.dims * log_r


@lru_cache(maxsize=64)
def levels(alpha: float, dims: int) -> Levels:
    """For 0 < alpha < 2. Some ten milliseconds the first time, more in many dimensions."""
    rule, order = nodes(alpha, dims), dims + alpha
    first, last = 1e-4 * math.sqrt(dims * rule.value[0]), _FURTHEST * math.sqrt(2.0 * dims)
    coarse = np.geomspace(first, last, 120)
    s, _ = _placed(rule, dims, order, coarse)
    count = int(math.log1p(s[-1] / _GROW) * _GROW / _APART)
    wanted = _GROW * np.expm1(np.arange(1, count) * _APART / _GROW)
    wanted = wanted[wanted < s[-1]]
    r = np.exp(np.interp(log_sinh(wanted), log_sinh(s), np.log(coarse)))
    s, shape = _placed(rule, dims, order, r)
    s, shape = np.insert(s, 0, 0.0), np.insert(shape, 0, _centre(rule, dims, order))
    spline = _spline(s, shape)
    open_cells = np.ones(s.size - 1, bool)
    for _ in range(_ROUNDS):
        at = np.flatnonzero(open_cells)
        middle = (s[at] + s[at + 1]) / 2
        new, value = _placed(rule, dims, order, np.exp(log_sinh(middle) + spline(middle)))
        off = np.abs(value - spline(new)) > _CLOSE_KNOTS
        marked = np.zeros(s.size - 1, bool)
        marked[at[off]] = True
        marked[1:] |= marked[:-1].copy()  # and the neighbours of a cell that is off
        marked[:-1] |= marked[1:].copy()
        s, shape = np.insert(s, at + 1, new), np.insert(shape, at + 1, value)
        spline = _spline(s, shape)
        if not off.any():
            break
        halves = np.ones(marked.size, int) + open_cells
        open_cells = np.repeat(marked, halves)
    peak = _log_sum(rule, dims, np.zeros(1))[0]
    return Levels(dims, order, rule, float(peak), s, spline, spline.derivative())


def _placed(rule: Nodes, dims: int, order: float, r: Floats) -> tuple[Floats, Floats]:
    """The levels of some radii, and shape there."""
    log_cosh_s = _drop(rule, dims, r) / order
    with np.errstate(over="ignore"):
        log_sinh_s = np.where(
            log_cosh_s < 20, 0.5 * np.log(np.expm1(np.minimum(2 * log_cosh_s, 40.0))), log_cosh_s
        )
        s = np.where(
            log_sinh_s < 20, np.arcsinh(np.exp(np.minimum(log_sinh_s, 20.0))), log_sinh_s + math.log(2)
        )
    return s, np.log(r) - log_sinh_s


def _centre(rule: Nodes, dims: int, order: float) -> float:
    """shape(0): log f falls like r^2/2 times the mean of 1/A, each A weighted by its density at 0."""
    log_share = rule.log_weight - dims / 2 * np.log(rule.value)
    share = np.exp(log_share - log_share.max())
    return 0.5 * math.log(order * share.sum() / float(share @ (1 / rule.value)))


def _drop(rule: Nodes, dims: int, r: Floats) -> Floats:
    """log f(0) - log f(r), to a relative precision even where it is small."""
    drop = _log_sum(rule, dims, np.zeros(1))[0] - _log_sum(rule, dims, r)
    small = np.flatnonzero(drop < 0.5)
    if small.size:
        base = rule.log_weight - dims / 2 * np.log(rule.value)
        share = np.exp(base - base.max())
        lost = -np.expm1(-(r[small] ** 2)[:, None] / (2 * rule.value)) @ (share / share.sum())
        drop[small] = -np.log1p(-lost)
    return np.asarray(drop)


def _log_sum(rule: Nodes, dims: int, r: Floats) -> Floats:
    """log f(r), r in order: in blocks, each with those nodes of A alone that matter to it."""
    base = rule.log_weight - dims / 2 * np.log(2 * np.pi * rule.value)
    half = 1 / (2 * rule.value)
    out = np.empty(r.size)
    for start in range(0, r.size, _BLOCK):
        square = r[start : start + _BLOCK] ** 2
        ends = base - square[[0, -1], None] * half
        keep = np.flatnonzero((ends > ends.max(axis=1)[:, None] - _NO_PART).any(axis=0))
        used = slice(keep[0], keep[-1] + 1)
        each = base[used] - square[:, None] * half[used]
        top = each.max(axis=1)
        out[start : start + _BLOCK] = top + np.log(np.exp(each - top[:, None]).sum(axis=1))
    return out


def _spline(s: Floats, shape: Floats) -> BSpline:
    from scipy.interpolate import make_interp_spline

    left, mirrored = -s[1:_MIRRORED][::-1], shape[1:_MIRRORED][::-1]
    return make_interp_spline(np.concatenate([left, s]), np.concatenate([mirrored, shape]), k=7)


def log_sinh(s: Floats) -> Floats:
    return np.asarray(s + np.log(-np.expm1(-2 * s)) - math.log(2))


def log_cosh(s: Floats) -> Floats:
    return np.asarray(s + np.log1p(np.exp(-2 * s)) - math.log(2))


_POINTS, _KNOTS = 24, 24  # Gauss points in a piece, and knots of the table, which are closer where it bends
_LONGEST = 0.6  # of a piece, near 0; then ever longer
_CLOSE_RADII = 1e-10
_NEAREST = 1e-7  # R - r falls from s = 0 on, but before this by less than 1e-7 of r
_STEPS = (-1.3e-10, -7e-11, -2e-11, 3e-11, 8e-11, 1.1e-10)  # so close delta is a line, as far as it is known
_CANCELLED = 1e-9
_STRAIGHT = 1e-6  # a step so short leaves its square
_NO_MASS = -60.0  # log of a probability
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
            still = np.abs(new - x) > _CLOSE_RADII * x
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
    alive = int(np.argmax(law.log_shell(s, log_sinh(s) + law.shape(s)) > _NO_MASS))
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
