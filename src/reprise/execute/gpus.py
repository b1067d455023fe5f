"""Runs on GPUs: on lanes where their step can be captured, side by side in processes where it cannot.

One GPU is driven from this process. Several are driven by a process each, which take runs in turn.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from reprise.core.arguments import as_int
from reprise.core.files import Record
from reprise.core.plugins import load_modules, loaded_modules
from reprise.core.workers import NoMainGuard, Pool, WorkerLost, portable
from reprise.execute.executor import Executor, Job, Outcomes, RunOutcome, Start, Tick, share_of
from reprise.execute.one import ImageSource
from reprise.execute.processes import Processes, cores
from reprise.fleet.driver import Group, Uncaptured, out_of_memory, without_tensors
from reprise.fleet.grouping import capturable, lane_kind, together
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import source
from reprise.runs.record import make_record
from reprise.runs.run import Run
from reprise.track import Tracking, log_result
from reprise.train.machine import find_device

ROOM = 6 << 30
"""Bytes of a GPU's memory that a process with a plain loop is given."""


class GPUs(Executor):
    """One or several GPUs of this machine. `lanes` runs go at once on each, as many as pay unless told.

    `jobs` is the number of processes for runs that lanes cannot take: as many as cores and memory allow unless told.
    """

    def __init__(
        self,
        devices: Sequence[str] = ("cuda",),
        images: ImageSource | None = None,
        *,
        lanes: int | None = None,
        jobs: int | None = None,
    ) -> None:
        for count, what in ((lanes, "lanes"), (jobs, "jobs")):
            if count is not None:
                as_int(count, what, 1)
        self.devices = [find_device(device) for device in devices]
        self.images = images or ImageSource()
        self.lanes, self.jobs = lanes, jobs

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        if len(self.devices) == 1:
            yield from self._on_one(runs, start, tick)
        elif runs:
            yield from self._on_several(runs, start, tick)

    def _on_one(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        """Lanes first; then, where all of the memory is free again, what they could not take."""
        plain: list[Run] = [run for run in runs if not run.trains]
        for same_images in together([run for run in runs if run.trains], source):
            yield from self._on_lanes(same_images, start, tick, plain)
        yield from self._side_by_side(plain, start, tick)

    def _on_lanes(self, runs: Sequence[Run], start: Start, tick: Tick, plain: list[Run]) -> Outcomes:
        """Runs that share their images; those that lanes cannot take are added to `plain`."""
        fit: list[Run] = []
        for run in runs:
            (fit if capturable(run) else plain).append(run)
        if not fit:
            return
        try:
            group = Group(self.images(fit[0]), self.devices[0])
        except Exception as error:
            yield from (RunOutcome(run, None, error) for run in fit if start(run) is not None)
            return
        for alike in together(fit, lane_kind):
            if not group.takes(alike[0]):
                plain += alike
                continue
            yield from self._on_lanes_of(group, alike, start, tick, plain)

    def _on_lanes_of(self, group: Group, runs: Sequence[Run], start: Start, tick: Tick, plain: list[Run]) -> Outcomes:
        """Runs that can share lanes; for one that lacked memory there, there is more when the lanes have ended."""
        left = dict.fromkeys(runs)
        again: list[Run] = []
        begun: dict[Run, Job] = {}

        def begin(run: Run) -> bool:
            job = start(run)
            if job is None:
                del left[run]
            else:
                begun[run] = job
            return job is not None

        try:
            for run, found in group.train(runs, self.lanes, self.jobs, begin, tick):
                del left[run]
                if isinstance(found, Exception) and out_of_memory(found):
                    again.append(run)
                else:
                    yield _outcome(run, found, begun[run].track)
        except Uncaptured as error:
            warnings.warn(
                f"{len(left)} runs go by the plain loop, for their step was not captured: {error}", stacklevel=3
            )
            yield from self._side_by_side([run for run in left if run in begun], begun.__getitem__, tick)
            plain += [run for run in left if run not in begun]
        except NoMainGuard:
            raise
        except Exception as error:  # of the lanes themselves, such as too little memory for a single one
            without_tensors(error)
            yield from (RunOutcome(run, None, error) for run in left if run in begun or start(run) is not None)
        yield from self._side_by_side(again, begun.__getitem__, tick)

    def _side_by_side(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        """Plain loops in processes; one that ran out of memory is made again when it has the GPU for itself."""
        if not runs:
            return
        torch.cuda.empty_cache()
        device, jobs = self.devices[0], dict[Run, Job]()

        def noted(run: Run) -> Job | None:
            if (job := start(run)) is not None:
                jobs[run] = job
            return job

        beside = self.jobs or at_once(device, len(runs))
        again = []
        for outcome in Processes(beside, self.images, str(device)).execute(runs, noted, tick):
            if beside > 1 and isinstance(outcome.error, torch.OutOfMemoryError):
                again.append(outcome.run)
            else:
                yield outcome
        if again:
            yield from Processes(1, self.images, str(device)).execute(again, jobs.__getitem__, tick)

    def _on_several(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        """Every GPU has a process, which is given runs of one kind, some at a time."""
        size = share_of(self.lanes)
        kinds = together([run for run in runs if run.trains], lambda run: (source(run), lane_kind(run)))
        waiting = deque(
            [kind[first : first + size] for kind in kinds for first in range(0, len(kind), size)]
            + [[run] for run in runs if not run.trains]
        )
        ended: deque[RunOutcome] = deque()

        def shares() -> Iterator[list[tuple[Run, Job]]]:
            while waiting:
                begun = [(run, job) for run in waiting.popleft() if (job := start(run)) is not None]
                if begun:
                    yield begun

        def told(word: tuple[str, Any]) -> None:
            kind, value = word
            if kind == "steps":
                tick(value)
            else:
                ended.append(value)

        names = [str(device) for device in self.devices]
        given_data = self.images.given, self.images.data
        make = partial(_Driver, names, *given_data, self.lanes, self.jobs, loaded_modules())
        with Pool[list[tuple[Run, Job]]](make, len(self.devices)) as pool:
            given: dict[Run, None] = {}
            for shares_ended in pool.rounds(_noted(shares(), given), told):
                while ended:
                    given.pop(ended[0].run, None)
                    yield ended.popleft()
                for share, found in shares_ended:
                    why = TrainingFailed(str(found)) if isinstance(found, WorkerLost) else found
                    for run in [run for run, _ in share if run in given]:
                        del given[run]
                        yield RunOutcome(run, None, why or TrainingFailed("it was given to a GPU and never ended"))


def _noted(shares: Iterator[list[tuple[Run, Job]]], given: dict[Run, None]) -> Iterator[list[tuple[Run, Job]]]:
    for share in shares:
        given.update(dict.fromkeys(run for run, _ in share))
        yield share


def _outcome(run: Run, found: Any, track: Tracking | None = None) -> RunOutcome:
    if isinstance(found, Exception):
        return RunOutcome(run, None, found)
    try:
        record: Record = make_record(found)
        if track is not None and track.trackers:
            log_result(found, record, track)
    except Exception as error:
        return RunOutcome(run, None, error)
    return RunOutcome(run, record)


def at_once(device: torch.device, runs: int) -> int:
    """How many plain loops go side by side on a GPU: the host is their limit, as long as memory allows."""
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, min(len(cores()), free // ROOM, runs))


class _Driver:
    """In a process: makes runs on one of several GPUs."""

    def __init__(
        self,
        devices: Sequence[str],
        images: Any,
        data: Any,
        lanes: int | None,
        jobs: int | None,
        modules: Sequence[str],
        number: int,
    ) -> None:
        load_modules(modules)
        torch.set_num_threads(1)
        self.executor = GPUs([devices[number]], ImageSource(images, data), lanes=lanes, jobs=jobs)

    def __call__(self, share: list[tuple[Run, Job]], tell: Callable[[tuple[str, Any]], None]) -> None:
        jobs = dict(share)
        for outcome in self.executor.execute(list(jobs), jobs.__getitem__, lambda steps: tell(("steps", steps))):
            error = None if outcome.error is None else portable(outcome.error)  # or it would be an error of the share
            tell(("ended", replace(outcome, error=error)))
