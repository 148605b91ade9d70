"""Counting at the levels of a design: exact counts, exact noise, then least squares and projection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oboro.arrays import Bools, Integers
from oboro.noise import Bits
from oboro.tables import progress
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout
from oboro.tables.strategy import Noise
from oboro.tables.tree.design import Design, precision
from oboro.tables.tree.lattice import Lattice, lattice_of
from oboro.tables.tree.project import project
from oboro.tables.tree.solve import least_squares

_TOGETHER = 1 << 18  # draws


@dataclass(frozen=True, slots=True)
class Measured(Cells):
    """The published cells, and the noisy counts that they come from: these are as public as the table."""

    noisy: tuple[Integers, ...] = field(default=(), repr=False)


def measure(
    cells: Cells,
    layout: Layout,
    design: Design,
    noises: Sequence[Noise],
    bits: Bits,
    total: int | None = None,
    trials: int = 1,
) -> list[Measured]:
    """Publishes the table `trials` times, each with noise of its own."""
    lattice = lattice_of(layout.domain)
    possible = lattice.possible(layout)
    counts = np.zeros(tuple(tree.leaves for tree in lattice.trees), np.int64)
    counts.reshape(-1)[lattice.leaf(layout, cells.keys)] = cells.counts
    true = [np.asarray(lattice.sums(counts, level), np.int64) for level in design.levels]
    del counts
    published = []
    for noisy in _noisy(true, noises, bits, trials):
        published.append(publish(noisy, layout, lattice, design, noises, possible, total))
    return published


def _noisy(
    true: Sequence[Integers], noises: Sequence[Noise], bits: Bits, trials: int
) -> Iterator[list[Integers]]:
    """The noisy counts of each trial. Small tables draw for many trials at once."""
    together = max(1, _TOGETHER // max(counts.size for counts in true))
    for first in range(0, trials, together):
        some = min(together, trials - first)
        drawn = [
            noise.sample((some, *counts.shape), bits) for counts, noise in zip(true, noises, strict=True)
        ]
        for trial in range(some):
            yield [counts + noise[trial] for counts, noise in zip(true, drawn, strict=True)]


def publish(
    noisy: Sequence[Integers],
    layout: Layout,
    lattice: Lattice,
    design: Design,
    noises: Sequence[Noise],
    possible: Bools | None,
    total: int | None,
) -> Measured:
    """All that follows the noise: post-processing."""
    estimates = estimated(noisy, lattice, design, noises, possible, total)
    progress.report("making whole", 0.5)
    counts = project(lattice, estimates, possible, total).reshape(-1)
    leaves = np.flatnonzero(counts)
    keys = lattice.keys(layout, leaves)
    held = counts[leaves]
    if not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys)
        keys, held = keys[order], held[order]
    progress.report("making whole", 1.0)
    return Measured(keys, held, tuple(noisy))


def estimated(
    noisy: Sequence[Integers],
    lattice: Lattice,
    design: Design,
    noises: Sequence[Noise],
    possible: Bools | None,
    total: int | None,
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Least squares; nodes without a possible cell hold 0 for certain, and count as measured without error.

    That is not the best that could be made of them, but it stays unbiased, and makes errors smaller, not larger.
    """
    counts = list(noisy)
    if possible is not None:
        counts = [
            np.where(lattice.sums(possible, level) > 0, each, 0)  # sums of truth values are counts
            for level, each in zip(design.levels, noisy, strict=True)
        ]
    precisions = [precision(noise) for noise in noises]
    progress.report("least squares", 0.0)
    return least_squares(lattice, design.levels, precisions, counts, total)
