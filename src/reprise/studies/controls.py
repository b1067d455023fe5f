"""`cifar10-control` and `hybrid-validation`: where no effect is expected, and what was chosen on validation images."""

from __future__ import annotations

from reprise.lab.contrast import difference
from reprise.lab.study import Cell, Column, Study
from reprise.studies.cells import BF16, PRIMARY, SMALL, TAILS, glyphs, stream

_FEW = {**SMALL, "tasks": 5, "per_class": 16, "replay": 128}  # as many replayed as there are classes, and more


CIFAR10 = Study(
    name="cifar10-control",
    table="the paper's text on CIFAR-10: no gain where every class returns in every step",
    about=(
        "CIFAR-10 in five tasks with 32 images replayed a step: more than there are classes, so that every stored "
        "class returns in every step under either schedule, and none waits."
    ),
    cells=(stream("cifar10", "balanced", {**PRIMARY, "replay": 32, "tasks": 5}),),
    small=(Cell("glyphs-balanced", {"dataset": "glyphs", "imbalance": 1.0, **_FEW}, {"stream": "balanced"}),),
    arms=("iid", "rpr"),
    columns=(Column("ema.final"), Column("max")),
    contrasts=(difference("rpr", "iid", main=True),),
    notes=(
        "The paper prints no figure: it says that there is no material gain. It names neither tasks nor buffer; here "
        "are five tasks, as is usual on CIFAR-10, and 5,120.",
        BF16,
    ),
)

HYBRID = Study(
    name="hybrid-validation",
    table="the paper's validation runs of hybrid schedules; it prints no figures of them",
    about=(
        "Of 32 replayed images 16 or 24 come by randomised passes and the rest by independent draws. A tenth of the "
        "training images is held out and tested on: these runs choose a schedule, they do not report one."
    ),
    cells=tuple(
        stream("cifar100", tail, {**PRIMARY, "replay": 32, "validation": True}) for tail in TAILS if tail != "lt100"
    ),
    small=(glyphs("lt10", {"replay": 32, "validation": True}),),
    arms=("iid", "hybrid:16", "hybrid:24", "rpr"),
    columns=(Column("ema.final"), Column("p99"), Column("max")),
    contrasts=tuple(difference(arm, "iid", main=arm == "rpr") for arm in ("hybrid:16", "hybrid:24", "rpr")),
    notes=(
        "The paper names neither the streams nor the rule of choice of its 96 validation runs; CIFAR-100 balanced and "
        "LT10 are ours.",
        BF16,
    ),
)
