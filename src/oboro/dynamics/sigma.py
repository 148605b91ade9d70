"""Noise of any shape on the output: reading Sigma, proving how far neighbours are apart in it, and its factor.

The paper's condition (10) is c ||Sigma^(-1/2) M|| <= z. Now ||Sigma^(-1/2) M|| <= g if and only if
g^2 Sigma - M M' >= 0: for every w, |M' w|^2 <= g^2 w' Sigma w; put w = Sigma^(-1/2) v. That matrix is checked
in ball arithmetic for the exact M, from rational A, B, C, D; floats only propose g.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.calibration import MARGIN, calibrate, delta_above
from oboro.dynamics.gains import _matrix, _positive, gain_from
from oboro.dynamics.system import PARTS, Matrix, Operator, System, check_horizon, check_protect, system_from
from oboro.errors import DomainError, ParameterError, setting, told
from oboro.exact import Number, positive, rational, remembered, usable
from oboro.kinds import numbers_of, text_of
from oboro.noise.laplace import as_float
from oboro.noise.lazy import Ball, ball, precision
from oboro.privacy import Approx, Pure, Unit
from oboro.privacy.guarantee import round_up

if TYPE_CHECKING:
    from flint import arb_mat

# How much noise a plan needs: the sensitivity, rounded up, and the scale, with the calibration's margin.


@remembered(256)
def sensitivity(
    system: System, horizon: int, unit: Unit, where: str, protect: tuple[str, ...], noise: str, step: Fraction
) -> Fraction:
    """An upper bound of the Euclidean distance of neighbours, where the noise is added."""
    count = Operator(system, horizon, protect).coordinates
    reach = euclidean(unit, count)
    if where == "output":
        grown = gain_from(system, horizon, unit.norm, protect)
        if grown == 0:
            raise DomainError(
                "nothing that is protected reaches the output",
                given=f"a gain of 0 from {' and '.join(protect)} over times 0 to {horizon}",
                needed="a later horizon, or noise on the input",
                fix=setting(where="input"),
            )
        assert unit.distance is not None
        return unit.distance * grown
    if noise == "discrete":  # each number moves by half a step at most when it is put on the grid
        return reach + round_up(lambda: ball(step) * ball(count).sqrt())
    return reach


def euclidean(unit: Unit, count: int) -> Fraction:
    """The unit's distance in the Euclidean norm: |x|_2 <= N^max(0, 1/2 - 1/p) |x|_p."""
    distance = unit.distance
    assert distance is not None
    excess = Fraction(1, 2) - (0 if unit.norm is None else 1 / unit.norm)
    if excess <= 0 or count == 1:
        return distance
    return round_up(lambda: ball(distance) * (ball(count).log() * ball(excess)).exp())


def needed_scale(
    reach: Fraction, guarantee: Approx | Pure, alpha: Fraction, method: str, dims: int, margin: float = MARGIN
) -> Fraction:
    """The least scale, with a margin for the errors of the calibration, rounded up to 12 digits."""
    small = guarantee.delta if isinstance(guarantee, Approx) else None
    z = calibrate(alpha=alpha, eps=guarantee.eps, delta=small, method=method, dims=dims)
    scale, more = rounded_up(reach / Fraction(z * (1 - margin)), 12), Fraction(MARGIN)
    while more < 1 and kept_delta(reach, scale, guarantee.eps, alpha, method, dims) > (small or 0):
        scale, more = (
            rounded_up(scale * (1 + more), 12),
            2 * more,
        )  # far from what is used delta is a little rough
    return scale


def kept_delta(
    reach: Fraction, scale: Fraction, eps: Fraction, alpha: Fraction, method: str, dims: int
) -> Fraction:
    """The delta that noise of this scale keeps at eps; 0 where eps is pure, and 1 where nothing is kept.

    From above: the distance is taken longer than it is, by more than the errors of a calibration.
    """
    z = reach / scale * (1 + Fraction(MARGIN) / 4)
    return Fraction(min(delta_above(alpha=alpha, eps=eps, z=z, method=method, dims=dims), 1.0))


def default_step(reach: Fraction) -> Fraction:
    """The power of ten below a thousandth of the sensitivity: rounding is then lost in the noise."""
    return Fraction(10) ** (math.floor(math.log10(reach)) - 3)


def rounded_up(number: Fraction, digits: int) -> Fraction:
    grid = Fraction(10) ** (digits - 1 - math.floor(math.log10(number)))
    return Fraction(math.ceil(number * grid)) / grid


def rounded_root(number: Fraction) -> Fraction:
    """About the square root, for choosing a grid."""
    return rounded_up(Fraction(math.sqrt(number)), 3)


_LARGEST = 256  # outputs in all: a proof takes the cube of it
_BITS = 256
_TIGHT = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5, 1e-3)  # how far above the float's g a proof is tried


def read_sigma(given: object, size: int) -> Matrix:
    """A symmetric matrix of rationals, one row for each output at each time."""
    rows = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
        rows = [[rows]] if size == 1 and not isinstance(rows, list | tuple) else []
    sigma = tuple(tuple(rational("sigma", x) for x in row) for row in rows)
    check_sigma(sigma, size)
    return sigma


def check_sigma(sigma: Matrix, size: int) -> None:
    """Refuses what is not a symmetric matrix for so many outputs. That it is positive is `distance_in`'s to prove."""
    if size > _LARGEST:
        raise ParameterError(
            "sigma is too large to be checked",
            given=f"{size} outputs in all",
            needed=f"at most {_LARGEST}",
            fix=setting(where="input") + ", which is the least sigma and needs no matrix",
        )
    if len(sigma) != size or any(len(row) != size for row in sigma):
        shape = f"{len(sigma)} x {len(sigma[0]) if sigma else 0}"
        raise ParameterError(
            "sigma does not fit the output",
            given=shape,
            needed=f"{size} x {size}: a row for each output at each time from 0 to the horizon",
            fix=told(sigma=f"numpy.eye({size})"),
        )
    if any(sigma[i][j] != sigma[j][i] for i in range(size) for j in range(i)):
        raise ParameterError(
            "sigma is not symmetric",
            given="sigma",
            needed="sigma[i][j] = sigma[j][i]",
            fix=told(sigma="(sigma + sigma.T) / 2"),
        )
    for entry in (entry for row in sigma for entry in row if abs(entry) > 1):
        usable("sigma", entry, (0, 200))


@remembered(16)
def distance_in(
    system: System, horizon: int, unit: Unit, protect: tuple[str, ...], sigma: Matrix
) -> Fraction:
    """A certified upper bound of how far apart the outputs of neighbours are, in the norm of Sigma^-1."""
    shape = floats_of(sigma)
    m = Operator(system, horizon, protect).dense()
    if not (np.isfinite(shape).all() and np.isfinite(m).all() and np.linalg.eigvalsh(shape)[0] > 0):
        raise _not_positive()
    root = np.linalg.cholesky(shape)
    guess = max(float(np.linalg.norm(np.linalg.solve(root, m), 2)), 1e-30)
    with precision(_BITS):
        square = response_square(system, horizon, protect)
        exact = ball_matrix(sigma)
        for more in _TIGHT:
            g = guess * (1 + more)
            if _positive(exact * _matrix([[g]])[0, 0] ** 2 - square):
                return euclidean(unit, Operator(system, horizon, protect).coordinates) * Fraction(g)
    raise _not_positive()


def check_condition(least: Fraction) -> None:
    """Refuses a Sigma under which noise of scale 1 is not enough: `least` is the scale that would be."""
    if least > 1:
        raise ParameterError(
            "sigma does not meet condition (10)",
            given=f"neighbours {float(least):.6g} times too far apart in its norm",
            needed="sigma >= (distance / z)^2 M M'",
            fix=told(sigma=f"sigma * {float(rounded_up(least * least, 6)):g}"),
        )


def response_square(system: System, horizon: int, protect: tuple[str, ...]) -> arb_mat:
    """M M' in balls, for the exact rational system: rows C A^t and the pulses D, CB, CAB, ..."""
    from flint import arb_mat

    n, m, q = system.states, system.inputs, system.outputs
    a, b, c, d = (
        arb_mat(rows, columns, [ball(x) for row in part for x in row])
        for part, rows, columns in ((system.a, n, n), (system.b, n, m), (system.c, q, n), (system.d, q, m))
    )
    starts, pulses, row = [], [d], c
    for _ in range(horizon + 1):
        starts.append(row)
        if n:
            pulses.append(row * b)
            row = row * a
    rows: list[list[Ball | int]] = []
    for t in range(horizon + 1):
        for k in range(q):
            one = [starts[t][k, j] for j in range(n)] if "x0" in protect else []
            if "u" in protect:
                for s in range(horizon + 1):
                    reached = s <= t and t - s < len(pulses)
                    one += [pulses[t - s][k, j] for j in range(m)] if reached else [0] * m
            rows.append(one)
    whole = arb_mat(len(rows), len(rows[0]), [x for one in rows for x in one])
    return whole * whole.transpose()


@lru_cache(maxsize=8)
def factor(sigma: Matrix, bits: int) -> tuple[tuple[Ball, ...], ...]:
    """The lower triangular L with L L' = Sigma, each entry enclosed to about `bits` bits [Cholesky]."""
    working = bits + 64
    while True:
        with precision(working):
            rows = _cholesky(sigma)
        if rows is not None:
            return rows
        working *= 2  # a pivot that touches 0 is above it, as was proved: see it more closely


def _cholesky(sigma: Matrix) -> tuple[tuple[Ball, ...], ...] | None:
    rows: list[list[Ball]] = []
    for i, given in enumerate(sigma):
        row: list[Ball] = []
        for j in range(i + 1):
            rest = ball(given[j])
            other = row if j == i else rows[j]
            for k in range(j):
                rest -= row[k] * other[k]
            if j < i:
                row.append(rest / rows[j][j])
            elif rest > 0:
                row.append(rest.sqrt())
            else:
                return None
        rows.append(row)
    return tuple(map(tuple, rows))


def floats_of(sigma: Matrix) -> Floats:
    return np.array([[float(x) for x in row] for row in sigma])


def ball_matrix(sigma: Matrix) -> arb_mat:
    from flint import arb_mat

    return arb_mat(len(sigma), len(sigma), [ball(x) for row in sigma for x in row])


def _not_positive() -> ParameterError:
    return ParameterError(
        "sigma is not positive definite, or too close to singular to be proved so",
        given="sigma",
        needed="noise in every direction in which the output can move",
        fix="sigma + 0.001 * numpy.eye(len(sigma))",
    )


# Theorem 1 with any Sigma: checks the paper's condition (10), and designs Sigma. Dense matrices, for study.
#
# (10) says lambda_max(M' Sigma^-1 M)^(1/2) <= Q^-1(delta)/c, which is Sigma >= (c/Q^-1)^2 M M'. So Sigma* =
# (c/Q^-1)^2 M M' is the least Sigma that (10) allows, for every cost that grows with Sigma, and Sigma* is the
# response to isotropic noise on the input: this is why plans put the noise there. `plan(..., sigma=...)`
# releases under any Sigma that meets (10).


@dataclass(frozen=True, slots=True)
class Condition:
    """Both sides of (10). `holds` is decided by balls, with half of the calibration's margin, not by the floats shown."""

    left: float
    right: float
    holds: bool


def condition(
    system: object,
    shape: npt.ArrayLike,
    *,
    horizon: int,
    alpha: Number,
    eps: Number,
    delta: Number,
    distance: Number = 1,
    method: str = "theorem1",
    protect: Sequence[str] = PARTS,
) -> Condition:
    """Whether noise SG(alpha, Sigma) on the output is (eps, delta)-private by condition (10).

    >>> sigma = ob.dynamics.design(feeder, horizon=1, alpha="1.5", eps=1, delta="1e-2", kind="scalar")
    >>> ob.dynamics.condition(feeder, 2 * sigma, horizon=1, alpha="1.5", eps=1, delta="1e-2").holds
    True
    >>> ob.dynamics.condition(feeder, sigma / 2, horizon=1, alpha="1.5", eps=1, delta="1e-2").holds
    False
    """
    m = _operator(system, horizon, protect)
    sigma = numbers_of("shape", shape)
    if sigma.shape != (len(m), len(m)) or not np.array_equal(sigma, sigma.T):
        raise ParameterError(
            "Sigma does not fit the output",
            given=f"shape {sigma.shape}",
            needed=f"symmetric, {len(m)} x {len(m)}",
            fix=told(shape=f"numpy.eye({len(m)})"),
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
    system: object,
    *,
    horizon: int,
    alpha: Number,
    eps: Number,
    delta: Number,
    distance: Number = 1,
    kind: str = "optimal",
    method: str = "theorem1",
    protect: Sequence[str] = PARTS,
) -> Floats:
    """A Sigma that meets (10): "scalar" is ||M||^2 I, "optimal" is M M', each times (c/Q^-1)^2.

    M M' may be singular, and then has no inverse for (10) to speak of. It is still right: it is the noise of
    the input.

    >>> ob.dynamics.design(feeder, horizon=1, alpha="1.5", eps=1, delta="1e-2").shape
    (2, 2)
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


def _operator(system: object, horizon: int, protect: Sequence[str]) -> Floats:
    return Operator(system_from(system), check_horizon(horizon), check_protect(protect)).dense()
