"""Balanced reservoir sampling: a reservoir's acceptance, the largest class pays."""

from __future__ import annotations

from typing import Any

from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.levels import Levels, evict_largest
from reprise.specs import Policy, register


@register("storage", "brs")
class BalancedReservoir(Policy):
    """Accepts exactly when `reservoir` would; evicts a uniform example of a largest class.

    Ties between largest classes are broken uniformly (Buzzega et al. 2020). Who goes is decided by a random
    stream of its own, so that with the same seed `brs` and `reservoir` accept the very same examples.
    """

    def start(self, source: Source) -> None:
        self.random = source("storage")
        self.eviction = source("eviction")
        self.seen = 0
        self.levels = Levels()

    def place(self, labels: list[int], index: Index) -> list[int]:
        put, add = index.put, self.levels.add
        fill = min(index.capacity - index.size, len(labels))
        slots = list(range(index.size, index.size + fill))
        rest = range(self.seen + fill + 1, self.seen + len(labels) + 1)
        for slot, label in zip(slots, labels, strict=False):
            put(slot, label)
            add(label)
        for turn, drawn in enumerate(self.random.below_each(rest), fill):
            slot = -1
            if drawn < index.capacity:
                slot = evict_largest(index, self.levels, self.eviction)
                put(slot, labels[turn])
                add(labels[turn])
            slots.append(slot)
        self.seen += len(labels)
        return slots

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "levels": self.levels.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = int(state["seen"])
        self.levels = Levels.of(state["levels"])
