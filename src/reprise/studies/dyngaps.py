"""`dyngaps`: how long classes wait while a stream fills the memory and churns it."""

from __future__ import annotations

from reprise.lab.study import Cell, Column, Study

STUDY = Study(
    name="dyngaps",
    table="the table of online rehearsal gaps, broken bounds and departures",
    about=(
        "Ten tasks arrive once, 32 examples a step, into a reservoir of 5,120; 8 examples are replayed a step. "
        "A violation is a gap above the churn bound of its own interval; a deactivation is a class that leaves memory."
    ),
    cells=(
        Cell("cifar100-lt10", {"dataset": "cifar100", "imbalance": 10}),
        Cell("tinyimagenet-lt10", {"dataset": "tinyimagenet", "imbalance": 10}),
        Cell("tinyimagenet-lt100", {"dataset": "tinyimagenet", "imbalance": 100}),
    ),
    small=(Cell("glyphs-lt10", {"dataset": "glyphs", "imbalance": 10, "buffer": 512}),),
    arms=("iid", "fixed", "rpr"),
    columns=(
        Column("mean"),
        Column("p95"),
        Column("p99"),
        Column("max"),
        Column("wall_max"),
        Column("violations", zero=True),
        Column("deactivations"),
    ),
)
