"""Threshold [Cormode et al. 2012]: noise on every cell, and only those that reach a threshold are published.

The empty cells are never listed, so the domain may be as large as 2^62. What falls short of the threshold
is lost: sums of many small cells are too small.

Why it is the dense mechanism
    Dense, every cell gets noise of its own and is published if it reaches the threshold. For stored cells this is done
    as it stands; `empty_reaching` (cells.py) gives those of the others that do, with the law that they have. So the
    result has the law of the dense one, and the guarantee of it, whether or not a cell that holds 0 is stored.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from oboro.arrays import Integers
from oboro.exact import whole
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace, as_float
from oboro.tables.cells import empty_reaching
from oboro.tables.papers import laplace

largest = 2**62
why = "a cell is named by a number of 62 bits"


def noise(eps: Fraction, sensitivity: int = 1) -> DiscreteLaplace:
    """The noise of every cell, empty or not.

    Privacy
        The counts move by `sensitivity` in all. The threshold is public, and applied to noisy counts.
    """
    return laplace.noise(eps, sensitivity)


def default_threshold(size: int, eps: Fraction, sensitivity: int = 1) -> int:
    """The threshold that one empty cell reaches on average, or fewer."""
    scale = noise(eps, sensitivity).scale
    rate = as_float(1 / scale)
    return max(1, math.ceil((math.log(size) - math.log1p(math.exp(-rate))) / rate))


def passing(threshold: int, eps: Fraction, sensitivity: int = 1) -> float:
    """The probability that an empty cell reaches the threshold: P(Z >= threshold)."""
    return float(noise(eps, sensitivity).cdf(-threshold))  # the other tail, where nothing cancels


def measure_sparse(
    keys: Integers,
    counts: Integers,
    size: int,
    eps: Fraction,
    bits: Bits,
    threshold: int | None = None,
    sensitivity: int = 1,
) -> tuple[Integers, Integers]:
    """Keys, in increasing order, and counts of the published cells; each count is at least the threshold.

    `keys` are distinct and below `size`; all other cells are empty. Time and memory grow with the cells
    stored and published.
    """
    size = whole("size", size, least=1, most=largest)
    if threshold is None:
        threshold = default_threshold(size, eps, sensitivity)
    threshold = whole("threshold", threshold, least=1, most=largest)
    law = noise(eps, sensitivity)
    order = np.argsort(keys)
    keys = keys[order]
    noisy = counts[order] + law.sample(keys.size, bits)
    reach = noisy >= threshold
    more_keys, more_counts = empty_reaching(keys, size, law, threshold, bits)
    all_keys = np.concatenate([keys[reach], more_keys])
    all_counts = np.concatenate([noisy[reach], more_counts])
    order = np.argsort(all_keys)  # so that the order of rows says nothing
    return all_keys[order], all_counts[order]
