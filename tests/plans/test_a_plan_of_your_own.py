"""How a plan is added: its parts, its proof, its neighbours, and nothing else. docs/adding-a-plan.md shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro import audit
from oboro.errors import GuaranteeError, InputError, UnitError
from oboro.noise import Bits, DiscreteGaussian, DiscreteLaplace, StudentT
from oboro.release import Additive, Forecast, Pair, Part, Plan, load_plan, part, register, same_noise
from oboro.release.part import Choice, Selection, cost_of


# -- the plan: 40 lines ------------------------------------------------------------------------------------------------
@register
@dataclass(frozen=True)
class LettersPlan(Plan):
    """How many letters all names have together, each counted up to `most`.

    Privacy
        One row comes or goes: the sum moves by at most `most`, by which each name is cut. Discrete Laplace noise of scale
        most/eps on whole numbers is eps-DP [Ghosh, Roughgarden, Sundararajan 2009].
    """

    most: int
    unit: ob.Unit
    guarantee: ob.Pure
    kind = "mine.letters"

    def check(self) -> None:
        if self.unit != ob.Unit.row():
            raise UnitError("one row is one name", given=str(self.unit), needed="a row that comes or goes")

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.most) / self.guarantee.eps)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (part(self.noise, "letters", moves=self.most),)

    def added(self) -> Additive:
        return same_noise(self.noise)

    def forecast(self) -> Forecast:
        return Forecast.of(self.noise, each="number of letters")

    def prepare(self, data: list[str]) -> Any:
        return np.array([sum(min(len(str(name)), self.most) for name in data)], np.int64)

    def measure(self, prepared: Any, bits: Bits, trials: int | None = None) -> Any:
        return prepared + self.noise.sample((1,) if trials is None else (trials, 1), bits)

    def publish(self, measured: Any) -> Any:
        return pa.table({"value": measured})

    def describe(self) -> dict[str, Any]:
        return {"released": "letters of all names", "noise": self.noise.to_dict()}

    def neighbours(self) -> Iterator[Pair]:
        yield Pair(["x" * self.most], [], "the longest name, or nobody")


# ----------------------------------------------------------------------------------------------------------------------
PLAN = LettersPlan(20, ob.Unit.row(), ob.Pure("0.5"))


def test_it_is_released_and_certified(tmp_path: Path) -> None:
    ledger = ob.Ledger.create(
        tmp_path / "a.ledger", dataset="names", unit=ob.Unit.row(), budget=ob.Pure("0.5")
    )
    release = ob.run(PLAN, ["Hanako", "Taro"], ledger, name="letters")
    assert isinstance(release.value, int)
    certificate = release.save(tmp_path / "letters.csv")
    assert ob.verify_certificate(certificate)["plan"] == PLAN.to_dict()
    assert ledger.spent == ob.Pure("0.5")
    assert ob.run(PLAN, None, ledger, name="letters").value == release.value  # given again


def test_it_is_audited() -> None:
    assert audit.exact(PLAN).findings[0].eps_lower == 0.5
    assert audit.run(PLAN, 2000).verdict == "holds"


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    ob.save_plan(PLAN, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == PLAN


class HalfTheNoise(LettersPlan):
    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.most, 2) / self.guarantee.eps)


def test_the_page_shows_this_plan_and_it_is_short() -> None:
    lines = Path(__file__).read_text(encoding="utf-8").split("# --")[1].split("\n", 1)[1].strip()
    assert lines in (Path(__file__).parents[2] / "docs" / "adding-a-plan.md").read_text(encoding="utf-8")
    assert len([line for line in lines.splitlines() if line.strip()]) <= 40


def test_a_wrong_promise_cannot_be_made() -> None:
    with pytest.raises(UnitError):
        replace(PLAN, unit=ob.Unit.person("name", max_rows=3))
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        HalfTheNoise(20, ob.Unit.row(), ob.Pure("0.5"))
    assert replace(PLAN, guarantee=ob.Pure("0.1")).noise.scale == 200  # the noise follows the promise


def made_of(*parts: Part) -> Plan:
    """A plan that says it has these parts."""

    class Told(LettersPlan):
        parts = ()

    Told.parts = parts  # type: ignore[assignment]
    return Told(20, ob.Unit.row(), ob.Pure("0.5"))


def test_every_case_is_covered_also_where_none_is_the_worst() -> None:
    """rho = 0.02 is not covered by eps = 0.5, nor the other way round: neither hides the other."""
    bounded = part(DiscreteLaplace(2), "letters", moves=1, case="comes")
    unbounded = part(DiscreteGaussian(25), "letters", moves=1, case="is replaced")
    assert made_of(bounded).cost == ob.Pure("0.5")
    for parts in ((bounded, unbounded), (unbounded, bounded)):
        assert cost_of(parts).covers(bounded.costs)
        assert cost_of(parts).covers(unbounded.costs)
        with pytest.raises(GuaranteeError, match="does not keep its promise"):
            made_of(*parts)
    often = Part(StudentT(3), "a", Fraction(1), ob.Approx(1, "0.1"), "one")
    rarely = Part(StudentT(3), "a", Fraction(1), ob.Approx(2, "0.01"), "other")
    assert cost_of((often, rarely)) == ob.Approx(2, "0.1")


def test_a_plan_that_lists_no_noise_promises_nothing_for_money() -> None:
    with pytest.raises(GuaranteeError, match="without noise"):
        made_of()


@pytest.mark.parametrize(
    ("noise", "costs"),
    [
        (DiscreteLaplace(1), ob.Pure("1.99")),
        (DiscreteLaplace(1), ob.ZCDP("1.99")),
        (DiscreteGaussian(1), ob.ZCDP("0.99")),
        (DiscreteGaussian(1), ob.Pure(100)),
        (Choice(Fraction(1)), ob.Pure("3.99")),
        (Choice(Fraction(1)), ob.ZCDP("1.99")),
        (Selection(Fraction(1)), ob.Pure("3.99")),
    ],
)
def test_a_part_cannot_say_that_it_costs_less_than_its_law_does(noise: Any, costs: Any) -> None:
    with pytest.raises(GuaranteeError, match="costs more than it says"):
        Part(noise, "letters", Fraction(2), costs)
    if isinstance(costs, ob.ZCDP):
        assert Part(noise, "letters", Fraction(2), ob.ZCDP(costs.rho + Fraction(1, 100)))


@pytest.mark.parametrize(
    "asked", [{"moves": -1}, {"moves": float("nan")}, {"moves": 1, "times": 0}, {"moves": 1, "times": 0.5}]
)
def test_a_part_of_no_size_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=list(asked)[-1]):
        part(DiscreteLaplace(1), "letters", **asked)


def test_a_law_of_another_kind_needs_its_own_theorem() -> None:
    with pytest.raises(InputError, match="does not follow from its law"):
        part(StudentT(3), "letters", moves=1)  # type: ignore[arg-type]
