"""Balanced reservoir sampling: a reservoir's acceptance, the largest class pays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.index import Index
from reprise.memory.protocols import Source
from reprise.memory.storage.draws import ReservoirDraws
from reprise.memory.storage.levels import Levels, release_largest, replace_largest


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

    def assign(self, labels: list[int], index: Index) -> NDArray[np.int64]:
        if index.size < index.capacity:
            return self._fill(labels, index)
        slots, labels, _ = self.tickets.take(labels, index.capacity)
        if labels:
            self.tickets.replace(replace_largest(labels, index, self.levels, self.eviction))  # and so in `slots`
        return slots

    def _fill(self, labels: list[int], index: Index) -> NDArray[np.int64]:
        first = index.size
        fill = min(index.capacity - first, len(labels))
        self.tickets.skip(fill)
        index.put_all(range(first, first + fill), labels)
        for label in labels[:fill]:
            self.levels.add(label)
        rest = self.assign(labels[fill:], index) if fill < len(labels) else ()
        return np.array([*range(first, first + fill), *rest], np.int64)

    def forget(self, slots: Sequence[int], moves: Iterable[tuple[int, int]], index: Index) -> None:
        self.levels.forget(slots, index)

    def release(self, count: int, index: Index, random: Random) -> list[int]:
        return release_largest(count, index, self.levels, random)

    def resized(self, index: Index) -> None:
        self.tickets.resized()

    def state_dict(self) -> dict[str, Any]:
        return {"tickets": self.tickets.state_dict(), "levels": self.levels.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tickets.load_state_dict(state["tickets"])
        self.levels = Levels.of(state["levels"])
