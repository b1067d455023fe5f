"""A command that trains on a handful of pictures, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from data.tinysets import save

from reprise.core.files import Record
from reprise.runs import Store

APART = ("provenance", "timings", "checksum")


def make_pictures(root: Path) -> Path:
    """A folder with a train and a test part, four classes, six images of 16×16 each."""
    for number, (part, name) in enumerate((part, name) for part in ("train", "test") for name in "abcd"):
        for k in range(6):
            save(root / part / name / f"{k}.png", 10 * number + k, (16, 16))
    return root


def command(pictures: Path, *more: str) -> list[str]:
    """Six steps of a tiny network."""
    line = f"train --width 2 --tasks 2 --batch 4 --replay 2 --buffer 8 --dataset {pictures}"
    return [*line.split(), *more]


def kept(folder: Path, *, everything: bool = False) -> Record:
    """The one record of a store; without when, where and how it was made, unless asked for."""
    (content,) = Store(folder).records(pytest.fail)
    return {key: value for key, value in content.items() if everything or key not in APART}
