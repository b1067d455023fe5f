"""Which classes are the largest: a count per class, ranked in constant time per change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprise.core.rng import Random
from reprise.memory.index import Index


class Levels:
    """Classes grouped by how many examples they hold."""

    __slots__ = ("_count", "_place", "_rows", "top")

    def __init__(self) -> None:
        self._rows: list[list[int]] = [[]]  # classes that hold 0, 1, 2, … examples; row 0 stays empty
        self._count: dict[int, int] = {}
        self._place: dict[int, int] = {}
        self.top = 0

    def largest(self) -> list[int]:
        """The classes that hold the most examples."""
        return self._rows[self.top]

    def count(self, label: int) -> int:
        return self._count.get(label, 0)

    def add(self, label: int) -> None:
        self._move(label, self._count.get(label, 0), 1)

    def remove(self, label: int) -> None:
        self._move(label, self._count[label], -1)

    def forget(self, slots: Sequence[int], index: Index) -> set[int]:
        """Take off the examples in these slots, which are still there; return their classes."""
        labels: list[int] = index.labels[list(slots)].tolist() if slots else []
        for label in labels:
            self.remove(label)
        return set(labels)

    def _move(self, label: int, count: int, by: int) -> None:
        rows, place = self._rows, self._place
        if count:
            row = rows[count]
            last = row.pop()
            if last != label:
                row[place[label]] = last
                place[last] = place[label]
            elif not row and count == self.top:
                self.top -= 1
        count += by
        if not count:
            del self._count[label], place[label]
            return
        if count > self.top:
            self.top = count
            if count == len(rows):
                rows.append([])
        row = rows[count]
        self._count[label], place[label] = count, len(row)
        row.append(label)

    def state(self) -> list[list[int]]:
        return [list(row) for row in self._rows[: self.top + 1]]

    @classmethod
    def of(cls, rows: list[list[int]]) -> Levels:
        """The levels that gave this state."""
        levels = cls()
        levels._rows = [[int(label) for label in row] for row in rows] or [[]]
        for count, row in enumerate(levels._rows):
            for place, label in enumerate(row):
                levels._count[label], levels._place[label], levels.top = count, place, count
        return levels


def release_largest(count: int, index: Index, levels: Levels, random: Random) -> list[int]:
    """So many slots to give up: one by one a uniform example of a uniform largest class, as in `evict_largest`."""
    levels = Levels.of(levels.state())
    losses: dict[int, int] = {}
    for _ in range(count):
        largest = levels.largest()
        label = largest[random.below(len(largest))]
        levels.remove(label)
        losses[label] = losses.get(label, 0) + 1
    return [
        index.slot(label, turn) for label, loss in losses.items() for turn in random.sample(index.count(label), loss)
    ]


def evict_largest(index: Index, levels: Levels, random: Random) -> int:
    """Give up a uniform example of a uniform largest class; return its slot."""
    largest = levels.largest()
    label = largest[random.below(len(largest))]
    slot = index.slot(label, random.below(levels.top))
    levels.remove(label)
    return slot


def replace_largest(labels: list[int], index: Index, levels: Levels, random: Random) -> list[int]:
    """Each of these takes the slot of a uniform example of a uniform largest class, one after the other."""
    slots: list[int] = []

    def freed() -> Iterator[int]:
        # As `evict_largest`. `put_all` asks for a slot when the last one is written, so that each finds the memory as
        # it is by then.
        below, slot_of, move, count = random.below, index.slot, levels._move, levels._count
        for label in labels:
            top = levels.top
            largest = levels._rows[top]
            paying = largest[below(len(largest))]
            slot = slot_of(paying, below(top))
            move(paying, top, -1)
            slots.append(slot)
            yield slot
            move(label, count.get(label, 0), 1)

    index.put_all(freed(), labels)
    return slots
