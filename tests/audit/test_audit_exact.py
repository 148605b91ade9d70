"""What can be computed is computed: the truth never passes the promise, and tight noise reaches it to 1e-12."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro import audit
from oboro.audit import enumeration
from oboro.errors import ParameterError
from oboro.noise import DiscreteGaussian, DiscreteLaplace, exponential_mechanism, uniform_integer
from support import audited

SAMPLES = audited()
TIGHT = [
    "count",
    "count, persons",
    "count, replaced, zCDP",
    "histogram",
    "histogram, replaced",
    "histogram, persons, zCDP",
    "sum",
    "sum, replaced",
    "mean",
    "mean, persons",
    "mean, n public",
    "variance, persons",
    "query",
    "batch",
    "batch, zCDP",
    "batch, shared",
    "batch, shared, replaced",
    "batch, shared, persons, zCDP",
    "clusters on a grid",
    "conjunction, replaced",
    "clusters on a grid, persons",
]


@pytest.mark.parametrize("name", TIGHT)
@pytest.mark.few(8, "exact audits")
def test_tight_noise_costs_what_it_promises(name: str) -> None:
    report = audit.exact(SAMPLES[name])
    assert report.verdict == "holds"
    assert report.how == "computed"
    nearest = max(float(f.eps_lower) / float(f.promised) for f in report.findings)
    assert nearest == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", ["batch, tight", "secure draw", "secure draw, sensitivity 3", "quantile"])
def test_what_is_not_tight_stays_below(name: str) -> None:
    report = audit.exact(SAMPLES[name])
    assert report.verdict == "holds"
    assert 0.2 < report.eps_lower < float(report.findings[0].promised)


def test_a_plan_whose_law_is_unknown_is_refused() -> None:
    with pytest.raises(ParameterError, match="cannot be computed"):
        audit.exact(SAMPLES["table, wavelet"])


@dataclass(frozen=True)
class Changed:
    """A plan with another `measure`."""

    inner: Any
    changed: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def measure(self, prepared: Any, bits: Any, trials: int) -> Any:
        return self.changed(self.inner, prepared, bits, trials)


def weak(plan: Any, prepared: Any, bits: Any, trials: int) -> Any:
    return replace(plan, guarantee=ob.Pure("1.3")).measure(prepared, bits, trials)


def reused(plan: Any, prepared: Any, bits: Any, trials: int) -> Any:
    return prepared + plan.noise.sample((trials, 1), bits)


def branched(plan: Any, prepared: Any, bits: Any, trials: int) -> Any:
    return plan.measure(prepared, bits, trials) + int(prepared.sum() % 2)


@pytest.mark.parametrize("fault", [weak, reused, branched])
def test_a_measure_that_is_not_what_was_declared_is_not_taken_for_it(fault: Any) -> None:
    with pytest.raises(ParameterError, match="cannot be computed"):
        audit.exact(Changed(SAMPLES["histogram"], fault))


def test_a_quantile_drawn_by_another_law_is_not_taken_for_it() -> None:
    with pytest.raises(ParameterError, match="cannot be computed"):
        audit.exact(Changed(SAMPLES["quantile"], weak))


def test_a_promise_that_is_a_trillionth_too_small_is_seen() -> None:
    plan = SAMPLES["histogram"]
    for off, verdict in ((Fraction(1, 10**11), "broken"), (Fraction(0), "holds")):
        lying = copy.copy(plan)
        object.__setattr__(lying, "guarantee", ob.Pure(1 - off))  # the noise, derived before, stays
        lying.__dict__["noise"] = plan.noise
        assert audit.exact(lying).verdict == verdict


# -- the sums --------------------------------------------------------------------------------------------------------


def test_the_loss_of_laplace_noise_has_its_known_delta() -> None:
    """For a move of 1: delta(eps) = P(Z <= 0) (1 - e^(eps - 1/scale))."""
    noise = DiscreteLaplace(2)
    law = enumeration.added([(noise, 1)])
    assert sum(law.values()) == pytest.approx(1, abs=1e-15)
    assert enumeration.delta_at(law, 0.2) == pytest.approx(
        float(noise.cdf(0)) * -math.expm1(0.2 - 0.5), rel=1e-13
    )
    k = np.arange(-400, 401)
    p, q = noise.pmf(k), noise.pmf(k - 3)
    three = enumeration.delta_at(enumeration.added([(noise, 3)]), 0.4)
    assert three == pytest.approx(float(np.maximum(p - math.exp(0.4) * q, 0).sum()), rel=1e-12)


def test_discrete_gaussian_noise_has_the_divergence_of_its_proof() -> None:
    noise = DiscreteGaussian(Fraction(9, 2))
    for order in (Fraction(2), Fraction(4), Fraction(9)):
        assert enumeration.divergence([(noise, 2)], order) == pytest.approx(float(order * 4 / 9), abs=1e-12)
    below = enumeration.divergence([(DiscreteGaussian(Fraction(1, 10)), 1)], Fraction(3, 2))
    assert below < 1.5 * 5  # at orders between whole numbers a little less


def test_eps_is_found_at_a_delta() -> None:
    law = enumeration.added([(DiscreteLaplace(1), 1)] * 3)
    found = enumeration.eps_at([lambda eps: enumeration.delta_at(law, eps)], 0.05)
    assert enumeration.delta_at(law, found) <= 0.05 < enumeration.delta_at(law, found - 1e-9)


# -- walking through bits --------------------------------------------------------------------------------------------


def test_the_laplace_sampler_has_its_law_bit_by_bit() -> None:
    scale = Fraction(1, 4)
    walked = audit.walk(lambda bits: int(DiscreteLaplace(scale).sample(1, bits)[0]))
    assert walked.unknown < Fraction(1, 10**15)

    def furthest(law: DiscreteLaplace) -> float:
        return max(abs(float(chance) - float(law.pmf(k))) for k, chance in walked.chances.items())

    assert furthest(DiscreteLaplace(scale)) < 1e-15
    assert furthest(DiscreteLaplace(scale * (1 + Fraction(1, 10**10)))) > 1e-12


def test_choices_and_whole_numbers_have_their_laws_bit_by_bit() -> None:
    walked = audit.walk(lambda bits: exponential_mechanism([0, 1, 3], Fraction(1, 2), [1, 2, 4], bits))
    weights = np.asarray([1, 2 * math.exp(-0.5), 4 * math.exp(-1.5)])
    for index, chance in enumerate(weights / weights.sum()):
        assert float(walked.chances[index]) == pytest.approx(chance, abs=1e-15)
    thirds = audit.walk(lambda bits: uniform_integer(3, bits))
    assert thirds.chances == {k: Fraction(1, 3) for k in range(3)}
    biased = audit.walk(lambda bits: int(bits.integer(2)) % 3)  # planted fault: modulo bias
    assert biased.chances[0] == Fraction(1, 2)
