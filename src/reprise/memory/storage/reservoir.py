"""Reservoir sampling: every example seen so far is kept with the same probability."""

from __future__ import annotations

from typing import Any

from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.specs import Policy, register


@register("storage", "reservoir")
class Reservoir(Policy):
    """Vitter's algorithm R, one decision per example with the true count.

    After n examples each of them is held with probability capacity/n. The example that arrives when n have
    been seen takes slot r, uniform on 0 … n, if r is a slot, and is let go otherwise.
    """

    def start(self, source: Source) -> None:
        self.random = source("storage")
        self.seen = 0

    def place(self, labels: list[int], index: Index) -> list[int]:
        capacity, put = index.capacity, index.put
        fill = min(capacity - index.size, len(labels))
        slots = list(range(index.size, index.size + fill))
        for slot, label in zip(slots, labels, strict=False):
            put(slot, label)
        self.seen += fill
        rest = len(labels) - fill
        if rest:
            drawn = self.random.below_each(range(self.seen + 1, self.seen + rest + 1))
            for turn, slot in enumerate(drawn):
                if slot < capacity:
                    put(slot, labels[fill + turn])
                else:
                    drawn[turn] = -1
            slots += drawn
            self.seen += rest
        return slots

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = int(state["seen"])
