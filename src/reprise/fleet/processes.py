"""Runs on a CPU: one process to a core, each with one thread, so that runs do not take turns on the same cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from reprise.core.files import Record
from reprise.core.workers import Pool, WorkerLost
from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.run import Images
from reprise.train.training import train

if TYPE_CHECKING:
    from reprise.fleet.fleet import Outcome

_TELL_EVERY = 0.5  # seconds between words to the parent


def on_cores(
    runs: Sequence[TrainRun],
    images: Images | None,
    data: str | os.PathLike[str] | None,
    jobs: int | None,
    tick: Callable[[int], None],
) -> Iterator[Outcome]:
    """Every run with its record, or with what went wrong, in the order in which they end."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    with Pool[TrainRun](partial(_Trainer, cores, images, data), min(jobs or len(cores), len(runs))) as pool:
        for run, found in pool.results(runs, tick):
            yield run, TrainingFailed(str(found)) if isinstance(found, WorkerLost) else found, {}


class _Trainer:
    """In a process: trains one run after the other."""

    def __init__(
        self, cores: Sequence[int], images: Images | None, data: str | os.PathLike[str] | None, number: int
    ) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {cores[number % len(cores)]})
        torch.set_num_threads(1)
        self.images, self.data = images, data
        self.source: object = None  # of the images, where each run has its own

    def __call__(self, run: TrainRun, tell: Callable[[int], None]) -> Record:
        if self.images is None or self.source not in (None, Images.source(run)):
            self.images, self.source = Images.load(run, self.data), Images.source(run)
        steps, told = 0, time.monotonic()

        def watch(_: object, __: object) -> None:
            nonlocal steps, told
            steps += 1
            if time.monotonic() - told > _TELL_EVERY:
                tell(steps)
                steps, told = 0, time.monotonic()

        record = train(run, self.images, watch=watch)
        tell(steps)
        return record
