"""The data sets known by name, and how a stream's name is read.

All that is known of a data set stands here once: what it holds, where it comes from, how it is normalised. What is
registered elsewhere, as `@register("dataset", name)` on a function that loads it, is found beside them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reprise.core.registry import Registered, did_you_mean, find, register

_NAME = re.compile(r"(?P<dataset>.+)-(?P<tail>balanced|lt.*)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_GIB = 1 << 30
Triple = tuple[float, float, float]
Load = Callable[[str, Path | None], Any]
"""From `"train"` or `"test"`, and the folder that holds data sets if one was given, to images and their labels."""


@dataclass(frozen=True)
class Dataset:
    """One data set: its size, its home, and the archive that is fetched from there; None or empty where not known."""

    name: str
    classes: int | None = None
    train: int | None = None
    """Training images, the same number of each class; None when classes are uneven."""
    test: int | None = None
    side: int | None = None
    home: str = ""
    licence: str = ""
    folder: str = ""
    url: str = ""
    md5: str = ""
    size: int = 0
    """The bytes of the archive as published: no more are fetched. Its checksum decides whether it is the right one."""
    limit: int = 0
    """The most bytes that the archive may unpack to."""
    mean: Triple | None = None
    std: Triple | None = None
    exact: bool = False
    """Whether `mean` and `std` are this training set's own to eight digits, so that they also tell a damaged copy."""
    load: Load | None = None
    """What gives the images of a data set that does not come with the library."""

    @property
    def per_class(self) -> int | None:
        """Training images of each class; None when classes are uneven."""
        return None if self.train is None or self.classes is None else self.train // self.classes

    @property
    def archive(self) -> str:
        """The archive's file name."""
        return self.url.rsplit("/", 1)[-1]

    def advice(self, root: str) -> str:
        """How to get the data set into the folder `root`, as a sentence without its full stop."""
        there = os.path.join(root, self.folder)
        first = f"remove the folder {there}, then " if os.path.isdir(there) else ""
        return (
            f"{first}run `reprise data fetch {self.name} --data {root}`, or put {self.archive} from {self.url} "
            f"(MD5 {self.md5}) into {root} and run it then"
        )


for _known in (
    Dataset(
        "cifar10",
        classes=10,
        train=50_000,
        test=10_000,
        side=32,
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; cite Krizhevsky 2009",
        folder="cifar-10-batches-py",
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        md5="c58f30108f718f92721af3b95e74349a",
        size=170_498_071,
        limit=_GIB,
        mean=(0.49139968, 0.48215841, 0.44653091),
        std=(0.24703223, 0.24348513, 0.26158784),
        exact=True,
    ),
    Dataset(
        "cifar100",
        classes=100,
        train=50_000,
        test=10_000,
        side=32,
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; cite Krizhevsky 2009",
        folder="cifar-100-python",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        size=169_001_437,
        limit=_GIB,
        mean=(0.50707516, 0.48654887, 0.44091784),
        std=(0.26733429, 0.25643846, 0.27615047),
        exact=True,
    ),
    Dataset(
        "tinyimagenet",
        classes=200,
        train=100_000,
        test=10_000,
        side=64,
        home="https://cs231n.stanford.edu",
        licence="ImageNet's terms: research, not commerce",
        folder="tiny-imagenet-200",
        url="https://cs231n.stanford.edu/tiny-imagenet-200.zip",
        md5="90528d7ca1a48142e341f4ef8d21d0de",
        size=248_100_043,
        limit=2 * _GIB,
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
    ),
    Dataset(
        "imagenet-r",
        classes=200,
        side=224,
        home="https://github.com/hendrycks/imagenet-r",
        licence="MIT; rights in the images stay with their makers",
        folder="imagenet-r",
        url="https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
        md5="a61312130a589d0ca1a8fca1f2bd3337",
        size=2_191_079_936,
        limit=8 * _GIB,
    ),
    Dataset(
        "glyphs",
        classes=100,
        train=50_000,
        test=10_000,
        side=32,
        home="drawn by Reprise itself",
        licence="Apache-2.0, as Reprise",
    ),
):
    register("dataset", _known.name)(_known)


def _as_dataset(name: str, found: Any) -> Dataset:
    if isinstance(found, Dataset):
        return replace(found, name=name)
    if not callable(found):
        raise TypeError(f"data set {name!r} must be a function that loads it or a Dataset, got {found!r}")
    return Dataset(name, load=found)


DATASETS: Mapping[str, Dataset] = Registered("dataset", _as_dataset)
"""All data sets by name: those of the library, and whatever else has been registered."""


def find_dataset(name: str) -> Dataset:
    """The data set of that name, or an error that names the nearest one, if any is near."""
    return _as_dataset(name, find("dataset", name))


def needs_folder(name: str) -> bool:
    """Whether this is a data set whose files lie in a folder that must be named besides.

    >>> needs_folder("cifar100"), needs_folder("glyphs"), needs_folder("pictures/birds")
    (True, False, False)
    """
    return name in DATASETS and bool(DATASETS[name].url)


def looks_like_path(dataset: str) -> bool:
    """Whether a data set's name means a folder: it is a path, or no known name and something that is there."""
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    if any(separator in dataset for separator in separators):
        return True
    return dataset not in DATASETS and os.path.exists(os.path.expanduser(dataset))


def parse_name(name: str) -> tuple[str, float]:
    """Split a stream's name into its data set and its imbalance factor.

    >>> parse_name("cifar100-lt10"), parse_name("imagenet-r-balanced")
    (('cifar100', 10.0), ('imagenet-r', 1.0))
    """
    if not isinstance(name, str):
        raise TypeError(f"a stream's name is a string such as 'cifar100-lt10', got {name!r}")
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(_unknown(name))
    dataset, tail = match["dataset"], match["tail"]
    if dataset not in DATASETS and not looks_like_path(dataset):
        raise ValueError(_unknown(name))
    return dataset, 1.0 if tail == "balanced" else _factor(tail[2:], name)


def tail_name(imbalance: float) -> str:
    """How an imbalance factor is written at the end of a stream's name: 'balanced', 'lt10', 'lt2.5'."""
    if imbalance == 1:
        return "balanced"
    return f"lt{int(imbalance) if imbalance == int(imbalance) else imbalance}"


def _factor(text: str, name: str) -> float:
    factor = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(factor):
        raise ValueError(
            f"stream {name!r} ends in 'lt{text}', but 'lt' is followed by an imbalance factor, a number of 1 or more: "
            "'lt10', 'lt100', 'lt2.5'"
        )
    if factor < 1:
        raise ValueError(f"the imbalance factor of stream {name!r} must be 1 or more, got {text}")
    return factor


def _unknown(name: str) -> str:
    match = _NAME.fullmatch(name.lower())
    dataset, tail = (match["dataset"], match["tail"]) if match else (name, "")
    near = did_you_mean(dataset, DATASETS)
    if name in DATASETS or (looks_like_path(name) and not os.path.isfile(os.path.expanduser(name))):
        near, tail = name, "balanced"  # only the ending is missing
    elif tail != "balanced" and not _NUMBER.fullmatch(tail[2:]):
        tail = "lt10"
    hint = "" if near is None else f" did you mean {near + '-' + tail!r}? A"
    return (
        f"unknown stream {name!r}:{hint or ' a'} stream is named "
        f"<dataset>-balanced or <dataset>-lt<factor>, where <dataset> is one of {', '.join(DATASETS)}, "
        "or a folder with one sub-folder per class"
    )
