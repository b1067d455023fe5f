"""Balanced reservoir sampling: a reservoir's acceptance, the largest class pays."""

from __future__ import annotations

from typing import Any

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.draws import ReservoirDraws
from reprise.memory.storage.levels import Levels, evict_largest


@register("storage", "brs")
class BalancedReservoir(Policy):
    """Accepts exactly when `reservoir` would; evicts a uniform example of a largest class.

    Ties between largest classes are broken uniformly (Buzzega et al. 2020). Who goes is decided by a random
    stream of its own, so that with the same seed `brs` and `reservoir` accept the very same examples.
    """

    def start(self, source: Source) -> None:
        self.tickets = ReservoirDraws(source("storage"))
        self.eviction = source("eviction")
        self.levels = Levels()

    def assign(self, labels: list[int], index: Index) -> list[int]:
        put, add = index.put, self.levels.add
        fill = min(index.capacity - index.size, len(labels))
        slots = list(range(index.size, index.size + fill))
        self.tickets.skip(fill)
        slots += self.tickets.take(len(labels) - fill, index.capacity)
        for turn, slot in enumerate(slots):
            if slot >= 0:
                if turn >= fill:
                    slots[turn] = slot = evict_largest(index, self.levels, self.eviction)
                put(slot, labels[turn])
                add(labels[turn])
        return slots

    def state_dict(self) -> dict[str, Any]:
        return {"tickets": self.tickets.state_dict(), "levels": self.levels.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tickets.load_state_dict(state["tickets"])
        self.levels = Levels.of(state["levels"])
