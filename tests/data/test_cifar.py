"""CIFAR as published: what is read, and what is refused."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data.tinysets import published, save

from reprise.data import DataError, check, load


def test_pixels_labels_and_names(cifar100: Path) -> None:
    found = load("cifar100", cifar100)
    assert found.images.shape == (6, 32, 32, 3)
    assert found.images.dtype == np.uint8
    flat = (np.arange(6 * 3072) % 251).reshape(6, 3, 32, 32)
    assert (found.images == flat.transpose(0, 2, 3, 1)).all()
    assert found.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert found.labels.dtype == np.int64
    assert found.classes == ("apple", "bear", "crab")
    assert (found.name, found.split) == ("cifar100", "train")
    assert found.mean == (0.50707516, 0.48654887, 0.44091784)
    assert len(load("cifar100", cifar100, "test")) == 3
    assert len(load("cifar100", cifar100 / "cifar-100-python")) == 6  # its own folder is as good


def test_cifar10_joins_its_batches(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(1, 6):
        batch = {b"data": np.full((2, 3072), number, np.uint8), b"labels": [0, 1]}
        (folder / f"data_batch_{number}").write_bytes(published(batch))
    (folder / "batches.meta").write_bytes(published({b"label_names": [b"aeroplane", b"car"]}))
    found = load("cifar10", tmp_path)
    assert found.images[:, 0, 0, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    with pytest.raises(
        DataError, match=r"test_batch is missing; remove the folder .*, then run `reprise data fetch cifar10"
    ):
        load("cifar10", tmp_path, "test")


def test_newer_pickles_are_read(cifar100: Path) -> None:
    pixels = np.zeros((2, 3072), np.uint8)
    batch = pickle.dumps({"data": pixels, "fine_labels": [0, 2]}, protocol=4)
    (cifar100 / "cifar-100-python" / "test").write_bytes(batch)
    assert load("cifar100", cifar100, "test").labels.tolist() == [0, 2]


class Nasty:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize("value", [Nasty(), {b"data": Nasty()}, [len]])
def test_a_pickle_that_calls_something_is_refused(
    cifar100: Path, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (cifar100 / "cifar-100-python" / "train").write_bytes(pickle.dumps(value, protocol=3))
    with pytest.raises(DataError, match=r"train is damaged: it asks for (posix|nt)\.mkdir|asks for \w+\.len") as told:
        load("cifar100", cifar100)
    assert "eb9058c3a382ffc7106e4002c42a8d85" in str(told.value)
    assert not (tmp_path / "pwned").exists()


def test_other_arrays_are_refused(cifar100: Path) -> None:
    batch = {b"data": np.zeros((1, 3072), np.float64), b"fine_labels": [0]}
    (cifar100 / "cifar-100-python" / "train").write_bytes(published(batch))
    with pytest.raises(DataError, match="something else than bytes"):
        load("cifar100", cifar100)


class Bare:
    """Pickled as an array whose state is never set."""

    def __reduce__(self) -> tuple[object, ...]:
        return PIXELS.__reduce__()[:2]


PIXELS, NEVER_BUILT = np.zeros((2, 3072), np.uint8), Bare()


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({b"data": PIXELS, b"fine_labels": [0]}, "it has 2 images but 1 labels"),
        ({b"data": PIXELS, b"fine_labels": [0, 3]}, "its labels are not all whole numbers from 0 to 2"),
        ({b"data": PIXELS[:, :9], b"fine_labels": [0, 1]}, r"its images have shape \(2, 9\) instead of N×3072"),
        ({b"data": PIXELS}, "it has no entry 'fine_labels'"),
        ([1, 2], "it does not hold a dictionary"),
        ({b"data": NEVER_BUILT, b"fine_labels": [0, 1]}, "its entry 'data' is not an array of pixels"),
        ({b"data": 5, b"fine_labels": [0, 1]}, "its entry 'data' is not an array of pixels"),
        ({b"data": [PIXELS], b"fine_labels": [0, 1]}, "its entry 'data' is not an array of pixels"),
        ({b"data": PIXELS[:0], b"fine_labels": []}, r"its images have shape \(0, 3072\) instead of N×3072"),
        ({b"data": PIXELS, b"fine_labels": 5}, "it has 2 images but no labels"),
        ({b"data": PIXELS, b"fine_labels": [0, b"1"]}, "its labels are not all whole numbers from 0 to 2"),
        ({(b"data",): PIXELS, b"fine_labels": [0, 1]}, "it has no entry 'data'"),
        ({5: PIXELS, b"fine_labels": [0, 1]}, "it has no entry 'data'"),
    ],
)
def test_wrong_contents_are_named(cifar100: Path, batch: object, said: str) -> None:
    (cifar100 / "cifar-100-python" / "train").write_bytes(published(batch))
    with pytest.raises(
        DataError, match=rf"cifar-100-python.train is damaged: {said}; remove the folder .*cifar-100-python, then run"
    ):
        load("cifar100", cifar100)


@pytest.mark.parametrize(
    "names", [5, b"abc", {b"apple": 1}, [], [b"apple"], [b"apple", 5], None, [NEVER_BUILT, NEVER_BUILT]]
)
def test_wrong_names_are_named(cifar100: Path, names: object) -> None:
    (cifar100 / "cifar-100-python" / "meta").write_bytes(published({b"fine_label_names": names}))
    said = r"meta is damaged: its entry 'fine_label_names' is not a list of two class names or more; remove the folder"
    with pytest.raises(DataError, match=said):
        load("cifar100", cifar100)


def test_a_pickle_cannot_change_its_reader(cifar100: Path) -> None:
    for name in (b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\ndtype\n", b"cnumpy\nndarray\n"):
        (cifar100 / "cifar-100-python" / "test").write_bytes(b"\x80\x02" + name + b"}X\x04\0\0\0codeK\x01sb.")
        with pytest.raises(DataError, match="test is damaged: it breaks off or holds nonsense"):
            load("cifar100", cifar100, "test")
    assert len(load("cifar100", cifar100)) == 6


def test_a_truncated_file_is_named(cifar100: Path) -> None:
    path = cifar100 / "cifar-100-python" / "train"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match="train is damaged: "):
        load("cifar100", cifar100)


def test_missing_sets_say_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"put cifar-100-python.tar.gz from https://.*\(MD5 eb9058c3") as told:
        load("cifar100", tmp_path)
    assert str(tmp_path) in str(told.value)
    with pytest.raises(ValueError, match="cifar100 needs root="):
        load("cifar100")


def test_a_folder_of_images_is_as_good(tmp_path: Path) -> None:
    for split, count in (("train", 2), ("test", 1)):
        for name in ("apple", "bear"):
            for k in range(count):
                pixels = save(tmp_path / "cifar100" / split / name / f"{k}.png", k, (32, 32))
    found = load("cifar100", tmp_path, "test")
    assert found.classes == ("apple", "bear")
    assert (found.images[1] == pixels).all()
    assert found.mean == (0.50707516, 0.48654887, 0.44091784)


def test_check(cifar100: Path, small: Callable[..., None]) -> None:
    with pytest.raises(DataError, match="has 3 classes instead of 100"):
        check("cifar100", cifar100)
    small("cifar100", classes=3, train=6, test=4)
    with pytest.raises(DataError, match="has 3 test images instead of 4"):
        check("cifar100", cifar100)
    small("cifar100", test=3)
    with pytest.raises(DataError, match="not the published ones"):
        check("cifar100", cifar100)
    small("cifar100", exact=False)
    assert check("cifar100", cifar100).train == 6
