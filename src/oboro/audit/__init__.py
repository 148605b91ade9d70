"""The attack on any plan."""

from oboro.audit.endtoend import EndToEnd, end_to_end
from oboro.audit.enumeration import exact
from oboro.audit.every import everything
from oboro.audit.findings import AuditReport, Finding
from oboro.audit.run import run
from oboro.audit.samples import samples
from oboro.audit.walking import Walked, walk

__all__ = [
    "AuditReport",
    "EndToEnd",
    "Finding",
    "Walked",
    "end_to_end",
    "everything",
    "exact",
    "run",
    "samples",
    "walk",
]
