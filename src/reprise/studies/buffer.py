"""`buffer` and `buffer-gaps`: what a smaller memory does to departures, to gaps, and to what a schedule is worth."""

from __future__ import annotations

from dataclasses import replace

from reprise.lab.contrast import difference
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, LINEAR, glyph_labels, glyphs, stream
from reprise.studies.paper import table

_TABLE = table("buffer")
_SIZES = (200, 500, 1000, 2000, 5120)
_GAPS = (
    Column("deactivations", arms=("iid",), paper=Printed(_TABLE, "deactivations")),
    Column("p99", paper=Printed(_TABLE, "{arm}_gap_p99")),
    Column("max", paper=Printed(_TABLE, "{arm}_gap_max")),
)

STUDY = Study(
    name="buffer",
    table="the buffer table: accuracy and gaps by capacity, linear head",
    about=(
        "ER-ACE with a linear head learns CIFAR-100 LT10 with reservoirs of 200 to 5,120 examples. Both arms hold the "
        "same memory at every step, so deactivations are one figure for both and stand in the row of iid."
    ),
    cells=tuple(stream("cifar100", "lt10", {**LINEAR, "buffer": size}, buffer=str(size)) for size in _SIZES),
    small=tuple(glyphs("lt10", {"head": "linear", "buffer": size}, buffer=str(size)) for size in (100, 500)),
    arms=("iid", "rpr"),
    columns=(Column("ema.final", paper=Printed(_TABLE, "acc_{arm}")), *_GAPS),
    contrasts=(difference("rpr", "iid", paper=[PrintedContrast(_TABLE)], family="rpr − iid", main=True),),
    notes=(
        "The paper does not print storage, replay batch or mask of this table; a reservoir, 8 and the mask of ER-ACE "
        "give its departures, its gaps and, at 5,120, the figures of its other tables.",
        BF16,
    ),
)

GAPS = replace(
    STUDY,
    name="buffer-gaps",
    table="the label-only columns of the buffer table: deactivations and gaps",
    about=(
        "CIFAR-100 LT10 through reservoirs of 200 to 5,120 examples. Both arms hold the same memory at every step, "
        "so deactivations are one figure for both and stand in the row of iid."
    ),
    cells=tuple(stream("cifar100", "lt10", {"buffer": size}, buffer=str(size)) for size in _SIZES),
    small=tuple(glyph_labels("lt10", {"buffer": size}, buffer=str(size)) for size in (100, 500)),
    columns=_GAPS,
    contrasts=(),
    notes=(),
)
