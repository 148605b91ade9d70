"""A city that does not exist: test data in the shape of the mesh that Terada et al. publish.

512 x 512 cells of 500 m, 36% of them inhabited, 40 million people: one metropolis on a bay, towns along lines,
villages in valleys, and mountains and sea where nobody lives. Counts are heavy-tailed, as in a census.

How it is made
    1. Two fields of smooth noise: `ground`, which says where one can live at all (with the sea cut out of the
       south-east), and `grain`, which makes neighbouring cells differ.
    2. Density falls off from a few hundred centres, whose sizes follow a Pareto law; the largest is the
       metropolis in the middle of the bay.
    3. The 36% of cells that are habitable most clearly are inhabited. Densities are scaled to 40 million and
       rounded by chance, at least 1 in each inhabited cell.

The generator is seeded: this is data, not noise, and it is the same every time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SIDE = 512
PEOPLE = 40_000_000
INHABITED = 0.363
_SEED = 20150915


@lru_cache(maxsize=1)
def city() -> Integers:
    """People in each cell, rows from the north and columns from the west. The array is not to be written to."""
    rng = np.random.default_rng(_SEED)
    row, col = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    ground = sum((_smooth(rng, size) * size**0.7 for size in (6, 12, 25, 60)), np.zeros((SIDE, SIDE)))
    bay = np.hypot((row - 330) / 90, (col - 330) / 70)  # a bay, and the ocean behind it
    sea = np.minimum(bay, (1150 - row - col) / 200)
    density = np.zeros((SIDE, SIDE))
    sizes = np.sort(rng.pareto(0.95, 420) + 0.1)[::-1]
    for rank, size in enumerate(sizes):
        at = (250.0, 265.0) if rank == 0 else rng.uniform(0, SIDE, 2)
        reach = 26.0 if rank == 0 else 1.3 * size**0.4
        away = np.hypot(row - at[0], col - at[1]) / reach
        density += size**0.55 * np.exp(-(away**0.8))
    density += 0.004
    grain = np.exp(1.1 * rng.standard_normal((SIDE, SIDE)) + 0.8 * _smooth(rng, 90))
    habitable = 0.9 * _ranks(ground) + 0.6 * _ranks(density) + 0.25 * rng.random((SIDE, SIDE))
    habitable = np.where(sea > 1, habitable, 0)
    inhabited = habitable >= np.quantile(habitable, 1 - INHABITED)
    people = np.where(inhabited, density * grain, 0)
    people *= PEOPLE / people.sum()
    counts = np.where(inhabited, np.maximum(np.floor(people + rng.random(people.shape)), 1), 0).astype(np.int64)
    counts.setflags(write=False)
    return counts


def _smooth(rng: np.random.Generator, size: int) -> Floats:
    """Noise without waves much shorter than SIDE / size, of variance 1."""
    waves = np.fft.rfft2(rng.standard_normal((SIDE, SIDE)))
    across = np.hypot(np.fft.fftfreq(SIDE, 1 / SIDE)[:, None], np.fft.rfftfreq(SIDE, 1 / SIDE))
    field = np.fft.irfft2(waves * np.exp(-((across / size) ** 2)), (SIDE, SIDE))
    return np.asarray(field / field.std())


def _ranks(field: Floats) -> Floats:
    """Values replaced by their ranks, 0 to 1."""
    return np.asarray(np.argsort(np.argsort(field, axis=None)).reshape(field.shape) / field.size)
