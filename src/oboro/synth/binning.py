"""Blocks of codes put together into few bins, so that tables of two or more columns stay small. From noisy counts alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oboro.domain import Category, Column
from oboro.synth.coding import Integers
from oboro.synth.oneway import Floats, Shape


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
        return np.bincount(self.bin, self.shape.mass, minlength=self.size)

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
        bins[known] = _gathered(shape.mass[known], max(least, float(shape.mass[known].sum()) / most))
    for block in np.flatnonzero(~known):  # missing: a bin of its own, unless nothing is there
        bins[block] = bins[known].max() + 1 if shape.mass[block] > 0 else bins[known].max()
    return Binned(shape, bins)


def _gathered(mass: Floats, full: float) -> Integers:
    bins = np.empty(mass.size, np.int64)
    number, filled = 0, 0.0
    for place, here in enumerate(mass.tolist()):
        if here >= full and filled > 0:
            number, filled = number + 1, 0.0
        bins[place] = number
        filled += here
        if filled >= full:
            number, filled = number + 1, 0.0
    if filled < full / 2 and number > 0 and filled < mass.sum() * 0.5:  # a last bin that is not full joins the one before
        bins[bins == number] = number - 1 if filled < full / 2 else number
    return bins
