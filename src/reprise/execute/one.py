"""One run, made in this process: an audit, or training by the plain loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reprise.core.files import Record
from reprise.execute.executor import Job, Tick
from reprise.runs.images import Images, Root, fingerprints, source
from reprise.runs.plan import make_plan
from reprise.runs.record import make_record
from reprise.runs.result import RunResult
from reprise.runs.run import Run

if TYPE_CHECKING:
    from reprise.train import StepResult, Training

TELL_EVERY = 0.5  # seconds between two words about steps made


class ImageSource:
    """The images of runs: those given, or read from a folder and kept while runs need the same."""

    def __init__(self, images: Images | None = None, data: Root = None) -> None:
        self.given, self.data = images, data
        self._last: tuple[Any, Images] | None = None

    def __call__(self, run: Run, progress: Callable[[int, int], None] | None = None) -> Images:
        if self.given is not None:
            return self.given
        if self._last is None or self._last[0] != source(run):
            self._last = None  # before the next ones are read
            self._last = source(run), Images.load(run, self.data, progress)
        return self._last[1]


def audit(run: Run) -> Record:
    """Plan a run's tape, measure it, and make the record."""
    began = time.perf_counter()
    plan = make_plan(run)
    assert plan.tape is not None
    timings = {"prepare": round(time.perf_counter() - began, 4), "steps": 0}
    return make_record(RunResult.of(plan, fingerprints(run), plan.tape, timings, None))


def make(
    run: Run,
    job: Job,
    images: ImageSource,
    device: Any = "cpu",
    tick: Tick | None = None,
    watch: Callable[[Training, StepResult], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Record:
    """Make a run."""
    if not run.trains:
        return audit(run)
    from reprise.train import train

    steps, told = 0, time.monotonic()

    def seen(training: Training, step: StepResult) -> None:
        nonlocal steps, told
        steps += 1
        if watch is not None:
            watch(training, step)
        if tick is not None and (step.step == training.steps or time.monotonic() - told > TELL_EVERY):
            tick(steps)
            steps, told = 0, time.monotonic()

    return train(
        run,
        images(run),
        device=device,
        checkpoints=job.checkpoints,
        checkpoint_every=job.checkpoint_every,
        keep=job.keep,
        watch=seen,
        track=job.track,
        warn=warn,
    )
