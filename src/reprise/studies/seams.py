"""`seams`: what a schedule is worth in final accuracy, under two storages and three tails: the primary table."""

from __future__ import annotations

from typing import Any

from reprise.lab.study import Cell, Column, Study
from reprise.studies.small import SMALL

_TAILS = {"balanced": 1.0, "lt10": 10.0, "lt100": 100.0}


def _cell(tail: str, storage: str, settings: dict[str, Any]) -> Cell:
    shared = {"learner": "er-ace", "imbalance": _TAILS[tail], "storage": storage}
    return Cell(f"{settings['dataset']}-{tail} {storage}", {**shared, **settings})


STUDY = Study(
    name="seams",
    table="the primary table: final accuracy by storage and retrieval",
    about=(
        "ER-ACE with a ResNet-18 and a cosine head learns CIFAR-100 once, in ten tasks; 5,120 images are kept and 8 "
        "replayed a step. Accuracy is the mean over tasks at the end, averaged network, no task told."
    ),
    cells=tuple(
        _cell(tail, storage, {"dataset": "cifar100", "precision": "bf16"})
        for tail in _TAILS
        for storage in ("reservoir", "brs")
    ),
    small=(_cell("lt10", "reservoir", SMALL),),
    arms=("uniform", "iid", "fixed", "rpr"),
    columns=(Column("ema.final"),),
    notes=(
        "The paper names neither the precision of its arithmetic nor its machines; products here are in bf16, sums in "
        "single precision.",
    ),
)
