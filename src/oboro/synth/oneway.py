"""Each column on its own: noisy counts of blocks of codes, split further where there is something to see.

A column of up to 128 values, or of categories, is counted value by value. A longer one is cut into at most 64 blocks of
equal width. Blocks whose noisy count stands out from the noise are cut again, and so on down to single values. So a spike at 0
among a hundred thousand possible amounts is found, without a bin being chosen by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Column
from oboro.noise import Bits, DiscreteGaussian
from oboro.synth.coding import code_count

ALL_VALUES = 128  # up to so many values are counted one by one
MOST_PARTS = 64  # a block is cut into at most so many
STANDS_OUT = 4.0  # standard deviations of the noise


@dataclass(frozen=True, slots=True)
class Level:
    """Blocks [start, stop) of codes that were counted together, and their noisy counts."""

    start: Integers
    stop: Integers
    count: Integers


@dataclass(frozen=True, slots=True)
class Shape:
    """What is believed of one column: disjoint blocks of codes that cover it, and how many records lie in each.

    `values` is the number of its values: a block that begins there holds what is missing.
    """

    start: Integers
    stop: Integers
    mass: Floats
    values: int

    def block_of(self, codes: Integers) -> Integers:
        return np.searchsorted(self.start, codes, side="right") - 1


def shares(column: Column) -> list[Fraction]:
    """How a column's rho is split between its levels: half for the first, the rest evenly."""
    levels = _depth(column)
    return [Fraction(1)] if levels == 1 else [Fraction(1, 2)] + [Fraction(1, 2 * (levels - 1))] * (levels - 1)


def measure_column(
    codes: Integers, column: Column, noises: Sequence[DiscreteGaussian], bits: Bits
) -> list[Level]:
    """Noisy counts, level by level; which blocks are cut depends on noisy counts alone."""
    size, parts = column.size, _parts(column)
    edges = _cut(0, size, parts)
    start, stop = edges[:-1], edges[1:]
    if code_count(column) > size:  # missing is a block of its own
        start, stop = np.append(start, size), np.append(stop, size + 1)
    levels: list[Level] = []
    for noise in noises:
        levels.append(Level(start, stop, _counts(codes, start, stop) + noise.sample(start.size, bits)))
        wide = (levels[-1].count >= STANDS_OUT * noise.sd) & (stop - start > 1)
        if not wide.any():
            break
        cuts = [_cut(int(a), int(b), parts) for a, b in zip(start[wide], stop[wide], strict=True)]
        start, stop = np.concatenate([cut[:-1] for cut in cuts]), np.concatenate([cut[1:] for cut in cuts])
    return levels


def total_of(columns: Sequence[Sequence[Level]], noises: Sequence[Sequence[DiscreteGaussian]]) -> float:
    """How many records there are, from all first levels together: each sum weighs as the inverse of its variance."""
    sums = np.array([float(levels[0].count.sum()) for levels in columns])
    weights = np.array(
        [1 / (levels[0].count.size * noise[0].sd ** 2) for levels, noise in zip(columns, noises, strict=True)]
    )
    return max(1.0, float(sums @ weights / weights.sum()))


def shape_of(
    levels: Sequence[Level], noises: Sequence[DiscreteGaussian], column: Column, total: float
) -> Shape:
    """The levels made one: counts that are not negative, add up to the total, and agree with one another."""
    first = levels[0]
    seen = first.count.astype(float)
    missing = first.start >= column.size
    seen[missing & (seen < STANDS_OUT * noises[0].sd)] = 0.0  # nulls that the noise alone could have made
    mass = on_simplex(seen, total)
    if not seen[missing].any() and missing.any():
        mass = np.where(missing, 0.0, on_simplex(np.where(missing, -np.inf, seen), total))
    shape = Shape(first.start, first.stop, mass, column.size)
    for level, noise in zip(levels[1:], noises[1:], strict=False):
        shape = _refined(shape, level, noise.sd)
    return shape


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest point with no negative part that adds up to the total."""
    order = np.sort(values)[::-1]
    excess = np.cumsum(np.where(np.isfinite(order), order, 0.0)) - total
    ranks = np.arange(1, order.size + 1)
    keep = max(1, int(np.count_nonzero(order - excess / ranks > 0)))
    return np.asarray(np.maximum(values - excess[keep - 1] / keep, 0.0))


def _refined(shape: Shape, level: Level, sd: float) -> Shape:
    """Each block that was cut is replaced by its parts.

    Their counts are drawn towards an even split by as much as the noise explains their differences [James and Stein 1961].
    """
    parent = shape.block_of(level.start)
    start, stop, mass = [], [], []
    kept = np.ones(shape.start.size, bool)
    kept[parent] = False
    for block in np.unique(parent):
        inside = parent == block
        width = (level.stop[inside] - level.start[inside]).astype(float)
        even = shape.mass[block] * width / width.sum()
        away = level.count[inside] - even
        away -= away.mean()
        signal = float(away @ away)
        trust = max(0.0, 1 - max(away.size - 3, 0) * sd**2 / signal) if signal > 0 else 0.0
        start.append(level.start[inside])
        stop.append(level.stop[inside])
        mass.append(on_simplex(even + trust * away, float(shape.mass[block])))
    starts = np.concatenate([shape.start[kept], *start])
    order = np.argsort(starts)
    return Shape(
        starts[order],
        np.concatenate([shape.stop[kept], *stop])[order],
        np.concatenate([shape.mass[kept], *mass])[order],
        shape.values,
    )


def _depth(column: Column) -> int:
    if isinstance(column, Category) or column.size <= ALL_VALUES:
        return 1
    return math.ceil(math.log(column.size) / math.log(MOST_PARTS) - 1e-9)


def _parts(column: Column) -> int:
    depth = _depth(column)
    return column.size if depth == 1 else math.ceil(column.size ** (1 / depth) - 1e-9)


def _cut(start: int, stop: int, parts: int) -> Integers:
    """Edges of so many blocks of all but equal width, exactly."""
    parts = min(parts, stop - start)
    return np.array([start + (stop - start) * i // parts for i in range(parts + 1)], np.int64)


def _counts(codes: Integers, start: Integers, stop: Integers) -> Integers:
    block = np.searchsorted(start, codes, side="right") - 1
    inside = (block >= 0) & (codes < stop[block])
    return np.bincount(block[inside], minlength=start.size).astype(np.int64)
