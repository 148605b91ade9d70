"""Privelet [Xiao et al. 2011]: noise on the Haar wavelet coefficients of the cells in one row.

On a map the row is its Morton order, as in the paper of Terada et al. The unnormalised transform is used:
the sum of all cells, and for every node of the binary tree the sum of its left half less that of its
right half. These are whole numbers, and one scale of noise serves them all. (Xiao et al. halve at every
level and give each level its own scale; up to the law of the noise that is the same mechanism.)
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers.common import DENSE, column_noise, exponent

largest = DENSE
why = "every node takes noise, empty or not"


def transform(counts: Integers) -> Integers:
    """Along the first axis: the sum of all, then the differences of every node, from the root down."""
    differences = []
    sums = counts
    while len(sums) > 1:
        left, right = sums[0::2], sums[1::2]
        differences.append(left - right)
        sums = left + right
    return np.concatenate([sums, *reversed(differences)])


def column(k: int) -> int:
    """How far all coefficients move together if one cell moves by 1.

    Privacy
        A cell is in the sum of all with sign +1, and in the difference of each of its k ancestors with
        sign +1 or -1. If it moves by 1, the coefficients move by 1 + k in all.
    """
    return 1 + k


def noise(k: int, eps: Fraction, sensitivity: int = 1) -> DiscreteLaplace:
    """The noise of every coefficient."""
    return column_noise(column(k), eps, sensitivity)


def estimate(noisy: Integers | Floats) -> Floats:
    """The inverse of `transform`: the halves of a node are (sum + difference)/2 and (sum - difference)/2."""
    sums = noisy[:1].astype(float)
    while (width := len(sums)) < len(noisy):
        difference = noisy[width : 2 * width]
        halves = np.empty((2 * width, *noisy.shape[1:]))
        halves[0::2] = (sums + difference) / 2
        halves[1::2] = (sums - difference) / 2
        sums = halves
    return sums


def measure(counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1) -> Floats:
    """Estimates of all cells, often negative."""
    k = exponent(counts.size, largest, why)
    return estimate(transform(counts) + noise(k, eps, sensitivity).sample(counts.shape, bits))


def block_variance(k: int, eps: Fraction, level: int, sensitivity: int = 1) -> float:
    """The variance of the sum of an aligned block of 2^level cells, exactly."""
    return noise(k, eps, sensitivity).variance * spread(k, level)


def spread(k: int, level: int) -> float:
    """The sum of squares by which the noises enter the sum of an aligned block of 2^level among 2^k cells.

    Each step down halves the sum and adds half a difference: x becomes (x + 1)/4, from x = 1 at the root.
    So it is (1 + 2/q^2)/3 for one of q blocks. (Section 5 of Terada et al. prints 2^l/q^2 for 2/q^2.)
    """
    return (1 + 2 * 4.0 ** (level - k)) / 3
