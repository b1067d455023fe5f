"""`size=` for data sets that are no image files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.tinysets import published
from PIL import Image

from reprise.cli import main
from reprise.data import load
from reprise.runs import Run
from reprise.train import Images, train


def test_cifar_is_resized_as_image_files_are(cifar100: Path, tmp_path: Path) -> None:
    plain = load("cifar100", cifar100)
    for place, image in enumerate(plain.images):
        path = tmp_path / "files" / plain.classes[plain.labels[place]] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    for size in (8, 48):
        found, files = load("cifar100", cifar100, size=size), load(tmp_path / "files", size=size)
        order = np.argsort(plain.labels, kind="stable")
        assert (found.images[order] == files.images).all()
        assert (found.labels == plain.labels).all()
        assert (found.classes, found.mean, found.std) == (plain.classes, plain.mean, plain.std)
    assert (load("cifar100", cifar100, size=32).images == plain.images).all()


def test_resized_once_and_again_when_changed(cifar100: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    def look(**chosen: Path) -> np.ndarray:
        calls.clear()
        return load("cifar100", cifar100, size=16, progress=lambda *done: calls.append(done), **chosen).images

    first = look()
    assert calls == [(6, 6)]
    assert (look() == first).all()
    assert calls == []
    folder = cifar100 / "cifar-100-python"
    assert sorted(path.suffix for path in (folder / ".reprise").iterdir()) == [".json", ".npy"]
    (folder / "train").write_bytes(published({b"data": np.full((6, 3072), 9, np.uint8), b"fine_labels": [0, 1, 2] * 2}))
    assert (look(cache=tmp_path / "kept") == 9).all()
    assert (look() == 9).all()
    assert calls == [(6, 6)]
    assert len(list((folder / ".reprise").iterdir())) == 2


def test_glyphs_too(own_cache: Path, small: Callable[..., None]) -> None:
    small("glyphs", test=200)
    plain, tiny = (load("glyphs", split="test", size=size) for size in (None, 8))
    assert tiny.images.shape == (200, 8, 8, 3)
    again = Image.fromarray(plain.images[77]).resize((8, 8), Image.Resampling.BICUBIC)
    assert (tiny.images[77] == np.asarray(again)).all()
    assert (tiny.mean, tiny.std) == (plain.mean, plain.std)
    assert len(list(own_cache.glob("glyphs-test-*.npy"))) == 2


@pytest.mark.parametrize(("size", "network"), [(16, "--width 8"), (96, "--backbone efficientnet_lite0")])
def test_a_run_on_resized_cifar(size: int, network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3072), np.uint8)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(published({b"data": pixels, b"labels": list(range(10)) * 2}))
    (folder / "batches.meta").write_bytes(published({b"label_names": [b"class %d" % k for k in range(10)]}))
    words = f"train --dataset cifar10 --data {tmp_path} --size {size} {network} --buffer 20 --tasks 2 --json -"
    assert main(words.split()) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["run"]["data"]["size"] == size


def test_a_run_on_enlarged_glyphs(small: Callable[..., None]) -> None:
    small("glyphs", train=200, test=100)
    sizes: dict[str, Any] = {"size": 40, "batch": 16, "buffer": 20, "replay": 4, "tasks": 5}
    run = Run.of(dataset="glyphs", backbone="efficientnet_lite0", **sizes)
    images = Images.load(run)
    assert images.train.images.shape == (200, 40, 40, 3)
    record = train(run, images)
    assert record["stream"]["steps"] == 15
    assert 0 <= record["metrics"]["ema"]["final"] <= 1
