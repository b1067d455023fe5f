"""`renewal` and `renewal-gaps`: how a class order that is used again narrows who meets whom, and what that costs."""

from __future__ import annotations

from dataclasses import replace

from reprise.lab.contrast import difference
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.lab.study import Column, Study
from reprise.studies.cells import BF16, LINEAR, glyph_labels, glyphs, stream
from reprise.studies.paper import table

_TABLE = table("renewal")
_DATASETS = ("cifar100", "tinyimagenet")
_BOUNDED = ("rpr", "reused:4", "reused:16", "fixed")
_PAIRS = tuple(
    Column(key, arms=_BOUNDED, paper=Printed(_TABLE, column))
    for key, column in {
        "pair_coverage": "pair_coverage",
        "pair_entropy": "pair_entropy",
        "p99": "gap_p99",
        "max": "gap_max",
    }.items()
)
_STREAM = "The paper's table does not name the stream; its figures are those of the LT10 streams."

STUDY = Study(
    name="renewal",
    table="the renewal table: pairs, gaps and accuracy, linear head",
    about=(
        "ER-ACE with a linear head learns LT10 streams while the order of classes is renewed at every pass (rpr), "
        "every 4 or 16 passes, or never (fixed); iid is what each is compared with."
    ),
    cells=tuple(stream(name, "lt10", LINEAR) for name in _DATASETS),
    small=(glyphs("lt10", {"head": "linear"}),),
    arms=("iid", *_BOUNDED),
    columns=(Column("ema.final"), *_PAIRS),
    contrasts=tuple(
        difference(
            arm,
            "iid",
            paper=[PrintedContrast(_TABLE, {"retrieval": arm})],
            family="against iid, {dataset}",
            main=arm == "rpr",
        )
        for arm in _BOUNDED
    ),
    notes=(
        _STREAM,
        "A reused order is renewed early when the stored classes are others at its end; the paper does not say what "
        "happens then, and this choice gives its coverage and entropy.",
        BF16,
    ),
)

GAPS = replace(
    STUDY,
    name="renewal-gaps",
    table="the label-only columns of the renewal table: pairs and gaps",
    about=(
        "The order of classes is renewed at every pass (rpr), every 4 or 16 passes, or never (fixed). "
        "Coverage and entropy say how many pairs of classes ever share a batch, and how evenly."
    ),
    cells=tuple(stream(name, "lt10", {}) for name in _DATASETS),
    small=(glyph_labels("lt10"),),
    arms=_BOUNDED,
    columns=_PAIRS,
    contrasts=(),
    notes=(_STREAM,),
)
