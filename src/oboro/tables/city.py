"""A city that does not exist: test data in the shape of the mesh that Terada et al. publish.

512 x 512 cells of 500 m, 36% of them inhabited, 40 million people: one metropolis on a bay, towns along lines,
villages in valleys, and mountains and sea where nobody lives. Counts are heavy-tailed, as in a census.

How it is made
    1. Two fields of smooth noise: `ground`, which says where one can live at all (with the sea cut out of the
       south-east), and `grain`, which makes neighbouring cells differ.
    2. Density falls off from a few hundred centres, whose sizes follow a Pareto law; the largest is the
       metropolis on the bay.
    3. The 36% of cells that are habitable most clearly are inhabited. Densities are scaled to 40 million and
       rounded by chance, at least 1 in each inhabited cell.

The constants were chosen so that the wavelet method has the errors that the paper reports, within a few percent
for blocks of up to 2^12 cells, and publishes about as many cells (26.7%; the paper's mesh 27.5%).

The generator is seeded: this is data, not noise, and it is the same every time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oboro.arrays import Floats, Integers

SIDE = 512
PEOPLE = 40_000_000
INHABITED = 0.363
_SEED = 20150915


@lru_cache(maxsize=1)
def city() -> Integers:
    """People in each cell, rows from the north and columns from the west. The array is not to be written to.

    >>> people = ob.tables.city()
    >>> people.shape, int(people.sum())
    ((512, 512), 39999967)
    """
    rng = np.random.default_rng(_SEED)
    row, col = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    ground = sum((_smooth(rng, size) * size**-0.4 for size in (8, 16, 32, 64)), np.zeros((SIDE, SIDE)))
    coast = 0.16 * _smooth(rng, 6) + 0.05 * _smooth(rng, 20)
    bay = np.hypot((row - 385) / 130, (col - 330 - (row - 385) / 3) / 58)
    ocean = (905 - row - 0.82 * col) / 100  # the bay opens to it in the south-east
    sea = np.minimum(bay, ocean) + coast
    density = np.full((SIDE, SIDE), 0.004)
    for rank, size in enumerate(np.sort(rng.pareto(0.95, 420) + 0.1)[::-1]):
        centre = (250.0, 265.0) if rank == 0 else rng.uniform(0, SIDE, 2)
        reach = 20.0 if rank == 0 else 0.8 * size**0.4
        near = tuple(
            slice(max(0, int(at - 60 * reach)), int(at + 60 * reach) + 1) for at in centre
        )  # e^-26 beyond
        away = np.hypot(row[near] - centre[0], col[near] - centre[1]) / reach
        density[near] += size**0.5 * np.exp(-(away**0.8))
    grain = np.exp(0.5 * rng.standard_normal((SIDE, SIDE)) + _smooth(rng, 90))
    habitable = 0.9 * _ranks(ground) + 0.6 * _ranks(density) + 0.05 * rng.random((SIDE, SIDE))
    habitable = np.where(sea > 1, habitable, 0)
    inhabited = habitable >= np.quantile(habitable, 1 - INHABITED)
    people = _scaled(np.where(inhabited, density * grain, 0))
    people = _scaled(people / (1 + people / 30_000))  # no cell of 500 m houses many more than that
    counts = np.where(inhabited, np.maximum(np.floor(people + rng.random(people.shape)), 1), 0).astype(
        np.int64
    )
    counts.setflags(write=False)
    return counts


def _scaled(people: Floats) -> Floats:
    return np.asarray(people * (PEOPLE / people.sum()))


def _smooth(rng: np.random.Generator, size: int) -> Floats:
    """Noise without waves much shorter than SIDE / size, of variance 1."""
    waves = np.fft.rfft2(rng.standard_normal((SIDE, SIDE)))
    across = np.hypot(np.fft.fftfreq(SIDE, 1 / SIDE)[:, None], np.fft.rfftfreq(SIDE, 1 / SIDE))
    field = np.fft.irfft2(waves * np.exp(-((across / size) ** 2)), (SIDE, SIDE))
    return np.asarray(field / field.std())


def _ranks(field: Floats) -> Floats:
    """Values replaced by their ranks, 0 to 1."""
    return np.asarray(np.argsort(np.argsort(field, axis=None)).reshape(field.shape) / field.size)
