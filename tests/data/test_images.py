"""Sets made of image files and of arrays, and how decoded images are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data.tinysets import save

import reprise.data.cache
from reprise.data import DataError, channel_statistics, check, from_arrays, load
from reprise.streams import label_stream


def test_a_folder(classes: Path) -> None:
    found = load(str(classes))
    assert found.classes == ("ant", "bee")
    assert found.labels.tolist() == [0] * 5 + [1] * 5
    assert (found.images[7] == save(classes / "bee" / "2.png", 2)).all()
    assert np.allclose(found.mean, found.images.mean((0, 1, 2)) / 255)
    assert np.allclose(found.std, found.images.std((0, 1, 2)) / 255)
    assert (label_stream(f"{classes}-balanced", tasks=2).labels == found.labels).all()
    assert repr(found) == f"<ImageSet {str(classes)!r} train: 10 images 8×8, 2 classes>"
    with pytest.raises(ValueError, match="has no test part: give it sub-folders train and test, or hold out"):
        load(classes, split="test")


def test_holdout(classes: Path) -> None:
    train, test = (load(classes, split=split, holdout=0.4) for split in ("train", "test"))
    assert np.bincount(train.labels).tolist() == [3, 3]
    assert np.bincount(test.labels).tolist() == [2, 2]
    assert len({image.tobytes() for part in (train, test) for image in part.images}) == 10
    assert test.mean == train.mean == channel_statistics(train.images)[0]
    for wrong in (0, 1, 1.5):
        with pytest.raises(ValueError, match="holdout must be a share between 0 and 1"):
            load(classes, holdout=wrong)


def test_imagenet_r(classes: Path, tmp_path: Path, small: Callable[..., None]) -> None:
    classes.rename(tmp_path / "imagenet-r")
    (tmp_path / "imagenet-r" / "README.txt").write_text("about")
    small("imagenet-r", side=16, classes=2)
    train, test = (load("imagenet-r", tmp_path, split) for split in ("train", "test"))
    assert train.images.shape == (8, 16, 16, 3)
    assert test.labels.tolist() == [0, 1]
    assert (check("imagenet-r", tmp_path).train, check("imagenet-r", tmp_path).test) == (8, 2)


def test_tiny_imagenet(tiny: Path) -> None:
    train, test = load("tinyimagenet", tiny), load("tinyimagenet", tiny, "test")
    assert train.classes == ("n03", "n01", "n02")
    assert train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert test.labels.tolist() == [2, 0]
    assert train.images.shape == (6, 64, 64, 3)
    grey = train.images[1]
    assert (grey == grey[..., :1]).all()
    assert not (train.images[0] == train.images[0][..., :1]).all()
    with pytest.raises(DataError, match=r"6 training images instead of 100,000|3 classes instead of 200"):
        check("tinyimagenet", tiny)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("wnids.txt", "wnids.txt is missing; remove the folder .*, then run `reprise data fetch tinyimagenet --data"),
        ("val/images/val_1.JPEG", "val_1.JPEG is missing"),
        ("val/val_annotations.txt", "val_annotations.txt is missing; remove"),
    ],
)
def test_missing_parts_are_named(tiny: Path, lost: str, said: str) -> None:
    (tiny / "tiny-imagenet-200" / lost).unlink()
    with pytest.raises(DataError, match=said):
        load("tinyimagenet", tiny, "test")


def test_a_missing_class_is_named(tiny: Path) -> None:
    (tiny / "tiny-imagenet-200" / "wnids.txt").write_text("n03\nn99\n")
    with pytest.raises(DataError, match=r"n99.images is missing or holds no images"):
        load("tinyimagenet", tiny)
    with pytest.raises(DataError, match="does not name a file and one of the classes"):
        load("tinyimagenet", tiny, "test")


def test_a_truncated_image_is_named(tiny: Path) -> None:
    path = tiny / "tiny-imagenet-200" / "train" / "n01" / "images" / "n01_0.JPEG"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=r"n01_0.JPEG is damaged or not an image .*, then run `reprise data fetch tiny"):
        load("tinyimagenet", tiny)
    path.write_text("nothing")
    with pytest.raises(DataError, match=r"n01_0.JPEG is damaged or not an image"):
        load("tinyimagenet", tiny)
    assert not list((tiny / "tiny-imagenet-200").glob(".reprise/*"))


def test_sizes(classes: Path) -> None:
    save(classes / "bee" / "3.png", 0, (12, 6))
    with pytest.raises(ValueError, match=r"3.png is 12×6 pixels, the first image 8×8; .* need size="):
        load(classes)
    found = load(classes, size=6)
    assert found.images.shape == (10, 6, 6, 3)
    assert (found.images[8] == save(classes / "bee" / "3.png", 0, (12, 6))[:, 3:9]).all()  # the middle is kept
    with pytest.raises(ValueError, match="size must be a whole number of pixels from 1 to 4096, got 0"):
        load(classes, size=0)


def test_one_class_is_refused(classes: Path) -> None:
    with pytest.raises(ValueError, match="has one class, 'x'"):
        from_arrays(np.zeros((2, 4, 4, 3), np.uint8), [0, 0], classes=["x"])
    for file in (classes / "bee").iterdir():
        file.unlink()
    (classes / "bee").rmdir()
    with pytest.raises(ValueError, match="has one class, 'ant'"):
        load(classes)


def test_test_and_train_must_agree(tmp_path: Path) -> None:
    for part in ("train/a", "train/b", "val/a", "val/c"):
        save(tmp_path / "set" / part / "0.png", 0)
    with pytest.raises(DataError, match=r"class 'b' of .* is in one of train and val and not in the other"):
        load(tmp_path / "set")


def test_arrays() -> None:
    pixels = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
    found = from_arrays(pixels, [0, 1, 1])
    assert found.images.shape == (3, 4, 4, 3)
    assert found.classes == ("0", "1")
    for images, labels, error, said in (
        (pixels.astype(float), [0, 1, 1], TypeError, "images must be uint8"),
        (pixels, [0, 1], ValueError, "3 images but 2 labels"),
        (pixels, [0.0, 1.0, 1.0], TypeError, "labels must be"),
        (pixels, [0, -1, 1], ValueError, "label -1"),
        (pixels[0], [0, 1], ValueError, "images must be N×H×W×3, got shape"),
    ):
        with pytest.raises(error, match=said):
            from_arrays(images, labels)


def test_decoded_once_and_again_when_changed(classes: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    def look() -> np.ndarray:
        calls.clear()
        return load(classes, cache=tmp_path / "kept", progress=lambda *done: calls.append(done)).images

    look()
    assert calls == [(10, 10)]
    look()
    assert calls == []
    pixels = save(classes / "bee" / "0.png", 77)
    os.utime(classes / "bee" / "0.png", ns=(1, 2**61))
    assert (look()[5] == pixels).all()
    assert calls == [(10, 10)]
    (kept,) = (tmp_path / "kept").glob("*.npy")  # the stale one is gone
    assert json.loads(kept.with_suffix(".json").read_text())["made_from"]["files"] == 10
    assert sorted(file.suffix for file in (tmp_path / "kept").iterdir()) == [".json", ".npy"]
    kept.write_bytes(kept.read_bytes()[:-100])
    assert (look()[5] == pixels).all()
    assert calls == [(10, 10)]


def test_large_sets_are_mapped(classes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = load(classes).images
    assert not isinstance(small, np.memmap)
    monkeypatch.setattr(reprise.data.cache, "LARGE", 100)
    large = load(classes).images
    assert isinstance(large, np.memmap)
    assert (large == small).all()
    large[:] = 0  # changes this copy, never the file
    assert (load(classes).images == small).all()


def test_a_cache_that_cannot_be_written_is_named(classes: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot keep decoded images in .*file.*; give cache= a folder"):
        load(classes, cache=tmp_path / "file" / "below")


def test_two_processes_at_once(classes: Path, tmp_path: Path) -> None:
    script = (
        "import sys, hashlib, reprise.data as d\n"
        "for _ in range(3): print(hashlib.sha256(d.load(sys.argv[1], cache=sys.argv[2]).images.tobytes()).hexdigest())"
    )
    command = [sys.executable, "-c", script, str(classes), str(tmp_path / "kept")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[0].split() for process in both]
    assert len({line for lines in said for line in lines}) == 1
    assert [len(lines) for lines in said] == [3, 3, 3]
    assert len(list((tmp_path / "kept").iterdir())) == 2
