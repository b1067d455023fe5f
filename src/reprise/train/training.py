"""`train`: a run from its description to its record, with checkpoints on the way."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from reprise.core.arguments import as_int
from reprise.core.files import Record, write_atomic
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import Images, Root
from reprise.runs.record import make_record
from reprise.runs.run import Run
from reprise.track import Follower, Source, as_tracking
from reprise.train import checkpoint
from reprise.train.loop import StepResult, check_loss, check_weights, steps
from reprise.train.state import Training

Watch = Callable[[Training, StepResult], None]


def train(
    run: Run,
    images: Images | None = None,
    *,
    data: Root = None,
    device: str | torch.device = "cpu",
    checkpoints: Root = None,
    checkpoint_every: int = 0,
    keep: Root = None,
    watch: Watch | None = None,
    track: Any = None,
    warn: Callable[[str], None] | None = None,
) -> Record:
    """Train a run and return its record.

    `images` are the run's, or are read from the folder `data`. With `checkpoints`, the run goes on from the newest
    checkpoint in that folder if there is one, and writes others: at every task boundary, and every `checkpoint_every`
    steps if that is not 0; the record is that of a run that never stopped. They stay there; whoever keeps the record
    removes them. With `keep`, the tape and the final weights of both read-outs are written into that folder. `watch` is
    called after every step. `track` names who is told of values along the way: a tracker's spec, such as "csv:logs", an
    object with the methods of `reprise.track.Tracker`, a function of a step and its values, a list of these, or a
    `reprise.track.Tracking`, which also says how often. `warn`, or else Python's own, is called with what one should
    know of a checkpoint or a tracker. Short for

        training = Training(run, Images.load(run, data), device)
        for step in steps(training):
            ...
        record = make_record(training.result(timings={}))

    `reprise.lab.campaign` makes many runs and keeps them in a store.
    """
    as_int(checkpoint_every, "checkpoint every", 0)
    tracking = as_tracking(track)
    trackers = tracking.make()
    warn = warn or partial(warnings.warn, stacklevel=3)
    started = time.perf_counter()
    training = Training(run, images or Images.load(run, data), device)
    folder, kept = (None if given is None else Path(given) for given in (checkpoints, keep))
    if training.ranks.first:
        for wanted in filter(None, (folder, kept)):
            _make(wanted)  # now, not when all is done
    if folder is not None:
        _begin(training, folder, warn)
    prepared = time.perf_counter()
    first = training.step
    told = trackers if training.ranks.first else []
    with Follower(training.plan, training.data, _source(training), tracking, told, first, warn) as follower:
        for step in _steps(training):
            if watch is not None:
                watch(training, step)
            follower.advance(step.step)
            due = step.evaluations is not None or (checkpoint_every and step.step % checkpoint_every == 0)
            if folder is not None and due and training.ranks.first:
                check_loss(training)
                check_weights(training)
                checkpoint.save(training, folder)
        ended = time.perf_counter()
        seconds = {"prepare": round(prepared - started, 3), "train": round(ended - prepared, 3)}
        record = make_record(training.result({**seconds, "steps": training.step - first}))
        if kept is not None and training.ranks.first:
            _keep(training, kept)
        follower.record = record
    return record


def _begin(training: Training, folder: Path, warn: Callable[[str], None]) -> None:
    """Go on from the newest checkpoint in the folder."""
    if training.ranks.first:
        checkpoint.sweep(folder)
    checkpoint.check(folder)
    checkpoint.load(training, folder, warn)


def _source(training: Training) -> Source:
    """Where trackers' values come from; to read a loss waits for the device."""
    return Source(
        moved=training.feed.moved,
        losses=lambda part: training.losses[part].cpu().numpy(),
        hits=lambda part: training.hits[part].cpu().numpy(),
        correct=lambda test: {name: found[test] for name, found in training.correct.items()},
    )


def _steps(training: Training) -> Iterator[StepResult]:
    """The steps of a run whose description has been found good: what is wrong from here on is a failure of the run."""
    try:
        yield from steps(training)
    except ValueError as error:
        raise TrainingFailed(f"the run failed after step {training.step} of {training.steps}: {error}") from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made for the run's files: {error.strerror}") from None


def _keep(training: Training, folder: Path) -> None:
    """The tape, and the weights of both read-outs as files that `reprise.nets.load_checkpoint` reads."""
    from safetensors.torch import save

    try:
        training.feed.tape().save(folder / "tape.safetensors")
        for name, net in (("ema", training.readout.net), ("live", training.net)):
            weights = {net.published(key): value.contiguous() for key, value in net.state_dict().items()}
            content = save(weights)
            write_atomic(folder / f"{name}.safetensors", lambda file, content=content: file.write(content))  # type: ignore[misc]
    except OSError as error:
        raise TrainingFailed(f"the results cannot be written to {folder}: {error.strerror}") from error
