"""`demo`: two schedules on images drawn here, small enough that every run takes less than half a minute."""

from __future__ import annotations

from reprise.lab.study import Cell, Column, Study

BASE, ARM = "iid", "rpr"
_CELL = Cell(
    "glyphs",
    {
        "dataset": "glyphs",
        "learner": "er-ace",
        "width": 8,
        "per_class": 100,
        "test_per_class": 10,
        "batch": 16,
        "buffer": 500,
        "replay": 4,  # of 100 classes: few come back in a step, so that it matters which
        "augment": "none",  # every glyph is drawn in a place and shape of its own already
    },
)

STUDY = Study(
    name="demo",
    table="final accuracy under two schedules; none of the paper's",
    about="The same small network learns a hundred classes of glyphs under independent draws and randomised passes.",
    cells=(_CELL,),
    small=(_CELL,),
    arms=(BASE, ARM),
    columns=(Column("ema.final"), Column("live.final"), Column("max")),
)
