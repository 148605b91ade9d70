"""What the plans that learn a model share: every column on its own, then further steps, all paid from one rho."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from oboro.arrays import Integers
from oboro.domain import Domain
from oboro.errors import ParameterError
from oboro.noise import Bits, DiscreteGaussian
from oboro.privacy import ZCDP, Approx, Unit
from oboro.release import Choice, Forecast, Pair, Part, Plan, part
from oboro.release.files import BUNDLE
from oboro.synth.budget import (
    choice_eps,
    noise_for,
    rho_within,
    squared_sensitivity,
    summed_sensitivity,
)
from oboro.synth.coding import check_synthesisable, read_codes
from oboro.synth.inference import Law, fit
from oboro.synth.measured import Measured, to_rows
from oboro.synth.planning import MOST_CATEGORIES, check_n, neighbours_of, repeated
from oboro.synth.steps import Ones, noisy_table


@dataclass(frozen=True)
class ModelPlan(Plan):
    """A model of every column and of how they go together. Each kind says its steps, forecasts, and measures once."""

    domain: Domain
    unit: Unit
    guarantee: Approx | ZCDP
    n: int | None = None
    shares: ClassVar[tuple[Fraction, ...]]  # of rho: that of the columns first

    def check(self) -> None:
        check_synthesisable(self.domain, self.unit)
        check_n(self.unit, self.n)
        for column in self.domain:
            if column.kind == "category" and column.size > MOST_CATEGORIES:
                raise ParameterError(
                    f"column {column.name!r} has too many categories",
                    given=f"{column.size:,}",
                    needed=f"at most {MOST_CATEGORIES:,}",
                    fix="fewer, broader values",
                )

    @cached_property
    def rho(self) -> Fraction:
        """What all steps cost together."""
        return rho_within(self.guarantee)

    @property
    def steps(self) -> int:
        """How many steps follow the columns: none where there is but one column."""
        raise NotImplementedError  # pragma: no cover

    @cached_property
    def ones(self) -> Ones:
        """The first step: every column on its own."""
        return Ones(self.domain, self.unit, self.rho * (self.shares[0] if self.steps else 1), self.n)

    def column_parts(self) -> tuple[Part, ...]:
        """The levels of every column: of each, blocks that do not overlap."""
        moved = squared_sensitivity(self.unit)
        return tuple(
            part(noise, f"counts of {column.name}", moves=moved)
            for column, noises in zip(self.domain, self.ones.noises, strict=True)
            for noise in noises
        )

    @property
    def slowness(self) -> int:
        return 100

    formats = (BUNDLE,)
    readable = False
    footnote = "as many records as you like can be drawn from it, at no further cost: oboro synth sample, or model.sample"

    def forecast_with(self, more: Sequence[tuple[str, float, int]], notes: Sequence[str]) -> Forecast:
        """The error of the counts of every column, and of what else is counted."""
        rows = [
            (f"count of {column.name}", noise[0].sd, noise[0].interval()[1])
            for column, noise in zip(self.domain, self.ones.noises, strict=True)
        ]
        title = "expected error of each count that the model is made of"
        columns = ("of each", "standard error", "95% within ±")
        return Forecast(title, columns, (*rows, *more), tuple(notes))

    def prepare(self, data: Any) -> Integers:
        return read_codes(data, self.domain, self.unit, self.n if self.unit.kind == "row" else None)

    def measure(self, prepared: Integers, bits: Bits, trials: int | None = None) -> Any:
        if trials is None:
            return self.measure_once(prepared, bits)
        return repeated(lambda: self.measure_once(prepared, bits).numbers(), trials)

    def measure_once(self, codes: Integers, bits: Bits) -> Measured:
        """All steps, one after the other."""
        raise NotImplementedError  # pragma: no cover

    def publish(self, measured: Measured) -> Any:
        return to_rows(measured, self.domain)

    def neighbours(self) -> Iterator[Pair]:
        return neighbours_of(self.domain, self.unit, self.n)


@dataclass(frozen=True)
class TablesPlan(ModelPlan):
    """A model of tables of several columns, each step a table that is chosen and counted.

    `shares` are those of the columns, of choosing, and of counting what was chosen.
    """

    @property
    def choice_rho(self) -> Fraction:
        """What choosing one table costs."""
        return self.rho * self.shares[1] / self.steps

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise of each table that is chosen; of the column itself where there is but one."""
        if not self.steps:
            return self.ones.noises[0][0]
        return noise_for(self.unit, self.rho * self.shares[2] / self.steps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        if not self.steps:
            return self.column_parts()
        eps, moved = choice_eps(self.choice_rho), summed_sensitivity(self.unit)
        return (
            *self.column_parts(),
            part(
                self.noise,
                "counts of each chosen table",
                moves=squared_sensitivity(self.unit),
                times=self.steps,
            ),
            # weights e^(eta score), eta = eps / (2 moved), are eps^2/8-zCDP [Cesar and Rogers 2021]
            Part(
                Choice(eps / (2 * moved)),
                "the choice of each table",
                Fraction(moved),
                ZCDP(self.steps * eps**2 / 8),
            ),
        )

    def law(self, measured: Measured, steps: int = 1000) -> Law:
        """The joint law of the bins, from what was measured."""
        total = self.ones.total(measured.levels)
        ones = self.ones.tables(measured.levels, measured.bins, total)
        chosen = [noisy_table(columns, counts, self.noise, total) for columns, counts in measured.tables]
        return fit([column.size for column in measured.bins], [*ones, *chosen], steps=steps)
