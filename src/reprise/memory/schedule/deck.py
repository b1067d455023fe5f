"""A deck of classes: what every schedule that works in passes is built on."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import Protocol

from reprise.core.rng import Random
from reprise.memory.schedule.order import CHUNK, LongList


class Residents:
    """The resident classes in order of id. Their list is made anew when it is asked for after a change.

    That takes time in proportion to their number, so it is to be asked for once a pass; `size` is always known.
    """

    __slots__ = ("_come", "_gone", "_ids", "size")

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self._ids = [int(label) for label in ids]
        self._come: set[int] = set()  # not in the list yet
        self._gone: set[int] = set()  # still in it; one that has come again is in both
        self.size = len(self._ids)

    @property
    def ids(self) -> list[int]:
        if self._come or self._gone:
            gone = self._gone
            self._ids = [label for label in self._ids if label not in gone] if gone else self._ids
            self._ids = sorted([*self._ids, *sorted(self._come)])
            self._come, self._gone = set(), set()
        return self._ids

    def change(self, arrived: Sequence[int], departed: Sequence[int]) -> None:
        self.size += len(arrived) - len(departed)
        if len(self._ids) > CHUNK:
            for label in departed:
                (self._come.remove if label in self._come else self._gone.add)(label)
            self._come.update(arrived)
            return
        ids = self.ids
        for label in departed:
            del ids[bisect_left(ids, label)]
        if len(arrived) > 8:
            self._ids = sorted([*ids, *arrived])
        else:
            for label in arrived:
                insort(ids, label)


class Deck:
    """Classes still to come in the current pass (Algorithm 1's D); the last of the list is the next to come."""

    __slots__ = ("_left", "_long")

    def __init__(self, left: Sequence[int] = ()) -> None:
        self._left = [int(label) for label in left]
        self._long: LongList | None = None  # instead of the list, from a change of many to the next pass

    @property
    def left(self) -> list[int]:
        if self._long is not None:
            self._left, self._long = self._long.items(), None
        return self._left

    def __len__(self) -> int:
        return len(self._left) if self._long is None else self._long.size

    def change(self, arrived: Sequence[int], departed: Sequence[int], random: Random) -> None:
        """Drop what has departed; put each arrival at a uniformly random position."""
        if self._long is None and len(self._left) + len(arrived) > CHUNK:
            self._long = LongList(self._left)
        long, left = self._long, self._left
        if long is not None:
            for label in departed:
                long.remove(label)
            for label in arrived:
                long.insert(random.below(long.size + 1), label)
            return
        for label in departed:
            with suppress(ValueError):  # it may have been dealt already
                left.remove(label)
        for label in arrived:
            left.insert(random.below(len(left) + 1), label)

    def deal(self, k: int, order: Callable[[], list[int]]) -> list[int]:
        """The next k classes. An empty deck is refilled by `order()`; classes already dealt here then go last."""
        if self._long is not None and k < self._long.size:
            return self._long.pop(k)
        left = self._left if self._long is None else self.left
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
            if dealt:
                already = set(dealt)
                fresh = [c for c in fresh if c not in already] + [c for c in fresh if c in already]
            count = min(k - len(dealt), len(fresh))
            dealt += fresh[:count]
            left.extend(reversed(fresh[count:]))
        return dealt

    def deal_among(self, k: int, barred: Set[int], order: Callable[[Set[int]], list[int]]) -> list[int]:
        """The next k classes that are not barred; there are more than k. Those that are barred keep their places.

        When no other is left, `order(waiting)` gives those that do not wait in the deck: they go behind it, classes
        already dealt here last.
        """
        if self._long is not None:
            dealt = self._long.last_outside(barred, k)
            if len(dealt) == k:
                for label in dealt:
                    self._long.remove(label)
                return dealt
        left, dealt, waiting = self.left, list[int](), list[int]()
        while len(dealt) < k:
            if not left:
                fresh, already = order(set(waiting)), set(dealt)
                if already.issuperset(fresh) or barred >= set(fresh):
                    raise RuntimeError("a deck was refilled with no class that may come: there are not enough of them")
                left.extend(reversed([c for c in fresh if c not in already] + [c for c in fresh if c in already]))
            label = left.pop()
            (waiting if label in barred else dealt).append(label)
        left.extend(reversed(waiting))
        return dealt


class Classes(Protocol):
    """The resident classes, and how many they are."""

    size: int

    @property
    def ids(self) -> list[int]: ...


def rounds(k: int, residents: Classes, random: Random) -> tuple[list[int], int]:
    """⌊k/C⌋ whole permutations, each drawn afresh, and how many slots remain (ClassSlots' first part)."""
    if k < residents.size:
        return [], k
    whole, rest = divmod(k, residents.size)
    return [label for _ in range(whole) for label in random.shuffled(residents.ids)], rest
