"""Which classes are the largest: a count per class, ranked in constant time per change."""

from __future__ import annotations

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


def evict_largest(index: Index, levels: Levels, random: Random) -> int:
    """Give up a uniform example of a uniform largest class; return its slot."""
    largest = levels.largest()
    label = largest[random.below(len(largest))]
    slot = index.slot(label, random.below(levels.top))
    levels.remove(label)
    return slot
