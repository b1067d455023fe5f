"""Runs as jobs of a Slurm cluster, submitted through submitit; or as such jobs on this machine, to try it.

submitit writes scripts, logs and results into a folder that all nodes must see. A job makes a share of runs. When it is
preempted, or its time is over, submitit has it queued again, and its runs go on from their checkpoints.
"""

from __future__ import annotations

import pickle
import shutil
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from reprise.core.arguments import as_int
from reprise.core.extras import NotInstalled, not_installed
from reprise.core.plugins import loaded_modules
from reprise.execute.executor import Executor, Outcomes, RunOutcome, Start, Tick, share_of
from reprise.execute.one import ImageSource
from reprise.execute.remote import MakeExecutor, RemoteMaker, RemoteOutcome, Task, absolute, on_cpu
from reprise.execute.slurm_job import ShareJob, on_cores, on_gpus, outcome_files
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import Root, source
from reprise.runs.run import Run

CLUSTERS = ("slurm", "local", "debug")
PER_CORE = 4
"""Runs that a job takes for each of its cores, unless told."""
_USUAL = {"name": "reprise", "timeout_min": 60, "cpus_per_task": 1}
_OURS = ("nodes", "tasks_per_node", "gpus_per_node")
_OF_THE_EXECUTOR = ("max_num_timeout", "max_pickle_size_gb", "python")
_PATIENCE = 5.0  # seconds that cancelled jobs of this machine have to end


class Slurm(Executor):
    """Jobs of a cluster, `at_once` of them queued or running at a time, each with a share of `share` runs.

    `folder` is submitit's, on storage that all nodes see; the folder `jobs` of a store on such storage fits. `shared`
    says whether nodes see the store, too: then they write checkpoints, kept files and records there. Otherwise these
    lie in `folder` until the campaign takes them over. `gpus` is the number of GPUs of a job, each driven as a fleet of
    `lanes` runs; without one, a job makes a run on each of its `cpus_per_task` cores. `cluster` is "slurm", or "local"
    for jobs that are processes of this machine, or "debug" for this process. `look_every` are the seconds between two
    looks at what has ended. All others are submitit's: `timeout_min`, `mem_gb`, `slurm_partition` and so on.
    """

    def __init__(
        self,
        folder: Root,
        images: ImageSource | None = None,
        *,
        cluster: str = "slurm",
        gpus: int = 0,
        lanes: int | None = None,
        share: int | None = None,
        at_once: int = 64,
        shared: bool = True,
        look_every: float = 5.0,
        **parameters: Any,
    ) -> None:
        if cluster not in CLUSTERS:
            raise ValueError(f"cluster must be one of {', '.join(CLUSTERS)}, got {cluster!r}")
        self.folder = Path(folder or "jobs").absolute()
        self.images = images or ImageSource()
        self.gpus, self.at_once = as_int(gpus, "gpus", 0), as_int(at_once, "at once", 1)
        self.lanes = None if lanes is None else as_int(lanes, "lanes", 1)
        self.shared, self.look_every = shared, look_every
        self.executor, self.cores = _executor(self.folder, cluster, self.gpus, parameters)
        usual = share_of(self.lanes) * self.gpus if self.gpus else PER_CORE * self.cores
        self.share = usual if share is None else as_int(share, "share", 1)

    def execute(self, runs: Sequence[Run], start: Start, tick: Tick) -> Outcomes:
        waiting, under_way = deque(self._shares(runs)), list[_Share]()
        try:
            while waiting or under_way:
                begun = list(_begun(waiting, self.at_once - len(under_way), start))
                refused = self._submit(begun)
                under_way += [share for share in begun if share.job is not None]
                yield from (RunOutcome(run, None, refused) for share in begun for run in share.refused())
                for share in [*under_way]:
                    over = share.job.done()  # before the last look at what it left
                    yield from share.ended(tick)
                    if over:
                        under_way.remove(share)
                        yield from share.lost()
                        share.clear()
                if under_way:
                    time.sleep(self.look_every)
        finally:
            _cancel(under_way)

    def _shares(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Runs that one job makes: of the same images, and on a GPU of one kind, so that they share lanes."""
        from reprise.fleet.grouping import lane_kind, together

        def kind(run: Run) -> object:
            if not run.trains:
                return None
            return source(run), lane_kind(run) if self.gpus else None

        alike = together(runs, kind)
        return [group[first : first + self.share] for group in alike for first in range(0, len(group), self.share)]

    def _submit(self, shares: Sequence[_Share]) -> TrainingFailed | None:
        """Submit shares as an array of jobs; gives what is wrong where they are refused."""
        if not shares:
            return None
        maker = self._maker()
        try:
            with self.executor.batch():
                jobs = []
                for share in shares:
                    share.spool = self.folder / "outcomes" / uuid.uuid4().hex
                    share.spool.mkdir(parents=True)
                    jobs.append(self.executor.submit(ShareJob(maker, list(share.left.values()), share.spool)))
        except Exception as error:  # of Slurm, such as an unknown partition, or of the folder
            return TrainingFailed(f"its job could not be submitted: {_last_line(error)}")
        for share, job in zip(shares, jobs, strict=True):
            share.job = job
        return None

    def _maker(self) -> RemoteMaker:
        there: MakeExecutor = on_cpu
        if self.gpus:
            there = partial(on_gpus, gpus=self.gpus, lanes=self.lanes)
        elif self.cores > 1:
            there = partial(on_cores, jobs=self.cores)
        images, scratch = self.images, str(self.folder / "scratch")
        return RemoteMaker(images.given, images.data, loaded_modules(), there, self.shared, scratch=scratch)


@dataclass
class _Share:
    """Runs that a job was given, and those of them that have not ended, by number."""

    left: dict[int, Task]
    spool: Path = Path()
    job: Any = None

    def refused(self) -> list[Run]:
        """The runs, if there is no job for them."""
        return [run for run, _ in self.left.values()] if self.job is None else []

    def ended(self, tick: Tick) -> Iterator[RunOutcome]:
        """Runs that have ended since the last look."""
        for number, path in outcome_files(self.spool).items():
            if number not in self.left:
                continue
            run, job = self.left.pop(number)
            found: RemoteOutcome = pickle.loads(path.read_bytes())
            if found.outcome.record is not None:
                tick(found.outcome.record["timings"]["steps"])
            yield replace(found.unpack(job), run=run)
            path.write_bytes(b"")  # it has been kept; the name stays, for a job that is begun again

    def lost(self) -> Iterator[RunOutcome]:
        """Runs that the job has not ended, now that it is over."""
        if not self.left:
            return
        number, why = self.job.job_id, _end(self.job)
        error = TrainingFailed(
            f"its job {number} ended before the run did ({why}); the job's log is {self.job.paths.stderr}"
        )
        yield from (RunOutcome(run, None, error) for run, _ in self.left.values())

    def clear(self) -> None:
        """Remove what was sent to the job and back; its logs stay."""
        shutil.rmtree(self.spool, ignore_errors=True)
        for path in (self.job.paths.submitted_pickle, self.job.paths.result_pickle):
            path.unlink(missing_ok=True)


def _begun(waiting: deque[list[Run]], free: int, start: Start) -> Iterator[_Share]:
    """As many shares as there may be jobs, of runs that are to be made."""
    while waiting and free > 0:
        share = [(run, absolute(job)) for run in waiting.popleft() if (job := start(run)) is not None]
        if share:
            free -= 1
            yield _Share(dict(enumerate(share)))


def _cancel(shares: Sequence[_Share]) -> None:
    for share in shares:
        share.job.cancel(check=False)
    until = time.monotonic() + _PATIENCE
    for share in shares:
        process = getattr(share.job, "_process", None)  # of a job of this machine, which is not to outlive this call
        while process is not None and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        share.clear()


def _end(job: Any) -> str:
    """How a job ended that has left runs: what it raised, or what Slurm says of it."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        job.result()
    except FailedJobError as error:  # its words hold the trace between two lines
        parts = str(error).split("-" * 22)
        return _last_line(parts[1] if len(parts) > 2 else error)
    except UncompletedJobError:
        pass
    return f"state {job.state}"


def _last_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _executor(folder: Path, cluster: str, gpus: int, given: dict[str, Any]) -> tuple[Any, int]:
    """submitit's executor, and the number of cores of a job."""
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise NotInstalled(not_installed("jobs of a cluster need submitit", "slurm")) from error
    for name in given:
        if name.removeprefix(f"{cluster}_") in _OURS:
            raise ValueError(f"{name} is not for you to set: a job is a process on one node; gpus says how many it has")
    parameters = {**_USUAL, **({"gpus_per_node": gpus} if gpus else {}), **given}
    first = {name: parameters.pop(name) for name in [*parameters] if name.partition("_")[2] in _OF_THE_EXECUTOR}
    try:
        executor = submitit.AutoExecutor(folder, cluster, **first)
        executor.update_parameters(**parameters)
    except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"submitit cannot be set up for {cluster}: {str(error).splitlines()[0]}") from error
    cores = parameters.get(f"{cluster}_cpus_per_task", parameters["cpus_per_task"])
    return executor, as_int(cores, "cpus_per_task", 1)
