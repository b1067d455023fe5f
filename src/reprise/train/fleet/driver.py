"""Many runs at once on one GPU: lanes are kept busy until every run of a group has its record."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from reprise import nets
from reprise.nets.resnet import ResNet18
from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.fleet.lane import Lane
from reprise.train.fleet.planned import Planned, make_plan
from reprise.train.fleet.row import initial_row
from reprise.train.metrics import Evaluations
from reprise.train.pixels import Pixels
from reprise.train.record import Finished
from reprise.train.run import READOUTS, Images, due_steps

if TYPE_CHECKING:
    from reprise.train.fleet.fleet import Outcome

# Streams share hardware queues, eight of them unless told so before the device is first used.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

_CHUNK = 16  # steps asked for at once
_AHEAD = 2  # chunks that a lane may be behind the host
_MOST_LANES = 16


@dataclass
class _Flight:
    """A run on a lane: where it stands, and the marks behind which the device still is."""

    lane: Lane
    planned: Planned
    began: float
    due: list[int]
    tests: list[NDArray[np.int64]]
    marks: deque[torch.cuda.Event] = field(default_factory=deque)
    tested: int = 0

    @property
    def ready(self) -> bool:
        """Whether the lane has little left to do."""
        while self.marks and self.marks[0].query():
            self.marks.popleft()
        return len(self.marks) < _AHEAD

    @property
    def landed(self) -> bool:
        return self.lane.done == len(self.planned.stream) and not self.marks

    def go_on(self) -> int:
        """Ask for the next few steps, and for a test where one is due; gives how many."""
        lane, before = self.lane, self.lane.done
        if before < len(self.planned.stream):
            stop = min(lane.done + _CHUNK, self.due[self.tested])
            lane.advance(stop - lane.done)
            if lane.done == self.due[self.tested]:
                lane.evaluate(self.tested, self.tests[self.tested])
                self.tested += 1
            mark = torch.cuda.Event()
            mark.record(lane.stream)
            self.marks.append(mark)
        return lane.done - before


class Group:
    """Runs that differ in stream, tape and seed alone, on a number of lanes."""

    def __init__(self, images: Images, device: torch.device) -> None:
        self.images = images
        self.device = device
        self.pixels = Pixels(images.train, device)
        self.test = self.pixels if images.test is images.train else Pixels(images.test, device)
        self.classes = len(images.train.classes)

    def takes(self, config: TrainRun) -> bool:
        """Whether lanes can play such runs: images lie on the device, and the network does not see what is padded."""
        if self.pixels.mapped is not None or self.test.mapped is not None:
            return False
        try:
            net = _network(config, self.classes)
        except Exception:
            return False  # the plain loop will say of every run what is wrong
        return isinstance(net, ResNet18) or not any(isinstance(one, _BatchNorm) for one in net.modules())

    def fly(
        self, configs: Sequence[TrainRun], lanes: int | None, planners: int | None, tick: Callable[[int], None]
    ) -> Iterator[Outcome]:
        """Train every run, `lanes` at once, and give what each leaves as it ends; `tick` is told of steps done."""
        labels = self.images.train.labels
        planners = min(planners or max((os.cpu_count() or 2) - 2, 1), len(configs))
        context = get_context("spawn")
        with ProcessPoolExecutor(planners, context, _remember, (labels,)) as pool, ThreadPoolExecutor(1) as builder:
            try:
                plans = _Plans(configs, pool, builder, self.classes, 2 * planners + _MOST_LANES)
                free = self._lanes(configs, lanes)
                yield from self._keep_busy(plans, deque(free), tick)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _keep_busy(self, plans: _Plans, free: deque[Lane], tick: Callable[[int], None]) -> Iterator[Outcome]:
        flights: list[_Flight] = []
        while plans or flights:
            while free and plans.ready:
                config, plan, weights = plans.take()
                if isinstance(plan, Exception):
                    yield config, plan, {}
                else:
                    flights.append(self._take_off(free.popleft(), plan, weights))
            asked = 0
            for flight in list(flights):
                if flight.ready:
                    asked += flight.go_on()
                if flight.landed:
                    flights.remove(flight)
                    seconds = {"train": round(time.perf_counter() - flight.began, 3)}
                    yield flight.planned.config, self._harvest(flight), seconds
                    free.append(flight.lane)
            if asked:
                tick(asked)
            else:
                time.sleep(2e-4)  # the device is busy, and needs nothing from here

    def _lanes(self, configs: Sequence[TrainRun], wanted: int | None) -> list[Lane]:
        """As many lanes as were asked for; or as many as pay: lanes are added while that makes all of them faster."""
        first = configs[0]
        longest = len(self.images.train) // first.batch + first.tasks + 1
        made: list[Lane] = []
        best, enough = 0.0, 1
        for width in (1, 2, 4, 8, 12, _MOST_LANES) if wanted is None else (wanted,):
            width = min(width, len(configs))
            try:
                while len(made) < width:
                    made.append(self._lane(first, longest))
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                if not made:
                    raise
                return made[: max(len(made) - 1, 1)]  # leaves room for evaluation
            if wanted is not None or width == len(configs):
                break
            rate = measured_rate(made)
            if rate < best * 1.03:
                return made[:enough]
            best, enough = rate, width
        return made

    def _lane(self, config: TrainRun, longest: int) -> Lane:
        test = self.pixels if config.validation else self.test
        tests = longest // config.evaluate_every + config.tasks if config.evaluate_every else config.tasks
        return Lane(config, self.pixels, test, self.classes, longest, tests + 1)

    def _take_off(self, lane: Lane, planned: Planned, weights: Tensor) -> _Flight:
        stream, config = planned.stream, planned.config
        due = sorted(due_steps(stream, config.evaluate_every))
        ids = stream.heldout if config.validation else np.arange(len(self.images.test))
        labels = (self.images.train if config.validation else self.images.test).labels[ids]
        tests = [ids[np.isin(labels, stream.labels[stream.ids[: stream.offsets[step]]])] for step in due]
        lane.begin(planned, weights)
        return _Flight(lane, planned, time.perf_counter(), due, tests)

    def _harvest(self, flight: _Flight) -> Finished | TrainingFailed:
        lane, planned, config = flight.lane, flight.planned, flight.planned.config
        steps, stream = len(planned.stream), planned.stream
        losses = lane.losses[:steps].cpu().numpy()
        if not np.isfinite(losses).all():
            wrong = int(np.flatnonzero(~np.isfinite(losses))[0])
            return TrainingFailed(
                f"the loss of step {wrong + 1} of {steps} is {losses[wrong]}: training has diverged; "
                f"a smaller learning rate than {config.lr:g} may help"
            )
        if not torch.isfinite(lane.row.values).all():  # of the last step: any other shows in the next one's loss
            return TrainingFailed(
                f"after step {steps} of {steps} the weights are not finite: training has diverged; "
                f"a smaller learning rate than {config.lr:g} may help"
            )
        correct = lane.correct[: len(flight.due)].cpu().numpy()
        arrived = [np.unique(stream.labels[stream.ids[: stream.offsets[step]]]) for step in flight.due]
        seen = np.zeros((len(flight.due), self.classes), np.bool_)
        for row, classes in zip(seen, arrived, strict=True):
            row[classes] = True
        tested = self.images.train.labels[stream.heldout] if config.validation else self.images.test.labels
        evaluations = {
            name: Evaluations(
                steps=np.array(flight.due, np.int64),
                boundary=np.isin(flight.due, stream.boundaries),
                correct=correct[:, place],
                seen=seen,
                counts=np.bincount(tested, minlength=self.classes),
                task_of_class=stream.task_of_class,
                stream_counts=stream.counts,
            )
            for place, name in enumerate(READOUTS)
        }
        return Finished(
            config=config,
            stream=stream,
            tape=planned.tape,
            evaluations=evaluations,
            losses=losses,
            hits=lane.hits[:steps].cpu().numpy(),
            biases=None if lane.biases is None else lane.biases[: steps + 1].cpu().numpy(),
            device=torch.cuda.get_device_name(self.device),
            audit=planned.audit,
        )


class _Plans:
    """Runs being planned, some ahead of the lanes: tapes by processes, initial weights by a thread, each seed once."""

    def __init__(
        self, configs: Sequence[TrainRun], pool: Executor, builder: Executor, classes: int, ahead: int
    ) -> None:
        self.waiting = deque(configs)
        self.pool, self.builder = pool, builder
        self.classes = classes
        self.ahead = ahead
        self.plans: deque[tuple[TrainRun, Future[Planned]]] = deque()
        self.rows: dict[object, Future[Tensor]] = {}
        self._submit()

    def _submit(self) -> None:
        while self.waiting and len(self.plans) < self.ahead:
            config = self.waiting.popleft()
            self.plans.append((config, self.pool.submit(_planned, config)))
            key = _weights_key(config)
            if key not in self.rows:
                self.rows[key] = self.builder.submit(_row, config, self.classes)

    def __bool__(self) -> bool:
        return bool(self.plans or self.waiting)

    @property
    def ready(self) -> bool:
        """Whether the next run can take off."""
        return bool(self.plans) and self.plans[0][1].done() and self.rows[_weights_key(self.plans[0][0])].done()

    def take(self) -> tuple[TrainRun, Planned | Exception, Tensor]:
        config, plan = self.plans.popleft()
        self._submit()
        error = plan.exception()
        found = error if isinstance(error, Exception) else plan.result()
        return config, found, self.rows[_weights_key(config)].result()


def measured_rate(lanes: Sequence[Lane], steps: int = 24) -> float:
    """Run-steps a second of lanes that run at once, on whatever they hold."""
    steps = min(steps, *(len(lane.losses) for lane in lanes))  # a lane has room for no more
    seconds = []
    for count in (min(4, steps), steps):  # a few to begin with, unmeasured
        for lane in lanes:
            lane.stream.synchronize()
            lane.rewind()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            for lane in lanes:
                lane.advance(1)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return steps * len(lanes) / seconds[-1]


_LABELS: NDArray[np.int64]


def _remember(labels: NDArray[np.int64]) -> None:
    global _LABELS
    _LABELS = labels


def _planned(config: TrainRun) -> Planned:
    return make_plan(config, _LABELS)


def _weights_key(config: TrainRun) -> object:
    return config.backbone, config.head, config.width, config.seed, config.pretrained


def _network(config: TrainRun, classes: int) -> nets.Network:
    return nets.build(
        config.backbone,
        classes=classes,
        head=config.head,
        width=config.width,
        seed=config.seed,
        pretrained=config.pretrained,
    )


def _row(config: TrainRun, classes: int) -> Tensor:
    return initial_row(_network(config, classes)).pin_memory()
