"""Data sets of one's own: a function that loads them, found by name like ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reprise.core import registry
from reprise.core.registry import register
from reprise.data import (
    DATASETS,
    Dataset,
    ImageSet,
    channel_statistics,
    fetch,
    find_dataset,
    from_arrays,
    load,
    present,
)
from reprise.streams import label_stream

ASKED: list[tuple[str, Path | None]] = []


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    register("dataset", "mine")(arrays)
    ASKED.clear()


def arrays(split: str, root: Path | None) -> tuple[Any, Any]:
    ASKED.append((split, root))
    labels = [2, 0, 1, 0, 2, 1] if split == "train" else [1, 0]
    return (np.arange(len(labels) * 6 * 4) % 251).astype(np.uint8).reshape(len(labels), 6, 4), labels


def test_a_function_is_asked_for_a_split_and_told_the_folder(tmp_path: Path) -> None:
    train, test = (load("mine", tmp_path, split) for split in ("train", "test"))
    assert {folder for _, folder in ASKED} == {tmp_path}
    assert np.array_equal(train.images[..., 0], arrays("train", None)[0])
    assert (train.labels.tolist(), test.labels.tolist()) == ([2, 0, 1, 0, 2, 1], [1, 0])
    assert (train.name, train.split, test.name, test.split) == ("mine", "train", "mine", "test")
    assert (train.mean, train.std) == (test.mean, test.std) == channel_statistics(train.images)
    assert train.classes == test.classes == ("0", "1", "2")  # though no test image is of the last
    assert load("mine").fingerprint() == train.fingerprint()


def test_a_set_that_says_its_own_constants_is_taken_as_it_is() -> None:
    pixels, labels = arrays("train", None)
    given = from_arrays(pixels, labels, classes=["a", "b", "c"], name="other", mean=(0, 0, 0), std=(1, 1, 1))
    register("dataset", "own")(lambda split, root: given)
    found = load("own", split="test")
    assert isinstance(found, ImageSet)
    assert (found.name, found.split, found.classes, found.mean) == ("own", "test", ("a", "b", "c"), (0, 0, 0))


def test_it_is_resized_like_any_other(own_cache: Path, tmp_path: Path) -> None:
    assert load("mine", size=6).images.shape == (6, 6, 6, 3)  # 6×4 pixels before
    assert list(own_cache.glob("mine-train-6-*.npy"))
    load("mine", tmp_path, size=8)
    assert list((tmp_path / ".reprise").glob("mine-train-8-*.npy"))


@pytest.mark.parametrize("given", [None, np.zeros((3, 4, 4), np.uint8), (1, 2, 3)], ids=["none", "array", "three"])
def test_what_it_gives_must_be_images_and_labels(given: Any) -> None:
    register("dataset", "odd")(lambda split, root: given)
    with pytest.raises(TypeError, match="'odd' must give an ImageSet, or images and labels, got"):
        load("odd")


def test_it_is_in_the_catalogue_with_what_is_known_of_it() -> None:
    assert list(DATASETS)[-1] == "mine"
    assert find_dataset("mine") == Dataset("mine", load=arrays)
    assert present(find_dataset("mine"), "nowhere")
    with pytest.raises(ValueError, match="mine needs no archive: there is nothing to fetch"):
        fetch("mine", "nowhere")
    with pytest.raises(ValueError, match=r"unknown data set 'mina': did you mean 'mine'\?"):
        load("mina")
    register("dataset", "seven")(7)
    with pytest.raises(TypeError, match="data set 'seven' must be a function that loads it or a Dataset, got 7"):
        find_dataset("seven")


def test_streams_of_its_labels_need_them_or_its_sizes() -> None:
    labels = np.arange(60) % 6
    assert label_stream("mine-lt10", labels=labels, tasks=2).name == "mine-lt10"
    with pytest.raises(ValueError, match="come with its images: register its sizes with it"):
        label_stream("mine-lt10")
    register("dataset", "sized")(Dataset("other name", classes=6, train=60, load=arrays))
    assert label_stream("sized-balanced", tasks=2).counts.tolist() == [10] * 6
    assert find_dataset("sized").name == "sized"
