"""Which slots hold which class, kept up to date in constant time per write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.core.arguments import as_int, as_ints
from reprise.core.rng import MASK, Random
from reprise.memory.class_slots import LEAST, Rows


class Index:
    """Slots by class and classes by slot; storage writes to it, retrieval reads it.

    The slots of a class have an order that only writes change, so that retrieval can never influence storage. `size`
    slots are filled, always 0 … size−1. `residents` is the set of classes that hold a slot.
    """

    __slots__ = (
        "_label",
        "_moved",
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
        self._moved: dict[int, int] = {}  # by stamp, the slot of an example that has moved; some may have gone

    def put(self, slot: int, label: int) -> None:
        """Write an example of class `label` into `slot`: a filled one, or the first empty one."""
        if slot < 0:
            raise ValueError(f"slot must be 0 to {self.capacity - 1}, got {slot}")
        self.put_all((slot,), (label,))

    def put_all(self, slots: Iterable[int], labels: Sequence[int]) -> None:
        """`put` each label into its slot, in order; where the slot is −1 nothing is written.

        A slot is asked for when the writes before it are done.
        """
        label_of, stamp_of, rows, writes = self._label, self.stamp_of, self._rows, self.writes
        pool, where, end, direct = rows.pool, rows.where, rows.end, rows.direct
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
            stamp_of[slot] = writes
            writes += 1
            self.writes = writes

    def _flip(self, label: int) -> None:
        # A class that leaves and returns between two looks is back where it was: two flips cancel.
        self.residents ^= {label}
        for changed in self._watchers:
            changed ^= {label}

    def remove(self, slots: Sequence[int], sources: Sequence[int], targets: Sequence[int]) -> None:
        """Empty these filled slots, then move the example of each source to its target (`moves.closing`)."""
        label_of, stamp_of, rows, where = self._label, self.stamp_of, self._rows, self._rows.where
        pool, end = rows.pool, rows.end
        for slot in slots:
            label = label_of[slot]
            number = rows.number(label)
            place = end[number] - 1
            end[number] = place
            last = pool[place]
            if last != slot:
                hole = where[slot]
                pool[hole] = last
                where[last] = hole
            elif place == rows.first[number]:
                self._flip(label)
                rows.leave(label)
            self._moved.pop(stamp_of[slot], None)
            label_of[slot] = stamp_of[slot] = -1
        for source, target in zip(sources, targets, strict=True):
            place = where[source]
            pool[place] = target
            where[target] = place
            label_of[target], stamp_of[target] = label_of[source], stamp_of[source]
            label_of[source] = stamp_of[source] = -1
            self._moved[stamp_of[target]] = target
        self.size -= len(slots)
        if len(self._moved) > 2 * self.capacity:  # most of them have been overwritten since
            self._moved = {stamp: slot for stamp, slot in self._moved.items() if self.find(slot, stamp) == slot}

    def resize(self, capacity: int) -> None:
        """Have room for so many slots, `size` at least."""
        if capacity < self.size:
            raise ValueError(f"{self.size} slots are filled, so there must be room for as many, got {capacity}")
        size = self.size
        for name, empty in (("labels", -1), ("stamps", -1)):
            wide = np.full(capacity, empty, np.int64)
            wide[:size] = getattr(self, name)[:size]
            setattr(self, name, wide)
        where = np.zeros(capacity, np.int64)
        where[:size] = self._rows.where[:size]
        self.capacity, self._label, self.stamp_of, self._rows.where = (
            capacity,
            self.labels.data,
            self.stamps.data,
            where.data,
        )

    def find(self, slot: int, stamp: int) -> int:
        """Where the example is that was written to `slot` with this stamp; −1 if it has gone."""
        if slot < self.capacity and self.stamp_of[slot] == stamp:
            return slot
        slot = self._moved.get(stamp, -1)
        return slot if 0 <= slot < self.capacity and self.stamp_of[slot] == stamp else -1

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
        if not rows.apart:  # a class is its own number
            pool, first, end = rows.pool, rows.first, rows.end
            words = random.take(len(labels))
            try:
                # As `Random.below`. The test fails where a word is to be rejected and where the class has no slot.
                slots = [
                    pool[start + (product >> 64)]
                    for label, word in zip(labels, words)  # noqa: B905
                    if (product := word * (count := end[label] - (start := first[label]))) & MASK > count
                ]
            except IndexError:  # a class that was never resident
                slots = []
            if len(slots) == len(words):
                return slots
            random.give_back(len(words))
        return self._choose(labels, random)

    def _choose(self, labels: Sequence[int], random: Random) -> list[int]:
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
        moved = [[stamp, slot] for stamp, slot in sorted(self._moved.items()) if self.find(slot, stamp) == slot]
        return {
            **({"moved": moved} if moved else {}),
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
        self._moved = {int(stamp): int(slot) for stamp, slot in state.get("moved", ())}
        self._rows = Rows(self.capacity)
        for slot in order.tolist():
            self._rows.append(self._label[slot], slot)
