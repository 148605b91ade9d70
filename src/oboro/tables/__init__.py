"""Tables of counts: non-negative, accurate at every scale, of any size.

Its examples begin with:

>>> import oboro as ob
>>> unit = ob.Unit.cells()
>>> mesh = ob.Domain([ob.Grid("row", "col", shape=(64, 64))])
>>> cells = {"row": [0, 7], "col": [3, 4], "people": [120, 30]}
>>> ledger = ob.Ledger.create("city.ledger", dataset="city", unit=unit, budget=ob.Pure(1))
"""

from oboro.tables.ask import ask, preview, unallocated
from oboro.tables.compare import Comparison, compare
from oboro.tables.input import check, read_estat
from oboro.tables.plan import STRATEGIES, TablePlan, plan, release
from oboro.tables.series.plan import SeriesPlan
from oboro.tables.series.series import Series, open_series, series
from oboro.tables.series.sizes import each_tick, mean_over_ticks
from oboro.tables.tree import areas, blocks, cells, marginals, never_worse, rectangles, squares
from oboro.tables.tree.outlook import city

__all__ = [
    "STRATEGIES",
    "Comparison",
    "Series",
    "SeriesPlan",
    "TablePlan",
    "areas",
    "ask",
    "blocks",
    "cells",
    "check",
    "city",
    "compare",
    "each_tick",
    "marginals",
    "mean_over_ticks",
    "never_worse",
    "open_series",
    "plan",
    "preview",
    "read_estat",
    "rectangles",
    "release",
    "series",
    "squares",
    "unallocated",
]


def __dir__() -> list[str]:
    return __all__
