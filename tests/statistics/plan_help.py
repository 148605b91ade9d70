"""Shared by the tests of statistics: plans of every kind, and what a pair of datasets really costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from oboro.domain import Category, Domain, Integer, Real
from oboro.noise import DiscreteLaplace
from oboro.privacy import ZCDP, Pure, Unit
from oboro.statistics.session import Plans

DOMAIN = Domain(
    [
        Integer("age", 0, 120),
        Integer("debt", -50, 100, step=5),
        Real("score", -1, 1, "0.25"),
        Category("region", ["north", "south", "west"]),
        Integer("full", 0, 10, missing=4),
        Integer("also", -3, 3, missing=0),
        Integer("huge", 0, 2**40),
    ]
)
ROW, SWAP = Unit.row(), Unit.row("replace")
PERSON, SWAPPED = Unit.person("who", 3), Unit.person("who", 3, "replace")
UNITS = [ROW, SWAP, PERSON, SWAPPED]


def questions(unit: Unit, n: int | None = 7) -> Plans:
    """Plans for a dataset of 7 units."""
    return Plans(DOMAIN, unit, n if unit.adjacency == "replace" else None)


def terms_of(plan: Any) -> list[Any]:
    """The noise of each number of a plan."""
    if hasattr(plan, "terms"):
        return [term.noise for term in plan.terms]
    return [plan.term.noise if hasattr(plan, "term") else plan.noise]


def cost(plan: Any, one: Any, other: Any) -> Fraction:
    """What this pair costs under the noise that the plan really draws: eps, or rho."""
    a, b = (np.asarray(plan.prepare(data)) for data in (one, other))
    noises = terms_of(plan)
    moved = np.abs(a - b).reshape(-1, len(noises)).tolist()
    total = Fraction(0)
    for row in moved:
        for change, noise in zip(row, noises, strict=True):
            pure = isinstance(noise, DiscreteLaplace)
            total += change / noise.scale if pure else Fraction(change) ** 2 / (2 * noise.sigma2)
    return total


def promised(plan: Any) -> Fraction:
    return worth(plan.guarantee)


def worth(guarantee: Any) -> Fraction:
    assert isinstance(guarantee, Pure | ZCDP)
    return guarantee.eps if isinstance(guarantee, Pure) else guarantee.rho


def random_rows(rng: np.random.Generator, who: int, rows: int) -> dict[str, list[Any]]:
    """Rows of one person: extreme, missing, ordinary and impossible values."""

    def some(*values: Any) -> list[Any]:
        return [values[i] for i in rng.integers(0, len(values), rows)]

    return {
        "who": [who] * rows,
        "age": some(0, 120, 60, None, -5, 1000, 33, 19),
        "debt": some(-50, 100, 25, None, 3, 7),
        "score": some(-1.0, 1.0, 0.25, None, float("nan"), float("inf")),
        "region": some("north", "south", "west", None, "east"),
        "full": some(0, 10, None, 5),
        "also": some(-3, 3, None, 1),
        "huge": some(0, 2**40, 2**39 + 12345, None, 77),
    }


def joined(parts: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}
