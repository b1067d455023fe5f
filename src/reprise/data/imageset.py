"""A labelled set of images: one uint8 array, its labels, and the constants that normalise it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Triple = tuple[float, float, float]
_PART = 4 << 20  # bytes


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images N×H×W×3 as uint8, with a label each; label c is called `classes[c]`.

    `mean` and `std` are those of the training images per channel, on the scale 0 … 1. A large set is memory-mapped:
    it is read from disk as it is used, and changing its pixels in memory leaves the file alone.
    """

    images: Images
    labels: Labels
    classes: tuple[str, ...]
    name: str
    mean: Triple
    std: Triple
    split: str = "train"

    def __post_init__(self) -> None:
        images, labels, what = self.images, self.labels, f"{self.name} ({self.split})"
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape:
            raise ValueError(
                f"the images of {what} must be a uint8 array of N×H×W×3, got {images.dtype} of shape {images.shape}"
            )
        if labels.dtype != np.int64 or labels.ndim != 1:
            raise ValueError(
                f"the labels of {what} must be one int64 per image, got {labels.dtype} of shape {labels.shape}"
            )
        if len(images) != len(labels):
            raise ValueError(f"{what} has {len(images)} images but {len(labels)} labels; each image needs one label")
        if len(self.classes) < 2:
            raise ValueError(f"{what} has one class, {self.classes[0]!r}; learning to tell classes apart needs two")
        if labels.min() < 0 or labels.max() >= len(self.classes):
            wrong = int(labels.min() if labels.min() < 0 else labels.max())
            raise ValueError(
                f"label {wrong} of {what} is not one of its {len(self.classes)} classes, "
                f"which are numbered 0 to {len(self.classes) - 1}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def fingerprint(self) -> str:
        """SHA-256 of all that decides what is learned: pixels, labels, names of classes, mean and std.

        Sets of equal content have equal fingerprints, however and wherever their arrays lie. It is of the content as
        it is now: pixels may be changed in place, so it is not kept, and every call reads the whole set.
        """
        about = [self.images.shape, self.classes, [float(value) for value in (*self.mean, *self.std)]]
        found = hashlib.sha256(json.dumps(about).encode())
        for part in _parts(self.images):
            found.update(np.ascontiguousarray(part).data)
        found.update(self.labels.astype("<i8").data)
        return found.hexdigest()

    def __repr__(self) -> str:
        height, width = self.images.shape[1:3]
        return (
            f"<ImageSet {self.name!r} {self.split}: {len(self):,} images {height}×{width}, {len(self.classes)} classes>"
        )


def from_arrays(
    images: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
    split: str = "train",
    mean: Triple | None = None,
    std: Triple | None = None,
) -> ImageSet:
    """A set made of two arrays: uint8 images N×H×W×3, or N×H×W in grey, and whole-number labels from 0.

    Give a test set the `mean` and `std` of its training set; without them they are computed from these images.

    >>> pixels = np.zeros((4, 8, 8, 3), np.uint8)
    >>> from_arrays(pixels, [0, 0, 1, 1])
    <ImageSet 'arrays' train: 4 images 8×8, 2 classes>
    """
    pixels, numbers = np.asarray(images), np.asarray(labels)
    if pixels.dtype != np.uint8:
        raise TypeError(f"images must be uint8, 0 to 255, got {pixels.dtype}")
    if pixels.ndim == 3:
        pixels = np.repeat(pixels[..., None], 3, axis=3)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or not len(numbers):
        raise TypeError(
            f"labels must be a one-dimensional array of whole numbers, got {numbers.dtype} of shape {numbers.shape}"
        )
    names = tuple(str(number) for number in range(int(numbers.max()) + 1)) if classes is None else tuple(classes)
    if mean is None or std is None:
        found = channel_statistics(pixels)
        mean, std = mean or found[0], std or found[1]
    return ImageSet(pixels, numbers.astype(np.int64), names, name, mean, std, split)


def channel_statistics(images: Images) -> tuple[Triple, Triple]:
    """Mean and standard deviation of each channel on the scale 0 … 1, from exact whole-number sums."""
    if images.ndim != 4 or images.shape[3] != 3 or not images.size:
        raise ValueError(f"images must be N×H×W×3, got shape {images.shape}")
    counts = np.zeros((3, 256), np.int64)
    for part in _parts(images):
        for channel in range(3):
            counts[channel] += np.bincount(part[..., channel].reshape(-1), minlength=256)
    levels = list(range(256))
    means, stds = [], []
    for row in counts.tolist():
        count = sum(row)
        first = sum(n * level for n, level in zip(row, levels, strict=True))
        second = sum(n * level * level for n, level in zip(row, levels, strict=True))
        means.append(first / (255 * count))
        stds.append(((second * count - first * first) / (255 * count) ** 2) ** 0.5)
    return (means[0], means[1], means[2]), (stds[0], stds[1], stds[2])


def _parts(images: Images) -> Iterator[Images]:
    """The images some at a time: a memory-mapped set need not go through memory as a whole."""
    count = max(1, _PART // images[0].nbytes)
    for start in range(0, len(images), count):
        yield images[start : start + count]
