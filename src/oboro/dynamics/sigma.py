"""Noise of any shape on the output: reading Sigma, proving how far neighbours are apart in it, and its factor.

The paper's condition (10) is c ||Sigma^(-1/2) M|| <= z. Now ||Sigma^(-1/2) M|| <= g if and only if
g^2 Sigma - M M' >= 0: for every w, |M' w|^2 <= g^2 w' Sigma w; put w = Sigma^(-1/2) v. That matrix is checked
in ball arithmetic for the exact M, from rational A, B, C, D; floats only propose g.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.gains import _matrix, _positive
from oboro.dynamics.operators import Operator
from oboro.dynamics.sizing import euclidean, rounded_up
from oboro.dynamics.system import Matrix, System
from oboro.errors import ParameterError, setting, told
from oboro.exact import rational, usable
from oboro.noise.lazy import Ball, ball, precision
from oboro.privacy import Unit

_LARGEST = 256  # outputs in all: a proof takes the cube of it
_BITS = 256
_TIGHT = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5, 1e-3)  # how far above the float's g a proof is tried


def read_sigma(given: Any, size: int) -> Matrix:
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
            fix="(sigma + sigma.T) / 2",
        )
    for entry in (entry for row in sigma for entry in row if abs(entry) > 1):
        usable("sigma", entry, (0, 200))


@lru_cache(maxsize=16)
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


def response_square(system: System, horizon: int, protect: tuple[str, ...]) -> Any:
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
    rows: list[list[Any]] = []
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


def ball_matrix(sigma: Matrix) -> Any:
    from flint import arb_mat

    return arb_mat(len(sigma), len(sigma), [ball(x) for row in sigma for x in row])


def _not_positive() -> ParameterError:
    return ParameterError(
        "sigma is not positive definite, or too close to singular to be proved so",
        given="sigma",
        needed="noise in every direction in which the output can move",
        fix="sigma + 0.001 * numpy.eye(len(sigma))",
    )
