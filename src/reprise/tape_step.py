"""Single steps of a tape, without padding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
One = TypeVar("One")


@dataclass(frozen=True, eq=False)
class TapeStep:
    """One step of a tape without padding; arrays are read-only, and views of the tape's where they can be.

    `replay`, `slots` and `replay_labels` have one array per draw, empty where a draw brought nothing.
    """

    number: int
    """Which step it is, from 0."""
    incoming: Ids
    """Ids of the examples that arrive, in order."""
    replay: tuple[Ids, ...]
    """Ids of the examples that return."""
    slots: tuple[Ids, ...]
    """The slots they came from."""
    written: Ids
    """The slot that each incoming example was written to, −1 where it was not kept."""
    labels: Ids
    """The labels of the incoming examples."""
    replay_labels: tuple[Ids, ...]
    """The labels of the examples that return."""

    def __post_init__(self) -> None:
        for array in (self.incoming, self.written, self.labels, *self.replay, *self.slots, *self.replay_labels):
            array.setflags(write=False)

    @property
    def replayed(self) -> Ids:
        """The example ids of the one draw, where a step has one."""
        return only(self.replay)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many examples arrive, then how many each draw brings."""
        return len(self.incoming), *map(len, self.replay)

    @property
    def ids(self) -> Ids:
        """All example ids of the step in one row: those that arrive, then each draw's."""
        return np.concatenate([self.incoming, *self.replay])

    def part(self, rank: int, world_size: int) -> TapeStep:
        """What one of several processes takes: every `world_size`-th example of the arrivals and of each draw."""
        if world_size == 1:
            return self
        mine = slice(rank, None, world_size)
        return TapeStep(
            number=self.number,
            incoming=self.incoming[mine],
            replay=tuple(row[mine] for row in self.replay),
            slots=tuple(row[mine] for row in self.slots),
            written=self.written[mine],
            labels=self.labels[mine],
            replay_labels=tuple(row[mine] for row in self.replay_labels),
        )

    def _content(self) -> tuple[int, tuple[int, ...], bytes]:
        rows = (self.incoming, self.written, self.labels, *self.replay, *self.slots, *self.replay_labels)
        return self.number, self.sizes, np.concatenate(rows).astype("<i8", copy=False).tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TapeStep) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, self._content()  # one piece, as workers of a DataLoader send many of them


def _restored(number: int, sizes: tuple[int, ...], content: bytes) -> TapeStep:
    came, *drawn = sizes
    rows = np.frombuffer(content, "<i8").astype(np.int64, copy=False)
    ends = accumulate([0, came, came, came, *drawn * 3])
    parts = (rows[start:stop] for start, stop in pairwise(ends))
    incoming, written, labels = (next(parts) for _ in range(3))
    replay, slots, replay_labels = (tuple(next(parts) for _ in drawn) for _ in range(3))
    return TapeStep(number, incoming, replay, slots, written, labels, replay_labels)


class TapeSteps(Sequence[TapeStep]):
    """Some steps of a tape in some order, made as they are asked for: what a slice of a tape is."""

    def __init__(self, step: Callable[[int], TapeStep], numbers: range) -> None:
        self.numbers = numbers
        self._step = step

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: SupportsIndex) -> TapeStep: ...
    @overload
    def __getitem__(self, place: slice) -> TapeSteps: ...
    def __getitem__(self, place: SupportsIndex | slice) -> TapeStep | TapeSteps:
        if isinstance(place, slice):
            return TapeSteps(self._step, self.numbers[place])
        try:
            number = self.numbers[operator.index(place)]
        except TypeError:
            raise TypeError(f"steps are numbered, got {place!r}") from None
        except IndexError:
            raise IndexError(f"there are {len(self)} steps, numbered from 0, got {place}") from None
        return self._step(number)

    def __repr__(self) -> str:
        return f"TapeSteps({self.numbers!r})"


def front(row: Ids) -> slice | NDArray[np.bool_]:
    """Where a padded row holds something: its beginning, as a slice, so that a view of it can be had."""
    held = row >= 0
    count = int(np.count_nonzero(held))
    return slice(count) if held[:count].all() else held


def only(draws: Sequence[One]) -> One:
    """What the one draw of a step brought."""
    if len(draws) != 1:
        raise ValueError(f"this step has {len(draws)} draws: `replay` has one entry for each")
    return draws[0]


def check_moved(rows: Ids, incoming: Ids, capacity: int) -> None:
    """Refuse rows that are no list of removed and moved examples: step, after how many writes, slot, source."""
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"a tape's moved must be rows of step, writes before, slot and source, got shape {rows.shape}")
    if not len(rows):
        return
    step, after, slot, source = rows.T
    limits = {"steps": (step, 0, len(incoming)), "slots": (slot, 0, capacity), "sources": (source, -1, capacity)}
    for what, (values, least, limit) in limits.items():
        if not (least <= values.min() and values.max() < limit):
            raise ValueError(
                f"a tape's moved must have {what} in {least} … {limit - 1}, got {values.min()} … {values.max()}"
            )
    if (after < 0).any() or (after > incoming[step]).any():
        raise ValueError("a tape's moved must come after 0 to all of its step's incoming examples")
    order = step * (int(incoming.max(initial=0)) + 1) + after
    if (np.diff(order) < 0).any():
        raise ValueError("a tape's moved must be in order of time")


def check_excluded(rows: Ids, steps: int, draws: int) -> None:
    """Refuse rows that are no sorted list of excluded classes: step, draw, label."""
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise ValueError(f"a tape's excluded must be rows of step, draw and label, got shape {rows.shape}")
    if not len(rows):
        return
    for what, values, limit in (
        ("steps", rows[:, 0], steps),
        ("draws", rows[:, 1], draws),
        ("labels", rows[:, 2], 2**63),
    ):
        if not (values.min() >= 0 and values.max() < limit):
            raise ValueError(
                f"a tape's excluded must have {what} in 0 … {limit - 1}, got {values.min()} … {values.max()}"
            )
    (s, d, label), (t, e, after) = rows[:-1].T, rows[1:].T
    if not ((s < t) | (s == t) & ((d < e) | (d == e) & (label < after))).all():
        raise ValueError("a tape's excluded must be sorted, each row once")
