"""Balanced storage that always accepts: every example is kept, a largest class pays."""

from __future__ import annotations

from typing import Any

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.levels import Levels, evict_largest


@register("storage", "brs-always")
class AlwaysBalanced(Policy):
    """Keeps every example that comes; once full, it evicts a uniform example of a largest class.

    `brs` with acceptance left out. Class counts end nearly equal, also under a long tail, and old examples of a class
    leave sooner: what is stored of a class leans towards what came last.
    """

    def start(self, source: Source) -> None:
        self.eviction = source("eviction")
        self.levels = Levels()

    def assign(self, labels: list[int], index: Index) -> list[int]:
        slots = []
        for label in labels:
            slot = index.size
            if slot == index.capacity:
                slot = evict_largest(index, self.levels, self.eviction)
            index.put(slot, label)
            self.levels.add(label)
            slots.append(slot)
        return slots

    def state_dict(self) -> dict[str, Any]:
        return {"levels": self.levels.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.levels = Levels.of(state["levels"])
