"""Runs being prepared, some ahead of the lanes: tapes by processes, initial weights by a thread."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reprise.nets.rows import initial_row
from reprise.train.config import TrainRun
from reprise.train.fleet.planned import Planned, make_plan
from reprise.train.run import make_network
from reprise.workers import serve


class Plans:
    """Runs in their order, each with its plan and the initial weights of its seed, which runs of a seed share."""

    def __init__(
        self, configs: Sequence[TrainRun], labels: NDArray[np.int64], classes: int, planners: int, ahead: int
    ) -> None:
        self.labels, self.classes, self.ahead = labels, classes, ahead
        # Labels go through a file. With the start of a process, it would be waited for until it has read them; with
        # every plan, a process that is killed could leave them stuck in a pipe, on which Python 3.10 waits for ever.
        self.folder = tempfile.TemporaryDirectory(prefix="reprise-")
        self.path = Path(self.folder.name) / "labels.npy"
        with contextlib.suppress(OSError):  # without it, plans are made here
            np.save(self.path, labels)
        clear = partial(shutil.rmtree, self.folder.name, ignore_errors=True)
        self.pool: Executor = ProcessPoolExecutor(planners, get_context("spawn"), serve, (clear,))
        self.builder: Executor = ThreadPoolExecutor(1)
        self.waiting = deque(configs)
        self.users = Counter(map(_weights_key, configs))
        self.plans: deque[tuple[TrainRun, Future[Planned]]] = deque()
        self.rows: dict[object, Future[Tensor]] = {}
        self._submit()

    def __enter__(self) -> Plans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self.pool, self.builder):
            one.shutdown(wait=error is None, cancel_futures=True)
        self.folder.cleanup()

    def _submit(self) -> None:
        while self.waiting and len(self.plans) < self.ahead:
            config = self.waiting.popleft()
            self.plans.append((config, self._planned(config)))
            key = _weights_key(config)
            if key not in self.rows:
                self.rows[key] = self.builder.submit(_row, config, self.classes)

    def _planned(self, config: TrainRun) -> Future[Planned]:
        try:
            return self.pool.submit(_plan, config, self.path)
        except BrokenProcessPool as error:
            broken: Future[Planned] = Future()
            broken.set_exception(error)
            return broken

    def __bool__(self) -> bool:
        return bool(self.plans or self.waiting)

    @property
    def ready(self) -> bool:
        """Whether the next run can take off."""
        return bool(self.plans) and self.plans[0][1].done() and self.rows[_weights_key(self.plans[0][0])].done()

    def take(self) -> tuple[TrainRun, tuple[Planned, Tensor] | Exception]:
        """The next run with its plan and weights, or with what stands in its way."""
        config, plan = self.plans.popleft()
        self._submit()
        key = _weights_key(config)
        row = self.rows[key]
        self.users[key] -= 1
        if not self.users[key]:
            del self.rows[key]  # of many seeds, they would fill the memory
        try:
            return config, (self._result(config, plan), row.result())
        except Exception as error:
            return config, error

    def _result(self, config: TrainRun, plan: Future[Planned]) -> Planned:
        try:
            return plan.result()
        except Exception:  # of the run, which will say so again; or a process was killed, or could not read the labels
            return make_plan(config, self.labels)


def _plan(config: TrainRun, path: Path) -> Planned:
    return make_plan(config, _labels(path))


@cache
def _labels(path: Path) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = np.load(path)
    return labels


def _weights_key(config: TrainRun) -> object:
    return config.backbone, config.head, config.width, config.seed, config.pretrained


def _row(config: TrainRun, classes: int) -> Tensor:
    return initial_row(make_network(config, classes))
