"""Images: every data set as one uint8 array with its labels.

    train = reprise.data.load("cifar100", "data")
    test = reprise.data.load("cifar100", "data", split="test")
    stream = reprise.streams.label_stream("cifar100-lt10", labels=train.labels)

`load` reads CIFAR as published, Tiny-ImageNet's tree, ImageNet-R, any folder of images, and draws `glyphs`, which needs
no files. `from_arrays` takes two arrays. `fetch` downloads a data set from its home, `check` looks whether it is whole.
"""

from __future__ import annotations

from reprise.core.registry import register
from reprise.streams.datasets import DATASETS, Dataset, find_dataset

from .checking import Checked, check, present
from .download import fetch
from .errors import DataError
from .imageset import ImageSet, channel_statistics, from_arrays
from .loading import load

__all__ = [
    "DATASETS",
    "Checked",
    "DataError",
    "Dataset",
    "ImageSet",
    "channel_statistics",
    "check",
    "fetch",
    "find_dataset",
    "from_arrays",
    "load",
    "present",
    "register",
]
