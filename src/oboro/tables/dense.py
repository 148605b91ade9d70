"""The rivals that list every cell, as strategies: whole numbers, noise on each, estimates of all cells.

Estimates may be negative or fractions; they are published as the nearest whole number that is 0 or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.domain import Grid
from oboro.noise import Bits, DiscreteLaplace
from oboro.privacy import Unit
from oboro.tables.cells import Cells, Integers
from oboro.tables.layout import Layout
from oboro.tables.rivals import fourier, hierarchy, laplace, matrix, privelet, privelet2d
from oboro.tables.strategy import Strategy, counts_move

_CLAMPED = "negative estimates are published as 0, so that sums over areas with few people come out too high"

Law = Callable[[Layout, Fraction, int], DiscreteLaplace]  # for a unit that moves all counts by so much


@dataclass(frozen=True, slots=True)
class Listing:
    """Measures every cell of the domain, impossible ones too; these are then left out."""

    transform: Callable[[Integers], Integers]
    law: Law
    estimate: Callable[[Integers, int], Any]  # from noisy numbers and k, for 2^k cells
    square: bool = False  # takes rows and columns, not one row in Morton order

    def estimates(
        self, cells: Cells, layout: Layout, eps: Fraction, unit: Unit, bits: Bits, trials: int
    ) -> Iterator[Any]:
        """Estimates of all cells in Morton order, negative or fractions as they come."""
        everywhere = cells.dense(layout.bits)
        answers = self.transform(_table(everywhere, layout) if self.square else everywhere)
        for noisy in answers + self.law(layout, eps, counts_move(unit)).sample(
            (trials, *answers.shape), bits
        ):
            found = self.estimate(noisy, layout.bits)
            yield _row(found, layout) if self.square else found

    def __call__(
        self,
        cells: Cells,
        layout: Layout,
        eps: Fraction,
        unit: Unit,
        bits: Bits,
        total: int | None,
        trials: int,
    ) -> list[Cells]:
        possible = layout.all_possible()
        every = self.estimates(cells, layout, eps, unit, bits, trials)
        return [Cells.from_dense(np.where(possible, np.maximum(np.rint(found), 0), 0)) for found in every]


def _table(row: Integers, layout: Layout) -> Integers:
    """Counts in Morton order as rows and columns."""
    table = np.empty([1 << len(places) for places in layout.pattern], row.dtype)
    table[tuple(layout.places(np.arange(row.size)))] = row
    return table


def _row(table: Any, layout: Layout) -> Any:
    """The same backwards."""
    return table[tuple(layout.places(np.arange(table.size)))]


def _one_grid(layout: Layout) -> str | None:
    columns = layout.domain.columns
    if len(columns) == 1 and isinstance(columns[0], Grid) and len(columns[0].shape) == 2:
        return None
    return "one grid of two dimensions and nothing else"


def _fourier_estimate(noisy: Integers, k: int) -> Any:
    if noisy.size > fourier.largest_table:
        return fourier.estimate(noisy)
    return fourier.closest_table(noisy, np.ones(noisy.size, np.bool_))


def _laplace_law(layout: Layout, eps: Fraction, moves: int) -> DiscreteLaplace:
    return laplace.noise(eps, moves)


def _privelet2d_law(layout: Layout, eps: Fraction, moves: int) -> DiscreteLaplace:
    rows, columns = (len(places) for places in layout.pattern)
    return privelet2d.noise(rows, columns, eps, moves)


def _law(module: Any) -> Law:
    """The noise of a rival that asks only how many cells there are."""

    def law(layout: Layout, eps: Fraction, moves: int) -> DiscreteLaplace:
        noise: DiscreteLaplace = module.noise(layout.bits, eps, moves)
        return noise

    return law


def _strategy(
    name: str, title: str, module: Any, measure: Listing, *notes: str, fits: Any = None
) -> Strategy:
    return Strategy(
        name=name,
        title=title,
        noise=lambda layout, eps, unit: measure.law(layout, eps, counts_move(unit)),
        measure=measure,
        variance=lambda layout, eps, unit, height: float(
            module.block_variance(layout.bits, eps, height, counts_move(unit))
        ),
        largest_bits=module.largest.bit_length() - 1,
        why=module.why,
        fits=fits or (lambda layout: None),
        notes=(*notes, _CLAMPED),
    )


RIVALS = (
    _strategy(
        "laplace",
        "noise on every cell",
        laplace,
        Listing(lambda counts: counts, _laplace_law, lambda noisy, k: noisy),
    ),
    _strategy(
        "privelet",
        "noise on every wavelet coefficient",
        privelet,
        Listing(privelet.transform, _law(privelet), lambda noisy, k: privelet.estimate(noisy)),
    ),
    _strategy(
        "privelet2d",
        "noise on every wavelet coefficient of rows and columns",
        privelet2d,
        Listing(
            privelet2d.transform, _privelet2d_law, lambda noisy, k: privelet2d.estimate(noisy), square=True
        ),
        fits=_one_grid,
    ),
    _strategy(
        "hierarchy",
        "noise on every node of a binary tree, then least squares",
        hierarchy,
        Listing(hierarchy.transform, _law(hierarchy), hierarchy.estimate),
    ),
    _strategy(
        "fourier",
        "noise on every Fourier coefficient",
        fourier,
        Listing(fourier.transform, _law(fourier), _fourier_estimate),
        f"with more than {fourier.largest_table} cells its linear program is left out",
    ),
    _strategy(
        "matrix",
        "the measurements that are best for blocks, then least squares",
        matrix,
        Listing(matrix.transform, _law(matrix), matrix.estimate),
    ),
)
