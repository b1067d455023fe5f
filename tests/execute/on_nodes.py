"""Executors for nodes of a Ray cluster in tests: they make runs on the CPU, and may be lost on the way."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reprise.execute import Executor, Here
from reprise.execute.one import ImageSource


class OnLogicalGPU(Executor):
    """Stands in for a fleet. Notes the GPU it was given and every run that it begins, in a file for each share.

    With `dies`, the process of the first share to come so far is killed after its first run.
    """

    def __init__(self, images: ImageSource, notes: Path, dies: bool) -> None:
        self.images, self.notes, self.dies = images, notes, dies

    def execute(self, runs: Any, start: Any, tick: Any) -> Any:
        def noted(run: Any) -> Any:
            gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
            with (self.notes / f"gpu-{gpu}-{os.getpid()}").open("a") as file:
                file.write(f"{run.seed}\n")
            return start(run)

        for outcome in Here(self.images).execute(runs, noted, tick):
            yield outcome
            if self.dies:
                try:
                    (self.notes / "died").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)


def end_here(images: ImageSource) -> Executor:
    """Ends its process, where an executor is asked for."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it goes on")


def children(parent: int) -> Iterator[int]:
    """Processes that this one began."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, begun_by = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(begun_by) == parent and state != "Z":
                yield int(entry.name)
