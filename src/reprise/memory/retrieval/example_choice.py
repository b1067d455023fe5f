"""Which example of a class is taken: a random one, or the next of a shuffled pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reprise.core.rng import Random
from reprise.memory.index import Index


class AnyExample:
    """A uniform example of the class, never twice in a batch: a shuffle of its list, done only as far as needed."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def once(self, labels: list[int], index: Index) -> list[int]:
        """One example of each of these classes, which are all different."""
        return index.choose(labels, self.random)

    def forget(self, labels: Iterable[int]) -> None:
        """These classes have gone."""

    def open(self) -> None:
        """A batch begins in which classes may come more than once."""
        self.moved: dict[int, dict[int, int]] = {}

    def next(self, label: int, taken: int, index: Index) -> int:
        """One more example of a class of which `taken` are already in the batch."""
        moved = self.moved.setdefault(label, {})
        turn = taken + self.random.below(index.count(label) - taken)
        chosen = moved.get(turn, turn)
        moved[turn] = moved.get(taken, taken)
        return index.slot(label, chosen)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class ExamplePass:
    """The examples of a class by shuffled passes of its own, so that none waits more than two passes less one visit.

    A deck entry names a slot and when it was written: a slot written since holds another example, and its entry
    is void. An example that has moved to another slot keeps its place. New examples join at the next shuffle.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.decks: dict[int, list[tuple[int, int]]] = {}

    def once(self, labels: list[int], index: Index) -> list[int]:
        self.open()
        return [self.next(label, 0, index) for label in labels]

    def forget(self, labels: Iterable[int]) -> None:
        for label in labels:
            self.decks.pop(label, None)

    def open(self) -> None:
        self.batch: set[int] = set()

    def next(self, label: int, taken: int, index: Index) -> int:
        deck = self.decks.setdefault(label, [])
        while True:
            while deck:
                slot, stamp = deck.pop()
                if slot >= index.capacity or index.stamp_of[slot] != stamp:
                    slot = index.find(slot, stamp)
                    if slot < 0:
                        continue
                self.batch.add(slot)
                return slot
            slots = self.random.shuffled(index.slots(label))
            # What is already in this batch comes last, and there is something else: `taken` is below the count.
            slots.sort(key=self.batch.__contains__)
            deck.extend((slot, index.stamp_of[slot]) for slot in reversed(slots))

    def state_dict(self) -> dict[str, Any]:
        return {
            "decks": [[label, [list(entry) for entry in deck]] for label, deck in sorted(self.decks.items()) if deck]
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.decks = {int(label): [(int(slot), int(stamp)) for slot, stamp in deck] for label, deck in state["decks"]}
