"""Glyphs: the same pixels everywhere, distinct classes, hard for a simple rule."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from reprise.data import DATASETS, channel_statistics, load
from reprise.data.glyphs import CLASSES, MEAN, NAMES, STD, draw_glyphs
from reprise.data.glyphs.drawings import DRAWINGS, glyph_fields
from reprise.streams import label_stream


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


# These hold on every machine and every NumPy. When they change on purpose, glyphs.VERSION goes up.
GOLDEN = {("train", 0): "070485639b08ef02", ("train", 57): "afccbf4ce085f7c0", ("test", 99): "27aa5c0e35298bf0"}


@pytest.mark.parametrize(("split", "label"), GOLDEN)
def test_golden_pixels(split: str, label: int) -> None:
    images = draw_glyphs(split, label, 3)
    assert images.shape == (3, 32, 32, 3)
    assert images.dtype == np.uint8
    assert digest(images) == GOLDEN[split, label]


def test_a_smaller_set_is_the_beginning_of_a_larger_one() -> None:
    # More than one chunk, too: how many are drawn at a time must not show.
    assert (draw_glyphs("train", 3, 200)[:7] == draw_glyphs("train", 3, 7)).all()
    assert (draw_glyphs("train", 3, 200)[128:] == draw_glyphs("train", 3, 300)[128:200]).all()


def test_splits_classes_and_seeds_differ() -> None:
    drawn = [draw_glyphs("train", 3, 5), draw_glyphs("test", 3, 5), draw_glyphs("train", 4, 5)]
    drawn.append(draw_glyphs("train", 3, 5, seed=1))
    assert len({image.tobytes() for images in drawn for image in images}) == 20


def test_drawings_are_distinct() -> None:
    fields = glyph_fields()
    ink = np.exp(-((fields[:, ::4, ::4] / 0.28) ** 2)).reshape(len(fields), -1).astype(np.float64)
    ink /= np.sqrt((ink * ink).sum(1, keepdims=True))
    alike = ink @ ink.T
    np.fill_diagonal(alike, 0)
    assert len(set(DRAWINGS)) == len(DRAWINGS) == CLASSES == 100
    assert alike.max() < 0.8


def test_the_catalogue_says_what_is_drawn() -> None:
    assert DATASETS["glyphs"].classes == CLASSES
    assert DATASETS["glyphs"].per_class == 500


def test_raw_pixels_do_not_tell_the_classes() -> None:
    train = np.stack([draw_glyphs("train", label, 60) for label in range(CLASSES)])
    test = np.stack([draw_glyphs("test", label, 10) for label in range(CLASSES)])
    centres = train.reshape(CLASSES, 60, -1).mean(1, dtype=np.float64)
    points = test.reshape(-1, 3072).astype(np.float64)
    nearest = ((centres**2).sum(1) - 2 * points @ centres.T).argmin(1).reshape(CLASSES, 10)
    right = (nearest == np.arange(CLASSES)[:, None]).mean()
    assert 0.02 < right < 0.25
    mean, std = channel_statistics(train.reshape(-1, 32, 32, 3))
    assert np.abs(np.subtract(mean, MEAN)).max() < 0.005
    assert np.abs(np.subtract(std, STD)).max() < 0.005


def test_load(own_cache: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    test = load("glyphs", split="test", progress=lambda *done: calls.append(done))
    assert test.images.shape == (10_000, 32, 32, 3)
    assert (test.labels == np.repeat(np.arange(100), 100)).all()
    assert (test.images[9_900:9_903] == draw_glyphs("test", 99, 3)).all()
    assert (test.classes, test.mean, test.std) == (NAMES, MEAN, STD)
    assert calls[-1] == (10_000, 10_000)
    assert len(list(own_cache.glob("glyphs-test-*"))) == 2
    calls.clear()
    load("glyphs", split="test", progress=lambda *done: calls.append(done))
    assert calls == []
    with pytest.raises(ValueError, match="has a test split of its own"):
        load("glyphs", holdout=0.1)


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REPRISE_CACHE", str(tmp_path / "file" / "below"))
    assert len(load("glyphs", split="test")) == 10_000


@pytest.mark.slow
def test_all_of_it(own_cache: Path) -> None:
    train = load("glyphs")
    assert digest(train.images) == "ff8f39972cd34d31"
    assert digest(load("glyphs", split="test").images) == "f4815789927e66da"
    mean, std = channel_statistics(train.images)
    assert np.abs(np.subtract(mean, MEAN)).max() < 1e-8
    assert np.abs(np.subtract(std, STD)).max() < 1e-8
    assert (label_stream("glyphs-balanced").labels == train.labels).all()
