"""Label-only runs: plan a tape, audit it, many at once on this machine's cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from reprise.audit import Audit, measure
from reprise.core.arguments import as_int
from reprise.core.workers import Pool
from reprise.memory import Memory
from reprise.streams import label_stream
from reprise.streams.still import StillStream
from reprise.tape import Tape, plan

PER_CLASS = 50  # examples of a class in a balanced memory that stands still, unless a buffer is given
_FEW = 8  # runs that are over before other processes have started


@dataclass(frozen=True)
class AuditRun:
    """One tape to plan and audit: a named stream, or a balanced memory of `classes` that stands still for `steps`."""

    retrieval: str
    storage: str = "reservoir"
    stream: str | None = None
    classes: int | None = None
    steps: int | None = None
    buffer: int | None = None
    replay: int = 8
    draws: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.stream is None) == (self.classes is None):
            raise ValueError("an audit is of a stream, or of a number of classes: give one of the two")
        if self.stream is None:
            classes = as_int(self.classes, "classes", 1)
            as_int(self.steps, "steps", 1)
            if self.buffer is not None and as_int(self.buffer, "buffer", 1) % classes:
                raise ValueError(f"a balanced memory of {classes} classes cannot hold {self.buffer} examples evenly")
        elif self.steps is not None:
            raise ValueError("steps are given with classes; a stream has its own")

    @property
    def name(self) -> str:
        """The stream's name, or what stands still."""
        return self.stream or f"still-{self.classes}"

    @property
    def capacity(self) -> int:
        return self.buffer or (5120 if self.classes is None else PER_CLASS * self.classes)

    def tape(self, progress: Callable[[int], None] | None = None) -> Tape:
        """Plan the tape."""
        memory = Memory(self.capacity, self.storage, self.retrieval, self.seed, self.draws)
        if self.classes is None:
            assert self.stream is not None
            return plan(label_stream(self.stream, seed=self.seed), memory, self.replay, progress=progress)
        memory.store(np.arange(self.capacity) % self.classes)
        return plan(StillStream(self.steps or 0), memory, self.replay, progress=progress)

    def run(self) -> Audit:
        """Plan the tape and audit it."""
        return measure(self.tape())


def audit_all(
    runs: Sequence[AuditRun], *, jobs: int | None = None, progress: Callable[[int], None] | None = None
) -> list[Audit]:
    """Audit every run, in the order given, on `jobs` processes (all cores unless told). Same figures however many.

    `progress` is called with the number of runs done.
    """
    jobs = min(as_int(jobs or os.cpu_count() or 1, "jobs", 1), len(runs))
    audits: dict[int, Audit] = {}
    with closing(_here(runs) if jobs <= 1 or len(runs) <= _FEW else _spread(runs, jobs)) as ended:
        for place, audit in ended:
            audits[place] = audit
            if progress is not None:
                progress(len(audits))
    return [audits[place] for place in range(len(runs))]


def _here(runs: Sequence[AuditRun]) -> Generator[tuple[int, Audit], None, None]:
    for place, run in enumerate(runs):
        yield place, run.run()


def _spread(runs: Sequence[AuditRun], jobs: int) -> Generator[tuple[int, Audit], None, None]:
    with Pool[tuple[int, AuditRun]](_auditor, jobs) as pool:
        for (place, _), found in pool.results(enumerate(runs)):
            if isinstance(found, Exception):
                raise found
            yield place, found


def _auditor(_: int) -> Callable[[tuple[int, AuditRun], object], Audit]:
    """In a process: audits one run after the other."""
    return lambda given, _: given[1].run()
