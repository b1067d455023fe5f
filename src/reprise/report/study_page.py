"""The page of a study."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

from reprise.report.render import render
from reprise.report.study_picture import picture
from reprise.report.study_tables import (
    NOTHING,
    about,
    beside_row,
    commands,
    difference,
    head,
    legend,
    ours,
    rows,
    runs_in_all,
)
from reprise.studies.compare import LIMIT, Comparison, Figure


def page(comparison: Comparison) -> str:
    """The result as one page that needs nothing else."""
    campaign = comparison.campaign
    small, keys = campaign.small, [column.key for column in campaign.study.columns]
    return render(
        "study",
        study=campaign.study,
        about=about(campaign),
        small=small,
        state="plain" if small else "bad" if comparison.outside else "good",
        verdict=comparison.verdict,
        picture=None if small else picture(comparison),
        limit=LIMIT,
        heads=[head(key) for key in keys],
        settings=[
            (setting, [(arm, [_cell(figures.get(key), small=small) for key in keys]) for _, arm, figures in group])
            for setting, group in groupby(rows(comparison), key=itemgetter(0))
        ],
        beside=[beside_row(figure) for figure in comparison.beside],
        beside_heads=[
            *("setting", "retrieval", "figure", "ours", f"range over {runs_in_all(campaign)} runs"),
            *("the paper's", "theory"),
        ],
        legend=legend(comparison),
        command="\n".join(commands(campaign)),
        version=", ".join(comparison.versions),
    )


def _cell(figure: Figure | None, *, small: bool) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {
        "ours": ours(figure),
        "below": f"sd {figure.sd:.2g}" if small else figure.paper or NOTHING,
        "apart": difference(figure),
        "outside": figure.within is False,
    }
