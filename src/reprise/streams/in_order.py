"""Streams whose order is given: labels in order of arrival, or batches of example ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.core.arguments import as_int, as_ints

Ints = NDArray[np.int64]
Labels = Iterable[Hashable] | ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class OrderedStream:
    """A stream in a given order; each iteration gives the same int64 arrays of example ids, one per step.

    `ids` is every example in order of arrival, and step t is `ids[offsets[t]:offsets[t + 1]]`. `labels` holds the
    number of every example's class, and `classes[number]` is the label that was given for it; `renumbered` says
    whether the numbers were made here. `boundaries` holds the first step after each task, so the last is
    `len(stream)`. The arrays are read-only.
    """

    name: str
    ids: Ints
    offsets: Ints
    boundaries: Ints
    labels: Ints
    classes: Sequence[Hashable]
    renumbered: bool

    def __post_init__(self) -> None:
        for array in (self.ids, self.offsets, self.boundaries, self.labels):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Ints]:
        start = 0
        for stop in self.offsets[1:].tolist():
            yield self.ids[start:stop]
            start = stop

    def __repr__(self) -> str:
        return (
            f"<OrderedStream {self.name!r}: {len(np.unique(self.labels))} classes, {len(self.boundaries)} tasks, "
            f"{len(self.ids):,} examples, {len(self):,} steps>"
        )


def in_order(
    labels: Labels,
    batch: int = 32,
    boundaries: ArrayLike | None = None,
    *,
    classes: Iterable[Hashable] | None = None,
    name: str = "in order",
) -> OrderedStream:
    """A stream of examples that arrive as they stand, `batch` a step; an example's id is its place.

    Whole numbers from 0 up are class numbers and stay as they are. All other labels, such as strings, are numbered in
    order of first appearance, so that no number depends on what comes later: `stream.classes[number]` is the label.
    `classes` are labels that have their numbers already, 0, 1, 2 and so on; others follow them.

    `boundaries` are the places at which a task ends and the next begins. No batch crosses one; the last of a task may
    be smaller. The end of the stream may be among them or not.

    >>> stream = in_order(["cat", "dog", "cat", "eel", "dog"], batch=2, boundaries=[3])
    >>> [batch.tolist() for batch in stream], stream.labels.tolist(), stream.classes
    ([[0, 1], [2], [3, 4]], [0, 1, 0, 2, 1], ('cat', 'dog', 'eel'))
    """
    numbers, names, anew = numbered(labels, classes)
    size = as_int(batch, "batch", 1)
    ends = _ends(boundaries, len(numbers))
    starts = [0, *ends[:-1].tolist()]
    cuts = [np.arange(start, stop, size) for start, stop in zip(starts, ends.tolist(), strict=True)]
    offsets = np.concatenate([*cuts, ends[-1:]]).astype(np.int64)
    steps = np.cumsum([len(cut) for cut in cuts]).astype(np.int64)
    return OrderedStream(name, np.arange(len(numbers)), offsets, steps, numbers, names, anew)


def from_batches(
    batches: Iterable[ArrayLike],
    labels: Labels,
    boundaries: ArrayLike | None = None,
    *,
    classes: Iterable[Hashable] | None = None,
    name: str = "batches",
) -> OrderedStream:
    """A stream of given batches of example ids, which are indices into `labels`.

    Batches may differ in size, and an example may arrive more than once or never. Labels are numbered as by `in_order`.
    `boundaries` are the first steps after each task.

    >>> from_batches([[4, 0], [1], [4, 2]], labels=["cat", "dog", "cat", "eel", "dog"])
    <OrderedStream 'batches': 3 classes, 1 tasks, 5 examples, 3 steps>
    """
    numbers, names, anew = numbered(labels, classes)
    rows = [as_ints(row, f"batch {step} of a stream", 0, len(numbers)) for step, row in enumerate(batches)]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    ids = np.concatenate([np.empty(0, np.int64), *rows])
    return OrderedStream(name, ids, offsets, _ends(boundaries, len(rows)), numbers, names, anew)


def numbered(labels: Labels, classes: Iterable[Hashable] | None = None) -> tuple[Ints, Sequence[Hashable], bool]:
    """The number of each label's class, the label of each number, and whether the numbers were made here."""
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iu" and classes is None:
        row = as_ints(labels, "labels").copy()
        return row, range(int(row.max(initial=-1)) + 1), False
    values = _values(labels)
    whole = [int(value) for value in values if isinstance(value, int)]
    if classes is None and len(whole) == len(values):
        row = as_ints(whole, "labels") if whole else np.empty(0, np.int64)
        return row, range(int(row.max(initial=-1)) + 1), False
    known = [] if classes is None else _values(classes)
    numbers = {label: number for number, label in enumerate(known)}
    if len(numbers) != len(known):
        raise ValueError(f"classes must be {len(known)} different labels, got {len(numbers)}")
    row = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
    return row, tuple(numbers), classes is None


def _values(labels: Any) -> list[Hashable]:
    """Labels as plain things that can be compared."""
    if isinstance(labels, (str, bytes, Mapping, Set)):
        hint = "; reprise.streams.label_stream makes a stream by its name" if isinstance(labels, str) else ""
        raise TypeError(f"labels are a sequence, one per example in order, got {labels!r:.60}{hint}")
    given = labels.tolist() if hasattr(labels, "tolist") else labels  # arrays, tensors and series alike
    if not hasattr(given, "__iter__") and not hasattr(given, "__getitem__"):
        raise TypeError(f"labels are a sequence, one per example in order, got {labels!r:.60}")
    values = list(given)
    return values if set(map(type, values)) <= {int, str} else [_plain(value) for value in values]


def _plain(label: Any) -> Hashable:
    """A label as it is compared: a tensor of one number would be another class at every place."""
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    if hasattr(label, "shape") and hasattr(label, "tolist"):
        if label.shape != ():
            raise TypeError(f"a label is one thing, got {type(label).__name__} of shape {tuple(label.shape)}")
        label = label.tolist()
    if isinstance(label, (float, complex)):
        raise TypeError(f"a label is a whole number or a name, got {label!r}")
    try:
        hash(label)
    except TypeError:
        raise TypeError(
            f"labels must be hashable, got a {type(label).__name__}; reprise.streams.from_batches takes batches of "
            "example ids"
        ) from None
    named: Hashable = label
    return named


def _ends(boundaries: ArrayLike | None, count: int) -> Ints:
    """The ends of tasks among so many examples or steps, the end of all included."""
    given = as_ints([] if boundaries is None else boundaries, "boundaries", 1, count + 1)
    if (np.diff(given) <= 0).any():
        raise ValueError(f"boundaries must ascend, got {given.tolist()}")
    if not len(given) or given[-1] != count:
        given = np.append(given, count)
    return given.astype(np.int64)
