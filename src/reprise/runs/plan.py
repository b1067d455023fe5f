"""A run planned: what arrives, what is replayed, how images are cropped, and when the read-outs are tested on what.

The loop and the lanes play the same plan. An audit ends with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.rng import Random
from reprise.runs.augmentation import plan_augmentation
from reprise.runs.images import Images, source
from reprise.runs.metrics import Evaluations
from reprise.runs.run import Run
from reprise.runs.settings import StillSettings
from reprise.runs.tapes import summarise
from reprise.streams import LabelStream, StillStream, from_labels, label_stream
from reprise.streams.datasets import DATASETS
from reprise.tape import Tape, plan

Ids = NDArray[np.int64]
READOUTS = ("ema", "live")


@dataclass(frozen=True, eq=False)
class Tests:
    """When the read-outs of a run are tested, and on which images: those of the classes that have arrived by then."""

    __test__ = False  # it is no test of this project's own

    due: tuple[int, ...]  # steps done at each test, rising
    seen: NDArray[np.bool_]  # tests × classes: which classes have arrived by then
    ids: Ids  # of all test images
    labels: Ids  # of these
    counts: Ids  # test images of each class

    @classmethod
    def of(cls, run: Run, stream: LabelStream, ids: Ids, labels: Ids, classes: int) -> Tests:
        """The tests of a run: at task boundaries, and every so many steps if that was asked for."""
        assert run.evaluation is not None
        every = run.evaluation.every
        between = range(every, len(stream) + 1, every) if every else ()
        due = tuple(sorted({step for step in (*stream.boundaries.tolist(), *between) if step}))
        seen = np.zeros((len(due), classes), np.bool_)
        for row, step in zip(seen, due, strict=True):
            row[stream.labels[stream.ids[: stream.offsets[step]]]] = True
        return cls(due, seen, ids, labels, np.bincount(labels, minlength=classes))

    def chosen(self, number: int) -> Ids:
        """The ids of the images of this test."""
        chosen: Ids = self.ids[self.seen[number][self.labels]]
        return chosen


@dataclass(frozen=True, eq=False)
class RunPlan:
    """All that is decided about a run before its first step."""

    run: Run
    stream: LabelStream | StillStream
    tape: Tape | None  # None where replay is drawn live, because the memory asks the network
    summary: dict[str, Any] | None  # what the record says of the tape
    tests: Tests | None  # None for an audit
    crops: NDArray[np.int8] | None  # steps × incoming × 3, of a run that trains
    replay_crops: NDArray[np.int8] | None  # steps × draws × replayed × 3
    seconds: float  # that planning took

    @property
    def steps(self) -> int:
        return len(self.stream)

    def evaluations(self, correct: Mapping[str, Sequence[Any] | NDArray[Any]]) -> dict[str, Evaluations]:
        """What each read-out got right at its tests so far, from test images got right, tests × classes."""
        tests, stream = self.tests, self.stream
        assert tests is not None
        assert isinstance(stream, LabelStream)
        done = len(next(iter(correct.values())))
        steps = np.array(tests.due[:done], np.int64)
        return {
            name: Evaluations(
                steps=steps,
                boundary=np.isin(steps, stream.boundaries),
                correct=np.array(found, np.int64).reshape(done, len(tests.counts)),
                seen=tests.seen[:done],
                counts=tests.counts,
                task_of_class=stream.task_of_class,
                stream_counts=stream.counts,
            )
            for name, found in correct.items()
        }


@dataclass(frozen=True, eq=False)
class Labels:
    """What a plan needs of a run's images: their labels alone, so that a process that plans holds no images."""

    train: Ids
    test: Ids
    classes: int

    @classmethod
    def of(cls, images: Images, run: Run) -> Labels:
        """Those of a run's images; a validation run does not look at the test images."""
        test = images.train.labels[:0] if source(run).validation else images.test.labels
        return cls(images.train.labels, test, len(images.train.classes))


def make_stream(run: Run, labels: Ids | None = None) -> LabelStream | StillStream:
    """What arrives in a run, over a data set's labels; shuffled as a whole for a learner that sees all at once.

    Without labels the sizes of the classes are those of the catalogue, or of the folder.
    """
    if isinstance(run.stream, StillSettings):
        return StillStream(run.stream.steps)
    assert run.data is not None
    chosen = {name: value for name, value in vars(run.stream_options).items() if name != "imbalance"}
    if labels is None or run.data.name in DATASETS:
        stream = label_stream(run.stream_path, run.seed, labels=labels, **chosen)
    else:
        name = Path(run.data.name).name
        stream = from_labels(labels, run.seed, imbalance=run.stream.imbalance, name=name, **chosen)
    if run.learner is not None:
        from reprise.learners import find_learner

        if find_learner(run.learner.name).shuffled:
            order = Random(run.seed, "joint order").permutation(len(stream.ids))
            stream = replace(stream, ids=stream.ids[order])
    return stream


def make_tape(
    run: Run, stream: LabelStream | StillStream, progress: Callable[[int], None] | None = None
) -> Tape | None:
    """The replay sequence of a run over its stream; None if none can be planned, for the memory asks the network."""
    if run.scored:
        return None
    memory = run.make_memory()
    if isinstance(run.stream, StillSettings):
        memory.store(np.arange(run.memory.buffer) % run.stream.classes)
    return plan(stream, memory, run.replay_size, progress=progress)


def make_plan(run: Run, labels: Labels | None = None, progress: Callable[[int], None] | None = None) -> RunPlan:
    """Plan a run; one that trains needs the labels of its images. `progress` is called with the steps planned."""
    began = time.perf_counter()
    stream = make_stream(run, None if labels is None else labels.train)
    if len(stream) == 0 and run.trains:
        raise ValueError(f"the stream {run.stream_name!r} has no step: there is nothing to learn from")
    tape = make_tape(run, stream, progress)
    summary = None if tape is None else summarise(tape)
    tests = crops = replay_crops = None
    if run.trains:
        assert labels is not None
        assert isinstance(stream, LabelStream)
        assert run.data is not None
        kind = str(run.data.augment)
        # Crops of what comes in have random numbers of their own, so that they do not depend on what is replayed.
        width = int(np.diff(stream.offsets).max())
        crops = plan_augmentation(run.seed, "augmentation", (len(stream), width), kind)
        shape = (len(stream), max(run.draws, 1), run.replay_size)
        replay_crops = plan_augmentation(run.seed, "augmentation of replay", shape, kind)
        held = run.data.validation
        ids = stream.heldout if held else np.arange(len(labels.test))
        tested = labels.train[ids] if held else labels.test
        if (named := int(tested.max(initial=0)) + 1) > labels.classes:
            raise ValueError(f"the test images are of {named} classes, the training images of {labels.classes}")
        tests = Tests.of(run, stream, ids, tested, labels.classes)
    return RunPlan(run, stream, tape, summary, tests, crops, replay_crops, time.perf_counter() - began)
