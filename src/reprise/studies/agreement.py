"""`agreement`: whether the precision of arithmetic moves accuracies or what a schedule is worth."""

from __future__ import annotations

from reprise.lab.contrast import across, difference, interaction
from reprise.lab.study import Column, Study
from reprise.studies.cells import glyphs, stream

_PRECISIONS = ("fp32", "tf32", "bf16")
_ARMS = ("iid", "rpr")

STUDY = Study(
    name="agreement",
    table="a study of ours: the same runs in three precisions",
    about=(
        "Runs in fp32, tf32 and bf16 drift apart after a few steps, as any change of arithmetic makes them. What must "
        "agree are means over seeds, and the differences between arms."
    ),
    cells=tuple(
        stream("cifar100", "lt10", {"learner": "er-ace", "precision": name}, precision=name) for name in _PRECISIONS
    ),
    small=tuple(glyphs("balanced", {"precision": name}, precision=name) for name in ("fp32", "bf16")),
    arms=_ARMS,
    columns=(Column("ema.final"), Column("live.final")),
    contrasts=(
        *(across(arm, arm, main=True, precision=(name, "fp32")) for name in ("bf16", "tf32") for arm in _ARMS),
        interaction("rpr", "iid", precision=("bf16", "fp32")),
        difference("rpr", "iid"),
    ),
    notes=(
        "On a GPU the runs go on lanes, whatever their precision; `benchmarks/agreement.py` compares lanes with the "
        "plain loop.",
    ),
)
