"""Arguments that are checked the same way everywhere: whole numbers, rows of them, finite numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_int(value: Any, what: str, least: int) -> int:
    """Return a whole number of at least `least`, or say what is wrong with it."""
    try:
        result = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        result = None
    if result is None:
        raise TypeError(f"{what} must be a whole number, got {value!r}")
    if result < least:
        raise ValueError(f"{what} must be {least} or more, got {result}")
    return result


def as_ints(values: ArrayLike, what: str, least: int = 0, limit: int = 2**63) -> NDArray[np.int64]:
    """A row of whole numbers in least … limit−1 as int64, or a sentence about what is wrong with it."""
    array = as_array(values, what)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        first = next((value for value in array.tolist() if type(value) is not int or not least <= value < limit), None)
        raise TypeError(f"{what} must be whole numbers, got dtype {array.dtype} with {first!r}")
    if array.size and not (least <= int(array.min()) and int(array.max()) < limit):
        wrong = next(value for value in array.tolist() if not least <= value < limit)
        raise ValueError(f"{what} must be {least} to {limit - 1}, got {wrong}")
    return array.astype(np.int64, copy=False)


def as_array(values: ArrayLike, what: str) -> NDArray[Any]:
    """Values as an array, or a sentence where they are rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} must be a row of whole numbers, got rows of different lengths") from None


def as_float(value: Any, what: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a finite number from `least` to `most`, or say what is wrong with it."""
    if isinstance(value, (bool, np.bool_, str)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a number, got {value!r}")
    result = float(value)
    if not math.isfinite(result):
        raise ValueError(f"{what} must be finite, got {result}")
    if not least <= result <= most:
        limits = f"from {least} to {most}" if math.isfinite(most) else f"{least} or more"
        raise ValueError(f"{what} must be {limits}, got {result}")
    return result
