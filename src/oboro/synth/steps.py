"""The steps that plans share: every column on its own, choosing a table by its error, measuring it, and fitting a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.domain import Domain
from oboro.noise import Bits, DiscreteGaussian
from oboro.noise.draws import exponential_mechanism
from oboro.privacy import Unit
from oboro.synth.binning import Binned, binned
from oboro.synth.budget import choice_eps, noise_for, summed_sensitivity
from oboro.synth.inference import Noisy
from oboro.synth.junction import Clique
from oboro.synth.oneway import Level, measure_column, shape_of, shares, total_of


@dataclass(frozen=True)
class Ones:
    """Every column on its own: each table of counts costs its share of rho, levels of one column together `rho` / d."""

    domain: Domain
    unit: Unit
    rho: Fraction
    n: int | None

    @cached_property
    def noises(self) -> list[list[DiscreteGaussian]]:
        each = self.rho / len(self.domain)
        return [[noise_for(self.unit, each * share) for share in shares(column)] for column in self.domain]

    def measure(self, codes: Integers, bits: Bits) -> list[list[Level]]:
        return [
            measure_column(codes[i], column, self.noises[i], bits) for i, column in enumerate(self.domain)
        ]

    def total(self, levels: Sequence[Sequence[Level]]) -> float:
        return float(self.n) if self.n is not None else total_of(levels, self.noises)

    def binned(self, levels: Sequence[Sequence[Level]], most: int, least: float) -> list[Binned]:
        """Shapes and bins, from noisy counts alone."""
        total = self.total(levels)
        return [
            binned(shape_of(levels[i], self.noises[i], column, total), column, most, least)
            for i, column in enumerate(self.domain)
        ]

    def tables(self, levels: Sequence[Sequence[Level]], bins: Sequence[Binned], total: float) -> list[Noisy]:
        """Each column's bins as a table for the fit; the variance of a bin is that of the blocks of the first level in it."""
        found = []
        for i, column in enumerate(bins):
            first, noise = levels[i][0], self.noises[i][0]
            blocks = np.bincount(column.bins_of(first.start), minlength=column.size)
            variance = np.maximum(blocks, 1) * noise.sd**2
            found.append(Noisy((i,), column.mass / total, total**2 / variance))
        return found


def counts_of(bins: Sequence[Integers], sizes: Sequence[int], columns: Clique) -> Integers:
    """True counts of the bins of these columns."""
    shape = [sizes[i] for i in columns]
    cell = np.ravel_multi_index([bins[i] for i in columns], shape)
    return np.bincount(cell, minlength=prod(shape)).reshape(shape).astype(np.int64)


def choose_table(
    true: Sequence[Integers], expected: Sequence[Floats], sd: float, unit: Unit, rho: Fraction, bits: Bits
) -> int:
    """The table that is expected worst, by the exponential mechanism: costs at most `rho`.

    The score of a table is the sum of |true - expected|, with the expected counts rounded to whole numbers, less what the
    noise itself would add to it. One unit moves the sum by at most `summed_sensitivity`; the rest is public.
    """
    scores = [
        int(np.abs(counts - np.rint(guess).astype(np.int64)).sum()) - round(0.8 * sd * counts.size)
        for counts, guess in zip(true, expected, strict=True)
    ]
    eta = choice_eps(rho) / (2 * summed_sensitivity(unit))
    return exponential_mechanism(-np.asarray(scores, np.int64), eta, bits=bits)


def noisy_table(columns: Clique, counts: Integers, noise: DiscreteGaussian, total: float) -> Noisy:
    """A measured table for the fit."""
    return Noisy(columns, counts / total, np.full(counts.shape, total**2 / noise.sd**2))
