"""The record of one run: a small file, written whole or not at all, that knows when it is damaged."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reprise import __version__
from reprise.audit import KEYS, measure
from reprise.lab.audits import AuditRun

Record = dict[str, Any]
FIGURES = (*KEYS, "gap_sd")
_FORMAT = "reprise-record/1"


class Damaged(Exception):
    """A file that is not the record it should be; the message says why."""


def configuration(run: AuditRun) -> dict[str, Any]:
    """All that decides a run's figures but its seed."""
    settings = asdict(run) | {"buffer": run.capacity}
    del settings["seed"]
    return {"kind": "audit", **settings}


def identity(run: AuditRun) -> str:
    """The hash of a run's full configuration and seed, under which its record is kept."""
    return _digest([configuration(run), run.seed])[:24]


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
    return {**record, "checksum": _digest(record)}


def check(record: object, run: AuditRun) -> Record:
    """Return the record if it is whole and of this run; otherwise say what is wrong with it."""
    if not isinstance(record, dict):
        raise Damaged("it is not a JSON object")
    if record.get("format") != _FORMAT:
        raise Damaged(f"its format is {record.get('format')!r}, not {_FORMAT!r}")
    content = {key: value for key, value in record.items() if key != "checksum"}
    if record.get("checksum") != _digest(content):
        raise Damaged("its content does not match its checksum")
    if content["configuration"] != configuration(run) or content["seed"] != run.seed:
        raise Damaged("it is of another run")
    return record


def read(path: Path) -> object:
    """What the JSON file at `path` says, or None if there is no file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"it cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not JSON: {error}") from None


def write(path: Path, value: object) -> None:
    """Write a value as JSON, whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        scratch.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _digest(value: object) -> str:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()
