"""Reservoir sampling: every example seen so far is kept with the same probability."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def assign(self, labels: list[int], index: Index) -> NDArray[np.int64]:
        if index.size < index.capacity:
            return self._fill(labels, index)
        slots, labels, kept = self.tickets.take(labels, index.capacity)
        index.put_all(kept, labels)
        return slots

    def _fill(self, labels: list[int], index: Index) -> NDArray[np.int64]:
        first = index.size
        fill = min(index.capacity - first, len(labels))
        self.tickets.skip(fill)
        index.put_all(range(first, first + fill), labels)
        rest = self.assign(labels[fill:], index) if fill < len(labels) else ()
        return np.array([*range(first, first + fill), *rest], np.int64)

    def forget(self, slots: Sequence[int], moves: Iterable[tuple[int, int]], index: Index) -> None:
        """Who comes next finds an empty slot; n counts on."""

    def resized(self, index: Index) -> None:
        self.tickets.resized()

    def state_dict(self) -> dict[str, Any]:
        return self.tickets.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tickets.load_state_dict(state)
