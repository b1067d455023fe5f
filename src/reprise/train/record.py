"""The record of a training run: all it was, all it found, and apart from these how it was made."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reprise import __version__
from reprise.files import Damaged, Record, read_json, sealed, unsealed, write_json
from reprise.tape import Tape
from reprise.train.config import TrainRun
from reprise.train.diagnostics import bias_displacement, telemetry
from reprise.train.errors import TrainingFailed
from reprise.train.metrics import Evaluations, prequential, prequential_by_task, summary
from reprise.train.run import Run

FORMAT = "reprise-record/1"


def make_record(run: Run, timings: dict[str, float]) -> Record:
    """The record of a finished run. All but `provenance` and `timings` is the same whenever the run is repeated."""
    tape, evaluations = run.feed.tape(), run.evaluations()
    hits, sizes = run.hits.cpu().numpy(), np.diff(run.stream.offsets)
    one = evaluations["ema"]
    record: Record = {
        "format": FORMAT,
        "identity": run.config.identity,
        "configuration": run.config.configuration(),
        "seed": run.config.seed,
        "split": "validation" if run.config.validation else "test",
        "stream": {
            "name": run.stream.title,
            "steps": run.steps,
            "examples": len(run.stream.ids),
            "boundaries": run.stream.boundaries.tolist(),
            "task_of_class": run.stream.task_of_class.tolist(),
            "counts": run.stream.counts.tolist(),
        },
        "tape": tape.hash,
        "metrics": {name: summary(found) for name, found in evaluations.items()},
        "prequential": {
            "accuracy": prequential(hits, sizes),
            "by_task": [_plain(value) for value in prequential_by_task(hits, sizes, run.stream.boundaries)],
        },
        "evaluations": {
            "steps": one.steps.tolist(),
            "boundary": one.boundary.tolist(),
            "test_counts": one.counts.tolist(),
            "accuracies": {name: _accuracies(found) for name, found in evaluations.items()},
        },
        "audit": telemetry(tape),
        "diagnostics": _diagnostics(run, tape),
        "final_loss": float(run.losses[-1]),
        "provenance": provenance(run),
        "timings": timings,
    }
    return sealed(record)


def provenance(run: Run) -> dict[str, Any]:
    """How, by what and on what a run was made."""
    cuda = run.device.type == "cuda"
    return {
        "command": ["reprise", *sys.argv[1:]],
        "reprise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(run.device) if cuda else f"CPU, {torch.get_num_threads()} threads",
        "processes": run.ranks.world,
    }


def _accuracies(found: Evaluations) -> list[list[float | None]]:
    return [[_plain(value) for value in row] for row in found.accuracy]


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _diagnostics(run: Run, tape: Tape) -> dict[str, Any]:
    if run.biases is None:
        return {}
    return {"bias_displacement": bias_displacement(tape, run.biases.cpu().double().numpy()).to_dict()}


def read_record(path: Path, run: TrainRun) -> Record | None:
    """The record at `path` if it is this run's; None if there is none, an error if it is another's."""
    try:
        content = read_json(path)
        if content is None:
            return None
        record = unsealed(content, FORMAT)
    except Damaged as damage:
        raise ValueError(f"the record {path} is damaged: {damage}; remove it to make the run again") from None
    if record["configuration"] != run.configuration() or record["seed"] != run.seed:
        raise ValueError(f"{path} is the record of another run; give another --out")
    return record


def write_record(path: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
    except OSError as error:
        raise TrainingFailed(f"the record {path} cannot be written: {error.strerror}") from error
