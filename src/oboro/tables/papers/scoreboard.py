"""What each system does to a table, measured: negative cells, error by area, time and memory.

The paper's Table 1 ticks boxes. Here every system runs on the same cells, from small domains to large ones:
windows of a city for small domains, and the city in the corner of an empty country for large ones.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.domain import Domain, Grid
from oboro.noise.bits import Bits, system_bits
from oboro.tables import wavelet
from oboro.tables.cells import Cells, Layout, block_errors, dense_block_errors
from oboro.tables.papers import fourier, hierarchy, laplace, matrix, privelet, privelet2d, threshold
from oboro.tables.papers.common import joined
from oboro.tables.tree.outlook import city

Published = Any  # estimates of all cells in one array, or the cells that are not 0
_PATIENCE = 2.0  # seconds: no further trial begins after that


@dataclass(frozen=True, slots=True)
class System:
    """One system of the comparison. `run` takes cells, k for a domain of 2^k cells, eps and bits."""

    name: str
    printed: str  # what Table 1 says: non-negative, accurate sums, cost
    exponents: tuple[int, ...]  # the sizes that it is run at
    run: Callable[[Cells, int, Fraction, Bits], Published]


@dataclass(frozen=True, slots=True)
class Score:
    """What came out, on average over the trials."""

    negative: float  # share of all cells
    rmse: tuple[float, ...]  # of single cells, of blocks of some size between, of the sum of all
    seconds: float  # of the fastest trial
    megabytes: float  # at the peak, over what was there before


def score(system: System, cells: Cells, k: int, eps: Fraction, within: int, trials: int = 12) -> Score:
    """Runs a system until `trials` or patience run out, and once more for its memory.

    Errors of single cells and blocks are those of the first 2^within cells, where people are: the
    average over an empty country would only say how empty it is.
    """
    bits = system_bits()
    squares, negative = np.zeros(3), 0.0
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < trials and (not seconds or time.perf_counter() - began < _PATIENCE):
        start = time.perf_counter()
        published = system.run(cells, k, eps, bits)
        seconds.append(time.perf_counter() - start)
        squares += _squares(cells, published, within)
        negative += np.count_nonzero(_values(published) < 0) / 2.0**k
    done = len(seconds)
    rmse = tuple(float(value) for value in np.sqrt(squares / done))
    return Score(negative / done, rmse, min(seconds), _megabytes(lambda: system.run(cells, k, eps, bits)))


def middle(k: int) -> int:
    """Between a cell and all 2^k: square blocks of about sqrt(2^k) cells, as a power of 2."""
    return k // 4 * 2


def window(cells: Cells, k: int, whole: int) -> Cells:
    """The aligned window of 2^k cells whose share of occupied cells is closest to that of all 2^whole."""
    if k >= whole:
        return cells
    occupied = np.bincount(cells.keys >> k, minlength=1 << (whole - k))
    chosen = int(np.argmin(np.abs(occupied - cells.keys.size / 2.0 ** (whole - k))))
    inside = cells.keys >> k == chosen
    return Cells(cells.keys[inside] - (chosen << k), cells.counts[inside])


def wavelet_dense(counts: Integers, eps: Fraction, bits: Bits, depth: int | None = None) -> Integers:
    """The paper's T1, with noise for a tree of `depth` levels below the root; those of the counts, by default."""
    k = counts.size.bit_length() - 1
    law = privelet.noise(k if depth is None else depth, eps)  # both measure the same wavelet
    coins = (bits.words(counts.size) & np.uint64(1)).astype(np.int64)
    return wavelet.dense(counts, law.sample(counts.size, bits), coins)


def _squares(truth: Cells, published: Published, within: int) -> list[float]:
    """Mean square errors of single cells, of blocks, and of the sum of all."""
    sizes = (0, middle(within))
    if isinstance(published, Cells):
        inside = published.keys < 1 << within
        corner = Cells(published.keys[inside], published.counts[inside])
        found = block_errors(truth, corner, _layout(within), sizes)
    else:
        found = dense_block_errors(truth.dense(within), published[: 1 << within], sizes)
    total = float(_values(published).sum() - truth.counts.sum())
    return [*[size.rmse**2 for size in found], total**2]


def _values(published: Published) -> Any:
    return published.counts if isinstance(published, Cells) else published


def _layout(k: int) -> Layout:
    return Layout(Domain([Grid("row", "col", shape=(1 << k // 2, 1 << (k + 1) // 2))]))


def _wavelet_sparse(cells: Cells, k: int, eps: Fraction, bits: Bits) -> Cells:
    published, _ = wavelet.measure(cells, _layout(k), privelet.noise(k, eps), bits)
    return published


def _threshold(cells: Cells, k: int, eps: Fraction, bits: Bits) -> Cells:
    return Cells(*threshold.measure_sparse(cells.keys, cells.counts, 1 << k, eps, bits))


def _matrix(counts: Integers, eps: Fraction, bits: Bits) -> Any:
    matrix.strategy.cache_clear()  # the search is a part of the cost
    return matrix.measure(counts, eps, bits)


def _privelet2d(counts: Integers, eps: Fraction, bits: Bits) -> Any:
    return privelet2d.morton(privelet2d.measure(privelet2d.square(counts), eps, bits))


def _dense(measure: Callable[[Integers, Fraction, Bits], Any]) -> Callable[[Cells, int, Fraction, Bits], Any]:
    """A system that lists all cells."""
    return lambda cells, k, eps, bits: measure(cells.dense(k), eps, bits)


def _megabytes(run: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


_GROWING, _SPARSE = (8, 14, 18, 20), (8, 14, 18, 26, 37)

SYSTEMS = (
    System("Laplace", "✗ ✗ O(n)", _GROWING, _dense(laplace.measure)),
    System("Barak, before the program", "✗ ✓ O(n log n)~", _GROWING, _dense(fourier.measure)),
    System("Barak, linear program", "✗ ✓ O(n log n)~", (4, 6, 8, 9), _dense(fourier.measure_table)),
    System("Xiao, rows and columns", "✗ ✓ O(n)", _GROWING, _dense(_privelet2d)),
    System("Xiao, Morton order", "✗ ✓ O(n)", _GROWING, _dense(privelet.measure)),
    System("Hay", "✗ ✓ O(n)~", _GROWING, _dense(hierarchy.measure)),
    System("Li", "✗ ✓ O(n²)", (4, 6, 8), _dense(_matrix)),
    System("Cormode", "✓ ✗ by threshold", _SPARSE, _threshold),
    System("proposed, T1", "✓ ✓ O(n)", _GROWING, _dense(wavelet_dense)),
    System("proposed, T2", "✓ ✓ O(m+ log n)", _SPARSE, _wavelet_sparse),
)


# The four systems of the paper's Table 2: what it prints of them, and their errors measured again.

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


def _privelet2d_row(counts: Integers, bits: Bits) -> Floats:
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
        _privelet2d_row,
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
    """MAE and RMSE by level on the city, measured once for the table and both figures."""
    return measured(method, mesh(), TRIALS, COARSE_TRIALS)


def measured(method: Method, counts: Integers, trials: int, coarse: int) -> tuple[list[float], list[float]]:
    """MAE and RMSE by level, on 2^K cells in Morton order; the upper levels over more trials of the nodes that they depend on."""
    if method.tree:
        by_level = _measure(method.release, counts, range(0, COARSE, 2), trials)
        upper = joined(counts, 1 << COARSE)
        by_level |= _measure(method.release, upper, range(COARSE, K + 1, 2), coarse)
    else:
        by_level = _measure(method.release, counts, LEVELS, 5 * trials)
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
