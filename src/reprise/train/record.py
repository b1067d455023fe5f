"""The record of a training run: all it was, all it found, and apart from these how it was made."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reprise import __version__
from reprise.core.files import Damaged, OtherFormat, Record, read_json, sealed, unsealed, write_json
from reprise.streams import LabelStream
from reprise.tape import Tape
from reprise.train.config import TrainRun
from reprise.train.diagnostics import bias_displacement, telemetry
from reprise.train.errors import TrainingFailed
from reprise.train.metrics import Evaluations, prequential, prequential_by_task, summary
from reprise.train.run import Fingerprints, Run, other_images

FORMAT = "reprise-record/2"


@dataclass(frozen=True)
class RunResult:
    """What a finished run leaves, whoever ran it."""

    config: TrainRun
    data: Fingerprints
    stream: LabelStream
    tape: Tape
    evaluations: dict[str, Evaluations]  # by read-out
    losses: NDArray[np.float32]  # of every step
    hits: NDArray[np.int64]  # incoming examples named before they were learned, by step
    biases: NDArray[np.float32] | None  # of the head before the first step and after each, if it has any
    device: str
    processes: int = 1
    audit: dict[str, Any] | None = None  # of the tape, if it is known already

    @classmethod
    def of(cls, run: Run) -> RunResult:
        """What this run leaves."""
        cuda = run.device.type == "cuda"
        return cls(
            config=run.config,
            data=run.data,
            stream=run.stream,
            tape=run.feed.tape(),
            evaluations=run.evaluations(),
            losses=run.losses.cpu().numpy(),
            hits=run.hits.cpu().numpy(),
            biases=None if run.biases is None else run.biases.cpu().numpy(),
            device=torch.cuda.get_device_name(run.device) if cuda else "CPU",
            processes=run.ranks.world,
        )


def make_record(run: Run | RunResult, timings: dict[str, float]) -> Record:
    """The record of a finished run. All but `provenance` and `timings` is the same whenever the run is repeated."""
    done = RunResult.of(run) if isinstance(run, Run) else run
    stream, one = done.stream, done.evaluations["ema"]
    sizes = np.diff(stream.offsets)
    record: Record = {
        "format": FORMAT,
        "identity": done.config.identity(done.data),
        "configuration": done.config.configuration(),
        "seed": done.config.seed,
        "data": done.data,
        "split": "validation" if done.config.validation else "test",
        "stream": {
            "name": stream.title,
            "steps": len(stream),
            "examples": len(stream.ids),
            "boundaries": stream.boundaries.tolist(),
            "task_of_class": stream.task_of_class.tolist(),
            "counts": stream.counts.tolist(),
        },
        "tape": done.tape.hash,
        "metrics": {name: summary(found) for name, found in done.evaluations.items()},
        "prequential": {
            "accuracy": prequential(done.hits, sizes),
            "by_task": [_plain(value) for value in prequential_by_task(done.hits, sizes, stream.boundaries)],
        },
        "evaluations": {
            "steps": one.steps.tolist(),
            "boundary": one.boundary.tolist(),
            "test_counts": one.counts.tolist(),
            "accuracies": {name: _accuracies(found) for name, found in done.evaluations.items()},
        },
        "audit": telemetry(done.tape) if done.audit is None else done.audit,
        "diagnostics": _diagnostics(done),
        "final_loss": float(done.losses[-1]),
        "provenance": _provenance(done),
        "timings": timings,
    }
    return sealed(record)


def _provenance(done: RunResult) -> dict[str, Any]:
    """How, by what and on what a run was made."""
    return {
        "command": [_program(), *sys.argv[1:]],
        "reprise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "device": done.device,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "processes": done.processes,
    }


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "reprise" if name == "__main__.py" else name


def _accuracies(found: Evaluations) -> list[list[float | None]]:
    return [[_plain(value) for value in row] for row in found.accuracy]


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _diagnostics(done: RunResult) -> dict[str, Any]:
    if done.biases is None:
        return {}
    return {"bias_displacement": bias_displacement(done.tape, done.biases.astype(np.float64)).to_dict()}


def read_record(path: Path, run: TrainRun, data: Callable[[], Fingerprints]) -> Record | None:
    """The record at `path` if it is this run's; None if there is none, an error if it is another's.

    `data` gives the fingerprints of the run's images. It is asked only if all else is as it should be.
    """
    try:
        content = read_json(path)
        if content is None:
            return None
        record = unsealed(content, FORMAT)
    except OtherFormat as other:
        raise ValueError(
            f"the record {path} was written by another version of reprise: {other}; give another --out, or remove it "
            "to make the run again"
        ) from None
    except Damaged as damage:
        raise ValueError(f"the record {path} is damaged: {damage}; remove it to make the run again") from None
    if record["configuration"] != run.configuration() or record["seed"] != run.seed:
        raise ValueError(f"{path} is the record of another run; give another --out")
    if (others := other_images(record["data"], data())) is not None:
        raise ValueError(f"{path} is the record of a run on other images: {others}; give another --out")
    return record


def write_record(path: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
    except OSError as error:
        raise TrainingFailed(f"the record {path} cannot be written: {error.strerror}") from error
