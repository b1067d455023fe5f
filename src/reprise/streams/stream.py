"""LabelStream: the order in which examples arrive, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .options import StreamOptions

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class LabelStream:
    """A stream of example ids with known labels; each iteration gives the same int64 arrays, one per step.

    `ids` is every example in order of arrival, and step t is `ids[offsets[t]:offsets[t + 1]]`. `labels` holds the label
    of every example id of the data set, arriving or not. `boundaries` holds the first step after each task, so the last
    is `len(stream)`; a task that blur has emptied repeats the one before. `tasks` holds the class ids of each task and
    `heldout` the ids set aside for validation. The arrays it keeps are read-only, the ones it yields are fresh.
    """

    name: str
    seed: int
    ids: Ints
    offsets: Ints
    boundaries: Ints
    labels: Ints
    tasks: tuple[Ints, ...]
    heldout: Ints
    options: StreamOptions

    def __post_init__(self) -> None:
        for array in (self.ids, self.offsets, self.boundaries, self.labels, self.heldout, *self.tasks):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Ints]:
        start = 0
        for stop in self.offsets[1:].tolist():
            yield self.ids[start:stop].copy()
            start = stop

    @property
    def num_classes(self) -> int:
        """How many classes the data set has."""
        return sum(len(classes) for classes in self.tasks)

    @cached_property
    def task_of_class(self) -> Ints:
        """The task to which each class belongs."""
        home = np.empty(self.num_classes, np.int64)
        for task, classes in enumerate(self.tasks):
            home[classes] = task
        home.setflags(write=False)
        return home

    @cached_property
    def counts(self) -> Ints:
        """How many examples of each class arrive in the whole stream."""
        counts = np.bincount(self.labels[self.ids], minlength=self.num_classes).astype(np.int64, copy=False)
        counts.setflags(write=False)
        return counts

    @property
    def title(self) -> str:
        """The name, and the options that differ from the usual ones."""
        chosen = ", ".join(f"{name}={value}" for name, value in self.options.changed().items())
        return f"{self.name} ({chosen})" if chosen else self.name

    def __repr__(self) -> str:
        chosen = "".join(f", {name}={value!r}" for name, value in self.options.changed().items())
        return (
            f"<LabelStream {self.name!r}, seed={self.seed}{chosen}: {self.num_classes} classes, "
            f"{len(self.tasks)} tasks, {len(self.ids):,} examples, {len(self):,} steps>"
        )
