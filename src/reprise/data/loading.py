"""`load`: any data set by name, or any folder of images, as one `ImageSet`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from reprise.streams.datasets import Dataset, Load, find_dataset, looks_like_path

from . import glyphs
from .cache import kept, user_folder
from .cifar import is_published, read_cifar
from .decode import Progress, decode_into, first_size, resize_into
from .errors import DataError
from .imageset import Images, ImageSet, Labels, Triple, from_arrays
from .listing import Listing, hold_out, list_classes, list_tiny_imagenet

SPLITS = ("train", "test")
HELD_OUT = 0.2
"""The share of ImageNet-R that is its test split."""
CACHE = ".reprise"
"""Folder beside the data for decoded images."""


def load(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    split: str = "train",
    *,
    size: int | None = None,
    holdout: float | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ImageSet:
    """Load one split, `train` or `test`, of a named data set below `root`, or of a folder of images.

    A folder has one sub-folder per class; or sub-folders `train` and `test` (or `val`) that have; or no test part, when
    `holdout` says what share of each class to hold out. `size` brings images to size × size pixels. Images are decoded
    and resized once, with `progress` called on the way, and kept in the folder `cache`, or beside the data.

    >>> load("glyphs", split="valid")
    Traceback (most recent call last):
    ValueError: split must be 'train' or 'test', got 'valid'
    """
    text = os.fspath(name)
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    if size is not None and not (isinstance(size, int) and 1 <= size <= 4096):
        raise ValueError(f"size must be a whole number of pixels from 1 to 4096, got {size!r}")
    if holdout is not None and not 0 < holdout < 1:
        raise ValueError(f"holdout must be a share between 0 and 1, got {holdout!r}")
    store = None if cache is None else Path(cache).expanduser()
    if not isinstance(name, str) or looks_like_path(text):
        return _folder(Path(text).expanduser(), split, text, size, holdout, store, progress)
    source = find_dataset(text)
    if holdout is not None:
        raise ValueError(f"{text} has a test split of its own; holdout= is for folders")
    folder = None if root is None else data_folder(root)
    beside = store or (None if folder is None else folder / CACHE)
    if source.load is not None:
        return _resized(_registered(source, source.load, split, folder), size, beside or user_folder(), progress)
    if text == "glyphs":
        return _glyphs(source, split, size, beside, progress)
    if folder is None:
        raise ValueError(f"{text} needs root=, the folder that holds {source.folder}; only glyphs needs no files")
    return _named(source, folder, split, size, store, progress)


def data_folder(root: str | os.PathLike[str]) -> Path:
    """The folder that holds data sets, whether it is there or not; a file is refused."""
    folder = Path(root).expanduser()
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ValueError(f"the data folder {os.fspath(root)!r} is a file; name the folder that holds the data sets")
    return folder


def find(source: Dataset, root: Path) -> Path | None:
    """The folder of a data set below `root`, or `root` itself when it is that folder; None when there is none."""
    for folder in (root / source.folder, root / source.name):
        if folder.is_dir():
            return folder
    return root if root.is_dir() and root.name in (source.folder, source.name) else None


def _named(
    source: Dataset, root: Path, split: str, size: int | None, cache: Path | None, progress: Progress | None
) -> ImageSet:
    folder = find(source, root)
    if folder is None:
        raise DataError(f"there is no folder {source.folder} of {source.name} in {root}; {source.advice(str(root))}")
    advice = source.advice(str(folder.parent))
    parts: Mapping[str, Callable[[], Listing]]
    if source.name == "tinyimagenet":
        parts = {one: partial(list_tiny_imagenet, folder, source, one) for one in SPLITS}
    elif source.name == "imagenet-r":
        parts = {one: partial(hold_out, list_classes(folder), one, HELD_OUT) for one in SPLITS}
    elif is_published(folder, source):
        images, labels, classes = read_cifar(folder, source, split)
        assert source.mean is not None
        assert source.std is not None
        found = ImageSet(images, labels, classes, source.name, source.mean, source.std, split)
        return _resized(found, size, cache or folder / CACHE, progress)
    else:
        parts = _parts(folder, str(folder), None)
        if "test" not in parts:
            raise DataError(f"{folder} has neither {source.name}'s published files nor train and test; {advice}")
    side = size or source.side
    normal = None if source.mean is None or source.std is None else (source.mean, source.std)
    return _decoded(parts, folder, split, source.name, side, cache, progress, advice, normal)


def _registered(source: Dataset, read: Load, split: str, root: Path | None) -> ImageSet:
    """A split as somebody's own function gives it: an `ImageSet`, or images and labels."""
    given = read(split, root)
    if isinstance(given, ImageSet):
        return replace(given, name=source.name, split=split)
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(
            f"the function that loads {source.name!r} must give an ImageSet, or images and labels, got "
            f"{type(given).__name__}"
        )
    if split == "train":
        return from_arrays(*given, name=source.name)
    train = _registered(source, read, "train", root)
    images, labels = given
    return from_arrays(
        images, labels, classes=train.classes, name=source.name, split=split, mean=train.mean, std=train.std
    )


def _folder(
    folder: Path,
    split: str,
    name: str,
    size: int | None,
    holdout: float | None,
    cache: Path | None,
    progress: Progress | None,
) -> ImageSet:
    parts = _parts(folder, name, holdout)
    if split not in parts:
        raise ValueError(
            f"folder {name!r} has no test part: give it sub-folders train and test, or hold out a share of every "
            "class, such as holdout=0.2"
        )
    return _decoded(parts, folder, split, name, size, cache, progress, "replace or remove it", None)


def folder_labels(name: str, holdout: float | None = None) -> Labels:
    """The labels of the training images of a folder, as `load` has them; no image is read."""
    return _parts(Path(name).expanduser(), name, holdout)["train"]().labels


def _parts(folder: Path, name: str, holdout: float | None) -> dict[str, Callable[[], Listing]]:
    tests = [part for part in ("test", "val") if (folder / part).is_dir()]
    if (folder / "train").is_dir() and tests:
        if holdout is not None:
            raise ValueError(f"folder {name!r} has a {tests[0]} part of its own; leave out holdout=")
        train, test = list_classes(folder / "train"), list_classes(folder / tests[0])
        if train.classes != test.classes:
            odd = sorted(set(train.classes) ^ set(test.classes))[0]
            raise DataError(f"class {odd!r} of {name!r} is in one of train and {tests[0]} and not in the other")
        return {"train": lambda: train, "test": lambda: test}
    whole = list_classes(folder)
    if holdout is None:
        return {"train": lambda: whole}
    return {one: partial(hold_out, whole, one, holdout) for one in SPLITS}


def _decoded(
    parts: Mapping[str, Callable[[], Listing]],
    folder: Path,
    split: str,
    name: str,
    size: int | None,
    cache: Path | None,
    progress: Progress | None,
    advice: str,
    normal: tuple[Triple, Triple] | None,
) -> ImageSet:
    """A split that is made of files; the training split is decoded too when its statistics are wanted."""
    store = cache or folder / CACHE

    def pixels(one: str) -> tuple[Images, tuple[Triple, Triple], Listing]:
        listing = parts[one]()
        made_from: dict[str, int | str] = {"size": size or 0, **listing.fingerprint(folder)}
        height, width = (size, size) if size else first_size(listing.files[0])

        def fill(images: Images) -> None:
            decode_into(images, listing.files, resize=size is not None, advice=advice, progress=progress)

        shape = (len(listing.files), height, width, 3)
        return *kept(store, f"{_file_name(folder.name)}-{one}-{size or 'own'}", made_from, shape, fill), listing

    images, statistics, listing = pixels(split)
    if normal is None:
        normal = statistics if split == "train" else pixels("train")[1]
    return ImageSet(images, listing.labels, listing.classes, name, *normal, split)


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in name)


def _resized(found: ImageSet, size: int | None, store: Path, progress: Progress | None) -> ImageSet:
    """The set with its images brought to size × size pixels, kept like decoded ones; itself when they are that size."""
    if size is None or found.images.shape[1:3] == (size, size):
        return found
    made_from = {"size": size, "pixels": hashlib.sha256(found.images.data).hexdigest()}

    def fill(images: Images) -> None:
        resize_into(images, found.images, progress)

    key = f"{_file_name(found.name)}-{found.split}-{size}"
    images, _ = kept(store, key, made_from, (len(found), size, size, 3), fill)
    return replace(found, images=images)


def _glyphs(source: Dataset, split: str, size: int | None, store: Path | None, progress: Progress | None) -> ImageSet:
    count = {"train": source.train, "test": source.test}[split]
    assert count is not None
    each = count // glyphs.CLASSES
    labels = np.repeat(np.arange(glyphs.CLASSES), each)

    def fill(images: Images) -> None:
        for label in range(glyphs.CLASSES):
            images[label * each : (label + 1) * each] = glyphs.draw_glyphs(split, label, each)
            if progress is not None:
                progress((label + 1) * each, count)

    shape = (count, glyphs.SIDE, glyphs.SIDE, 3)
    try:
        images, _ = kept(store or user_folder(), f"glyphs-{split}", {"glyphs": glyphs.VERSION}, shape, fill)
    except DataError:
        if store is not None:
            raise
        images = np.empty(shape, np.uint8)  # nowhere to keep them: they take seconds to draw
        fill(images)
    found = ImageSet(images, labels, glyphs.NAMES, "glyphs", glyphs.MEAN, glyphs.STD, split)
    return _resized(found, size, store or user_folder(), progress)
