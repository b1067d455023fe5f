"""First in, first out: the memory holds the latest examples."""

from __future__ import annotations

from typing import Any

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Source


@register("storage", "fifo")
class Fifo(Policy):
    """Every example is kept, in the place of the oldest."""

    def start(self, source: Source) -> None:
        self.seen = 0

    def assign(self, labels: list[int], index: Index) -> list[int]:
        capacity = index.capacity
        slots = [turn % capacity for turn in range(self.seen, self.seen + len(labels))]
        index.put_all(slots, labels)
        self.seen += len(labels)
        return slots

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = int(state["seen"])
