"""A campaign: many runs, each made once. What has its record is not made again; each record is kept as it is made."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from reprise.core.extras import NotInstalled
from reprise.core.files import Record
from reprise.core.workers import check_main_guard
from reprise.execute import Executor, Job, RunOutcome, choose
from reprise.execute.one import ImageSource
from reprise.lab.progress import Tally, Watch
from reprise.lab.time_limit import TimeLimit
from reprise.runs.images import Images, Root, fingerprints, source
from reprise.runs.run import Run
from reprise.runs.store import Claim, Store
from reprise.track import Tracking

_LOOK_EVERY = 0.2  # seconds between two looks at runs that somebody else makes


def campaign(
    runs: Sequence[Run],
    executor: Executor,
    store: Store | None = None,
    *,
    images: ImageSource | None = None,
    identities: Mapping[Run, str | Exception] | None = None,
    keep_files: bool = False,
    checkpoint_every: int = 0,
    retries: int = 0,
    time_limit: float | None = None,
    track: Tracking | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] | None = None,
) -> Generator[RunOutcome, None, None]:
    """Make many runs by an executor and give each as it ends, in no promised order.

    With a store, a run that has its record there is not made again, and what is made is kept as soon as it has ended;
    so a campaign that was stopped goes on where it stood. A run that another process makes at the same time is waited
    for, and taken over should that process end before the run does. Unfinished runs go on from their checkpoints. With
    `keep_files` tapes and weights are kept beside the records. A run that fails is made again when the others have
    ended, `retries` times at most; then it is given with its error, which the store keeps, too. Two runs are the same
    if their descriptions and their images are; `images` tells the latter, unless `identities` of the runs are given.
    `track` says who is told of runs that are made.

    With a `time_limit`, in seconds, no run is begun that would not end by then if it took as long as others of its kind
    did just before; until one of its kind has ended, that is not known. What is begun is ended. Runs that were not
    begun are not given; one that failed and is not begun once more is given with its error. With a limit of 0 no run is
    begun: those that have their record are given.
    """
    check_main_guard()
    track = track or Tracking()
    track.make()  # what is wrong with it is an error now, not one of every run
    runs = list(dict.fromkeys(runs))
    tally = Tally(runs, watch)
    job = Job(None, checkpoint_every, track=track)
    limit = None if time_limit is None else TimeLimit(time_limit)
    work = _Work(executor, store, job, keep_files, warn, tally, retries, limit)
    if store is not None:
        identities = identify(runs, images or ImageSource()) if identities is None else identities
    try:
        for outcome in work.outcomes(runs, identities or {}):
            tally.ended(outcome)
            yield outcome
    finally:
        work.end()


def identify(runs: Sequence[Run], images: ImageSource) -> dict[Run, str | Exception]:
    """By which name each run is known, or why its data cannot be read; data that runs share are read once."""
    known: dict[object, dict[str, str] | Exception] = {}
    found: dict[Run, str | Exception] = {}
    for run in runs:
        key = (run.trains, None if run.data is None else source(run))
        if key not in known:
            try:
                known[key] = fingerprints(run, images(run) if run.trains else None)
            except Exception as error:
                known[key] = error
        data = known[key]
        found[run] = data if isinstance(data, Exception) else run.identity(data)
    return found


class _Work:
    """What is done for a campaign, and what is held meanwhile."""

    def __init__(
        self,
        executor: Executor,
        store: Store | None,
        job: Job,
        keep_files: bool,
        warn: Callable[[str], None] | None,
        tally: Tally,
        retries: int,
        limit: TimeLimit | None,
    ) -> None:
        self.executor, self.store, self.job = executor, store, job
        self.keep_files, self.warn, self.tally, self.retries, self.limit = keep_files, warn, tally, retries, limit
        self.identities: dict[Run, str] = {}
        self.claims: dict[Run, Claim] = {}
        self.tries: Counter[Run] = Counter()
        self.again: list[Run] = []
        self.failed: dict[Run, RunOutcome] = {}  # of runs that are to be made once more, until they are begun
        self.elsewhere: list[Run] = []
        self.found: list[RunOutcome] = []  # records that appeared while others were made
        self.made = False

    def outcomes(self, runs: list[Run], identities: Mapping[Run, str | Exception]) -> Iterator[RunOutcome]:
        missing = runs if self.store is None else (yield from self._lacking(runs, identities))
        if self.limit is not None and self.limit.over:
            return  # before the executor makes ready for runs that would not be begun
        while missing:
            self.elsewhere, self.again = [], []
            with closing(self.executor.execute(missing, self._start, self.tally.steps)) as ended:
                for outcome in ended:
                    if self.limit is not None:
                        self.limit.ended(outcome.run)
                    kept = self._kept(outcome)
                    if not self._tried_again(kept):
                        yield kept
                    yield from self._newly_found()
            yield from self._newly_found()
            yield from [self.failed.pop(run) for run in [*self.failed] if run not in self.again]  # there was no time
            if self.again:  # those that others make are asked for again beside them, and not waited for first
                missing = self.again + self.elsewhere
            else:
                missing = yield from self._await()

    def _lacking(
        self, runs: list[Run], identities: Mapping[Run, str | Exception]
    ) -> Generator[RunOutcome, None, list[Run]]:
        """Give the runs that are known, and those whose data cannot be read; return the others."""
        assert self.store is not None
        missing = []
        for run in runs:
            identity = identities[run]
            if isinstance(identity, Exception):
                yield RunOutcome(run, None, identity)
                continue
            self.identities[run] = identity
            if (record := self.store.get(identity, self.warn)) is not None:
                yield RunOutcome(run, record, known=True)
            else:
                missing.append(run)
        return missing

    def _tried_again(self, outcome: RunOutcome) -> bool:
        """Whether a run that failed is to be made once more; what is wrong with a request does not get better."""
        if outcome.error is None or isinstance(outcome.error, (TypeError, ValueError, NotInstalled)):
            return False
        self.tries[outcome.run] += 1
        if self.tries[outcome.run] > self.retries:
            return False
        self.again.append(outcome.run)
        self.failed[outcome.run] = outcome
        return True

    def _start(self, run: Run) -> Job | None:
        """Take a run, unless somebody else makes it, or has made it since, or it would not end in time."""
        if self.limit is not None and not self.limit.allows(run):
            self._look_for(run)
            return None
        self.failed.pop(run, None)
        job = self._job(run)
        if self.limit is not None and job is not None:
            self.limit.begun(run)
        return job

    def _job(self, run: Run) -> Job | None:
        if self.store is None:
            return self.job
        store, identity = self.store, self.identities[run]
        if (claim := store.claim(identity)) is None:
            self.elsewhere.append(run)
            return None
        if self._look_for(run):
            claim.release()
            return None
        self.claims[run] = claim
        keep = store.files(identity) if self.keep_files and run.trains else None
        unfinished = store.unfinished(identity) if run.trains else None
        return replace(self.job, checkpoints=unfinished, keep=keep, record=store.record_file(identity))

    def _look_for(self, run: Run) -> bool:
        """Whether somebody else has made it since."""
        if self.store is None or (record := self.store.get(self.identities[run])) is None:
            return False
        self.failed.pop(run, None)
        self.found.append(RunOutcome(run, record, known=True))
        return True

    def _kept(self, outcome: RunOutcome) -> RunOutcome:
        if self.store is None:
            return outcome
        record = outcome.record
        if record is not None and record["identity"] != self.identities[outcome.run]:
            error = ValueError("its images are not those that the campaign was begun with")
            outcome = replace(outcome, record=None, error=error)
        elif record is not None:
            self.store.put(record)
            self.made = True
        if outcome.error is not None:
            self.store.put_failure(self.identities[outcome.run], outcome.name, outcome.error)
        self.claims.pop(outcome.run).release()
        return outcome

    def _newly_found(self) -> Iterator[RunOutcome]:
        found, self.found = self.found, []
        yield from found

    def _await(self) -> Generator[RunOutcome, None, list[Run]]:
        """Wait for runs that somebody else makes: gives those that get their record, returns those that were left."""
        if self.store is None:
            return []
        waiting = self.elsewhere
        left: list[Run] = []
        while waiting and not left and not (self.limit is not None and self.limit.over):
            time.sleep(_LOOK_EVERY)
            for run in [*waiting]:
                record: Record | None = self.store.get(self.identities[run])
                claim = None if record is not None else self.store.claim(self.identities[run])
                if record is None and claim is not None:
                    claim.release()
                    left.append(run)
                elif record is not None:
                    waiting.remove(run)
                    yield RunOutcome(run, record, known=True)
        return [] if not left else waiting

    def end(self) -> None:
        """Let go of what is held, and leave the store in order."""
        for claim in self.claims.values():
            claim.release()
        if self.store is None or not self.store.folder.is_dir():
            return
        try:
            self.store.tidy()
            if self.made:
                self.store.write_index()
        except (OSError, ValueError, NotInstalled) as error:
            # It cannot be written to, is full, or is packed and cannot be read here; what was made is kept or given.
            why = getattr(error, "strerror", None) or error
            if self.warn is not None:
                self.warn(f"The store {self.store.folder} could not be put in order: {why}.")


def run_all(
    runs: Sequence[Run],
    images: Images | None = None,
    *,
    data: Root = None,
    out: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    jobs: int | None = None,
    lanes: int | None = None,
    time_limit: float | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] | None = None,
) -> Generator[RunOutcome, None, None]:
    """Make many runs by the executor that fits, and give each as it ends; short for

        campaign(runs, choose(runs, data=data, device=device), Store(out))

    `images` are those of all runs, or each run's are read from the folder `data`. With `out`, records are kept in the
    store there. `time_limit` is that of `campaign`. On a CPU runs go to processes, on a GPU to lanes; both read the
    script that calls this, so the call belongs under `if __name__ == "__main__":`.
    """
    executor = choose(runs, images=images, data=data, device=device, jobs=jobs, lanes=lanes)
    store = None if out is None else Store(out)
    given = ImageSource(images, data)
    yield from campaign(runs, executor, store, images=given, time_limit=time_limit, watch=watch, warn=warn)
