"""Orders of many classes in which one can be found, put in or taken out in logarithmic time."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import chain, islice

CHUNK = 512  # up to so many classes a plain list is as good: its work is bounded by this, and quick


class Counts:
    """How many things lie in each of a row of boxes; where the r-th of all lies takes O(log boxes) (Fenwick 1994)."""

    __slots__ = ("_sums", "_top")

    def __init__(self, counts: Iterable[int]) -> None:
        self._sums = sums = [0, *counts]  # entry i sums the last i & −i boxes up to the i-th
        for place in range(1, len(sums)):
            if (above := place + (place & -place)) < len(sums):
                sums[above] += sums[place]
        self._top = 1 << (len(sums) - 1).bit_length() >> 1

    def add(self, box: int, by: int) -> None:
        sums, place = self._sums, box + 1
        while place < len(sums):
            sums[place] += by
            place += place & -place

    def append(self, count: int) -> None:
        """One more box at the end."""
        sums = self._sums
        place = len(sums)
        below, first = place - 1, place - (place & -place)
        while below > first:
            count += sums[below]
            below -= below & -below
        sums.append(count)
        self._top = 1 << place.bit_length() >> 1

    def find(self, rank: int) -> tuple[int, int]:
        """The box of the thing with so many before it, and how many of those lie in the same box."""
        sums, place, step = self._sums, 0, self._top
        while step:
            reached = place + step
            if reached < len(sums) and sums[reached] <= rank:
                place = reached
                rank -= sums[reached]
            step >>= 1
        return place, rank


class LongList:
    """A list of many different numbers: by place or by value, an insertion or a removal takes O(log size), amortised.

    It lies in chunks. Insertions are at random places or at the end, so that chunks grow alike; when as many have been
    inserted as there were, all is laid out afresh.
    """

    __slots__ = ("_chunks", "_counts", "_home", "_room", "size")

    def __init__(self, items: list[int]) -> None:
        self._lay_out(items)

    def _lay_out(self, items: list[int]) -> None:
        self.size = len(items)
        self._chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)] or [[]]
        self._counts = Counts(map(len, self._chunks))
        self._home: dict[int, int] = {}  # the chunk of every number, and of some that have been popped
        for number, chunk in enumerate(self._chunks):
            self._home.update(dict.fromkeys(chunk, number))
        self._room = max(len(items), CHUNK)  # insertions until the next time

    def items(self) -> list[int]:
        """All of it, as a list."""
        return list(chain.from_iterable(self._chunks))

    def insert(self, place: int, item: int) -> None:
        number, offset = self._counts.find(place - 1) if place else (0, -1)
        self._chunks[number].insert(offset + 1, item)
        self._added(number, item)

    def append(self, item: int) -> None:
        if len(self._chunks[-1]) >= CHUNK:
            self._chunks.append([])
            self._counts.append(0)
        self._chunks[-1].append(item)
        self._added(len(self._chunks) - 1, item)

    def _added(self, number: int, item: int) -> None:
        self._home[item] = number
        self._counts.add(number, 1)
        self.size += 1
        self._room -= 1
        if not self._room:
            self._lay_out(self.items())

    def remove(self, item: int) -> None:
        """Take a number out, if it is there."""
        number = self._home.pop(item, len(self._chunks))
        if number < len(self._chunks):
            try:
                self._chunks[number].remove(item)
            except ValueError:  # it has been popped
                return
            self._counts.add(number, -1)
            self.size -= 1

    def pop(self, count: int) -> list[int]:
        """The last `count`, the very last first, of a sequence that nothing is ever appended to.

        The counts of the chunks at the end are left as they are: too large, which no search for a place can notice.
        """
        popped: list[int] = []
        while len(popped) < count:
            chunk, more = self._chunks[-1], count - len(popped)
            popped += chunk[: -more - 1 : -1]
            del chunk[-more:]
            if not chunk and len(self._chunks) > 1:
                del self._chunks[-1]
        self.size -= count
        return popped

    def last_outside(self, excluded: Container[int], count: int) -> list[int]:
        """The last `count` that are not excluded, or all there are, the very last first. They stay where they are."""
        outside = (item for chunk in reversed(self._chunks) for item in reversed(chunk) if item not in excluded)
        return list(islice(outside, count))

    def swap(self, one: int, other: int) -> int:
        """Exchange the numbers at two places; return the one that was at the second."""
        chunks, home, find = self._chunks, self._home, self._counts.find
        a, first = (0, one) if one < len(chunks[0]) else find(one)
        b, second = (0, other) if other < len(chunks[0]) else find(other)
        here, there = chunks[a], chunks[b]
        back, item = here[first], there[second]
        here[first], there[second] = item, back
        home[item], home[back] = a, b
        return item


class Ranked:
    """A set of small whole numbers in their order: the r-th of them, one more or one less takes O(log largest)."""

    __slots__ = ("_counts", "_limit", "_members")

    def __init__(self, members: Iterable[int] = ()) -> None:
        self._lay_out(set(members))

    def _lay_out(self, members: set[int]) -> None:
        self._members = members
        self._limit = 2 * max(members, default=0) + 8
        self._counts = Counts(int(number in members) for number in range(self._limit))

    def add(self, number: int) -> None:
        """Put in a number that is not there."""
        self._members.add(number)
        if number < self._limit:
            self._counts.add(number, 1)
        else:
            self._lay_out(self._members)

    def remove(self, number: int) -> None:
        self._members.remove(number)
        self._counts.add(number, -1)

    def at(self, rank: int) -> int:
        return self._counts.find(rank)[0]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._members))
