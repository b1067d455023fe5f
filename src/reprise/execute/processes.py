"""Runs in processes of this machine: one to a core, each with one thread, so that they do not take turns on cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from reprise.core.arguments import as_int
from reprise.core.files import Record
from reprise.core.plugins import load_modules, loaded_modules
from reprise.core.workers import Pool, WorkerLost
from reprise.execute.executor import Executor, Job, Outcomes, RunOutcome, Start, Tick
from reprise.execute.one import ImageSource, make
from reprise.runs.errors import TrainingFailed
from reprise.runs.run import Run

Task = tuple[Run, Job]


class Processes(Executor):
    """A pool of `jobs` processes, as many as there are cores unless told.

    Each of them reads the script that calls this, so the call belongs under `if __name__ == "__main__":`.
    """

    def __init__(self, jobs: int | None = None, images: ImageSource | None = None, device: str = "cpu") -> None:
        self.jobs = as_int(len(cores()) if jobs is None else jobs, "jobs", 1)
        self.images, self.device = images or ImageSource(), device

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        def tasks() -> Iterator[Task]:
            for run in runs:
                if (job := start(run)) is not None:
                    yield run, job

        if not runs:
            return
        jobs, mine = min(self.jobs, len(runs)), cores()
        # With a process for every core each has its own; with fewer, the system places them, beside those of others.
        pinned = mine if jobs >= len(mine) else []
        begin = partial(Maker, pinned, self.images.given, self.images.data, self.device, loaded_modules())
        with Pool[Task](begin, jobs) as pool:
            for (run, _), found in pool.results(tasks(), tick):
                if isinstance(found, Exception):
                    lost = isinstance(found, WorkerLost)
                    yield RunOutcome(run, None, TrainingFailed(str(found)) if lost else found)
                else:
                    yield RunOutcome(run, found)


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class Maker:
    """In a process: makes one run after the other."""

    def __init__(
        self, cores: Sequence[int], images: Any, data: Any, device: str, modules: Sequence[str], number: int
    ) -> None:
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {cores[number % len(cores)]})
        load_modules(modules)
        self.images, self.device = ImageSource(images, data), device

    def __call__(self, task: Task, tell: Callable[[int], None]) -> Record:
        run, job = task
        if run.trains:
            import torch

            torch.set_num_threads(1)
        return make(run, job, self.images, self.device, tell)
