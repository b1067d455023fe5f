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
from torch.nn.modules.batchnorm import _BatchNorm

from reprise.fleet.planned import Planned
from reprise.fleet.plans import Plans
from reprise.nets.resnet import ResNet18
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
    """A run at a place of a lane: where it stands, and the mark behind which it has ended."""

    place: int
    planned: Planned
    began: float
    due: list[int]
    tests: list[NDArray[np.int64]]
    done: int = 0
    tested: int = 0
    end: Callable[[], bool] | None = None
    error: Exception | None = None

    @property
    def flying(self) -> bool:
        """Whether it has steps left to be asked for."""
        return self.error is None and self.done < len(self.planned.stream)

    @property
    def landed(self) -> bool:
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
        self.flights: list[ActiveRun] = []
        self.marks: deque[Callable[[], bool]] = deque()
        for place in self.free:
            lane.rest(place)

    def take(self, planned: Planned, weights: Tensor, due: list[int], tests: list[NDArray[np.int64]]) -> None:
        """Let a run begin at a free place."""
        self.lane.begin(self.free[-1], planned, weights)
        place = self.free.pop()
        self.flights.append(ActiveRun(place, planned, time.perf_counter(), due, tests))

    @property
    def ready(self) -> bool:
        """Whether there is something to ask for, and the device has little left to do."""
        while self.marks and self.marks[0]():
            self.marks.popleft()
        return len(self.marks) < _AHEAD and any(flight.flying for flight in self.flights)

    def go_on(self) -> int:
        """Ask for the next few steps, and for tests where they are due; gives how many run-steps."""
        lane, flying = self.lane, [flight for flight in self.flights if flight.flying]
        steps = min(_CHUNK, *(flight.due[flight.tested] - flight.done for flight in flying))
        lane.advance(steps)
        for flight in flying:
            flight.done += steps
            if flight.done == flight.due[flight.tested]:
                try:
                    lane.evaluate(flight.place, flight.tested, flight.tests[flight.tested])
                except Exception as error:  # such as too little memory; one of the device itself will come again
                    flight.error = error
                flight.tested += 1
            if not flight.flying:
                lane.rest(flight.place)
                flight.end = lane.mark()
        self.marks.append(lane.mark())
        return steps * len(flying)

    def land(self) -> Iterator[ActiveRun]:
        """Runs that have ended; the place of each is free when the next one is asked for."""
        for flight in [flight for flight in self.flights if flight.landed]:
            yield flight
            self.flights.remove(flight)
            self.free.append(flight.place)


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
        """Whether lanes can play such runs: images lie on the device, and the network does not see what is padded."""
        if self.pixels.mapped is not None or self.test.mapped is not None:
            return False
        try:
            net = make_network(config, self.classes)
        except Exception:
            return False  # the plain loop will say of every run what is wrong
        if isinstance(net, ResNet18):
            height, width = self.images.train.images.shape[1:3]
            images = config.batch + config.replay * config.draws
            return bool(images * height * width * config.width < 2**31)  # beyond it, kernels would count wrong
        return not any(isinstance(one, _BatchNorm) for one in net.modules())

    def fly(
        self, configs: Sequence[TrainRun], lanes: int | None, planners: int | None, tick: Callable[[int], None]
    ) -> Iterator[Outcome]:
        """Train every run, `lanes` at once, and give what each leaves as it ends; `tick` is told of steps asked for."""
        planners = min(planners or _PLANNERS, len(configs))
        ahead = 2 * planners + _MOST_LANES * RUNS_PER_LANE
        with Plans(configs, self.images.train.labels, self.classes, planners, ahead) as plans:
            self.data = self.data or self.images.fingerprints(configs[0])  # that of all: they use the same splits
            try:
                lanes_made = self._lanes(configs, lanes)
            except Exception as error:
                if _for_want_of_memory(error):
                    raise
                raise Uncaptured(f"{type(error).__name__}: {error}") from error
            yield from self._keep_busy(plans, [LaneQueue(lane) for lane in lanes_made], tick)

    def _keep_busy(self, plans: Plans, airlanes: list[LaneQueue], tick: Callable[[int], None]) -> Iterator[Outcome]:
        while plans or any(one.flights for one in airlanes):
            while plans.ready and any(one.free for one in airlanes):
                config, prepared = plans.take()
                try:
                    if isinstance(prepared, Exception):
                        raise prepared
                    # Where there is most room: so that lanes are of one width when few runs are left.
                    room = max(airlanes, key=lambda one: len(one.free))
                    room.take(*prepared, *self._tests(prepared[0]))
                except Exception as error:
                    yield config, error, {}
            asked = 0
            for one in airlanes:
                if one.ready:
                    asked += one.go_on()
                for flight in one.land():
                    timings = flight.timings()
                    try:
                        found = flight.error or self._collect(one.lane, flight)
                    except Exception as error:
                        found = error
                    yield flight.planned.config, found, timings
            if asked:
                tick(asked)
            else:
                time.sleep(2e-4)  # the device is busy, and needs nothing from here

    def _lanes(self, configs: Sequence[TrainRun], wanted: int | None) -> list[Lane]:
        """Lanes for as many runs as were asked for; or as many as pay, one more making all of them faster."""
        first, most = configs[0], min(wanted or len(configs), len(configs))
        longest = len(self.images.train) // first.batch + first.tasks + 1
        abreast = RUNS_PER_LANE if self.stacks(first) else 1
        made: list[Lane] = []
        best = 0.0
        while most > 0:
            width = min(abreast, most)
            full = False
            try:
                made.append(self._lane(first, longest, width))
            except Exception as error:
                if not _for_want_of_memory(error) or (not made and abreast == 1):
                    raise
                full = True
            if full:  # only here is nothing left that holds what the lane had got
                torch.cuda.empty_cache()
                if made:
                    return made[: max(len(made) - 1, 1)]  # leaves room for evaluation
                abreast //= 2
                continue
            most -= width
            if wanted is None and most:
                rate = measured_rate(made)
                if rate < best * 1.03:
                    return made[:-1]
                best = rate
                if len(made) == (_MOST_LANES if abreast > 1 else RUNS_PER_LANE * 2):
                    break
        return made

    def stacks(self, config: TrainRun) -> bool:
        """Whether the networks of several runs are computed together."""
        return isinstance(make_network(config, self.classes), ResNet18)

    def _lane(self, config: TrainRun, longest: int, width: int) -> Lane:
        from reprise.fleet.engine.lane import Lane  # needs Triton

        test = self.pixels if config.validation else self.test
        tests = longest // config.evaluate_every + config.tasks if config.evaluate_every else config.tasks
        return Lane(config, self.pixels, test, self.classes, longest, tests + 1, width)

    def _tests(self, planned: Planned) -> tuple[list[int], list[NDArray[np.int64]]]:
        """When a run is tested, and on which images."""
        stream, config = planned.stream, planned.config
        check_run(config, self.images, stream, planned.counts[:, 0].tolist(), planned.counts[:, 1:].tolist())
        due = sorted(due_steps(stream, config.evaluate_every))
        ids = stream.heldout if config.validation else np.arange(len(self.images.test))
        labels = (self.images.train if config.validation else self.images.test).labels[ids]
        return due, [ids[np.isin(labels, stream.labels[stream.ids[: stream.offsets[step]]])] for step in due]

    def _collect(self, lane: Lane, flight: ActiveRun) -> RunResult | TrainingFailed:
        place, planned, config = flight.place, flight.planned, flight.planned.config
        steps, stream = len(planned.stream), planned.stream
        losses = lane.losses[place, :steps].cpu().numpy()
        if not np.isfinite(losses).all():
            wrong = int(np.flatnonzero(~np.isfinite(losses))[0])
            return diverged(f"the loss of step {wrong + 1} of {steps} is {losses[wrong]}", config.lr)
        if not torch.isfinite(lane.rows[place]).all():  # of the last step: any other shows in the next one's loss
            return diverged(f"after step {steps} of {steps} the weights are not finite", config.lr)
        correct = lane.correct[place, : len(flight.due)].cpu().numpy()
        arrived = [np.unique(stream.labels[stream.ids[: stream.offsets[step]]]) for step in flight.due]
        seen = np.zeros((len(flight.due), self.classes), np.bool_)
        for row, classes in zip(seen, arrived, strict=True):
            row[classes] = True
        tested = self.images.train.labels[stream.heldout] if config.validation else self.images.test.labels
        evaluations = {
            name: Evaluations(
                steps=np.array(flight.due, np.int64),
                boundary=np.isin(flight.due, stream.boundaries),
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
            hits=lane.hits[place, :steps].cpu().numpy(),
            biases=None if lane.biases is None else lane.biases[place, : steps + 1].cpu().numpy(),
            device=torch.cuda.get_device_name(self.device),
            audit=planned.audit,
        )


def _for_want_of_memory(error: BaseException | None) -> bool:
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
