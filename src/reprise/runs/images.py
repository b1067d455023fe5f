"""The images of a run, and the fingerprints by which they are known."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reprise import data
from reprise.data import ImageSet
from reprise.runs.run import Run
from reprise.runs.settings import DataSettings
from reprise.streams import label_stream

Fingerprints = dict[str, str]
"""The fingerprints of the images that a run uses, by split; of an audit, that of the labels."""
Root = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Images:
    """The images that a run learns from and is tested on."""

    train: ImageSet
    test: ImageSet

    @classmethod
    def load(cls, run: Run, root: Root = None, progress: Callable[[int, int], None] | None = None) -> Images:
        """Read a run's images from the folder `root`; `glyphs` needs none. A validation run never reads test images."""
        wanted = source(run)

        def part(split: str) -> ImageSet:
            return data.load(wanted.name, root, split, size=wanted.size, holdout=wanted.holdout, progress=progress)

        train = _first(part("train"), wanted.per_class)
        return cls(train, train if wanted.validation else _first(part("test"), wanted.test_per_class))

    def fingerprints(self, run: Run) -> Fingerprints:
        """Those of the images as they are now; a validation run uses the training images alone."""
        train = {"train": self.train.fingerprint()}
        return train if source(run).validation else {**train, "test": self.test.fingerprint()}


def source(run: Run) -> DataSettings:
    """What decides which images a run needs."""
    if run.data is None:
        raise ValueError(f"{run.name}: nothing arrives in this run, so it has no images")
    return replace(run.data, augment=None)


def fingerprints(run: Run, images: Images | None = None, root: Root = None) -> Fingerprints:
    """The fingerprints of a run's data: images are read if they are not given; an audit needs labels alone."""
    if run.trains:
        return (images or Images.load(run, root)).fingerprints(run)
    if run.data is None:
        return {}
    labels = label_stream(run.stream_path, tasks=1).labels  # every data set has enough classes for one task
    return {"labels": hashlib.sha256(np.ascontiguousarray(labels, "<i8").tobytes()).hexdigest()}


def other_images(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str | None:
    """In words, which images something was made with that are not ours; None if all are."""
    for part, name in (("train", "training"), ("test", "test")):
        if theirs.get(part) != ours.get(part):
            one, other = (str(found.get(part))[:12] for found in (theirs, ours))
            return f"its {name} images have the fingerprint {one}, this run's have {other}"
    return None


def first_of_each(labels: NDArray[np.int64], each: int | None) -> NDArray[np.int64]:
    """Where the first `each` examples of every class are; all, if none is said.

    >>> first_of_each(np.array([1, 0, 1, 1, 0]), 2)
    array([0, 1, 2, 4])
    """
    if each is None:
        return np.arange(len(labels))
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:each] for label in np.unique(labels)]))


def _first(images: ImageSet, each: int | None) -> ImageSet:
    """The first `each` images of every class."""
    if each is None:
        return images
    kept = first_of_each(images.labels, each)
    return replace(images, images=images.images[kept], labels=images.labels[kept])
