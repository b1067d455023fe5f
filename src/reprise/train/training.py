"""`train`: a run from its configuration to its record, with checkpoints on the way."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path

import torch

from reprise.core.arguments import as_int
from reprise.core.files import FolderBusy, Record, sole_use, write_atomic
from reprise.train import checkpoint
from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.loop import StepResult, check_loss, check_weights, steps
from reprise.train.ranks import Ranks
from reprise.train.record import make_record, read_record, write_record
from reprise.train.run import Images, Run

Watch = Callable[[Run, StepResult], None]
RESULTS = ("tape.safetensors", "ema.safetensors", "live.safetensors", "record.json")
"""What a finished run leaves in its folder."""


def train(
    config: TrainRun,
    images: Images | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    device: str | torch.device = "cpu",
    checkpoint_every: int = 0,
    watch: Watch | None = None,
    warn: Callable[[str], None] | None = None,
) -> Record:
    """Train a run and return its record.

    `images` are the run's, or are read from the folder `data`. With `out`, the folder holds `record.json`, the tape and
    the final weights of both read-outs, and on the way checkpoints: at every task boundary, and every
    `checkpoint_every` steps if that is not 0. A finished run is not run again; a record or a checkpoint of another
    configuration, seed or images is an error. With `resume` the run goes on from its newest checkpoint, or begins if
    there is none; the record is that of a run that never stopped. While it trains, a second run into the same folder is
    refused. `watch` is called after every step, and `warn`, or else Python's own, with what one should know of a
    checkpoint. It is short for

        run = Run(config, Images.load(config, data), device)
        for trained in steps(run):
            ...
        record = make_record(run, timings={})
    """
    as_int(checkpoint_every, "checkpoint every", 0)
    warn = warn or partial(warnings.warn, stacklevel=3)
    folder = None if out is None else Path(out)
    given = cache(lambda: images or Images.load(config, data))

    def known() -> Record | None:
        if folder is None:
            return None
        return read_record(folder / "record.json", config, lambda: given().fingerprints(config))

    if folder is not None and (done := known()) is not None:
        _tidy_up_after(folder)
        return done
    started = time.perf_counter()
    with _sole_use(folder, torch.device(device)):
        if (done := known()) is not None:
            return done  # whoever was at work here has ended since
        run = Run(config, given(), device)
        kept = None if folder is None else folder / "checkpoints"
        if kept is not None:
            _begin(run, kept, resume, warn)
        prepared = time.perf_counter()
        first = run.step
        for trained in _steps(run):
            if watch is not None:
                watch(run, trained)
            due = trained.evaluations is not None or (checkpoint_every and trained.step % checkpoint_every == 0)
            if kept is not None and due and run.ranks.first:
                check_loss(run)
                check_weights(run)
                checkpoint.save(run, kept)
        ended = time.perf_counter()
        seconds = {"prepare": round(prepared - started, 3), "train": round(ended - prepared, 3)}
        record = make_record(run, {**seconds, "steps": run.step - first})
        if folder is not None and run.ranks.first:
            _keep(run, folder)
            write_record(folder / "record.json", record)
            _tidy(folder)
        return record


@contextmanager
def _sole_use(folder: Path | None, device: torch.device) -> Iterator[None]:
    """Within it, nobody else trains into this folder. Of processes that share a run, the first holds it for all."""
    ranks = Ranks.here()
    wrong: ValueError | None = None
    with ExitStack() as stack:
        if folder is not None and ranks.first:
            try:
                _make(folder)
                stack.enter_context(sole_use(folder))
            except ValueError as error:
                wrong = error
        if folder is not None and ranks.told(wrong is not None, device):
            raise wrong or FolderBusy(f"the first process cannot use {str(folder)!r}")
        yield


def _begin(run: Run, folder: Path, resume: bool, warn: Callable[[str], None] | None) -> None:
    """Go on from the newest checkpoint in the folder, if that is wanted."""
    if run.ranks.first:
        _make(folder)
        sweep(folder.parent)
    checkpoint.check(folder)
    if resume:
        checkpoint.load(run, folder, warn)
    elif any(checkpoint.found(folder)):
        raise ValueError(f"{folder} holds checkpoints of a run that was begun: --resume goes on with it")


def _steps(run: Run) -> Iterator[StepResult]:
    """The steps of a run whose description has been found good: what is wrong from here on is a failure of the run."""
    try:
        yield from steps(run)
    except ValueError as error:
        raise TrainingFailed(f"the run failed after step {run.step} of {run.steps}: {error}") from error


def sweep(folder: Path) -> None:
    """Remove what was left half written when a process was killed that trained into this folder."""
    checkpoint.sweep(folder / "checkpoints")
    for name in RESULTS:
        for scratch in folder.glob(f".{name}.*.part"):
            scratch.unlink(missing_ok=True)


def _tidy(folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    sweep(folder)
    checkpoint.clear(folder / "checkpoints")


def _tidy_up_after(folder: Path) -> None:
    """Tidy the folder of a run that has its record: its process may have been killed before it came to that."""
    if any(folder.glob(".*")) or (folder / "checkpoints").exists():
        with suppress(ValueError), sole_use(folder):
            _tidy(folder)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made for the run's files: {error.strerror}") from None


def _keep(run: Run, folder: Path) -> None:
    """The tape, and the weights of both read-outs as files that `reprise.nets.load_checkpoint` reads."""
    from safetensors.torch import save

    try:
        run.feed.tape().save(folder / "tape.safetensors")
        for name, net in (("ema", run.readout.net), ("live", run.net)):
            weights = {net.published(key): value.contiguous() for key, value in net.state_dict().items()}
            content = save(weights)
            write_atomic(folder / f"{name}.safetensors", lambda file, content=content: file.write(content))  # type: ignore[misc]
    except OSError as error:
        raise TrainingFailed(f"the results cannot be written to {folder}: {error.strerror}") from error
