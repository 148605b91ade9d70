"""Models of tables of counts: by default every column and a tree of pairs; for quality, tables that are chosen by their error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np

from oboro.arrays import Integers
from oboro.noise import Bits
from oboro.release import Forecast, register
from oboro.synth.junction import Clique, Noisy, fit, independent, joint_law, junction_tree
from oboro.synth.measured import Measured
from oboro.synth.plan import TablesPlan, choose_table, counts_of, describe_plan, noisy_table


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
    Privacy of eps alone
        One unit moves a table of counts by at most m in the 1-norm (replace: 2m, out of one cell and into another). Discrete Laplace noise of scale
        m/e (2m/e) makes each table e-DP [Ghosh, Roughgarden, Sundararajan 2009]. A pair is chosen by permute-and-flip on the same
        score, which one unit moves by at most D = m (2m) either way: with eta = e/(2 D) it is e-DP [McKenna, Sheldon 2020; noise/selection.py]. All e
        of all steps, each knowing what earlier ones gave out, add up to eps [Dwork, Rothblum, Vadhan 2010].

    >>> plan = ob.synth.plan(domain, unit=unit, rho="0.5")
    >>> [part.of for part in plan.parts]
    ['counts of age', 'counts of sex', 'counts of each chosen table', 'the choice of each table']
    """

    kind = "synth.marginals"
    shares = (Fraction(3, 10), Fraction(1, 10), Fraction(6, 10))
    most_bins, least_in_noise = 32, 6

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
        bins = ones.binned(levels, self.most_bins, self.least_in_noise * self.noise.sd)
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
                    self.choice_price,
                    bits,
                    chance=True,  # else, the less noise, the more a pair of many cells is chosen for its chance
                )
            ]
            tree.append(picked)
            old, new = part[picked[1]], part[picked[0]]
            part = [new if mine == old else mine for mine in part]
        tables = tuple((pair, true[pair] + self.noise.sample(true[pair].shape, bits)) for pair in tree)
        return Measured(tuple(tuple(level) for level in levels), tuple(bins), tables)

    def describe(self) -> dict[str, object]:
        return describe_plan(self, "model for synthetic data, a tree of pairs", self.noise)


# The method for quality: table after table, each chosen because the model so far gets it most wrong.

ROUNDS = Fraction(3, 2)  # for each column
LARGEST_TREE = 300_000  # cells of all cliques; what a fit of a few seconds can bear


@register
@dataclass(frozen=True)
class QualityPlan(TablesPlan):
    """Noisy counts of every column, then of tables of two or three columns, each chosen by its error [after McKenna et al. 2022, AIM].

    Privacy
        As for the tree of pairs: rho adds up over the steps [Bun and Steinke 2016]; a table of counts under discrete Gaussian
        noise of variance D^2/(2 rho) costs rho, D^2 = m^2 for the at most m rows of a unit, 2 m^2 under replace; a
        choice by the exponential mechanism costs eps^2/8 [Cesar and Rogers 2021], for a score that one unit moves by at most m
        (replace: 2m). The number of rounds and what each may cost are fixed beforehand by the number of columns. What the model expects, and
        which tables are offered, follows from noisy counts given out earlier. A promise of eps alone is kept as there: discrete Laplace
        noise of scale m/e (replace: 2m/e) and permute-and-flip, whose e add up to eps over the same fixed number of rounds.

    >>> plan = ob.synth.plan(domain, unit=unit, rho="0.5", method="quality")
    >>> plan.guarantee.covers(plan.cost), [part.of for part in plan.parts]
    (True, ['counts of age', 'counts of sex', 'counts of each chosen table', 'the choice of each table'])
    """

    kind = "synth.quality"
    shares = (Fraction(1, 10), Fraction(1, 10), Fraction(8, 10))
    most_bins, least_in_noise = 16, 4

    @property
    def steps(self) -> int:
        return int(ROUNDS * len(self.domain)) if len(self.domain) > 2 else len(self.domain) - 1

    def forecast(self) -> Forecast:
        table = [("count of a chosen table", self.noise.sd, self.noise.interval()[1])] if self.steps else []
        note = f"{self.steps} tables of two or three columns will be chosen; oboro synth report measures what comes of it"
        return self.forecast_with(table, [note])

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        ones = self.ones
        levels = ones.measure(codes, bits)
        total = ones.total(levels)
        bins = ones.binned(levels, self.most_bins, self.least_in_noise * self.noise.sd)
        sizes = [column.size for column in bins]
        places = [column.bins_of(codes[i]) for i, column in enumerate(bins)]
        offered = _offered(sizes, self.noise.sd, total)
        true = {columns: counts_of(places, sizes, columns) for columns in offered}
        known = ones.tables(levels, bins, total)
        law = independent([column.mass / total for column in bins])
        tables: list[tuple[Clique, Integers]] = []
        for turn in range(self.steps):
            if turn:
                law = fit(sizes, known, steps=60, start=law)
            laws = law.marginals()
            fitting = _fitting(offered, sizes, known) or offered[:1]
            guess = [total * joint_law(law, laws, columns) for columns in fitting]
            index = choose_table(
                [true[c] for c in fitting], guess, self.noise.sd, self.unit, self.choice_price, bits
            )
            columns = fitting[index]
            counts = true[columns] + self.noise.sample(true[columns].shape, bits)
            tables.append((columns, counts))
            known.append(noisy_table(columns, counts, self.noise, total))
        return Measured(tuple(tuple(level) for level in levels), tuple(bins), tuple(tables))

    def describe(self) -> dict[str, object]:
        return describe_plan(self, "model for synthetic data, tables chosen by their error", self.noise)


def _offered(sizes: Sequence[int], sd: float, total: float) -> list[Clique]:
    """All pairs, and the triples whose noise does not drown their counts."""
    places = range(len(sizes))
    triples = [c for c in combinations(places, 3) if 0.8 * sd * prod(sizes[i] for i in c) <= total]
    return [*combinations(places, 2), *triples]


def _fitting(offered: Sequence[Clique], sizes: Sequence[int], known: Sequence[Noisy]) -> list[Clique]:
    """The tables that keep the junction tree within its limit."""
    had = [table.columns for table in known]
    return [columns for columns in offered if junction_tree(sizes, [*had, columns]).size <= LARGEST_TREE]
