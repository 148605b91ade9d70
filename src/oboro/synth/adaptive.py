"""The method for quality: table after table, each chosen because the model so far gets it most wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

from oboro.domain import Domain
from oboro.noise import Bits, DiscreteGaussian
from oboro.privacy import Guarantee, Unit, guarantee_from, unit_from
from oboro.release import Forecast, Pair, register
from oboro.synth.budget import choice_eps, noise_for, rho_within, squared_sensitivity
from oboro.synth.coding import Integers, read_codes
from oboro.synth.inference import Law, Noisy, fit, independent
from oboro.synth.joint import joint_law
from oboro.synth.junction import Clique, junction_tree
from oboro.synth.measured import Measured, to_rows
from oboro.synth.planning import checked, describe_plan, neighbours_of, repeated
from oboro.synth.steps import Ones, choose_table, counts_of, noisy_table

MOST_BINS = 16
LEAST_IN_NOISE = 4  # a bin holds at least so many standard deviations of a table's noise
SHARES = (Fraction(1, 10), Fraction(1, 10), Fraction(8, 10))  # each column, choosing, the tables chosen
ROUNDS = Fraction(3, 2)  # for each column
LARGEST_TREE = 300_000  # cells of all cliques; what a fit of a few seconds can bear


@register
@dataclass(frozen=True, slots=True)
class QualityPlan:
    """Noisy counts of every column, then of tables of two or three columns, each chosen by its error [after McKenna et al. 2022, AIM].

    Privacy
        As for the tree of pairs: rho adds up over the steps [Bun and Steinke 2016]; a table of counts under discrete Gaussian
        noise of variance D^2/(2 rho) costs rho, D^2 = m^2 for the at most m rows of a unit, 2 m^2 under replace; a
        choice by the exponential mechanism costs eps^2/8 [Cesar and Rogers 2021], for a score that one unit moves by at most m
        (replace: 2m). The number of rounds and what each may cost are fixed beforehand by the number of columns. What the model expects, and
        which tables are offered, follows from noisy counts given out earlier.
    """

    domain: Domain
    unit: Unit
    guarantee: Guarantee
    n: int | None = None
    kind = "synth.quality"

    @property
    def rho(self) -> Fraction:
        return rho_within(self.guarantee)

    @property
    def rounds(self) -> int:
        return int(ROUNDS * len(self.domain)) if len(self.domain) > 2 else len(self.domain) - 1

    @property
    def ones(self) -> Ones:
        return Ones(self.domain, self.unit, self.rho * (SHARES[0] if self.rounds else 1), self.n)

    @property
    def choice_rho(self) -> Fraction:
        """What one choice costs."""
        return self.rho * SHARES[1] / self.rounds

    @property
    def noise(self) -> DiscreteGaussian:
        """The noise of each table that is chosen."""
        return (
            noise_for(self.unit, self.rho * SHARES[2] / self.rounds)
            if self.rounds
            else self.ones.noises[0][0]
        )

    def spent(self) -> Fraction:
        """What all steps cost together, by exact sums of what their noise and choices cost."""
        moved = squared_sensitivity(self.unit)
        tables = [noise for noises in self.ones.noises for noise in noises] + [self.noise] * self.rounds
        choices = self.rounds * choice_eps(self.choice_rho) ** 2 / 8 if self.rounds else Fraction(0)
        return sum((Fraction(moved) / (2 * noise.sigma2) for noise in tables), Fraction(0)) + choices

    def forecast(self) -> Forecast:
        rows = [
            (f"count of {column.name}", noise[0].sd, noise[0].interval()[1])
            for column, noise in zip(self.domain, self.ones.noises, strict=True)
        ]
        if self.rounds:
            rows.append(("count of a chosen table", self.noise.sd, self.noise.interval()[1]))
        return Forecast(
            "expected error of each count that the model is made of",
            ("of each", "standard error", "95% within ±"),
            tuple(rows),
            (
                f"{self.rounds} tables of two or three columns will be chosen; oboro synth report measures what comes of it",
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
        offered = _offered(sizes, self.noise.sd, total)
        true = {columns: counts_of(places, sizes, columns) for columns in offered}
        known = ones.tables(levels, bins, total)
        law = independent([column.mass / total for column in bins])
        tables: list[tuple[Clique, Integers]] = []
        for turn in range(self.rounds):
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

    def law(self, measured: Measured, steps: int = 1000) -> Law:
        """The joint law of the bins, from what was measured."""
        total = self.ones.total(measured.levels)
        ones = self.ones.tables(measured.levels, measured.bins, total)
        chosen = [noisy_table(columns, counts, self.noise, total) for columns, counts in measured.tables]
        return fit([column.size for column in measured.bins], [*ones, *chosen], steps=steps)

    def publish(self, measured: Measured) -> Any:
        return to_rows(measured, self.domain)

    def describe(self) -> dict[str, Any]:
        return describe_plan(self, "model for synthetic data, tables chosen by their error", self.noise)

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
    def from_dict(cls, record: dict[str, Any]) -> QualityPlan:
        return checked(
            cls(
                Domain.from_dict(record["domain"]),
                unit_from(record["unit"]),
                guarantee_from(record["guarantee"]),
                record.get("n"),
            )
        )


def _offered(sizes: Sequence[int], sd: float, total: float) -> list[Clique]:
    """All pairs, and the triples whose noise does not drown their counts."""
    places = range(len(sizes))
    triples = [c for c in combinations(places, 3) if 0.8 * sd * prod(sizes[i] for i in c) <= total]
    return [*combinations(places, 2), *triples]


def _fitting(offered: Sequence[Clique], sizes: Sequence[int], known: Sequence[Noisy]) -> list[Clique]:
    """The tables that keep the junction tree within its limit."""
    had = [table.columns for table in known]
    return [columns for columns in offered if junction_tree(sizes, [*had, columns]).size <= LARGEST_TREE]
