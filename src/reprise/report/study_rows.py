"""What a study found as rows of plain objects, one for each cell and arm: what `--json` of the commands gives."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from reprise.audit import KEYS
from reprise.lab.outcome import StudyOutcome
from reprise.lab.study import Cell, figure_of
from reprise.report.study_data import contrast_data, figure_data
from reprise.report.summary import stream_label


def as_rows(outcome: StudyOutcome) -> list[dict[str, Any]]:
    """An object for each cell and arm: its settings, mean figures, each seed's, and what they were compared with."""
    return [_row(outcome, cell, arm) for cell in outcome.runs.cells for arm in outcome.runs.arms]


def _row(outcome: StudyOutcome, cell: Cell, arm: str) -> dict[str, Any]:
    plan, run = outcome.plan, cell.run(arm, 0)
    keys = list(dict.fromkeys([*KEYS, "gap_sd", *(column.key for column in plan.study.columns)]))
    group = outcome.runs.group(cell.name, arm)
    each = {
        seed: {key: figure_of(record, key) for key in keys}
        for seed, record in group.records.items()
        if seed < plan.seeds
    }
    means: dict[str, float | None] = {}
    for key in keys:
        known = [value for one in each.values() if (value := one[key]) is not None]
        means[key] = fmean(known) if known else None
    if (steps := means["steps"]) is not None and steps.is_integer():
        means["steps"] = int(steps)
    compared = [
        figure for figure in (*outcome.figures, *outcome.beside) if (figure.cell, figure.arm) == (cell.name, arm)
    ]
    of_arm = [
        one for one in outcome.contrasts if (one.contrast.terms[0].cell, one.contrast.terms[0].arm) == (cell.name, arm)
    ]
    return {
        "study": plan.study.name,
        "small": plan.small,
        "cell": cell.name,
        "stream": stream_label(run),
        "storage": run.memory.storage,
        "retrieval": arm,
        "buffer": run.memory.buffer,
        "replay": run.memory.replay,
        "seeds": plan.seeds,
        "error_seeds": plan.error_seeds,
        **means,
        "per_seed": [{"seed": seed, **one} for seed, one in each.items()],
        "compared": [figure_data(figure) for figure in compared],
        "contrasts": [contrast_data(one) for one in of_arm],
    }
