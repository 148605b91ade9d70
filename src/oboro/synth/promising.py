"""What the Gaussian method asks of public facts, what one of its records costs, and that a plan keeps its promise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from oboro.domain import Category, Domain
from oboro.errors import DomainError, ParameterError, UnitError, setting, told
from oboro.exact import whole
from oboro.privacy import Unit
from oboro.synth import bounds
from oboro.synth.accounting import Curve
from oboro.synth.coding import check_synthesisable
from oboro.synth.moments import LARGEST

MOST_COLUMNS = 64


def record_curve(
    unit: Unit, dims: int, n: int | None, n_min: int | None, ridge: Fraction | None, least: Fraction | None
) -> Curve:
    width = ridge or least
    assert width is not None
    tau = 4 * dims / width
    if unit.adjacency == "replace":
        assert n is not None
        return lambda order: bounds.public_tight(order, n, tau)
    assert n_min is not None
    if dims == 1 and least is not None:
        width = min(
            width, Fraction(1, 2)
        )  # up to there the bound falls as n grows, so that n_min stands for all larger sizes
        tau = 4 / width

    def both(order: Fraction) -> Fraction | None:
        one = (
            bounds.private_ridge(order, n_min, tau, dims)
            if ridge is not None
            else bounds.private_exact(order, n_min, width, dims)
        )
        other = bounds.public_tight(order, n_min, tau)  # among datasets that are filled up to n_min
        return None if one is None or other is None else max(one, other)

    return both


def check_facts(domain: Domain, unit: Unit, n: Any, n_min: Any) -> None:
    check_synthesisable(domain, unit)
    if unit.kind != "row":
        raise UnitError(
            "the Gaussian method protects rows",
            given=str(unit),
            needed="a unit of rows",
            fix=setting(unit=Unit.row("replace")),
        )
    if len(domain) > MOST_COLUMNS:
        raise DomainError(
            "too many columns for the Gaussian method",
            given=str(len(domain)),
            needed=f"at most {MOST_COLUMNS}",
        )
    for column in domain:
        if isinstance(column, Category) and column.size > 2:
            raise DomainError(
                f"column {column.name!r} is not a number",
                given=f"{column.size} categories",
                needed="numbers, dates, or two categories, for the Gaussian method",
                fix=setting(method="marginals"),
            )
        if column.size > LARGEST:
            raise DomainError(
                f"column {column.name!r} has too many values",
                given=str(column.size),
                needed="at most 2^31",
                fix="a larger step",
            )
    if unit.adjacency == "replace":
        if n is None or n_min is not None:
            raise ParameterError(
                "n is needed: under replace the number of rows is public",
                given=told(n=f"{n}", n_min=f"{n_min}"),
                needed="n",
                fix=setting(n=32_561),
            )
        whole("n", n, least=2, most=10**15)
    else:
        if n_min is None or n is not None:
            raise ParameterError(
                "n is private under add/remove: a public lower bound is needed",
                given=told(n=f"{n}", n_min=f"{n_min}"),
                needed="n_min; a dataset with fewer rows is filled up with a public record",
                fix=setting(n_min=10_000),
            )
        whole("n_min", n_min, least=3, most=10**15)
