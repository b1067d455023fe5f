"""A study of a few runs that some paper prints, and one of audits: two cells, two arms. One contrast is outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from made_records import campaign_file, made_outcome

from reprise.lab import Cell, Column, Study, TheoryFigure
from reprise.lab.contrast import across, difference, interaction
from reprise.lab.printed_tables import Printed, PrintedContrast
from reprise.report.campaign_report import CampaignReport
from reprise.studies.cells import glyph_labels, glyphs

PRINTED = tuple(
    {"storage": storage, "retrieval": arm, "accuracy": figure}
    for storage, arm, figure in (
        ("reservoir", "iid", "20.1"),
        ("reservoir", "rpr", "23.0"),
        ("brs", "iid", "31.5"),
        ("brs", "rpr", "21.2"),
    )
)
APART = (
    {"storage": "reservoir", "delta": "2.9", "ci_lo": "2.1", "ci_hi": "3.7"},
    {"storage": "brs", "delta": "-4.0", "ci_lo": "-4.5", "ci_hi": "-3.5"},
)
HOSTILE = "balanced <&> brs"
"""The name of the second cell, which no page may take for a tag."""


def _cells(make: Callable[..., Cell]) -> tuple[Cell, ...]:
    first, second = (make("balanced", {"storage": storage}, storage=storage) for storage in ("reservoir", "brs"))
    return first, replace(second, name=HOSTILE)


TRAINED = Study(
    name="printed",
    table="a table <of & some> paper",
    about="Two arms, two storages.",
    cells=_cells(glyphs),
    small=(glyphs("balanced", storage="reservoir"),),
    arms=("iid", "rpr"),
    columns=(Column("ema.final", paper=Printed(PRINTED, "accuracy")), Column("max")),
    contrasts=(
        difference("rpr", "iid", paper=[PrintedContrast(APART)], family="all", main=True),
        across("rpr", "rpr", storage=("brs", "reservoir")),
        interaction("rpr", "iid", key="max", storage=("brs", "reservoir")),
    ),
    notes=("A choice <that> was open.",),
)
AUDITED = replace(
    TRAINED,
    name="labels",
    cells=_cells(glyph_labels),
    small=(glyph_labels("balanced", storage="reservoir"),),
    columns=(Column("p99"), Column("violations")),
    contrasts=(),
    beside=(TheoryFigure("max", "iid", lambda cell: 12.0, "a <scale>"),),
)


def report_of(study: Study, *, small: bool = False, without: int = 0) -> CampaignReport:
    """The report of such a study over three seeds; the last runs are missing."""
    found = made_outcome(study, small=small, without=without)
    return CampaignReport(found, campaign_file(found.plan))
