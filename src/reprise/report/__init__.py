"""Figures as people read them: rows of several seeds, tables, sentences, pictures, pages."""

from reprise.report.summary import Summary, groups, summarise

__all__ = ["Summary", "groups", "summarise"]
