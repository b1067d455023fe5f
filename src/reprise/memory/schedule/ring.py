"""The resident classes in an order of no meaning, from which a few can be drawn uniformly in constant time each."""

from __future__ import annotations

from collections.abc import Container, Sequence

from reprise.core.rng import Random
from reprise.memory.schedule.order import CHUNK, LongList


class Ring:
    """A list that is shuffled only as far as it is drawn from; any starting order gives the same law.

    A departure leaves the order of the others as it is. Where there are many, the list lies in chunks from a departure
    on, until as many classes have been drawn as there are.
    """

    __slots__ = ("_idle", "_list", "_long", "size")

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self._list = [int(label) for label in ids]
        self._long: LongList | None = None  # instead of the list
        self._idle = 0  # classes drawn since the last departure
        self.size = len(self._list)

    @property
    def ids(self) -> list[int]:
        return self._list if self._long is None else self._long.items()

    def change(self, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if departed and self._long is None and len(self._list) > CHUNK:
            self._long, self._list = LongList(self._list), []
        if self._long is None:
            for label in departed:
                self._list.remove(label)
            self._list.extend(arrived)
        else:
            for label in departed:
                self._long.remove(label)
            for label in arrived:
                self._long.append(label)
            self._idle = 0 if departed else self._idle
        self.size += len(arrived) - len(departed)

    def draw(self, k: int, random: Random) -> list[int]:
        """k distinct classes, uniform, in uniform order."""
        size = self.size
        offsets = random.below_each(range(size, size - k, -1))
        if self._long is not None:
            swap = self._long.swap
            drawn = [swap(place, place + offset) for place, offset in enumerate(offsets)]
            self._idle += k
            if self._idle >= size:
                self._list, self._long, self._idle = self._long.items(), None, 0
            return drawn
        ids = self._list
        for place, offset in enumerate(offsets):
            other = place + offset
            ids[place], ids[other] = ids[other], ids[place]
        return ids[:k]

    def draw_outside(self, k: int, excluded: Container[int], random: Random) -> list[int]:
        """As many as k distinct classes, uniform among those not excluded, in uniform order."""
        place = min(k, self.size)
        drawn = [label for label in self.draw(place, random) if label not in excluded]
        while len(drawn) < k and place < self.size:
            label = self._next(place, random.below(self.size - place))
            if label not in excluded:
                drawn.append(label)
            place += 1
        return drawn

    def _next(self, place: int, offset: int) -> int:
        """Bring what is so far behind a place to that place."""
        if self._long is not None:
            return self._long.swap(place, place + offset)
        ids, other = self._list, place + offset
        ids[place], ids[other] = ids[other], ids[place]
        return ids[place]
