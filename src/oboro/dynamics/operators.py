"""O_T and N_T: Y = O x0 + N U over times 0 to T. Dense for study, and without any matrix for long records.

O stacks C, CA, ..., CA^T (the paper's (6) prints a row; (5) needs a column). N is block Toeplitz: D on the
diagonal, then CB, CAB, ...
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.system import System
from oboro.errors import ParameterError, setting, told
from oboro.exact import whole
from oboro.kinds import takes

PARTS = ("x0", "u")
_MOST_ENTRIES = 50_000_000
_FEW = 20_000  # multiplications of a record that is run without compiled code


def check_protect(protect: object) -> tuple[str, ...]:
    """Which parts of (x0, u) are private, in this order."""
    given = (
        (protect,)
        if isinstance(protect, str)
        else tuple(protect)
        if isinstance(protect, tuple | list | set)
        else ()
    )
    if not given or not all(isinstance(part, str) and part in PARTS for part in given):
        raise ParameterError(
            "protect is not understood",
            given=told(protect=repr(protect)),
            needed='"x0", "u" or both',
            fix=setting(protect=("x0", "u")),
        )
    return tuple(part for part in PARTS if part in given)


@dataclass(frozen=True, slots=True)
class Operator:
    """M = [O N], or the part of it that acts on what is protected, for times 0 to `horizon`. Matrix-free."""

    system: System
    horizon: int
    protect: tuple[str, ...] = PARTS

    @property
    def shape(self) -> tuple[int, int]:
        return (self.horizon + 1) * self.system.outputs, self.coordinates

    @property
    def coordinates(self) -> int:
        """How many numbers are protected."""
        states = self.system.states if "x0" in self.protect else 0
        return states + ((self.horizon + 1) * self.system.inputs if "u" in self.protect else 0)

    def split(self, vector: Floats) -> tuple[Floats, Floats]:
        """A vector of protected numbers as x0 and the input over time; what is not protected is 0."""
        states = self.system.states if "x0" in self.protect else 0
        x0 = vector[:states] if states else np.zeros(self.system.states)
        rest = vector[states:]
        steps = self.horizon + 1
        return x0, rest.reshape(steps, -1) if "u" in self.protect else np.zeros((steps, self.system.inputs))

    def __matmul__(self, vector: Floats) -> Floats:
        """M v, by running the system."""
        return respond(self.system, *self.split(np.asarray(vector, float))).ravel()

    def adjoint(self, outputs: Floats) -> Floats:
        """M' y, by running the system backwards."""
        a, b, c, d = self.system.arrays()
        y = np.asarray(outputs, float).reshape(self.horizon + 1, -1)
        later = np.zeros(self.system.states)
        u = np.empty((self.horizon + 1, self.system.inputs))
        for t in range(self.horizon, -1, -1):
            u[t] = d.T @ y[t] + b.T @ later
            later = c.T @ y[t] + a.T @ later
        parts = [later] if "x0" in self.protect else []
        return np.concatenate([*parts, u.ravel()] if "u" in self.protect else parts)

    def dense(self) -> Floats:
        """The matrix itself, for study."""
        blocks = {"x0": observability, "u": toeplitz}
        return np.hstack([blocks[part](self.system, self.horizon) for part in self.protect])


@takes(system=System)
def observability(system: System, horizon: int) -> Floats:
    """O_T, ((T+1) q) x n."""
    horizon = _check_size(system, horizon)
    a, _, row, _ = system.arrays()
    rows = []
    for _ in range(horizon + 1):
        rows.append(row)
        row = row @ a
    return np.vstack(rows)


@takes(system=System)
def toeplitz(system: System, horizon: int) -> Floats:
    """N_T, ((T+1) q) x ((T+1) m)."""
    horizon = _check_size(system, horizon)
    q, m = system.outputs, system.inputs
    pulses = impulse(system, horizon)
    out = np.zeros(((horizon + 1) * q, (horizon + 1) * m))
    for t in range(horizon + 1):
        for s in range(t + 1):
            out[t * q : (t + 1) * q, s * m : (s + 1) * m] = pulses[t - s]
    return out


def impulse(system: System, horizon: int) -> Floats:
    """D, CB, CAB, ..., CA^(T-1)B: shape (T+1, q, m)."""
    a, b, c, d = system.arrays()
    out = np.empty((horizon + 1, *d.shape))
    for j in range(system.inputs):
        u = np.zeros((horizon + 1, system.inputs))
        u[0, j] = 1.0
        out[:, :, j] = _run(a, b, c, d, np.zeros(system.states), u)
    return out


def respond(system: System, x0: Floats, u: Floats) -> Floats:
    """y over time, shape (len(u), q), in floats."""
    return _run(*system.arrays(), np.asarray(x0, float), np.ascontiguousarray(u, float))


def _run(a: Floats, b: Floats, c: Floats, d: Floats, x0: Floats, u: Floats) -> Floats:
    """A short record is run as Python, with the same numbers: compiling would take a hundred times as long."""
    from oboro.dynamics._response import respond_to

    few = len(u) * (a.size + b.size + c.size + d.size) <= _FEW
    return np.asarray((respond_to.py_func if few else respond_to)(a, b, c, d, x0, u))  # type: ignore[attr-defined]


def row_norms(system: System, horizon: int, protect: tuple[str, ...], power: float) -> Floats:
    """For each output at each time, (sum over protected numbers of |entry of M|^power)^(1/power): shape (T+1, q)."""
    total = np.zeros((horizon + 1, system.outputs))
    if "u" in protect:
        total += np.cumsum((np.abs(impulse(system, horizon)) ** power).sum(axis=2), axis=0)
    if "x0" in protect:
        nothing = np.zeros((horizon + 1, system.inputs))
        for start in np.eye(system.states):
            total += np.abs(respond(system, start, nothing)) ** power
    return np.asarray(total ** (1 / power))


def check_horizon(horizon: object) -> int:
    return whole("horizon", horizon, least=0, most=10**8)


def _check_size(system: System, horizon: int) -> int:
    """A horizon for which a matrix can be written down."""
    horizon = check_horizon(horizon)
    entries = (horizon + 1) ** 2 * system.outputs * max(system.inputs, 1)
    if entries > _MOST_ENTRIES:
        raise ParameterError(
            "the matrix is too large to write down",
            given=f"{entries:,} entries",
            needed=f"at most {_MOST_ENTRIES:,}",
            fix="Operator(system, horizon) @ v, which needs no matrix",
        )
    return horizon
