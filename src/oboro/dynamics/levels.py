"""The radius of an elliptical stable law as a function of its log-density, tabulated once for each law.

The density f(|x|) in d dimensions falls with |x|. Its levels are numbered by s >= 0, where

    log f(0) - log f(r) = (d + alpha) log cosh(s),      r = sinh(s) e^(shape(s)).

Cauchy's law (alpha = 1) has shape = 0. For the others `shape` is an even, smooth function between two
constants, because all of them fall like r^-(d + alpha) at last: a spline holds it to some 1e-13. From one table
come r and R, the radius where the density is e^-eps times that at r, for every eps, without a search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.mixing import Nodes, nodes

_APART, _GROW = 0.08, 4.0  # knots of the first table: even up to s = 4 or so, then ever further apart
_ROUNDS, _CLOSE = 7, 3e-13  # a knot is added in the middle wherever the table is off by more
_MIRRORED = 12
_BLOCK = 24
_NOTHING = 60.0  # e^-60 of the largest part of a sum is left out
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
    shape: Any
    bend: Any  # the derivative of shape

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
        off = np.abs(value - spline(new)) > _CLOSE
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
        keep = np.flatnonzero((ends > ends.max(axis=1)[:, None] - _NOTHING).any(axis=0))
        used = slice(keep[0], keep[-1] + 1)
        each = base[used] - square[:, None] * half[used]
        top = each.max(axis=1)
        out[start : start + _BLOCK] = top + np.log(np.exp(each - top[:, None]).sum(axis=1))
    return out


def _spline(s: Floats, shape: Floats) -> Any:
    from scipy.interpolate import make_interp_spline

    left, mirrored = -s[1:_MIRRORED][::-1], shape[1:_MIRRORED][::-1]
    return make_interp_spline(np.concatenate([left, s]), np.concatenate([mirrored, shape]), k=7)


def log_sinh(s: Floats) -> Floats:
    return np.asarray(s + np.log(-np.expm1(-2 * s)) - math.log(2))


def log_cosh(s: Floats) -> Floats:
    return np.asarray(s + np.log1p(np.exp(-2 * s)) - math.log(2))
