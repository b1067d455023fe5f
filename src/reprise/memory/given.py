"""What a memory is given: labels, and scores of the model."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.core.arguments import as_array, as_ints
from reprise.memory.index import Index
from reprise.memory.protocols import Score

_INT64 = np.dtype(np.int64)
_SIGN = 7 if sys.byteorder == "little" else 0  # the byte of an int64 that holds the sign


def checked_score(score: Score, incoming: int, index: Index) -> Score:
    """The score, which tells of what was there before the batch, with its answers checked."""
    writes, stored = index.writes, index.size

    def checked(slots: ArrayLike | None = None) -> NDArray[np.float64]:
        if index.writes != writes:
            raise RuntimeError("a storage asks for scores before it writes: what a slot held may be gone already")
        given = None if slots is None else as_ints(slots, "slots", 0, stored)
        values = np.asarray(score() if given is None else score(given), np.float64)
        count = incoming if given is None else len(given)
        if values.ndim not in (1, 2) or len(values) != count or not np.isfinite(values).all():
            raise ValueError(f"the score must give finite numbers for each of {count} examples, got {values!r}")
        return values if values.ndim == 2 else values[:, None]

    return checked


def label_set(labels: Iterable[int] | ArrayLike, what: str) -> set[int]:
    """Labels in any order, some perhaps unknown, as a set."""
    rows: Any = labels if hasattr(labels, "__array__") or not isinstance(labels, Iterable) else list(labels)
    found: set[int] = set(as_ints(rows, what, -(2**63)).tolist())
    return found


def label_list(labels: ArrayLike) -> list[int]:
    """Labels as a list, or a sentence about what is wrong with them."""
    array = labels if type(labels) is np.ndarray else as_array(labels, "labels")
    # As almost always. That no sign is set is quicker to see than to ask for the least.
    if array.dtype is _INT64 and array.ndim == 1 and array.tobytes()[_SIGN::8].isascii():
        values: list[int] = array.tolist()
        return values
    checked: list[int] = as_ints(array, "labels").tolist()
    return checked
