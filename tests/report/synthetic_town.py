"""A town by the sea that never was: clustered, heavy-tailed, with a coast, an island and a river."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Counts = npt.NDArray[np.int64]


def smooth(shape: tuple[int, int], slope: float, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """A landscape with a power-law spectrum, scaled to mean 0 and deviation 1."""
    rows, cols = shape
    frequency = np.hypot(np.fft.fftfreq(rows)[:, None], np.fft.fftfreq(cols)[None, :])
    frequency[0, 0] = np.inf
    field = np.fft.ifft2(np.fft.fft2(generator.standard_normal(shape)) * frequency ** (-slope)).real
    return np.asarray((field - field.mean()) / field.std(), np.float64)


def town(rows: int = 512, cols: int = 512, seed: int = 8) -> Counts:
    """People by cell. The sea is where the land lies low; centres lie on the land and fall off as power laws."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:rows, 0:cols] / np.array([rows, cols])[:, None, None]
    height = smooth((rows, cols), 2.1, generator) * 0.62 + 1.9 * (0.62 - x) + 0.9 * (0.5 - y) + 0.25
    land = height > 0
    density = np.zeros((rows, cols))
    for number in range(46):
        while True:
            r, c = int(generator.integers(rows)), int(generator.integers(cols))
            if land[r, c] and height[r, c] < 1.3 - number * 0.012:
                break
        reach = 0.006 + 0.03 * generator.random() ** 2
        weight = (number + 1.0) ** -1.15
        distance = np.hypot(y - r / rows, (x - c / cols))
        density += weight / (1 + (distance / reach) ** 2.6) / reach**0.6
    rough = np.exp(
        0.9 * smooth((rows, cols), 1.1, generator) + 0.55 * generator.standard_normal((rows, cols))
    )
    density = density * rough * land * np.clip(1.7 - np.abs(height - 0.55), 0.02, None)
    mean = density / density.sum() * rows * cols * 14
    counts = generator.poisson(np.where(mean > 0.35, mean, mean * 0.2))
    return np.asarray(counts * land, np.int64)


def hazy(counts: Counts, eps: float, seed: int = 1) -> Counts:
    """A stand-in for a release: noise on a quadtree, made non-negative from the top down. Not for real use."""
    generator = np.random.default_rng(seed)
    levels = [counts]
    while levels[-1].size > 1:
        levels.append(
            levels[-1].reshape(levels[-1].shape[0] // 2, 2, levels[-1].shape[1] // 2, 2).sum((1, 3))
        )
    scale = len(levels) / eps / 2.5
    current = np.maximum(levels[-1] + np.rint(generator.laplace(0, 2 / eps, (1, 1))), 0)
    for finer in reversed(levels[:-1]):
        side = current.shape[0]
        noisy = (
            (finer + generator.laplace(0, scale, finer.shape))
            .reshape(side, 2, side, 2)
            .transpose(0, 2, 1, 3)
            .reshape(-1, 4)
        )
        total = current.reshape(-1)
        ordered = -np.sort(-noisy, 1)  # the nearest point with the right sum and nothing below zero
        level = (np.cumsum(ordered, 1) - total[:, None]) / np.arange(1, 5)
        kept = (ordered > level).sum(1)
        shares = np.maximum(noisy - np.take_along_axis(level, np.maximum(kept - 1, 0)[:, None], 1), 0)
        shares *= (total / np.maximum(shares.sum(1), 1e-300))[:, None]
        whole = np.floor(shares)
        rest = (total - whole.sum(1)).astype(int)
        order = np.argsort(whole - shares, 1)
        whole[np.arange(len(whole))[:, None], order] += np.arange(4)[None, :] < rest[:, None]
        current = whole.reshape(side, side, 2, 2).transpose(0, 2, 1, 3).reshape(2 * side, 2 * side)
    return np.asarray(current, np.int64)


def table_of(counts: Counts, count: str = "people") -> pa.Table:
    row, col = np.nonzero(counts)
    return pa.table({"row": row, "col": col, count: counts[row, col]})
