"""Tiny data sets in the published forms, made on the spot."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

OLD = {ord("C"): ord("U"), ord("B"): ord("T")}  # byte strings as Python 2 wrote them


def published(value: Any) -> bytes:
    """A pickle as the published files are: by Python 2, protocol 2, naming NumPy's modules of that time."""
    new = pickle.dumps(value, protocol=3)
    old = bytearray(new)
    for code, _, place in pickletools.genops(new):
        assert place is not None
        if code.name in ("BINBYTES", "SHORT_BINBYTES"):
            old[place] = OLD[old[place]]
    old[1] = 2
    return bytes(old).replace(b"numpy._core.multiarray\n", b"numpy.core.multiarray\n")


def save(path: Path, seed: int, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> np.ndarray:
    """Save a random image and return its pixels as they are when read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    Image.fromarray(pixels).save(path)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))
