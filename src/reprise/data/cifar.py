"""CIFAR-10 and CIFAR-100 as published: pickled batches, read by an unpickler that can build nothing else.

A pickle may name any function and have it called. This reader knows four names, those in the published files, and puts
harmless stand-ins in their place; any other name is an error.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from reprise.streams.datasets import Dataset

from .errors import DataError
from .imageset import Images, Labels

_PARTS = {
    ("cifar10", "train"): tuple(f"data_batch_{number}" for number in range(1, 6)),
    ("cifar10", "test"): ("test_batch",),
    ("cifar100", "train"): ("train",),
    ("cifar100", "test"): ("test",),
}
_META = {"cifar10": ("batches.meta", "labels", "label_names"), "cifar100": ("meta", "fine_labels", "fine_label_names")}


class _Kind:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: object, *_: object) -> None:
        self.code = _text(code) if isinstance(code, (bytes, str)) else ""

    def __setstate__(self, state: object) -> None:
        """Byte order and the like say nothing about single bytes."""


class _Array:
    """Stands for `numpy.ndarray`, and for the function that makes one; only arrays of bytes are made."""

    pixels: Images | None = None

    def __init__(self, *_: object) -> None:
        """Empty until its state is set."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Kind) or kind.code != "u1" or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("it holds an array of something else than bytes")
        self.pixels = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


_ALLOWED = {
    ("numpy", "dtype"): _Kind,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,  # the same, written by NumPy 2
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no published CIFAR file does")
        return _ALLOWED[module, name]


def is_published(folder: Path, source: Dataset) -> bool:
    """Whether a folder holds the published files, or at least one of them."""
    names = (_META[source.name][0], *_PARTS[source.name, "train"], *_PARTS[source.name, "test"])
    return any((folder / name).is_file() for name in names)


def read_cifar(folder: Path, source: Dataset, split: str) -> tuple[Images, Labels, tuple[str, ...]]:
    """Images, labels and class names of one split, in the published order."""
    meta, key, names_key = _META[source.name]
    names = _entry(folder / meta, _unpickle(folder / meta, source), names_key, source)
    if not isinstance(names, list) or len(names) < 2 or not all(isinstance(name, (bytes, str)) for name in names):
        raise _damaged(folder / meta, f"its entry {names_key!r} is not a list of two class names or more", source)
    classes = tuple(_text(name) for name in names)
    images, labels = [], []
    for part in _PARTS[source.name, split]:
        path = folder / part
        batch = _unpickle(path, source)
        data, numbers = _entry(path, batch, "data", source), _entry(path, batch, key, source)
        pixels = data.pixels if isinstance(data, _Array) else None
        if pixels is None:
            raise _damaged(path, "its entry 'data' is not an array of pixels", source)
        if pixels.ndim != 2 or pixels.shape[1] != 3072 or not len(pixels):
            raise _damaged(path, f"its images have shape {pixels.shape} instead of N×3072", source)
        if not isinstance(numbers, list) or len(numbers) != len(pixels):
            count = len(numbers) if isinstance(numbers, list) else "no"
            raise _damaged(path, f"it has {len(pixels)} images but {count} labels", source)
        if not all(isinstance(number, int) and 0 <= number < len(classes) for number in numbers):
            raise _damaged(path, f"its labels are not all whole numbers from 0 to {len(classes) - 1}", source)
        images.append(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.append(np.array(numbers, np.int64))
    return np.ascontiguousarray(np.concatenate(images)), np.concatenate(labels), classes


def _unpickle(path: Path, source: Dataset) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = _Restricted(file, encoding="bytes").load()
    except FileNotFoundError:
        raise DataError(f"{path} is missing; {source.advice(str(path.parent.parent))}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except pickle.UnpicklingError as error:
        raise _damaged(path, str(error), source) from error
    except Exception as error:  # a broken pickle can fail in any way at all
        raise _damaged(path, f"it breaks off or holds nonsense ({type(error).__name__})", source) from error
    if not isinstance(found, dict):
        raise _damaged(path, "it does not hold a dictionary", source)
    return {_text(key): value for key, value in found.items() if isinstance(key, (bytes, str))}


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _entry(path: Path, found: dict[str, Any], key: str, source: Dataset) -> Any:
    if key not in found:
        raise _damaged(path, f"it has no entry {key!r}", source)
    return found[key]


def _damaged(path: Path, why: str, source: Dataset) -> DataError:
    return DataError(f"{path} is damaged: {why}; {source.advice(str(path.parent.parent))}")
