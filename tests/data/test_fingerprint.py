"""The fingerprint of a set of images: equal for equal content, however it lies; moved by every bit of it."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.data import ImageSet, from_arrays, imageset

SHAPE = (7, 6, 5, 3)


def some(**changed: Any) -> ImageSet:
    pixels = np.random.default_rng(3).integers(0, 256, SHAPE, dtype=np.uint8)
    one = from_arrays(pixels, [2, 0, 1, 1, 0, 2, 2], classes=("ant", "bee", "cow"))
    return replace(one, **changed)


SET = some()
SAID = SET.fingerprint()


def test_it_is_the_same_on_every_machine() -> None:
    """By the definition, written out: what is kept under a fingerprint must be found by later versions, too."""
    about = json.dumps([list(SHAPE), ["ant", "bee", "cow"], [*SET.mean, *SET.std]])
    content = about.encode() + SET.images.tobytes() + SET.labels.astype("<i8").tobytes()
    assert hashlib.sha256(content).hexdigest() == SAID
    plain = from_arrays(np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3), [0, 1], mean=(0.5,) * 3, std=(0.25,) * 3)
    assert plain.fingerprint() == "71a465d372979ee16908500d75027f3018bccd12a6eeb12634c2704a43beb6b5"


@given(st.integers(0, np.prod(SHAPE) - 1), st.integers(0, 7))
def test_every_bit_of_every_pixel_counts(place: int, bit: int) -> None:
    pixels = SET.images.copy()
    pixels.reshape(-1)[place] ^= 1 << bit
    other = replace(SET, images=pixels)
    assert other.fingerprint() != SAID
    pixels.reshape(-1)[place] ^= 1 << bit  # and it is of what the pixels are now
    assert other.fingerprint() == SAID


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": SET.labels[[1, 0, 2, 3, 4, 5, 6]]},  # swapped labels
        {"images": SET.images[[1, 0, 2, 3, 4, 5, 6]]},
        {"images": SET.images.reshape(7, 5, 6, 3)},
        {"images": SET.images[..., ::-1]},
        {"images": SET.images[:6], "labels": SET.labels[:6]},
        {"classes": ("ant", "bee", "cat")},
        {"classes": ("bee", "ant", "cow")},
        {"classes": ("ant", "bee", "cow", "dog")},
        {"mean": (np.nextafter(SET.mean[0], 1), *SET.mean[1:])},
        {"std": (*SET.std[:2], SET.std[2] / 2)},
        {"mean": SET.std, "std": SET.mean},
    ],
    ids=lambda changed: ", ".join(changed),
)
def test_all_that_is_learned_from_counts(changed: dict[str, Any]) -> None:
    assert some(**changed).fingerprint() != SAID


@pytest.mark.parametrize("part", [1, 90, 200, 8 << 20])
def test_it_does_not_know_where_and_how_the_content_lies(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imageset, "_PART", part)
    np.save(tmp_path / "c.npy", SET.images)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(SET.images))
    wide = np.zeros((14, 6, 10, 3), np.uint8)
    wide[::2, :, ::2] = SET.images
    read_only = SET.images.copy()
    read_only.flags.writeable = False
    equal = [
        *(np.load(tmp_path / f"{name}.npy", mmap_mode=mode) for name in ("c", "fortran") for mode in ("c", "r")),
        np.asfortranarray(SET.images),
        wide[::2, :, ::2],
        SET.images[::-1].copy()[::-1],
        read_only,
    ]
    assert {replace(SET, images=images).fingerprint() for images in equal} == {SAID}
    assert replace(SET, labels=np.repeat(SET.labels, 2)[::2]).fingerprint() == SAID
    assert replace(SET, name="other", split="test").fingerprint() == SAID
    assert replace(SET, mean=tuple(map(np.float64, SET.mean))).fingerprint() == SAID


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_that_is_changed_does_not_keep_it(way: Any) -> None:
    other = way(SET)
    assert other.fingerprint() == SAID
    other.images[0, 0, 0, 0] ^= 1
    assert other.fingerprint() != SAID == SET.fingerprint()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_set_goes_through_memory_some_images_at_a_time(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imageset, "_PART", 1 << 18)
    pixels = np.zeros((4096, 32, 32, 3), np.uint8, order)  # 12 MiB
    one = ImageSet(pixels, np.arange(4096) % 2, ("a", "b"), "large", (0.5,) * 3, (0.5,) * 3)
    tracemalloc.start()
    try:
        one.fingerprint()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
