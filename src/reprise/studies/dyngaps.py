"""`dyngaps`: how long classes wait while a stream fills the memory and churns it."""

from __future__ import annotations

from reprise.lab.printed_tables import Printed
from reprise.lab.study import Column, Study
from reprise.studies.cells import glyph_labels, stream
from reprise.studies.paper import table

_COLUMNS = {
    "mean": "gap_mean",
    "p95": "gap_p95",
    "p99": "gap_p99",
    "max": "resident_max",
    "wall_max": "wall_max",
    "violations": "violations",
    "deactivations": "deactivations",
}

STUDY = Study(
    name="dyngaps",
    table="the table of online rehearsal gaps, broken bounds and departures",
    about=(
        "Ten tasks arrive once, 32 examples a step, into a reservoir of 5,120; 8 examples are replayed a step. "
        "A violation is a gap above the churn bound of its own interval; a deactivation is a class that leaves memory."
    ),
    cells=tuple(
        stream(*names, {}) for names in (("cifar100", "lt10"), ("tinyimagenet", "lt10"), ("tinyimagenet", "lt100"))
    ),
    small=(glyph_labels("lt10"),),
    arms=("iid", "fixed", "rpr"),
    columns=tuple(
        Column(key, paper=Printed(table("dyngaps"), column), zero=key == "violations")
        for key, column in _COLUMNS.items()
    ),
    notes=("The paper does not name the storage; departures show that it is a reservoir.",),
)
