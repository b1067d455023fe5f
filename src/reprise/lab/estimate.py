"""How long runs will take here, from a short trial of each kind of run. Needs torch for runs that train."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reprise.execute import Executor, Job
from reprise.execute.executor import LANES
from reprise.execute.one import ImageSource, audit
from reprise.runs.images import first_of_each
from reprise.runs.plan import make_stream
from reprise.runs.run import Run
from reprise.streams import LabelStream

WARM, STEPS, PATIENCE = 2, 12, 4.0  # steps not counted, steps timed, seconds for them
SHORT, LONG = 4, 16  # images of a class in two trials of lanes; where a memory asks the network, after it is full
MORE = 64  # stored examples, in the second trial of a memory that asks the network, beyond those of the first


@dataclass(frozen=True)
class KindEstimate:
    """Runs that differ in what costs nothing, such as their seed."""

    example: Run
    count: int
    steps: int
    """Steps of all of them together."""
    seconds: float
    """What all of them take together, one after the other; on lanes, as they go at once."""


@dataclass(frozen=True)
class Estimate:
    """How long runs will take."""

    kinds: tuple[KindEstimate, ...]
    at_once: int
    """Runs that go side by side."""

    @property
    def seconds(self) -> float:
        return sum(kind.seconds for kind in self.kinds) / self.at_once


def estimate(runs: Sequence[Run], images: ImageSource, *, jobs: int = 1) -> Estimate:
    """How long runs take on the CPU in so many processes: each kind of run is tried for some steps in this process."""
    kinds = []
    for kind in _kinds(runs):
        steps = _steps(kind, images)
        try_it = _trial if kind[0].trains else _audit_trial
        kinds.append(KindEstimate(kind[0], len(kind), steps, try_it(kind[0], images) * len(kind)))
    return Estimate(tuple(kinds), max(1, min(jobs, len(runs))))


def estimate_lanes(runs: Sequence[Run], images: ImageSource, executor: Executor, lanes: int | None = None) -> Estimate:
    """How long runs take on a GPU's lanes: of each kind, short and longer runs are made, and compared.

    Audits need no GPU; one of each kind is made here.
    """
    kinds = []
    for kind in _kinds(runs):
        steps = _steps(kind, images)
        if not kind[0].trains:
            kinds.append(KindEstimate(kind[0], len(kind), steps, _audit_trial(kind[0], images) * len(kind)))
            continue
        full = _until_full(kind[0], images)
        seconds = [
            _lane_trial(kind[0], executor, min(lanes or LANES, len(kind)), full + each) for each in (SHORT, LONG)
        ]
        (few, first), (many, second) = seconds
        each_step = max(second - first, 1e-6) / max(many - few, 1)
        kinds.append(KindEstimate(kind[0], len(kind), steps, first + each_step * steps))
    return Estimate(tuple(kinds), 1)


def _kinds(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that take about as long a step: all but seed and policies alike."""
    from reprise.fleet.grouping import lane_kind, together

    def key(run: Run) -> object:
        tail = getattr(run.stream, "imbalance", None)
        return (lane_kind(run), tail)

    return together(runs, key)


def _steps(kind: Sequence[Run], images: ImageSource) -> int:
    run = kind[0]
    labels = images(run).train.labels if run.trains else None
    return len(make_stream(run, labels)) * len(kind)


def _audit_trial(run: Run, images: ImageSource) -> float:
    began = time.perf_counter()
    audit(run)
    return time.perf_counter() - began


def _trial(run: Run, images: ImageSource) -> float:
    """Seconds that a run takes in one process: its preparation, its steps, and its tests."""
    from reprise.fleet.grouping import pool_size

    pool, few, steps = pool_size(run) or 0, run.replay_size, _steps([run], images)
    many = min(pool, few + MORE)
    if many <= few:
        beside, each = _time(run, images)
        return beside + steps * each
    # How many are asked about decides how long a step takes, and at first nothing is stored. So two small memories are
    # tried when they are full, and each candidate more is taken to need as long.
    (beside, each), (_, slower) = (_time(run.replace(buffer=size), images, full=size) for size in (few, many))
    candidate = max(slower - each, 0.0) / (many - few)
    batch = run.stream_options.batch
    asked = sum(min(max(step * batch, few), pool) - few for step in range(steps))
    return beside + steps * each + asked * candidate


def _time(run: Run, images: ImageSource, full: int = 0) -> tuple[float, float]:
    """Seconds of a run beside its steps, and of each step; timed when so many images have come."""
    import torch

    from reprise.train import Training, steps

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker has it
    try:
        began = time.perf_counter()
        training = Training(run, images(run), "cpu")
        prepared = time.perf_counter()
        warm = max(WARM, -(-full // run.stream_options.batch))
        each = 0.0
        for result in steps(training):
            if result.step == warm:
                warmed = time.perf_counter()
            elif result.step > warm:
                each = (time.perf_counter() - warmed) / (result.step - warm)
                if result.step - warm >= STEPS or time.perf_counter() - warmed > PATIENCE:
                    break
        tested = time.perf_counter()
        training.evaluate()
        first = time.perf_counter() - tested
    finally:
        torch.set_num_threads(threads)
    images_tested = [len(training.tests.chosen(number)) for number in range(len(training.due))]
    return (prepared - began) + first * sum(images_tested) / max(images_tested[0], 1), each


def _until_full(run: Run, images: ImageSource) -> int:
    """Images of a class with which a memory asks the network about as many as it ever will; 0 if it asks nothing."""
    from reprise.fleet.grouping import pool_size

    pool = pool_size(run)
    if not pool:
        return 0
    labels = images(run).train.labels

    def enough(per_class: int) -> bool:
        stream = make_stream(run.replace(per_class=per_class), labels[first_of_each(labels, per_class)])
        assert isinstance(stream, LabelStream)
        return int(stream.counts.sum()) >= pool

    return bisect_left(range(int(np.bincount(labels).max())), True, lo=1, key=enough)


def _lane_trial(run: Run, executor: Executor, count: int, per_class: int) -> tuple[int, float]:
    """Steps and seconds of short runs of this kind."""
    runs = [run.replace(per_class=per_class, seed=seed) for seed in range(count)]
    began, steps = time.perf_counter(), 0
    for outcome in executor.execute(runs, lambda _: Job(), lambda _: None):
        if outcome.error is not None:
            raise outcome.error
        assert outcome.record is not None
        steps += outcome.record["stream"]["steps"]
    return steps, time.perf_counter() - began
