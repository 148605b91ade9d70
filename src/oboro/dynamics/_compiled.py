"""Running a system, compiled."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Floats


@compiled
def respond_to(a: Floats, b: Floats, c: Floats, d: Floats, x0: Floats, u: Floats) -> Floats:
    """y(t) = C x(t) + D u(t) for every row of u, from the state x0."""
    n, m, q = a.shape[0], b.shape[1], c.shape[0]
    x, following = x0.copy(), np.zeros(n)
    y = np.empty((u.shape[0], q))
    for t in range(u.shape[0]):
        for i in range(q):
            total = 0.0
            for k in range(n):
                total += c[i, k] * x[k]
            for k in range(m):
                total += d[i, k] * u[t, k]
            y[t, i] = total
        for i in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * x[k]
            for k in range(m):
                total += b[i, k] * u[t, k]
            following[i] = total
        for i in range(n):
            x[i] = following[i]
    return y


# The backward Riccati recursion in floats, compiled. It proposes; gains.py proves.


@compiled
def _next(
    a: Floats,
    b: Floats,
    c: Floats,
    d: Floats,
    square: float,
    p: Floats,
    work: Floats,
    root: Floats,
    out: Floats,
) -> bool:
    """out = C'C + A'PA + S R^-1 S', R = g^2 I - D'D - B'PB, S = A'PB + C'D; False if R is not positive
    definite.

    R = L L' by Cholesky, and S R^-1 S' = W W' with W = S L'^-1.
    """
    n, m, q = a.shape[0], b.shape[1], c.shape[0]
    pa, pb = work[:n, :], root[:n, :]
    for i in range(n):
        for j in range(n):
            pa[i, j] = 0.0
            for k in range(n):
                pa[i, j] += p[i, k] * a[k, j]
        for j in range(m):
            pb[i, j] = 0.0
            for k in range(n):
                pb[i, j] += p[i, k] * b[k, j]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(q):
                total += c[k, i] * c[k, j]
            for k in range(n):
                total += a[k, i] * pa[k, j]
            out[i, j] = total
    low, side = root[n : n + m, :], root[n + m : n + m + n, :]
    for i in range(m):
        for j in range(i + 1):
            total = square if i == j else 0.0
            for k in range(q):
                total -= d[k, i] * d[k, j]
            for k in range(n):
                total -= b[k, i] * pb[k, j]
            for k in range(j):
                total -= low[i, k] * low[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                low[i, i] = math.sqrt(total)
            else:
                low[i, j] = total / low[j, j]
    for i in range(n):
        for j in range(m):
            total = 0.0
            for k in range(n):
                total += a[k, i] * pb[k, j]
            for k in range(q):
                total += c[k, i] * d[k, j]
            for k in range(j):
                total -= side[i, k] * low[j, k]
            side[i, j] = total / low[j, j]
    for i in range(n):
        for j in range(i + 1):
            for k in range(m):
                out[i, j] += side[i, k] * side[j, k]
            out[j, i] = out[i, j]
    return True


@compiled
def _below(p: Floats, square: float, work: Floats) -> bool:
    """Whether g^2 I - P is positive definite."""
    n = p.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = (square if i == j else 0.0) - p[i, j]
            for k in range(j):
                total -= work[i, k] * work[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                work[i, i] = math.sqrt(total)
            else:
                work[i, j] = total / work[j, j]
    return True


@compiled
def feasible(a: Floats, b: Floats, c: Floats, d: Floats, steps: int, g: float, start: bool) -> bool:
    """Whether the recursion reaches time 0, and P_0 < g^2 I where the start is protected."""
    n, m = a.shape[0], b.shape[1]
    p, out = np.zeros((n, n)), np.zeros((n, n))
    work, root = np.zeros((n + 1, n + 1)), np.zeros((2 * n + m, m))
    for _ in range(steps + 1):
        if not _next(a, b, c, d, g * g, p, work, root, out):
            return False
        same = True
        for i in range(n):
            for j in range(n):
                same &= p[i, j] == out[i, j]
                p[i, j] = out[i, j]
        if same:
            break
    return _below(p, g * g, work) if start else True


@compiled
def recursion(
    a: Floats, b: Floats, c: Floats, d: Floats, steps: int, g: float, extra: float
) -> tuple[Floats, int]:
    """P_{T+1} = 0 to P_0, each with `extra` added on its diagonal; and how many there are until one repeats itself."""
    n, m = a.shape[0], b.shape[1]
    path = np.zeros((steps + 2, n, n))
    work, root, out = np.zeros((n + 1, n + 1)), np.zeros((2 * n + m, m)), np.zeros((n, n))
    for t in range(steps + 1):
        if not _next(a, b, c, d, g * g, path[t], work, root, out):
            return path, 0
        same = t > 0
        largest = 0.0
        for i in range(n):
            largest = max(largest, out[i, i])
        for i in range(n):
            out[i, i] += extra + 1e-14 * largest
            for j in range(n):
                same &= path[t, i, j] == out[i, j]
                path[t + 1, i, j] = out[i, j]
        if same:
            return path, t + 2
    return path, steps + 2


def stationary(a: Floats, b: Floats, c: Floats, d: Floats, g: float, extra: float = 0.0) -> Floats | None:
    """The P that the recursion tends to, with `extra` added on its diagonal each time; None if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # near the least g everything is badly conditioned: what comes out is checked
        try:
            return _stationary(a, b, c, d, g, extra)
        except (np.linalg.LinAlgError, ValueError):  # singular, or no longer finite
            return None


def _stationary(a: Floats, b: Floats, c: Floats, d: Floats, g: float, extra: float) -> Floats | None:
    from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

    n, m = a.shape[0], b.shape[1]
    weight = c.T @ c + extra * np.eye(n)
    room = g * g * np.eye(m) - d.T @ d
    if m and np.linalg.eigvalsh(room)[0] <= 0:
        return None
    if not n or not m:
        return np.asarray(solve_discrete_lyapunov(a.T, weight)) if n else np.zeros((0, 0))
    p = solve_discrete_are(a, b, weight, -room, s=c.T @ d)
    for _ in range(4):  # Newton: the error of the step before, through the closed loop
        p = (p + p.T) / 2
        rest, side = room - b.T @ p @ b, a.T @ p @ b + c.T @ d
        if not np.isfinite(p).all() or np.linalg.eigvalsh(rest)[0] <= 0:
            return None
        miss = weight + a.T @ p @ a + side @ np.linalg.solve(rest, side.T) - p
        p = p + solve_discrete_lyapunov((a + b @ np.linalg.solve(rest, side.T)).T, miss)
    p = (p + p.T) / 2
    small = 1e-9 * np.abs(p).max()
    return p if np.abs(miss).max() <= small and np.linalg.eigvalsh(p)[0] >= -small else None
