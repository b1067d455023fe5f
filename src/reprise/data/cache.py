"""Decoded images kept on disk: written whole or not at all, and made again when their source has changed.

A kept set is two files: `<key>-<digest>.npy` with the pixels, and the same name ending in `.json`, written last, with
what they were made from. The digest is of that, so two processes at once can only write the same pixels twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reprise.core.files import scratch_name, write_json

from .errors import DataError
from .imageset import Images, Triple, channel_statistics

LARGE = 256 << 20
"""Bytes above which images stay on disk and are memory-mapped."""
FORMAT = 1

Kept = tuple[Images, tuple[Triple, Triple]]


def user_folder() -> Path:
    """Where sets that have no folder of their own are kept: `REPRISE_CACHE`, or this user's cache folder."""
    if named := os.environ.get("REPRISE_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "reprise"


def kept(
    folder: Path, key: str, made_from: dict[str, Any], shape: tuple[int, int, int, int], fill: Callable[[Images], None]
) -> Kept:
    """The images of `shape` that `fill` writes, from disk when they were made from the same before.

    Gives the images, and their mean and standard deviation per channel.
    """
    origin = {"format": FORMAT, "shape": list(shape), **made_from}
    digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:16]
    pixels, note = folder / f"{key}-{digest}.npy", folder / f"{key}-{digest}.json"
    found = _read(pixels, note, origin, shape)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = scratch_name(pixels)
        try:
            # Claims the room on the disk before hours of decoding.
            images: Images = np.lib.format.open_memmap(scratch, "w+", np.uint8, shape)
            fill(images)
            statistics = channel_statistics(images)
            images.flush()  # type: ignore[attr-defined]
            del images
            os.replace(scratch, pixels)
            write_json(note, {"made_from": origin, "mean": statistics[0], "std": statistics[1]})
        finally:
            scratch.unlink(missing_ok=True)
        _forget(folder, key, digest)
    except OSError as error:
        raise DataError(
            f"cannot keep decoded images in {folder}: {error.strerror or error}; "
            f"give cache= a folder that can be written and has {np.prod(shape, dtype=object):,} bytes of room"
        ) from error
    found = _read(pixels, note, origin, shape)
    if found is None:
        raise DataError(f"{pixels} was written but cannot be read back; is the disk in order?")
    return found


def _read(pixels: Path, note: Path, origin: dict[str, Any], shape: tuple[int, ...]) -> Kept | None:
    """What is kept, or None when it is missing, broken off, or made from something else."""
    try:
        said = json.loads(note.read_text())
        mapped = np.lib.format.open_memmap(pixels, mode="c")
        mean, std = tuple(map(float, said["mean"])), tuple(map(float, said["std"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if said.get("made_from") != origin or mapped.shape != shape or mapped.dtype != np.uint8:
        return None
    images: Images = mapped if mapped.nbytes > LARGE else np.array(mapped)
    return images, (mean, std)  # type: ignore[return-value]


def _forget(folder: Path, key: str, digest: str) -> None:
    """Remove what was kept under the same key from an earlier state of the source."""
    for old in folder.glob(f"{key}-{'[0-9a-f]' * 16}.*"):
        if old.suffix in (".npy", ".json") and digest not in old.name:
            try:
                old.unlink()
            except OSError:  # another process may hold it; it costs room and nothing else
                continue
