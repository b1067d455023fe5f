"""The tape of a live buffer: what happened, noted as it happens."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.memory import Memory
from reprise.tape import Tape

Ids = NDArray[np.int64]


class Record:
    """What a buffer did, in flat arrays that grow: labels and slots by arrival, drawn slots by channel."""

    _PARTS = ("labels", "written", "arrived")

    def __init__(self, draws: int) -> None:
        self.labels, self.written = array("q"), array("q")  # one entry per arrival
        self.arrived = array("q")  # one entry per step: how many arrivals it took in
        self.drawn = [array("q") for _ in range(draws)]  # slots, one channel after the other
        self.sizes = [array("q") for _ in range(draws)]  # one entry per step: how many were drawn, −1 for no draw
        self.least = self.most = 0  # the smallest and the largest n asked for, but for 0

    def _step(self) -> None:
        self.arrived.append(0)
        for sizes in self.sizes:
            sizes.append(-1)

    def draw(self, channel: int, n: int, slots: Ids) -> None:
        if not self.arrived or self.arrived[-1] or self.sizes[channel][-1] >= 0:
            self._step()
        self.sizes[channel][-1] = len(slots)
        self.drawn[channel].frombytes(slots.tobytes())
        if n:
            self.least, self.most = min(self.least or n, n), max(self.most, n)

    def store(self, labels: Ids, slots: Ids) -> None:
        if not self.arrived:
            self._step()
        self.arrived[-1] += len(slots)
        self.labels.frombytes(labels.tobytes())
        self.written.frombytes(slots.tobytes())

    def tape(self, storage: str, retrieval: str, capacity: int, seed: int) -> Tape:
        labels, written, arrived = (np.array(getattr(self, part), np.int64) for part in self._PARTS)
        steps, width = len(arrived), int(arrived.max(initial=0))
        slots = np.full((steps, len(self.drawn), self.most), -1, np.int64)
        for channel, (flat, sizes) in enumerate(zip(self.drawn, self.sizes, strict=True)):
            slots[:, channel][_front(np.array(sizes, np.int64), self.most)] = flat
        took = _front(arrived, width)
        incoming, placed = (np.full((steps, width), -1, np.int64) for _ in range(2))
        incoming[took], placed[took] = np.arange(len(labels)), written
        replay = np.full_like(slots, -1)
        holder = np.full(capacity + 1, -1, np.int64)  # the last place stands for slot −1 and stays −1
        for step in range(steps):
            replay[step] = holder[slots[step]]
            holder[placed[step]] = incoming[step]
            holder[-1] = -1
        return Tape(
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
            capacity=capacity,
            replay_size=self.least,
            seed=seed,
        )

    def state_dict(self) -> dict[str, Any]:
        parts: dict[str, Any] = {part: np.array(getattr(self, part), np.int64) for part in self._PARTS}
        for part in ("drawn", "sizes"):
            parts[part] = [np.array(flat, np.int64) for flat in getattr(self, part)]
        return {**parts, "least": self.least, "most": self.most}

    @classmethod
    def from_state(cls, draws: int, state: Mapping[str, Any], memory: Memory) -> Record:
        record = cls(draws)
        for part in cls._PARTS:
            getattr(record, part).frombytes(np.asarray(state[part], np.int64).tobytes())
        for part in ("drawn", "sizes"):
            for flat, saved in zip(getattr(record, part), state[part], strict=True):
                flat.frombytes(np.asarray(saved, np.int64).tobytes())
        record.least, record.most = int(state["least"]), int(state["most"])
        # A tape checks itself; what it ends with must be what the memory holds.
        tape = record.tape("", "", memory.capacity, memory.seed)
        kept = tape.written[tape.written >= 0]
        held = np.full(memory.capacity, -1, np.int64)
        held[kept] = tape.labels[tape.incoming[tape.written >= 0]]
        if not np.array_equal(held[: len(memory)], memory.labels) or (held[len(memory) :] >= 0).any():
            raise ValueError("its record does not lead to what its memory holds")
        return record


def _front(counts: Ids, width: int) -> NDArray[np.bool_]:
    """A table whose row i is true in its first counts[i] places."""
    return np.arange(width) < counts[:, None]
