"""A row of slots for every class, all in one flat array.

Lists of Python ints would be plainer. But at a million slots they lie scattered over a hundred megabytes, and a step
would wait for main memory some five hundred times; in flat arrays it waits a fraction of that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LISTED = 4096  # up to so many classes, what is known of each is in lists: quicker, and small enough for the caches
LEAST = 4  # places a row begins with; every row starts at a multiple of it and has a multiple of it


class Rows:
    """Per class a row of `pool`: places `first` up to `end` hold its slots, those up to `_stop` are free for more.

    `where` is the place of every slot. A class is known by its number: its label, for labels below `direct`; larger
    ones are numbered apart, so that memory depends on how many classes are resident and not on what they are called.

    A full row moves to the end of the pool with twice the room. When the pool is used up, all rows are laid out afresh
    in one of twice the size they need. So a write costs O(1), amortised, and the pool holds O(slots).
    """

    __slots__ = ("_limit", "_stop", "_unused", "_used", "apart", "direct", "end", "first", "pool", "where")

    def __init__(self, capacity: int) -> None:
        # Views of arrays that give and take Python ints: several times faster than NumPy scalars.
        self.where = np.zeros(capacity, np.int64).data
        self.pool = np.zeros(0, np.int64).data
        self.first, self.end, self._stop = (_numbers(np.zeros(0, np.int64)) for _ in range(3))
        self.direct = 0
        self._limit = 2 * capacity + 1024
        self.apart: dict[int, int] = {}
        self._unused: list[int] = []  # numbers of large labels that have gone
        self._used = 0  # of the pool

    def number(self, label: int) -> int:
        """The number of a resident class; −1 for some classes that are not."""
        return label if label < self.direct else self.apart.get(label, -1)

    def count(self, label: int) -> int:
        number = self.number(label)
        return self.end[number] - self.first[number] if number >= 0 else 0

    def row(self, label: int) -> NDArray[np.int64]:
        """The slots of a resident class: a view, good until the next write."""
        number = self.number(label)
        return np.asarray(self.pool)[self.first[number] : self.end[number]]

    def enter(self, label: int) -> int:
        """The number of a class that is to be resident."""
        if label < self._limit:
            if label >= self.direct:
                self._widen(label + 1)
                self.direct = min(len(self.end), self._limit)
            return label
        number = self.apart.get(label, -1)
        if number < 0:
            number = self._unused.pop() if self._unused else self._limit + len(self.apart)
            self._widen(number + 1)
            self.apart[label] = number
        return number

    def leave(self, label: int) -> None:
        """A class is resident no more."""
        if label >= self.direct:
            self._unused.append(self.apart.pop(label))

    def _widen(self, numbers: int) -> None:
        have = len(self.end)
        if numbers > have:
            for name in ("first", "end", "_stop"):
                wide = np.zeros(max(numbers, 2 * have, 64), np.int64)
                wide[:have] = getattr(self, name)
                setattr(self, name, _numbers(wide))

    def append(self, label: int, slot: int) -> None:
        """Add a slot to a row; `Index.put_all` does the same without the calls."""
        number = self.enter(label)
        self.make_room(number)
        place = self.end[number]
        self.pool[place], self.where[slot], self.end[number] = slot, place, place + 1

    def make_room(self, number: int) -> None:
        """See to it that a row has a free place."""
        first, end = self.first[number], self.end[number]
        if end < self._stop[number]:
            return
        room = max(2 * (end - first), LEAST)
        if self._used + room > len(self.pool):
            self._gather(room)
            first, end = self.first[number], self.end[number]
        start, stop = self._used, self._used + end - first
        self.pool[start:stop] = row = self.pool[first:end]
        np.asarray(self.where)[np.asarray(row)] = np.arange(start, stop)
        self.first[number], self.end[number], self._stop[number] = start, stop, start + room
        self._used += room

    def _gather(self, extra: int) -> None:
        first, end = np.asarray(self.first), np.asarray(self.end)
        counts = end - first
        rooms = np.where(counts, (counts + counts // 4 + 2 * LEAST - 1) // LEAST * LEAST, 0)
        starts = np.cumsum(rooms) - rooms
        self._used = int(rooms.sum())
        # Place k of a row lies k after its first, in the old pool and in the new.
        turns = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = np.asarray(self.pool)[np.repeat(first, counts) + turns]
        places = np.repeat(starts, counts) + turns
        pool = np.zeros(2 * (self._used + extra), np.int64)
        pool[places] = slots
        np.asarray(self.where)[slots] = places
        self.pool, self.first = pool.data, _numbers(starts)
        self.end, self._stop = _numbers(starts + counts), _numbers(starts + rooms)


def _numbers(array: NDArray[np.int64]) -> list[int] | memoryview[int]:
    return array.tolist() if len(array) <= LISTED else array.data
