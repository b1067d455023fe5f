"""The tape of a live memory: what happened, noted as it happens."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.memory import Memory
from reprise.tape import Tape

Ids = NDArray[np.int64]


class Record:
    """What a memory did, in flat arrays that grow: labels and slots by arrival, drawn slots by channel."""

    _PARTS = ("labels", "written", "arrived", "moved", "excluded")

    def __init__(self, draws: int, capacity: int = 0) -> None:
        self.labels, self.written = array("q"), array("q")  # one entry per arrival
        self.arrived = array("q")  # one entry per step: how many arrivals it took in
        self.moved = array("q")  # four per example removed or moved: a row of a tape's `moved`
        self.excluded = array("q")  # three per class excluded from a draw: a row of a tape's `excluded`
        self.drawn = [array("q") for _ in range(draws)]  # slots, one channel after the other
        self.sizes = [array("q") for _ in range(draws)]  # one entry per step: how many were drawn, −1 for no draw
        self.least = self.most = 0  # the smallest and the largest n asked for, but for 0
        self.capacity = capacity  # the largest so far

    def _step(self) -> None:
        self.arrived.append(0)
        for sizes in self.sizes:
            sizes.append(-1)

    def draw(self, channel: int, n: int, slots: Ids, excluded: Iterable[int] = ()) -> None:
        steps = len(self.arrived)
        if (
            not steps
            or self.arrived[-1]
            or self.sizes[channel][-1] >= 0
            or (self.moved and self.moved[-4] == steps - 1)
        ):
            self._step()
            steps += 1
        self.sizes[channel][-1] = len(slots)
        self.drawn[channel].frombytes(slots.tobytes())
        if n:
            self.least, self.most = min(self.least or n, n), max(self.most, n)
        for label in excluded:
            self.excluded.extend((steps - 1, channel, label))

    def store(self, labels: Ids, slots: Ids) -> None:
        if not self.arrived:
            self._step()
        self.arrived[-1] += len(slots)
        self.labels.frombytes(labels.tobytes())
        self.written.frombytes(slots.tobytes())

    def move(self, slots: Iterable[int], sources: Iterable[int]) -> None:
        """Each slot now holds what its source held, which is empty now; where that is −1, the slot is empty."""
        for slot, source in zip(slots, sources, strict=True):
            if not self.arrived:
                self._step()
            self.moved.extend((len(self.arrived) - 1, self.arrived[-1], slot, source))

    def tape(self, storage: str, retrieval: str, seed: int) -> Tape:
        return self._played(storage, retrieval, seed)[0]

    def _played(self, storage: str, retrieval: str, seed: int) -> tuple[Tape, Ids]:
        """The tape, and the example that every slot holds in the end."""
        labels, written, arrived, moved, excluded = (np.array(getattr(self, part), np.int64) for part in self._PARTS)
        moved, excluded = moved.reshape(-1, 4), excluded.reshape(-1, 3)
        excluded = excluded[np.lexsort(excluded.T[::-1])]  # a step may have drawn its channels in any order
        steps, width = len(arrived), int(arrived.max(initial=0))
        slots = np.full((steps, len(self.drawn), self.most), -1, np.int64)
        for channel, (flat, sizes) in enumerate(zip(self.drawn, self.sizes, strict=True)):
            slots[:, channel][_front(np.array(sizes, np.int64), self.most)] = flat
        took = _front(arrived, width)
        incoming, placed = (np.full((steps, width), -1, np.int64) for _ in range(2))
        incoming[took], placed[took] = np.arange(len(labels)), written
        replay = np.full_like(slots, -1)
        holder = np.full(self.capacity + 1, -1, np.int64)  # the last place stands for slot −1 and stays −1
        changes = {step: list(rows) for step, rows in groupby(moved.tolist(), key=lambda row: row[0])}
        for step in range(steps):
            replay[step] = holder[slots[step]]
            done = 0
            for _, after, slot, source in changes.get(step, ()):
                _write(holder, placed[step, done:after], incoming[step, done:after])
                holder[slot] = holder[source]
                holder[slot if source < 0 else source] = -1
                done = after
            _write(holder, placed[step, done:], incoming[step, done:])
        tape = Tape(
            incoming=incoming,
            replay=replay,
            slots=slots,
            written=placed,
            labels=labels,
            boundaries=np.array([steps], np.int64),
            initial=np.empty(0, np.int64),
            stream="live",
            storage=storage,
            retrieval=retrieval,
            capacity=self.capacity,
            replay_size=self.least,
            seed=seed,
            moved=moved,
            excluded=excluded,
        )
        return tape, holder[:-1]

    def state_dict(self) -> dict[str, Any]:
        parts: dict[str, Any] = {part: np.array(getattr(self, part), np.int64) for part in self._PARTS}
        for part in ("drawn", "sizes"):
            parts[part] = [np.array(flat, np.int64) for flat in getattr(self, part)]
        return {**parts, "least": self.least, "most": self.most, "capacity": self.capacity}

    @classmethod
    def from_state(cls, draws: int, state: Mapping[str, Any], memory: Memory) -> Record:
        record = cls(draws)
        for part in cls._PARTS:
            saved = state.get(part, ()) if part in ("moved", "excluded") else state[part]  # not in older states
            getattr(record, part).frombytes(np.asarray(saved, np.int64).tobytes())
        for part in ("drawn", "sizes"):
            for flat, saved in zip(getattr(record, part), state[part], strict=True):
                flat.frombytes(np.asarray(saved, np.int64).tobytes())
        record.least, record.most = int(state["least"]), int(state["most"])
        record.capacity = max(int(state.get("capacity", 0)), memory.capacity)
        # A tape checks itself; what it ends with must be what the memory holds.
        tape, holder = record._played("", "", memory.seed)
        held = np.append(tape.labels, -1)[holder]
        mine = memory.labels
        if not np.array_equal(held[: len(mine)], mine) or (held[len(mine) :] >= 0).any():
            raise ValueError("its record does not lead to what its memory holds")
        return record


def _write(holder: Ids, slots: Ids, examples: Ids) -> None:
    holder[slots] = examples
    holder[-1] = -1


def _front(counts: Ids, width: int) -> NDArray[np.bool_]:
    """A table whose row i is true in its first counts[i] places."""
    return np.arange(width) < counts[:, None]
