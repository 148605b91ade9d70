"""How well an outlier hides, measured: the rate at which the best test finds it, at a given rate of false
alarms.

One number carries an outlier of some known size; the test is the most powerful one that noise alone passes
with probability `false_alarm` [Neyman and Pearson]. Under Gaussian and Laplace noise it is a threshold; under
heavy tails it is an interval around the outlier, because far beyond it noise is the likelier cause. With one
A for a long record an attacker learns A from the other numbers, and the test is the Gaussian one for that A:
sharing A hides an outlier at one time much less. Part of what heavy tails hide is simply more noise. So there
are two comparisons: at equal (eps, delta), and at an equal median size of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.dynamics import mixing_variable
from oboro.dynamics.calibration import calibrate
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, show, usable
from oboro.kinds import list_of, takes
from oboro.noise.laplace import as_float, check_level

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

SIZES = (1, 2, 5, 10, 20, 50, 100, 200)


@dataclass(frozen=True, slots=True)
class Detection:
    """How often outliers of several sizes are found under one kind of noise."""

    noise: str
    median: float  # of |noise|
    sizes: tuple[float, ...]
    rates: tuple[float, ...]


@takes(sizes=list_of, alphas=list_of)
def detections(
    *,
    eps: Number,
    delta: Number,
    distance: Number = 1,
    sizes: Sequence[float] = SIZES,
    alphas: Sequence[Number] = ("1.5", "1"),
    false_alarm: float = 0.01,
    median: float | None = None,
) -> tuple[Detection, ...]:
    """For Gaussian, Laplace and stable noise at equal (eps, delta), or with the same `median` size.

    >>> for found in ob.dynamics.detections(eps=1, delta="1e-2", sizes=[10]):
    ...     print(found.noise, round(found.rates[0], 2))
    Gaussian 1.0
    Laplace (pure eps) 1.0
    stable 1.5, independent 0.81
    stable 1.5, one A, long record 0.85
    stable 1, independent 0.4
    stable 1, one A, long record 0.58
    """
    reach = usable("distance", positive("distance", distance))
    sizes = [usable("sizes", positive("sizes", size)) for size in sizes]
    check_level(false_alarm, "false_alarm")
    false_alarm = usable("false_alarm", rational("false_alarm", false_alarm))
    median = None if median is None else usable("median", positive("median", median))
    found = [_gaussian(reach / calibrate(alpha=2, eps=eps, delta=delta), sizes, false_alarm, median)]
    found.append(_laplace(reach / as_float(positive("eps", eps)), sizes, false_alarm, median))
    for index in alphas:
        alpha = _heavy(index)
        own = reach / calibrate(alpha=index, eps=eps, delta=delta, method="independent")
        found.append(_stable(alpha, own, sizes, false_alarm, median))
        shared = reach / calibrate(alpha=index, eps=eps, delta=delta, method="mixture")
        found.append(_shared(alpha, shared, sizes, false_alarm, median))
    return tuple(found)


_COARSEST, _FINEST = 30, 200  # hundredths


def alpha_for(
    *,
    size: Number,
    rate: Number,
    eps: Number,
    delta: Number,
    distance: Number = 1,
    false_alarm: float = 0.01,
) -> float:
    """The alpha whose independent noise hides an outlier of `size`: found at most at `rate`, with the least noise.

    Of the alphas 0.30, 0.31, ..., 2, the one of the smallest median among those under which the most powerful test at `false_alarm` finds the outlier at most so often.
    This is what the paper leaves to future work. All of them keep (eps, delta); the rate is what is hidden beyond it.

    >>> ob.dynamics.alpha_for(size=10, rate="0.5", eps=1, delta="1e-3")
    1.48
    """
    wanted = as_float(rational("rate", rate))
    check_level(wanted, "rate")
    tried: dict[int, Detection] = {}

    def at(hundredths: int) -> Detection:
        if hundredths not in tried:
            index = Fraction(hundredths, 100)
            reach = usable("distance", positive("distance", distance))
            scale = reach / calibrate(alpha=index, eps=eps, delta=delta, method="independent")
            sizes = [usable("size", positive("size", size))]
            make = (
                _gaussian(scale, sizes, false_alarm, None)
                if index == 2
                else _stable(float(index), scale, sizes, false_alarm, None)
            )
            tried[hundredths] = make
        return tried[hundredths]

    check_level(false_alarm, "false_alarm")
    coarse = [*range(_COARSEST, _FINEST, 10), _FINEST]
    hidden = [one for one in coarse if at(one).rates[0] <= wanted]
    if not hidden:
        least = min(tried.values(), key=lambda found: found.rates[0])
        raise ParameterError(
            "no alpha hides such an outlier so well",
            given=told(rate=f"{rate}"),
            needed=f"at least {least.rates[0]:.3g}, or a smaller eps",
            fix=setting(rate=f"{math.ceil(1000 * least.rates[0]) / 1000:g}"),
        )
    best = min(hidden, key=lambda one: at(one).median)
    near = [
        one
        for one in range(max(best - 9, _COARSEST), min(best + 9, _FINEST) + 1)
        if at(one).rates[0] <= wanted
    ]
    return min(near, key=lambda one: at(one).median) / 100


def _heavy(index: Number) -> float:
    alpha = rational("alphas", index)
    if not 0 < alpha < 2:
        raise ParameterError(
            "alphas are for heavy tails",
            given=told(alpha=show(alpha)),
            needed="above 0 and below 2; the Gaussian is there anyway",
            fix=setting(alphas=("1", "1.5")),
        )
    return as_float(alpha)


def _gaussian(scale: float, sizes: Sequence[float], false_alarm: float, median: float | None) -> Detection:
    from scipy.special import ndtr, ndtri

    sd = scale * math.sqrt(2)
    middle = sd * float(ndtri(0.75))
    sd *= 1 if median is None else median / middle
    rates = [float(ndtr(size / sd + ndtri(false_alarm))) for size in sizes]
    return Detection("Gaussian", median or middle, tuple(sizes), tuple(rates))


def _laplace(scale: float, sizes: Sequence[float], false_alarm: float, median: float | None) -> Detection:
    middle = scale * math.log(2)
    scale *= 1 if median is None else median / middle
    threshold = -scale * math.log(2 * false_alarm)

    def above(x: float) -> float:
        return math.exp(-x / scale) / 2 if x >= 0 else 1 - math.exp(x / scale) / 2

    return Detection(
        "Laplace (pure eps)", median or middle, tuple(sizes), tuple(above(threshold - size) for size in sizes)
    )


def _stable(
    alpha: float, scale: float, sizes: Sequence[float], false_alarm: float, median: float | None
) -> Detection:
    middle = scale * mixing_variable.size(alpha, 0.5)
    scale *= 1 if median is None else median / middle
    rates = tuple(_most_powerful(alpha, size / scale, false_alarm) for size in sizes)
    return Detection(f"stable {alpha:g}, independent", median or middle, tuple(sizes), rates)


def _most_powerful(alpha: float, shift: float, false_alarm: float) -> float:
    """The power of the likelihood ratio test between X and X + shift: cells in the order of their ratio."""
    spread = np.sinh(np.linspace(-12, 12, 3001))
    edges = np.unique(np.concatenate([spread, spread + shift, np.linspace(-1, shift + 1, 1001)]))
    null = np.diff(_cdf(alpha, edges), prepend=0.0, append=1.0)
    other = np.diff(_cdf(alpha, edges - shift), prepend=0.0, append=1.0)
    order = np.argsort(-other / np.maximum(null, 1e-300))
    return float(np.interp(false_alarm, np.cumsum(null[order]), np.cumsum(other[order])))


def _cdf(alpha: float, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    half = np.exp(_log_tail(alpha)(np.log(np.maximum(np.abs(x), 1e-9)))) / 2
    return np.asarray(np.where(x < 0, half, 1 - half))


@lru_cache(maxsize=16)
def _log_tail(alpha: float) -> CubicSpline:
    """log P(|X| > x) as a spline in log x: good to 1e-9, and much faster than the mean over A."""
    from scipy.interpolate import CubicSpline
    from scipy.special import erfc

    rule = mixing_variable.nodes(alpha)
    log_x = np.linspace(math.log(1e-9), math.log(1e9), 2000)
    tail = erfc(np.exp(log_x)[:, None] / np.sqrt(2 * rule.value)) @ rule.weight
    return CubicSpline(log_x, np.log(np.minimum(tail, 1.0)))


def _shared(
    alpha: float, scale: float, sizes: Sequence[float], false_alarm: float, median: float | None
) -> Detection:
    from scipy.special import ndtr, ndtri

    middle = scale * mixing_variable.size(alpha, 0.5)
    scale *= 1 if median is None else median / middle
    rule = mixing_variable.nodes(alpha)
    rates = [
        float(rule.weight @ ndtr(size / (scale * np.sqrt(rule.value)) + ndtri(false_alarm)))
        + false_alarm * (1 - rule.weight.sum())
        for size in sizes
    ]
    return Detection(
        f"stable {alpha:g}, one A, long record", median or middle, tuple(sizes), tuple(map(float, rates))
    )


def ruined(alpha: Number, times: float = 10.0) -> float:
    """P(sqrt(A) > `times` its median): how often a shared A spoils a whole record."""
    from scipy.optimize import brentq

    rule = mixing_variable.nodes(as_float(positive("alpha", alpha)))
    log_a, cumulative = np.log(rule.value), np.cumsum(rule.weight)
    half = brentq(
        lambda x: float(np.interp(x, log_a, cumulative - rule.weight / 2)) - 0.5, log_a[0], log_a[-1]
    )
    return 1 - float(np.interp(half + 2 * math.log(times), log_a, cumulative - rule.weight / 2))
