"""Privelet in two dimensions [Xiao et al. 2011]: the standard decomposition, every row and then every column.

Good for rectangles that are long and thin. For square blocks the Morton order of `privelet` is better:
the noise here grows as the square of the logarithm.
"""

from __future__ import annotations

from fractions import Fraction

from oboro.errors import DomainError
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.rivals import privelet
from oboro.tables.rivals.common import Floats, Integers, column_noise, exponent

largest = privelet.largest
why = privelet.why


def transform(counts: Integers) -> Integers:
    """The Haar coefficients of every row, and of these in every column."""
    return privelet.transform(privelet.transform(counts).T).T


def noise(rows: int, columns: int, eps: Fraction, sensitivity: int = 1) -> DiscreteLaplace:
    """The noise of every coefficient, for 2^rows x 2^columns cells.

    Privacy
        A cell enters 1 + columns coefficients of its row with sign +1 or -1, and each of these enters
        1 + rows coefficients of its column. If it moves by 1, they move by (1 + rows)(1 + columns) in all.
    """
    return column_noise((1 + rows) * (1 + columns), eps, sensitivity)


def estimate(noisy: Integers) -> Floats:
    """The inverse of `transform`."""
    return privelet.estimate(privelet.estimate(noisy.T).T)


def measure(counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1) -> Floats:
    """Estimates of all cells of a table with 2^a rows and 2^b columns, often negative."""
    if counts.ndim != 2:
        raise DomainError(
            "privelet2d needs a table of rows and columns",
            given=f"an array of {counts.ndim} dimensions",
            needed="2 dimensions, each a power of two",
            fix='strategy="privelet", which takes one row of cells',
        )
    rows, columns = (exponent(side, largest, why) for side in counts.shape)
    exponent(counts.size, largest, why)
    law = noise(rows, columns, eps, sensitivity)
    return estimate(transform(counts) + law.sample(counts.shape, bits))


def block_variance(k: int, eps: Fraction, level: int, sensitivity: int = 1) -> float:
    """The variance of the sum of an aligned block of 2^level cells, exactly.

    The 2^k cells are a square, or twice as wide as high, and so is the block: as Morton order cuts them.
    """
    rows, columns = k // 2, (k + 1) // 2
    entering = privelet.spread(rows, level // 2) * privelet.spread(columns, (level + 1) // 2)
    return noise(rows, columns, eps, sensitivity).variance * entering
