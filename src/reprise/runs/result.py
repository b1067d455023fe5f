"""What a run leaves when it has ended, whoever made it: the loop, a lane, or the audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.runs.images import Fingerprints
from reprise.runs.metrics import Evaluations
from reprise.runs.plan import RunPlan
from reprise.runs.run import Run
from reprise.runs.tapes import summarise
from reprise.tape import Tape


@dataclass(frozen=True, eq=False)
class Trained:
    """What training adds to a plan."""

    evaluations: dict[str, Evaluations]  # by read-out
    losses: NDArray[np.float32]  # of every step
    hits: NDArray[np.int64]  # incoming examples named before they were learned, by step
    biases: NDArray[np.float32] | None  # of the head before the first step and after each, if it has any
    made_by: dict[str, Any]  # torch, device, threads and the like


@dataclass(frozen=True, eq=False)
class RunResult:
    """A run that has ended."""

    plan: RunPlan
    data: Fingerprints
    tape: Tape
    summary: dict[str, Any]  # of the tape
    timings: dict[str, float]
    trained: Trained | None = None  # None for an audit

    @classmethod
    def of(
        cls, plan: RunPlan, data: Fingerprints, tape: Tape, timings: dict[str, float], trained: Trained | None
    ) -> RunResult:
        """The result of a plan; the tape is summarised unless the plan has done so."""
        summary = plan.summary if plan.summary is not None else summarise(tape)
        return cls(plan, data, tape, summary, timings, trained)

    @property
    def run(self) -> Run:
        return self.plan.run
