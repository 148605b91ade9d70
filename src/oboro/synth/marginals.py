"""The default method: every column on its own, and a tree of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from oboro.arrays import Integers
from oboro.noise import Bits
from oboro.release import Forecast, register
from oboro.synth.junction import Clique
from oboro.synth.measured import Measured
from oboro.synth.plan import TablesPlan, choose_table, counts_of, describe_plan

MOST_BINS = 32
LEAST_IN_NOISE = 6  # a bin holds at least so many standard deviations of a pair's noise


@register
@dataclass(frozen=True)
class MarginalsPlan(TablesPlan):
    """Noisy counts of every column and of a tree of pairs of columns [after McKenna, Miklau, Sheldon 2021, MST].

    Privacy
        All steps look at the same rows, one after the other, each knowing what earlier ones gave out: their rho add up
        [Bun and Steinke 2016]. A table of counts moves by at most D in the 2-norm when one unit does, D^2 = m^2 for the at most
        m rows that a unit has (replace: 2 m^2, out of one cell and into another); discrete Gaussian noise of variance
        D^2/(2 rho) makes it rho-zCDP [Canonne, Kamath, Steinke 2020]. A column that is counted in several levels pays for each: the
        blocks of a level are disjoint, and which are cut follows from noisy counts. A pair is chosen by the exponential mechanism
        on a score that one unit moves by at most m (replace: 2m), with weights exp(eps score / (2 m)); this is eps^2/8-zCDP
        [Cesar and Rogers 2021]. Bins, law and records follow from what was given out, and cost nothing. If the promise is
        (eps, delta), rho is the largest whose conversion stays within it.

    >>> plan = ob.synth.plan(domain, unit=unit, rho="0.5")
    >>> [part.of for part in plan.parts]
    ['counts of age', 'counts of sex', 'counts of each chosen table', 'the choice of each table']
    """

    kind = "synth.marginals"
    shares = (Fraction(3, 10), Fraction(1, 10), Fraction(6, 10))

    @property
    def steps(self) -> int:
        """A tree has an edge less than it has columns."""
        return len(self.domain) - 1

    def forecast(self) -> Forecast:
        pair = [("count of a pair", self.noise.sd, self.noise.interval()[1])] if self.steps else []
        note = (
            "the noise alone: what a tree of pairs leaves out comes on top; oboro synth report measures both"
        )
        return self.forecast_with(pair, [note])

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        ones = self.ones
        levels = ones.measure(codes, bits)
        total = ones.total(levels)
        bins = ones.binned(levels, MOST_BINS, LEAST_IN_NOISE * self.noise.sd)
        sizes = [column.size for column in bins]
        places = [column.bins_of(codes[i]) for i, column in enumerate(bins)]
        alone = [column.mass / max(float(column.mass.sum()), 1.0) for column in bins]
        pairs: list[Clique] = list(combinations(range(len(sizes)), 2))
        true = {pair: counts_of(places, sizes, pair) for pair in pairs}
        guess = {pair: total * np.outer(alone[pair[0]], alone[pair[1]]) for pair in pairs}
        tree: list[Clique] = []
        part = list(range(len(sizes)))  # which part of the forest a column is in
        for _ in range(self.steps):
            open_pairs = [pair for pair in pairs if part[pair[0]] != part[pair[1]]]
            picked = open_pairs[
                choose_table(
                    [true[p] for p in open_pairs],
                    [guess[p] for p in open_pairs],
                    self.noise.sd,
                    self.unit,
                    self.choice_rho,
                    bits,
                )
            ]
            tree.append(picked)
            old, new = part[picked[1]], part[picked[0]]
            part = [new if mine == old else mine for mine in part]
        tables = tuple((pair, true[pair] + self.noise.sample(true[pair].shape, bits)) for pair in tree)
        return Measured(tuple(tuple(level) for level in levels), tuple(bins), tables)

    def describe(self) -> dict[str, object]:
        return describe_plan(self, "model for synthetic data, a tree of pairs", self.noise)
