"""The four systems of the paper's Table 2: what it prints of them, and their errors measured again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.noise.bits import Bits, system_bits
from oboro.tables.city import city
from oboro.tables.papers import laplace, privelet, privelet2d
from oboro.tables.papers.common import joined
from oboro.tables.papers.scoreboard import wavelet_dense

EPS = Fraction(1, 10)
K = 18
LEVELS = tuple(range(0, K + 1, 2))
COARSE = 8  # sums of 2^8 cells and more are averaged over many trials of the upper nodes
TRIALS, COARSE_TRIALS = 100, 3000


@dataclass(frozen=True, slots=True)
class Method:
    """A row of Table 2. `release` takes the counts of all cells, or of larger blocks, with noise for 2^K cells."""

    name: str
    mae: tuple[float, ...]  # as printed, for the sizes 2^0, 2^2, ..., 2^18
    rmse: tuple[float, ...]
    release: Callable[[Integers, Bits], npt.NDArray[Any]]
    variance: Callable[[int, Fraction, int], float]  # before clamping, for the proposed method
    negative: int  # cells, as printed
    tree: bool = True  # what is published for a block depends on the nodes above it alone


def _laplace(counts: Integers, bits: Bits) -> Integers:
    return laplace.measure(counts, EPS, bits)


def _privelet(counts: Integers, bits: Bits) -> Floats:
    noise = privelet.noise(K, EPS)
    return privelet.estimate(privelet.transform(counts) + noise.sample(counts.size, bits))


def _privelet2d(counts: Integers, bits: Bits) -> Floats:
    coefficients = privelet2d.transform(privelet2d.square(counts))
    noise = privelet2d.noise(K // 2, K // 2, EPS)
    noisy = coefficients + noise.sample(coefficients.shape, bits)
    return np.asarray(privelet2d.morton(privelet2d.estimate(noisy)))


def _proposed(counts: Integers, bits: Bits) -> Integers:
    return wavelet_dense(counts, EPS, bits, depth=K)


METHODS = (
    Method(
        "Laplace",
        (10.00, 21.87, 44.77, 90.03, 180.69, 363.21, 722.03, 1402.73, 2806.58, 5553.95),
        (14.14, 28.28, 56.55, 113.06, 226.48, 455.65, 906.12, 1789.27, 3474.87, 6907.69),
        _laplace,
        laplace.block_variance,
        88_399,
        tree=False,
    ),
    Method(
        "Privelet (2D)",
        (361.51, 361.27, 361.67, 361.93, 361.25, 366.09, 378.30, 414.57, 593.86, 1178.56),
        (471.37, 471.01, 471.66, 472.52, 471.26, 479.17, 494.20, 531.12, 756.30, 1631.86),
        _privelet2d,
        privelet2d.block_variance,
        114_533,
    ),
    Method(
        "Privelet (Morton)",
        (115.74, 115.73, 115.73, 115.56, 115.57, 116.55, 116.69, 118.01, 121.70, 209.08),
        (155.16, 155.16, 155.09, 154.90, 155.00, 155.88, 155.69, 155.93, 161.45, 317.79),
        _privelet,
        privelet.block_variance,
        105_275,
    ),
    Method(
        "Proposed",
        (28.73, 44.49, 60.14, 74.91, 89.41, 101.02, 111.14, 119.87, 124.95, 139.32),
        (66.20, 87.54, 106.18, 121.09, 135.07, 145.33, 152.92, 158.95, 168.02, 195.30),
        _proposed,
        privelet.block_variance,
        0,
    ),
)


@cache
def series(method: Method) -> tuple[list[float], list[float]]:
    """MAE and RMSE by level, measured once for the table and both figures."""
    counts = mesh()
    if method.tree:
        by_level = _measure(method.release, counts, range(0, COARSE, 2), TRIALS)
        upper = joined(counts, 1 << COARSE)
        by_level |= _measure(method.release, upper, range(COARSE, K + 1, 2), COARSE_TRIALS)
    else:
        by_level = _measure(method.release, counts, LEVELS, 5 * TRIALS)
    return [by_level[level][0] for level in LEVELS], [by_level[level][1] for level in LEVELS]


def _measure(
    release: Callable[[Integers, Bits], npt.NDArray[Any]],
    counts: Integers,
    levels: Sequence[int],
    trials: int,
) -> dict[int, tuple[float, float]]:
    """MAE and RMSE over all blocks and trials.

    `counts` are those of blocks of the first level; a block of each further level joins four of the last.
    """
    bits = system_bits()
    totals = np.zeros((len(levels), 2))
    for _ in range(trials):
        errors = (release(counts, bits) - counts).astype(float)
        for total in totals:
            total += np.abs(errors).mean(), np.square(errors).mean()
            errors = joined(errors, min(4, errors.size))
    means = (totals / trials).tolist()
    return {level: (mae, square**0.5) for level, (mae, square) in zip(levels, means, strict=True)}


@cache
def mesh() -> Integers:
    """The generated city in Morton order."""
    return np.asarray(privelet2d.morton(city()), np.int64)
