"""`train`: a run from its configuration to its record, with checkpoints on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from reprise.files import Record, write_whole
from reprise.specs import whole
from reprise.train import checkpoint
from reprise.train.config import TrainRun
from reprise.train.errors import TrainingFailed
from reprise.train.loop import Trained, check_loss, check_weights, steps
from reprise.train.record import make_record, read_record, write_record
from reprise.train.run import Images, Run

Watch = Callable[[Run, Trained], None]
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
    there is none; the record is that of a run that never stopped. `watch` is called after every step. It is short for

        run = Run(config, Images.load(config, data), device)
        for trained in steps(run):
            ...
        record = make_record(run, timings={})
    """
    whole(checkpoint_every, "checkpoint every", 0)
    folder = None if out is None else Path(out)
    given = cache(lambda: images or Images.load(config, data))
    if folder is not None:
        done = read_record(folder / "record.json", config, lambda: given().fingerprints(config))
        if done is not None:
            _tidy(folder)  # it may have been killed just after the record was written
            return done
    started = time.perf_counter()
    run = Run(config, given(), device)
    kept = None if folder is None else folder / "checkpoints"
    if kept is not None and run.ranks.first:
        _make(kept)
    if kept is not None:
        if resume:
            checkpoint.load(run, kept, warn)
        elif any(checkpoint.found(kept)):
            raise ValueError(f"{kept} holds checkpoints of a run that was begun: --resume goes on with it")
    prepared = time.perf_counter()
    first = run.step
    for trained in steps(run):
        if watch is not None:
            watch(run, trained)
        due = trained.evaluations is not None or (checkpoint_every and trained.step % checkpoint_every == 0)
        if kept is not None and due and run.ranks.first:
            check_loss(run)
            check_weights(run)
            checkpoint.save(run, kept)
    ended = time.perf_counter()
    seconds = {"prepare": round(prepared - started, 3), "train": round(ended - prepared, 3), "steps": run.step - first}
    record = make_record(run, seconds)
    if folder is not None and run.ranks.first:
        _keep(run, folder)
        write_record(folder / "record.json", record)
        _tidy(folder)
    return record


def _tidy(folder: Path) -> None:
    """Remove what only an unfinished run needs, and what was left half written when one was killed."""
    checkpoint.clear(folder / "checkpoints")
    for name in RESULTS:
        for scratch in folder.glob(f".{name}.*.part"):
            scratch.unlink(missing_ok=True)


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
            write_whole(folder / f"{name}.safetensors", lambda file, content=content: file.write(content))  # type: ignore[misc]
    except OSError as error:
        raise TrainingFailed(f"the results cannot be written to {folder}: {error.strerror}") from error
