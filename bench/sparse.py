"""Filtered tables: 2^36 cells of which 10^5 are full, against the wavelet at every block size; time and memory at 2^37."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.measure import Row
from bench.trees import alone
from oboro.domain import Domain, Grid
from oboro.noise import system_bits
from oboro.privacy import Pure, Unit
from oboro.tables.cells import Cells, Layout, block_errors
from oboro.tables.tree.filtered import Filtered, answers_for_blocks
from oboro.tables.wavelet import Wavelet

Floats = npt.NDArray[np.float64]

WIDE = Layout(Domain([Grid("row", "col", shape=(2**18, 2**18))]))
TRIALS = 8


def rows() -> Iterator[Row]:
    for name, truth in datasets():
        yield from against_wavelet(name, truth)
    for full in (100_000, 10_000_000):
        yield from at_scale(full)


def datasets() -> Iterator[tuple[str, Cells]]:
    """Towns that are few or many, tight or wide, with heavy or light tails; and cells anywhere."""
    yield "20 towns", towns(seed=7, centres=20)
    yield "2,000 towns", towns(seed=10, centres=2000)
    yield "500 dense towns", towns(seed=11, centres=500, width=1.5)
    yield "50 wide towns", towns(seed=12, centres=50, width=60)
    yield "100 towns, small counts", towns(seed=14, centres=100, tail=2.5)
    yield "100 towns, large counts", towns(seed=15, centres=100, tail=0.8)
    yield "anywhere", towns(seed=1, centres=100_000, width=600)


def towns(
    *,
    seed: int,
    centres: int,
    size: int = 100_000,
    width: float = 6.0,
    tail: float = 1.2,
    layout: Layout = WIDE,
) -> Cells:
    """Cells around centres of very different sizes, with heavy-tailed counts."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 2**18, (centres, 2))
    weights = rng.pareto(1.2, centres) + 0.05
    keys = np.empty(0, np.int64)
    while keys.size < size:
        of = rng.choice(centres, size, p=weights / weights.sum())
        spread = width * np.sqrt(weights[of] / weights.sum() * size)[:, None]
        near = np.clip(places[of] + spread * rng.standard_normal((of.size, 2)), 0, 2**18 - 1).astype(np.int64)
        keys = np.union1d(keys, layout.keys(list(near.T)))
    keys = np.sort(rng.choice(keys, size, replace=False))
    return Cells(keys, np.minimum(np.floor(rng.pareto(tail, size) + 1), 50_000).astype(np.int64))


def against_wavelet(name: str, truth: Cells) -> Iterator[Row]:
    heights, facts, bits = range(0, 32, 2), (WIDE, Pure(1), Unit.cells()), system_bits()
    theirs = np.zeros(len(heights))
    for _ in range(TRIALS):
        (result,) = Wavelet(*facts).measure(truth, bits)
        theirs += [error.rmse**2 for error in block_errors(truth, result, WIDE, heights)]
    ours, real = np.zeros(len(heights)), []
    for result in Filtered(*facts).measure(truth, bits, TRIALS):
        ours += [answers_for_blocks(result, truth, WIDE, height) ** 2 for height in heights]
        real.append(np.isin(result.keys, truth.keys).mean() if result.keys.size else 1.0)
    worst = float(np.sqrt(ours / theirs).max())
    yield Row(f"filtered, {name}: worst block", worst, "the most of wavelet", 0.85, "", 0.85 / worst, 1)
    found = float(np.mean(real))
    yield Row(f"filtered, {name}: real cells", found, "at least", 0.85, "", found / 0.85, 1)


def at_scale(full: int) -> Iterator[Row]:
    """2^37 cells, in a process of its own that reads its cells from a file, against 2 GB."""
    layout = Layout(Domain([Grid("row", "col", shape=(2**18, 2**19))]))
    with tempfile.TemporaryDirectory() as folder:
        cells = towns(seed=7, centres=max(20, full // 5000), size=full, layout=layout)
        np.save(Path(folder) / "keys.npy", cells.keys)
        np.save(Path(folder) / "counts.npy", cells.counts)
        del cells
        spent, megabytes = alone(_SPARSE.format(folder=folder))
    what = f"filtered, 2^37 cells, {full:,} full"
    yield Row(what, spent, "what it may take", 60.0, "s", 60 / spent, None)
    yield Row(what, megabytes, "what it may take", 2048.0, "MB", 2048 / megabytes, 1)


_SPARSE = """
layout = Layout(Domain([Grid("row", "col", shape=(2**18, 2**19))]))
cells = Cells(np.load("{folder}/keys.npy"), np.load("{folder}/counts.npy"))
run(Filtered(layout, Pure(1), Unit.cells()), cells)
"""
