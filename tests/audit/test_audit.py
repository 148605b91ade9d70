"""The falsifier: sound plans hold, and planted faults are caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.audit.events import lower, upper
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.release import Pair

DOMAIN = ob.Domain([ob.Integer("age", 0, 3), ob.Category("region", ["north", "south"])])
TRIALS = 100_000


def plan_of(**changes: Any) -> Any:
    return ob.histogram_plan(DOMAIN, "age", **{"unit": ob.Unit.row(), "eps": 1, **changes})


@pytest.mark.parametrize("unit", [ob.Unit.row(), ob.Unit.row("replace"), ob.Unit.person("who", 3)])
@pytest.mark.parametrize("eps", ["0.3", "1"])
@pytest.mark.few(1, "audits of sound plans")
def test_a_sound_plan_holds_and_the_bound_is_close(unit: ob.Unit, eps: str) -> None:
    report = audit.run(plan_of(unit=unit, eps=eps), TRIALS)
    assert report.verdict == "holds", str(report)
    assert report.eps_lower > 0.8 * float(Fraction(eps)) - 0.05, str(report)
    assert "holds" in str(report)
    assert report.to_dict()["verdict"] == "holds"


@dataclass(frozen=True)
class Faulty:
    """A histogram plan with one planted fault."""

    inner: Any
    fault: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def measure(self, prepared: Any, bits: Any, trials: int | None = None) -> Any:
        shape = (trials, *prepared.shape)
        if self.fault == "scale":
            return prepared + DiscreteLaplace(self.inner.noise.scale * Fraction(8, 10)).sample(shape, bits)
        if self.fault == "empty bins":
            return np.where(prepared > 0, self.inner.measure(prepared, bits, trials), 0)
        if self.fault == "reused":
            return prepared + self.inner.noise.sample((trials, 1), bits)
        if self.fault == "branch":
            return (
                self.inner.measure(prepared, bits, trials)
                + (np.arange(prepared.size) == 0) * (prepared.sum() % 2) * 3
            )
        if self.fault == "float":
            scale = float(self.inner.noise.scale)
            return prepared * 0.1 + np.random.default_rng(5).laplace(scale=scale * 0.1, size=shape)
        raise AssertionError(self.fault)


@pytest.mark.parametrize("fault", ["scale", "empty bins", "reused", "branch"])
@pytest.mark.few(1, "audits of faults")
def test_a_planted_fault_is_caught(fault: str) -> None:
    unit = ob.Unit.row("replace") if fault == "reused" else ob.Unit.row()
    report = audit.run(Faulty(plan_of(unit=unit), fault), TRIALS)
    assert report.verdict == "broken", str(report)


def test_a_sensitivity_that_is_halved_is_caught() -> None:
    honest = plan_of(unit=ob.Unit.row("replace"))
    lying = replace(honest, guarantee=ob.Pure(2))
    report = audit.run(Promising(lying, ob.Pure(1)), TRIALS)
    assert report.verdict == "broken"


@dataclass(frozen=True)
class Promising:
    inner: Any
    guarantee: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(frozen=True)
class Gaussian:
    """A count under discrete Gaussian noise, with a promise of our choice."""

    variance: Fraction
    guarantee: Any
    kind = "test.gaussian"

    def prepare(self, data: int) -> Any:
        return np.asarray([data])

    def measure(self, prepared: Any, bits: Any, trials: int | None = None) -> Any:
        return prepared + DiscreteGaussian(self.variance).sample((trials, 1), bits)

    def neighbours(self) -> Any:
        yield Pair(0, 1, "one more")


def test_zcdp_promises_are_attacked_through_their_profile() -> None:
    assert audit.run(Gaussian(Fraction(4), ob.ZCDP(Fraction(1, 8))), TRIALS).verdict == "holds"  # type: ignore[arg-type]
    assert audit.run(Gaussian(Fraction(1), ob.ZCDP(Fraction(1, 32))), TRIALS).verdict == "broken"  # type: ignore[arg-type]


def test_the_discrete_gaussian_needs_more_delta_than_the_continuous_one() -> None:
    """At the analytic sigma of (1, 1e-2) the audit must not call the promise broken."""
    assert audit.run(Gaussian(Fraction(2), ob.Approx("1.5", "0.1")), TRIALS).verdict == "holds"  # type: ignore[arg-type]


def test_clopper_pearson_bounds_enclose_the_estimate() -> None:
    assert lower(0, 100, 1e-6) == 0
    assert upper(100, 100, 1e-6) == 1
    assert 0 < lower(50, 100, 1e-6) < 0.5 < upper(50, 100, 1e-6) < 1
    assert upper(0, 100, 0.05) == pytest.approx(1 - 0.05 ** (1 / 100))


def test_a_plan_without_neighbours_is_refused() -> None:
    with pytest.raises(ob.OboroError, match="no neighbours"):
        audit.run(plan_of(), TRIALS, pairs=[])
    with pytest.raises(ob.OboroError, match="trials"):
        audit.run(plan_of(), 10)
