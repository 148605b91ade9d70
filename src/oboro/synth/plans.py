"""What the plans that learn a model share: every column on its own, then further steps, all paid from one rho."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from oboro.domain import Domain
from oboro.noise import Bits, DiscreteGaussian
from oboro.privacy import Guarantee, Unit, guarantee_from, unit_from
from oboro.release import Forecast, Pair
from oboro.synth.budget import choice_eps, noise_for, rho_within, squared_sensitivity
from oboro.synth.coding import Integers, read_codes
from oboro.synth.inference import Law, fit
from oboro.synth.measured import Measured, to_rows
from oboro.synth.planning import checked, neighbours_of, repeated
from oboro.synth.steps import Ones, noisy_table


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """A model of every column and of how they go together. Each kind says its steps, forecasts, and measures once."""

    domain: Domain
    unit: Unit
    guarantee: Guarantee
    n: int | None = None
    kind: ClassVar[str]
    shares: ClassVar[tuple[Fraction, ...]]  # of rho: that of the columns first

    @property
    def rho(self) -> Fraction:
        """What all steps cost together."""
        return rho_within(self.guarantee)

    @property
    def steps(self) -> int:
        """How many steps follow the columns: none where there is but one column."""
        raise NotImplementedError  # pragma: no cover

    @property
    def ones(self) -> Ones:
        """The first step: every column on its own."""
        return Ones(self.domain, self.unit, self.rho * (self.shares[0] if self.steps else 1), self.n)

    def spent_on_columns(self) -> Fraction:
        """What the first step costs, by exact sums of what its noise costs."""
        moved = Fraction(squared_sensitivity(self.unit))
        return sum(
            (moved / (2 * noise.sigma2) for noises in self.ones.noises for noise in noises), Fraction(0)
        )

    def forecast(self) -> Forecast:
        raise NotImplementedError  # pragma: no cover

    def describe(self) -> dict[str, Any]:
        raise NotImplementedError  # pragma: no cover

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

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "domain": self.domain.to_dict(),
            "unit": self.unit.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        } | ({} if self.n is None else {"n": self.n})

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        return checked(
            cls(
                Domain.from_dict(record["domain"]),
                unit_from(record["unit"]),
                guarantee_from(record["guarantee"]),
                record.get("n"),
            )
        )


@dataclass(frozen=True, slots=True)
class TablesPlan(ModelPlan):
    """A model of tables of several columns, each step a table that is chosen and counted.

    `shares` are those of the columns, of choosing, and of counting what was chosen.
    """

    @property
    def choice_rho(self) -> Fraction:
        """What choosing one table costs."""
        return self.rho * self.shares[1] / self.steps

    @property
    def noise(self) -> DiscreteGaussian:
        """The noise of each table that is chosen; of the column itself where there is but one."""
        if not self.steps:
            return self.ones.noises[0][0]
        return noise_for(self.unit, self.rho * self.shares[2] / self.steps)

    def spent(self) -> Fraction:
        """What all steps cost together, by exact sums of what their noise and choices cost."""
        if not self.steps:
            return self.spent_on_columns()
        table = Fraction(squared_sensitivity(self.unit)) / (2 * self.noise.sigma2)
        return self.spent_on_columns() + self.steps * (table + choice_eps(self.choice_rho) ** 2 / 8)

    def law(self, measured: Measured, steps: int = 1000) -> Law:
        """The joint law of the bins, from what was measured."""
        total = self.ones.total(measured.levels)
        ones = self.ones.tables(measured.levels, measured.bins, total)
        chosen = [noisy_table(columns, counts, self.noise, total) for columns, counts in measured.tables]
        return fit([column.size for column in measured.bins], [*ones, *chosen], steps=steps)
