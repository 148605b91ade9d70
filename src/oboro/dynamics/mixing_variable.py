"""The mixing variable A of the stable laws, for forecasts and calibrations: E e^(-s A) =
exp(-(2s)^(alpha/2)).

An elliptical stable vector is sqrt(A) G with G Gaussian, so everything about it is a mean over A. With b =
alpha/2, A = 2 (a(U)/E)^((1-b)/b) for a uniform U and an exponential E [Kanter 1975], where a(u) = sin((1-b)
pi u) sin(b pi u)^(b/(1-b)) / sin(pi u)^(1/(1-b)). Hence log(A/2) = -xi (1-b)/b, where xi = log E - log a(U)
has the density

    q(xi) = int K(xi + l) u'(l) dl,   K(s) = exp(s - e^s),

where u(l) is the inverse of l = log a(u), which grows from log a(0).

All terms are positive, so q is right to many digits in both tails. Nothing here touches a draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Floats

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

_FAR = 45.0  # K(s) u'(s - shift) is below e^-45 of its peak for b s < -45 and for s > 4
_STEP = 0.15
_KNOTS_APART, _KNOTS_GROW = 0.12, 0.035
_MIDDLE = 1.0  # of the bulk
_TOP = 12.0  # of the table: q is e^-160000 there, which 10^4 dimensions can ask for
_APART = 0.08  # between nodes of A, in units of s
_CORE = 0.1 * np.arange(1, 68)
_SERIES = (1 / 6, 1 / 180, 1 / 2835, 1 / 37800)  # log(sin(x)/x) = -x^2/6 - x^4/180 - ...


@dataclass(frozen=True, slots=True, eq=False)
class Kanter:
    """The density q at one alpha. `least` is log a(0) = log((1-b) b^(b/(1-b))); l is counted from there."""

    b: float
    least: float
    log_slope: BSpline  # log u'(l) as a spline in log l
    table: BSpline  # log q + e^shift as a spline in shift = xi + least: see `_tabulated`

    @property
    def power(self) -> float:
        return (1 - self.b) / self.b

    @property
    def first(self) -> float:
        """du/dt at 0, where l = t^2/2 + ... = b pi^2 u^2 / 2 + ..."""
        return 1 / (math.pi * math.sqrt(self.b))

    def density(self, xi: Floats) -> Floats:
        """q(xi)."""
        with np.errstate(under="ignore"):
            return np.exp(self.log_density(xi))

    def log_density(self, xi: Floats) -> Floats:
        """log q(xi), from the table; to the left of it q is an exponential, of the rate 1 - b."""
        shift = np.asarray(xi, float) + self.least
        beyond = np.minimum(shift - self.table.t[0], 0.0)
        inside = np.clip(shift, self.table.t[0], _TOP)
        return np.asarray(self.table(inside) - np.exp(np.minimum(shift, 700.0)) + (1 - self.b) * beyond)

    def lifted(self, shift: Floats) -> Floats:
        """log q + e^shift, by three rules that overlap: K broad, of the width of u', or narrow."""
        out = np.empty(shift.shape)
        for chosen, rule in (
            (shift < -self._far, self._left),
            ((shift >= -self._far) & (shift < 1), self._bulk),
            (shift >= 1, self._right),
        ):
            if chosen.any():
                out[chosen] = np.log(rule(shift[chosen]))
        return out + np.where(shift < 1, np.exp(np.minimum(shift, 1.0)), 0.0)

    @property
    def _far(self) -> float:
        """Where the left rule takes over. K falls like e^s, u' grows like e^(-(1-b) s): s matters down to -_FAR/b."""
        return min(_FAR / self.b, _reach(self.b))

    def _left(self, shift: Floats) -> Floats:
        """Every s that matters has l = s - shift > 0, where u' is smooth: sum over s."""
        s = np.arange(-self._far + 1, 4.5, 0.25)
        return np.asarray(self._slope(s - shift[:, None]) @ (0.25 * np.exp(s - np.exp(s))))

    def _bulk(self, shift: Floats) -> Floats:
        """l = sqrt(1 + t^2) - 1, of which u is an odd, smooth function: sum over t."""
        t = _STEP * np.arange(1, math.ceil((self._far + 10) / _STEP))
        root = np.sqrt(1 + t**2)
        exponent = np.minimum(shift[:, None] + (root - 1), 700.0)
        first = _STEP / 2 * self.first * np.exp(shift - np.exp(shift))
        weight = _STEP * self._slope(root - 1) * t / root
        return np.asarray(np.exp(exponent - np.exp(exponent)) @ weight + first)

    def _right(self, shift: Floats) -> Floats:
        """e^(shift + l) = c + w^2, c = e^shift: q e^c = int 2 w e^(-w^2) u' dw, a smooth, even function of w."""
        c = np.exp(shift)[:, None]
        slope = self._slope(np.log1p(_CORE**2 / c))
        first = 0.05 * np.sqrt(2 * c[:, 0]) * self.first  # 2 w u' at w = 0: l = w^2/c, hence t = w sqrt(2/c)
        return np.asarray(slope @ (0.1 * 2 * _CORE * np.exp(-(_CORE**2))) + first)

    def _slope(self, excess: Floats) -> Floats:
        """u'(l)."""
        return np.asarray(np.exp(self.log_slope(np.log(excess))))


@lru_cache(maxsize=64)
def kanter(alpha: float) -> Kanter:
    """For 0 < alpha < 2."""
    from scipy.interpolate import make_interp_spline

    b = alpha / 2
    logit = np.concatenate([np.linspace(-16, 12, 900), np.geomspace(12.03, 400, 400)])
    excess, slope = log_excess(logit, b)
    log_slope = make_interp_spline(np.log(excess), -np.log(slope), k=5)
    plain = Kanter(b, math.log1p(-b) + math.log(b) * b / (1 - b), log_slope, None)
    return replace(plain, table=_tabulated(plain))


def _tabulated(rule: Kanter) -> BSpline:
    """log q + e^shift, which is nearly straight at both ends: knots even in the bulk, then ever further apart."""
    from scipy.interpolate import make_interp_spline

    wide = _KNOTS_APART / _KNOTS_GROW
    first, last = (
        math.asinh((end - _MIDDLE) / wide) / _KNOTS_GROW for end in (_MIDDLE - _reach(rule.b), _TOP)
    )
    shift = _MIDDLE + wide * np.sinh(_KNOTS_GROW * np.linspace(first, last, math.ceil(last - first)))
    return make_interp_spline(shift, rule.lifted(shift), k=7)


def _reach(b: float) -> float:
    """How far to the left the table goes: until q, which falls at the rate 1 - b, is below e^-90."""
    return 60.0 + 90.0 / (1 - b)


def log_excess(logit: Floats, b: float) -> tuple[Floats, Floats]:
    """log a(u) - log a(0) and its derivative by u, for u = 1/(1 + e^-logit); near 0 by its series."""
    u, rest = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(np.minimum(logit, 700.0)))
    x, y, w = (
        np.pi * (1 - b) * u,
        np.pi * np.where(u < 0.5, b * u, (1 - b) + b * rest),
        np.pi * np.minimum(u, rest),
    )
    side = np.where(u < 0.5, 1.0, -1.0)
    value = np.log(np.sin(x)) + (b * np.log(np.sin(y)) - np.log(np.sin(w))) / (1 - b)
    slope = np.pi * ((1 - b) / np.tan(x) + side * (b * b / np.tan(y) - 1 / np.tan(w)) / (1 - b))
    value -= math.log1p(-b) + math.log(b) * b / (1 - b)
    near, near_slope = np.zeros_like(u), np.zeros_like(u)
    small = np.minimum(u, 0.05)
    for order, part in zip((2, 4, 6, 8), _SERIES, strict=True):
        factor = part * math.pi**order * (sum(b**j for j in range(order + 1)) - (1 - b) ** order)
        near, near_slope = near + factor * small**order, near_slope + order * factor * small ** (order - 1)
    return np.where(u < 0.05, near, value), np.where(u < 0.05, near_slope, slope)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Values of A and weights, so that E h(A) is about `weight @ h(value)` for smooth h."""

    value: Floats
    log_weight: Floats

    def __post_init__(self) -> None:
        self.value.setflags(write=False)
        self.log_weight.setflags(write=False)

    @property
    def weight(self) -> Floats:
        with np.errstate(under="ignore"):
            return np.exp(self.log_weight)


@lru_cache(maxsize=64)
def nodes(alpha: float, dims: int = 1) -> Nodes:
    """Nodes fine enough for the density of |X| in up to `dims` dimensions.

    They are even in s, where s(y) = 2 asinh((y - y0)/(2 core)) + (y - y0)/cap and y = log(A/2): about `core`
    apart around the bulk, further out ever wider, but not wider than `cap`, which many dimensions can tell
    apart.
    """
    if alpha == 2:
        return Nodes(np.array([2.0]), np.array([0.0]))
    rule = kanter(alpha)
    core, cap = rule.power, min(4.5, 6.0 * math.sqrt(2 / dims))
    centre = rule.power * rule.least
    low = -rule.power * (math.log(1.5 * (rule.power * dims / 2 + 90)) - rule.least) - centre
    high = 46.0 + 45.0 / (alpha / 2 + dims / 2) if dims > 1 else min(max(80.0, 72.0 / alpha), 650.0)
    y = _even(low, high, core, cap, _APART)
    spread = 1 / (1 / np.sqrt(core**2 + y**2 / 4) + 1 / cap)
    log_weight = np.log(_APART * spread / rule.power) + rule.log_density(-(y + centre) / rule.power)
    return Nodes(2 * np.exp(y + centre), log_weight)


def _even(low: float, high: float, core: float, cap: float, step: float) -> Floats:
    """The y in [low, high] at which s(y) is a whole multiple of `step`: Newton, from a table."""

    def s(y: Floats) -> Floats:
        return np.asarray(2 * np.arcsinh(y / (2 * core)) + y / cap)

    ends = s(np.array([low, high]))
    wanted = step * np.arange(math.ceil(ends[0] / step), math.floor(ends[1] / step) + 1)
    table = np.concatenate(
        [-np.geomspace(-low, core * 1e-3, 400), [0.0], np.geomspace(core * 1e-3, high, 400)]
    )
    y = np.interp(wanted, s(table), table)
    for _ in range(6):
        y -= (s(y) - wanted) / (1 / np.sqrt(core**2 + y**2 / 4) + 1 / cap)
    return np.asarray(np.clip(y, low, high))


def tail(alpha: float, x: float) -> float:
    """P(|X| > x) for a symmetric stable X of scale 1, characteristic function exp(-|t|^alpha)."""
    from scipy.special import erfc

    rule = nodes(alpha)
    return min(1.0, float(rule.weight @ erfc(x / np.sqrt(2 * rule.value))))


@lru_cache(maxsize=256)
def size(alpha: float, level: float) -> float:
    """The x with P(|X| <= x) = level. At level 1/2, the median size of the noise of scale 1."""
    from scipy.optimize import brentq

    found = brentq(
        lambda log_x: tail(alpha, math.exp(log_x)) - (1 - level), -60.0, 30.0 / min(1.0, alpha), xtol=1e-13
    )
    return math.exp(found)
