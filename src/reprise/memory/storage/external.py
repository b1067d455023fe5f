"""Storage of your own: the memory is told what every slot holds, and decides only what returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.registry import Policy, register
from reprise.memory.index import Index
from reprise.memory.protocols import Score, Source


@register("storage", "external")
class External(Policy):
    """Nothing is decided here: `Memory.assign(slots, labels)` says what the caller's slots hold.

    The caller's slots may be filled in any order and have holes; an index has none. So each has an inner slot, and
    `names` says which slot of the caller an inner slot stands for.
    """

    def start(self, source: Source) -> None:
        self.names: list[int] = []
        self.inner: dict[int, int] = {}

    def assign(self, labels: list[int], index: Index) -> list[int]:
        raise ValueError("'external' storage is your own: say what a slot holds by assign(slots, labels)")

    def put_all(self, slots: Sequence[int], labels: Sequence[int], index: Index) -> None:
        """Each of the caller's slots now holds an example of its class."""
        inner, names = self.inner, self.names
        for slot in slots:
            if slot not in inner:
                inner[slot] = len(names)
                names.append(slot)
        index.put_all([inner[slot] for slot in slots], labels)

    def named(self, slots: Sequence[int]) -> NDArray[np.int64]:
        """The caller's slots that these inner slots stand for."""
        return np.array([self.names[slot] for slot in slots], np.int64)

    def scored_by_name(self, score: Score) -> Score:
        """The score as a function of inner slots."""
        return lambda slots: score(self.named(slots.tolist()))

    def forget(self, slots: Sequence[int], moves: Iterable[tuple[int, int]], index: Index) -> None:
        for slot in slots:
            del self.inner[self.names[slot]]
        for source, target in moves:
            self.names[target] = name = self.names[source]
            self.inner[name] = target
        del self.names[len(self.names) - len(slots) :]

    def resized(self, index: Index) -> None:
        """The slots are the caller's: there is nothing to do."""

    def state_dict(self) -> dict[str, Any]:
        return {"names": list(self.names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.names = [int(name) for name in state["names"]]
        self.inner = {name: inner for inner, name in enumerate(self.names)}
