"""How much noise: the largest distance z, in units of the noise's scale, that (eps, delta) allows.

    method         holds for                        uses
    "theorem1"     one A for the whole record       the paper's Theorem 1: the normal tail, averaged over A
    "mixture"      one A for the whole record       the Gaussian mechanism's exact delta, averaged over A
    "exact"        one A, in `dims` dimensions      the exact delta of the stable law (radial.py)
    "independent"  an own A for every number        the Gaussian delta at kappa z, kappa the law's steepest rate (score.py)
    "discrete"     one A, discrete Gaussian noise   zCDP given A, averaged over A
    "pure"         one A, in `dims` dimensions      delta = 0: the largest likelihood ratio (alpha < 2)

z is the Euclidean distance between neighbours divided by the scale; the scale of S(alpha, scale) is that of
the characteristic function exp(-(scale |t|)^alpha), so that alpha = 2 has the variance 2 scale^2.

Why "mixture" holds
    Given A the mechanism is Gaussian, and any set is at most e^eps times likelier plus g(z^2/A). Average over
    A.

Why "independent" holds
    However a change of length z is spread over numbers, and however many there are, what it does to independent noise can be
    made from what a change of kappa z does to a standard normal (score.py). Nobody sees A, and given every A less could be
    proved: at small delta this needs a half to a tenth of the noise that a mean over A would.

They are float64 quadratures of errors below 1e-10. What is returned is on the safe side of what they found, and a plan leaves
ten times that error as a margin (MARGIN), and is refused if less than a quarter of it is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.mixing_variable import kanter
from oboro.dynamics.radial import Delta, radial
from oboro.dynamics.score import steepest
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, usable, whole
from oboro.kinds import unknown
from oboro.noise.laplace import as_float

if TYPE_CHECKING:
    from oboro.arrays import Floats


# Theorem 1's Q, and the tighter mixture, as one integral each. No stable density is needed.
#
# With k = (eps/z)^alpha, and E e^(-s A) = exp(-(2s)^(alpha/2)) for the mixing variable A, both come down to
#
#     theorem1   Q(z)     = e^(eps/2 - k)/(2 pi)  int e^(i eps t/2) / (1 + i t)   * w(t) dt
#     mixture    delta(z) = e^(eps/2 - k)/pi   Im int e^(i eps t/2) t / (1 + t^2) * w(t) dt
#
# over the real line, with w(t) = exp(-k ((1+t^2)^(alpha/2) - 1)). On it the integrand cancels almost to nothing when delta is small. So the line is moved to
# t = sinh(x + i theta): theta near the saddle point, where the integrand is about as large as its integral, and
# sinh so that it dies off doubly exponentially. It is analytic in a strip around that line, hence the plain
# trapezoid rule converges geometrically [Trefethen and Weideman 2014]. For alpha = 2, A = 2 and both are
# closed.
#
# What doubles may have lost is added: for an eps beyond 100 or so, alpha near 2, the line cannot follow the saddle far
# enough, and the integrand is larger than its integral by more digits than there are. Then this says 1.

NODES = 401  # on the right half of the line; the left half is its mirror image
_ANGLES = np.linspace(0.25, 1.0, 40)  # below the real line the integrand explodes: stay well above it
_LOOK = np.linspace(0.0, 1.0, 80)
_STEEPEST_ANGLE = (
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
    angles = _ANGLES * min(_STEEPEST_ANGLE, 0.9 * math.pi / (2 * alpha))
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


_LEAST, _MOST = 1e-4, 1e6  # of eps: below, doubles lose more of delta than the margin makes up for
_TOLD = 10.0  # beyond this eps the parts of the exact delta are too far apart for doubles
_UNSURE = 1e-10  # of the pure z
_STEEPEST_LEVELS = 600.0  # 2 eps/(d + alpha): beyond, the radii of levels overflow
_DISTANCES = (-9, 30)  # powers of ten
_NEAREST, _FURTHEST = Fraction(1, 10**140), 10**300  # z that doubles can follow, whatever alpha is
METHODS = ("theorem1", "mixture", "independent", "exact", "discrete", "pure")
_GAUSS = np.polynomial.legendre.leggauss(16)
MARGIN = 1e-9  # relative, of z: ten times the largest error of a calibration that was measured


def calibrate(
    *,
    alpha: Number,
    eps: Number,
    delta: Number | None = None,
    method: str = "mixture",
    dims: int | None = None,
) -> float:
    """The largest z with (eps, delta): Q^-1 for "theorem1". `dims` is for "exact" and "pure".

    >>> ob.dynamics.calibrate(alpha="1.5", eps=1, delta="1e-3")
    0.4221...
    """
    tail, loss, dimensions = _checked(alpha, eps, method, dims)
    if method == "pure":
        if delta is not None and rational("delta", delta) != 0:
            raise ParameterError(
                "pure has no delta",
                given=told(delta=f"{delta}"),
                needed="no delta",
                fix=setting(method="exact"),
            )
        return _pure(tail, loss, dimensions)
    small = _small(delta)
    return _calibrated(tail, loss, small, method, dimensions)


def delta(
    *, alpha: Number, eps: Number, z: Number, method: str = "mixture", dims: int | None = None
) -> float:
    """The delta that `method` proves at distance z.

    >>> ob.dynamics.delta(alpha="1.5", eps=1, z="0.5")
    0.003108...
    """
    tail, loss, dimensions = _checked(alpha, eps, method, dims)
    at = usable("z", positive("z", z), _DISTANCES)
    if method == "pure":
        raise ParameterError(
            "pure has no delta",
            given=told(method='"pure"'),
            needed=", ".join(METHODS[:-1]),
            fix=setting(method="exact"),
        )
    return _delta(tail, loss, at, method, dimensions)


def delta_above(*, alpha: Fraction, eps: Fraction, z: Fraction, method: str, dims: int) -> float:
    """No less than the delta at distance z, which may be of any size: for plans. 0 where "pure" proves that there is none."""
    tail, loss, dimensions = _checked(alpha, eps, method, dims)
    if z > _FURTHEST:
        return 1.0
    at = float(max(z, _NEAREST))  # delta grows with z
    if method == "pure":
        return (
            0.0 if at <= _pure(tail, loss, dimensions) else max(_delta(tail, loss, at, "mixture", 1), 1e-300)
        )
    return _delta(tail, loss, at, method, dimensions)


def pure_eps(*, alpha: Number, z: Number, dims: int = 1) -> float:
    """The pure eps at distance z: the largest log-ratio of two elliptical stable densities, for alpha < 2.

    >>> ob.dynamics.pure_eps(alpha=1, z=1)
    0.9624...
    """
    from scipy.optimize import brentq

    tail, _, dimensions = _checked(alpha, 1, "pure", dims)
    at = usable("z", positive("z", z), _DISTANCES)
    low = high = 2 * (dimensions + 1) * math.asinh(at / 2)
    while _pure(tail, low, dimensions) > at:
        low /= 2
    while _pure(tail, high, dimensions) < at:
        high *= 2
    return float(brentq(lambda guess: _pure(tail, guess, dimensions) - at, low, high, xtol=1e-12 * low))


def _delta(alpha: float, eps: float, z: float, method: str, dims: int) -> float:
    k = (eps / z) ** alpha
    if method == "theorem1":
        return theorem1(alpha, eps, k)
    if method == "discrete":
        return _discrete(alpha, eps, z)
    if method == "exact" and alpha < 2:
        law = radial(alpha, dims, eps)
        if z <= law.pure * (1 - _UNSURE):
            return 0.0
        found = law.sure(z) if eps <= _TOLD else Delta(1.0, 0.0, 0.0)
        return min(found.value + found.error, mixture(alpha, eps, k))
    if method == "independent":
        return from_above((steepest(alpha) * z) ** 2, eps)
    return mixture(alpha, eps, k)


@lru_cache(maxsize=4096)
def _calibrated(alpha: float, eps: float, small: float, method: str, dims: int) -> float:
    """The z of the search, a little less: there delta, from above, is at most `small`."""
    less = 4 * _UNSURE if method == "exact" and alpha < 2 else 1e-12
    z = _solved(alpha, eps, small, method, dims) * (1 - less)
    while _delta(alpha, eps, z, method, dims) > small:
        z, less = z * (1 - less), 2 * less
    return z


def _solved(alpha: float, eps: float, small: float, method: str, dims: int) -> float:
    """Solves delta(z) = small. In k = (eps/z)^alpha, log delta is nearly a straight line, whatever alpha is."""

    def miss(k: float) -> float:
        return math.log(max(_delta(alpha, eps, eps * k ** (-1 / alpha), method, dims), 1e-300) / small)

    if method == "independent":  # Gaussian noise of scale 1 has the standard deviation sqrt(2)
        return _calibrated(2.0, eps, small, "mixture", 1) / (math.sqrt(2) * steepest(alpha))
    low, high = 1e-12, 20.0 - 3.0 * math.log(small) + (eps if alpha == 2 else 0.0)
    if method == "exact" and alpha < 2:
        try:
            low = _root(lambda k: math.log(max(mixture(alpha, eps, k), 1e-300) / small), low, high, 1e-3)
        except ParameterError:
            return _exact(alpha, eps, small, dims, 0.0)
        return _exact(alpha, eps, small, dims, eps * low ** (-1 / alpha))
    return float(eps * _root(miss, low, high, 1e-13) ** (-1 / alpha))


def _exact(alpha: float, eps: float, small: float, dims: int, guess: float) -> float:
    """The exact z. Where it cannot be told: the mixture's z and the pure one hold as well, and the larger is taken.

    `guess` is the mixture's z to 0.4%; 0 if that cannot be told.
    """
    law = radial(alpha, dims, eps)
    found = law.calibrate(small, guess) if eps <= _TOLD else None
    if found is not None and found > 1.004 * guess:
        return found
    other = _calibrated(alpha, eps, small, "mixture", 1) if guess > 0 else 0.0
    return max(found or law.pure * (1 - _UNSURE), other)


def _root(miss: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """The k with miss(k) = 0, to a relative tolerance; miss falls. A bracket is grown from the left end."""
    from scipy.optimize import brentq

    right = min(high, low * 1.01 + 1e-3) if low > 1e-6 else high
    while right < high and miss(right) > 0:
        low, right = right, min(high, 2 * right - 0.99 * low)
    if miss(low) <= 0:
        low *= 0.99
    try:
        return float(brentq(miss, low, right, xtol=tolerance * max(low, 1e-3), rtol=max(tolerance, 8.9e-16)))
    except ValueError:  # no change of sign: beyond what doubles can tell
        raise ParameterError(
            "no noise can be calibrated for this promise",
            given="an eps or a delta far from what is used",
            needed="such as eps below 100 and delta above 1e-100",
            fix=setting(eps=1, delta="1e-6"),
        ) from None


def _pure(alpha: float, eps: float, dims: int) -> float:
    return 2 * math.sinh(eps / (dims + 1)) if alpha == 1 else radial(alpha, dims, eps).pure


def _discrete(alpha: float, eps: float, z: float) -> float:
    """E c(z^2/(2A)), c the delta of rho-zCDP: Gauss's rule in xi = log(E/a(U)) (mixing_variable.py), in cells short for c and for its density.

    c bends most near rho = eps, over some 1/sqrt(eps) of it. To the left of `low` it is below e^-720, to the right of `high` 1 - e^-40.
    """
    if alpha == 2:
        return float(_concentrated(z * z / 4, eps))
    rule = kanter(alpha)
    log_low, log_high = 2 * math.log(eps) - math.log(2900 + 2 * eps), math.log(eps + 50)
    step = 0.15 / math.sqrt(1 + eps)
    bends = np.arange(log_low, log_high + step, step)
    middle = 2 * math.log(z) - math.log(4)
    top = math.log(745.0) - rule.least
    bulk = top - np.concatenate([np.arange(0, 30, 0.4), 30 * 1.15 ** np.arange(0, 80)])
    first = (log_low - middle) / rule.power
    edges = np.unique(np.concatenate([(bends - middle) / rule.power, bulk, [first]]))
    edges = edges[(edges >= first) & (edges <= top)]
    if edges.size < 2:
        return 1e-300
    half = np.diff(edges)[:, None] / 2
    xi = (edges[:-1, None] + half * (_GAUSS[0] + 1)).ravel()
    log_rho = middle + rule.power * xi
    value = np.ones(xi.size)
    bent = log_rho < log_high
    value[bent] = _concentrated(np.exp(log_rho[bent]), eps)
    return min(1.0, float((value * rule.density(xi)) @ (half * _GAUSS[1]).ravel()) + 1e-300)


def _concentrated(rho: float | Floats, eps: float) -> Floats:
    """The delta of rho-zCDP at the best order a: exp((a-1)(a rho - eps)) (1-1/a)^a / (a-1) [Canonne et al.
    2020].

    Its logarithm is convex in a, with the derivative (2a-1) rho - eps + log((a-1)/a): Newton in log(a-1).
    """
    rho = np.asarray(rho, float)
    # where rho is small a - 1 is about (eps - rho)/(2 rho), where it is large e^(eps - rho)
    less = eps - rho
    x = np.log(np.maximum(less, 0.0) / (2 * rho) + np.exp(np.clip(less, -600.0, 0.0)) / (1 + 2 * rho))
    for _ in range(60):
        less = np.exp(x)  # a - 1
        miss = (2 * less + 1) * rho - eps - np.log1p(1 / less)
        change = np.clip(miss / (2 * less * rho + 1 / (1 + less)), -2.0, 2.0)
        x = np.maximum(x - change, -600.0)
        if np.abs(change[x > -600.0]).max(initial=0.0) < 1e-8:  # every order holds: this is close to the best
            break
    less = np.exp(x)
    exponent = less * ((1 + less) * rho - eps + x) - (1 + less) * np.log1p(less)
    return np.exp(np.minimum(exponent, 0.0))


def _checked(alpha: Number, eps: Number, method: str, dims: int | None) -> tuple[float, float, int]:
    tail = check_alpha(alpha)
    loss = as_float(positive("eps", eps))
    if not _LEAST <= loss <= _MOST:
        raise ParameterError(
            "eps is beyond what can be calibrated",
            given=told(eps=f"{eps}"),
            needed=f"{_LEAST:g} to {_MOST:g}",
            fix=setting(eps=1),
        )
    if not isinstance(method, str) or method not in METHODS:
        raise unknown("method", method, dict.fromkeys(["mixture", *METHODS]))
    if method in ("exact", "pure") and dims is None:
        raise ParameterError(
            f"method {method!r} needs the number of dimensions",
            given=told(dims="None"),
            needed="how many numbers get noise",
            fix=setting(dims=10),
        )
    if method == "pure" and tail == 2:
        raise ParameterError(
            "Gaussian noise is never pure",
            given=told(alpha="2"),
            needed="alpha below 2, or a delta",
            fix=setting(alpha=1.5),
        )
    if method not in ("exact", "pure"):
        return tail, loss, 1
    if tail < 0.3:
        raise ParameterError(
            f"alpha is too small for method {method!r}",
            given=told(alpha=f"{tail:g}"),
            needed="at least 0.3",
            fix=setting(method="mixture"),
        )
    count = whole("dims", dims, least=1, most=10**4 if tail != 1 or method == "exact" else 10**9)
    if 2 * loss > _STEEPEST_LEVELS * (count + tail):
        raise ParameterError(
            f"eps is too large for method {method!r}",
            given=told(eps=f"{eps}"),
            needed=f"at most {_STEEPEST_LEVELS / 2 * (count + tail):g} for {count} numbers",
            fix=setting(eps=1),
        )
    return tail, loss, count


def check_alpha(alpha: Number) -> float:
    """The tail index as a float: at most 2, and at least 0.1.

    At 0.1 and delta = 1e-5 the noise is some 10^10 times the distance already, and one draw in twenty lies 10^12
    scales out; below, the numbers of a forecast outgrow float64, and nothing that is published would be of use.
    """
    tail = positive("alpha", alpha)
    if tail > 2:
        raise ParameterError(
            "alpha must be at most 2",
            given=told(alpha=show(tail)),
            needed="0 < alpha <= 2",
            fix=setting(alpha=1.5),
        )
    if tail < rational("alpha", "0.1"):
        raise ParameterError(
            "alpha is too small to be of use",
            given=told(alpha=show(tail)),
            needed="at least 0.1: there the noise is 10^10 times the distance, and its tails outgrow float64 below",
            fix=setting(alpha=0.5),
        )
    return float(tail)


def _small(delta: Number | None) -> float:
    if delta is None:
        raise ParameterError(
            "delta is missing",
            given=told(delta="None"),
            needed="a number above 0 and below 1",
            fix=setting(delta="1e-5"),
        )
    value = positive("delta", delta)
    if value >= rational("delta", "0.9"):
        raise ParameterError(
            "delta is too large", given=told(delta=show(value)), needed="below 0.9", fix=setting(delta="1e-5")
        )
    if value * 10**250 < 1:
        raise ParameterError(
            "delta is too small",
            given=told(delta=f"{delta}"),
            needed="at least 1e-250",
            fix=setting(delta="1e-5"),
        )
    return float(value)


# The Gaussian mechanism's exact delta, as a function of v = (distance / standard deviation)^2.
#
# g(v) = Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m),  m = sqrt(v)          [Balle and Wang 2018]

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
