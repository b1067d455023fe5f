"""Balanced storage that always accepts: every example is kept, a largest class pays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.levels import Levels, release_largest, replace_largest


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
        fill = min(index.capacity - index.size, len(labels))
        slots = list(range(index.size, index.size + fill))
        index.put_all(slots, labels)
        for label in labels[:fill]:
            self.levels.add(label)
        return slots + replace_largest(labels[fill:], index, self.levels, self.eviction)

    def forget(self, slots: Sequence[int], moves: Iterable[tuple[int, int]], index: Index) -> None:
        self.levels.forget(slots, index)

    def release(self, count: int, index: Index, random: Random) -> list[int]:
        return release_largest(count, index, self.levels, random)

    def resized(self, index: Index) -> None:
        """Who goes depends on what is held alone."""

    def state_dict(self) -> dict[str, Any]:
        return {"levels": self.levels.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.levels = Levels.of(state["levels"])
