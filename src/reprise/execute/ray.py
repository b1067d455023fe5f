"""Runs on a Ray cluster: one that is there, or one started here for as long as it is needed.

Without GPUs every run is a task of its own, which holds one CPU. With GPUs a task holds one GPU and drives a fleet on
it, over a share of runs that are alike; audits need no GPU and remain tasks of their own.

A task whose worker or node is lost is started again by Ray, up to `retries` times, on any node. An error of a run is no
failure of its task: it comes back as the run's outcome. What Ray gives up becomes a `TrainingFailed`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from reprise.core.arguments import as_int
from reprise.core.plugins import loaded_modules
from reprise.execute.executor import Executor, Job, Outcomes, RunOutcome, Start, Tick, share_of
from reprise.execute.one import ImageSource
from reprise.execute.ray_cluster import connected, load_ray, make_mailbox, make_share
from reprise.execute.remote import MakeExecutor, RemoteMaker, RemoteOutcome, absolute, on_cpu, on_gpu
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import source
from reprise.runs.run import Run

GRACE = 2.0
"""Seconds that tasks which are cancelled have to clear away what they were writing."""
_LOOK_EVERY = 0.25  # seconds between two looks at steps made


class Ray(Executor):
    """A Ray cluster.

    `address` is that of a cluster that is there, as `ray.init` takes it: `"auto"` or `"host:port"` on one of its
    machines. None starts a cluster here, with the cores of this process and the GPUs of this machine, and ends it
    afterwards. A connection that this process has already is used as it is.

    `gpus` is 1 if every task is to hold a GPU and drive a fleet with `lanes` lanes on it, 0 otherwise. At most `jobs`
    tasks are under way at once: as many as the cluster has CPUs, or GPUs, unless told. `shared` says whether the
    store's folder has the same path on all nodes; if not, kept files travel back (see `reprise.execute.remote`).
    `runtime_env` is handed to `ray.init`: it can bring packages and modules to nodes that do not have them.

    Steps are told twice a second by each task, to a small actor on this node.
    """

    def __init__(
        self,
        address: str | None = None,
        images: ImageSource | None = None,
        *,
        gpus: int = 0,
        jobs: int | None = None,
        lanes: int | None = None,
        shared: bool = False,
        retries: int = 3,
        runtime_env: dict[str, Any] | None = None,
    ) -> None:
        for count, what in ((lanes, "lanes"), (jobs, "jobs")):
            if count is not None:
                as_int(count, what, 1)
        if gpus not in (0, 1):
            raise ValueError(f"gpus must be 0 or 1, got {gpus!r}: a task drives one GPU")
        self.address, self.images = address, images or ImageSource()
        self.gpus, self.jobs, self.lanes, self.shared = gpus, jobs, lanes, shared
        self.retries, self.runtime_env = as_int(retries, "retries", 0), runtime_env
        self.on_cpu: MakeExecutor = on_cpu  # what makes runs on a node
        self.on_gpu: MakeExecutor = partial(on_gpu, lanes=lanes)

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        if runs:
            with connected(self.address, self.jobs, self.runtime_env):
                lines = self._lines(runs)
                yield from _Shares(lines, start, tick).outcomes()

    def _lines(self, runs: Sequence[Run]) -> list[_Line]:
        """What waits for CPUs, and what waits for GPUs."""
        on_gpus = [run for run in runs if run.trains and self.gpus]
        waiting = [[run] for run in runs if not (run.trains and self.gpus)]
        lines = [self._line("CPU", self.on_cpu, waiting, num_cpus=1)] if waiting else []
        if on_gpus:
            lines.append(line := self._line("GPU", self.on_gpu, [], num_cpus=1, num_gpus=1))
            line.waiting.extend(_alike(on_gpus, line.slots, share_of(self.lanes)))
        return lines

    def _line(self, kind: str, executor: MakeExecutor, waiting: list[list[Run]], **needs: int) -> _Line:
        ray = load_ray()
        slots = self.jobs or int(ray.cluster_resources().get(kind, 0))
        if not slots:
            raise ValueError(f"the Ray cluster has no {kind}, and its tasks need one each")
        given, data = self.images.given, self.images.data
        maker = RemoteMaker(given, data, loaded_modules(), executor, self.shared)
        make = ray.remote(max_retries=self.retries, **needs)(make_share)
        return _Line(partial(make.remote, ray.put(maker)), slots, deque(waiting))


def _alike(runs: Sequence[Run], slots: int, most: int) -> Iterator[list[Run]]:
    """Shares of runs that can go on one lane, of so many at most, and so large that every GPU has one."""
    from reprise.fleet.grouping import lane_kind, together

    for kind in together(runs, lambda run: (source(run), lane_kind(run))):
        size = max(1, min(most, -(-len(kind) // slots)))
        yield from (kind[first : first + size] for first in range(0, len(kind), size))


@dataclass
class _Line:
    """Shares of runs that wait for resources of one kind."""

    submit: Callable[..., Any]
    slots: int
    waiting: deque[list[Run]]
    busy: int = 0


@dataclass
class _UnderWay:
    """A share that was submitted, and what of it has not come back."""

    line: _Line
    left: dict[Run, Job]


@dataclass
class _Shares:
    """On the campaign's side: submits shares when there is room for them, and takes what comes back."""

    lines: list[_Line]
    start: Start
    tick: Tick
    under_way: dict[Any, _UnderWay] = field(default_factory=dict)  # by the reference of the task
    numbers: dict[int, _UnderWay] = field(default_factory=dict)
    mailbox: Any = None
    steps: int = 0
    told: int = 0

    def outcomes(self) -> Outcomes:
        ray = load_ray()
        self.mailbox = make_mailbox()
        try:
            while self._submit():
                try:
                    done, _ = ray.wait(list(self.under_way), timeout=_LOOK_EVERY)
                except (ray.exceptions.RayError, ConnectionError) as error:  # of the connection itself
                    yield from self._lost(list(self.under_way), error)
                    continue
                yield from self._news()
                for task in done:
                    try:
                        back: list[RemoteOutcome] = ray.get(task)
                    except (ray.exceptions.RayError, ConnectionError) as error:
                        yield from self._lost([task], error)
                        continue
                    yield from self._arrived(self.under_way[task], back)
                    yield from self._lost([task], None)
        finally:
            self._cancel()

    def _submit(self) -> bool:
        """Have as many shares under way as there is room for; whether any is."""
        for line in self.lines:
            while line.waiting and line.busy < line.slots:
                share = [(run, absolute(job)) for run in line.waiting.popleft() if (job := self.start(run)) is not None]
                if share:
                    number = len(self.numbers)
                    self.numbers[number] = found = _UnderWay(line, dict(share))
                    self.under_way[line.submit(share, number, self.mailbox)] = found
                    line.busy += 1
        return bool(self.under_way)

    def _news(self) -> Outcomes:
        """What tasks have told since the last look."""
        ray = load_ray()
        try:
            steps, ended = ray.get(self.mailbox.take.remote(self.told))
        except (ray.exceptions.RayError, ConnectionError):  # what tasks return says all but the steps
            return
        self.told += len(ended)
        if steps > self.steps:
            self.tick(steps - self.steps)
            self.steps = steps
        for number, back in ended:
            yield from self._arrived(self.numbers[number], [back])

    def _arrived(self, share: _UnderWay, back: list[RemoteOutcome]) -> Outcomes:
        for one in back:
            if (job := share.left.pop(one.outcome.run, None)) is not None:  # or it came before
                yield one.unpack(job)

    def _lost(self, tasks: list[Any], error: Exception | None) -> Outcomes:
        """Tasks that have ended: what did not come back of them has failed."""
        for task in tasks:
            share = self.under_way.pop(task)
            share.line.busy -= 1
            if share.left and error is None:
                yield from self._news()  # told before the task ended
            why = "it was given to a task of Ray and did not come back" if error is None else _sentence(error)
            for run in list(share.left):
                del share.left[run]
                yield RunOutcome(run, None, TrainingFailed(why))

    def _cancel(self) -> None:
        """Stop all that is under way, and see that it has stopped."""
        ray = load_ray()
        tasks = list(self.under_way)
        with contextlib.suppress(Exception):  # the cluster may be gone, and its tasks with it
            for task in tasks:
                ray.cancel(task)
            _, going = ray.wait(tasks, num_returns=len(tasks), timeout=GRACE) if tasks else ([], [])
            for task in going:
                ray.cancel(task, force=True)
            ray.kill(self.mailbox)


def _sentence(error: Exception) -> str:
    """What Ray says, in a line."""
    cause = getattr(error, "cause", None)
    said = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else str(error)
    first = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return f"Ray gave it up: {first}"
