"""Many runs at once on one GPU: lanes are kept busy until every run of a group has its record."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reprise.fleet.planned import Planned
from reprise.fleet.plans import Plans
from reprise.nets import Network
from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed, diverged
from reprise.train.metrics import Evaluations
from reprise.train.pixels import Pixels
from reprise.train.record import RunResult
from reprise.train.run import READOUTS, Fingerprints, Images, check_run, due_steps, make_network

if TYPE_CHECKING:
    from reprise.fleet.engine.lane import Lane
    from reprise.fleet.fleet import Outcome

# Streams share hardware queues, eight of them unless told so before the device is first used.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

RUNS_PER_LANE = 8  # where more are to be had: enough for every kernel to fill a large GPU
_CHUNK = 16  # steps asked for at once
_AHEAD = 2  # chunks that a lane may be behind the host
_MOST_LANES = 3
_PLANNERS = 2  # a plan takes a fraction of what its run takes; more processes would only be in the way at the start


@dataclass
class ActiveRun:
    """A run in a slot of a lane: how far it is, and the mark behind which it has ended."""

    slot: int
    planned: Planned
    began: float
    due: list[int]
    tests: list[NDArray[np.int64]]
    done: int = 0
    tested: int = 0
    end: Callable[[], bool] | None = None
    error: Exception | None = None

    @property
    def running(self) -> bool:
        """Whether it has steps left to be asked for."""
        return self.error is None and self.done < len(self.planned.stream)

    @property
    def ended(self) -> bool:
        """Whether the device has done all that was asked for."""
        return self.end is not None and self.end()

    def timings(self) -> dict[str, float]:
        """Seconds to plan the run, and from its first step until now; its steps. The names are the plain loop's."""
        prepare, train = self.planned.seconds, time.perf_counter() - self.began
        return {"prepare": round(prepare, 3), "train": round(train, 3), "steps": self.done}


class LaneQueue:
    """A lane and the runs on it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.free = list(range(lane.width))
        self.active: list[ActiveRun] = []
        self.marks: deque[Callable[[], bool]] = deque()
        for slot in self.free:
            lane.rest(slot)

    def take(self, planned: Planned, weights: Tensor, due: list[int], tests: list[NDArray[np.int64]]) -> None:
        """Let a run begin in a free slot."""
        self.lane.begin(self.free[-1], planned, weights)
        slot = self.free.pop()
        self.active.append(ActiveRun(slot, planned, time.perf_counter(), due, tests))

    @property
    def ready(self) -> bool:
        """Whether there is something to ask for, and the device has little left to do."""
        while self.marks and self.marks[0]():
            self.marks.popleft()
        return len(self.marks) < _AHEAD and any(run.running for run in self.active)

    def advance(self) -> int:
        """Ask for the next few steps, and for tests where they are due; gives how many run-steps."""
        lane, running = self.lane, [run for run in self.active if run.running]
        steps = min(_CHUNK, *(run.due[run.tested] - run.done for run in running))
        lane.advance(steps)
        for run in running:
            run.done += steps
            if run.done == run.due[run.tested]:
                try:
                    lane.evaluate(run.slot, run.tested, run.tests[run.tested])
                except Exception as error:  # such as too little memory; one of the device itself will come again
                    run.error = error
                run.tested += 1
            if not run.running:
                lane.rest(run.slot)
                run.end = lane.mark()
        self.marks.append(lane.mark())
        return steps * len(running)

    def finished(self) -> Iterator[ActiveRun]:
        """Runs that have ended; the slot of each is free when the next one is asked for."""
        for run in [run for run in self.active if run.ended]:
            yield run
            self.active.remove(run)
            self.free.append(run.slot)


class Uncaptured(Exception):
    """A step could not be captured, for a reason that was not seen beforehand."""


class Group:
    """Runs that differ in stream, tape and seed alone, on a number of lanes."""

    def __init__(self, images: Images, device: torch.device) -> None:
        self.images = images
        self.data: Fingerprints = {}
        self.device = device
        self.pixels = Pixels(images.train, device)
        self.test = self.pixels if images.test is images.train else Pixels(images.test, device)
        self.classes = len(images.train.classes)

    def takes(self, config: TrainRun) -> bool:
        """Whether lanes can play such runs: images lie on the device, and no real image sees a padded one."""
        if self.pixels.mapped is not None or self.test.mapped is not None:
            return False
        try:
            net = make_network(config, self.classes)
        except Exception:
            return False  # the plain loop will say of every run what is wrong
        if net.stackable:
            height, width = self.images.train.images.shape[1:3]
            images, channels = config.batch + config.replay * config.draws, len(net.get_parameter("conv1.weight"))
            return bool(images * height * width * channels < 2**31)  # beyond it, kernels would count wrong
        return not net.mixes_examples

    def train(
        self, configs: Sequence[TrainRun], lanes: int | None, planners: int | None, tick: Callable[[int], None]
    ) -> Iterator[Outcome]:
        """Train every run, `lanes` at once, and give what each leaves as it ends; `tick` is told of steps asked for."""
        planners = min(planners or _PLANNERS, len(configs))
        ahead = 2 * planners + _MOST_LANES * RUNS_PER_LANE
        with Plans(configs, self.images.train.labels, self.classes, planners, ahead) as plans:
            self.data = self.data or self.images.fingerprints(configs[0])  # that of all: they use the same splits
            try:
                net = make_network(configs[0], self.classes)
                made = self._lanes(configs, lanes, net.stackable)
            except Exception as error:
                if _out_of_memory(error):
                    raise
                raise Uncaptured(f"{type(error).__name__}: {error}") from error
            yield from self._keep_busy(plans, net, [LaneQueue(lane) for lane in made], tick)

    def _keep_busy(
        self, plans: Plans, net: Network, queues: list[LaneQueue], tick: Callable[[int], None]
    ) -> Iterator[Outcome]:
        while plans or any(queue.active for queue in queues):
            while plans.ready and any(queue.free for queue in queues):
                config, prepared = plans.take()
                try:
                    if isinstance(prepared, Exception):
                        raise prepared
                    # Where most slots are free: so that lanes are equally full when few runs are left.
                    emptiest = max(queues, key=lambda queue: len(queue.free))
                    emptiest.take(*prepared, *self._tests(prepared[0], net))
                except Exception as error:
                    yield config, error, {}
            asked = 0
            for queue in queues:
                if queue.ready:
                    asked += queue.advance()
                for run in queue.finished():
                    timings = run.timings()
                    try:
                        found = run.error or self.collect(queue.lane, run)
                    except Exception as error:
                        found = error
                    yield run.planned.config, found, timings
            if asked:
                tick(asked)
            else:
                time.sleep(2e-4)  # the device is busy, and needs nothing from here

    def _lanes(self, configs: Sequence[TrainRun], wanted: int | None, stackable: bool) -> list[Lane]:
        """Lanes for as many runs as were asked for; or as many as pay, one more making all of them faster."""
        first, most = configs[0], min(wanted or len(configs), len(configs))
        longest = len(self.images.train) // first.batch + first.tasks + 1
        runs_per_lane = RUNS_PER_LANE if stackable else 1
        made: list[Lane] = []
        best = 0.0
        while most > 0:
            width = min(runs_per_lane, most)
            full = False
            try:
                made.append(self._lane(first, longest, width))
            except Exception as error:
                if not _out_of_memory(error) or (not made and runs_per_lane == 1):
                    raise
                full = True
            if full:  # only here is nothing left that holds what the lane had got
                torch.cuda.empty_cache()
                if made:
                    return made[: max(len(made) - 1, 1)]  # leaves room for evaluation
                runs_per_lane //= 2
                continue
            most -= width
            if wanted is None and most:
                rate = measured_rate(made)
                if rate < best * 1.03:
                    return made[:-1]
                best = rate
                if len(made) == (_MOST_LANES if runs_per_lane > 1 else RUNS_PER_LANE * 2):
                    break
        return made

    def _lane(self, config: TrainRun, longest: int, width: int) -> Lane:
        from reprise.fleet.engine.lane import Lane  # needs Triton

        test = self.pixels if config.validation else self.test
        tests = longest // config.evaluate_every + config.tasks if config.evaluate_every else config.tasks
        return Lane(config, self.pixels, test, self.classes, longest, tests + 1, width)

    def _tests(self, planned: Planned, net: Network) -> tuple[list[int], list[NDArray[np.int64]]]:
        """When a run is tested, and on which images."""
        stream, config = planned.stream, planned.config
        check_run(config, net, self.images, stream, planned.counts[:, 0].tolist(), planned.counts[:, 1:].tolist())
        due = sorted(due_steps(stream, config.evaluate_every))
        ids = stream.heldout if config.validation else np.arange(len(self.images.test))
        labels = (self.images.train if config.validation else self.images.test).labels[ids]
        return due, [ids[np.isin(labels, stream.labels[stream.ids[: stream.offsets[step]]])] for step in due]

    def collect(self, lane: Lane, run: ActiveRun) -> RunResult | TrainingFailed:
        """What a run that has ended leaves on its lane, or how it failed."""
        slot, planned, config = run.slot, run.planned, run.planned.config
        steps, stream = len(planned.stream), planned.stream
        losses = lane.losses[slot, :steps].cpu().numpy()
        if not np.isfinite(losses).all():
            wrong = int(np.flatnonzero(~np.isfinite(losses))[0])
            return diverged(f"the loss of step {wrong + 1} of {steps} is {losses[wrong]}", config.lr)
        if not torch.isfinite(lane.rows[slot]).all():  # of the last step: any other shows in the next one's loss
            return diverged(f"after step {steps} of {steps} the weights are not finite", config.lr)
        correct = lane.correct[slot, : len(run.due)].cpu().numpy()
        arrived = [np.unique(stream.labels[stream.ids[: stream.offsets[step]]]) for step in run.due]
        seen = np.zeros((len(run.due), self.classes), np.bool_)
        for row, classes in zip(seen, arrived, strict=True):
            row[classes] = True
        tested = self.images.train.labels[stream.heldout] if config.validation else self.images.test.labels
        evaluations = {
            name: Evaluations(
                steps=np.array(run.due, np.int64),
                boundary=np.isin(run.due, stream.boundaries),
                correct=correct[:, which],
                seen=seen,
                counts=np.bincount(tested, minlength=self.classes),
                task_of_class=stream.task_of_class,
                stream_counts=stream.counts,
            )
            for which, name in enumerate(READOUTS)
        }
        return RunResult(
            config=config,
            data=self.data,
            stream=stream,
            tape=planned.tape,
            evaluations=evaluations,
            losses=losses,
            hits=lane.hits[slot, :steps].cpu().numpy(),
            biases=None if lane.biases is None else lane.biases[slot, : steps + 1].cpu().numpy(),
            device=torch.cuda.get_device_name(self.device),
            audit=planned.audit,
        )


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out; a capture that it ended may say something else of itself, after the fact.

    Where cuDNN has no room for any algorithm, torch says only that it found none.
    """
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError) or "unable to find an engine" in str(error):
            return True
        error = error.__context__
    return False


def measured_rate(lanes: Sequence[Lane], steps: int = 24) -> float:
    """Run-steps a second of lanes that run at once, on whatever they hold."""
    steps = min(steps, *(lane.longest for lane in lanes))  # a lane has room for no more
    seconds = []
    for count in (min(4, steps), steps):  # a few to begin with, unmeasured
        for lane in lanes:
            lane.rewind()
        torch.cuda.synchronize(lanes[0].device)
        began = time.perf_counter()
        for _ in range(count):
            for lane in lanes:
                lane.advance(1)
        torch.cuda.synchronize(lanes[0].device)
        seconds.append(time.perf_counter() - began)
    return steps * sum(lane.width for lane in lanes) / seconds[-1]
