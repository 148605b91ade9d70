"""Intervals for quotients of noisy numbers, by Fieller's way: all m that the noise does not rule out.

A true mean m makes a combination of two true sums 0. The same combination of the noisy sums is then noise
alone, of a law that is public for each m. The interval is every m for which that noise would be among the
likely ones. It covers with the probability that it says, whatever the sums are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from oboro.arrays import Floats
from oboro.noise import DiscreteLaplace
from oboro.noise.laplace import check_level
from oboro.statistics.terms import Noise, Term

_DIGITS = 60  # binary ones, of an end between the best value and a bound


def two_noises(one: Term, other: Term, a: Floats, b: Floats, level: float) -> Floats:
    """How far a X + b Y goes with probability `level`, for the noises X, Y of two terms.

    Computed for the continuous law, plus a step of each: a discrete Laplace draw can be coupled to a continuous
    one at a distance of at most 1.
    """
    slack: Floats = np.abs(a) * one.quantum + np.abs(b) * other.quantum
    first: Floats = np.abs(a) * _scale(one.noise) * one.quantum
    second: Floats = np.abs(b) * _scale(other.noise) * other.quantum
    if isinstance(one.noise, DiscreteLaplace):
        return _two_laplace(first, second, level) + slack
    return normal_reach(check_level(level)) * np.hypot(first, second) + slack


def _scale(noise: Noise) -> float:
    return float(noise.scale) if isinstance(noise, DiscreteLaplace) else math.sqrt(noise.sigma2)


def _two_laplace(first: Floats, second: Floats, level: float) -> Floats:
    """The q with P(|aX + bY| > q) = 1 - level: the tail is (a^2 e^(-q/a) - b^2 e^(-q/b))/(a^2 - b^2)."""
    large = np.maximum(np.maximum(first, second), 1e-300)
    ratio = np.clip(np.minimum(first, second) / large, 1e-9, 1 - 1e-6)
    miss = 1 - level
    q = -np.log(miss * (1 - ratio**2))  # the tail is below `miss` here
    for _ in range(12):
        # Newton's way on the logarithm of the tail, which is concave: from the right it never goes too far
        slow, fast = np.exp(-q), ratio**2 * np.exp(-q / ratio)
        tail = np.maximum(slow - fast, 1e-300)
        step = np.log(tail / (1 - ratio**2) / miss) * tail / np.maximum(slow - fast / ratio, 1e-300)
        q = q + step
        if np.all(np.abs(step) <= 1e-14 * q):
            break
    return np.asarray(q * large)


@lru_cache(maxsize=64)
def normal_reach(level: float) -> float:
    """z with P(|N| <= z) = level."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > 1 - level else (low, middle)
    return high


def not_ruled_out(
    excess: Callable[[Floats], Floats], best: Floats, lowest: float, highest: float
) -> tuple[Floats, Floats]:
    """The ends of the set where `excess` <= 0, on either side of `best`, within bounds.

    `excess` is |combination| minus what the noise may do: concave on either side of `best`, so that it crosses 0
    at most once before a bound where it is positive. If it is not positive at a bound, the set reaches the bound.

    Both sides are looked for at once, at as many points in each step as a small table allows: one call for 31 points takes
    hardly longer than for one, and finds 5 digits. The furthest that is not ruled out counts, wherever the nearer ones are:
    `best` itself may be ruled out where a noisy count is below 1.
    """
    bounds = np.stack([np.full_like(best, lowest), np.full_like(best, highest)])
    inner, outer = np.stack([best, best]), bounds
    reaches = excess(bounds) <= 0
    points = 31 if best.size <= 256 else 1
    parts = np.arange(points + 2)[:, None, None] / (points + 1)
    for _ in range(math.ceil(_DIGITS / math.log2(points + 1))):
        at = inner + parts * (outer - inner)
        inside = excess(at[1:-1]) <= 0
        last = np.where(inside, np.arange(1, points + 1)[:, None, None], 0).max(axis=0)[None]
        inner, outer = (np.take_along_axis(at, last + more, axis=0)[0] for more in (0, 1))
    low, high = np.where(reaches, bounds, outer)
    return low, high
