"""The studies known by name: one short file per table of the paper, and those of our own."""

from __future__ import annotations

from reprise.core.plugins import load_file
from reprise.core.registry import unknown
from reprise.lab.study import Study
from reprise.studies import (
    agreement,
    boundaries,
    buffer,
    controls,
    coverage,
    demo,
    dissociation,
    dyngaps,
    example_pass,
    gap_drift,
    gaps,
    groups,
    hosts,
    isolation,
    law,
    mask,
    pretrained,
    rare_classes,
    readout,
    renewal,
    seams,
    vit,
)

_PAPER = (
    *(gaps.STUDY, dyngaps.STUDY, renewal.GAPS, buffer.GAPS, coverage.STUDY, seams.STUDY, groups.STUDY, readout.STUDY),
    *(mask.STUDY, gap_drift.STUDY, renewal.STUDY, buffer.STUDY, law.STUDY, hosts.STUDY, dissociation.STUDY),
    *(controls.CIFAR10, controls.HYBRID, vit.GAP_OPPORTUNITY, vit.TRAJECTORY),
)
_OURS = (
    *(isolation.STUDY, example_pass.STUDY, boundaries.STUDY, rare_classes.STUDY, agreement.STUDY),
    *(pretrained.RATES, pretrained.STUDY, pretrained.AGAIN, demo.STUDY),
)
STUDIES: dict[str, Study] = {study.name: study for study in (*_PAPER, *_OURS)}
"""All studies of the library by name."""

__all__ = ["STUDIES", "find_study", "is_file", "load_study"]


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


def is_file(name: str) -> bool:
    """Whether a study is named by the file that declares it."""
    return name.endswith(".py")


def load_study(name: str) -> Study:
    """The study of that name, or the one that a .py file declares as `STUDY`."""
    if not is_file(name):
        return find_study(name)
    study = getattr(load_file(name), "STUDY", None)
    if not isinstance(study, Study):
        raise ValueError(f"{name!r} declares no study: it must set STUDY to a reprise.lab.Study")
    if study.name in STUDIES:
        raise ValueError(f"{name!r} calls its study {study.name!r}, as one of this library is called: give it another")
    return study
