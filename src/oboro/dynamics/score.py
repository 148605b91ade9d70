"""The score of the symmetric stable law, and how close independent noise comes to Gaussian noise.

The law S(alpha, 1) has the density f, mixed from Gaussian ones of variance A, and the score -f'/f. Of all sets B of
probability a, the one of the largest scores gains probability fastest when the law is shifted, at the rate

    S(a) = sup { int_B -f' : P(B) = a };     I(a) = phi(Phi^-1(a)) is the same for the normal law.

    steepest(alpha) = kappa:  S(a) <= kappa I(a) for all a.

What follows
    Shift the law by s: p(t) = P(X + t in B) has p' <= S(p) <= kappa I(p), as a shift of B is a set too. So
    (Phi^-1(p))' <= kappa, and Phi^-1(P(X + s in B)) <= Phi^-1(P(X in B)) + kappa s for every B. The normal laws around 0 and
    kappa s are therefore at least as easy to tell apart as X and X + s are, at any rate of false alarms, and by Blackwell's theorem
    [1953] X and X + s can be made from them without knowing which it is. For independent noise this is done for each number: any change of length z,
    however it is spread over numbers and however many there are, can be made from normal laws at the distance kappa z. Hence
    delta <= g((kappa z)^2), g the Gaussian mechanism's own delta (calibration.py).

No smaller kappa will do
    For small s the set X > s/2 alone needs kappa >= S(1/2)/I(1/2) = sqrt(2 pi) f(0) = sqrt(2/pi) Gamma(1 + 1/alpha). From alpha 0.9 on that is kappa. And
    a change spread over very many numbers is like a Gaussian one of v = J z^2, J the law's Fisher information: no
    calibration of independent noise can be better than that. kappa/sqrt(J) is 1.13 at alpha 1, 1.10 at 1.5, 1.07 at 0.5.

How kappa is bounded
    For any rate l and any B, int_B -f' <= l P(B) + C(l), C(l) = int (-f' - l f)+: a line above S. Between edges e of a grid, a line over the concave I is
    largest at one of them; over (0, e) the line without a constant is largest at e, as I(a)/a falls. On (1/2, 1) both S and I are mirrored. So
    kappa is a maximum over a few hundred edges, whatever edges and rates are taken.
    C is a sum over cells of x. The score is x m(x), where m, the mean of 1/A given X = x, falls: in a cell it lies between x0 m(x1) and x1 m(x0).
    Where that leaves a doubt about (score - l)+, its chord is taken. Beyond the last cell all of f is.
    f, m and the tail are sums of positive numbers, right to some 1e-12; SLACK is added for that.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.mixing_variable import nodes

SLACK = 1e-9
_APART = 0.01  # of log x; further for alpha below 1/2, whose law is that much wider
_RATES = 300
_FLATTEST = 1e-5  # of the largest score: below it, rates are not told apart
_NOTHING = 1e-16  # of f(0)
_BLOCK = 256


@lru_cache(maxsize=64)
def steepest(alpha: float) -> float:
    """No less than kappa: 1e-8 more from alpha 0.95 to 1.99, 1e-3 more from 0.3 on, 3% at 0.1. At alpha = 2, A = 2 and it is sqrt(1/2)."""
    from scipy.special import ndtri

    if alpha == 2:
        return math.sqrt(0.5)
    x, f, m, above = _tabulated(alpha)
    lost, share = np.append(-np.diff(f), f[-1]), np.append(-np.diff(above), above[-1])
    least = np.append(x[:-1] * m[1:], 0.0)
    most = np.append(x[1:] * m[:-1], _power(alpha) / x[-1])
    top = float(most.max())
    down = 1 - np.linspace(0, 1, _RATES)[1:-1] ** 2
    rates = top * np.unique(np.concatenate([down, np.geomspace(_FLATTEST, 1, _RATES)[:-1]]))[::-1]
    lines = np.array([_over(rate, lost, share, least, most) for rate in rates])
    order = np.argsort(-most)
    sizes = np.interp(-rates, -most[order], np.cumsum(share[order]))  # where each line is good, roughly
    edges = np.minimum(np.append((sizes[1:] + sizes[:-1]) / 2, 0.5), 0.5)
    rate, line = np.insert(rates, 0, top), np.insert(lines, 0, 0.0)
    edges = np.insert(edges, 0, sizes[0] / 2)
    normal = np.exp(-(ndtri(edges) ** 2) / 2) / math.sqrt(2 * math.pi)
    right = (rate * edges + line) / normal
    left = (rate[1:] * edges[:-1] + line[1:]) / normal[:-1]
    return float(max(right.max(), left.max())) * (1 + SLACK)


def _power(alpha: float) -> float:
    """x times the score is at most this.

    log |X| is log sqrt(A) and the log of a normal: 1 - x score is a mean of the slope of the log-density of log sqrt(A), which is at
    least -2 alpha/(2 - alpha), as that of xi is at most 1 (mixing_variable.py: K's is 1 - e^s).
    """
    return 1 + 2 * alpha / (2 - alpha)


def _over(rate: float, lost: Floats, share: Floats, least: Floats, most: Floats) -> float:
    """No less than the integral of (score - rate)+ f: cell by cell, by the chord of (score - rate)+ where it is in doubt."""
    sure, doubt = least >= rate, (least < rate) & (most > rate)
    bent = (most[doubt] - rate) / (most[doubt] - least[doubt]) * (lost[doubt] - least[doubt] * share[doubt])
    return float((lost[sure] - rate * share[sure]).sum() + np.maximum(bent, 0.0).sum())


def _tabulated(alpha: float) -> tuple[Floats, Floats, Floats, Floats]:
    """x, the density there, the mean of 1/A given x, and the probability above x."""
    from scipy.special import erfc

    rule = nodes(alpha)
    half, at_zero = 1 / (2 * rule.value), rule.weight / np.sqrt(2 * np.pi * rule.value)
    whole = float(at_zero.sum())
    first = 1e-4 * math.sqrt(whole / float(at_zero @ (1 / rule.value)))
    rows, apart = [], _APART * max(1.0, 0.5 / alpha)
    block = np.concatenate([[0.0], first * np.exp(apart * np.arange(_BLOCK))])
    while True:
        normal = np.exp(-np.minimum(np.outer(block * block, half), 740.0))
        f = normal @ at_zero
        above = 0.5 * erfc(np.minimum(np.outer(block, np.sqrt(half)), 26.0)) @ rule.weight
        rows.append((block, f, normal @ (2 * half * at_zero) / f, above))
        largest = max(float((x * m).max()) for x, _, m, _ in rows)
        if f[-1] < _NOTHING * whole and _power(alpha) / block[-1] < _FLATTEST * largest:
            x, f, m, above = (np.concatenate(part) for part in zip(*rows, strict=True))
            return x, f, m, above
        block = block[-1] * np.exp(apart * np.arange(1, _BLOCK + 1))
