"""The rivals as strategies: whole numbers, noise on each, estimates of all cells.

Estimates may be negative or fractions; they are published as the nearest whole number that is 0 or more. Only `threshold`
does without listing every cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import ClassVar

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Grid
from oboro.exact import about
from oboro.noise import Bits, DiscreteLaplace
from oboro.release import Part, part
from oboro.tables.cells import Cells, Layout
from oboro.tables.papers import fourier, hierarchy, laplace, matrix, privelet, privelet2d, threshold
from oboro.tables.papers.common import column_noise
from oboro.tables.strategy import Strategy, counts_move

Estimates = Floats | Integers
_CLAMPED = "negative estimates are published as 0, so that sums over areas with few people come out too high"


@dataclass(frozen=True, eq=False)
class Listing(Strategy):
    """Measures every cell of the domain, impossible ones too; these are then left out.

    Privacy
        What is measured is linear in the counts. One unit moves these by `counts_move(unit)` in all, and so what is
        measured by at most `column` times that: see `column_noise`, and `column` of each rival.
    """

    module: ClassVar[ModuleType]
    measured: ClassVar[str]  # what it is
    notes: ClassVar[tuple[str, ...]] = (_CLAMPED,)

    def __init_subclass__(cls) -> None:
        """How many cells a rival serves, and why no more, is its module's to say."""
        cls.largest_bits, cls.why = int(cls.module.largest).bit_length() - 1, cls.module.why

    @cached_property
    def column(self) -> int:
        """How far everything that is measured moves if one cell moves by 1."""
        return int(self.module.column(self.layout.bits))

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return column_noise(self.column, self.eps, counts_move(self.unit))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (part(self.noise, self.measured, moves=self.column * counts_move(self.unit)),)

    def transform(self, counts: Integers) -> Integers:
        """What is measured, from the counts of all cells in Morton order."""
        found: Integers = self.module.transform(counts)
        return found

    def estimate(self, noisy: Integers) -> Estimates:
        """All cells in Morton order."""
        found: Estimates = self.module.estimate(noisy)
        return found

    def estimates(self, cells: Cells, bits: Bits, trials: int) -> Iterator[Estimates]:
        """Estimates of all cells in Morton order, negative or fractions as they come."""
        answers = self.transform(cells.dense(self.layout.bits))
        for noisy in answers + self.noise.sample((trials, *answers.shape), bits):
            yield self.estimate(noisy)

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Cells]:
        possible = self.layout.all_possible()
        every = self.estimates(cells, bits, trials)
        return [Cells.from_dense(np.where(possible, np.maximum(np.rint(found), 0), 0)) for found in every]

    def variance(self, height: int) -> float:
        return float(self.module.block_variance(self.layout.bits, self.eps, height, counts_move(self.unit)))


def _table(row: Integers, layout: Layout) -> Integers:
    """Counts in Morton order as rows and columns."""
    table = np.empty([1 << len(places) for places in layout.pattern], row.dtype)
    table[tuple(layout.places(np.arange(row.size)))] = row
    return table


def _row(table: Estimates, layout: Layout) -> Estimates:
    """The same backwards."""
    return table[tuple(layout.places(np.arange(table.size)))]


class Laplace(Listing):
    name = "laplace"
    title = "noise on every cell"
    module: ClassVar[ModuleType] = laplace
    measured = "every cell"

    def transform(self, counts: Integers) -> Integers:
        return counts

    def estimate(self, noisy: Integers) -> Estimates:
        return noisy


class Privelet(Listing):
    name = "privelet"
    title = "noise on every wavelet coefficient"
    module: ClassVar[ModuleType] = privelet
    measured = "every wavelet coefficient"


class Privelet2D(Listing):
    name = "privelet2d"
    title = "noise on every wavelet coefficient of rows and columns"
    module: ClassVar[ModuleType] = privelet2d
    measured = "every wavelet coefficient of rows and columns"
    slowness = 4

    def needs(self) -> str | None:
        columns = self.layout.domain.columns
        if len(columns) == 1 and isinstance(columns[0], Grid) and len(columns[0].shape) == 2:
            return None
        return "one grid of two dimensions and nothing else"

    @cached_property
    def column(self) -> int:
        rows, columns = (len(places) for places in self.layout.pattern)
        return privelet2d.column(rows, columns)

    def transform(self, counts: Integers) -> Integers:
        return privelet2d.transform(_table(counts, self.layout))

    def estimate(self, noisy: Integers) -> Estimates:
        return _row(privelet2d.estimate(noisy), self.layout)


class Hierarchy(Listing):
    name = "hierarchy"
    title = "noise on every node of a binary tree, then least squares"
    module: ClassVar[ModuleType] = hierarchy
    measured = "every node of a binary tree"
    slowness = 10

    def estimate(self, noisy: Integers) -> Estimates:
        return hierarchy.estimate(noisy, self.layout.bits)


class Fourier(Listing):
    name = "fourier"
    title = "noise on every Fourier coefficient"
    module: ClassVar[ModuleType] = fourier
    measured = "every Fourier coefficient"
    slowness = 100
    notes = (f"with more than {fourier.largest_table} cells its linear program is left out", _CLAMPED)

    def estimate(self, noisy: Integers) -> Estimates:
        if noisy.size > fourier.largest_table:
            return fourier.estimate(noisy)
        return fourier.closest_table(noisy, np.ones(noisy.size, np.bool_))


class Matrix(Listing):
    name = "matrix"
    title = "the measurements that are best for blocks, then least squares"
    module: ClassVar[ModuleType] = matrix
    measured = "every measurement of the best for blocks"

    def estimate(self, noisy: Integers) -> Estimates:
        return matrix.estimate(noisy, self.layout.bits)


class Threshold(Strategy):
    """Noise on every cell; see papers/threshold.py for why the empty ones need not be listed."""

    name = "threshold"
    title = "noise on every cell, published from a threshold on"
    slowness = 50
    notes = ("cells below the threshold are left out, so that sums of many small cells come out too low",)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return threshold.noise(self.eps, counts_move(self.unit))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (part(self.noise, "every cell", moves=counts_move(self.unit)),)

    @cached_property
    def least(self) -> int:
        """The threshold: public."""
        return threshold.default_threshold(self.layout.cells, self.eps, counts_move(self.unit))

    def measure(self, cells: Cells, bits: Bits, trials: int = 1) -> list[Cells]:
        published = []
        for _ in range(trials):
            keys, counts = threshold.measure_sparse(
                cells.keys,
                cells.counts,
                1 << self.layout.bits,
                self.eps,
                bits,
                self.least,
                counts_move(self.unit),
            )
            possible = self.layout.possible(keys)
            published.append(Cells(keys[possible], counts[possible]))
        return published

    def variance(self, height: int) -> float:
        return self.noise.variance * 2.0**height

    def remarks(self, expected_total: int | None) -> list[str]:
        false = threshold.passing(self.least, self.eps, counts_move(self.unit)) * self.layout.cells
        return [
            f"cells are published from {self.least:,} on; about {about(false, 2)} of them will be empty in truth",
            *super().remarks(expected_total),
        ]


RIVALS: tuple[type[Strategy], ...] = (Laplace, Privelet, Privelet2D, Hierarchy, Fourier, Matrix, Threshold)
