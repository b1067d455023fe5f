"""The resident classes in an order of no meaning, from which a few can be drawn uniformly in constant time each."""

from __future__ import annotations

from collections.abc import Container, Sequence

from reprise.core.rng import Random


class Ring:
    """A list that is shuffled only as far as it is drawn from; any starting order gives the same law."""

    __slots__ = ("ids",)

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self.ids = [int(label) for label in ids]

    def change(self, arrived: Sequence[int], departed: Sequence[int]) -> None:
        for label in departed:
            self.ids.remove(label)
        self.ids.extend(arrived)

    def draw(self, k: int, random: Random) -> list[int]:
        """k distinct classes, uniform, in uniform order."""
        ids = self.ids
        size = len(ids)
        for place, offset in enumerate(random.below_each(range(size, size - k, -1))):
            other = place + offset
            ids[place], ids[other] = ids[other], ids[place]
        return ids[:k]

    def draw_outside(self, k: int, excluded: Container[int], random: Random) -> list[int]:
        """As many as k distinct classes, uniform among those not excluded, in uniform order."""
        ids, place = self.ids, min(k, len(self.ids))
        drawn = [label for label in self.draw(place, random) if label not in excluded]
        while len(drawn) < k and place < len(ids):
            other = place + random.below(len(ids) - place)
            ids[place], ids[other] = ids[other], ids[place]
            if ids[place] not in excluded:
                drawn.append(ids[place])
            place += 1
        return drawn
