"""The data sets known by name, and how a stream's name is read."""

from __future__ import annotations

import difflib
import math
import os
import re
from dataclasses import dataclass

_NAME = re.compile(r"(?P<dataset>.+)-(?P<tail>balanced|lt.*)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Dataset:
    """The size of a data set's training split; `per_class` is None when classes are uneven."""

    name: str
    classes: int
    per_class: int | None


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("cifar10", 10, 5000),
        Dataset("cifar100", 100, 500),
        Dataset("tinyimagenet", 200, 500),
        Dataset("imagenet-r", 200, None),
        Dataset("glyphs", 100, 500),
    )
}


def looks_like_path(dataset: str) -> bool:
    """Whether a data set's name means a folder: it is not a known name, and is a path or something that is there."""
    if dataset in DATASETS:
        return False
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    return any(separator in dataset for separator in separators) or os.path.exists(os.path.expanduser(dataset))


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


def nearest_dataset(name: str) -> str | None:
    """The known data set whose name is near to this one, if there is one.

    >>> nearest_dataset("cifr"), nearest_dataset("mnist")
    ('cifar10', None)
    """
    return next(iter(difflib.get_close_matches(name.lower(), DATASETS, n=1)), None)


def _unknown(name: str) -> str:
    match = _NAME.fullmatch(name.lower())
    dataset, tail = (match["dataset"], match["tail"]) if match else (name, "")
    near = nearest_dataset(dataset)
    if name in DATASETS or (looks_like_path(name) and not os.path.isfile(os.path.expanduser(name))):
        near, tail = name, "balanced"  # only the ending is missing
    elif tail != "balanced" and not _NUMBER.fullmatch(tail[2:]):
        tail = "lt10"
    hint = ": a" if near is None else f", did you mean {near + '-' + tail!r}? A"
    return (
        f"unknown stream {name!r}{hint} stream is named "
        f"<dataset>-balanced or <dataset>-lt<factor>, where <dataset> is one of {', '.join(DATASETS)}, "
        "or a folder with one sub-folder per class"
    )
