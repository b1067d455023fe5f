"""Which classes are the largest: a count per class, ranked in constant time per change."""

from __future__ import annotations

from reprise.memory.index import Index
from reprise.rng import Random


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
        count = self._count.get(label, 0) + 1
        if count > 1:
            self._leave(label, count - 1)
        self._enter(label, count)
        self.top = max(self.top, count)

    def remove(self, label: int) -> None:
        count = self._count[label]
        self._leave(label, count)
        if count > 1:
            self._enter(label, count - 1)
        else:
            del self._count[label], self._place[label]
        if not self._rows[self.top] and self.top:
            self.top -= 1

    def _enter(self, label: int, count: int) -> None:
        if count == len(self._rows):
            self._rows.append([])
        row = self._rows[count]
        self._count[label], self._place[label] = count, len(row)
        row.append(label)

    def _leave(self, label: int, count: int) -> None:
        row, place = self._rows[count], self._place[label]
        last = row.pop()
        if last != label:
            row[place] = last
            self._place[last] = place

    def state(self) -> list[list[int]]:
        return [list(row) for row in self._rows[: self.top + 1]]

    @classmethod
    def of(cls, rows: list[list[int]]) -> Levels:
        """The levels that gave this state."""
        levels = cls()
        for count, row in enumerate(rows):
            if count == len(levels._rows):
                levels._rows.append([])
            for label in row:
                levels._enter(int(label), count)
                levels.top = count
        return levels


def evict_largest(index: Index, levels: Levels, random: Random) -> int:
    """Give up a uniform example of a uniform largest class; return its slot."""
    largest = levels.largest()
    label = largest[random.below(len(largest))]
    row = index.members[label]
    levels.remove(label)
    return row[random.below(len(row))]
