"""`gap-drift`: how far the head's bias of an absent class moves, by the length of its replay gap."""

from __future__ import annotations

from reprise.lab.study import Cell, Column, Study
from reprise.runs.diagnostics import BINS
from reprise.studies.small import SMALL

_SHARED = {"imbalance": 10, "learner": "er-ace", "head": "linear"}
_KEYS = tuple(f"diagnostics.bias_displacement.{name}.mean" for name in BINS)

STUDY = Study(
    name="gap-drift",
    table="the table of bias displacements by gap, linear head",
    about=(
        "While a class is neither replayed nor arriving, training moves its bias. The displacement is what the updates "
        "of one gap add to it, averaged over gaps of a length."
    ),
    cells=(
        Cell("cifar100-lt10", {**_SHARED, "dataset": "cifar100"}),
        Cell("tinyimagenet-lt10", {**_SHARED, "dataset": "tinyimagenet"}),
    ),
    small=(Cell("glyphs-lt10", {**_SHARED, **SMALL}),),
    arms=("iid", "rpr"),
    columns=(*(Column(key) for key in _KEYS[:-1]), Column(_KEYS[-1], arms=("iid",))),
    notes=(
        "The paper does not name the stream; its figures are taken as those of the LT10 streams.",
        "Gaps of 33 steps and more are compared under iid alone: under rpr they are rare, and the paper has a figure "
        "of them for Tiny-ImageNet only, −0.00573.",
    ),
)
