"""What the convex majorant adds to the mixture: E[(ghat - g)(V)], V = z^2/A, from above. Proved, with nothing to converge.

With b = alpha/2 and p = (1-b)/b, V = (z^2/2) (E/a(U))^p for a uniform U and an exponential E (mixing_variable.py), and H = ghat - g
is 0 up to v0, convex, and of a slope that grows to s0 = g'(v0) (profile.py). The chord of a convex function lies above it;
that is used twice, and whatever the knots are, what comes out is too large.

H by its chords
    Between knots v0 < v1 < ... H is at most its chord, whose slope is the mean of s0 - g' there; beyond the last one it grows by
    s0 at most. A sum of ramps: E H(V) <= sum_n (slope_n - slope_(n-1)) E(V - v_n)+, and slopes grow.

U by its chords
    E((V - v)+ given U) = v psi(log a(U) + r), r = log(2v/z^2)/p, psi(x) = E((E e^-x)^p - 1)+ = Gamma(1+p) e^(-p x) Q(p, e^x):
    a mean of convex, falling functions of x. log a(u) is a power series with positive coefficients (mixing_variable.py), so it is
    convex and grows. Where u lies between two knots, psi is at most its chord over log a(u). The chord falls, and the mean of
    log a(u) is at least its value in the middle. What lies beyond the last knot is put there.

Rounding
    log a and r are taken smaller by more than rounding may have added, the rest is a sum of positive numbers: SLACK is added.
    The mean of s0 - g' is Gauss's rule with 10 points in t = log(v/v0). In a cell m/2 - eps/m, m = sqrt(v), moves by 0.7 at most and
    t by 0.16. So within the ellipse that reaches five half-lengths from its middle its imaginary part is at most 2.2, and m g' at
    most e^3 of its largest value, which is below twice the one at v0: the rule is right to 10^-17 of s0, and closer in shorter cells.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.mixing_variable import log_excess
from oboro.dynamics.profile import inflection, slope

_STEP = 0.01  # between knots of u: log a grows by 2% of itself, more closely near 0
_FIRST = 0.05
_KNOTS = 160  # of v
_FAR = 30.0  # P(a(U) > x) falls like x^-(1-b): beyond e^-30 all is put in one place
_TOP = 6.6  # psi is below e^-735 there
_STRAIGHT = 9.0  # standard deviations out, g' is below e^-40
_NOTHING = 1e-290  # more than what is left out there
_GAUSS = np.polynomial.legendre.leggauss(10)
_BEND = [(-1) ** k / math.factorial(k) for k in range(12, 1, -1)]  # t - 1 + e^-t = t^2/2 - t^3/6 + ...
_ROUNDING = 2.0**-45
SLACK = 1e-11


class _Law(NamedTuple):
    """A law on a few values of log a(U): means of convex, falling functions of it are too large."""

    log_a: Floats
    weight: Floats


def excess(alpha: float, eps: float, z: float) -> float:
    """No less than E[(ghat - g)(z^2/A)], for alpha < 2."""
    b, first = alpha / 2, inflection(eps)
    power, law = (1 - b) / b, _law(b)
    start = (math.log(2 * first) - 2 * math.log(z)) / power
    if start + law.log_a[0] > _TOP:
        return _NOTHING
    end = math.log(math.exp(start + law.log_a[0]) + 60 + 2 * power) - law.log_a[0]
    wide = 2 * math.log((_STRAIGHT + math.sqrt(_STRAIGHT**2 + 2 * eps)) / math.sqrt(first))
    t = np.linspace(0.0, min(power * (end - start), wide), _KNOTS)
    v = first * np.exp(t)
    slopes = np.append(_slopes(t, eps), slope(first, eps))
    steeper = np.maximum(np.diff(slopes, prepend=0.0), 0.0)
    away = np.log(2 * v) - 2 * math.log(z)
    r = (away - _ROUNDING * (1 + np.abs(away))) / power
    near = law.log_a + start < _TOP
    ramps = law.weight[near] @ _psi(law.log_a[near, None] + r, power)
    found = float((steeper * v) @ ramps)
    return found * (1 + SLACK) + _NOTHING if math.isfinite(found) else 1.0


def _slopes(t: Floats, eps: float) -> Floats:
    """The slopes of the chords of H between v0 e^t: means of s0 - g'.

    g'(v0 e^t)/s0 = exp(-(v0/8) d^2/(1+d) - (t - d/(1+d))/2), d = e^t - 1, as eps^2/(2 v0) = v0/8 + 1/2 at the inflection.
    """
    first = inflection(eps)
    half = np.diff(t)[:, None] / 2
    at = t[:-1, None] + half * (_GAUSS[0] + 1)
    bend = np.where(at < 0.1, at * at * np.polyval(_BEND, at), at + np.expm1(-at))  # t - d/(1+d)
    fall = first / 2 * np.sinh(at / 2) ** 2 + bend / 2
    part = -np.expm1(-fall) * np.exp(at)
    return np.asarray(slope(first, eps) * ((part * half) @ _GAUSS[1]) / np.diff(np.expm1(t)))


def _psi(x: Floats, power: float) -> Floats:
    """Gamma(1+p) e^(-p x) Q(p, e^x), where Q is no smaller than float64 can tell.

    Far to the left 1 - Q >= e^(p x - e^x)/Gamma(1+p), which is nearly all of it.
    """
    from scipy.special import gammaincc

    log_whole = math.lgamma(1 + power)
    out = np.zeros(x.shape)
    left, bulk = x < -30, (x >= -30) & (x < _TOP)
    with np.errstate(over="ignore", under="ignore"):
        out[left] = np.expm1(log_whole - power * x[left]) + np.exp(x[left]) + 2.0**-50
        out[bulk] = np.exp(log_whole - power * x[bulk]) * gammaincc(power, np.exp(x[bulk]))
    return out


@lru_cache(maxsize=64)
def _law(b: float) -> _Law:
    logit = np.concatenate([np.linspace(-16, 12, 4000), np.geomspace(12.003, 60, 400)])
    known = log_excess(logit, b)[0]
    far = min(_FAR / (1 - b), 0.999 * float(known[-1]))
    count = math.ceil(math.asinh(math.sqrt(far / _FIRST)) / _STEP)
    wanted = _FIRST * np.sinh(_STEP * np.arange(1, count)) ** 2
    edge = np.unique(np.interp(wanted, known, logit))
    u, rest = (np.insert(1 / (1 + np.exp(sign * edge)), 0, at) for sign, at in ((-1, 0.0), (1, 1.0)))
    share = np.where(u[:-1] < 0.5, np.diff(u), -np.diff(rest))
    middle = np.log((u[1:] + u[:-1]) / (rest[1:] + rest[:-1]))
    at, between = np.insert(log_excess(edge, b)[0], 0, 0.0), log_excess(middle, b)[0]
    unsure = _ROUNDING * (1 + at) / (1 - b)
    apart = np.maximum(np.diff(at), 1e-300)
    to_left = np.clip((at[1:] - between + 4 * unsure[1:]) / apart, 0.0, 1.0)
    weight = np.zeros(at.size)
    weight[:-1] += share * to_left
    weight[1:] += share * (1 - to_left)
    weight[-1] += rest[-1]
    least = math.log1p(-b) + math.log(b) * b / (1 - b)
    return _Law(least + at - unsure, weight)
