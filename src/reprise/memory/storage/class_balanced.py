"""Class-balancing reservoir sampling: small classes grow at the largest one's cost, full classes renew themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.levels import Levels, evict_largest, release_largest


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
        if self.full.issuperset(labels):
            return self._renew(labels, index)
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

    def _renew(self, labels: list[int], index: Index) -> list[int]:
        """As `assign`, where all classes are full: only one's own may be replaced, so that no count changes."""
        seen = self.seen
        arrived = []
        for label in labels:
            seen[label] = number = seen[label] + 1
            arrived.append(number)
        slots, kept, held = [-1] * len(labels), [], self.levels.count
        for place, turn in self.random.few_below(arrived, self.levels.top):
            if turn < held(label := labels[place]):
                slots[place] = index.slot(label, turn)
                kept.append(place)
        index.put_all([slots[place] for place in kept], [labels[place] for place in kept])
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

    def forget(self, slots: Sequence[int], moves: Iterable[tuple[int, int]], index: Index) -> None:
        labels = self.levels.forget(slots, index)
        for label in labels:
            if not self.levels.count(label):
                self.seen.pop(label, None)  # what comes of it from now on is a new sample
        self._fill_again()

    def release(self, count: int, index: Index, random: Random) -> list[int]:
        return release_largest(count, index, self.levels, random)

    def resized(self, index: Index) -> None:
        self._fill_again()

    def _fill_again(self) -> None:
        """As in the beginning, no class is full until the memory is and one of them is the largest."""
        self.full.clear()
        self.top = 0

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
