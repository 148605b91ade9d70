"""The exact delta: against integrals in ball arithmetic, other formulas, and a count of steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from flint import arb
from scipy.interpolate import CubicSpline
from scipy.special import chndtr

from oboro.dynamics import calibrate, calibration, delta
from oboro.dynamics.calibration import _calibrated
from oboro.dynamics.mixing_variable import kanter, nodes
from oboro.dynamics.radial import levels, radial
from oboro.noise.lazy import precision
from support import steps

CORNERS = ((0.05, 1e-9), (0.05, 0.3), (5.0, 1e-9), (5.0, 0.3), (1.0, 1e-5))

# One dimension. Density and distribution function were integrated along a line turned into the complex plane, in balls of
# 140 bits: the true z lies within 1e-9 of each.
ONE_DIMENSION = {
    0.5: (
        0.013617000336466843,
        0.8759732324933848,
        10.972838791788725,
        48.08804365366201,
        0.3341240796063143,
    ),
    1.5: (0.04957063322016292, 1.1480328136192448, 7.724824554249636, 10.718884859593286, 1.0071550997923548),
    1.99: (
        0.023620240598109618,
        1.1548682272538808,
        2.597276884114161,
        4.329370324566331,
        0.4811862090254777,
    ),
}


@pytest.mark.parametrize("alpha", ONE_DIMENSION)
def test_one_dimension_has_the_values_that_were_integrated_in_balls(alpha: float) -> None:
    for (eps, small), wanted in zip(CORNERS, ONE_DIMENSION[alpha], strict=True):
        found = calibrate(alpha=alpha, eps=eps, delta=small, method="exact", dims=1)
        assert found == pytest.approx(wanted, rel=1e-9)


def cauchy(eps: float, z: float) -> arb:
    """delta of Cauchy noise in one dimension: x is likelier by e^eps between the roots of a quadratic equation."""
    e, z = arb(eps).exp(), arb(z)
    a, b, c = e - 1, 2 * z, e - 1 - z * z
    root = (b * b - 4 * a * c).sqrt()
    first, last = (-b - root) / (2 * a), (-b + root) / (2 * a)
    near, far = last.atan() - first.atan(), (last - z).atan() - (first - z).atan()
    return (near - e * far) / arb.pi()


def test_cauchy_noise_in_one_dimension_is_right_to_1e_9_by_a_proof() -> None:
    rng = np.random.default_rng(21)
    for _ in range(60):
        eps, small = math.exp(rng.uniform(math.log(0.05), math.log(5))), 10 ** rng.uniform(-9, -0.53)
        z = calibrate(alpha=1, eps=eps, delta=small, method="exact", dims=1)
        with precision(256):
            assert cauchy(eps, z * (1 - 1e-9)) < arb(small) < cauchy(eps, z * (1 + 1e-9))


def test_cauchy_noise_keeps_its_promise_at_the_ends_of_the_range() -> None:
    """For a small eps the radius of the partner bends near 0, within sqrt(eps): z was 2e-8 too large at eps 0.001, delta 0.01."""
    beyond = 0
    for eps in (1e-4, 1e-3, 0.1, 1.0, 20.0, 100.0):
        pure = 2 * math.sinh(eps / 2)
        for dims in (1, 3, 10, 100):
            assert radial(1.0, dims, eps).pure == pytest.approx(2 * math.sinh(eps / (dims + 1)), rel=1e-12)
        for small in (0.3, 1e-2, 1e-3, 1e-6, 1e-12, 1e-50):
            z = calibrate(alpha=1, eps=eps, delta=small, method="exact", dims=1)
            assert z > pure * (1 - 1e-9)
            with precision(600):
                assert z <= pure or cauchy(eps, z) <= arb(small)
                if z > pure * 1.01:
                    beyond += 1
                    assert cauchy(eps, z * (1 + 1e-9)) > arb(small)
    assert beyond > 9


def cauchy_ball(eps: float, z: float, dims: int) -> float:
    """delta of Cauchy noise: the likelier x are a ball beside 0. Given A its chance is a noncentral chi square; 1/A is a square."""
    lift = math.exp(2 * eps / (dims + 1))
    centre = z / (lift - 1)
    square = centre**2 - 1 + z * z / (lift - 1)
    n = 0.004 * np.arange(1, 2500)
    weight = 0.004 * math.sqrt(2 / math.pi) * np.exp(-n * n / 2)
    near, far = (float(weight @ chndtr(square * n * n, dims, (at * n) ** 2)) for at in (centre, centre + z))
    return near - math.exp(eps) * far


@pytest.mark.few(1, "statistical tests")
@pytest.mark.parametrize("dims", [2, 10, 30])
def test_cauchy_noise_in_many_dimensions_is_a_ball(dims: int) -> None:
    for eps, small in CORNERS:
        z = calibrate(alpha=1, eps=eps, delta=small, method="exact", dims=dims)
        before, at, after = (cauchy_ball(eps, z * (1 + k * 1e-6), dims) for k in (-1, 0, 1))
        assert abs(at - small) / (after - before) * 2e-6 < 1e-9  # the error of delta as an error of z
        assert delta(alpha=1, eps=eps, z=z, method="exact", dims=dims) == pytest.approx(small, rel=1e-6)


@pytest.mark.parametrize(
    ("alpha", "dims"), [(0.5, 1), (1.3, 2), (1.7, 10), (0.8, 98), (1.99, 30), (1.5, 998)]
)
def test_the_density_in_two_more_dimensions_is_a_derivative(alpha: float, dims: int) -> None:
    """f in d + 2 dimensions is -f'/(2 pi r): tables of two laws, made apart, must agree."""
    few, many = levels(alpha, dims), levels(alpha, dims + 2)
    s = np.linspace(0.3, 6, 40)
    here = few.partners(s, 1.0)
    sphere = [math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2) for d in (dims, dims + 2)]
    log_f = few.log_shell(s, here.log_r) - dims * here.log_r - sphere[0]
    log_steep = np.log(few.order * here.tanh / here.slope) - 2 * here.log_r - math.log(2 * math.pi)
    grid = np.linspace(0.01, 8, 2000)
    there = many.partners(grid, 1.0)
    log_g = many.log_shell(grid, there.log_r) - (dims + 2) * there.log_r - sphere[1]
    found = CubicSpline(there.log_r, log_g)(here.log_r)
    assert np.abs(found - (log_f + log_steep)).max() < 1e-10 * dims + 1e-8


def test_the_derivative_by_z_is_one() -> None:
    for alpha, dims, eps, z in (
        (0.7, 1, 0.5, 0.9),
        (1.5, 10, 1.0, 0.7),
        (1.9, 200, 0.3, 0.4),
        (1.2, 3, 4.0, 9.0),
    ):
        law = radial(alpha, dims, eps)
        change = (law.delta(z * 1.0001)[0] - law.delta(z * 0.9999)[0]) / (0.0002 * z)
        assert law.delta(z)[1] == pytest.approx(change, rel=1e-5)


def test_many_dimensions_come_close_to_the_mixture_from_above() -> None:
    """A is known from a long record, so that the mixture's delta is attained at last."""
    mixture = calibrate(alpha=1.5, eps=1, delta="1e-5")
    ratio = [
        calibrate(alpha=1.5, eps=1, delta="1e-5", method="exact", dims=d) / mixture
        for d in (10, 100, 1000, 10**4)
    ]
    assert ratio == sorted(ratio, reverse=True)
    assert 1 < ratio[-1] < 1.002


def test_the_table_of_the_mixing_density_is_that_of_its_rules() -> None:
    for alpha in (0.1, 0.5, 1.0, 1.5, 1.99):
        rule = kanter(alpha)
        shift = np.linspace(-40, 6, 211)
        straight = rule.lifted(shift) - np.exp(shift)
        assert np.abs(rule.log_density(shift - rule.least) - straight).max() < 2e-11
        law = nodes(alpha)
        assert float(law.weight.sum()) == pytest.approx(1, rel=1e-9)


STEPS = {"theorem1": 430, "mixture": 640, "independent": 640, "discrete": 1300, "exact": 6500, "pure": 300}


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.few(2, "calibrations read again")
def test_a_calibration_is_a_few_steps_after_the_first(method: str) -> None:
    """For laws that were used before, everywhere in the stated range. `make bench` holds it to 10 ms."""
    small: float | None
    for alpha in (0.5, 1.2, 1.9):
        for dims in (1, 10, 1000) if method in ("exact", "pure") else (1,):
            calibrate(alpha=alpha, eps=2, delta=None if method == "pure" else 0.1, method=method, dims=dims)
            for eps, small in CORNERS:
                small = None if method == "pure" else small
                wanted = partial(calibrate, alpha=alpha, eps=eps, delta=small, method=method, dims=dims)
                _calibrated.cache_clear()
                assert steps(wanted) < STEPS[method] + 70, (
                    alpha,
                    dims,
                    eps,
                    small,
                )  # 70 read and check the arguments


@pytest.mark.long("planted faults")
def test_a_search_that_begins_afresh_for_every_number_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(miss: Callable[[float], float], low: float, high: float, _: float) -> float:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if miss(middle) > 0 else (low, middle)
        return low

    monkeypatch.setattr(calibration, "_root", halved)
    for method in ("mixture", "independent"):
        calibrate(alpha=1.2, eps=2, delta=0.1, method=method)
        assert steps(lambda: calibrate(alpha=1.2, eps=1, delta=1e-5, method=method)) > STEPS[method] + 50  # noqa: B023
