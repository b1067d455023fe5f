"""`coverage`: the paper's summary figure: how much of the gap tail a randomised pass takes away."""

from __future__ import annotations

from reprise.lab.contrast import difference
from reprise.lab.printed_tables import Printed, Row
from reprise.lab.study import Column, Study
from reprise.studies.cells import glyph_labels, stream
from reprise.studies.paper import table


def _row(source: Row, retrieval: str, prefix: str) -> Row:
    figures = {"p99": source[f"{prefix}gap_p99"], "max": source[f"{prefix}gap_max"]}
    return {"dataset": source["dataset"], "retrieval": retrieval, **figures}


_ROWS = (
    *(_row(row, "rpr", "") for row in table("renewal") if row["retrieval"] == "rpr"),
    *(_row(row, "iid", "iid_") for row in table("buffer") if row["buffer"] == "5120"),
)

STUDY = Study(
    name="coverage",
    table="the summary figure of temporal coverage, panel a: p99 and longest gap on the LT10 streams",
    about=(
        "The gaps behind the linear-head tables: 5,120 images kept, 8 replayed a step. Gaps depend on labels alone, so "
        "nothing is trained."
    ),
    cells=tuple(stream(name, "lt10", {}) for name in ("cifar100", "tinyimagenet")),
    small=(glyph_labels("lt10"),),
    arms=("iid", "rpr"),
    columns=tuple(Column(key, paper=Printed(_ROWS, key)) for key in ("p99", "max")),
    contrasts=tuple(
        difference("rpr", "iid", key=key, name=f"rpr − iid, {key}", main=key == "p99") for key in ("p99", "max")
    ),
    notes=(
        "The paper's text says that rpr lowers the p99 by about 47% on both data sets: see the relative effect.",
        "The figure prints no numbers of its own; those of its first panel stand in the tables of renewal and buffer. "
        "Its second panel shows the contrasts of the study `gap-opportunity`.",
    ),
)
