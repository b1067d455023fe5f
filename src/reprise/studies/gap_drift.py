"""`gap-drift`: how far the head's bias of an absent class moves, by the length of its replay gap."""

from __future__ import annotations

from reprise.lab.printed_tables import Printed
from reprise.lab.study import Column, Study
from reprise.runs.diagnostics import BINS
from reprise.studies.cells import BF16, LINEAR, glyphs, stream
from reprise.studies.paper import table

_KEY = "diagnostics.bias_displacement.{}.mean"
_NEGATIVE = "diagnostics.bias_displacement.{}.negative"

STUDY = Study(
    name="gap-drift",
    table="the table of bias displacements by gap, linear head",
    about=(
        "While a class is neither replayed nor arriving, training moves its bias. The displacement is what the updates "
        "of one gap add to it, averaged over gaps of a length."
    ),
    cells=tuple(stream(name, "lt10", LINEAR) for name in ("cifar100", "tinyimagenet")),
    small=(glyphs("lt10", {"head": "linear"}),),
    arms=("iid", "rpr"),
    columns=(
        *(
            Column(
                _KEY.format(name), paper=Printed(table("gap_drift"), "bias_displacement", {"gap_bin": name}), open=True
            )
            for name in BINS
        ),
        *(Column(_NEGATIVE.format(name), open=True) for name in BINS),
    ),
    notes=(
        "The paper does not name the stream; its figures are taken as those of the LT10 streams.",
        "Under rpr gaps of 33 steps and more are rare; the figure is the mean of the runs that have any. The paper "
        "says that every displacement is negative: the columns of the share that is negative would show 1.",
        BF16,
    ),
)
