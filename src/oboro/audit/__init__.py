"""The attack on any plan.

Its examples begin with:

>>> import oboro as ob
>>> coin = ob.Domain([ob.Category("side", ["heads", "tails"])])
>>> plan = ob.histogram_plan(coin, "side", unit=ob.Unit.row(), eps="0.5")
"""

from oboro.audit.coverage import coverage
from oboro.audit.endtoend import EndToEnd, Walked, end_to_end, walk
from oboro.audit.enumeration import exact
from oboro.audit.events import AuditReport, Finding
from oboro.audit.figures import Covered
from oboro.audit.run import membership, run
from oboro.audit.samples import everything, samples

__all__ = [
    "AuditReport",
    "Covered",
    "EndToEnd",
    "Finding",
    "Walked",
    "coverage",
    "end_to_end",
    "everything",
    "exact",
    "membership",
    "run",
    "samples",
    "walk",
]


def __dir__() -> list[str]:
    return __all__
