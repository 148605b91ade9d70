"""Laplace [Dwork 2006]: noise on every cell.

The best for single cells. The variance of a sum grows with the number of cells in it.
"""

from __future__ import annotations

from fractions import Fraction

from oboro.arrays import Integers
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers.common import DENSE, column_noise, exponent

largest = DENSE
why = "every cell takes noise, empty or not, and hardly any stays empty"


def column(k: int) -> int:
    """Privacy: what is measured are the counts themselves. If one moves by 1, they move by 1 in all."""
    return 1


def noise(eps: Fraction, sensitivity: int = 1) -> DiscreteLaplace:
    return column_noise(column(0), eps, sensitivity)


def measure(counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1) -> Integers:
    """Noisy counts, whole and often negative."""
    exponent(counts.size, largest, why)
    return counts + noise(eps, sensitivity).sample(counts.shape, bits)


def block_variance(k: int, eps: Fraction, level: int, sensitivity: int = 1) -> float:
    """The variance of the sum of 2^level cells, exactly: each adds its own."""
    return noise(eps, sensitivity).variance * 2.0**level
