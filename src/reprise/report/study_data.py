"""A campaign's result as plain values: CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from reprise.lab.campaign_file import CampaignFile
from reprise.lab.figure import ContrastFigure, Figure
from reprise.lab.outcome import StudyOutcome
from reprise.lab.study import figure_of
from reprise.report.campaign_report import CampaignReport

FIGURES = (
    *("study", "cell", "arm", "figure", "ours", "low", "high", "sd", "lowest", "highest", "runs", "paper"),
    *("standard_error", "difference", "rule", "agrees", "theory", "theory_name"),
)
_STATISTICS = ("mean", "low", "high", "sd", "t", "p", "n", "positive", "relative", "clear", "material")
_PRINTED = ("mean", "low", "high", "relative", "sd", "t", "p", "holm", "positive")
CONTRASTS = (
    *("study", "contrast", "cell", "figure", "family", *_STATISTICS, "holm", "rule", "agrees"),
    *(f"paper_{name}" for name in _PRINTED),
)


def figures_csv(report: CampaignReport) -> str:
    """The figures as CSV, a line each."""
    every = (*report.outcome.figures, *report.outcome.beside)
    return _csv(FIGURES, [{"study": report.plan.study.name, **figure_data(one)} for one in every])


def contrasts_csv(report: CampaignReport) -> str:
    """The contrasts as CSV, a line each."""
    every = [{"study": report.plan.study.name, **contrast_data(one)} for one in report.outcome.contrasts]
    for row in every:
        row |= {f"paper_{name}": value for name, value in row.pop("paper").items()}
    return _csv(CONTRASTS, every)


def _csv(heads: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(outcome: StudyOutcome, file: CampaignFile | None = None) -> dict[str, Any]:
    """All that was found, and the runs behind it, as plain objects; `file` says how it was asked for."""
    return {
        "campaign": outcome.plan.name,
        "study": outcome.plan.study.name,
        "small": outcome.plan.small,
        "table": outcome.plan.study.table,
        "verdict": outcome.verdict,
        "agreeing": len(outcome.judged) - len(outcome.outside),
        "judged": len(outcome.judged),
        "runs": len(outcome.runs.records),
        "seeds": outcome.plan.seeds,
        "error_seeds": outcome.plan.error_seeds,
        "began": None if file is None else file.began,
        "command": None if file is None else list(file.command),
        "versions": list(outcome.versions),
        "missing": [list(key) for key in outcome.runs.missing],
        "doubts": list(outcome.doubts),
        "figures": [figure_data(one) for one in (*outcome.figures, *outcome.beside)],
        "contrasts": [contrast_data(one) for one in outcome.contrasts],
        "spreads": [asdict(one) for one in outcome.spreads],
        "per_run": _runs(outcome),
    }


def figure_data(figure: Figure) -> dict[str, Any]:
    """A figure as a plain object."""
    return {
        "cell": figure.cell,
        "arm": figure.arm,
        "figure": figure.key,
        "ours": figure.ours,
        "low": figure.low,
        "high": figure.high,
        "sd": figure.sd,
        "lowest": figure.lowest,
        "highest": figure.highest,
        "runs": figure.n,
        "paper": figure.paper,
        "standard_error": figure.error,
        "difference": figure.difference,
        "rule": figure.rule or ("beside theory" if figure.theory is not None else "not compared"),
        "agrees": figure.within,
        "theory": figure.theory,
        "theory_name": figure.theory_name or None,
    }


def contrast_data(one: ContrastFigure) -> dict[str, Any]:
    """A contrast as a plain object."""
    asked, found = one.contrast, one.found
    return {
        "contrast": asked.name,
        "cell": asked.label,
        "figure": asked.key,
        "family": asked.family or None,
        **{name: None if found is None else getattr(found, name) for name in _STATISTICS},
        "holm": one.holm,
        "rule": one.rule or "not compared",
        "agrees": one.within,
        "paper": {name: asked.paper.get(name) for name in _PRINTED},
    }


def _runs(outcome: StudyOutcome) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys(column.key for column in outcome.plan.study.columns))
    return [
        {
            "cell": cell,
            "arm": arm,
            "seed": seed,
            "identity": record["identity"],
            "tape": record["tape"],
            **{key: figure_of(record, key) for key in keys},
        }
        for (cell, arm, seed), record in outcome.runs.records.items()
    ]
