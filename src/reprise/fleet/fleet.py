"""`fleet`: who runs what, where, and what is kept of it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from reprise.core.arguments import as_int
from reprise.core.files import Record
from reprise.core.workers import NoMainGuard, check_main_guard
from reprise.fleet.processes import on_cores
from reprise.learners import Learner, find_learner
from reprise.train.config import TrainRun
from reprise.train.record import RunResult, make_record, read_record, write_record
from reprise.train.run import Fingerprints, Images, find_device
from reprise.train.training import train


@dataclass(frozen=True)
class RunOutcome:
    """A run that has ended: with its record, or with what went wrong."""

    config: TrainRun
    record: Record | None
    error: Exception | None = None
    known: bool = False
    """Whether the record was there already, so that nothing was run."""

    @property
    def name(self) -> str:
        """The run in a few words."""
        run = self.config
        tail = f" lt{run.imbalance:g}" if run.imbalance > 1 else ""
        where = f"{run.learner} on {run.dataset}{tail}"
        return f"{where}, {run.storage} of {run.buffer}, {run.retrieval}, seed {run.seed}"


@dataclass(frozen=True)
class Progress:
    """How far a fleet has come."""

    done: int  # runs that have ended, well or badly, those known before included
    failed: int
    total: int
    steps: int  # steps done since the start
    seconds: float


Watch = Callable[[Progress], None]
Outcome = tuple[TrainRun, RunResult | Record | Exception, dict[str, float]]


def fleet(
    runs: Sequence[TrainRun],
    images: Images | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    lanes: int | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
) -> Iterator[RunOutcome]:
    """Train many runs and give each as it ends, in no promised order.

    `images` are those of all runs, or each run's are read from the folder `data`. With `out`, the record of a run is
    written to `out/runs/<identity>.json` as soon as there is one, and a run that has its record, made with the same
    images, is not run again; so a fleet that was stopped goes on where it stood. A run that fails is given with its
    error, and the others go on.

    On a GPU, `lanes` runs go at once, as many as pay unless told. `jobs` is the number of processes: those that plan
    tapes for a GPU, or those that train on a CPU. Each of them reads the script that calls this, so the call belongs
    under `if __name__ == "__main__":`. `watch` is told how far things are.
    """
    check_main_guard()
    where = find_device(device)
    folder = None if out is None else Path(out) / "runs"
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{folder} cannot be made for the records: {error.strerror}") from None
    for count, what in ((lanes, "lanes"), (jobs, "jobs")):
        if count is not None:
            as_int(count, what, 1)
    wanted = list(dict.fromkeys(runs))
    tally = _Tally(len(wanted), watch)
    kept = {} if folder is None else _kept(folder, wanted, images, data)
    for run, record in kept.items():
        tally.landed(failed=False)
        yield RunOutcome(run, record, known=True)
    missing = [run for run in wanted if run not in kept]
    with closing(_outcomes(missing, images, data, where, lanes, jobs, tally)) as outcomes:
        for config, found, timings in outcomes:
            landed = _landed(config, found, timings)
            if folder is not None and landed.record is not None:
                write_record(folder / f"{landed.record['identity']}.json", landed.record)
            tally.landed(failed=landed.error is not None)
            yield landed


class _Tally:
    """Counts runs and steps, and tells whoever watches."""

    def __init__(self, total: int, watch: Watch | None) -> None:
        self.total = total
        self.watch = watch
        self.done = self.failed = self.count = 0
        self.began = time.perf_counter()

    def steps(self, more: int) -> None:
        self.count += more
        self._tell()

    def landed(self, *, failed: bool) -> None:
        self.done += 1
        self.failed += failed
        self._tell()

    def _tell(self) -> None:
        if self.watch is not None:
            self.watch(Progress(self.done, self.failed, self.total, self.count, time.perf_counter() - self.began))


def _kept(
    folder: Path, runs: Sequence[TrainRun], images: Images | None, data: str | os.PathLike[str] | None
) -> dict[TrainRun, Record]:
    """The records that are there already. Images are read to know them by, unless no record is there at all."""
    kept: dict[TrainRun, Record] = {}
    if next(folder.glob("*.json"), None) is None:
        return kept
    for source in _together(runs, Images.source):
        try:
            found = (images or Images.load(source[0], data)).fingerprints(source[0])
        except Exception:
            continue  # it will be said of every run
        for run in source:
            if (record := _record(folder, run, found)) is not None:
                kept[run] = record
    return kept


def _record(folder: Path, run: TrainRun, data: Fingerprints) -> Record | None:
    try:
        return read_record(folder / f"{run.identity(data)}.json", run, lambda: data)
    except ValueError:
        return None  # damaged, or not this run's: it is made again, and written over


def _landed(config: TrainRun, found: RunResult | Record | Exception, timings: dict[str, float]) -> RunOutcome:
    if isinstance(found, Exception):
        return RunOutcome(config, None, found)
    return RunOutcome(config, make_record(found, timings) if isinstance(found, RunResult) else found)


def _outcomes(
    runs: Sequence[TrainRun],
    images: Images | None,
    data: str | os.PathLike[str] | None,
    device: torch.device,
    lanes: int | None,
    jobs: int | None,
    tally: _Tally,
) -> Generator[Outcome, None, None]:
    if device.type != "cuda":
        yield from on_cores(runs, images, data, jobs, tally.steps)
        return
    from reprise.fleet.driver import Group, Uncaptured

    on_device: Group | None = None
    for source in _together(runs, Images.source):
        on_device = None  # before the next images come
        try:
            shared = images or Images.load(source[0], data)
            on_device = Group(shared, device)
        except Exception as error:
            yield from ((run, error, {}) for run in source)
            continue
        plain = [run for run in source if not capturable(run)]
        for group in _together([run for run in source if capturable(run)], _group_of):
            if not on_device.takes(group[0]):
                plain += group
                continue
            left = dict.fromkeys(group)
            try:
                for outcome in on_device.train(group, lanes, jobs, tally.steps):
                    del left[outcome[0]]
                    yield outcome
            except Uncaptured as error:
                warnings.warn(
                    f"{len(left)} runs go by the plain loop, for their step was not captured: {error}", stacklevel=3
                )
                plain += left
            except NoMainGuard:
                raise
            except Exception as error:  # of the lanes themselves, such as too little memory for a single one
                yield from ((run, error, {}) for run in left)
        for run in plain:
            yield _plainly(run, shared, device, tally)


def _plainly(run: TrainRun, images: Images, device: torch.device, tally: _Tally) -> Outcome:
    """A run by the plain loop, in this process."""
    try:
        return run, train(run, images, device=device, watch=lambda _, __: tally.steps(1)), {}
    except Exception as error:
        return run, error, {}


def capturable(run: TrainRun) -> bool:
    """Whether a run's step can be captured: nothing in it asks the host, and padding leaves its arithmetic alone."""
    learner = find_learner(run.learner)
    plain_descent = run.optimizer == "sgd" and not run.momentum
    return (
        learner.capturable
        and learner.predictor is Learner.predictor  # a lane tests logits
        and plain_descent
        and not run.scored
        and run.passes == "separate"
        and 1 + (learner.draws if run.replay else 0) <= 3
        and find_spec("triton") is not None
    )


def _group_of(run: TrainRun) -> tuple[object, ...]:
    """What the runs of one group must share, as a lane is built for it; the rest is on their tapes."""
    free = {"seed", "imbalance", "storage", "retrieval", "buffer", "order", "disjoint", "blur"}
    settings = {name: value for name, value in run.configuration().items() if name not in free}
    return tuple(sorted((name, str(value)) for name, value in settings.items()))


def _together(runs: Sequence[TrainRun], key: Callable[[TrainRun], object]) -> list[list[TrainRun]]:
    """The runs in groups of equal key, in order of first appearance."""
    groups: dict[object, list[TrainRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())
