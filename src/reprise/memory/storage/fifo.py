"""First in, first out: the memory holds the latest examples."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.index import Index
from reprise.memory.protocols import Source


@register("storage", "fifo")
class Fifo(Policy):
    """Every example is kept, in the place of the oldest."""

    def start(self, source: Source) -> None:
        self.seen = 0
        # After a removal or a change of capacity, the stamps of all examples in order of age, each with its slot.
        self.queue: OrderedDict[int, int] | None = None

    def assign(self, labels: list[int], index: Index) -> list[int]:
        if self.queue is not None:
            return [self._assign(label, index, self.queue) for label in labels]
        capacity = index.capacity
        slots = [turn % capacity for turn in range(self.seen, self.seen + len(labels))]
        index.put_all(slots, labels)
        self.seen += len(labels)
        return slots

    @staticmethod
    def _assign(label: int, index: Index, queue: OrderedDict[int, int]) -> int:
        slot = index.size if index.size < index.capacity else queue.popitem(last=False)[1]
        queue[index.writes] = slot  # the stamp it is about to get
        index.put(slot, label)
        return slot

    def _queued(self, index: Index) -> OrderedDict[int, int]:
        if self.queue is None:
            stamps = index.stamps[: index.size]
            order = stamps.argsort()
            self.queue = OrderedDict(zip(stamps[order].tolist(), order.tolist(), strict=True))
        return self.queue

    def forget(self, slots: Sequence[int], moves: Iterable[tuple[int, int]], index: Index) -> None:
        queue = self._queued(index)
        for slot in slots:
            del queue[index.stamp_of[slot]]
        for source, target in moves:
            queue[index.stamp_of[source]] = target

    def release(self, count: int, index: Index, random: Random) -> list[int]:
        return list(islice(self._queued(index).values(), count))  # the oldest

    def resized(self, index: Index) -> None:
        self._queued(index)

    def state_dict(self) -> dict[str, Any]:
        queue = {} if self.queue is None else {"queue": [[stamp, slot] for stamp, slot in self.queue.items()]}
        return {"seen": self.seen, **queue}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = int(state["seen"])
        queue = state.get("queue")
        self.queue = None if queue is None else OrderedDict((int(stamp), int(slot)) for stamp, slot in queue)
