"""Folders with one sub-folder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reprise.streams import label_stream, list_folder


@pytest.fixture
def images(tmp_path: Path) -> Path:
    root = tmp_path / "my-images"
    for name, count in (("zebra", 30), ("ant", 50), ("cat", 40)):
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.png").touch()
    (root / ".cache").mkdir()
    (root / "README").touch()
    (root / "ant" / ".DS_Store").touch()
    (root / "ant" / "sub").mkdir()
    return root


def test_classes_and_files_are_sorted_by_name(images: Path) -> None:
    folder = list_folder(str(images))
    assert folder.classes == ("ant", "cat", "zebra")
    assert folder.sizes == [50, 40, 30]
    assert folder.files[2] == tuple(sorted(f"{number}.png" for number in range(30)))


def test_a_folder_is_a_data_set(images: Path) -> None:
    stream = label_stream(f"{images}-balanced", tasks=3)
    assert stream.counts.tolist() == [50, 40, 30]
    assert np.array_equal(stream.labels, np.repeat([0, 1, 2], [50, 40, 30]))
    assert stream.name == f"{images}-balanced"
    tailed = label_stream(f"{images}-lt10", tasks=1)
    assert sorted(tailed.counts.tolist(), reverse=True)[0] <= 50
    assert tailed.counts.min() == 5


def test_a_folder_beside_us_needs_no_separator(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(images.parent)
    assert label_stream("my-images-lt1", tasks=3).counts.tolist() == [50, 40, 30]


def test_a_known_name_is_never_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cifar10" / "only").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert label_stream("cifar10-balanced").num_classes == 10


def test_what_is_wrong_with_a_folder_is_said(images: Path) -> None:
    with pytest.raises(ValueError, match="has no sub-folders"):
        list_folder(str(images / "cat"))
    (images / "dog").mkdir()
    with pytest.raises(ValueError, match=r"class folder 'dog' of .* has no files"):
        label_stream(f"{images}-lt10", tasks=1)
    with pytest.raises(ValueError, match="brings its own labels"):
        label_stream(f"{images}-lt10", labels=[0, 1])
