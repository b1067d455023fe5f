"""Records of runs that nobody made, with all that pages, tables and comparisons read of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from reprise.audit import Audit, measure
from reprise.core.files import Record, digest
from reprise.core.record_file import seal
from reprise.lab.run_group import METRICS
from reprise.memory import Memory
from reprise.runs.record import FORMAT
from reprise.streams.still import StillStream
from reprise.tape import plan

CLASSES, STEPS = 20, 120
PROVENANCE = {
    "command": ["reprise", "train"],
    "reprise": "0.1.0",
    "python": "3.12.1",
    "numpy": "2.4.6",
    "torch": "2.13.0+cpu",
    "machine": "Linux x86_64",
    "device": "CPU",
    "instructions": "AVX2",
    "threads": 1,
    "processes": 1,
}
RUN: dict[str, Any] = {
    "data": {"name": "glyphs", "size": None, "validation": False},
    "stream": {"imbalance": 1.0, "batch": 10, "tasks": 2},
    "memory": {"storage": "reservoir", "retrieval": "rpr", "buffer": 500, "replay": 4},
    "learner": {"name": "er-ace", "hyper": {"alpha": 0.3}},
    "network": {"name": "resnet18", "width": 8},
    "descent": {"optimizer": "sgd", "lr": 0.03, "precision": "fp32"},
}


@cache
def planned(retrieval: str, seed: int) -> tuple[str, Audit]:
    """The hash and the audit of a small replay sequence."""
    memory = Memory(CLASSES * 10, "reservoir", retrieval, seed)
    memory.store(np.arange(CLASSES * 10) % CLASSES)
    tape = plan(StillStream(STEPS), memory, RUN["memory"]["replay"])
    return tape.hash, measure(tape)


def run_of(retrieval: str = "rpr", seed: int = 0, **changes: Any) -> dict[str, Any]:
    """A description; `changes` are by whole names with two underscores, as `memory__buffer=100`."""
    run = {"seed": seed, **{name: dict(values) for name, values in RUN.items()}}
    run["memory"]["retrieval"] = retrieval
    for name, value in changes.items():
        section, _, setting = name.partition("__")
        run[section][setting] = value
    return run


def audit_record(retrieval: str = "rpr", seed: int = 0, **more: Any) -> Record:
    """The record of an audit; `more` replaces its parts."""
    run = {name: values for name, values in run_of(retrieval, seed).items() if name in ("seed", "stream", "memory")}
    made = {key: value for key, value in PROVENANCE.items() if key in ("command", "reprise", "python", "numpy")}
    return _record(run, {"name": f"glyphs, {retrieval}, seed {seed}", "split": None, "provenance": made, **more})


def record(
    retrieval: str = "rpr", seed: int = 0, final: float | None = 0.3, run: dict[str, Any] | None = None, **more: Any
) -> Record:
    """The record of a run of two tasks with two classes each; `more` replaces its parts."""
    rows = [[0.5, 0.1, None, None], [0.2, 0.4, 1.0, 0.5]]
    values = dict.fromkeys(METRICS, 0.2) | {"final": final, "worst_case": final, "backward_transfer": -0.1}
    half = {name: None if value is None else value / 2 for name, value in values.items()}
    found = {
        "name": f"er-ace on glyphs, reservoir 500, {retrieval} 4, seed {seed}",
        "split": "test",
        "metrics": {"ema": values, "live": half},
        "prequential": {"accuracy": 0.25, "by_task": [0.2, 0.3]},
        "evaluations": {
            "steps": [60, 120],
            "boundary": [True, True],
            "test_counts": [10, 30, 20, 20],
            "accuracies": {"ema": rows, "live": rows},
        },
        "curves": {"steps": [40, 80, 120], "loss": [3.0, 2.0 + 0.1 * seed, 1.5], "accuracy": [0.1, 0.2, 0.3]},
        "diagnostics": {},
        "final_loss": 1.5,
        "provenance": PROVENANCE,
    }
    return _record(run or run_of(retrieval, seed), {**found, **more})


def _record(run: dict[str, Any], more: dict[str, Any]) -> Record:
    tape, audit = planned(run["memory"]["retrieval"], run["seed"])
    lengths, counts = np.unique(audit.gaps, return_counts=True)
    data = more.get("data", {"train": "1a" * 16, "test": "2b" * 16})
    figures = {
        **audit.to_dict(),
        "gap_sd": float(np.std(audit.gaps)),
        "class_max": audit.class_max,
        "distinct_per_batch": audit.distinct_per_batch,
        "occupancy_spread": audit.occupancy_spread,
    }
    return seal(
        {
            "format": FORMAT,
            "identity": digest([run, data])[:24],
            "run": run,
            "data": data,
            "stream": {
                "name": "<glyphs> (batch=10)",
                "steps": STEPS,
                "examples": 6000,
                "boundaries": [60, 120],
                "task_of_class": [0, 0, 1, 1],
                "counts": [5, 5, 5, 5],
            },
            "tape": tape,
            "audit": figures,
            "gaps": {"steps": lengths.tolist(), "count": counts.tolist()},
            "pairs": {"classes": CLASSES, "per_cell": 1, "cells": []},
            "timings": {"prepare": 0.5, "train": 12.0, "steps": STEPS},
            **more,
        }
    )
