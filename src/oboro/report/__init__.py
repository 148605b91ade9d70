"""The pages people look at: one look, self-contained, in English and Japanese.

Its examples begin with:

>>> import oboro as ob
>>> unit = ob.Unit.cells()
>>> mesh = ob.Domain([ob.Grid("row", "col", shape=(64, 64))])
>>> cells = {"row": [0, 7], "col": [3, 4], "people": [120, 30]}
>>> ledger = ob.Ledger.create("city.ledger", dataset="city", unit=unit, budget=ob.Pure(1))
"""

from oboro.report.hours import write_hours
from oboro.report.map import Comparison, write_map

__all__ = ["Comparison", "write_hours", "write_map"]


def __dir__() -> list[str]:
    return __all__
