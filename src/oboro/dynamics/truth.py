"""The true output of a system as real numbers, enclosed as closely as asked: the centre of output noise.

Noise on the output is calibrated to the exact response. A float's rounding could move neighbours further
apart than the gain says; a ball that shrinks on demand cannot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.laws import Values
from oboro.dynamics.system import System
from oboro.noise import floatball as fb
from oboro.noise.lazy import Real, ball, precision


class Truth:
    """y(t) for times that have been fed in. Inputs are floats, exactly."""

    def __init__(self, system: System, x0: Floats, u: Floats | None = None) -> None:
        self._system = system
        self._x0 = [float(x) for x in x0]
        self._inputs: list[list[float]] = [] if u is None else u.tolist()
        self._runs: dict[int, _Run] = {}

    def feed(self, u: Floats) -> None:
        """The input at the next time."""
        self._inputs.append([float(x) for x in u])

    def values(self) -> Values:
        """All outputs so far, in the order of time."""
        outputs = self._system.outputs

        def exact(i: int) -> Real:
            return self.output(*divmod(i, outputs))

        with precision(128):
            balls = [fb.float_ball(exact(i)()) for i in range(len(self._inputs) * outputs)]
        mid, rad = np.array(balls).T.copy()
        return Values(mid, rad, exact)

    def output(self, time: int, channel: int) -> Real:
        """One output at one time, as a function that encloses it at the precision in force."""

        def enclose() -> Any:
            from flint import ctx

            if ctx.prec not in self._runs:
                self._runs[ctx.prec] = _Run(self._system, self._x0)
            return self._runs[ctx.prec].upto(time, self._inputs)[channel]

        return enclose


class _Run:
    """The recursion in balls at one precision, as far as it has been needed."""

    def __init__(self, system: System, x0: list[float]) -> None:
        from flint import arb, arb_mat

        n, m, q = system.states, system.inputs, system.outputs
        shapes = ((system.a, n, n), (system.b, n, m), (system.c, q, n), (system.d, q, m))
        self.a, self.b, self.c, self.d = (
            arb_mat(rows, columns, [ball(x) for row in part for x in row]) for part, rows, columns in shapes
        )
        self.x = arb_mat(n, 1, [arb(x) for x in x0])
        self.y: list[list[Any]] = []

    def upto(self, time: int, inputs: list[list[float]]) -> list[Any]:
        from flint import arb, arb_mat

        while len(self.y) <= time:
            now = inputs[len(self.y)]
            u = arb_mat(len(now), 1, [arb(x) for x in now])
            y = self.c * self.x + self.d * u if self.x.nrows() else self.d * u
            self.y.append([y[i, 0] for i in range(y.nrows())])
            if self.x.nrows():
                self.x = self.a * self.x + self.b * u
        return self.y[time]
