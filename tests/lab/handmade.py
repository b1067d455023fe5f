"""Records of the tiny study whose figures were worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from lab.tinystudies import STUDY

from reprise.core.files import Record
from reprise.execute.one import audit
from reprise.lab import StudyPlan
from reprise.lab.study_runs import TestRuns, ValidationRuns, study_runs

CELL = STUDY.cells[0].name


@cache
def real(arm: str, seed: int) -> Record:
    """A real record of the tiny study, to be changed."""
    return audit(STUDY.cells[0].run(arm, seed))


def record(arm: str, seed: int, figures: Mapping[str, float | None], **changes: Any) -> Record:
    """A record with these figures: of the audit, or of a read-out as `ema.final`, in per cent."""
    found = real(arm, seed)
    audited = {**found["audit"], **{key: value for key, value in figures.items() if "." not in key}}
    metrics: dict[str, dict[str, float | None]] = {}
    for key, value in figures.items():
        if "." in key:
            readout, _, name = key.partition(".")
            metrics.setdefault(readout, {})[name] = None if value is None else value / 100
    return {**found, "audit": audited, **({"metrics": metrics, "split": "test"} if metrics else {}), **changes}


def runs_of(plan: StudyPlan, key: str, values: Mapping[str, Sequence[float | None]]) -> TestRuns | ValidationRuns:
    """The runs of a study of the tiny study's cell, whose figure `key` is given by arm and seed."""
    records = {
        (cell, arm, seed): record(arm, seed, {key: values[arm][seed]})
        for cell, arm, seed in plan.keys
        if seed < len(values[arm])
    }
    return study_runs(plan.study, plan.small, plan.all_seeds, records)


def tiny_plan(seeds: int = 2, error_seeds: int = 4, **changes: Any) -> StudyPlan:
    """The tiny study, changed."""
    return StudyPlan(replace(STUDY, **changes), seeds, error_seeds)
