"""Theorem 1 with any Sigma: checks the paper's condition (10), and designs Sigma. Dense matrices, for study.

(10) says lambda_max(M' Sigma^-1 M)^(1/2) <= Q^-1(delta)/c, which is Sigma >= (c/Q^-1)^2 M M'. So Sigma* =
(c/Q^-1)^2 M M' is the least Sigma that (10) allows, for every cost that grows with Sigma, and Sigma* is the
response to isotropic noise on the input: this is why plans put the noise there. `plan(..., sigma=...)`
releases under any Sigma that meets (10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.calibration import MARGIN, calibrate
from oboro.dynamics.gains import _matrix, _positive
from oboro.dynamics.operators import PARTS, Operator, check_horizon, check_protect
from oboro.dynamics.sigma import response_square
from oboro.dynamics.system import system_from
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, usable
from oboro.kinds import numbers_of, text_of
from oboro.noise.laplace import as_float
from oboro.noise.lazy import precision


@dataclass(frozen=True, slots=True)
class Condition:
    """Both sides of (10). `holds` is decided by balls, with half of the calibration's margin, not by the floats shown."""

    left: float
    right: float
    holds: bool


def condition(
    system: Any,
    shape: npt.ArrayLike,
    *,
    horizon: int,
    alpha: Number,
    eps: Number,
    delta: Number,
    distance: Number = 1,
    method: str = "theorem1",
    protect: Any = PARTS,
) -> Condition:
    """Whether noise SG(alpha, Sigma) on the output is (eps, delta)-private by condition (10)."""
    m = _operator(system, horizon, protect)
    sigma = numbers_of("shape", shape)
    if sigma.shape != (len(m), len(m)) or not np.array_equal(sigma, sigma.T):
        raise ParameterError(
            "Sigma does not fit the output",
            given=f"shape {sigma.shape}",
            needed=f"symmetric, {len(m)} x {len(m)}",
            fix="numpy.eye(len(m))",
        )
    reach = max(as_float(positive("distance", distance)), 1e-300)
    right = calibrate(alpha=alpha, eps=eps, delta=delta, method=method, dims=len(m)) / reach
    with precision(192):
        exact = response_square(system_from(system), check_horizon(horizon), check_protect(protect))
        least = exact / _matrix([[right * (1 - MARGIN / 2)]])[0, 0] ** 2
        holds = _positive(_matrix(sigma)) and _positive(_matrix(sigma) - least)
    left = (
        float(np.sqrt(np.linalg.eigvalsh(m.T @ np.linalg.solve(sigma, m))[-1]))
        if np.linalg.eigvalsh(sigma)[0] > 0
        else np.inf
    )
    return Condition(left, right, holds)


def design(
    system: Any,
    *,
    horizon: int,
    alpha: Number,
    eps: Number,
    delta: Number,
    distance: Number = 1,
    kind: str = "optimal",
    method: str = "theorem1",
    protect: Any = PARTS,
) -> Floats:
    """A Sigma that meets (10): "scalar" is ||M||^2 I, "optimal" is M M', each times (c/Q^-1)^2.

    M M' may be singular, and then has no inverse for (10) to speak of. It is still right: it is the noise of
    the input.
    """
    m = _operator(system, horizon, protect)
    z = calibrate(alpha=alpha, eps=eps, delta=delta, method=method, dims=len(m)) * (1 - MARGIN)
    factor = (usable("distance", positive("distance", distance)) / z) ** 2
    kind = text_of("kind", kind)
    if kind == "optimal":
        return np.asarray(factor * (m @ m.T))
    if kind == "scalar":
        return np.asarray(factor * np.linalg.norm(m, 2) ** 2 * np.eye(len(m)))
    raise ParameterError(
        "kind is unknown",
        given=told(kind=repr(kind)),
        needed='"scalar" or "optimal"',
        fix=setting(kind="optimal"),
    )


def _operator(system: Any, horizon: int, protect: Any) -> Floats:
    return Operator(system_from(system), check_horizon(horizon), check_protect(protect)).dense()
