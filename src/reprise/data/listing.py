"""Which files make up a split of a data set, and the label of each, before any is opened."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reprise.core.rng import Random
from reprise.streams import list_folder
from reprise.streams.datasets import Dataset

from .errors import DataError
from .imageset import Labels


@dataclass(frozen=True, eq=False)
class Listing:
    """The image files of one split in the order of their ids, with their labels."""

    files: tuple[str, ...]
    labels: Labels
    classes: tuple[str, ...]

    def fingerprint(self, root: Path) -> dict[str, int | str]:
        """What changes when a file is changed, replaced, renamed, or swapped with another.

        Each file counts with its path below `root`, its size, and the times of its last change and of its last change
        of name or place, in the order of the ids. No file is opened.
        """
        digest, above = hashlib.sha256(), os.path.join(root, "")
        for file in self.files:
            try:
                found = os.stat(file)
            except OSError as error:
                raise DataError(f"{file} is missing or cannot be read: {error.strerror}") from None
            # Two files of one archive may well have the same size and mtime; a swap shows in ctime, then.
            line = f"{file.removeprefix(above)}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}\0"
            digest.update(line.encode("utf-8", "surrogatepass"))
        return {"files": len(self.files), "digest": digest.hexdigest()}


def list_classes(folder: Path) -> Listing:
    """A folder with one sub-folder per class, in the order of their names."""
    found = list_folder(str(folder))
    files = [
        str(folder / name / file) for name, inside in zip(found.classes, found.files, strict=True) for file in inside
    ]
    return Listing(tuple(files), np.repeat(np.arange(len(found.classes)), found.sizes), found.classes)


def hold_out(whole: Listing, split: str, share: float, seed: int = 0) -> Listing:
    """One side of a split of every class: a random `share` of its files, rounded to whole files, is the test side."""
    taken = np.zeros(len(whole.files), np.bool_)
    for label, name in enumerate(whole.classes):
        places = np.flatnonzero(whole.labels == label)
        if len(places) < 2:
            raise DataError(f"class {name!r} has one image; to hold out a test image, every class needs two")
        count = min(max(1, math.floor(share * len(places) + 0.5)), len(places) - 1)
        taken[places[Random(seed, f"holdout/{label}").permutation(len(places))[:count]]] = True
    chosen = np.flatnonzero(taken if split == "test" else ~taken)
    return Listing(tuple(whole.files[place] for place in chosen.tolist()), whole.labels[chosen], whole.classes)


def list_tiny_imagenet(folder: Path, source: Dataset, split: str) -> Listing:
    """Tiny-ImageNet's own tree: labels in the order of `wnids.txt`, the validation images as test."""
    classes = tuple(_lines(folder / "wnids.txt", source))
    number = {name: label for label, name in enumerate(classes)}
    if split == "train":
        groups = [_images(folder / "train" / name / "images", source) for name in classes]
        labels = np.repeat(np.arange(len(classes)), [len(group) for group in groups])
        return Listing(tuple(file for group in groups for file in group), labels, classes)
    notes = folder / "val" / "val_annotations.txt"
    rows = [line.split("\t") for line in _lines(notes, source)]
    for row in rows:
        if len(row) < 2 or row[1] not in number or os.path.basename(row[0]) != row[0]:
            raise DataError(
                f"{notes} is damaged: line {'	'.join(row)!r} does not name a file and one of the classes"
            )
    files = tuple(str(folder / "val" / "images" / row[0]) for row in rows)
    return Listing(files, np.array([number[row[1]] for row in rows], np.int64), classes)


def _lines(path: Path, source: Dataset) -> list[str]:
    try:
        found = [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise DataError(f"{path} is missing; {source.advice(_data(path, source))}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not found:
        raise DataError(f"{path} is empty; {source.advice(_data(path, source))}")
    return found


def _images(folder: Path, source: Dataset) -> list[str]:
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    names = [name for name in names if not name.startswith(".")]
    if not names:
        raise DataError(f"{folder} is missing or holds no images; {source.advice(_data(folder, source))}")
    return [str(folder / name) for name in names]


def _data(path: Path, source: Dataset) -> str:
    """The folder that the data set's own folder lies in."""
    inside = [parent for parent in path.parents if parent.name == source.folder]
    return str(inside[0].parent if inside else path.parent)
