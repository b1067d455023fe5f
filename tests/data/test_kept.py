"""Kept pixels go with the files they were made from, whatever happens to these."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reprise.data import load

OLDEST, NEWEST = 10**18, 10**18 + 10**9


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """Two classes of three files each, all of one length; every pixel of an image says which it is."""
    folder = tmp_path / "flat"
    for number, name in enumerate(("a", "b")):
        (folder / name).mkdir(parents=True)
        for k in range(3):
            put(folder / name / f"{k}.ppm", 10 * number + k, OLDEST)
    os.utime(folder / "b" / "2.ppm", ns=(NEWEST, NEWEST))
    return folder


def put(path: Path, value: int, when: int) -> None:
    Image.new("RGB", (4, 4), (value, value, value)).save(path)
    os.utime(path, ns=(when, when))


def seen(folder: Path) -> dict[int, int]:
    """The label of each image by what its pixels say."""
    found = load(folder)
    assert (found.images == found.images[:, :1, :1, :1]).all()
    return dict(zip(found.images[:, 0, 0, 0].tolist(), found.labels.tolist(), strict=True))


def swap(one: Path, other: Path) -> None:
    between = one.with_suffix(".swap")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def swap_classes(folder: Path) -> None:
    swap(folder / "a" / "0.ppm", folder / "b" / "0.ppm")


def swap_older(folder: Path) -> None:
    os.utime(folder / "b" / "1.ppm", ns=(OLDEST + 5, OLDEST + 5))
    seen(folder)
    swap(folder / "a" / "0.ppm", folder / "b" / "1.ppm")


def swap_newest(folder: Path) -> None:
    swap(folder / "a" / "1.ppm", folder / "b" / "2.ppm")


def copy_across(folder: Path) -> None:
    """As `cp -p` does: the contents are swapped in place, and their times go with them."""
    one, other = folder / "a" / "0.ppm", folder / "b" / "0.ppm"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    for path in (one, other):
        os.utime(path, ns=(OLDEST, OLDEST))


def rename(folder: Path) -> None:
    (folder / "a" / "0.ppm").rename(folder / "a" / "9.ppm")


def replace(folder: Path) -> None:
    put(folder / "a" / "0.ppm", 99, OLDEST + 7)  # neither the newest nor of another length


def rename_class(folder: Path) -> None:
    (folder / "a").rename(folder / "c")


EXPECTED = {0: 0, 1: 0, 2: 0, 10: 1, 11: 1, 12: 1}
CHANGES: list[tuple[Callable[[Path], None], dict[int, int]]] = [
    (swap_classes, {**EXPECTED, 0: 1, 10: 0}),
    (swap_older, {**EXPECTED, 0: 1, 11: 0}),
    (swap_newest, {**EXPECTED, 1: 1, 12: 0}),
    (copy_across, {**EXPECTED, 0: 1, 10: 0}),
    (rename, EXPECTED),
    (rename_class, {value: 1 - label for value, label in EXPECTED.items()}),
    (replace, {**{value: label for value, label in EXPECTED.items() if value}, 99: 0}),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_labels_and_pixels_stay_together(change: Callable[[Path], None], expected: dict[int, int], flat: Path) -> None:
    assert seen(flat) == EXPECTED
    time.sleep(0.02)  # the clock of a file system may tick every ten milliseconds
    change(flat)
    assert seen(flat) == expected
    assert len(list((flat / ".reprise").iterdir())) == 2  # what was kept before is gone


def test_a_set_kept_in_the_old_form_is_made_again(flat: Path) -> None:
    """As the first versions wrote it: sizes added up, and the newest time."""
    files = sorted(flat.rglob("*.ppm"))
    names = "".join(f"{file.relative_to(flat)}\0" for file in files)
    made_from = {
        "format": 1,
        "shape": [6, 4, 4, 3],
        "size": 0,
        "files": 6,
        "bytes": sum(file.stat().st_size for file in files),
        "newest": NEWEST,
        "names": hashlib.sha256(names.encode()).hexdigest()[:16],
    }
    digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    kept = flat / ".reprise" / f"flat-train-own-{digest}"
    kept.parent.mkdir()
    np.save(kept.with_suffix(".npy"), np.zeros((6, 4, 4, 3), np.uint8))
    kept.with_suffix(".json").write_text(json.dumps({"made_from": made_from, "mean": [0.0] * 3, "std": [0.0] * 3}))
    assert seen(flat) == EXPECTED
    assert not kept.with_suffix(".npy").exists()


def test_the_way_to_the_folder_does_not_matter(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.chdir(flat.parent)
    for way in (flat, "flat/", "./flat", flat.parent / "." / "flat"):
        load(way, progress=lambda done, _: calls.append(done))
    assert calls == [6]
