"""Whether a data set is there, and whether it is whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from reprise.streams.datasets import Dataset, find_dataset

from .errors import DataError
from .imageset import Triple, channel_statistics
from .loading import data_folder, find, load

CLOSE = 2e-6  # the published constants have eight digits


@dataclass(frozen=True)
class Checked:
    """What was found in a data set that is whole."""

    name: str
    classes: int
    train: int
    test: int
    side: int
    mean: Triple
    std: Triple


def present(source: Dataset, root: str | os.PathLike[str]) -> bool:
    """Whether a data set's folder is below `root`; its files are not looked at."""
    folder = data_folder(root)
    return not source.url or find(source, folder) is not None


def check(
    name: str,
    root: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Checked:
    """Read every image of both splits and compare their numbers with what the data set should have.

    For CIFAR the means of the training images are compared with the published ones, too, to six digits.
    """
    source = find_dataset(name)
    train, test = (load(source.name, root, split, cache=cache, progress=progress) for split in ("train", "test"))
    for what, found, wanted in (
        ("classes", len(train.classes), source.classes),
        ("training images", len(train), source.train),
        ("test images", len(test), source.test),
    ):
        if wanted is not None and found != wanted:
            raise DataError(
                f"{source.name} in {root} has {found:,} {what} instead of {wanted:,}; {source.advice(str(root))}"
            )
    mean, std = channel_statistics(train.images)
    if (
        source.exact
        and source.mean is not None
        and any(abs(a - b) > CLOSE for a, b in zip(mean, source.mean, strict=True))
    ):
        shown = " ".join(f"{value:.6f}" for value in mean)
        raise DataError(
            f"the training images of {source.name} in {root} have channel means {shown}, not the published ones, so "
            f"some image is not what it should be; {source.advice(str(root))}"
        )
    return Checked(source.name, len(train.classes), len(train), len(test), train.images.shape[1], mean, std)
