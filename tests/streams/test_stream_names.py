"""Names of streams, and what is said when a name or an option is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reprise.streams import from_labels, label_stream
from reprise.streams.datasets import parse_name, tail_name


@pytest.mark.parametrize(
    ("name", "dataset", "imbalance"),
    [
        ("cifar10-balanced", "cifar10", 1.0),
        ("cifar100-lt10", "cifar100", 10.0),
        ("imagenet-r-lt2.5", "imagenet-r", 2.5),
        ("./cifar100-lt100", "./cifar100", 100.0),
        ("/data/a-lt7-b-lt10", "/data/a-lt7-b", 10.0),
    ],
)
def test_a_name_is_a_data_set_and_a_tail(name: str, dataset: str, imbalance: float) -> None:
    assert parse_name(name) == (dataset, imbalance)


@pytest.mark.parametrize("imbalance", [1, 1.0, 10, 10.0, 2.5, 12345678.0])
def test_tails_are_written_as_they_are_read(imbalance: float) -> None:
    assert parse_name(f"glyphs-{tail_name(imbalance)}") == ("glyphs", imbalance)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cifar100", "did you mean 'cifar100-balanced'?"),
        ("cifr100-lt10", "did you mean 'cifar100-lt10'?"),
        ("CIFAR100-LT10", "did you mean 'cifar100-lt10'?"),
        ("GLYPHS-BALANCED", "did you mean 'glyphs-balanced'?"),
        ("tiny_imagenet-lt100", "did you mean 'tinyimagenet-lt100'?"),
        ("nowhere/images", "did you mean 'nowhere/images-balanced'?"),
        ("", "unknown stream '': a stream is named <dataset>-balanced or"),
        ("mnist", "unknown stream 'mnist': a stream is named <dataset>-balanced or"),
        ("mnist-lt10", "unknown stream 'mnist-lt10': a stream is named"),
        ("cifr100-ltmany", "did you mean 'cifar100-lt10'?"),
        ("cifar100-lt0.5", "must be 1 or more, got 0.5"),
        ("cifar100-lt-5", "must be 1 or more, got -5"),
        ("cifar100-lt", "ends in 'lt'"),
        ("cifar100-ltmany", "ends in 'ltmany'"),
        ("cifar100-ltinf", "ends in 'ltinf'"),
        ("cifar100-lt1" + "0" * 400, "followed by an imbalance factor"),
        ("imagenet-r-lt10", "come with its images: name its folder instead"),
        ("nowhere/images-lt10", "there is no folder 'nowhere/images'"),
    ],
)
def test_a_wrong_name_is_answered_by_a_sentence(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        label_stream(name)
    assert (name[:-5] if name.startswith("nowhere") else name) in str(caught.value)


def test_a_file_is_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pictures.zip").write_text("")
    with pytest.raises(ValueError, match=r"unknown stream 'pictures.zip': a stream is named"):
        label_stream("pictures.zip")
    with pytest.raises(ValueError, match=r"'pictures.zip' is a file; a data set is a known name, or a folder of class"):
        label_stream("pictures.zip-lt10")


@pytest.mark.parametrize(
    ("option", "error", "said"),
    [
        ({"batch": 0}, ValueError, "batch must be 1 or more, got 0"),
        ({"batch": 2.0}, TypeError, "batch must be a whole number, got 2.0"),
        ({"batch": True}, TypeError, "batch must be a whole number, got True"),
        ({"tasks": 0}, ValueError, "tasks must be 1 or more, got 0"),
        ({"tasks": 11}, ValueError, "tasks must be at most the number of classes, 10, got 11"),
        ({"order": "sorted"}, ValueError, "order must be 'label' or 'permuted', got 'sorted'"),
        ({"validation": 1}, TypeError, "validation must be True or False, got 1"),
        ({"disjoint": 1.5}, ValueError, "disjoint must be from 0 to 1, got 1.5"),
        ({"blur": -0.1}, ValueError, "blur must be from 0 to 1, got -0.1"),
        ({"blur": float("nan")}, ValueError, "blur must be finite, got nan"),
        ({"blur": "half"}, TypeError, "blur must be a number, got 'half'"),
        ({"blur": 0.5, "disjoint": 0.0, "tasks": 1}, ValueError, "blur=0.5 needs other tasks"),
        ({"seed": -1}, ValueError, "seed must be 0 or more, got -1"),
        ({"imbalance_seed": -1}, ValueError, "imbalance_seed must be 0 or more, got -1"),
        ({"imbalance_seed": 1.0}, TypeError, "imbalance_seed must be a whole number, got 1.0"),
    ],
)
def test_a_wrong_option_is_answered_by_a_sentence(option: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        label_stream("cifar10-lt10", **option)
    with pytest.raises(error, match=re.escape(said)):
        from_labels(np.arange(100) % 10, **option)


def test_a_balanced_stream_has_no_seed_of_a_tail() -> None:
    said = "imbalance_seed says which classes of a long tail are rare; a balanced stream has none, got 0"
    for name in ("cifar100-balanced", "cifar100-lt1"):
        with pytest.raises(ValueError, match=said):
            label_stream(name, imbalance_seed=0)
    with pytest.raises(ValueError, match=said):
        from_labels(np.arange(20), imbalance_seed=0)


def test_the_seed_of_a_tail_is_shown() -> None:
    stream = label_stream("cifar10-lt10", seed=1, tasks=5, imbalance_seed=7)
    assert stream.title == "cifar10-lt10 (tasks=5, imbalance_seed=7)"
    assert "seed=1, tasks=5, imbalance_seed=7: 10 classes" in repr(stream)


@pytest.mark.parametrize("imbalance", [0.5, 0, -10, float("inf"), float("nan")])
def test_the_imbalance_of_labels_is_1_or_more(imbalance: float) -> None:
    with pytest.raises(ValueError, match=f"imbalance must be (1 or more|finite), got {imbalance}"):
        from_labels(np.arange(20), imbalance=imbalance)


def test_a_name_is_a_string() -> None:
    with pytest.raises(TypeError, match="a stream's name is a string such as 'cifar100-lt10', got 7"):
        label_stream(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "error", "said"),
    [
        ([], ValueError, "at least one label, got shape (0,)"),
        ([[0, 1]], ValueError, "one-dimensional array of at least one label, got shape (1, 2)"),
        ([0.0, 1.0], TypeError, "labels must be whole numbers, got float64"),
        ([True, False], TypeError, "labels must be whole numbers, got bool"),
        (["cat", "dog"], TypeError, "labels must be whole numbers, got <U3"),
        ([0, -1, 1], ValueError, "labels must be 0 or more, got -1"),
        ([0, 1, 3], ValueError, "every class from 0 to 3 needs a label, but class 2 has none"),
        ([0, 2**62], ValueError, "but class 1 has none"),
        (np.array([2**64 - 1], np.uint64), ValueError, "but class 0 has none"),
    ],
)
def test_wrong_labels_are_answered_by_a_sentence(labels: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        from_labels(labels, tasks=1)


def test_labels_must_have_the_classes_of_the_data_set() -> None:
    with pytest.raises(ValueError, match="cifar100 has 100 classes, but labels has 20, from 0 to 19"):
        label_stream("cifar100-lt10", labels=np.arange(100) % 20)


def test_uneven_data_sets_take_labels() -> None:
    stream = label_stream("imagenet-r-lt10", labels=np.arange(24000) * 7 % 200)
    assert stream.name == "imagenet-r-lt10"
    assert stream.num_classes == 200
