"""What all plans for synthetic data have in common: checks, worst cases for the audit, words for the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from oboro.domain import Domain
from oboro.errors import GuaranteeError, ParameterError
from oboro.exact import show, whole
from oboro.noise import DiscreteGaussian
from oboro.privacy import ZCDP, Approx, Unit
from oboro.release import Pair
from oboro.synth.budget import rho_within, squared_sensitivity
from oboro.synth.coding import Integers, check_synthesisable

MOST_CATEGORIES = 2**16

_P = TypeVar("_P")


def checked(plan: _P) -> _P:
    """Refuses what public facts rule out, before anything is reserved."""
    domain, unit, guarantee, n = (getattr(plan, name) for name in ("domain", "unit", "guarantee", "n"))
    check_synthesisable(domain, unit)
    if not isinstance(guarantee, Approx | ZCDP):
        raise GuaranteeError(
            "this plan promises (eps, delta) or zCDP", given=repr(guarantee), fix='eps=1, delta="1e-6"'
        )
    check_n(unit, n)
    for column in domain:
        if column.kind == "category" and column.size > MOST_CATEGORIES:
            raise ParameterError(
                f"column {column.name!r} has too many categories",
                given=f"{column.size:,}",
                needed=f"at most {MOST_CATEGORIES:,}",
                fix="fewer, broader values",
            )
    rho_within(guarantee)
    plan.noise  # type: ignore[attr-defined]  # noqa: B018  # refuses a scale that is too large
    return plan


def check_n(unit: Unit, n: Any) -> None:
    """Under replace the number of rows is public and part of the plan; under add/remove it is private and must not be."""
    if unit.kind == "row" and unit.adjacency == "replace":
        if n is None:
            raise ParameterError(
                "n is needed: under replace the number of rows is public",
                given="n=None",
                needed="the number of rows of the data",
                fix="n=32_561",
            )
        whole("n", n, least=1)
    elif n is not None:
        raise ParameterError(
            "n is private for this unit",
            given=f"n={n}, {unit}",
            needed="no n: the model estimates it from noisy counts",
            fix='unit=ob.Unit.row("replace"), if the number of rows may be known',
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
