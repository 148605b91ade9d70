"""A small quasi-Newton search: BFGS with step halving, for a few dozen unknowns.

SciPy has one, but its linear algebra starts threads for every step, which on a busy machine takes a hundred times
as long as the step itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oboro.arrays import Floats

Objective = Callable[[Floats], tuple[float, Floats]]  # value and gradient


def minimise(
    objective: Objective, start: Floats, steps: int = 150, gain: float = 1e-9
) -> tuple[float, Floats]:
    """The value and place of a minimum near `start`, when a step gains less than `gain`."""
    at = start.copy()
    value, slope = objective(at)
    inverse = np.eye(at.size)  # of the Hessian, as far as it is known
    quiet = 0
    for _ in range(steps):
        direction = -_times(inverse, slope)
        descent = float((direction * slope).sum())
        if descent >= 0:  # the model went wrong: begin it again
            inverse, direction = np.eye(at.size), -slope
            descent = -float((slope * slope).sum())
        length = min(1.0, 0.5 / max(float(np.abs(direction).max()), 1e-300))
        for _ in range(30):
            there = at + length * direction
            new, new_slope = objective(there)
            if new <= value + 1e-4 * length * descent:
                break
            length /= 2
        else:
            break
        moved, turned = there - at, new_slope - slope
        quiet = quiet + 1 if value - new < gain else 0
        at, value, slope = there, new, new_slope
        if quiet == 2:
            break
        curve = float((moved * turned).sum())
        if curve > 1e-14:
            along = _times(inverse, turned)
            inverse += (1 + float((turned * along).sum()) / curve) * np.multiply.outer(moved, moved) / curve
            inverse -= (np.multiply.outer(along, moved) + np.multiply.outer(moved, along)) / curve
    return value, at


def _times(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray((matrix * vector).sum(axis=1))
