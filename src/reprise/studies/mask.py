"""`mask`: whether a schedule is worth more while the incoming loss is masked."""

from __future__ import annotations

from typing import Any

from reprise.lab.contrast import difference, interaction
from reprise.lab.printed_tables import PrintedContrast
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, LINEAR, glyphs, stream
from reprise.studies.paper import table

_TABLE = table("mask_interaction")
_HYPER: dict[str, dict[str, Any]] = {"on": {}, "off": {"hyper": {"mask": "none"}}}


STUDY = Study(
    name="mask",
    table="the table of mask and schedule, linear head",
    about=(
        "ER-ACE's mask keeps the incoming batch from pushing down classes that are absent from it. The same runs are "
        "made with the mask and without it, where all classes compete."
    ),
    cells=tuple(
        stream(name, "lt10", {**LINEAR, **hyper}, mask=mask)
        for name in ("cifar100", "tinyimagenet")
        for mask, hyper in _HYPER.items()
    ),
    small=tuple(glyphs("lt10", {"head": "linear", **hyper}, mask=mask) for mask, hyper in _HYPER.items()),
    arms=("iid", "rpr"),
    columns=(Column("ema.final"), Column("p99"), Column("max")),
    contrasts=(
        difference("rpr", "iid", paper=[PrintedContrast(_TABLE)]),
        interaction(
            "rpr", "iid", paper=[PrintedContrast(_TABLE, {"row": "interaction"})], main=True, mask=("on", "off")
        ),
    ),
    notes=(
        "The paper prints neither buffer nor replay batch beside this table; 5,120 and 8 are those of the tables whose "
        "masked figures equal these. Unmasked means a softmax over all classes.",
        BF16,
    ),
)
