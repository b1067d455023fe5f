"""The record of a label-only run: a small file, written whole or not at all, that knows when it is damaged."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from reprise import __version__
from reprise.audit import KEYS, measure
from reprise.core.files import Damaged, Record, digest, sealed, unsealed
from reprise.lab.audits import AuditRun

__all__ = ["FIGURES", "Damaged", "Record", "check", "configuration", "execute", "identity"]

FIGURES = (*KEYS, "gap_sd")
_FORMAT = "reprise-record/1"


def configuration(run: AuditRun) -> dict[str, Any]:
    """All that decides a run's figures but its seed."""
    settings = asdict(run) | {"buffer": run.capacity}
    del settings["seed"]
    return {"kind": "audit", **settings}


def identity(run: AuditRun) -> str:
    """The hash of a run's full configuration and seed, under which its record is kept."""
    return digest([configuration(run), run.seed])[:24]


def execute(run: AuditRun) -> Record:
    """Make the run and its record."""
    start = time.perf_counter()
    tape = run.tape()
    audit = measure(tape)
    record: Record = {
        "format": _FORMAT,
        "identity": identity(run),
        "configuration": configuration(run),
        "seed": run.seed,
        "tape": tape.hash,
        "audit": {**audit.to_dict(), "gap_sd": float(np.std(audit.gaps)) if len(audit.gaps) else None},
        "provenance": {
            "reprise": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": f"{platform.system()} {platform.machine()}",
        },
        "timings": {"seconds": round(time.perf_counter() - start, 4)},
    }
    return sealed(record)


def check(record: object, run: AuditRun) -> Record:
    """Return the record if it is whole and of this run; otherwise say what is wrong with it."""
    whole = unsealed(record, _FORMAT)
    if whole["configuration"] != configuration(run) or whole["seed"] != run.seed:
        raise Damaged("it is of another run")
    return whole
