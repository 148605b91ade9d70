"""Plans that public facts rule out are refused here, before anything is reserved or read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oboro.errors import ParameterError, UnitError
from oboro.exact import positive, whole
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.strategies import strategy_of
from oboro.tables.tree.adaptive import check_rule
from oboro.tables.tree.promise import check_promise

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan


def checked(plan: TablePlan) -> TablePlan:
    """The plan itself, if nothing public speaks against it."""
    strategy = strategy_of(plan.strategy, plan.design)
    if plan.unit.kind not in ("row", "person", "cells"):
        raise UnitError(
            "a table counts rows or cells",
            given=str(plan.unit),
            needed="Unit.cells, Unit.row or Unit.person",
            fix="unit=ob.Unit.cells()",
        )
    if plan.count is not None and (
        not isinstance(plan.count, str) or any(plan.count in column.sources for column in plan.domain)
    ):
        raise ParameterError(
            "count must name a column beside those of the domain",
            given=f"count={plan.count!r}",
            fix='count="people"',
        )
    if plan.count is not None and plan.unit.kind != "cells":
        raise UnitError(
            "data that is counted already does not show its rows",
            given=f"count={plan.count!r} and {plan.unit}",
            needed="how many cells one unit is in, and with how much",
            fix="unit=ob.Unit.cells(max_cells=1, max_per_cell=1)",
        )
    if plan.total is not None:
        whole("total", plan.total, least=0, most=LARGEST_TOTAL)
        if plan.unit.adjacency != "replace" or not strategy.takes_total:
            raise ParameterError(
                "a public total cannot be used here",
                given=f"total={plan.total}, {plan.unit}, strategy={plan.strategy!r}",
                needed='strategy="tree" and adjacency="replace", under which the number of units is public',
                fix="total=None",
            )
    positive("eps", plan.guarantee.eps)
    if plan.strategy == "adaptive":
        check_rule(plan.total, plan.guarantee.eps, plan.layout.cells)
    check_promise(plan.guarantee, plan.strategy, plan.workload, plan.design)
    strategy.check(plan.layout)
    plan.noise  # noqa: B018  # refuses a scale beyond 2^40
    return plan
