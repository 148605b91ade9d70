"""The default method: every column on its own, and a tree of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from oboro.domain import Domain
from oboro.noise import Bits, DiscreteGaussian
from oboro.privacy import Guarantee, Unit, guarantee_from, unit_from
from oboro.release import Forecast, Pair, register
from oboro.synth.budget import noise_for, rho_within
from oboro.synth.coding import Integers, read_codes
from oboro.synth.inference import Law, fit
from oboro.synth.junction import Clique
from oboro.synth.measured import Measured, to_rows
from oboro.synth.planning import checked, describe_plan, neighbours_of, repeated
from oboro.synth.steps import Ones, choose_table, counts_of, noisy_table

MOST_BINS = 32
LEAST_IN_NOISE = 6  # a bin holds at least so many standard deviations of a pair's noise
SHARES = (Fraction(3, 10), Fraction(1, 10), Fraction(6, 10))  # each column, choosing the pairs, the pairs


@register
@dataclass(frozen=True, slots=True)
class MarginalsPlan:
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
    """

    domain: Domain
    unit: Unit
    guarantee: Guarantee
    n: int | None = None
    kind = "synth.marginals"

    @property
    def rho(self) -> Fraction:
        return rho_within(self.guarantee)

    @property
    def edges(self) -> int:
        return len(self.domain) - 1

    @property
    def ones(self) -> Ones:
        share = SHARES[0] if self.edges else Fraction(1)
        return Ones(self.domain, self.unit, self.rho * share, self.n)

    @property
    def choice_rho(self) -> Fraction:
        """What choosing one pair costs."""
        return self.rho * SHARES[1] / self.edges

    @property
    def noise(self) -> DiscreteGaussian:
        """The noise of each pair; of the columns themselves where there is but one."""
        if not self.edges:
            return self.ones.noises[0][0]
        return noise_for(self.unit, self.rho * SHARES[2] / self.edges)

    def spent(self) -> Fraction:
        """What all steps cost together, by exact sums of what their noise and choices cost."""
        from oboro.synth.budget import choice_eps, squared_sensitivity

        moved = squared_sensitivity(self.unit)
        tables = [noise for noises in self.ones.noises for noise in noises] + [self.noise] * self.edges
        choices = self.edges * choice_eps(self.choice_rho) ** 2 / 8 if self.edges else Fraction(0)
        return sum((Fraction(moved) / (2 * noise.sigma2) for noise in tables), Fraction(0)) + choices

    def forecast(self) -> Forecast:
        rows = [
            (f"count of {column.name}", noise[0].sd, noise[0].interval()[1])
            for column, noise in zip(self.domain, self.ones.noises, strict=True)
        ]
        if self.edges:
            rows.append(("count of a pair", self.noise.sd, self.noise.interval()[1]))
        return Forecast(
            "expected error of each count that the model is made of",
            ("of each", "standard error", "95% within ±"),
            tuple(rows),
            (
                "the noise alone: what a tree of pairs leaves out comes on top; oboro synth report measures both",
            ),
        )

    def prepare(self, data: Any) -> Integers:
        return read_codes(data, self.domain, self.unit, self.n if self.unit.kind == "row" else None)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Any:
        if trials is not None:
            return repeated(lambda: self.measure(prepared, bits).numbers(), trials)
        ones = self.ones
        levels = ones.measure(prepared, bits)
        total = ones.total(levels)
        bins = ones.binned(levels, MOST_BINS, LEAST_IN_NOISE * self.noise.sd)
        sizes = [column.size for column in bins]
        places = [column.bins_of(prepared[i]) for i, column in enumerate(bins)]
        alone = [column.mass / max(float(column.mass.sum()), 1.0) for column in bins]
        pairs: list[Clique] = list(combinations(range(len(sizes)), 2))
        true = {pair: counts_of(places, sizes, pair) for pair in pairs}
        guess = {pair: total * np.outer(alone[pair[0]], alone[pair[1]]) for pair in pairs}
        tree: list[Clique] = []
        part = list(range(len(sizes)))  # which part of the forest a column is in
        for _ in range(self.edges):
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

    def law(self, measured: Measured, steps: int = 1000) -> Law:
        """The joint law of the bins, from what was measured."""
        total = self.ones.total(measured.levels)
        ones = self.ones.tables(measured.levels, measured.bins, total)
        pairs = [noisy_table(columns, counts, self.noise, total) for columns, counts in measured.tables]
        return fit([column.size for column in measured.bins], [*ones, *pairs], steps=steps)

    def publish(self, measured: Measured) -> Any:
        return to_rows(measured, self.domain)

    def describe(self) -> dict[str, Any]:
        return describe_plan(self, "model for synthetic data, a tree of pairs", self.noise)

    def neighbours(self) -> Iterator[Pair]:
        return neighbours_of(self.domain, self.unit, self.n)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "domain": self.domain.to_dict(),
            "unit": self.unit.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        } | ({} if self.n is None else {"n": self.n})

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> MarginalsPlan:
        return checked(
            cls(
                Domain.from_dict(record["domain"]),
                unit_from(record["unit"]),
                guarantee_from(record["guarantee"]),
                record.get("n"),
            )
        )
