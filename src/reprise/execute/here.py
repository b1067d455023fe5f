"""Runs in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reprise.execute.executor import Executor, Outcomes, RunOutcome, Start, Tick
from reprise.execute.one import ImageSource, make
from reprise.runs.run import Run

if TYPE_CHECKING:
    from reprise.train import StepResult, Training


class Here(Executor):
    """This process. `watch` is called after every step of training, and `warn` with what one should know."""

    def __init__(
        self,
        images: ImageSource | None = None,
        device: Any = "cpu",
        watch: Callable[[Training, StepResult], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.images = images or ImageSource()
        self.device, self.watch, self.warn = device, watch, warn

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        for run in runs:
            if (job := start(run)) is None:
                continue
            try:
                ended = RunOutcome(run, make(run, job, self.images, self.device, tick, self.watch, self.warn))
            except Exception as error:
                ended = RunOutcome(run, None, error)
            yield ended
