"""The attack on any plan."""

from oboro.audit.run import AuditReport, Finding, run
from oboro.audit.samples import samples

__all__ = ["AuditReport", "Finding", "run", "samples"]
