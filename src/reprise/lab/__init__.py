"""Runs and their records. Today: label-only runs, which plan a tape and audit it."""

from reprise.lab.audits import AuditRun, audit_all

__all__ = ["AuditRun", "audit_all"]
