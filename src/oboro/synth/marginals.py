"""Models of tables of counts: by default tables that are chosen by their error; for the quick one, a tree of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, prod

import numpy as np

from oboro.arrays import Integers
from oboro.errors import ParameterError, told
from oboro.exact import show, whole
from oboro.noise import Bits
from oboro.progress import progress
from oboro.release import Forecast, register
from oboro.synth.junction import (
    Clique,
    Junction,
    Law,
    fit,
    independent,
    joint_law,
    junction_tree,
    size_of_tree,
)
from oboro.synth.measured import Measured
from oboro.synth.plan import (
    FIT_STEPS,
    TablesPlan,
    choose,
    choose_table,
    counts_of,
    describe_plan,
    score_of,
)
from oboro.synth.rules import most_bins_in, zeros_of

LARGEST_TREE = 10**6  # cells of all pairs together
LARGEST_TIED = 300_000  # cells, where rules tie columns of a tree together


@register
@dataclass(frozen=True)
class MarginalsPlan(TablesPlan):
    """Noisy counts of every column and of a tree of pairs of columns [after McKenna, Miklau, Sheldon 2021, MST].

    Privacy
        All steps look at the same rows, one after the other, each knowing what earlier ones gave out: their rho add up
        [Bun and Steinke 2016]. A table of counts moves by at most D in the 2-norm when one unit does, D^2 = m^2 for the at most
        m rows that a unit has (replace: 2 m^2, out of one cell and into another); discrete Gaussian noise of variance
        D^2/(2 rho) makes it rho-zCDP [Canonne, Kamath, Steinke 2020]. A column that is counted in several levels pays for each: the
        blocks of a level are disjoint, and which are cut, or counted again as they are, follows from noisy counts. What each column
        costs of the columns' share follows from the domain. A pair is chosen by the exponential mechanism
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
    ['counts of age', 'counts of age', 'counts of sex', 'counts of each chosen table', 'the choice of each table']
    """

    kind = "synth.marginals"
    shares = (Fraction(3, 10), Fraction(1, 10), Fraction(6, 10))
    most_bins, least_in_noise = 32, 6

    @property
    def steps(self) -> int:
        """A tree has an edge less than it has columns."""
        return len(self.learned) - 1

    @property
    def categories(self) -> int:
        """So few that a pair of such columns is a share of the largest tree."""
        return math.isqrt(LARGEST_TREE // max(self.steps, 1)) - 1

    def forecast(self) -> Forecast:
        pair = [("count of a pair", self.noise.sd, self.noise.interval()[1])] if self.steps else []
        note = (
            "the noise alone: what a tree of pairs leaves out comes on top; oboro synth report measures both"
        )
        return self.forecast_with(pair, [*self.carried(2), note])

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        ones = self.ones
        levels = ones.measure(codes, bits)
        total = ones.total(levels)
        bins = ones.binned(levels, self.most_bins, self.categories, self.least_in_noise * self.noise.sd)
        sizes = [column.size for column in bins]
        places = [column.bins_of(codes[i]) for i, column in enumerate(bins)]
        alone = [column.mass / max(float(column.mass.sum()), 1.0) for column in bins]
        scores: dict[Clique, int] = {}  # of pairs; one that known totals make too large is left out
        for pair in combinations(range(len(sizes)), 2):
            if sizes[pair[0]] * sizes[pair[1]] <= LARGEST_TREE:
                guess = total * np.outer(alone[pair[0]], alone[pair[1]])
                # less what chance adds: else, the less noise, the more a pair of many cells is chosen for it
                scores[pair] = score_of(counts_of(places, sizes, pair), guess, self.noise.sd, chance=True)
        tree: list[Clique] = []
        zeros = zeros_of(self.learned, bins)
        part = list(range(len(sizes)))  # which part of the forest a column is in
        for _ in range(self.steps):
            open_pairs = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
            if zeros:  # what is impossible ties columns together, too
                open_pairs = within_limit(
                    open_pairs, sizes, [*tree, *(one.columns for one in zeros)], LARGEST_TIED
                )
            if not open_pairs:
                break
            index = choose([scores[pair] for pair in open_pairs], self.unit, self.choice_price, bits)
            picked = open_pairs[index]
            tree.append(picked)
            old, new = part[picked[1]], part[picked[0]]
            part = [new if mine == old else mine for mine in part]
        true = [counts_of(places, sizes, pair) for pair in tree]
        tables = [
            (pair, counts + self.noise.sample(counts.shape, bits))
            for pair, counts in zip(tree, true, strict=True)
        ]
        return Measured(tuple(tuple(level) for level in levels), tuple(bins), tuple(tables))

    def describe(self) -> dict[str, object]:
        return describe_plan(self, "model for synthetic data, a tree of pairs", self.noise)


# The method for quality: table after table, each chosen because the model so far gets it most wrong.
#
# How much work that may be is set by public facts, the seconds of the plan and its columns, before data is read: how large a model
# may become, and which tables are offered. No clock is looked at, so how fast a machine is, or how busy, decides nothing that is given out.

ROUNDS = Fraction(3, 2)  # for each column
SECONDS = 60
MOST_SECONDS = 3600
SINGLE = Fraction(3, 10)  # of the budget: every column by itself, in the quality method
ROUND_STEPS = 60  # of the fit after each table
_VISITS = 10**7  # of a cell, in a second of one core
_OFFERS = (
    10**3
)  # tables that are compared with the model, in a second of one core, at the least: so that there is time for all triples
_COMPARED = 4 * 10**3  # as many are, about
_COUNTED = 150 * 10**6  # rows that are counted into one table, in a second of one core
_KEPT = 1 << 24  # cells of true counts that are kept from one round to the next
DROWNED = 0.8  # of the noise's standard deviation: what noise adds to a cell on average; a table that holds fewer records for each cell tells nothing
CLEAR = 2  # standard deviations of the noise: what a cell of two columns of numbers is to hold on average
_FEWEST = 6  # bins of numbers or dates, however little is to be had
LEAST_CELLS = 5_000  # of a model, in however few seconds: so that any pair fits


@register
@dataclass(frozen=True)
class QualityPlan(TablesPlan):
    """Noisy counts of every column, then of tables of up to three columns, each chosen by its error [after McKenna et al. 2022, AIM].

    Privacy
        As for the tree of pairs: rho adds up over the steps [Bun and Steinke 2016]; a table of counts under discrete Gaussian
        noise of variance D^2/(2 rho) costs rho, D^2 = m^2 for the at most m rows of a unit, 2 m^2 under replace; a
        choice by the exponential mechanism costs eps^2/8 [Cesar and Rogers 2021], for a score that one unit moves by at most m
        (replace: 2m). The number of rounds and what each may cost are fixed beforehand by the number of columns; a column that is chosen to be counted again is a table like any other. What the model expects, and
        which tables are offered, follows from noisy counts given out earlier and from `seconds`, which is a fact of the plan: it says how many
        cells the model may have, at so many visits of a cell in a second, and no clock is read. So what is given out does not depend on how long anything took.
        A promise of eps alone is kept as there: discrete Laplace noise of scale m/e (replace: 2m/e) and permute-and-flip, whose e add up to eps over the same fixed number of rounds.

    >>> plan = ob.synth.plan(domain, unit=unit, rho="0.5", method="quality")
    >>> plan.guarantee.covers(plan.cost), [part.of for part in plan.parts]
    (True, ['counts of age', 'counts of age', 'counts of sex', 'counts of each chosen table', 'the choice of each table'])
    """

    seconds: int = SECONDS
    single: Fraction = Fraction(
        1, 10
    )  # the share of the columns by themselves; earlier plans do not say theirs
    kind = "synth.quality"
    least_in_noise = 4

    @property
    def most_bins(self) -> int:  # type: ignore[override]
        """What is impossible ties columns together: with fewer bins more of them can be."""
        return 16 if self.domain.rules.impossible else 24

    def bins_for(self, total: float) -> int:
        """So few that the cells of two such columns stand out from the noise on average."""
        return min(self.most_bins, max(_FEWEST, math.isqrt(int(total / (CLEAR * self.noise.sd)))))

    @property
    def steps(self) -> int:
        return int(ROUNDS * len(self.learned)) if len(self.learned) > 2 else len(self.learned) - 1

    def forecast(self) -> Forecast:
        table = [("count of a chosen table", self.noise.sd, self.noise.interval()[1])] if self.steps else []
        note = (
            f"{self.steps} tables of up to three columns will be chosen, and all else follows from them; oboro synth report measures what comes of it"
            if self.steps > 1
            else "one table of up to three columns will be chosen; oboro synth report measures what comes of it"
        )
        least, most, for_rows = self.usual_seconds, self.expected_seconds, self.counting_seconds(10**6)
        time = f"up to about {most} seconds of one core"
        if least < most:
            time = f"from about {least} {time}, the more the larger the model becomes"
        if self.n is None and for_rows >= 0.5:
            time += f", and about {math.ceil(for_rows)} more for each million rows"
        time = f"learning and fitting take {time}; reading the data comes on top"
        if not self.steps:
            note = "there is one column, and no table of several to choose; oboro synth report measures what comes of it"
        return self.forecast_with(table, [*self.carried(3), note, time] if self.steps else [note])

    @property
    def shares(self) -> tuple[Fraction, ...]:  # type: ignore[override]
        return self.single, Fraction(1, 10), Fraction(9, 10) - self.single

    def check(self) -> None:
        super().check()
        whole("seconds", self.seconds, least=1, most=MOST_SECONDS)
        if not 0 < self.single < Fraction(9, 10):
            raise ParameterError(
                "the columns by themselves take no such share of the budget",
                given=told(single=show(self.single)),
                needed="more than 0, and less than 9/10",
            )

    @property
    def largest(self) -> int:
        """How many cells the model may have, so that all fits together visit as many as there is time for; a step is tried twice or so."""
        return max(LEAST_CELLS, self._in_time)

    @property
    def _in_time(self) -> int:
        return self.seconds * _VISITS // (2 * (ROUND_STEPS * self.steps + FIT_STEPS))

    @property
    def categories(self) -> int:
        """So few that four pairs of such columns, and the others by themselves, are within the limit: 4 x^2 + d x <= largest."""
        d = len(self.learned)
        return (math.isqrt(d * d + 16 * self.largest) - d) // 8 - 1

    def counting_seconds(self, rows: int) -> float:
        """About how long it takes to count so many rows into every table that is offered, each once."""
        d = len(self.learned)
        return (comb(d, 2) + (comb(d, 3) if self.all_triples else 0)) * rows / _COUNTED

    @property
    def usual_seconds(self) -> int:
        """About how long it takes while the model stays small: in every round all tables that are offered are compared with it. Public."""
        d = len(self.learned)
        offered = comb(d, 2) + (comb(d, 3) if self.all_triples else 0)
        return math.ceil(self.steps * offered / _COMPARED) + math.floor(self.counting_seconds(self.n or 0))

    @property
    def expected_seconds(self) -> int:
        """At most about: for a model as large as these columns and the seconds allow, and for the rows if their number is public. Public, as all of a forecast."""
        d, steps = len(self.learned), ROUND_STEPS * self.steps + FIT_STEPS
        widest = most_bins_in(self.domain, self.most_bins, self.categories)
        cells = max(min(prod(widest), self.largest), 2 * sum(widest), self.tied_cells)  # as rules make it
        counting = math.floor(self.counting_seconds(self.n or 0))
        comparing, fitting = self.usual_seconds - counting, 2 * cells * steps / _VISITS
        if (
            cells <= self._in_time
        ):  # what is not, is what rules tie together, or a pair of columns in very few seconds
            fitting = min(self.seconds, comparing + fitting + d * steps * 1e-4)
        return counting + max(2, comparing, math.ceil(fitting))

    @property
    def all_triples(self) -> bool:
        """Whether there is time to offer every triple in every round; else those of which two pairs were measured."""
        d = len(self.learned)
        tables = comb(d, 2) + comb(d, 3)
        return self.steps * tables / _OFFERS + tables * (self.n or 0) / _COUNTED <= self.seconds

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        ones, sd = self.ones, self.noise.sd
        levels = ones.measure(codes, bits)
        total = ones.total(levels)
        most, least = self.bins_for(total), self.least_in_noise * sd
        bins = ones.binned(levels, most, self.categories, least)
        fewer = most_for([column.size for column in bins], self.largest)
        if fewer is not None:
            bins = ones.binned(levels, min(most, fewer), min(self.categories, fewer), least)
        sizes = [column.size for column in bins]
        places = [column.bins_of(codes[i]) for i, column in enumerate(bins)]
        offers = Offers(sizes, sd, total, self.largest, all_triples=self.all_triples)
        true = Counted(places, sizes)
        known = ones.tables(levels, bins, total)
        law: Law | None = None
        tables: list[tuple[Clique, Integers]] = []
        zeros = zeros_of(self.learned, bins)
        tied = [one.columns for one in zeros]
        for turn in range(self.steps):
            progress("choosing tables", turn / self.steps)
            fitting = offers.fitting([columns for columns, _ in tables], tied)
            if not fitting:
                break
            index = 0  # of one alone there is nothing to choose: what the model expects of it is not asked
            if len(fitting) > 1:
                law = law or independent([column.mass / total for column in bins])
                if turn or zeros:
                    law = fit(sizes, known, steps=ROUND_STEPS, start=law, zeros=zeros)
                laws = law.marginals()
                index = choose_table(
                    (true[columns] for columns in fitting),  # one after the other: never all of them at once
                    (total * joint_law(law, laws, columns) for columns in fitting),
                    sd,
                    self.unit,
                    self.choice_price,
                    bits,
                    chance=True,
                )
            columns = fitting[index]
            counts = true[columns]
            counts = counts + self.noise.sample(counts.shape, bits)
            tables.append((columns, counts))
            known.append(self.noisy(columns, counts, total))
        return Measured(tuple(tuple(level) for level in levels), tuple(bins), tuple(tables))

    def describe(self) -> dict[str, object]:
        return describe_plan(self, "model for synthetic data, tables chosen by their error", self.noise)


def most_for(sizes: Sequence[int], largest: int) -> int | None:
    """How many bins a column may have, so that the model has room for a pair of every column with another; None where it has.

    The less noise, the more bins stand out from it: where seconds are few for so many columns, more budget would leave most columns without any pair.
    """
    every = np.asarray(sizes)

    def fits(most: int) -> bool:
        return (every.size - 1) * float(np.minimum(every, most).mean()) ** 2 <= largest

    if fits(int(every.max())):
        return None
    return max((most for most in range(_FEWEST, int(every.max())) if fits(most)), default=_FEWEST)


class Counted(dict[Clique, Integers]):
    """True counts of tables, each counted when it is first asked for, and kept while there is room."""

    def __init__(self, places: Sequence[Integers], sizes: Sequence[int]) -> None:
        self.places, self.sizes, self.room = places, sizes, _KEPT

    def __missing__(self, columns: Clique) -> Integers:
        counts = counts_of(self.places, self.sizes, columns)
        if counts.size <= self.room:
            self.room -= counts.size
            self[columns] = counts
        return counts


@dataclass(frozen=True)
class Offers:
    """Which tables may be chosen: columns once more, all pairs, and triples whose noise does not drown their counts. From noisy counts alone.

    Where the budget is so small that no pair tells more than its noise hides, it is best spent on what is left wrong with single columns.
    """

    sizes: Sequence[int]
    sd: float
    total: float
    largest: int  # cells of the model
    all_triples: bool

    @cached_property
    def small(self) -> list[Clique]:
        """Of two columns the one step that there is tells how they go together."""
        places = range(len(self.sizes))
        return [*((i,) for i in places if len(self.sizes) > 2), *combinations(places, 2)]

    @cached_property
    def triples(self) -> list[Clique]:
        """In order of their columns."""
        return [columns for columns in combinations(range(len(self.sizes)), 3) if self._tells(columns)]

    def _tells(self, columns: Clique) -> bool:
        return DROWNED * self.sd * prod(self.sizes[i] for i in columns) <= self.total

    def _linked(self, had: Sequence[Clique]) -> list[Clique]:
        """Triples of which two pairs were measured."""
        near: dict[int, set[int]] = {}
        for columns in had:
            for a, b in combinations(columns, 2):
                near.setdefault(a, set()).add(b)
                near.setdefault(b, set()).add(a)
        found = {tuple(sorted((i, a, b))) for i, others in near.items() for a, b in combinations(others, 2)}
        return [columns for columns in sorted(found) if self._tells(columns)]

    def fitting(self, had: Sequence[Clique], tied: Sequence[Clique] = ()) -> list[Clique]:
        """The tables that keep the model within its limit, given those that it has.

        Where rules tie columns together, the model may be as large as that makes it, and no table makes it larger.
        """
        offered = [*self.small, *(self.triples if self.all_triples else self._linked(had))]
        held = [*had, *tied]
        now = junction_tree(self.sizes, held)
        most = max(self.largest, 2 * sum(self.sizes), now.size if tied else 0)
        return [columns for columns in offered if self._fits(now, held, columns, most)]

    def _fits(self, now: Junction, had: Sequence[Clique], columns: Clique, most: int) -> bool:
        """Far from the limit a bound is enough, which is also what it takes to say what the model expects; near it the tree is made."""
        cells = now.size_with(columns)
        if not most < 2 * cells <= 16 * most:
            return 2 * cells <= most
        return size_of_tree(self.sizes, [*had, columns]) <= most


def within_limit(
    offered: Sequence[Clique], sizes: Sequence[int], had: Sequence[Clique], largest: int
) -> list[Clique]:
    """The tables with which a model has no more cells than the largest, or than it has already."""
    most = max(largest, size_of_tree(sizes, had))
    return [columns for columns in offered if size_of_tree(sizes, [*had, columns]) <= most]
