"""What runs on another machine: a share of runs is made there, and each outcome is sent back.

The store is reached in one of two ways.

Shared storage (`shared=True`): the store's folder has the same path on every machine. Checkpoints and kept files are
written there, so a run that was lost with its machine goes on from its checkpoint on another. The record travels back
with the outcome, and is written into the store at once as well (beside the checkpoints, where the job names no file for
it), so that it is not lost either. A run whose record is there is not made again.

Travelling back (`shared=False`): nothing is assumed. Checkpoints lie in a scratch folder of the machine that makes the
run, so a run that is begun again on the same machine goes on, and on another starts anew. Kept files travel back with
the outcome, and `RemoteOutcome.unpack` writes them on the campaign's side. What trackers write stays on the machine
that makes the run.

In both ways a run is locked while it is made. Should a worker outlive its campaign, the next one waits for it and goes
on from what it left.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from reprise.core.files import Damaged, FolderBusy, Lock, Record, digest, read_json, write_atomic, write_json
from reprise.core.plugins import load_modules
from reprise.core.workers import portable
from reprise.execute.executor import Executor, Job, RunOutcome, Tick
from reprise.execute.here import Here
from reprise.execute.one import ImageSource
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import Images, Root, fingerprints
from reprise.runs.record import check_record
from reprise.runs.run import Run
from reprise.runs.store import Store

Task = tuple[Run, Job]
MakeExecutor = Callable[[ImageSource], Executor]
PATIENCE = 6 * 3600.0
"""Seconds that a run is waited for which a worker of another campaign makes."""
_LOOK_EVERY = 0.5  # seconds between two looks at a run that a worker of an ended campaign still makes


@dataclass(frozen=True)
class RemoteOutcome:
    """An outcome on its way back, and the files that travel with it."""

    outcome: RunOutcome
    files: dict[str, bytes] = field(default_factory=dict)
    """Kept files by name; empty on shared storage, where they have been written already."""

    def unpack(self, job: Job) -> RunOutcome:
        """The outcome, once the files are in `job.keep`, each written whole or not at all."""
        try:
            for name, content in self.files.items():
                assert job.keep is not None, "files come back only where they are to be kept"
                job.keep.mkdir(parents=True, exist_ok=True)
                write_atomic(job.keep / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
        except OSError as error:
            why = TrainingFailed(f"the results cannot be written to {job.keep}: {error.strerror}")
            return replace(self.outcome, record=None, error=why)
        return self.outcome


def absolute(job: Job) -> Job:
    """The job for a process that may work in another folder."""
    paths = {name: getattr(job, name) for name in ("checkpoints", "keep", "record")}
    whole = {name: path.absolute() for name, path in paths.items() if path is not None}
    return replace(job, track=replace(job.track, folder=job.track.folder.absolute()), **whole)


def on_cpu(images: ImageSource) -> Executor:
    """The executor on a machine without a GPU: the process itself."""
    return Here(images)


def on_gpu(images: ImageSource, lanes: int | None = None, jobs: int | None = None) -> Executor:
    """The executor on a machine with a GPU: a fleet on the first GPU that this process sees."""
    from reprise.execute.gpus import GPUs

    return GPUs(("cuda",), images, lanes=lanes, jobs=jobs)


@dataclass(frozen=True)
class RemoteMaker:
    """Makes shares of runs on another machine. It is pickled on the campaign's side and called there."""

    images: Images | None = None
    """Those of all runs; they travel with it."""
    data: Root = None
    """Where none are given: the folder from which each run's images are read, under the same path there."""
    modules: tuple[str, ...] = ()
    """Plugin modules to load first, by dotted name or by path; they must be found there under the same name."""
    executor: MakeExecutor = on_cpu
    """Makes the executor there; a function of a module, or a `functools.partial` of one."""
    shared: bool = False
    """Whether the store's folder has the same path there (see above)."""
    threads: int = 1
    """Threads that torch uses in the process."""
    scratch: str | None = None
    """Travelling back: the folder for checkpoints there, within the folder for temporary files unless told."""
    origin: str = field(default_factory=platform.node)
    """The campaign's machine, so that campaigns of two machines do not share scratch folders."""

    def __post_init__(self) -> None:
        if self.data is not None:  # the process there may work in another folder
            object.__setattr__(self, "data", os.path.abspath(self.data))

    def __call__(self, share: Sequence[Task], tick: Tick) -> Iterator[RemoteOutcome]:
        """Make these runs, and give each as it ends; one that fails does not stop the others."""
        try:
            load_modules(self.modules)
            images = _from_folder(os.fspath(self.data or "")) if self.images is None else ImageSource(self.images)
            executor = self.executor(images)
            if any(run.trains for run, _ in share):
                import torch

                torch.set_num_threads(self.threads)
        except Exception as error:  # every run needs these, so none can be made
            yield from (RemoteOutcome(RunOutcome(run, None, portable(error))) for run, _ in share)
            return
        yield from _Share(self, share, images).make(executor, tick)

    def folder(self, run: Run, job: Job) -> Path | None:
        """Where a run is locked, and what it leaves until its outcome is sent; None if it leaves nothing."""
        if self.shared or (job.checkpoints is None and job.keep is None):
            return job.checkpoints
        paths = [None if path is None else str(path.absolute()) for path in (job.checkpoints, job.keep)]
        user = getattr(os, "getuid", lambda: 0)()
        root = Path(tempfile.gettempdir(), f"reprise-{user}") if self.scratch is None else Path(self.scratch)
        return root / digest([self.origin, *paths, run.to_dict()])[:24]


@lru_cache(1)
def _from_folder(data: str) -> ImageSource:
    """One for all shares that a process makes, so that images are not read for each of them."""
    return ImageSource(None, data or None)


class _Share:
    """Runs that are made one after the other or side by side, and what is held meanwhile."""

    def __init__(self, maker: RemoteMaker, share: Sequence[Task], images: ImageSource) -> None:
        self.maker, self.jobs, self.images = maker, dict(share), images
        self.locks: dict[Run, Lock] = {}
        self.ended: list[RemoteOutcome] = []  # without being made by the executor

    def make(self, executor: Executor, tick: Tick) -> Iterator[RemoteOutcome]:
        try:
            for outcome in executor.execute(list(self.jobs), self._start, tick):
                yield self._sent(outcome)
                yield from self._newly_ended()
            yield from self._newly_ended()
        finally:
            for lock in self.locks.values():
                lock.release()

    def _newly_ended(self) -> Iterator[RemoteOutcome]:
        ended, self.ended = self.ended, []
        yield from ended

    def _start(self, run: Run) -> Job | None:
        """Lock a run and say how it is made here, unless its record waits already."""
        job = self.jobs[run]
        if (folder := self.maker.folder(run, job)) is None:
            return job
        try:
            self.locks[run] = _lock(folder)
            record = self._waiting(run, job, folder) if self.maker.shared else None
        except Exception as error:
            self.ended.append(self._sent(RunOutcome(run, None, error)))
            return None
        if record is not None:
            self.ended.append(self._sent(RunOutcome(run, record)))
            return None
        if self.maker.shared:
            return job
        return Job(
            None if job.checkpoints is None else folder / "checkpoints",
            job.checkpoint_every,
            None if job.keep is None else folder / "files",
            track=job.track,
        )

    def _waiting(self, run: Run, job: Job, folder: Path) -> Record | None:
        """The record of a run that ended here before, and whose outcome did not arrive."""
        if job.record is not None:
            return _store(job.record).get(job.record.stem)
        if job.keep is not None:
            return None  # the files may be missing; the last checkpoint is as good
        try:
            if (content := read_json(folder / "record.json")) is None:
                return None
            record = check_record(content)
        except Damaged:
            return None
        found = fingerprints(run, self.images(run) if run.trains else None)
        return record if record["identity"] == run.identity(found) else None

    def _sent(self, outcome: RunOutcome) -> RemoteOutcome:
        """What is sent back, with what is left here in order."""
        run, job, files = outcome.run, self.jobs[outcome.run], dict[str, bytes]()
        lock, folder = self.locks.pop(run, None), self.maker.folder(run, job)
        try:
            if lock is not None and folder is not None and outcome.record is not None:
                if self.maker.shared:
                    _leave(outcome.record, job, folder)
                else:
                    files = {path.name: path.read_bytes() for path in sorted((folder / "files").glob("[!.]*"))}
                    for name in ("checkpoints", "files"):
                        shutil.rmtree(folder / name, ignore_errors=True)
        except OSError as error:
            why = TrainingFailed(f"the results cannot be kept in {folder}: {error.strerror}")
            outcome = replace(outcome, record=None, error=why)
        if lock is not None:
            lock.release()
            with contextlib.suppress(OSError):  # others may have it meanwhile, or it holds checkpoints
                lock.path.parent.rmdir()
        if outcome.error is not None:
            outcome = replace(outcome, error=portable(outcome.error))
        return RemoteOutcome(outcome, files)


def _leave(record: Record, job: Job, folder: Path) -> None:
    """Have a record on shared storage, so that it is there even if nobody waits for the outcome any more."""
    if job.record is None:
        write_json(folder / "record.json", record)
    elif record["identity"] == job.record.stem:  # or its images are others, which the campaign will say
        with contextlib.suppress(ValueError, TrainingFailed):  # it cannot be written there: the campaign will try, too
            _store(job.record).put(record)


def _store(record: Path) -> Store:
    """The store that has the file of a record."""
    return Store(record.parents[1])


def _lock(folder: Path) -> Lock:
    """Lock a run; a worker of a campaign that has ended may still make it, and is waited for, but not for ever."""
    until = time.monotonic() + PATIENCE
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return Lock(folder / "lock")
        except FolderBusy as busy:
            if time.monotonic() > until:
                hours = f"{PATIENCE / 3600:g} hours"
                raise TrainingFailed(f"it is made elsewhere, and has not ended in {hours}: {busy}") from None
            time.sleep(_LOOK_EVERY)
        except ValueError:
            if folder.is_dir():  # or its holder removed the folder just now
                raise
