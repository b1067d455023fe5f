"""`renewal-gaps`: how a class order that is used again narrows who meets whom."""

from __future__ import annotations

from reprise.lab.study import Cell, Column, Study

STUDY = Study(
    name="renewal-gaps",
    table="the label-only columns of the renewal table: pairs and gaps",
    about=(
        "The order of classes is renewed at every pass (rpr), every 4 or 16 passes, or never (fixed). "
        "Coverage and entropy say how many pairs of classes ever share a batch, and how evenly."
    ),
    cells=tuple(Cell(f"{name}-lt10", {"dataset": name, "imbalance": 10}) for name in ("cifar100", "tinyimagenet")),
    small=(Cell("glyphs-lt10", {"dataset": "glyphs", "imbalance": 10, "buffer": 512}),),
    arms=("rpr", "reused:4", "reused:16", "fixed"),
    columns=(Column("pair_coverage"), Column("pair_entropy"), Column("p99"), Column("max")),
    notes=("The paper's table does not name the stream; its figures are those of the LT10 streams.",),
)
