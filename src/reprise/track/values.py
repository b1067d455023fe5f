"""What is logged of a run: every value, when it is taken and how it comes about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.runs.metrics import Evaluations, final, task_accuracy
from reprise.runs.plan import READOUTS, RunPlan
from reprise.runs.result import RunResult
from reprise.streams import LabelStream
from reprise.track.waits import WaitCounter

Ids = NDArray[np.int64]

ALWAYS = ("loss", "online_accuracy", "replay/examples", "memory/examples", "memory/fill", "memory/classes")
GAPS = (
    "gaps/open_max",
    "gaps/overdue",
    "gaps/max",
    "gaps/first_max",
    "gaps/cut_max",
    "gaps/bound",
    "gaps/pass_bound",
)
"""Of learners that replay nothing there are none."""
TESTS = tuple(f"accuracy/{readout}" for readout in READOUTS)


@dataclass(frozen=True)
class Source:
    """Where values come from: a run under way, or what it has left."""

    moved: Callable[[int], tuple[Ids, Ids, Ids]]
    """Of a step: what came in, what was replayed, the slots written; −1 is padding."""
    losses: Callable[[slice], NDArray[np.float32]]
    hits: Callable[[slice], Ids]
    correct: Callable[[int], Mapping[str, Ids]]
    """Of a test: images of each class got right, by read-out."""

    @classmethod
    def of(cls, result: RunResult) -> Source:
        """Of a run that has ended, such as one on a lane."""
        tape, trained = result.tape, result.trained
        assert trained is not None
        return cls(
            moved=lambda step: (tape.incoming[step], tape.replay[step], tape.written[step]),
            losses=trained.losses.__getitem__,
            hits=trained.hits.__getitem__,
            correct=lambda test: {name: found.correct[test] for name, found in trained.evaluations.items()},
        )


class RunValues:
    """The values of a run, for one step after the other."""

    def __init__(self, plan: RunPlan, source: Source, every: int) -> None:
        stream, tests, run = plan.stream, plan.tests, plan.run
        assert isinstance(stream, LabelStream)
        assert tests is not None
        self.source, self.tests, self.stream = source, tests, stream
        self.capacity = run.memory.buffer
        self.sizes = np.diff(stream.offsets)
        self.waits = WaitCounter(stream.labels, self.capacity, run.replay_size, run.memory.retrieval)
        self.due = sorted({*range(every, plan.steps + 1, every), *tests.due})
        self.taken = 0  # of those
        tasks = range(1, int(stream.task_of_class.max()) + 2)
        by_task = [f"task_accuracy/{readout}_{task}" for readout in READOUTS for task in tasks]
        self.names = (*ALWAYS, *(GAPS if run.replay_size else ()), *TESTS, *by_task)

    def step(self) -> dict[str, float] | None:
        """Go on by a step; gives the values after it, if they are due."""
        incoming, replay, written = self.source.moved(self.waits.steps)
        arrived = incoming >= 0
        self.waits.step(incoming[arrived], replay, written[arrived])
        done = self.waits.steps
        if self.taken == len(self.due) or done != self.due[self.taken]:
            return None
        since = self.due[self.taken - 1] if self.taken else 0
        self.taken += 1
        found = {**self._learning(slice(since, done), replay), **self._gaps(), **self._accuracy(done)}
        return {name: value for name, value in found.items() if value is not None}

    def _learning(self, window: slice, replay: Ids) -> dict[str, float]:
        waits = self.waits
        return {
            "loss": float(np.mean(self.source.losses(window), dtype=np.float64)),
            "online_accuracy": int(self.source.hits(window).sum()) / int(self.sizes[window].sum()),
            "replay/examples": int(np.count_nonzero(replay >= 0)),
            "memory/examples": waits.examples,
            "memory/fill": waits.examples / self.capacity,
            "memory/classes": waits.classes,
        }

    def _gaps(self) -> dict[str, int | None]:
        return {name: getattr(self.waits, name.partition("/")[2]) for name in GAPS if name in self.names}

    def _accuracy(self, done: int) -> dict[str, float | None]:
        number = int(np.searchsorted(self.tests.due, done))
        if number == len(self.tests.due) or self.tests.due[number] != done:
            return {}
        found: dict[str, float | None] = {}
        for readout, correct in self.source.correct(number).items():
            test = self._test(number, correct)
            found[f"accuracy/{readout}"] = final(test)
            for task, accuracy in enumerate(task_accuracy(test)[0].tolist(), 1):
                found[f"task_accuracy/{readout}_{task}"] = None if np.isnan(accuracy) else accuracy
        return found

    def _test(self, number: int, correct: Ids) -> Evaluations:
        """One test by itself."""
        tests, stream = self.tests, self.stream
        step = tests.due[number]
        return Evaluations(
            steps=np.array([step]),
            boundary=np.isin([step], stream.boundaries),
            correct=correct[None],
            seen=tests.seen[number : number + 1],
            counts=tests.counts,
            task_of_class=stream.task_of_class,
            stream_counts=stream.counts,
        )
