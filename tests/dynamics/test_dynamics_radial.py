"""The pure distance min (R - r) must not be above the true one, also where the least lies before the first knot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oboro.dynamics.calibration import calibrate
from oboro.dynamics.radial import _gap, levels, radial


def _cauchy_delta(eps: float, z: float) -> float:
    """The exact delta of Cauchy noise of scale 1 in one dimension: an interval between two roots, by arctangents."""
    grown = math.exp(eps)
    a, b, c = 1 - grown, -2 * z, 1 + z * z - grown
    rest = b * b - 4 * a * c
    if rest <= 0:
        return 0.0
    low, high = sorted((-b + sign * math.sqrt(rest)) / (2 * a) for sign in (-1, 1))

    def mass(centre: float) -> float:
        return (math.atan(high - centre) - math.atan(low - centre)) / math.pi

    return mass(0) - grown * mass(z)


@pytest.mark.parametrize("eps", [5, 6, 7, 8, 9, 10])
def test_pure_distance_of_cauchy_noise(eps: int) -> None:
    assert radial(1.0, 1, float(eps)).pure <= 2 * math.sinh(eps / 2) * (1 + 1e-10)


@pytest.mark.parametrize("alpha", [0.5, 0.7, 1.3, 1.5])
@pytest.mark.parametrize("eps", [7, 8, 10])
def test_pure_distance_is_below_every_gap(alpha: float, eps: int) -> None:
    law = levels(alpha, 1)
    s = np.geomspace(1e-6, law.knots[4], 4000)
    gaps = _gap(law, s, float(eps))[0]
    z = calibrate(alpha=alpha, eps=eps, delta=None, method="pure", dims=1)
    assert z * (1 - 1e-9) <= gaps.min()


@pytest.mark.parametrize(("eps", "delta"), [(8, "1e-9"), (8, "1e-12"), (10, "1e-9"), (12, "1e-9")])
def test_exact_calibration_keeps_its_delta(eps: int, delta: str) -> None:
    z = calibrate(alpha=1, eps=eps, delta=delta, method="exact", dims=1)
    assert _cauchy_delta(eps, z * (1 - 1e-9)) <= float(delta) * 1.01
