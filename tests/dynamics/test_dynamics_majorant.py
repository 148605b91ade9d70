"""The mean of the majorant: never below the truth, and hardly above it, also where doubles and tables end."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from flint import arb

from oboro.dynamics import calibrate
from oboro.dynamics import calibration as module
from oboro.dynamics.calibration import _delta
from oboro.dynamics.majorant import _law, _psi, _slopes, excess
from oboro.dynamics.profile import above, gaussian, inflection, slope
from oboro.errors import ParameterError
from oboro.noise.lazy import precision

CORNERS = [
    (1.999, 0.1, "0.3"),
    (1.999, 0.001, "0.01"),
    (1.99, 0.001, "0.3"),
    (1.9, 0.001, "0.01"),
    (1.5, 0.1, "0.3"),
    (1.0, 1e-4, "1e-5"),
    (0.5, 100.0, "1e-12"),
    (0.3, 100.0, "1e-50"),
    (0.3, 1.0, "1e-3"),
    (0.1, 0.001, "1e-6"),
    (0.1, 20.0, "1e-50"),
    (0.1, 100.0, "1e-50"),
]
WIDE = list(
    product((0.1, 0.3, 0.5, 1.0, 1.5, 1.9, 1.99, 1.999), (1e-3, 0.1, 1.0, 20.0, 100.0), ("0.3", "1e-2", "1e-6", "1e-12", "1e-50"))
)  # fmt: skip
GAUSS = np.polynomial.legendre.leggauss(20)


def plain(alpha: float, eps: float, z: float) -> float:
    """The same mean in another way: a double exponential rule for U, and Gauss's for E, from where V = v0 on."""
    b, at = alpha / 2, inflection(eps)
    power = (1 - b) / b
    half_odds = np.pi / 2 * np.sinh(np.linspace(-4.2, 4.2, 1001))
    u, rest = 1 / (1 + np.exp(-2 * half_odds)), 1 / (1 + np.exp(2 * half_odds))
    weight = 0.0084 * np.hypot(np.pi, 2 * half_odds) * u * rest
    y = np.pi * np.where(u < 0.5, b * u, (1 - b) + b * rest)
    log_a = np.log(np.sin((1 - b) * np.pi * u))
    log_a += (b * np.log(np.sin(y)) - np.log(np.sin(np.pi * np.minimum(u, rest)))) / (1 - b)
    start = (math.log(2 * at) - 2 * math.log(z)) / power
    total = 0.0
    for first, share in zip((log_a + start).tolist(), weight.tolist(), strict=True):
        if first > 6.6 or share < 1e-300:
            continue
        last = float(np.logaddexp(first, math.log(80 + 8 * (1 + power))))
        back = last - np.array(
            [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 22.0, 34.0, 50.0, 75.0, 120.0]
        )
        more = first + np.array([0.0, 0.03, 0.1, 0.2, 0.4, 0.8, 1.5]) / power
        edges = np.unique(np.clip(np.concatenate([back, more]), first, last))
        half = np.diff(edges)[:, None] / 2
        log_e = edges[:-1, None] + half * (GAUSS[0] + 1)
        v = at * np.exp(np.minimum(power * (log_e - first), 600.0))
        total += share * float((above(v, eps) * np.exp(log_e - np.exp(log_e)) * half @ GAUSS[1]).sum())
    return total


def kept(alpha: float, eps: float, small: str) -> bool:
    """Whether the calibrated z keeps delta by the plain sum, hardly more noise than that needs; False if it is refused."""
    try:
        z = calibrate(alpha=alpha, eps=eps, delta=small, method="independent")
    except ParameterError:
        return False
    true, less_noise = (
        _delta(alpha, eps, at, "mixture", 1) + plain(alpha, eps, at) for at in (z, z * (1 + 2e-4))
    )
    assert true <= float(small) * (1 + 1e-10)
    assert less_noise > float(small)
    assert _delta(alpha, eps, z, "independent", 1) <= float(small)
    assert _delta(alpha, eps, z * (1 + 1e-6), "independent", 1) > float(small)
    return True


@pytest.mark.parametrize(("alpha", "eps", "small"), CORNERS)
@pytest.mark.few(4, "corners of calibrations")
def test_independent_noise_keeps_its_promise_in_the_corners(alpha: float, eps: float, small: str) -> None:
    """What lay below e^-81 was left out once: z was 1.6% too large at alpha 0.1, eps 100, delta 1e-50."""
    assert kept(alpha, eps, small)


@pytest.mark.long("independent noise over the whole range")
def test_independent_noise_keeps_its_promise_everywhere() -> None:
    assert sum(kept(*one) for one in WIDE) > 180


def test_a_cut_tail_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = module.excess
    monkeypatch.setattr(module, "excess", lambda *given: found if (found := before(*given)) > 1e-49 else 0.0)
    module._calibrated.cache_clear()
    with pytest.raises(AssertionError):
        kept(0.1, 100.0, "1e-50")
    module._calibrated.cache_clear()


def test_the_law_of_the_chords_has_the_mean_that_is_known() -> None:
    """E V = (z^2/2) Gamma(1 + 1/b): from above, by what the chords of U add."""
    for alpha in (0.1, 0.5, 1.0, 1.5, 1.9, 1.99, 1.999, 1.99999):
        b = alpha / 2
        power, law = (1 - b) / b, _law(b)
        found = math.log(float(law.weight @ np.exp(-power * law.log_a))) + math.lgamma(1 + power)
        assert 0 <= found - math.lgamma(1 + 1 / b) < 1e-3, alpha
        assert law.weight.min() >= 0
        assert float(law.weight.sum()) == pytest.approx(1, rel=1e-14)


def test_its_ramps_are_incomplete_gamma_functions_to_the_last_digits() -> None:
    for power in (5e-7, 5e-4, 0.3, 1.0, 4.0, 19.0):
        x = np.array([-600.0, -40.0, -31.0, -29.0, -5.0, 0.0, 0.5, 2.0, 4.0, 6.0])
        x = x[power * x > -600.0]
        with precision(400):
            for at, found in zip(x.tolist(), _psi(x, power).tolist(), strict=True):
                p, e = arb(power), arb(at).exp()
                true = p * e ** (-p) * e.gamma_upper(p)
                assert -1e-12 < float(arb(found) / true - 1) < 1e-8, (power, at)


def test_slopes_of_chords_are_differences_of_the_majorant() -> None:
    for eps in (1e-4, 0.1, 1.0, 30.0, 1e4):
        first = inflection(eps)
        t = np.linspace(0, 2 * math.log((9 + math.sqrt(81 + 2 * eps)) / math.sqrt(first)), 160)
        v = first * np.exp(t)
        found = _slopes(t, eps)
        assert (np.diff(found) >= -1e-12 * found[-1]).all()
        assert found[-1] <= slope(first, eps) * (1 + 1e-14)
        wanted = slope(first, eps) - np.diff(gaussian(v, eps)) / np.diff(v)
        assert np.abs(found - wanted).max() < 1e-9 * slope(first, eps)


def test_a_change_that_is_beyond_doubt_small_adds_nothing() -> None:
    assert excess(1.5, 1.0, 0.01) < 1e-280
    assert excess(1.5, 1.0, 1e-30) < 1e-280
