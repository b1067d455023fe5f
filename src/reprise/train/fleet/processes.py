"""Runs on a CPU: one process to a core, each with one thread, so that runs do not take turns on the same cores."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import torch

from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.run import Images
from reprise.train.training import train
from reprise.workers import serve

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
    jobs = min(jobs or len(cores), len(runs))
    waiting = deque(runs)
    workers: list[_Worker] = []
    try:
        for job in range(jobs):
            workers.append(_Worker(cores[job % len(cores)], images, data, waiting.popleft()))
        while workers:
            heard = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in heard]:
                word = worker.hear()
                if isinstance(word, int):
                    tick(word)
                    continue
                yield worker.run, word, {}
                if worker.lost:
                    workers.remove(worker)
                    if waiting and worker.begun:
                        workers.append(_Worker(worker.core, images, data, waiting.popleft()))
                elif waiting:
                    worker.give(waiting.popleft())
                else:
                    workers.remove(worker)
                    worker.dismiss()
        for run in waiting:  # no process has come as far as to begin
            yield run, TrainingFailed("no process could begin to train; what it printed says why"), {}
    except BaseException:
        for worker in workers:
            worker.process.terminate()  # a run may take hours; its record would come too late
        raise
    finally:
        for worker in workers:
            worker.process.join()


class _Worker:
    """A process that trains one run after the other, and what is known of it."""

    def __init__(self, core: int, images: Images | None, data: str | os.PathLike[str] | None, run: TrainRun) -> None:
        context = multiprocessing.get_context("spawn")
        self.core = core
        self.begun = self.lost = False
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, core, images, data), daemon=True)
        self.process.start()
        theirs.close()
        self.give(run)

    def give(self, run: TrainRun) -> None:
        self.run = run
        with contextlib.suppress(OSError):  # it is gone already, which will be heard
            self.pipe.send(run)

    def hear(self) -> Any:
        """Its next word: steps done, a record, or what went wrong."""
        try:
            word = self.pipe.recv()
        except (EOFError, OSError):
            self.lost = True
            self.process.join()
            return TrainingFailed(
                f"the process of this run ended with status {self.process.exitcode} before the run did: killed, "
                "perhaps for want of memory; fewer jobs need less"
            )
        self.begun = True
        return word

    def dismiss(self) -> None:
        self.pipe.close()
        self.process.join()


# In a worker.


def _serve(pipe: Connection, core: int, images: Images | None, data: str | os.PathLike[str] | None) -> None:
    """Train the runs that come, until none comes any more."""
    serve()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    pipe.send(0)
    loaded: tuple[object, Images] | None = None
    while True:
        try:
            run = pipe.recv()
        except EOFError:
            return
        try:
            if images is None and (loaded is None or loaded[0] != Images.source(run)):
                loaded = Images.source(run), Images.load(run, data)
            shared = images if images is not None else loaded[1] if loaded is not None else None
            word: Any = _trained(run, shared, pipe)
        except Exception as error:
            word = _portable(error)
        pipe.send(word)


def _trained(run: TrainRun, images: Images | None, pipe: Connection) -> Any:
    since = 0

    def watch(_: object, __: object) -> None:
        nonlocal since
        since += 1
        if since == _TELL_EVERY:
            pipe.send(since)
            since = 0

    record = train(run, images, watch=watch)
    pipe.send(since)
    return record


def _portable(error: Exception) -> Exception:
    """The error, or one with its words if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return TrainingFailed(f"{type(error).__name__}: {error}")
    return error
