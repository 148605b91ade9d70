"""The privacy loss of noise on whole numbers, computed from its law.

For worlds P and Q the loss of an output is L = ln P/Q. Its law under P says everything: eps is its largest value, the
delta at eps is the mean of (1 - e^(eps - L))+, the divergence of order a is ln E e^((a-1) L) / (a-1). Losses of
independent numbers add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from oboro.noise import DiscreteGaussian, DiscreteLaplace

Noise = DiscreteLaplace | DiscreteGaussian
Move = tuple[Noise, int]  # the noise of a number, and how far apart the worlds are in it
Losses = dict[Fraction, float]  # a loss and its probability

LONGEST = 2_000_000  # terms of a sum
MOST_LOSSES = 200_000
_TAIL = 45  # standard deviations: what lies beyond has a probability below e^-1000


class TooMany(Exception):
    """More terms than are worth adding up."""


def pure_eps(moves: Iterable[Move]) -> Fraction | None:
    """The largest loss, as an exact rational: sum |move| / scale. None where the noise has no largest loss."""
    total = Fraction(0)
    for noise, move in moves:
        if isinstance(noise, DiscreteLaplace):
            total += Fraction(abs(move)) / noise.scale
        elif move:
            return None
    return total


def divergence(moves: Iterable[Move], order: Fraction) -> float:
    """The Rényi divergence of this order, by adding up the law; numbers are independent, so theirs add up."""
    return math.fsum(_one_divergence(noise, abs(move), float(order)) for noise, move in moves if move)


def _one_divergence(noise: Noise, move: int, order: float) -> float:
    if isinstance(noise, DiscreteLaplace):
        rate, reach = float(1 / noise.scale), math.ceil(_TAIL * float(noise.scale)) + order * move
    else:
        rate, reach = float(1 / (2 * noise.sigma2)), _TAIL * math.sqrt(noise.sigma2) + order * move
    if reach > LONGEST:
        raise TooMany
    k = np.arange(-math.ceil(reach), math.ceil(reach) + 1, dtype=np.float64)
    power = 1 if isinstance(noise, DiscreteLaplace) else 2
    weight, moved = -rate * np.abs(k) ** power, -rate * np.abs(k - move) ** power
    mixed = order * weight + (1 - order) * moved
    top = float(mixed.max())
    return (math.log(math.fsum(np.exp(mixed - top))) + top - math.log(math.fsum(np.exp(weight)))) / (
        order - 1
    )


def added(moves: Sequence[Move]) -> Losses:
    """The law of the summed loss under the first world."""
    total: Losses = {Fraction(0): 1.0}
    for noise, move in moves:
        if move:
            own = _laplace_losses(noise, abs(move)) if isinstance(noise, DiscreteLaplace) else None
            if own is None or len(total) * len(own) > MOST_LOSSES:
                raise TooMany
            total = _sum(total, own)
    return total


def _laplace_losses(noise: DiscreteLaplace, move: int) -> Losses:
    """L(k) = (|k - move| - |k|) / scale: move/scale up to k = 0, then two steps less for each k, from k = move on the least."""
    if move > MOST_LOSSES:
        raise TooMany
    step = 1 / noise.scale
    losses = {step * move: float(noise.cdf(0)), -step * move: float(noise.cdf(-move))}
    for k in range(1, move):
        losses[step * (move - 2 * k)] = losses.get(step * (move - 2 * k), 0.0) + float(noise.pmf(k))
    return losses


def _sum(one: Losses, other: Losses) -> Losses:
    total: Losses = {}
    for a, p in one.items():
        for b, q in other.items():
            total[a + b] = total.get(a + b, 0.0) + p * q
    return total


def delta_at(losses: Losses, eps: float) -> float:
    """The least delta at eps, in this direction."""
    return math.fsum(p * -math.expm1(eps - float(loss)) for loss, p in losses.items() if float(loss) > eps)


def weights_delta(one: Mapping[int, int], other: Mapping[int, int], total: int, eps: float) -> float:
    """sum of (P - e^eps Q)+ for whole-number weights over one total."""
    return math.fsum(
        max(0.0, weight / total - math.exp(eps) * other.get(output, 0) / total)
        for output, weight in one.items()
    )


def eps_at(delta_of: Sequence[Callable[[float], float]], delta: float) -> float:
    """The least eps at which every function gives at most `delta`, to 1e-13."""
    low, high = 0.0, 700.0

    def worst(eps: float) -> float:
        return max(function(eps) for function in delta_of)

    if worst(high) > delta:
        return math.inf
    if worst(low) <= delta:
        return 0.0
    while high - low > 1e-13 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (low, middle) if worst(middle) <= delta else (middle, high)
    return high
