"""Tiny data sets in the published forms, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.tinysets import published, save

from reprise.core import registry
from reprise.data import DATASETS


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test may touch the user's own cache."""
    monkeypatch.setenv("REPRISE_CACHE", str(tmp_path / "user-cache"))
    return tmp_path / "user-cache"


@pytest.fixture
def cifar100(tmp_path: Path) -> Path:
    """A folder with a CIFAR-100 of three classes, six training and three test images."""
    folder = tmp_path / "data" / "cifar-100-python"
    folder.mkdir(parents=True)
    for split, count in (("train", 6), ("test", 3)):
        pixels = (np.arange(count * 3072) % 251).astype(np.uint8).reshape(count, 3072)
        batch = {b"data": pixels, b"fine_labels": [k % 3 for k in range(count)], b"coarse_labels": [0] * count}
        (folder / split).write_bytes(published(batch))
    (folder / "meta").write_bytes(published({b"fine_label_names": [b"apple", b"bear", b"crab"]}))
    return folder.parent


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes what a data set should be, so that a tiny one is whole."""

    def change(name: str, **fields: Any) -> None:
        entry = registry._REGISTRY["dataset", name]
        changed = replace(entry, value=replace(DATASETS[name], **fields))
        monkeypatch.setitem(registry._REGISTRY, ("dataset", name), changed)

    return change


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A folder of two classes with five images each."""
    for number, name in enumerate(("bee", "ant")):
        for k in range(5):
            save(tmp_path / "pictures" / name / f"{k}.png", 10 * number + k)
    return tmp_path / "pictures"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Tiny-ImageNet's tree with three classes; `wnids.txt` is not in the order of the folders."""
    root = tmp_path / "data" / "tiny-imagenet-200"
    names = ("n03", "n01", "n02")
    for number, name in enumerate(names):
        for k in range(2):
            save(root / "train" / name / "images" / f"{name}_{k}.JPEG", 7 * number + k, (64, 64), "L" if k else "RGB")
    (root / "wnids.txt").write_text("\n".join(names) + "\n")
    rows = [("val_0.JPEG", "n02"), ("val_1.JPEG", "n03")]
    for number, (file, _) in enumerate(rows):
        save(root / "val" / "images" / file, 90 + number, (64, 64))
    (root / "val" / "val_annotations.txt").write_text("".join(f"{a}\t{b}\t0\t0\t9\t9\n" for a, b in rows))
    return root.parent
