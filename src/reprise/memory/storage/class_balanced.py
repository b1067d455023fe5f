"""Class-balancing reservoir sampling: small classes grow at the largest one's cost, full classes renew themselves."""

from __future__ import annotations

from typing import Any

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.levels import Levels, evict_largest


@register("storage", "cbrs")
class ClassBalancedReservoir(Policy):
    """CBRS of Chrysakis and Moens (2020).

    Once the memory is filled, a class that has been a largest one is *full* and may not grow: its example
    replaces one of its own with probability (held of the class)/(seen of the class), which keeps a uniform
    sample of it. An example of any other class replaces a uniform one of a largest class. Whether a class was
    the largest while the memory was still filling does not count: then the first example ever seen would make
    its class full at size one.
    """

    def start(self, source: Source) -> None:
        self.random = source("storage")
        self.levels = Levels()
        self.seen: dict[int, int] = {}
        self.full: set[int] = set()
        self.top = 0  # the largest size for which full classes have been marked; 0 while the memory fills

    def assign(self, labels: list[int], index: Index) -> list[int]:
        slots = []
        seen, full, below, count = self.seen, self.full, self.random.below, self.levels.count
        for label in labels:
            seen[label] = arrived = seen.get(label, 0) + 1
            slot = index.size
            if slot < index.capacity:
                self.levels.add(label)
            elif label in full:
                turn = below(arrived)
                slot = index.slot(label, turn) if turn < count(label) else -1
            else:
                slot = self._replace(label, index)
            if slot >= 0:
                index.put(slot, label)
            slots.append(slot)
        return slots

    def _replace(self, label: int, index: Index) -> int:
        if self.top == 0:
            self._mark(label)
            if label in self.full:
                turn = self.random.below(self.seen[label])
                return index.slot(label, turn) if turn < self.levels.count(label) else -1
        slot = evict_largest(index, self.levels, self.random)
        self.levels.add(label)
        self._mark(label)
        return slot

    def _mark(self, label: int) -> None:
        # The largest size never rises once the memory is filled, so only two things can make a class full.
        if self.levels.top != self.top:
            self.top = self.levels.top
            self.full.update(self.levels.largest())
        elif self.levels.count(label) == self.top:
            self.full.add(label)

    def state_dict(self) -> dict[str, Any]:
        return {
            "levels": self.levels.state(),
            "seen": [[label, count] for label, count in sorted(self.seen.items())],
            "full": sorted(self.full),
            "top": self.top,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.levels = Levels.of(state["levels"])
        self.seen = {int(label): int(count) for label, count in state["seen"]}
        self.full = {int(label) for label in state["full"]}
        self.top = int(state["top"])
