"""Privelet in two dimensions [Xiao et al. 2011]: the standard decomposition, every column and then every row.

Good for rectangles that are long and thin. For square blocks the Morton order of `privelet` is better:
the noise here grows as the square of the logarithm.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers, Table
from oboro.errors import DomainError, setting
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers import privelet
from oboro.tables.papers.common import column_noise, exponent

largest = privelet.largest
why = privelet.why


def transform(counts: Integers) -> Integers:
    """The Haar coefficients of every column, and of these in every row; transposed."""
    return privelet.transform(np.ascontiguousarray(privelet.transform(counts).T))


def column(rows: int, columns: int) -> int:
    """How far all coefficients of 2^rows x 2^columns cells move together if one cell moves by 1.

    Privacy
        A cell enters 1 + rows coefficients of its column with sign +1 or -1, and each of these enters
        1 + columns coefficients of its row. If it moves by 1, they move by (1 + rows)(1 + columns) in all.
    """
    return (1 + rows) * (1 + columns)


def noise(rows: int, columns: int, eps: Fraction, sensitivity: int = 1) -> DiscreteLaplace:
    """The noise of every coefficient, for 2^rows x 2^columns cells."""
    return column_noise(column(rows, columns), eps, sensitivity)


def estimate(noisy: Integers) -> Floats:
    """The inverse of `transform`, from its transposed form back to rows and columns."""
    return privelet.estimate(np.ascontiguousarray(privelet.estimate(noisy).T))


def measure(counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1) -> Floats:
    """Estimates of all cells of a table with 2^a rows and 2^b columns, often negative."""
    if counts.ndim != 2:
        raise DomainError(
            "privelet2d needs a table of rows and columns",
            given=f"an array of {counts.ndim} dimensions",
            needed="2 dimensions, each a power of two",
            fix=setting(strategy="privelet") + ", which takes one row of cells",
        )
    rows, columns = (exponent(side, largest, why) for side in counts.shape)
    exponent(counts.size, largest, why)
    law = noise(rows, columns, eps, sensitivity)
    return estimate(transform(counts) + law.sample(counts.shape[::-1], bits))


def block_variance(k: int, eps: Fraction, level: int, sensitivity: int = 1) -> float:
    """The variance of the sum of an aligned block of 2^level cells, exactly.

    The 2^k cells are a square, or twice as wide as high, and so is the block: as Morton order cuts them.
    """
    rows, columns = k // 2, (k + 1) // 2
    entering = privelet.spread(rows, level // 2) * privelet.spread(columns, (level + 1) // 2)
    return noise(rows, columns, eps, sensitivity).variance * entering


def square(row: Any) -> Any:
    """Cells in Morton order as rows and columns: a square, or twice as wide as high."""
    k = row.size.bit_length() - 1
    return row.reshape((2,) * k).transpose(_bits(k)).reshape(1 << k // 2, -1)


def morton(table: Table) -> Any:
    """Rows and columns as cells in Morton order: the inverse of `square`."""
    k = table.size.bit_length() - 1
    return table.reshape((2,) * k).transpose(np.argsort(_bits(k))).reshape(-1)


def _bits(k: int) -> list[int]:
    """Where in a key of k bits those of the row are, and then those of the column, the highest first."""
    return [*range(k % 2, k, 2), *range(1 - k % 2, k, 2)]
