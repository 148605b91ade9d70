"""Blocks of codes put together into few bins, so that tables of two or more columns stay small. From noisy counts alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Category, Column
from oboro.synth.oneway import Shape


@dataclass(frozen=True, slots=True)
class Binned:
    """A column's shape, and the bin that each of its blocks belongs to."""

    shape: Shape
    bin: Integers

    @property
    def size(self) -> int:
        return int(self.bin.max()) + 1

    @property
    def mass(self) -> Floats:
        """How many records each bin holds."""
        return np.bincount(self.bin, self.shape.mass, minlength=self.size).astype(np.float64)

    def bins_of(self, codes: Integers) -> Integers:
        return self.bin[self.shape.block_of(codes)]


def binned(shape: Shape, column: Column, most: int, least: float) -> Binned:
    """At most about `most` bins, each of at least `least` records where that can be.

    Categories keep their own bins; those too rare to tell anything share one. Numbers and dates are gathered from
    the lowest upwards until a bin is full; a value so frequent that it fills a bin has one for itself.
    """
    known = shape.start < column.size
    bins = np.zeros(shape.start.size, np.int64)
    if isinstance(column, Category):
        frequent = known & (shape.mass >= least)
        if np.count_nonzero(known & ~frequent) <= 1:
            frequent = known
        bins[frequent] = np.arange(np.count_nonzero(frequent))
        bins[known & ~frequent] = np.count_nonzero(frequent)
    else:
        bins[known] = _gathered(shape.mass[known], most, least)
    for block in np.flatnonzero(~known):  # missing: a bin of its own, unless nothing is there
        bins[block] = bins[known].max() + 1 if shape.mass[block] > 0 else bins[known].max()
    return Binned(shape, bins)


def _gathered(mass: Floats, most: int, least: float) -> Integers:
    """Blocks that fill a bin of equal shares by themselves are set apart; the rest share the bins that are left, as evenly."""
    alone = mass >= max(least, float(mass.sum()) / most)
    full = max(least, float(mass[~alone].sum()) / max(1, most - int(np.count_nonzero(alone))))
    groups: list[list[int]] = []
    held: list[float] = []
    for place, here in enumerate(mass.tolist()):
        if groups and not alone[place] and not alone[groups[-1][-1]] and held[-1] < full:
            groups[-1].append(place)
            held[-1] += here
        else:
            groups.append([place])
            held.append(here)
    bins = np.empty(mass.size, np.int64)
    number = -1
    for place, (group, here) in enumerate(zip(groups, held, strict=True)):
        number += place == 0 or here >= least / 2  # a few left over join the bin before them
        bins[group] = number
    return bins
