"""A study small enough to be made in a blink, and executors that say what they were asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reprise.core.files import Record, sealed
from reprise.execute import Executor, Here, Job, RunOutcome
from reprise.execute.executor import Outcomes, Start, Tick
from reprise.lab import Cell, Column, Study
from reprise.runs import Run

STUDY = Study(
    name="tiny",
    table="nothing",
    about="Two arms on a memory of six classes.",
    cells=(Cell("C=6 b=2", {"classes": 6, "steps": 30, "buffer": 12, "replay": 2}),),
    small=(Cell("C=4 b=2", {"classes": 4, "steps": 20, "buffer": 8, "replay": 2}),),
    arms=("iid", "rpr"),
    columns=(Column("mean"), Column("max")),
)


def audits(count: int) -> list[Run]:
    """So many audits of twenty steps."""
    return [Run.of(learner=None, classes=4, steps=20, buffer=8, replay=2, seed=seed) for seed in range(count)]


def result(record: Record | None) -> Record:
    """All of a record that does not say how, when and where it was made."""
    assert record is not None
    return {name: value for name, value in record.items() if name not in ("provenance", "timings", "checksum")}


class Counted(Executor):
    """Makes runs here; keeps those that were made and those that were refused, in order."""

    def __init__(self, inner: Executor | None = None) -> None:
        self.inner = inner or Here()
        self.made: list[Run] = []
        self.jobs: list[Job] = []
        self.refused: list[Run] = []
        self.one_refused = threading.Event()

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        def noted(run: Run) -> Job | None:
            job = start(run)
            if job is None:
                self.refused.append(run)
                self.one_refused.set()
            else:
                self.made.append(run)
                self.jobs.append(job)
            return job

        yield from self.inner.execute(runs, noted, tick)


class Failing(Executor):
    """Fails at some runs, and gives the others to another executor, one by one."""

    def __init__(self, fails: Callable[[Run], BaseException | None], inner: Executor | None = None) -> None:
        self.fails, self.inner = fails, inner or Here()

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        for run in runs:
            error = self.fails(run)
            if error is None:
                yield from self.inner.execute([run], start, tick)
            elif isinstance(error, Exception):
                if start(run) is not None:
                    yield RunOutcome(run, None, error)
            else:
                start(run)
                raise error


def _other_number(text: bytes) -> bytes:
    return json.dumps({**json.loads(text), "tape": "00"}).encode()


def _other_format(text: bytes) -> bytes:
    content: Any = json.loads(text)
    return json.dumps(sealed({**content, "format": "reprise-record/2"})).encode()


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda text: text[: len(text) // 2], "is damaged: it is not JSON"),
    "empty": (lambda text: b"", "is damaged: it is not JSON"),
    "a list": (lambda text: b"[]", "is damaged: it is not a JSON object"),
    "no text": (lambda text: b"\xff" + text[1:], "is damaged: it is not JSON"),
    "another number": (_other_number, "is damaged: its content does not match its checksum"),
    "another format": (
        _other_format,
        "was written by another version of reprise: its format is 'reprise-record/2', older than 'reprise-record/4'",
    ),
    "another thing": (lambda text: b'{"format": "x"}', "is damaged: its format is 'x', not 'reprise-record/4'"),
}
"""What may have happened to a record, and what is said of it."""


def scratch_files(folder: Path) -> list[str]:
    """What nobody should leave behind: hidden files, and claims."""
    return [path.name for path in [*folder.rglob(".*"), *folder.glob("claims/*")]]
