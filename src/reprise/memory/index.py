"""Which slots hold which class, kept up to date in constant time per write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int, as_ints
from reprise.core.rng import Random
from reprise.memory.class_slots import LEAST, Rows


class Index:
    """Slots by class and classes by slot; storage writes to it, retrieval reads it.

    The slots of a class have an order that only writes change, so that retrieval can never influence storage. `size`
    slots are filled, always 0 … size−1. `residents` is the set of classes that hold a slot.
    """

    __slots__ = (
        "_label",
        "_rows",
        "_watchers",
        "capacity",
        "labels",
        "residents",
        "size",
        "stamp_of",
        "stamps",
        "writes",
    )

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self.writes = 0
        self.residents: set[int] = set()
        self.labels: NDArray[np.int64] = np.full(capacity, -1, np.int64)
        self._label = self.labels.data
        self.stamps: NDArray[np.int64] = np.full(capacity, -1, np.int64)
        self.stamp_of = self.stamps.data
        self._rows = Rows(capacity)
        self._watchers: list[set[int]] = []

    def put(self, slot: int, label: int) -> None:
        """Write an example of class `label` into `slot`: a filled one, or the first empty one."""
        if slot < 0:
            raise ValueError(f"slot must be 0 to {self.capacity - 1}, got {slot}")
        self.put_all((slot,), (label,))

    def put_all(self, slots: Sequence[int], labels: Sequence[int]) -> None:
        """`put` each label into its slot, in order; where the slot is −1 nothing is written."""
        label_of, stamp_of, rows, where = self._label, self.stamp_of, self._rows, self._rows.where
        pool, end, direct = rows.pool, rows.end, rows.direct
        for slot, label in zip(slots, labels):  # noqa: B905  (`strict` costs as much as a write)
            if slot < 0:
                continue
            old = label_of[slot]
            if old != label:
                if old >= 0:
                    number = old if old < direct else rows.number(old)
                    place = end[number] - 1
                    end[number] = place
                    last = pool[place]
                    if last != slot:
                        hole = where[slot]
                        pool[hole] = last
                        where[last] = hole
                    elif place == rows.first[number]:
                        self._flip(old)
                        rows.leave(old)
                elif slot == self.size:
                    self.size += 1
                else:
                    raise ValueError(f"slot {slot} cannot be written before slot {self.size}: slots fill in order")
                number = label if label < direct else rows.enter(label)
                place = rows.end[number]
                if not place % LEAST:  # only here can a row be empty or full
                    if place == rows.first[number]:
                        self._flip(label)
                    rows.make_room(number)
                    pool, end, direct = rows.pool, rows.end, rows.direct
                    place = end[number]
                pool[place] = slot
                where[slot] = place
                end[number] = place + 1
                label_of[slot] = label
            stamp_of[slot] = self.writes
            self.writes += 1

    def _flip(self, label: int) -> None:
        # A class that leaves and returns between two looks is back where it was: two flips cancel.
        self.residents ^= {label}
        for changed in self._watchers:
            changed ^= {label}

    def count(self, label: int) -> int:
        """How many slots hold a class; 0 if it is not resident."""
        return self._rows.count(label)

    def slot(self, label: int, turn: int) -> int:
        """The slot at place `turn`, below its count, of a resident class."""
        rows = self._rows
        return rows.pool[rows.first[rows.number(label)] + turn]

    def slots(self, label: int) -> list[int]:
        """All slots of a resident class, in order."""
        slots: list[int] = self._rows.row(label).tolist()
        return slots

    def choose(self, labels: Sequence[int], random: Random) -> list[int]:
        """A uniform slot of each of these resident classes."""
        rows = self._rows
        pool, end, direct = rows.pool, rows.end, rows.direct
        numbers = [label if label < direct else rows.number(label) for label in labels]
        firsts = list(map(rows.first.__getitem__, numbers))
        counts = [end[number] - first for number, first in zip(numbers, firsts)]  # noqa: B905
        if 0 in counts or min(numbers) < 0:
            raise KeyError(next(label for label in labels if label not in self.residents))
        turns = random.below_each(counts)
        return [pool[first + turn] for first, turn in zip(firsts, turns)]  # noqa: B905

    def watch(self) -> set[int]:
        """A live set of the classes whose residency has changed since its holder last cleared it."""
        changed = set(self.residents)
        self._watchers.append(changed)
        return changed

    def state_dict(self) -> dict[str, Any]:
        return {
            "labels": self.labels[: self.size].tolist(),
            "stamps": self.stamps[: self.size].tolist(),
            "order": [slot for label in sorted(self.residents) for slot in self._rows.row(label).tolist()],
            "writes": self.writes,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        labels, stamps, order = (as_ints(state[name], f"a state's {name}") for name in ("labels", "stamps", "order"))
        size = len(labels)
        if size > self.capacity:
            raise ValueError(f"the state holds {size} examples, the memory {self.capacity} at most")
        if labels.shape != stamps.shape or not np.array_equal(np.sort(order), np.arange(size)):
            raise ValueError(
                f"the state's {size} labels, {len(stamps)} stamps and {len(order)} places do not fit together: "
                f"its order must hold each of 0 to {size - 1} once"
            )
        self.size, self.writes = size, as_int(state["writes"], "a state's writes", size)
        self.labels[:size], self.stamps[:size] = labels, stamps
        self.labels[size:] = self.stamps[size:] = -1
        self.residents = set(labels.tolist())
        self._rows = Rows(self.capacity)
        for slot in order.tolist():
            self._rows.append(self._label[slot], slot)
