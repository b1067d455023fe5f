"""The studies known by name: one short file per table of the paper."""

from __future__ import annotations

from reprise.core.registry import unknown
from reprise.lab.study import Study
from reprise.studies import buffer_gaps, dyngaps, gaps, renewal_gaps

STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in (gaps, dyngaps, renewal_gaps, buffer_gaps)}

__all__ = ["STUDIES", "find_study"]


def find_study(name: str) -> Study:
    """The study of that name, or an error that says the nearest one.

    >>> find_study("dyngap")
    Traceback (most recent call last):
    ...
    ValueError: unknown study 'dyngap': did you mean 'dyngaps'? Known: gaps, dyngaps, renewal-gaps, buffer-gaps
    """
    if name in STUDIES:
        return STUDIES[name]
    raise ValueError(unknown("study", name, STUDIES))
