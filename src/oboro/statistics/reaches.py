"""How far weighted sums of independent discrete noises go: bounds with proofs, for intervals of what shares tables."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from oboro.arrays import Floats
from oboro.statistics.means import normal_reach


def reach_of_sum(weights: Floats, alike: Floats, scales: Floats, level: float, pure: bool) -> float:
    """How far a weighted sum of independent discrete noises goes with at least this probability; `alike` of them have each weight.

    It holds for weights that are closer to 0, too: normal and Laplace sums go no further with them [Anderson 1955], nor does what is
    added here.

    Laplace noise is discrete Laplace noise plus an independent V, symmetric and within (-1, 1): the difference of two
    exponentials, cut into whole parts and rests. If the discrete sum is beyond q + s, the continuous one is beyond q unless the sum
    of V goes back by more than s, which has a probability of at most e^(-s^2/sum w^2) [Hoeffding]. Gaussian noise: see `_gaussian_sum`.
    """
    used = (weights != 0) & (alike > 0)
    if not used.any():
        return 0.0
    weights, alike, scales = np.abs(weights[used]), alike[used], scales[used]
    if not pure:
        return _gaussian_sum(weights, alike, scales, level)
    size = math.sqrt(float((alike * weights**2).sum()))
    spread = weights * scales
    slack = _slack(size, math.sqrt(2 * float((alike * spread**2).sum())))
    miss = (1 - level) * (1 - math.exp(-(slack**2)))
    return float(_laplace_sum(tuple(spread.tolist()), tuple(alike.tolist()), miss) + slack * size)


_SLACKS = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5)  # s above, over the root of the sum of w^2: any holds


def _slack(size: float, sd: float) -> float:
    """The one with about the shortest reach: more slack is added to it, less misses more often. By public facts alone."""
    return min(_SLACKS, key=lambda s: s * size - sd / 2 * math.log(1 - math.exp(-(s**2))))


@lru_cache(maxsize=4096)
def _laplace_sum(spread: tuple[float, ...], alike: tuple[float, ...], miss: float) -> float:
    """The q that a sum of Laplace noises exceeds with probability `miss`, either way: by its characteristic function.

    With points h apart P(|X| <= q) = (h q + 2 sum of sin(h k q)/k f(h k))/pi, up to what lies beyond 2 pi/h - q.
    """
    scale, many = np.asarray(spread), np.asarray(alike)
    sd = math.sqrt(float((2 * many * scale**2).sum()))
    h = 2 * math.pi / 80  # in units of the standard deviation
    k = np.arange(1, 4000)
    at = (h * k)[:, None] * (scale / sd)[None, :]
    law = np.exp(-(many * np.log1p(at**2)).sum(axis=1)) / k
    low, high = 0.0, 30.0
    for _ in range(44):
        q = (low + high) / 2
        inside = (h * q + 2 * float((np.sin(h * q * k) * law).sum())) / math.pi
        low, high = (q, high) if inside < 1 - miss else (low, q)
    return high * sd * (1 + 1e-6)


_ADDED = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # tau below: any holds
_BACK = (1.0, 1.5, 2.0, 2.5, 3.0)  # b below: any holds


def _gaussian_sum(weights: Floats, alike: Floats, sigmas: Floats, level: float) -> float:
    """The same for discrete Gaussian noise, S = sum of w X with X of parameter sigma: the least of two bounds.

    1. E e^(tX) <= e^(t^2 sigma^2/2) [Canonne, Kamath, Steinke 2020, Corollary 17]. So |S| goes beyond q with a probability of
       at most 2 e^(-q^2/2V), V being the sum of w^2 sigma^2 [Chernoff].
    2. Add to every X an independent normal G of variance tau^2. The density of X + G at x is, up to a constant, that of
       the normal law of variance sigma^2 + tau^2 times the sum over whole k of e^(-(k - cx)^2/2r), where r = sigma^2 tau^2/(sigma^2 +
       tau^2). By Poisson's formula that sum is between 1 - d and 1 + d times a constant, d = 2 (e^(-2 pi^2 r) + e^(-2 pi^2 4r) + ...),
       which is at most 2a/(1 - a) with a = e^(-2 pi^2 r). Densities add up to 1, so that of X + G is nowhere above
       (1 + d)/(1 - d) times the normal one. With K the product of that over all X,

           P(|S + sum of w G| > q) <= K P(|N| > q),    N normal, of variance sum of w^2 (sigma^2 + tau^2).

       If |S| > q + s, then |S + sum of w G| > q unless the sum of w G, which is independent of S, goes back by s = b tau
       (sum of w^2)^(1/2) or more, with probability P(Z > b). Hence P(|S| > q + s) <= K P(|N| > q)/P(Z <= b).
    """
    size = math.sqrt(float((alike * weights**2).sum()))
    variance = float((alike * (weights * sigmas) ** 2).sum())
    found = math.sqrt(2 * variance * math.log(2 / (1 - level)))
    for tau in _ADDED:
        r = (sigmas * tau) ** 2 / (sigmas**2 + tau**2)
        a = np.exp(-2 * math.pi**2 * r)
        d = 2 * a / (1 - a)
        if d.max() >= 0.5:
            continue
        factor = math.exp(min(float((alike * (np.log1p(d) - np.log1p(-d))).sum()), 700.0))
        wider = math.sqrt(variance + (tau * size) ** 2)
        for back in _BACK:
            miss = (1 - level) * (1 - math.erfc(back / math.sqrt(2)) / 2) / factor
            found = min(found, normal_reach(1 - miss) * wider + back * tau * size)
    return found * (1 + 1e-9)
