"""A deck of classes: what every schedule that works in passes is built on."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from contextlib import suppress

from reprise.core.rng import Random


class Residents:
    """The resident classes in order of id."""

    __slots__ = ("ids",)

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self.ids = [int(label) for label in ids]

    def change(self, arrived: Sequence[int], departed: Sequence[int]) -> None:
        for label in departed:
            del self.ids[bisect_left(self.ids, label)]
        if len(arrived) > 8:
            self.ids = sorted([*self.ids, *arrived])
        else:
            for label in arrived:
                insort(self.ids, label)


class Deck:
    """Classes still to come in the current pass (Algorithm 1's D); the last of the list is the next to come."""

    __slots__ = ("left",)

    def __init__(self, left: Sequence[int] = ()) -> None:
        self.left = [int(label) for label in left]

    def change(self, arrived: Sequence[int], departed: Sequence[int], random: Random) -> None:
        """Drop what has departed; put each arrival at a uniformly random position."""
        left = self.left
        for label in departed:
            with suppress(ValueError):  # it may have been dealt already
                left.remove(label)
        for label in arrived:
            left.insert(random.below(len(left) + 1), label)

    def deal(self, k: int, order: Callable[[], list[int]]) -> list[int]:
        """The next k classes. An empty deck is refilled by `order()`; classes already dealt here then go last."""
        left = self.left
        if k < len(left):
            dealt = left[: -k - 1 : -1]
            del left[-k:]
            return dealt
        dealt = left[::-1]
        left.clear()
        while len(dealt) < k:
            fresh = order()
            if not fresh:
                raise RuntimeError("a deck was refilled with no class at all: the schedule's state is not its memory's")
            already = set(dealt)
            if already:
                fresh = [c for c in fresh if c not in already] + [c for c in fresh if c in already]
            count = min(k - len(dealt), len(fresh))
            dealt += fresh[:count]
            left.extend(reversed(fresh[count:]))
        return dealt


def rounds(k: int, residents: list[int], random: Random) -> tuple[list[int], int]:
    """⌊k/C⌋ whole permutations, each drawn afresh, and how many slots remain (ClassSlots' first part)."""
    if k < len(residents):
        return [], k
    whole, rest = divmod(k, len(residents))
    return [label for _ in range(whole) for label in random.shuffled(residents)], rest
