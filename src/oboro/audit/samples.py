"""Small plans of the main kinds, for `oboro audit --all`: small, so that many trials are quick."""

from __future__ import annotations

from typing import Any

from oboro.domain import Category, Domain, Grid, Integer
from oboro.privacy import Unit

DOMAIN = Domain([Integer("age", 0, 3), Category("region", ["north", "south"])])


def samples() -> dict[str, Any]:
    """A plan for each name."""
    from oboro import statistics, tables
    from oboro.statistics.session import Plans

    rows, swapped = Plans(DOMAIN, Unit.row(), None), Plans(DOMAIN, Unit.row("replace"), 5)
    persons = Plans(DOMAIN, Unit.person("who", 2), None)
    grid = Domain([Grid("row", "col", shape=(2, 2))])
    return {
        "count": rows.where("age >= 2").count(eps=1),
        "count of persons": persons.where("age >= 2").count(eps=1),
        "histogram": statistics.histogram_plan(DOMAIN, "age", unit=Unit.row(), eps=1),
        "histogram, replaced": statistics.histogram_plan(DOMAIN, "age", unit=Unit.row("replace"), eps=1),
        "sum": rows.sum("age", eps=1),
        "mean": rows.mean("age", eps=1),
        "mean, replaced": swapped.mean("age", eps=1),
        "mean, zCDP": swapped.mean("age", rho="0.5"),
        "quantile": rows.quantile("age", 0.5, eps=1),
        "table by wavelet": tables.plan(grid, unit=Unit.cells(), eps=1, strategy="wavelet"),
    }
