"""A memory that records what happens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.audit import Audit, measure
from reprise.core.arguments import as_array
from reprise.memory import Draw, Memory, Moves, Retrieval, Schedule, Storage
from reprise.memory.memory import NOBODY
from reprise.memory.plain import original, plain
from reprise.memory.protocols import Score
from reprise.recorded.record import Record
from reprise.tape import Tape


class RecordedMemory(Memory):
    """A `Memory` that notes every draw and every write, so that what has happened can be audited at any time.

    >>> memory = RecordedMemory(capacity=10, retrieval="rpr", seed=0)
    >>> for step in range(20):
    ...     drawn = memory.draw(2)
    ...     slots = memory.store([step % 4, step % 3])
    >>> len(memory.tape()), memory.audit().violations
    (20, 0)

    The record grows by 16 bytes for each step and each example that arrives, and 8 for each that returns.
    """

    def __init__(
        self,
        capacity: int,
        storage: str | Storage = "reservoir",
        retrieval: str | Retrieval | Schedule = "rpr",
        seed: int = 0,
        draws: int = 1,
    ) -> None:
        super().__init__(capacity, storage, retrieval, seed, draws)
        self.record = Record(self.draws, self.capacity)

    def draw(
        self,
        n: int,
        *,
        channel: int = 0,
        score: Score | None = None,
        exclude: Iterable[int] | ArrayLike = NOBODY,
        only: Iterable[int] | ArrayLike | None = None,
    ) -> Draw:
        if exclude is NOBODY and only is None:
            drawn = super().draw(n, channel=channel, score=score)
            self.record.draw(int(channel), int(n), drawn.slots)
            return drawn
        barred = sorted(self.barred(exclude, only))
        drawn = super().draw(n, channel=channel, score=score, exclude=barred)
        self.record.draw(int(channel), int(n), drawn.slots, barred if n else ())
        return drawn

    def store(self, labels: ArrayLike, *, score: Score | None = None) -> NDArray[np.int64]:
        slots = super().store(labels, score=score)
        self.record.store(as_array(labels, "labels").astype(np.int64, copy=False), slots)
        return slots

    def assign(self, slots: ArrayLike, labels: ArrayLike) -> None:
        super().assign(slots, labels)
        where, given = (as_array(rows, "slots").astype(np.int64) for rows in (slots, labels))
        emptied = np.flatnonzero(given < 0).tolist()
        begin = 0
        for place in [*emptied, len(given)]:
            self.record.store(given[begin:place], where[begin:place])
            if place < len(given):
                self.record.move([int(where[place])], [-1])
            begin = place + 1

    def remove(self, *, slots: ArrayLike | None = None, labels: Iterable[int] | ArrayLike | None = None) -> Moves:
        return self._noted(super().remove(slots=slots, labels=labels))

    def clear(self) -> None:
        filled = np.flatnonzero(self.labels >= 0).tolist()
        super().clear()
        self.record.move(filled, [-1] * len(filled))

    def resize(self, capacity: int) -> Moves:
        moves = self._noted(super().resize(capacity))
        self.record.capacity = max(self.record.capacity, self.capacity)
        return moves

    def _noted(self, moves: Moves) -> Moves:
        targets = set(moves.target.tolist())
        emptied = [slot for slot in moves.removed.tolist() if slot not in targets]
        self.record.move([*moves.target.tolist(), *emptied], [*moves.source.tolist(), *([-1] * len(emptied))])
        return moves

    def tape(self) -> Tape:
        """All that has happened so far as a tape; an example's id says that it was the id-th to arrive.

        A step begins with its draws and takes in all that is stored before the next draw.
        """
        return self.record.tape(self.storage_spec, self.retrieval_spec, self.seed)

    def audit(self) -> Audit:
        """Measure what has happened so far: gaps and other waits, bounds kept or broken, co-occurrence, exposure."""
        return measure(self.tape())

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "record": plain(self.record.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(state, dict) and "capacity" in state and "record" not in state:
            raise ValueError("this state is of a memory that kept no record: load it into a reprise.Memory")
        super().load_state_dict(state)

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.record = Record.from_state(self.draws, original(state["record"]), self)
