"""Fourier [Barak et al. 2007]: noise on the Walsh-Hadamard coefficients of the table.

A cell is a word of k bits. The coefficient of a set of bits is the sum of all counts, each with the parity
of its bits in the set as sign: a whole number. Barak et al. publish marginals of low order, for which the
coefficients of small sets are enough (`order`). For the table itself all n are needed; each cell enters
all of them, and the noise is sqrt(n) times that of noise on the cells, for blocks of every size. (Table 1
of Terada et al. credits the method with accurate sums; it has them only for marginals of low order.)

The linear program that makes the result non-negative is `measure_table`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers.common import DENSE, column_noise, exponent

N = TypeVar("N", np.int64, np.float64)

largest = DENSE
why = "every coefficient takes noise"
largest_table = 2**9
why_table = "the linear program has 2 n rows and n columns, all filled: 2 s for 512 cells, 20 s for 1024"


def transform(counts: Integers) -> Integers:
    """All Walsh-Hadamard coefficients; bit i of the index says whether bit i of the cell is in the set."""
    coefficients: Integers = _hadamard(counts)
    return coefficients


def measured(k: int, order: int | None = None) -> npt.NDArray[np.bool_]:
    """Which coefficients are measured: the sets of at most `order` bits; all of them by default."""
    size = np.zeros(1, np.int64)
    for _ in range(k):
        size = np.concatenate([size, size + 1])
    return size <= (k if order is None else order)


def column(k: int, order: int | None = None) -> int:
    """How far all coefficients that are measured move together if one cell moves by 1.

    Privacy
        A cell enters every coefficient with sign +1 or -1. If it moves by 1, the coefficients move by
        their number in all.
    """
    return _number(k, k, order)


def noise(k: int, eps: Fraction, sensitivity: int = 1, order: int | None = None) -> DiscreteLaplace:
    """The noise of every coefficient that is measured."""
    return column_noise(column(k, order), eps, sensitivity)


def estimate(noisy: Integers) -> Floats:
    """The inverse of `transform`: the same transform, over n. Coefficients that were not measured are 0."""
    sums: Floats = _hadamard(noisy.astype(float))
    return sums / noisy.size


def measure(
    counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1, order: int | None = None
) -> Floats:
    """Estimates of all cells, often negative."""
    return estimate(_noisy(counts, eps, bits, sensitivity, order))


def measure_table(
    counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1, order: int | None = None
) -> Integers:
    """A table of whole numbers, none negative: the linear program of Barak et al., then rounding."""
    k = exponent(counts.size, largest_table, why_table)
    keep = measured(k, order)
    return closest_table(_noisy(counts, eps, bits, sensitivity, order)[keep], keep)


def closest_table(noisy: Integers, keep: npt.NDArray[np.bool_]) -> Integers:
    """The table x >= 0 whose coefficients are closest to the noisy ones, in the largest difference, rounded.

    Minimise b subject to |coefficient of x - noisy| <= b for every coefficient. Post-processing.
    """
    from scipy.optimize import linprog

    n = keep.size
    signs = _hadamard(np.eye(n))[keep]
    slack = np.ones((len(signs), 1))
    # Divided by the largest, so that the solver's tolerances mean the same for all tables.
    size = max(1.0, float(np.abs(noisy).max()))
    goal = noisy / size
    solution = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.block([[signs, -slack], [-signs, -slack]]),
        b_ub=np.concatenate([goal, -goal]),
        bounds=(0, None),
        method="highs",
    )
    table: Floats = np.rint(solution.x[:n] * size)
    return np.maximum(table, 0).astype(np.int64)


def block_variance(
    k: int, eps: Fraction, level: int, sensitivity: int = 1, order: int | None = None
) -> float:
    """The variance of the sum of an aligned block of 2^level cells, exactly, before the linear program.

    The block fixes the first k - level bits. Only coefficients of sets within these take part, each with
    weight 2^level / n. With `order` below k - level there is a bias as well, which depends on the data.
    """
    taking_part = _number(k, k - level, order)
    return noise(k, eps, sensitivity, order).variance * 4.0 ** (level - k) * taking_part


def _noisy(counts: Integers, eps: Fraction, bits: Bits, sensitivity: int, order: int | None) -> Integers:
    k = exponent(counts.size, largest, why)
    keep = measured(k, order)
    noisy = np.zeros(counts.size, np.int64)
    law = noise(k, eps, sensitivity, order)
    noisy[keep] = transform(counts)[keep] + law.sample(int(keep.sum()), bits)
    return noisy


def _number(k: int, within: int, order: int | None) -> int:
    """How many sets of at most `order` bits there are within so many of the k bits."""
    return sum(math.comb(within, size) for size in range((k if order is None else order) + 1))


def _hadamard(values: npt.NDArray[N]) -> npt.NDArray[N]:
    """Along the last axis; whole numbers stay whole.

    Every step transforms the last bit and puts it first, so that after k steps all bits are back in place.
    """
    for _ in range(values.shape[-1].bit_length() - 1):
        first, second = values[..., 0::2], values[..., 1::2]
        values = np.concatenate([first + second, first - second], axis=-1)
    return values
