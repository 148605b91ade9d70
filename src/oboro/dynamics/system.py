"""A discrete-time linear system, x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t), with exact matrices.

Matrices are rational: a float is read as the shortest decimal that prints it, as everywhere in oboro. The
certified gain and the true output are those of these matrices exactly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.domain.domain import check_entries
from oboro.errors import DomainError, ParameterError, setting, told
from oboro.exact import rational, whole
from oboro.kinds import shown, takes
from oboro.language import Lines
from oboro.records import Columns, read, write

Matrix = tuple[tuple[Fraction, ...], ...]

MATRICES = ("A", "B", "C", "D")
MOST = 10**100  # of an entry: forecasts are in doubles

_FIX = "control.ss(A, B, C, D, True), scipy.signal.dlti(A, B, C, D) or (A, B, C, D)"


@dataclass(frozen=True, slots=True)
class System:
    """n states, m inputs, q outputs. Make one from python-control, SciPy, or four matrices with `system_from`.

    >>> system = ob.dynamics.system_from(feeder)
    >>> system.states, system.radius
    (1, 0.9)
    """

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix

    def __post_init__(self) -> None:
        parts = {name.upper(): getattr(self, name) for name in "abcd"}
        n, q, m = len(self.a), len(self.d), len(self.d[0]) if self.d else 0
        wanted = {"A": (n, n), "B": (n, m), "C": (q, n), "D": (q, m)}
        for name, part in parts.items():
            rows, columns = wanted[name]
            if len(part) != rows or any(len(row) != columns for row in part) or not q or not m:
                shapes = (f"{k} {len(p)}x{len(p[0]) if p else 0}" for k, p in parts.items())
                raise DomainError(
                    f"the dimensions of the system do not fit: {name}",
                    given=", ".join(shapes),
                    needed="A n x n, B n x m, C q x n, D q x m, with at least one input and one output",
                    fix="D = [[0]]",
                )
            if any(abs(x) > MOST for row in part for x in row):
                raise DomainError(
                    f"{name} has an entry beyond use",
                    given=told(**{name: shown(part)}),
                    needed="at most 1e100",
                )

    @property
    def states(self) -> int:
        return len(self.a)

    @property
    def inputs(self) -> int:
        return len(self.d[0])

    @property
    def outputs(self) -> int:
        return len(self.d)

    def arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """A, B, C, D as floats, for forecasts and for the response to noisy inputs (post-processing)."""
        n, m, q = self.states, self.inputs, self.outputs
        shapes = ((self.a, (n, n)), (self.b, (n, m)), (self.c, (q, n)), (self.d, (q, m)))
        a, b, c, d = (
            np.array([[float(x) for x in row] for row in part]).reshape(shape) for part, shape in shapes
        )
        return a, b, c, d

    @property
    def radius(self) -> float:
        """The largest modulus of an eigenvalue of A, about: below 1 the system is stable."""
        return float(np.abs(np.linalg.eigvals(self.arrays()[0])).max()) if self.states else 0.0

    def as_record(self, columns: Columns | None = None) -> dict[str, object]:
        return {name.upper(): write(getattr(self, name)) for name in "abcd"}

    @classmethod
    def from_record(cls, record: object, columns: Columns | None, where: str) -> System:
        if type(record) is not dict or sorted(record) != ["A", "B", "C", "D"]:
            raise DomainError(
                f"{where} is not a system", given=shown(record), needed="A, B, C and D, and nothing else"
            )
        return cls(*(read(Matrix, record[name], f"{where}.{name}") for name in "ABCD"))


IDENTITY = "identity"


def system_from(given: Any, inputs: int = 1) -> System:
    """A `System` from python-control, SciPy, a table with A, B, C, D, or four matrices; or "identity".

    Continuous time is refused: sampling is a choice that changes what is released. "identity" has no states, and as many
    outputs as inputs, which it passes on as they are: a signal is published itself.

    >>> ob.dynamics.system_from("identity")
    System(a=(), b=(), c=((),), d=((Fraction(1, 1),),))

    >>> ob.dynamics.system_from({"A": [["0.9"]], "B": [["0.1"]], "C": [["1"]], "D": [["0"]]})
    System(a=((Fraction(9, 10),),), b=((Fraction(1, 10),),), c=((Fraction(1, 1),),), d=((Fraction(0, 1),),))
    """
    if isinstance(given, System):
        return given
    if isinstance(given, str) and given == IDENTITY:
        ones = tuple(tuple(Fraction(int(i == j)) for j in range(inputs)) for i in range(inputs))
        return System((), (), ((),) * inputs, ones)
    if isinstance(given, Mapping):
        missing = [name for name in MATRICES if name not in given]
        if missing:
            raise DomainError(
                f"the system has no {missing[0]}",
                given=", ".join(map(str, given)) or "nothing",
                needed="A, B, C and D",
                fix=Lines('[system]\nA = [["0.9"]]\nB = [[1]]\nC = [[1]]\nD = [[0]]'),
            )
        check_entries("the system", given, MATRICES)
        return _of(*(given[name] for name in MATRICES))
    if isinstance(given, tuple | list) and len(given) == 4:
        return _of(*given)
    kind = type(given).__name__
    if type(given).__module__.partition(".")[0] == "scipy":
        if getattr(given, "dt", None) is None:
            raise _continuous(kind)
        given = given.to_ss()
        return _of(given.A, given.B, given.C, given.D)
    if type(given).__module__.partition(".")[0] == "control":
        # 0 is continuous; None is "not said", which python-control also takes for continuous
        if not getattr(given, "dt", None):
            raise _continuous(kind)
        if kind != "StateSpace":
            import control

            given = control.ss(given)
        return _of(given.A, given.B, given.C, given.D)
    raise DomainError(
        "the system is not understood",
        given=shown(given) if isinstance(given, str) else kind,
        needed='a discrete-time linear system, or "identity"',
        fix=_FIX,
    )


def _of(*given: object) -> System:
    return System(*(_matrix(name, part) for name, part in zip("ABCD", given, strict=True)))


def _matrix(name: str, given: object) -> Matrix:
    rows = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(rows, list | tuple):
        rows = [[rows]]
    if rows and not isinstance(rows[0], list | tuple):
        rows = [rows] if name in "CD" else [[x] for x in rows] if name == "B" else [rows]
    if not all(isinstance(row, list | tuple) for row in rows):
        raise DomainError(
            f"{name} is not a matrix", given=told(**{name: shown(given)}), needed="rows of numbers"
        )
    return tuple(tuple(rational(name, x) for x in row) for row in rows)


def _continuous(kind: str) -> DomainError:
    return DomainError(
        "the system is in continuous time",
        given=kind,
        needed="a discrete-time system: how it is sampled must be decided",
        fix="control.sample_system(system, 0.1) or control.ss(A, B, C, D, True)",
    )


# O_T and N_T: Y = O x0 + N U over times 0 to T. Dense for study, and without any matrix for long records.
#
# O stacks C, CA, ..., CA^T (the paper's (6) prints a row; (5) needs a column). N is block Toeplitz: D on the
# diagonal, then CB, CAB, ...

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
        raise protects_nothing_known(protect)
    return tuple(part for part in PARTS if part in given)


def protects_nothing_known(protect: object) -> ParameterError:
    return ParameterError(
        "protect is not understood",
        given=told(protect=repr(protect)),
        needed='"x0", "u" or both',
        fix=setting(protect=("x0", "u")),
    )


@dataclass(frozen=True, slots=True)
class Operator:
    """M = [O N], or the part of it that acts on what is protected, for times 0 to `horizon`. Matrix-free.

    >>> operator = ob.dynamics.Operator(ob.dynamics.system_from(feeder), horizon=1)
    >>> operator.coordinates
    3
    >>> operator.dense()
    array([[1. , 0. , 0. ],
           [0.9, 0.1, 0. ]])
    """

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
    """O_T, ((T+1) q) x n.

    >>> ob.dynamics.observability(ob.dynamics.system_from(feeder), horizon=2)
    array([[1.  ],
           [0.9 ],
           [0.81]])
    """
    horizon = _check_size(system, horizon)
    a, _, row, _ = system.arrays()
    rows = []
    for _ in range(horizon + 1):
        rows.append(row)
        row = row @ a
    return np.vstack(rows)


@takes(system=System)
def toeplitz(system: System, horizon: int) -> Floats:
    """N_T, ((T+1) q) x ((T+1) m).

    >>> ob.dynamics.toeplitz(ob.dynamics.system_from(feeder), horizon=2)
    array([[0.  , 0.  , 0.  ],
           [0.1 , 0.  , 0.  ],
           [0.09, 0.1 , 0.  ]])
    """
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
    from oboro.dynamics._compiled import respond_to

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


# A household that does not exist and a feeder with a lag: data for the demo, the same every time.

FEEDER = """horizon = 335

[system]            # x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t)
A = [["0.9"]]
B = [["0.1"]]
C = [["1"]]
D = [["0"]]

[unit]
kind = "signal"
distance = "1"
"""


def household_load(samples: int) -> list[float]:
    """Half-hourly kilowatt hours of a household that does not exist, the same every time. This is data, not noise."""
    draw = random.Random("oboro household")
    out, kettle = [], 0.0
    for t in range(samples):
        hour = t % 48 / 2
        daily = 0.15 + 0.25 * math.exp(-((hour - 7.5) ** 2) / 2) + 0.45 * math.exp(-((hour - 19) ** 2) / 5)
        kettle = draw.choice((1.2, 2.0)) if draw.random() < 0.04 else kettle * 0.3
        out.append(round(daily * draw.uniform(0.7, 1.3) + kettle, 3))
    return out
