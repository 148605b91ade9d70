"""Least squares over all measured levels, in closed form.

Let P_l average over the nodes of level l, and n_l be the leaves of one node. The counts of level l, with noise of
precision p_l (one over its variance), enter the normal equations as p_l n_l P_l. All P_l commute. On the part W_j
of the space that level j sees and no coarser level does, the normal matrix is the number

    mu_j = sum over levels l that are as fine as j or finer, of n_l p_l,

so that the solution is the sum over j of (1/mu_j) W_j b, with b = sum_l p_l A_l' y_l. W_j is a product over columns
of P_j - P_(j-1). Sorted by averages instead, the solution is

    sum over l of c_l P_l b,    c_l = sum over s in {0, 1}^columns of (-1)^|s| / mu_(l+s),

and c_l is 0 for all but a few levels: those that are measured, and where they meet.

The variance of a question q is sum_j t_j(q) / mu_j, where t_j(q) = |W_j q|^2 (workload.py).

All of this works on noisy counts: it is post-processing, and may use floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.tables.tree.lattice import Lattice, Level


def moments(lattice: Lattice, levels: Sequence[Level], precisions: Sequence[float]) -> Floats:
    """mu_j for all levels j."""
    mu = np.zeros(lattice.shape)
    for level, precision in zip(levels, precisions, strict=True):
        mu[tuple(slice(0, at + 1) for at in level)] += precision * lattice.under(level)
    return mu


def coefficients(mu: Floats) -> Floats:
    """c_l for all levels l."""
    inverse = np.pad(1 / mu, [(0, 1)] * mu.ndim)
    total, largest = np.zeros(mu.shape), np.zeros(mu.shape)
    for shift in product((0, 1), repeat=mu.ndim):
        part = inverse[tuple(slice(s, s + size) for s, size in zip(shift, mu.shape, strict=True))]
        total += (-1) ** sum(shift) * part
        largest = np.maximum(largest, part)
    return np.where(np.abs(total) > 1e-12 * largest, total, 0.0)  # what cancels leaves only rounding


@lru_cache(maxsize=16)
def _coefficients(lattice: Lattice, levels: tuple[Level, ...], precisions: tuple[float, ...]) -> Floats:
    return coefficients(moments(lattice, levels, precisions))


def least_squares(
    lattice: Lattice,
    levels: Sequence[Level],
    precisions: Sequence[float],
    noisy: Sequence[Integers],
    total: int | None = None,
) -> Floats:
    """The estimate of every leaf from the noisy counts of some levels, the finest among them.

    With a public `total` the estimates add up to it.
    """
    b = np.zeros(tuple(tree.leaves for tree in lattice.trees))
    for level, precision, counts in zip(levels, precisions, noisy, strict=True):
        lattice.add_spread(np.multiply(counts, precision, dtype=np.float64), level, b)
    c = _coefficients(lattice, tuple(levels), tuple(precisions))
    found = np.zeros_like(b)
    for level in lattice.levels:
        if c[level] != 0:
            weight = c[level] / lattice.under(level)
            lattice.add_spread(weight * np.asarray(lattice.sums(b, level), float), level, found)
    if total is not None:
        found += (total - found.sum()) / found.size
    return found
