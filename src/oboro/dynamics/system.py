"""A discrete-time linear system, x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t), with exact matrices.

Matrices are rational: a float is read as the shortest decimal that prints it, as everywhere in oboro. The
certified gain and the true output are those of these matrices exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.domain.domain import check_entries
from oboro.errors import DomainError, told
from oboro.exact import rational
from oboro.kinds import shown
from oboro.language import Lines
from oboro.records import Columns, read, write

Matrix = tuple[tuple[Fraction, ...], ...]

MATRICES = ("A", "B", "C", "D")
MOST = 10**100  # of an entry: forecasts are in doubles

_FIX = "control.ss(A, B, C, D, True), scipy.signal.dlti(A, B, C, D) or (A, B, C, D)"


@dataclass(frozen=True, slots=True)
class System:
    """n states, m inputs, q outputs. Make one from python-control, SciPy, or four matrices with `system_from`."""

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

    def as_record(self, columns: Columns | None = None) -> dict[str, Any]:
        return {name.upper(): write(getattr(self, name)) for name in "abcd"}

    @classmethod
    def from_record(cls, record: Any, columns: Columns | None, where: str) -> System:
        if type(record) is not dict or sorted(record) != ["A", "B", "C", "D"]:
            raise DomainError(
                f"{where} is not a system", given=shown(record), needed="A, B, C and D, and nothing else"
            )
        return cls(*(read(Matrix, record[name], f"{where}.{name}") for name in "ABCD"))


def system_from(given: Any) -> System:
    """A `System` from python-control, SciPy, a table with A, B, C, D, or four matrices.

    Continuous time is refused: sampling is a choice that changes what is released.
    """
    if isinstance(given, System):
        return given
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
        "the system is not understood", given=kind, needed="a discrete-time linear system", fix=_FIX
    )


def _of(a: Any, b: Any, c: Any, d: Any) -> System:
    return System(*(_matrix(name, part) for name, part in zip("ABCD", (a, b, c, d), strict=True)))


def _matrix(name: str, given: Any) -> Matrix:
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
