"""Which slots hold which class, kept up to date in constant time per write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.specs import whole, whole_row


class Index:
    """Slots by class and classes by slot; storage writes to it, retrieval reads it.

    `members[c]` lists the slots of class c, in an order that only writes change, so that retrieval can never
    influence storage. `size` slots are filled, always 0 … size−1.
    """

    __slots__ = (
        "_label",
        "_place",
        "_stamps",
        "_watchers",
        "capacity",
        "labels",
        "members",
        "size",
        "stamps",
        "writes",
    )

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self.writes = 0
        self.members: dict[int, list[int]] = {}
        self.labels: NDArray[np.int64] = np.full(capacity, -1, np.int64)
        self._stamps: NDArray[np.int64] = np.full(capacity, -1, np.int64)
        # Views of the same memory that give and take Python ints: several times faster than NumPy scalars.
        self._label = self.labels.data
        self.stamps = self._stamps.data  # the number of the write that filled a slot: names an example
        self._place = np.zeros(capacity, np.int64).data  # where in its class list a slot stands
        self._watchers: list[set[int]] = []

    def put(self, slot: int, label: int) -> None:
        """Write an example of class `label` into `slot`: a filled one, or the first empty one."""
        old = self._label[slot]
        if old != label:
            if old >= 0:
                self._leave(slot, old)
            elif slot == self.size:
                self.size += 1
            else:
                raise ValueError(f"slot {slot} cannot be written before slot {self.size}: slots fill in order")
            row = self.members.get(label)
            if row is None:
                self.members[label] = [slot]
                self._place[slot] = 0
                self._flip(label)
            else:
                self._place[slot] = len(row)
                row.append(slot)
            self._label[slot] = label
        self.stamps[slot] = self.writes
        self.writes += 1

    def _leave(self, slot: int, label: int) -> None:
        row = self.members[label]
        last = row.pop()
        if last != slot:
            place = self._place[slot]
            row[place] = last
            self._place[last] = place
        elif not row:
            del self.members[label]
            self._flip(label)

    def _flip(self, label: int) -> None:
        # A class that leaves and returns between two looks is back where it was: two flips cancel.
        for changed in self._watchers:
            changed ^= {label}

    def watch(self) -> set[int]:
        """A live set of the classes whose residency has changed since its holder last cleared it."""
        changed = set(self.members)
        self._watchers.append(changed)
        return changed

    def state_dict(self) -> dict[str, Any]:
        classes = sorted(self.members)
        return {
            "labels": self.labels[: self.size].copy(),
            "stamps": self._stamps[: self.size].copy(),
            "order": np.array([slot for label in classes for slot in self.members[label]], np.int64),
            "writes": self.writes,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        labels, stamps, order = (whole_row(state[name], f"a state's {name}") for name in ("labels", "stamps", "order"))
        size = len(labels)
        if size > self.capacity:
            raise ValueError(f"the state holds {size} examples, the memory {self.capacity} at most")
        if labels.shape != stamps.shape or not np.array_equal(np.sort(order), np.arange(size)):
            raise ValueError("the state's slots, labels and order do not fit together")
        self.size, self.writes, self.members = size, whole(state["writes"], "a state's writes", size), {}
        self.labels[:size], self._stamps[:size] = labels, stamps
        self.labels[size:] = self._stamps[size:] = -1
        for slot in order.tolist():
            row = self.members.setdefault(self._label[slot], [])
            self._place[slot] = len(row)
            row.append(slot)
