"""Checkpoints: a run as it stands between two steps, written whole, the last two kept.

A checkpoint is a folder `step-<number>` with `state.safetensors`, all tensors, and `state.json`, all else with the
names of the tensors in their places, the run's description, the fingerprints of its images, and the checksum of the
first file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reprise.core.files import Damaged, OtherFormat, Record, read_json, sealed, sync_folder, unsealed
from reprise.runs.errors import TrainingFailed
from reprise.runs.images import other_images
from reprise.train.machine import differences, rounding
from reprise.train.state import Training

KEPT = 2
FORMAT = "reprise-checkpoint/3"
_TENSOR, _ARRAY, _ITEMS = "$tensor", "$array", "$items"


def save(run: Training, folder: Path) -> Path:
    """Write a checkpoint of the run into `folder`; older ones go once it is there."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    state = _pack(run.state_dict(), "", tensors)
    target = folder / f"step-{run.step:08d}"
    scratch = folder / f".{target.name}.{os.getpid()}.part"
    try:
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            save_file(tensors, scratch / "state.safetensors")
            record = {
                "format": FORMAT,
                "run": run.run.to_dict(),
                "data": run.data,
                "step": run.step,
                "rounding": rounding(run.device),
                "tensors": _checksum(scratch / "state.safetensors"),
                "state": state,
            }
            (scratch / "state.json").write_text(json.dumps(sealed(record)), encoding="utf-8")
            _to_disk(scratch)
            shutil.rmtree(target, ignore_errors=True)
            os.replace(scratch, target)
            sync_folder(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        older = [path for path in sorted(found(folder)) if path <= target]
        for path in set(found(folder)) - set(older[-KEPT:]):  # a later one is damaged, or this run would be further on
            shutil.rmtree(path, ignore_errors=True)
    except Exception as error:  # safetensors has errors of its own for a disk that is full
        why = getattr(error, "strerror", None) or str(error)
        left = max(found(folder), default=None)
        kept = f"the last good one is {left}" if left else "there is none before it"
        raise TrainingFailed(
            f"the checkpoint of step {run.step} cannot be written to {folder}: {why}; {kept}"
        ) from error
    return target


def found(folder: Path) -> Iterator[Path]:
    """The checkpoints in a folder, in no order."""
    return (path for path in _named(folder) if path.is_dir())


def _named(folder: Path) -> Iterator[Path]:
    return folder.glob("step-" + "[0-9]" * 8)


def check(folder: Path) -> None:
    """Refuse a folder in which a file has a checkpoint's name: it would be in the way of one."""
    for path in _named(folder):
        if not path.is_dir():
            raise ValueError(f"{path} is a file, and checkpoints, which have such names, are folders: move it away")


def sweep(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote."""
    for scratch in folder.glob(".step-*.part"):
        shutil.rmtree(scratch, ignore_errors=True)


def load(run: Training, folder: Path, warn: Callable[[str], None] | None = None) -> bool:
    """Go on from the newest checkpoint that is whole; false if there is none. One of another run is an error."""
    paths = sorted(found(folder))
    while paths:
        path = paths.pop()
        try:
            record, state = _read(path, run)
        except OtherFormat as other:
            raise ValueError(
                f"the checkpoint {path} was written by another version of reprise: {other}; go on with that version, "
                f"or remove {folder} to begin again"
            ) from None
        except Damaged as damage:
            if warn is not None:
                then = "The one before it is tried" if paths else "No whole one is left, so the run begins again"
                warn(f"The checkpoint {path} is damaged: {damage}. {then}.")
            continue
        try:
            run.load_state_dict(state)
        except (ValueError, RuntimeError, KeyError) as error:
            raise ValueError(f"the checkpoint {path} does not fit: {error}") from error
        changed = differences(record.get("rounding", {}), rounding(run.device))
        if changed and warn is not None:
            warn(
                f"The checkpoint {path} was made under other conditions ({changed}): the last digits of the record may "
                "differ from those of a run that was not stopped."
            )
        return True
    return False


def _read(path: Path, run: Training) -> tuple[Record, dict[str, Any]]:
    """What is written about a checkpoint, and the state that it holds."""
    import safetensors.torch

    record = unsealed(read_json(path / "state.json"), FORMAT)
    mine, theirs = _side_by_side(run.run.to_dict()), _side_by_side(record["run"])
    for name in {**theirs, **mine}:
        if theirs.get(name) != mine.get(name):
            raise ValueError(
                f"the checkpoint {path} is of another run: its {name} is {theirs.get(name)!r}, this run's is "
                f"{mine.get(name)!r}; give another folder, or the same settings"
            )
    if (others := other_images(record["data"], run.data)) is not None:
        raise ValueError(
            f"the checkpoint {path} is of a run on other images: {others}; give another folder, or the same images"
        )
    try:
        # Read, not mapped: a run must not go on living in a file that is about to be removed.
        content = (path / "state.safetensors").read_bytes()
        if hashlib.sha256(content).hexdigest() != record["tensors"]:
            raise Damaged("its tensors do not match their checksum")
        tensors = safetensors.torch.load(content)
    except (OSError, safetensors.SafetensorError) as error:
        raise Damaged(f"its tensors cannot be read: {error}") from None
    return record, _unpack(record["state"], tensors)


def _side_by_side(description: Record) -> Record:
    """The settings of a run, each under its section and name."""
    return {
        f"{section}.{name}" if isinstance(values, dict) else section: value
        for section, values in description.items()
        for name, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The value with every tensor and array taken out into `tensors`, and its name left in its place."""
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.array(value))
        return {_ARRAY: name}
    if isinstance(value, Tensor):  # nothing may be shared or strided: so the format demands
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {_TENSOR: name}
    if isinstance(value, dict):
        items = [[key, _pack(one, f"{name}/{key}" if name else str(key), tensors)] for key, one in value.items()]
        return {_ITEMS: items}  # keys need not be strings
    if isinstance(value, (list, tuple)):
        return [_pack(one, f"{name}/{place}", tensors) for place, one in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(one, tensors) for one in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    if _ARRAY in value:
        return tensors[value[_ARRAY]].numpy()
    return {_key(key): _unpack(one, tensors) for key, one in value[_ITEMS]}


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _by_parts(file)


def _by_parts(file: Any) -> str:
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


def _to_disk(folder: Path) -> None:
    """Make sure that what was written has reached the disk, so that the name appears after the content."""
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
