"""Randomised-pass replay: a shuffled pass over the resident classes, then another."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.allowed import allowed_rounds
from reprise.memory.schedule.deck import Deck, Residents, rounds
from reprise.memory.theory.laws import Floats, rpr_gap_pmf, tail_of


@register("schedule", "rpr")
class RandomisedPass(Policy):
    """The paper's Algorithm 1 and ClassSlots.

    A deck holds the classes not yet visited in this pass. A batch takes the next b; an empty deck is refilled
    with a new permutation, classes already in the batch last. Arrivals enter at a random position.
    No class waits longer than 2⌈C/b⌉−1 steps on a fixed set, nor ⌈(2·C_max−1+I)/b⌉ under churn. A class that has just
    come waits at most ⌈(C_max+I)/b⌉: the deck holds no class twice, so its place there is at most C_max, only an
    arrival can come to stand before it, and every step takes b from the front.

    A class that a draw leaves out keeps its place in the deck. Then the same holds of the draws that allowed a class,
    whichever others were left out.
    """

    def start(self, random: Random) -> None:
        self.random = random
        self.residents = Residents()
        self.deck = Deck()

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.residents.change(arrived, departed)
            self.deck.change(arrived, departed, self.random)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        if k < self.residents.size:
            return self.deck.deal(k, self._order)
        whole, rest = rounds(k, self.residents, self.random)
        return whole + self.deck.deal(rest, self._order) if rest else whole

    def take_among(self, k: int, batch: Sequence[int], barred: Set[int]) -> list[int]:
        if k < self.residents.size - len(barred):
            return self.deck.deal_among(k, barred, self._behind)
        whole, rest = allowed_rounds(k, self.residents.ids, barred, self.random)
        return whole + self.deck.deal_among(rest, barred, self._behind) if rest else whole

    def _behind(self, waiting: Set[int]) -> list[int]:
        return self.random.shuffled([label for label in self.residents.ids if label not in waiting])

    def _order(self) -> list[int]:
        return self.random.shuffled(self.residents.ids)

    def bound(self, classes: int, n: int) -> int:
        return 2 * -(-classes // n) - 1

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(2 * most - 1 + inserted) // n)

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(most + inserted) // n)  # its place in the deck it enters, and whoever enters before it comes

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats:
        return tail_of(rpr_gap_pmf(classes, slots), longest)

    def state_dict(self) -> dict[str, Any]:
        return {"residents": list(self.residents.ids), "deck": list(self.deck.left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.residents = Residents(state["residents"])
        self.deck = Deck(state["deck"])
