"""What the host prepares for a run before a lane takes it: stream, tape, audit and crops."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.streams import LabelStream
from reprise.tape import Tape, plan
from reprise.train.augment import plan_augmentation
from reprise.train.config import TrainRun
from reprise.train.diagnostics import telemetry
from reprise.train.run import make_stream

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Planned:
    """A run that a lane can play: every step a row of places, the incoming batch first, then each replay batch."""

    config: TrainRun
    stream: LabelStream
    tape: Tape
    audit: dict[str, Any]
    ids: NDArray[np.int32]  # steps × places; a place that is not real repeats the first of its batch
    counts: NDArray[np.int32]  # steps × batches: places that are real
    crops: NDArray[np.int8]  # steps × places × 3
    seconds: float  # that planning took


def make_plan(config: TrainRun, labels: Ids) -> Planned:
    """Plan a run over a data set's labels."""
    began = time.perf_counter()
    stream = make_stream(config, labels)
    size = config.replay if config.draws else 0
    tape = plan(stream, config.memory(), size)
    steps, draws = tape.replay.shape[:2]
    batches = [_filled(tape.incoming, config.batch)]
    batches += [_filled(tape.replay[:, draw], size) for draw in range(draws if size else 0)]
    counts = [np.count_nonzero(tape.incoming >= 0, axis=1)]
    counts += [np.count_nonzero(tape.replay[:, draw] >= 0, axis=1) for draw in range(draws if size else 0)]
    kind = str(config.augment)
    # The very plans that the plain loop makes: a batch shorter than its places leaves the rest of its row unused.
    arriving = plan_augmentation(config.seed, "augmentation", tape.incoming.shape, kind)
    crops = np.zeros((steps, config.batch, 3), np.int8)
    crops[:, : arriving.shape[1]] = arriving
    returning = plan_augmentation(config.seed, "augmentation of replay", tape.replay.shape, kind)
    return Planned(
        config,
        stream,
        tape,
        telemetry(tape),
        np.concatenate(batches, 1).astype(np.int32),
        np.stack(counts, 1).astype(np.int32),
        np.concatenate([crops, returning.reshape(steps, -1, 3)], 1),
        time.perf_counter() - began,
    )


def _filled(rows: Ids, width: int) -> Ids:
    """Rows of this width, each filled up with its first id; a row without any, with id 0."""
    filled = np.zeros((len(rows), width), np.int64)
    filled[:, : rows.shape[1]] = rows
    first = np.maximum(rows[:, :1], 0) if rows.shape[1] else np.zeros((len(rows), 1), np.int64)
    beyond = np.ones(filled.shape, bool)
    beyond[:, : rows.shape[1]] = rows < 0
    return np.where(beyond, first, filled)
