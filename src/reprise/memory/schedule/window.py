"""Passes that change a little each time: a class keeps its place in the pass, up to a jitter."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from reprise.core.arguments import as_float
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.deck import Deck, Residents, rounds


@register("schedule", "window", argument=float, letter="W")
class WindowedPass(Policy):
    """A new pass orders classes by where they were served in the last one plus a uniform jitter in [0, W·C).

    On a fixed set two visits are between (1−W)C and (1+W)C class slots apart, so that
    ⌊(1−W)C/b⌋ ≤ gap ≤ ⌈(1+W)C/b⌉, while who shares a batch still changes from pass to pass.
    """

    def __init__(self, width: float) -> None:
        self.width = as_float(width, "the W of 'window:W'")
        if not 0 < self.width <= 1:
            raise ValueError(f"the W of 'window:W' must be above 0 and at most 1, got {self.width}")

    def start(self, random: Random) -> None:
        self.random = random
        self.residents = Residents()
        self.deck = Deck()
        self.served: list[int] = []  # this pass so far; a whole pass has every resident class once
        self.gone: dict[int, int] = {}  # classes that have left: what was served of one before that place is void

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.residents.change(arrived, departed)
            self.deck.change(arrived, departed, self.random)
            self.gone.update(dict.fromkeys(departed, len(self.served)))

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        whole, rest = rounds(k, self.residents, self.random)
        if not rest:
            return whole
        refill = rest > len(self.deck)
        closing = self.deck.left[::-1] if refill else []  # what the old pass still serves
        dealt = self.deck.deal(rest, lambda: self._order(self._stayed() + closing))
        if refill:
            self.served, self.gone = dealt[len(closing) :], {}
        else:
            self.served += dealt
        return whole + dealt

    def _stayed(self) -> list[int]:
        """What this pass has served, without what has left since."""
        if self.gone:
            served, gone = self.served, self.gone
            self.served = [label for place, label in enumerate(served) if place >= gone.get(label, 0)]
            self.gone = {}
        return self.served

    def _order(self, served: list[int]) -> list[int]:
        jitter = (self.random.fractions(len(served)) * (self.width * len(served))).tolist()
        place = sorted(range(len(served)), key=lambda at: at + jitter[at])
        return [served[at] for at in place]

    def bound(self, classes: int, n: int) -> int:
        reach = (1 + Fraction(repr(self.width))) * classes / n
        return min(-(-reach.numerator // reach.denominator), 2 * -(-classes // n) - 1)

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(2 * most - 1 + inserted) // n)

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(most + inserted) // n)  # its place in the deck it enters, and whoever enters before it comes

    def gap_tail(self, classes: int, slots: int, longest: int) -> None:
        return None  # the shortest and the longest gap are known, the law between them is not

    def state_dict(self) -> dict[str, Any]:
        return {
            "residents": list(self.residents.ids),
            "deck": list(self.deck.left),
            "served": list(self._stayed()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.residents = Residents(state["residents"])
        self.deck = Deck(state["deck"])
        self.served, self.gone = [int(label) for label in state["served"]], {}
