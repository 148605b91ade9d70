"""Hierarchy [Hay et al. 2010]: noisy counts of every node of a tree, made consistent by least squares.

The tree joins `arity` neighbours at a time. If n is not a power of the arity the root joins fewer.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.exact import whole
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers.common import DENSE, column_noise, exponent, joined

largest = DENSE // 2  # twice as many numbers as cells are measured
why = "every node takes noise, empty or not"


def sizes(k: int, arity: int = 2) -> list[int]:
    """How many cells a node has, for each level of the tree: 1 at the cells, 2^k at the root."""
    arity = whole("arity", arity, least=2)
    step = exponent(arity, largest, "a node cannot join more than all cells")
    return [1 << height for height in (*range(0, k, step), k)]


def transform(counts: Integers, arity: int = 2) -> Integers:
    """The count of every node: the cells first, the root last."""
    k = exponent(counts.size, largest, why)
    levels, steps = [counts], sizes(k, arity)
    for size, above in pairwise(steps):
        levels.append(joined(levels[-1], above // size))
    return np.concatenate(levels)


def column(k: int, arity: int = 2) -> int:
    """How far all nodes move together if one cell moves by 1.

    Privacy
        A cell is counted once on each level. If it moves by 1, the nodes move by the number of levels in all.
    """
    return len(sizes(k, arity))


def noise(k: int, eps: Fraction, sensitivity: int = 1, arity: int = 2) -> DiscreteLaplace:
    """The noise of every node."""
    return column_noise(column(k, arity), eps, sensitivity)


def estimate(noisy: Integers, k: int, arity: int = 2) -> Floats:
    """The cells whose sums fit the noisy nodes best, by least squares; every node is then the sum of its cells.

    Up the tree, each node becomes the best estimate from itself and what is below: the average of its own
    value and the sum of its children, weighted by one over the variance. Down the tree, what its children
    lack to the final value of the parent is shared out equally, as their variances are equal.
    """
    steps = sizes(k, arity)
    children = [above // size for size, above in pairwise(steps)]
    levels = np.split(noisy.astype(float), np.cumsum([2**k // size for size in steps])[:-1])
    variance = 1.0
    for low, width in enumerate(children):
        below = variance * width
        levels[low + 1] = (below * levels[low + 1] + joined(levels[low], width)) / (below + 1)
        variance = below / (below + 1)
    for low, width in reversed(list(enumerate(children))):
        lacking = levels[low + 1] - joined(levels[low], width)
        levels[low] = levels[low] + np.repeat(lacking / width, width)
    return levels[0]


def measure(counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1, arity: int = 2) -> Floats:
    """Estimates of all cells, often negative."""
    k = exponent(counts.size, largest, why)
    nodes = transform(counts, arity)
    return estimate(nodes + noise(k, eps, sensitivity, arity).sample(nodes.shape, bits), k, arity)


def block_variance(k: int, eps: Fraction, level: int, sensitivity: int = 1, arity: int = 2) -> float:
    """The variance of the sum of an aligned block of 2^level cells after least squares, exactly.

    A vector of cells that is constant on the nodes of one level and sums to 0 in each of the level above is
    an eigenvector of the measurements' Gram matrix. Its eigenvalue is the sum of the sizes of the nodes up
    to that level. The variance is the sum, over levels, of the squared length of the block's part there over
    the eigenvalue. The part that is constant on nodes of size s has the squared length
    min(block, block^2/s).
    """
    block, steps = 2.0**level, sizes(k, arity)
    lengths = [min(block, block * block / size) for size in steps]
    eigenvalues = np.cumsum(np.array(steps, float))
    parts = [length - above for length, above in zip(lengths, [*lengths[1:], 0.0], strict=True)]
    return noise(k, eps, sensitivity, arity).variance * math.fsum(parts / eigenvalues)
