"""`demo`: two schedules on images drawn here, small enough that every run takes less than half a minute."""

from __future__ import annotations

from reprise.lab.contrast import difference
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import SMALL

BASE, ARM = "iid", "rpr"
_CELL = Cell("glyphs", {**SMALL, "dataset": "glyphs", "per_class": 100, "test_per_class": 10, "batch": 16})

STUDY = Study(
    name="demo",
    table="final accuracy under two schedules; none of the paper's",
    about="The same small network learns a hundred classes of glyphs under independent draws and randomised passes.",
    cells=(_CELL,),
    small=(_CELL,),
    arms=(BASE, ARM),
    columns=(Column("ema.final"), Column("live.final"), Column("max")),
    contrasts=(difference(ARM, BASE, main=True),),
)
