"""Worst-case neighbours of a plan, for the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.operators import Operator
from oboro.dynamics.sigma import floats_of
from oboro.dynamics.system import Matrix
from oboro.release import Pair

if TYPE_CHECKING:
    from oboro.dynamics.plan import SignalPlan


def worst_pairs(plan: SignalPlan) -> Iterator[Pair]:
    operator = Operator(plan.system, plan.horizon, plan.protect)
    count = operator.coordinates
    distance = float(plan.unit.distance or 0)
    power = np.inf if plan.unit.norm is None else float(plan.unit.norm)

    def pair(direction: Floats, why: str) -> Pair:
        size = (
            np.abs(direction).max() if power == np.inf else (np.abs(direction) ** power).sum() ** (1 / power)
        )
        change = direction * (distance / size) * (1 - 1e-12)  # neighbours beyond doubt
        return Pair(_data(plan, operator, 0 * change), _data(plan, operator, change), why)

    first = np.zeros(count)
    first[0] = 1.0
    if plan.where == "input":
        yield pair(first, "all of the change in one number")
        if count > 1 and (plan.noise == "independent" or power > 2):
            spread = (
                np.ones(count) if power > 2 else np.r_[np.ones(min(count, 20)), np.zeros(max(count - 20, 0))]
            )
            yield pair(spread, "the change spread over many numbers")
        return
    direction = _largest(operator) if not plan.sigma else _largest_in(operator, plan.sigma)
    yield pair(direction, "the change that the system amplifies most")


def _largest(operator: Operator) -> Floats:
    """The right singular vector of the largest gain, about: the power iteration."""
    vector = np.linspace(1.0, 1.1, operator.coordinates)
    for _ in range(200):
        vector = operator.adjoint(operator @ vector)
        size = np.linalg.norm(vector)
        if not size > 0:
            return np.linspace(1.0, 1.1, operator.coordinates)
        vector /= size
    return vector


def _largest_in(operator: Operator, sigma: Matrix) -> Floats:
    """The same in the norm of sigma^-1: the right singular vector of L^-1 M."""
    root = np.linalg.cholesky(floats_of(sigma))
    return np.asarray(np.linalg.svd(np.linalg.solve(root, operator.dense()))[2][0])


def _data(plan: SignalPlan, operator: Operator, values: Floats) -> dict[str, Any]:
    x0, u = operator.split(values)
    return {"u": u, "x0": x0}


def random_pair(plan: SignalPlan, random: Any) -> Pair:
    """A random record, and one as far from it as neighbours may be, in a random direction."""
    operator = Operator(plan.system, plan.horizon, plan.protect)
    distance = float(plan.unit.distance or 0)
    power = np.inf if plan.unit.norm is None else float(plan.unit.norm)
    base = random.normal(size=operator.coordinates) * distance
    direction = random.normal(size=operator.coordinates) * (random.random(operator.coordinates) < 0.7)
    direction[int(random.integers(0, direction.size))] += 1.0
    size = np.linalg.norm(direction, ord=power)
    change = direction * (distance / size) * (1 - 1e-9)  # neighbours beyond doubt, rounding included
    one, other = (
        dict(zip(("x0", "u"), operator.split(values), strict=True)) for values in (base, base + change)
    )
    return Pair(one, other, "a random signal, moved in a random direction")
