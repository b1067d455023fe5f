"""What must hold between a tape and the data set it is played on."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from reprise.core.arguments import as_int
from reprise.tape import Tape


def check_tape(tape: Any) -> Tape:
    """A tape, or a sentence about what it is instead."""
    if not isinstance(tape, Tape):
        raise TypeError(f"this takes a tape, as reprise.plan makes one, got {type(tape).__name__}")
    return tape


def check_place(tape: Tape, start: int, rank: int, world_size: int) -> tuple[int, int, int]:
    """Where to begin, and which part of every step to take."""
    first = as_int(start, "start", 0)
    if first > len(tape):
        raise ValueError(f"start must be 0 to {len(tape)}, the steps of this tape, got {first}")
    world = as_int(world_size, "world_size", 1)
    if as_int(rank, "rank", 0) >= world:
        raise ValueError(f"rank must be 0 to {world - 1}, as world_size is {world}, got {rank}")
    return first, int(rank), world


def check_dataset(dataset: Any, tape: Tape, check_targets: bool) -> None:
    """Refuse a data set that this tape was not planned for, as far as its length and its `targets` show it."""
    if not hasattr(dataset, "__getitem__") or isinstance(dataset, IterableDataset):
        raise TypeError(
            f"a tape asks for examples by number, and {type(dataset).__name__} gives them in its own order: a "
            "map-style data set is needed"
        )
    if not hasattr(dataset, "__len__"):
        return
    count, known = len(dataset), len(tape.labels)
    if count != known:
        held = int(np.count_nonzero(tape.initial >= count))
        why = f"; {held} of them were in the memory before step 0" if held else ""
        raise ValueError(f"this tape is of {known} examples{why}, and the data set has {count}")
    targets = _whole_numbers(getattr(dataset, "targets", None), count) if check_targets else None
    if targets is not None:
        _check_same_classes(targets, tape.labels)


def _whole_numbers(targets: Any, count: int) -> np.ndarray[Any, Any] | None:
    if targets is None:
        return None
    try:
        row = np.asarray(targets)
    except (TypeError, ValueError, RuntimeError):  # of different lengths, or on a device
        return None
    return row if row.shape == (count,) and row.dtype.kind in "iu" else None


def _check_same_classes(targets: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> None:
    """Refuse two rows of labels unless one is the other under different names."""
    for one, other in ((targets, labels), (labels, targets)):
        _, first, inverse = np.unique(one, return_index=True, return_inverse=True)
        wrong = np.flatnonzero(other != other[first][inverse])
        if len(wrong):
            here, there = int(first[inverse[wrong[0]]]), int(wrong[0])
            raise ValueError(
                f"this tape is of other labels: examples {here} and {there} have labels {labels[here]} and "
                f"{labels[there]} on the tape, and targets {targets[here]} and {targets[there]} in the data set; plan "
                "from the targets in the data set's order, or give check_targets=False if the tape goes by other labels"
            )
