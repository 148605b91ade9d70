"""The method for quality: table after table, each chosen because the model so far gets it most wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

from oboro.arrays import Integers
from oboro.noise import Bits
from oboro.release import Forecast, register
from oboro.synth.junction import Clique, Noisy, fit, independent, joint_law, junction_tree
from oboro.synth.measured import Measured
from oboro.synth.plan import TablesPlan, choose_table, counts_of, describe_plan, noisy_table

MOST_BINS = 16
LEAST_IN_NOISE = 4  # a bin holds at least so many standard deviations of a table's noise
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
        which tables are offered, follows from noisy counts given out earlier.

    >>> plan = ob.synth.plan(domain, unit=unit, rho="0.5", method="quality")
    >>> plan.guarantee.covers(plan.cost), [part.of for part in plan.parts]
    (True, ['counts of age', 'counts of sex', 'counts of each chosen table', 'the choice of each table'])
    """

    kind = "synth.quality"
    shares = (Fraction(1, 10), Fraction(1, 10), Fraction(8, 10))

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
        bins = ones.binned(levels, MOST_BINS, LEAST_IN_NOISE * self.noise.sd)
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
                [true[c] for c in fitting], guess, self.noise.sd, self.unit, self.choice_rho, bits
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
