"""||[O_T N_T]||: the largest factor by which a change of (x0, u) can grow on its way to the output.
Certified.

Finite horizon
    ||M|| <= g if there are matrices P_0, ..., P_{T+1} >= 0 with P_0 <= g^2 I and, for every t,

        [ P_t - C'C - A'P_{t+1}A    -(A'P_{t+1}B + C'D)          ]
        [ .                          g^2 I - D'D - B'P_{t+1}B    ]  >= 0.

    Why: the form at (x(t), u(t)) says |y(t)|^2 + x(t+1)'P_{t+1}x(t+1) <= x(t)'P_t x(t) + g^2 |u(t)|^2. Add up
    over t: |Y|^2 <= x0'P_0 x0 + g^2 |U|^2 <= g^2 (|x0|^2 + |U|^2). (Equality in the form is the Riccati
    recursion, with which g is found: D5 of the notes.) Where only u is protected x0 = 0 and P_0 is free;
    where only x0 is, B and D are left out.

Short horizon
    Where no P_t can be proved (C has no say, or numbers lie further apart than float64 can tell) and M has at most 120 rows or
    columns, g^2 I - M M' or g^2 I - M'M is proved positive definite itself. A gain of 0 is found in exact rationals.

What is trusted
    A float64 recursion proposes g and the P_t, with a little added. Then every matrix inequality is checked
    for the exact rational system in ball arithmetic, each for itself, so no error builds up. A power
    iteration would come from below, which is the unsafe side; nothing here does.

Other norms
    Neighbours within c in the 1-norm are within c times the longest column of M: a change by c in one number is the worst, as |Mx| is convex. A column
    of u is longest for the first time, so there are few to look at, each enclosed in ball arithmetic: exact, up to rounding upwards. For 1 < p < 2
    the norm from p to 2 is at most L^(2/p - 1) g^(2 - 2/p), L the longest column and g = ||M|| [Riesz and Thorin; complex norms of a
    real M from 1 to 2 and from 2 to 2 are the real ones]. For p > 2, |x|_2 <= N^(1/2 - 1/p) |x|_p [Hölder].

Infinite horizon
    One P for all times, for a stable system. With x0 protected this is at most sqrt(||G||_inf^2 +
    lambda_max(W_o)), and usually much less.

How close
    Over a finite horizon mostly within 1e-9 of the truth, where float64 is short of digits within 1%. Over all times within 1e-9 for systems
    whose states are scaled alike; where A is far from normal P is all but singular, and what can be proved lies further above: 1%
    is not rare, and 91% was seen. Never below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats
from oboro.dynamics.system import PARTS, Matrix, Operator, System, check_horizon, check_protect, system_from
from oboro.errors import ParameterError, setting
from oboro.noise.lazy import Ball, ball, precision
from oboro.privacy.guarantee import round_up

if TYPE_CHECKING:
    from flint import arb_mat

_TIGHT = (2e-11, 8e-11, 3e-10, 8e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # how far above the float's g a proof is tried
_LOOSE = (
    3e-2,
    1e-1,
    3e-1,
)  # and how far where A is so far from normal that doubles show no more: any bound is better than none
_BITS = 128
_LARGEST = 120  # rows or columns of a matrix that is proved as a whole


def gain(system: object, horizon: int | None, protect: Sequence[str] = PARTS) -> float:
    """A certified upper bound of ||[O_T N_T]||, T = `horizon` (times 0 to T; None for all times), nearly attained.

    Over all times it may lie further above, where A is far from normal; a long finite horizon is then closer.

    >>> ob.dynamics.gain(feeder, horizon=3)
    1.7386...
    """
    plant, parts = system_from(system), check_protect(protect)
    last = None if horizon is None else check_horizon(horizon)
    if _silent(plant, parts, last):
        return 0.0
    if last is None:
        return _infinite(plant, parts)
    steps = last if any(map(any, plant.c)) else 0  # without C every time is for itself
    _, high = _search(plant, steps, parts)
    for more in _TIGHT:
        g = math.nextafter(high * (1 + more), math.inf)
        # an own recursion at a slightly smaller gain leaves room in every inequality
        weights = _weights(plant, steps, parts, high * (1 + more / 2), more)
        if weights is not None and _certain(plant, parts, g, weights):
            return g
        if more >= _TIGHT[3] and (whole := _whole(plant, steps, parts)) is not None:
            return whole
    raise _too_hard(plant, f"horizon={steps}")


def gain_from(system: System, horizon: int, norm: Fraction | None, protect: tuple[str, ...]) -> Fraction:
    """No less than the largest |M x|_2 over |x|_p <= 1, p = `norm`, None for infinity: exact for p = 1, to 1e-9 for p = 2."""
    full = Fraction(gain(system, horizon, protect))
    if full == 0 or norm == 2:
        return full
    if norm is None or norm > 2:
        count, excess = (
            Operator(system, horizon, protect).coordinates,
            Fraction(1, 2) - (0 if norm is None else 1 / norm),
        )
        return round_up(lambda: ball(full) * (ball(count).log() * ball(excess)).exp())
    longest = _longest_column(system, horizon, protect)
    if norm == 1:
        return min(full, longest)
    share = 2 / norm - 1
    return round_up(
        lambda: (ball(min(full, longest)).log() * ball(share) + ball(full).log() * ball(1 - share)).exp()
    )


def _longest_column(system: System, steps: int, parts: tuple[str, ...]) -> Fraction:
    """The longest column of M, rounded up: C, CA, ..., CA^T below one another, and D, CB, ..., CA^(T-1)B."""

    def lengths() -> Ball:
        a, b, c, d = _balls(system, parts)
        square = [sum((d[i, j] ** 2 for i in range(d.nrows())), ball(0)) for j in range(d.ncols())]
        start = [ball(0)] * (system.states if "x0" in parts else 0)
        row = c
        for t in range(steps + 1):
            start = [
                total + sum((row[i, j] ** 2 for i in range(row.nrows())), ball(0))
                for j, total in enumerate(start)
            ]
            pulse = row * b
            if t < steps:
                square = [
                    total + sum((pulse[i, j] ** 2 for i in range(pulse.nrows())), ball(0))
                    for j, total in enumerate(square)
                ]
            row = row * a
        longest = ball(0)
        for one in [*start, *square]:
            longest = longest.max(one)
        return longest.sqrt()

    return round_up(lengths)


def _silent(system: System, parts: tuple[str, ...], last: int | None) -> bool:
    """Whether nothing of what is protected reaches the output in time: C A^k B = 0 for all k if for k below the number of states."""
    if "x0" in parts and any(map(any, system.c)):
        return False
    if "u" not in parts:
        return True
    if any(map(any, system.d)):
        return False
    rows = [list(row) for row in system.c]
    for _ in range(system.states if last is None else min(system.states, last)):
        if any(map(any, _product(rows, system.b))):
            return False
        rows = _product(rows, system.a)
    return True


def _product(rows: Sequence[Sequence[Fraction]], matrix: Matrix) -> list[list[Fraction]]:
    return [
        [
            sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0))
            for column in zip(*matrix, strict=True)
        ]
        for row in rows
    ]


def _whole(system: System, steps: int, parts: tuple[str, ...]) -> float | None:
    """The gain of a small M, by a proof for M M' or M'M itself; None if M is large."""
    operator = Operator(system, steps, parts)
    if min(operator.shape) > _LARGEST or max(operator.shape) > 20 * _LARGEST:
        return None
    with precision(4 * _BITS):
        a, b, c, d = _balls(system, parts)
        n, q, m = system.states, system.outputs, b.ncols()
        start = n if "x0" in parts else 0
        rows = [[0] * operator.shape[1] for _ in range(operator.shape[0])]
        pulse, row = d, c
        for k in range(steps + 1):  # block k below the diagonal is D, CB, CAB, ...; C A^k acts on the start
            for t, i in product(range(k, steps + 1), range(q)):
                for j in range(m):
                    rows[t * q + i][start + (t - k) * m + j] = pulse[i, j]
            for i, j in product(range(q), range(start)):
                rows[k * q + i][j] = row[i, j]
            if n:
                pulse, row = row * b, row * a
        from flint import arb_mat

        matrix = arb_mat(rows)
        least = matrix * matrix.transpose() if len(rows) <= len(rows[0]) else matrix.transpose() * matrix
        size = least.nrows()
        about = math.sqrt(
            np.linalg.eigvalsh(
                np.array([[float(least[i, j]) for j in range(size)] for i in range(size)])
            ).max()
        )
        for more in _TIGHT:
            g = math.nextafter(about * (1 + more), math.inf)
            if _positive(_identity(size, _matrix([[g]])[0, 0] ** 2) - least):
                return g
    return None


def _search(system: System, steps: int, parts: tuple[str, ...]) -> tuple[float, float]:
    """The gain in floats, by bisection on the Riccati recursion: it exists up to the last step, or it does not."""
    from oboro.dynamics._compiled import feasible

    a, b, c, d = _arrays(system, parts)
    low, high = _bounds(a, b, c, d, steps, parts)
    if high == 0:
        return 0.0, 0.0
    while high > low * (1 + 2e-12):
        middle = math.sqrt(low * high) if low > 0 else high / 4
        if middle in (low, high) or middle < 1e-300:
            break
        if feasible(a, b, c, d, steps, middle, "x0" in parts):
            high = middle
        else:
            low = middle
    return low, high


def _weights(
    system: System, steps: int, parts: tuple[str, ...], g: float, more: float
) -> Iterable[Floats] | None:
    """P_{T+1}, ..., P_0 of the recursion at g, each a little above what the one before asks for."""
    from oboro.dynamics._compiled import recursion

    a, b, c, d = _arrays(system, parts)
    scale = float(np.abs(c.T @ c).max(initial=0.0))
    path, done = recursion(a, b, c, d, steps, g, 1e-4 * more * scale)
    if "x0" not in parts and done == steps + 2:
        path[done - 1] += 2 * (np.trace(path[done - 1]) + 1e-300) * np.eye(len(a))  # P_0 is free
    return path[:done] if done > 0 else None


def _certain(system: System, parts: tuple[str, ...], g: float, weights: Iterable[Floats]) -> bool:
    """Whether every inequality holds, beyond doubt. The last P may stand for all earlier ones, if it repeats itself."""
    with precision(_BITS):
        a, b, c, d = _balls(system, parts)
        square = _matrix([[g]])[0, 0] ** 2
        proof = _Proof(a, b, c, d, square)
        last = None
        for later, earlier in pairwise(map(_matrix, weights)):
            if not proof.step(earlier, later):
                return False
            last = earlier
        if last is None:
            return False
        return "x0" not in parts or _positive(_identity(last.nrows(), square) - last)


class _Proof:
    """The matrix inequality of one step, for exact matrices."""

    def __init__(self, a: arb_mat, b: arb_mat, c: arb_mat, d: arb_mat, square: Ball) -> None:
        self.a, self.b, self.square = a, b, square
        self.at, self.bt = a.transpose(), b.transpose()
        self.cc, self.cd = c.transpose() * c, c.transpose() * d
        self.room = _identity(b.ncols(), square) - d.transpose() * d

    def step(self, earlier: arb_mat, later: arb_mat) -> bool:
        n, m = self.a.nrows(), self.b.ncols()
        pb = later * self.b
        corner = earlier - self.cc - self.at * later * self.a
        if not m:
            return _positive(corner)
        side = self.at * pb + self.cd
        rest = self.room - self.bt * pb
        if not n:
            return _positive(rest)
        from flint import arb_mat

        rows = [[corner[i, j] for j in range(n)] + [-side[i, j] for j in range(m)] for i in range(n)]
        rows += [[-side[j, i] for j in range(n)] + [rest[i, j] for j in range(m)] for i in range(m)]
        return _positive(arb_mat(rows))


def _positive(matrix: arb_mat) -> bool:
    """Whether a symmetric matrix of balls is surely positive definite: Cholesky, every pivot surely above 0."""
    n = matrix.nrows()
    rows = [[matrix[i, j] for j in range(i + 1)] for i in range(n)]
    for k in range(n):
        pivot = rows[k][k]
        if not pivot > 0:
            return False
        for i in range(k + 1, n):
            factor = rows[i][k] / pivot
            for j in range(k + 1, i + 1):
                rows[i][j] = rows[i][j] - factor * rows[j][k]
    return True


def _infinite(system: System, parts: tuple[str, ...]) -> float:
    """One P for every step. Its search starts from the gain over a long time."""
    radius = system.radius
    if radius >= 1 - 1e-9:
        raise ParameterError(
            "an unstable system has no gain over infinite time",
            given=f"an eigenvalue of modulus {radius:.6g}",
            needed="all below 1, or a finite horizon",
            fix=setting(horizon=1000),
        )
    from oboro.dynamics._compiled import stationary

    a, b, c, d = _arrays(system, parts)

    def found(g: float, extra: float = 0.0) -> Floats | None:
        p = stationary(a, b, c, d, g, extra)
        return (
            p
            if p is not None and ("x0" not in parts or np.linalg.eigvalsh(p).max(initial=0.0) < g * g)
            else None
        )

    low = _search(system, 200, parts)[0]
    high, more, most = low, 1e-9, 1e6 * low + 1e-290
    while found(high) is None:  # the gain over 200 steps is a start
        if high > most:
            raise _too_hard(system, "horizon=None")
        low, high, more = high, high * (1 + more) + 1e-300, 3 * more
    while high > low * (1 + 2e-11):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) is not None else (middle, high)
    scale = float(np.abs(c.T @ c).max(initial=0.0))
    for more in (*_TIGHT[1:], *_LOOSE):
        g = math.nextafter(high * (1 + more), math.inf)
        for share in (0.1, 3e-2, 1e-2, 1e-3, 1e-5):
            p = found(high * (1 + more / 2), share * more * scale)
            with precision(_BITS):
                if (
                    p is not None
                    and (not len(p) or _positive(_matrix(p)))
                    and _certain(system, parts, g, [p, p])
                ):
                    return g
    raise _too_hard(system, "horizon=None")


@np.errstate(over="ignore")  # what is beyond doubles is refused below, in words
def _bounds(
    a: Floats, b: Floats, c: Floats, d: Floats, steps: int, parts: tuple[str, ...]
) -> tuple[float, float]:
    """A lower and an upper bound: the largest entry, and the sum of the Frobenius norms of all blocks."""
    total, squares, largest, row = float(np.sqrt((d * d).sum())), 0.0, float(np.abs(d).max(initial=0.0)), c
    for t in range(steps + 1):
        entries = [row] if "x0" in parts else []
        if "x0" in parts:
            squares += float((row * row).sum())
        if t < steps:
            pulse = row @ b
            total += math.sqrt((pulse * pulse).sum())
            entries.append(pulse)
        largest = max(largest, *(float(np.abs(entry).max(initial=0.0)) for entry in entries), 0.0)
        row = row @ a
        if float(np.abs(row).max(initial=0.0)) < 1e-200:
            break
    return largest, math.hypot(total, math.sqrt(squares))


def _arrays(system: System, parts: tuple[str, ...]) -> tuple[Floats, Floats, Floats, Floats]:
    a, b, c, d = system.arrays()
    return (a, b, c, d) if "u" in parts else (a, b[:, :0], c, d[:, :0])


def _balls(system: System, parts: tuple[str, ...]) -> Iterator[arb_mat]:
    from flint import arb_mat

    n, q, m = system.states, system.outputs, system.inputs if "u" in parts else 0
    shapes = ((system.a, n, n), (system.b, n, m), (system.c, q, n), (system.d, q, m))
    return (
        arb_mat(rows, columns, [ball(part[i][j]) for i in range(rows) for j in range(columns)])
        for part, rows, columns in shapes
    )


def _matrix(floats: npt.ArrayLike) -> arb_mat:
    """A matrix of floats, exactly; symmetric by construction."""
    from flint import arb, arb_mat

    array = np.asarray(floats, float)
    return arb_mat(
        array.shape[0], array.shape[1] if array.ndim > 1 else 0, [arb(x) for x in array.ravel().tolist()]
    )


def _identity(size: int, times: Ball) -> arb_mat:
    from flint import arb_mat

    return arb_mat(size, size, [times if i == j else 0 for i in range(size) for j in range(size)])


def _too_hard(system: System, horizon: str) -> ParameterError:
    return ParameterError(
        "the gain could not be certified",
        given=f"{system.states} states, {horizon}",
        needed="a system whose numbers are not further apart than float64 can tell",
        fix="a balanced realisation of the system, or a shorter horizon",
    )
