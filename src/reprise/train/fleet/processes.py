"""Runs on a CPU: one process to a core, each with one thread, so that runs do not take turns on the same cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import SimpleQueue
from typing import TYPE_CHECKING, Any

import torch

from reprise.specs import whole
from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.run import Images
from reprise.train.training import train

if TYPE_CHECKING:
    from reprise.train.fleet.fleet import Outcome

_TELL_EVERY = 20  # steps between words to the parent


def on_cores(
    runs: Sequence[TrainRun],
    images: Images | None,
    data: str | os.PathLike[str] | None,
    jobs: int | None,
    tick: Callable[[int], None],
) -> Iterator[Outcome]:
    """Every run with its record, or with what went wrong, in the order in which they end."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    jobs = min(whole(len(cores) if jobs is None else jobs, "jobs", 1), len(runs))
    if not runs:
        return
    context = multiprocessing.get_context("spawn")
    # A word is on its way before a run's record is, so none is missed; a queue with a thread would not promise that.
    places, told = context.SimpleQueue(), context.SimpleQueue()
    for job in range(jobs):
        places.put(cores[job % len(cores)])
    with ProcessPoolExecutor(jobs, context, _begin, (places, told, images, data)) as pool:
        try:
            waiting: dict[Future[Any], TrainRun] = {pool.submit(_run, run): run for run in runs}
            while waiting:
                done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                if more := _heard(told):
                    tick(more)
                for future in done:
                    run = waiting.pop(future)
                    yield run, _outcome(future), {}
        except BaseException:
            # Asked for now: a pool that is shut down no longer knows its processes.
            processes = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()  # a run may take hours; its record would come too late
            for process in processes:
                process.join()
            raise


def _outcome(future: Future[Any]) -> Any:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return TrainingFailed(
            "a process of the fleet was killed, perhaps for want of memory, and no run that was not yet done could "
            "go on; fewer jobs need less memory"
        )
    return error if isinstance(error, Exception) else future.result()


def _heard(told: SimpleQueue[int]) -> int:
    total = 0
    while not told.empty():
        total += told.get()
    return total


_images: Images | None
_data: str | os.PathLike[str] | None
_loaded: tuple[object, Images] | None = None
_told: SimpleQueue[int]


def _begin(
    places: SimpleQueue[int], told: SimpleQueue[int], images: Images | None, data: str | os.PathLike[str] | None
) -> None:
    global _images, _data, _told
    _images, _data, _told = images, data, told
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    core = places.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)


def _run(run: TrainRun) -> Any:
    global _loaded
    key = Images.source(run)
    if _images is None and (_loaded is None or _loaded[0] != key):
        _loaded = key, Images.load(run, _data)
    images = _images if _images is not None else _loaded[1] if _loaded is not None else None
    since = 0

    def watch(_: object, __: object) -> None:
        nonlocal since
        since += 1
        if since == _TELL_EVERY:
            _told.put(since)
            since = 0

    record = train(run, images, watch=watch)
    _told.put(since)
    return record
