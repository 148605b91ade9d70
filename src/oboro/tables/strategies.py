"""Strategies by name.

`wavelet`, `filtered` and `threshold` never list the empty cells. The others do, and serve only domains that are
small enough for that. `adaptive` serves only tables with a public total that is small, and is not listed with them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from oboro.kinds import unknown
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Unit
from oboro.tables import wavelet
from oboro.tables.cells import Cells
from oboro.tables.dense import RIVALS
from oboro.tables.layout import Layout
from oboro.tables.rivals import threshold
from oboro.tables.strategy import Strategy, counts_move
from oboro.tables.tree.adaptive import ADAPTIVE
from oboro.tables.tree.design import Design
from oboro.tables.tree.filtered import FILTERED
from oboro.tables.tree.strategy import TREE, tree_strategy


def _wavelet_noise(layout: Layout, eps: Fraction, unit: Unit) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(wavelet.sensitivity(unit, layout.bits, layout.distinct)) / eps)


def _wavelet(
    cells: Cells, layout: Layout, eps: Fraction, unit: Unit, bits: Bits, total: int | None, trials: int
) -> list[Cells]:
    published, starts = wavelet.measure(
        cells, layout, _wavelet_noise(layout, eps, unit), bits, total=total, trials=trials
    )
    bounds = [*starts.tolist(), published.keys.size]
    return [Cells(published.keys[a:b], published.counts[a:b]) for a, b in pairwise(bounds)]


def _wavelet_variance(layout: Layout, eps: Fraction, unit: Unit, height: int) -> float:
    return wavelet.block_variance(_wavelet_noise(layout, eps, unit), layout.bits, height)


def _threshold_noise(layout: Layout, eps: Fraction, unit: Unit) -> DiscreteLaplace:
    return threshold.noise(eps, counts_move(unit))


def _threshold(
    cells: Cells, layout: Layout, eps: Fraction, unit: Unit, bits: Bits, total: int | None, trials: int
) -> list[Cells]:
    moves = counts_move(unit)
    least = threshold.default_threshold(layout.cells, eps, moves)
    published = []
    for _ in range(trials):
        keys, counts = threshold.measure_sparse(
            cells.keys, cells.counts, 1 << layout.bits, eps, bits, least, moves
        )
        possible = layout.possible(keys)
        published.append(Cells(keys[possible], counts[possible]))
    return published


def _threshold_variance(layout: Layout, eps: Fraction, unit: Unit, height: int) -> float:
    return _threshold_noise(layout, eps, unit).variance * 2.0**height


WAVELET = Strategy(
    name="wavelet",
    title="the wavelet method of Terada et al., corrected",
    noise=_wavelet_noise,
    measure=_wavelet,
    variance=_wavelet_variance,
    takes_total=True,
    notes=("keeping counts at 0 or more raises small cells and lowers large ones",),
)
THRESHOLD = Strategy(
    name="threshold",
    title="noise on every cell, published from a threshold on",
    noise=_threshold_noise,
    measure=_threshold,
    variance=_threshold_variance,
    notes=("cells below the threshold are left out, so that sums of many small cells come out too low",),
)
STRATEGIES = {strategy.name: strategy for strategy in (WAVELET, TREE, FILTERED, *RIVALS, THRESHOLD)}


def strategy_of(name: str, design: Design | None = None) -> Strategy:
    """A strategy by its name; that of a tree may have a design already."""
    if name == "tree" and design is not None:
        return tree_strategy(design)
    if name == "adaptive":
        return ADAPTIVE
    if name not in STRATEGIES:
        raise unknown("strategy", name, ["tree", *sorted(STRATEGIES.keys() - {"tree"}), "adaptive"])
    return STRATEGIES[name]
