"""A storage of one's own: the first example of every class is kept for ever, the others first in, first out.

reprise audit --import examples/plugins/my_storage.py --storage mine --stream glyphs-lt10 --retrieval rpr
"""

from __future__ import annotations

from typing import Any

from reprise.memory import Index, Policy, Source, register


@register("storage", "mine")
class Founders(Policy):
    """A slot that holds the first example of its class is never written again."""

    def start(self, source: Source) -> None:
        self.founders: dict[int, int] = {}  # the slot of each class's first example, if it was kept
        self.free: list[int] = []  # the other slots, the one written longest ago first

    def assign(self, labels: list[int], index: Index) -> list[int]:
        return [self.place(label, index) for label in labels]

    def place(self, label: int, index: Index) -> int:
        if index.size == index.capacity and not self.free:
            return -1
        slot = index.size if index.size < index.capacity else self.free.pop(0)
        if self.founders.setdefault(label, slot) != slot:
            self.free.append(slot)
        index.put(slot, label)
        return slot

    def state_dict(self) -> dict[str, Any]:
        return {"founders": dict(self.founders), "free": list(self.free)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.founders, self.free = dict(state["founders"]), list(state["free"])
