"""Reservoir sampling: every example seen so far is kept with the same probability."""

from __future__ import annotations

from typing import Any

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.draws import ReservoirDraws


@register("storage", "reservoir")
class Reservoir(Policy):
    """Vitter's algorithm R, one decision per example with the true count.

    After n examples each of them is held with probability capacity/n. The example that arrives when n have
    been seen takes slot r, uniform on 0 … n, if r is a slot, and is let go otherwise.
    """

    def start(self, source: Source) -> None:
        self.tickets = ReservoirDraws(source("storage"))

    def assign(self, labels: list[int], index: Index) -> list[int]:
        fill = min(index.capacity - index.size, len(labels))
        slots = list(range(index.size, index.size + fill))
        self.tickets.skip(fill)
        slots += self.tickets.take(len(labels) - fill, index.capacity)
        index.put_all(slots, labels)
        return slots

    def state_dict(self) -> dict[str, Any]:
        return self.tickets.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tickets.load_state_dict(state)
