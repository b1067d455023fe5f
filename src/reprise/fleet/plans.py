"""Runs being prepared, some ahead of the lanes: tapes by processes, initial weights by a thread."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType

from torch import Tensor

from reprise.core.plugins import load_modules, loaded_modules
from reprise.core.workers import Pool
from reprise.fleet.engine.flat_state import initial_row
from reprise.fleet.lane_plan import LanePlan, make_lane_plan
from reprise.runs.plan import Labels
from reprise.runs.run import Run
from reprise.train.state import make_network

_LOOK_EVERY = 0.05  # seconds until a process that has nothing to do is given a plan to make


class Plans:
    """Runs in their order, each with its plan and the initial weights of its seed, which runs of a seed share."""

    def __init__(
        self, runs: Sequence[Run], labels: Labels, planners: int, ahead: int, begin: Callable[[Run], bool]
    ) -> None:
        self.labels, self.ahead, self.begin = labels, ahead, begin
        self.waiting = deque(enumerate(runs))
        self.users = Counter(map(_weights_key, runs))
        self.plans: deque[tuple[int, Run]] = deque()
        self.made: dict[int, LanePlan | Exception] = {}
        self.rows: dict[object, Future[Tensor]] = {}
        self.builder: Executor = ThreadPoolExecutor(1)
        self.pool: Pool[tuple[int, Run]] = Pool(partial(_planner, labels, loaded_modules()), planners)
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
                self.made.update({number: found for (number, _), found in self.pool.poll(_LOOK_EVERY)})
        except Exception as error:
            self.wrong = error

    def _submit(self) -> None:
        while self.waiting and len(self.plans) < self.ahead:
            number, run = self.waiting.popleft()
            if not self.begin(run):
                self.users[_weights_key(run)] -= 1
                continue
            self.plans.append((number, run))
            self.pool.submit((number, run))
            key = _weights_key(run)
            if key not in self.rows:
                self.rows[key] = self.builder.submit(_row, run, self.labels.classes)

    def __bool__(self) -> bool:
        return bool(self.plans or self.waiting)

    @property
    def ready(self) -> bool:
        """Whether the next run can begin."""
        if self.wrong is not None:
            raise self.wrong
        if not self.plans:
            return False
        number, run = self.plans[0]
        return number in self.made and self.rows[_weights_key(run)].done()

    def take(self) -> tuple[Run, tuple[LanePlan, Tensor] | Exception]:
        """The next run, which is ready, with its plan and weights, or with what stands in its way."""
        number, run = self.plans.popleft()
        plan = self.made.pop(number)
        self._submit()
        key = _weights_key(run)
        row = self.rows[key]
        self.users[key] -= 1
        if not self.users[key]:
            del self.rows[key]  # of many seeds, they would fill the memory
        try:
            if isinstance(plan, Exception):  # of the run, which will say so again; or its process was lost
                plan = make_lane_plan(run, self.labels)
            return run, (plan, row.result())
        except Exception as error:
            return run, error


def _planner(labels: Labels, modules: Sequence[str], _: int) -> Callable[[tuple[int, Run], object], LanePlan]:
    """In a process: makes one plan after the other."""
    load_modules(modules)
    return lambda given, _: make_lane_plan(given[1], labels)


def _weights_key(run: Run) -> object:
    return run.network, run.seed


def _row(run: Run, classes: int) -> Tensor:
    return initial_row(make_network(run, classes))
