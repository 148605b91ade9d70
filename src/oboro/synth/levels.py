"""Each column on its own: how it is counted, level by level, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Column
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace
from oboro.synth.codes import code_count
from oboro.synth.junction import Clique, Mask, Noisy

Noise = DiscreteGaussian | DiscreteLaplace

# Noisy counts of blocks of codes, split further where there is something to see.
#
# A column of up to 32 values, or of categories, is counted value by value. A longer one is cut into at most 16 blocks of
# equal width. Blocks whose noisy count stands out from the noise are cut again, and so on down to single values; the others are counted
# again. So a spike at 0 among a hundred thousand possible amounts is found, without a bin being chosen by hand; and where there is little
# to see, noise is on few blocks: of 121 ages counted one by one, those that nobody has would take records from the others.

STANDS_OUT = 4.0  # standard deviations of the noise
MOST_BLOCKS = (
    1 << 20
)  # of all columns at their last levels: else so many values could stand out that memory ends after payment


@dataclass(frozen=True, slots=True)
class Counting:
    """How columns are counted, and what that costs. Public facts alone."""

    parts: int  # a block is cut into at most so many; up to twice as many values are counted one by one
    again: bool  # whether blocks that are not cut are counted again at every further level
    least: float = 0.0  # a variance below it is taken for it when a law is fitted: else the steps follow the one table that is all but exact, and never the others

    def blocks(self, column: Column) -> int:
        """How many blocks its first level has."""
        depth = self._depth(column)
        return column.size if depth == 1 else math.ceil(column.size ** (1 / depth) - 1e-9)

    def shares(self, column: Column) -> list[Fraction]:
        """How a column's price is split between its levels: as 1 to 2 to 3; or half for the first, the rest evenly."""
        levels = self._depth(column)
        if self.again or levels == 1:
            return [Fraction(2 * place, levels * (levels + 1)) for place in range(1, levels + 1)]
        return [Fraction(1, 2)] + [Fraction(1, 2 * (levels - 1))] * (levels - 1)

    def weight(self, column: Column) -> int:
        """What a column costs beside the others.

        Of k cells, noise of standard deviation s moves about k s records; at prices in proportion to k^(2/3) the sum over columns is least.
        Of very many categories few hold anybody: cells beyond those that numbers can have count no more.
        """
        return round(100 * min(self.blocks(column), 2 * self.parts) ** (2 / 3)) if self.again else 1

    def noisy(self, columns: Clique, counts: Integers | Floats, variance: Floats, total: float) -> Noisy:
        """A table for the fit, as shares of all records."""
        return Noisy(columns, counts / total, total**2 / np.maximum(variance, self.least))

    def _depth(self, column: Column) -> int:
        if isinstance(column, Category) or column.size <= 2 * self.parts:
            return 1
        return math.ceil(math.log(column.size) / math.log(self.parts) - 1e-9)


COUNTINGS = 3  # so many ways there are: the last is that of new plans


def counting_of(number: int) -> Counting:
    """The way with this number; 1 is that of plans which do not say. A value of its own for each plan."""
    if number == 1:
        return Counting(64, again=False)
    return Counting(16, again=True, least=0.01 if number > 2 else 0.0)


@dataclass(frozen=True, slots=True)
class Level:
    """Blocks [start, stop) of codes that were counted together, and their noisy counts."""

    start: Integers
    stop: Integers
    count: Integers


def measure_column(
    codes: Integers,
    column: Column,
    parts: int,
    noises: Sequence[Noise],
    bits: Bits,
    *,
    again: bool,
    most: int,
) -> list[Level]:
    """Noisy counts, level by level; which blocks are cut, into so many, depends on noisy counts alone.

    The blocks of a level do not overlap: so those that were not cut are counted `again` at no further cost. No level after the
    first has more than `most`, of which each adds its part: where there is no room for all that stand out, those of the highest counts are cut.
    """
    size = column.size
    start, stop = _cut(np.array([0]), np.array([size]), np.array([parts]))
    if code_count(column) > size:  # missing is a block of its own
        start, stop = np.append(start, size), np.append(stop, size + 1)
    levels: list[Level] = []
    for place, noise in enumerate(noises, 1):
        levels.append(Level(start, stop, _counts(codes, start, stop) + noise.sample(start.size, bits)))
        if place == len(noises):
            break
        wide = (levels[-1].count >= STANDS_OUT * noise.sd) & (stop - start > 1)
        room = most * place // (len(noises) - 1) - start.size
        wide = _within(room, wide, levels[-1].count, np.minimum(parts, stop - start) - 1)
        if not (wide.any() or again):
            break
        kept = wide | again
        start, stop = _cut(start[kept], stop[kept], np.where(wide, parts, 1)[kept])
    return levels


def total_of(columns: Sequence[Sequence[Level]], noises: Sequence[Sequence[Noise]]) -> float:
    """How many records there are, from all first levels together: each sum weighs as the inverse of its variance."""
    sums = np.array([float(levels[0].count.sum()) for levels in columns])
    weights = np.array(
        [1 / (levels[0].count.size * noise[0].sd ** 2) for levels, noise in zip(columns, noises, strict=True)]
    )
    return max(1.0, float(sums @ weights / weights.sum()))


def _within(room: int, wide: Mask, count: Integers, more: Integers) -> Mask:
    """Those that may be cut: of the highest counts first, as long as the blocks that this adds have room."""
    if int(more[wide].sum()) <= room:
        return wide
    order = np.flatnonzero(wide)
    order = order[np.argsort(-count[order], kind="stable")]
    found = np.zeros(wide.size, np.bool_)
    found[order[np.cumsum(more[order]) <= room]] = True
    return found


def _cut(start: Integers, stop: Integers, parts: Integers) -> tuple[Integers, Integers]:
    """Each block cut into so many of all but equal width, exactly: w i // k is (w // k) i + (w % k) i // k, which does not overflow."""
    parts = np.minimum(parts, stop - start)
    block = np.repeat(np.arange(start.size), parts)
    place = np.arange(block.size) - np.repeat(np.cumsum(parts) - parts, parts)
    each, rest = np.divmod(stop - start, parts)

    def edge(at: Integers) -> Integers:
        return start[block] + each[block] * at + rest[block] * at // parts[block]

    return edge(place), edge(place + 1)


def _counts(codes: Integers, start: Integers, stop: Integers) -> Integers:
    block = np.searchsorted(start, codes, side="right") - 1
    inside = (block >= 0) & (codes < stop[block])
    return np.bincount(block[inside], minlength=start.size).astype(np.int64)
