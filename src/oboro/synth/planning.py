"""What all plans for synthetic data have in common: checks, worst cases for the audit, words for the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from oboro.arrays import Integers
from oboro.domain import Domain
from oboro.errors import ParameterError, setting, told
from oboro.exact import show, whole
from oboro.noise import DiscreteGaussian
from oboro.privacy import Unit
from oboro.release import Pair
from oboro.synth.budget import squared_sensitivity

MOST_CATEGORIES = 2**16


def check_n(unit: Unit, n: Any) -> None:
    """Under replace the number of rows is public and part of the plan; under add/remove it is private and must not be."""
    if unit.kind == "row" and unit.adjacency == "replace":
        if n is None:
            raise ParameterError(
                "n is needed: under replace the number of rows is public",
                given=told(n="None"),
                needed="the number of rows of the data",
                fix=setting(n=32_561),
            )
        whole("n", n, least=1)
    elif n is not None:
        raise ParameterError(
            "n is private for this unit",
            given=told(n=f"{n}") + f", {unit}",
            needed="no n: the model estimates it from noisy counts",
            fix=setting(unit=Unit.row("replace")) + ", if the number of rows may be known",
        )


def repeated(once: Callable[[], Integers], trials: int) -> Integers:
    """Many independent measurements, one row each, filled up with zeros where one has fewer numbers than another."""
    rows = [once() for _ in range(trials)]
    out = np.zeros((trials, max(row.size for row in rows)), np.int64)
    for place, row in enumerate(rows):
        out[place, : row.size] = row
    return out


def neighbours_of(domain: Domain, unit: Unit, n: int | None) -> Iterator[Pair]:
    """A crowd at the first values; one unit with all its rows at the last ones, or not there, or in the crowd."""
    first = {column.name: column.value(0) for column in domain}
    last = {column.name: column.value(column.size - 1) for column in domain}
    rows = unit.contributions
    crowd = (n or 20) - (rows if n is not None else 0)

    def data(odd: dict[str, Any] | None) -> dict[str, list[Any]]:
        table = {
            name: [first[name]] * crowd + ([odd[name]] * rows if odd is not None else []) for name in first
        }
        if unit.kind == "person":
            assert unit.column is not None
            table[unit.column] = [f"crowd {i}" for i in range(crowd)] + (
                ["someone"] * rows if odd is not None else []
            )
        return table

    if unit.adjacency == "replace":
        yield Pair(data(first), data(last), "all rows of one unit move from the first values to the last")
    else:
        yield Pair(data(last), data(None), "one unit with all its rows at the last values, or nobody")


def describe_plan(plan: Any, released: str, noise: DiscreteGaussian) -> dict[str, Any]:
    return {
        "released": released,
        "noise": {
            **noise.to_dict(),
            "squared sensitivity": str(squared_sensitivity(plan.unit)),
            "rho in all": show(plan.rho),
        },
        "domain": plan.domain.to_dict(),
    }
