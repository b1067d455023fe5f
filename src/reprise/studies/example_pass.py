"""`example-pass`: whether stored examples of a class should go by shuffled pass, too."""

from __future__ import annotations

from reprise.lab.contrast import Contrast, Term, difference
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, PRIMARY, glyphs, stream

_BOTH = (Term(1, "rpr+pass"), Term(-1, "rpr"), Term(-1, "iid+pass"), Term(1, "iid"))

STUDY = Study(
    name="example-pass",
    table="a study of ours: passes over the examples within a class",
    about=(
        "With +pass, the stored examples of a class return in shuffled passes, so that no example waits much longer "
        "than the others. It is added to independent draws of classes and to randomised passes."
    ),
    cells=tuple(stream("cifar100", tail, PRIMARY) for tail in ("balanced", "lt10")),
    small=(glyphs("balanced"),),
    arms=("iid", "iid+pass", "rpr", "rpr+pass"),
    columns=(Column("ema.final"), Column("live.final")),
    contrasts=(
        difference("rpr+pass", "rpr", main=True),
        difference("iid+pass", "iid"),
        difference("rpr", "iid"),
        Contrast("(rpr+pass − rpr) − (iid+pass − iid)", _BOTH),
    ),
    seeds=20,
    notes=(BF16,),
)
