"""Building a stream by name, or over any array of labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .arrange import arrange
from .datasets import DATASETS, looks_like_path, parse_name, tail_name
from .folder import list_folder
from .options import Order, StreamOptions
from .stream import Ints, LabelStream


def label_stream(
    name: str,
    seed: int = 0,
    *,
    batch: int = 32,
    tasks: int = 10,
    order: Order = "label",
    validation: bool = False,
    disjoint: float = 1.0,
    blur: float = 0.0,
    imbalance_seed: int | None = None,
    labels: ArrayLike | None = None,
) -> LabelStream:
    """The stream called `name`: a data set, then `-balanced` or `-lt` and an imbalance factor.

    A data set is a known name or a folder with one sub-folder per class. Example ids go class by class, unless `labels`
    gives the label of each example of the data set: then ids are indices into it. The sequence of labels is the same
    either way when class sizes agree: which example arrives is chosen by its index within its class. The other options
    are those of `StreamOptions`.

    >>> label_stream("cifar100-lt10", seed=0)
    <LabelStream 'cifar100-lt10', seed=0: 100 classes, 10 tasks, 20,440 examples, 640 steps>
    """
    dataset, imbalance = parse_name(name)
    options = StreamOptions(imbalance, batch, tasks, order, validation, disjoint, blur, imbalance_seed)
    if labels is None:
        sizes = _sizes(name, dataset)
        known = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    elif looks_like_path(dataset):
        raise ValueError(f"folder {dataset!r} brings its own labels; leave out labels=, or use from_labels")
    else:
        known = _check_labels(labels)
        if (found := int(known.max()) + 1) != (expected := DATASETS[dataset].classes or found):
            raise ValueError(f"{dataset} has {expected} classes, but labels has {found}, from 0 to {found - 1}")
    return arrange(name, known, options, seed)


def from_labels(
    labels: ArrayLike,
    seed: int = 0,
    *,
    imbalance: float = 1.0,
    name: str = "custom",
    batch: int = 32,
    tasks: int = 10,
    order: Order = "label",
    validation: bool = False,
    disjoint: float = 1.0,
    blur: float = 0.0,
    imbalance_seed: int | None = None,
) -> LabelStream:
    """A stream over any array of labels; example ids are indices into it.

    Labels are whole numbers 0 … C−1, every class present, in any order. The stream is called `name` and its tail, such
    as `custom-lt10`. The other options are those of `StreamOptions`.

    >>> from_labels([0, 1, 0, 1, 2, 2], tasks=3, batch=2)
    <LabelStream 'custom-balanced', seed=0, batch=2, tasks=3: 3 classes, 3 tasks, 6 examples, 3 steps>
    """
    options = StreamOptions(imbalance, batch, tasks, order, validation, disjoint, blur, imbalance_seed)
    return arrange(f"{name}-{tail_name(imbalance)}", _check_labels(labels), options, seed)


def _sizes(name: str, dataset: str) -> list[int]:
    if looks_like_path(dataset):
        return list_folder(dataset).sizes
    known = DATASETS[dataset]
    if known.per_class is None:
        instead = f"name its folder instead, such as 'path/to/{name}', or give labels="
        if known.load is not None:
            instead = (
                f"register its sizes with it, as Dataset({dataset!r}, classes=…, train=…, load=…), or give labels= in "
                f"Python, such as reprise.data.load({dataset!r}).labels"
            )
        raise ValueError(f"stream {name!r} needs the class sizes of {dataset}, which come with its images: {instead}")
    return [known.per_class] * (known.classes or 0)


def _check_labels(labels: ArrayLike) -> Ints:
    found = np.asarray(labels)
    if found.ndim != 1 or len(found) == 0:
        raise ValueError(f"labels must be a one-dimensional array of at least one label, got shape {found.shape}")
    if found.dtype.kind not in "iu":
        raise TypeError(
            f"labels must be whole numbers, got {found.dtype}; "
            "numpy.unique(labels, return_inverse=True) numbers any classes"
        )
    if (low := found.min()) < 0:
        raise ValueError(f"labels must be 0 or more, got {low}")
    # A number above the count of labels leaves a hole for certain: no array need reach up to a huge one.
    high = min(int(found.max()), len(found))
    present = np.zeros(high + 1, np.bool_)
    present[found[found <= high]] = True
    if not present.all():
        raise ValueError(
            f"every class from 0 to {found.max()} needs a label, but class {int(np.argmin(present))} has none; "
            "numpy.unique(labels, return_inverse=True) numbers classes without holes"
        )
    return found.astype(np.int64)
