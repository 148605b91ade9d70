"""Matrix mechanism [Li et al. 2010]: the strategy that answers a workload best, found numerically.

The workload says which sums matter; it is public. A strategy is a matrix A of rows to measure. With noise
for its largest column, and least squares, the mean variance of the workload W is

    (largest column of A)^2 x trace(W'W (A'A)^-1) / (rows of W), times the variance of unit noise.

Li et al. state the search as a semidefinite program, too slow for all but small domains. Here A is
the cells and some more rows, with a free weight for every cell of every row, and columns that add up to 1
[the p-identity form of McKenna et al. 2018]. L-BFGS finds the weights from several starts, as the error
has many local minima. They are then rounded to whole numbers, so that what is measured is whole.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError, setting, told
from oboro.noise.bits import Bits
from oboro.noise.laplace import DiscreteLaplace
from oboro.tables.papers.common import column_noise, exponent

largest = 2**8
why = "the search inverts an n x n matrix at every step"

COLUMN = 2**12  # every column of a strategy adds up to this
WORKLOADS = ("blocks", "ranges")
_STEPS = 120  # of each search; more change the error by less than a percent


def gram(k: int, workload: str = "blocks") -> Floats:
    """W'W over the number of rows of W, so that trace(W'W C) is a mean variance.

    "blocks": all aligned blocks of 1, 2, 4, ..., n cells; each size counts as much as any other.
    "ranges": all runs of neighbouring cells.
    """
    n = 1 << k
    if workload == "blocks":
        total = np.zeros((n, n))
        for size in (1 << level for level in range(k + 1)):
            total += size * np.kron(np.eye(n // size), np.ones((size, size)))
        return total / (n * (k + 1))
    if workload == "ranges":
        # A range holds two cells if it starts no later than the first and ends no earlier than the last.
        starts = np.arange(1.0, n + 1)
        ends = starts[::-1]
        both: Floats = np.minimum.outer(starts, starts) * np.minimum.outer(ends, ends)
        return both / (n * (n + 1) / 2)
    raise ParameterError(
        "unknown workload",
        given=told(workload=repr(workload)),
        needed=" or ".join(WORKLOADS),
        fix=setting(workload="blocks"),
    )


@lru_cache(maxsize=16)
def strategy(k: int, workload: str = "blocks") -> Integers:
    """Whole, non-negative numbers, one row for each measurement; every column adds up to `COLUMN`."""
    target = gram(k, workload)
    found = [_search(target, _nodes(k, apart)) for apart in (2, 3, 4) if apart <= k]
    weights = min([*found, np.zeros((0, 2**k))], key=lambda weights: _error(target, weights)[0])
    shares = np.floor(weights * COLUMN / (1 + weights.sum(axis=0))).astype(np.int64)
    rest = COLUMN - shares.sum(axis=0)  # what the cell's own row gets, and what rounding down has left
    rows = np.concatenate([np.diag(rest), shares[shares.any(axis=1)]])
    rows.setflags(write=False)
    return rows


def transform(counts: Integers, workload: str = "blocks") -> Integers:
    """The measurements of the strategy. (Wraps if a count exceeds 2^63 / COLUMN = 2^51.)"""
    return strategy(exponent(counts.size, largest, why), workload) @ counts


def column(k: int) -> int:
    """How far all measurements move together if one cell moves by 1.

    Privacy
        If a cell moves by 1, the measurements move by its column of the strategy, whose numbers are not
        negative and add up to `COLUMN`. The search looks at k and the workload, both public.
    """
    return COLUMN


def noise(k: int, eps: Fraction, sensitivity: int = 1, workload: str = "blocks") -> DiscreteLaplace:
    """The noise of every measurement."""
    return column_noise(column(k), eps, sensitivity)


def estimate(noisy: Integers, k: int, workload: str = "blocks") -> Floats:
    """The cells that fit the measurements best, by least squares."""
    rows = strategy(k, workload).astype(float)
    return np.linalg.solve(rows.T @ rows, rows.T @ noisy.astype(float))


def measure(
    counts: Integers, eps: Fraction, bits: Bits, sensitivity: int = 1, workload: str = "blocks"
) -> Floats:
    """Estimates of all cells, often negative."""
    k = exponent(counts.size, largest, why)
    answers = transform(counts, workload)
    return estimate(answers + noise(k, eps, sensitivity, workload).sample(answers.shape, bits), k, workload)


def block_variance(
    k: int, eps: Fraction, level: int, sensitivity: int = 1, workload: str = "blocks"
) -> float:
    """The variance of the sum of an aligned block of 2^level cells, exactly, on average over the blocks."""
    rows = strategy(k, workload).astype(float)
    blocks = np.kron(np.eye(2 ** (k - level)), np.ones(2**level))
    covariance = np.linalg.inv(rows.T @ rows)
    of_each = np.einsum("bi,ij,bj->b", blocks, covariance, blocks, optimize=True)
    return noise(k, eps, sensitivity, workload).variance * float(of_each.mean())


def _nodes(k: int, apart: int) -> Floats:
    """Where a search starts: the inner nodes of the binary tree, of every second, third, ... level."""
    heights = range(apart, k + 1, apart)
    rows = [np.kron(np.eye(2 ** (k - height)), np.ones(2**height)) for height in heights]
    return np.concatenate(rows)


def _search(target: Floats, start: Floats) -> Floats:
    """Weights with a small error, near `start`."""
    from scipy.optimize import minimize

    def error(flat: Floats) -> tuple[float, Floats]:
        value, slope = _error(target, flat.reshape(start.shape))
        return value, slope.reshape(-1)

    options = {"maxiter": _STEPS}
    bounds = [(0.0, None)] * start.size
    found = minimize(error, start.reshape(-1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, np.float64).reshape(start.shape)


def _error(target: Floats, weights: Floats) -> tuple[float, Floats]:
    """The mean variance of the workload, and its gradient.

    `weights`, T for short, are the rows beside the cells' own 1, before columns are divided by their sums.
    With c = 1 + column sums of T, X = diag(c) G diag(c) and M = (I + T'T)^-1, the error is trace(X M).
    Its gradient is -2 T M X M, plus 2 (G diag(c) M)_ii in all of column i, by way of c.
    """
    sums = 1 + weights.sum(axis=0)
    inverse = np.linalg.inv(np.eye(weights.shape[1]) + weights.T @ weights)
    scaled = target * sums
    outer = scaled * sums[:, None]
    slope = -2 * weights @ (inverse @ outer @ inverse) + 2 * np.einsum("ij,ji->i", scaled, inverse)
    return float(np.einsum("ij,ji->", outer, inverse)), slope
