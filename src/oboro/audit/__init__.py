"""The attack on any plan."""

from oboro.audit.run import AuditReport, Finding, run

__all__ = ["AuditReport", "Finding", "run"]
