"""The studies known by name: one short file per table of the paper."""

from __future__ import annotations

from reprise.core.registry import unknown
from reprise.lab.study import Study
from reprise.studies import buffer_gaps, demo, dyngaps, gap_drift, gaps, renewal_gaps, seams

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY for module in (gaps, dyngaps, renewal_gaps, buffer_gaps, seams, gap_drift, demo)
}

__all__ = ["STUDIES", "find_study"]


def find_study(name: str) -> Study:
    """The study of that name, or an error that says the nearest one.

    >>> find_study("dyngap")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: unknown study 'dyngap': did you mean 'dyngaps'? Known: gaps, dyngaps, ...
    """
    if name in STUDIES:
        return STUDIES[name]
    raise ValueError(unknown("study", name, STUDIES))
