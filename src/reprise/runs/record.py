"""The record of a run: all it was, all it found, and apart from these how it was made. Audits and training share it."""

from __future__ import annotations

import platform
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise import __version__
from reprise.core.files import Record
from reprise.core.plugins import loaded_modules
from reprise.core.record_file import checked, seal
from reprise.runs.diagnostics import bias_displacement
from reprise.runs.metrics import Evaluations, prequential, prequential_by_task, summary
from reprise.runs.result import RunResult, Trained
from reprise.streams import LabelStream, StillStream

FORMAT = "reprise-record/4"
EARLIER = ("reprise-record/3",)
"""Formats that are read as well: they differ in how the file is laid out and its checksum is made."""
BULKY = ("curves", "evaluations", "pairs")
"""Parts of a record that tables of figures do not need, and that make up most of it."""
MOST_POINTS = 200
"""Points of a record's curves along the stream; each is the mean of the steps since the one before."""


def make_record(result: RunResult) -> Record:
    """The record of a run that has ended. All but `provenance` and `timings` is the same whenever it is repeated."""
    run, stream = result.run, result.plan.stream
    validation = run.data is not None and run.data.validation
    record: Record = {
        "format": FORMAT,
        "identity": run.identity(result.data),
        "name": run.name,
        "run": run.to_dict(),
        "data": result.data,
        "split": None if result.trained is None else "validation" if validation else "test",
        "stream": _stream(stream, run.stream_name),
        **result.summary,
    }
    if result.trained is not None:
        assert isinstance(stream, LabelStream)
        record |= _trained(result.trained, result, stream)
    record["provenance"] = {
        "command": [program(), *sys.argv[1:]],
        "reprise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        **({} if result.trained is None else result.trained.made_by),
        **({"modules": [Path(name).name for name in loaded_modules()]} if loaded_modules() else {}),
        "ended": now("milliseconds"),
    }
    record["timings"] = result.timings
    return seal(record)


def check_record(content: object) -> Record:
    """The record, if it is whole and of this format; otherwise say what is wrong with it."""
    return checked(content, FORMAT, *EARLIER)


def _stream(stream: LabelStream | StillStream, name: str) -> dict[str, Any]:
    if isinstance(stream, StillStream):
        return {"name": name, "steps": len(stream), "examples": 0, "boundaries": stream.boundaries.tolist()}
    return {
        "name": stream.title,
        "steps": len(stream),
        "examples": len(stream.ids),
        "boundaries": stream.boundaries.tolist(),
        "task_of_class": stream.task_of_class.tolist(),
        "counts": stream.counts.tolist(),
    }


def _trained(trained: Trained, result: RunResult, stream: LabelStream) -> dict[str, Any]:
    one, sizes = next(iter(trained.evaluations.values())), np.diff(stream.offsets)
    by_task = prequential_by_task(trained.hits, sizes, stream.boundaries)
    biases = trained.biases
    return {
        "metrics": {name: summary(found) for name, found in trained.evaluations.items()},
        "prequential": {
            "accuracy": prequential(trained.hits, sizes),
            "by_task": [_plain(value) for value in by_task],
        },
        "evaluations": {
            "steps": one.steps.tolist(),
            "boundary": one.boundary.tolist(),
            "test_counts": one.counts.tolist(),
            "accuracies": {name: _accuracies(found) for name, found in trained.evaluations.items()},
        },
        "curves": curves(trained.losses, trained.hits, sizes),
        "diagnostics": {}
        if biases is None
        else {"bias_displacement": bias_displacement(result.tape, biases.astype(np.float64)).to_dict()},
        "final_loss": float(trained.losses[-1]),
    }


def curves(losses: NDArray[Any], hits: NDArray[np.int64], sizes: NDArray[np.int64]) -> dict[str, list[Any]]:
    """Loss and online accuracy along the stream, thinned: windows of equal length, and the step that ends each.

    >>> curves(np.array([4.0, 2.0]), np.array([1, 3]), np.array([4, 4]))
    {'steps': [1, 2], 'loss': [4.0, 2.0], 'accuracy': [0.25, 0.75]}
    """
    count = len(losses)
    ends = np.unique(np.linspace(0, count, min(count, MOST_POINTS) + 1).round().astype(np.int64))
    starts = ends[:-1]
    loss = np.add.reduceat(np.asarray(losses, np.float64), starts) / np.diff(ends)
    share = np.add.reduceat(hits, starts) / np.add.reduceat(sizes, starts)
    return {"steps": ends[1:].tolist(), "loss": loss.tolist(), "accuracy": share.tolist()}


def now(timespec: str = "seconds") -> str:
    """The time in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec=timespec)


def program() -> str:
    """The name of the program that this process runs."""
    name = Path(sys.argv[0]).name
    return "reprise" if name == "__main__.py" else name


def _accuracies(found: Evaluations) -> list[list[float | None]]:
    return [[_plain(value) for value in row] for row in found.accuracy]


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
