"""Runs being prepared, some ahead of the lanes: tapes by processes, initial weights by a thread."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reprise.core.workers import Pool
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.planned import Planned, make_plan
from reprise.train.config import TrainRun
from reprise.train.run import make_network

_LOOK_EVERY = 0.05  # seconds until a process that has nothing to do is given a plan to make


class Plans:
    """Runs in their order, each with its plan and the initial weights of its seed, which runs of a seed share."""

    def __init__(
        self, configs: Sequence[TrainRun], labels: NDArray[np.int64], classes: int, planners: int, ahead: int
    ) -> None:
        self.labels, self.classes, self.ahead = labels, classes, ahead
        self.waiting = deque(enumerate(configs))
        self.users = Counter(map(_weights_key, configs))
        self.plans: deque[tuple[int, TrainRun]] = deque()
        self.made: dict[int, Planned | Exception] = {}
        self.rows: dict[object, Future[Tensor]] = {}
        self.builder: Executor = ThreadPoolExecutor(1)
        self.pool: Pool[tuple[int, TrainRun]] = Pool(partial(_planner, labels), planners)
        self._submit()
        # Plans are taken from the processes while lanes are captured, too, so by a thread.
        self.over = threading.Event()
        self.wrong: Exception | None = None
        self.collector = threading.Thread(target=self._collect, daemon=True)
        self.collector.start()

    def __enter__(self) -> Plans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self.builder.shutdown(wait=error is None, cancel_futures=True)
        self.collector.join()
        self.pool.__exit__(kind, error, trace)

    def _collect(self) -> None:
        try:
            while not self.over.is_set():
                self.made.update({place: found for (place, _), found in self.pool.poll(_LOOK_EVERY)})
        except Exception as error:
            self.wrong = error

    def _submit(self) -> None:
        while self.waiting and len(self.plans) < self.ahead:
            place, config = self.waiting.popleft()
            self.plans.append((place, config))
            self.pool.submit((place, config))
            key = _weights_key(config)
            if key not in self.rows:
                self.rows[key] = self.builder.submit(_row, config, self.classes)

    def __bool__(self) -> bool:
        return bool(self.plans or self.waiting)

    @property
    def ready(self) -> bool:
        """Whether the next run can begin."""
        if self.wrong is not None:
            raise self.wrong
        if not self.plans:
            return False
        place, config = self.plans[0]
        return place in self.made and self.rows[_weights_key(config)].done()

    def take(self) -> tuple[TrainRun, tuple[Planned, Tensor] | Exception]:
        """The next run, which is ready, with its plan and weights, or with what stands in its way."""
        place, config = self.plans.popleft()
        plan = self.made.pop(place)
        self._submit()
        key = _weights_key(config)
        row = self.rows[key]
        self.users[key] -= 1
        if not self.users[key]:
            del self.rows[key]  # of many seeds, they would fill the memory
        try:
            if isinstance(plan, Exception):  # of the run, which will say so again; or its process was lost
                plan = make_plan(config, self.labels)
            return config, (plan, row.result())
        except Exception as error:
            return config, error


def _planner(labels: NDArray[np.int64], _: int) -> Callable[[tuple[int, TrainRun], object], Planned]:
    """In a process: makes one plan after the other."""
    return lambda given, _: make_plan(given[1], labels)


def _weights_key(config: TrainRun) -> object:
    return config.backbone, config.head, config.width, config.seed, config.pretrained


def _row(config: TrainRun, classes: int) -> Tensor:
    return initial_row(make_network(config, classes))
