"""The long tail: how many examples each class of a task keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reprise.core.rng import Random

_TASK_STRIDE = 1009  # the paper seeds a task's ranks with the run's seed plus 1009 times the task


def tail_counts(largest: int, classes: int, imbalance: float) -> list[int]:
    """Examples kept by the classes of one task, from rank 0 (all of `largest`) to the last (`largest` / `imbalance`).

    Counts fall by a constant factor from rank to rank, are rounded half to even, and are never below 1.

    >>> tail_counts(500, 10, imbalance=10)
    [500, 387, 300, 232, 180, 139, 108, 83, 65, 50]
    """
    if classes == 1:
        return [largest]
    # Python's own power, not NumPy's: NumPy picks other machine code on other processors.
    return [max(1, round(largest * float(imbalance) ** (-rank / (classes - 1)))) for rank in range(classes)]


def class_ranks(classes: int, task: int, seed: int) -> NDArray[np.int64]:
    """The rank in the tail of each of a task's classes; 0 keeps most."""
    return Random(seed + _TASK_STRIDE * task, "imbalance").permutation(classes)


def kept_counts(
    sizes: NDArray[np.int64], tasks: Sequence[NDArray[np.int64]], imbalance: float, seed: int
) -> NDArray[np.int64]:
    """Examples that each class keeps when every task has its own tail; never more than the class has."""
    if imbalance == 1:
        return sizes
    kept = np.empty_like(sizes)
    for task, classes in enumerate(tasks):
        counts = np.array(tail_counts(int(sizes[classes].max()), len(classes), imbalance), np.int64)
        kept[classes] = np.minimum(counts[class_ranks(len(classes), task, seed)], sizes[classes])
    return kept
