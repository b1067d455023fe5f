"""A pass whose order is used K times before it is drawn again: between `rpr` and `fixed`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprise.core.arguments import as_int
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.deck import Deck, Residents, rounds
from reprise.memory.theory.laws import Floats, rpr_gap_pmf, tail_of


@register("schedule", "reused", argument=int, letter="K")
class ReusedPass(Policy):
    """As `rpr`, but a refill replays the current order, up to K traversals.

    The order is drawn again when its traversals are used up, or when at a refill the resident set is not the
    order's own. `reused:1` is `rpr`, draw for draw.
    """

    def __init__(self, traversals: int) -> None:
        self.traversals = as_int(traversals, "the K of 'reused:K'", 1)

    def start(self, random: Random) -> None:
        self.random = random
        self.residents = Residents()
        self.deck = Deck()
        self.order: list[int] = []
        self.used = 0

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.residents.change(arrived, departed)
            self.deck.change(arrived, departed, self.random)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        full, rest = rounds(k, self.residents, self.random)
        return full + self.deck.deal(rest, self._order) if rest else full

    def _order(self) -> list[int]:
        if self.used >= self.traversals or sorted(self.order) != self.residents.ids:
            self.order = self.random.shuffled(self.residents.ids)
            self.used = 0
        self.used += 1
        return self.order

    def bound(self, classes: int, n: int) -> int:
        return 2 * -(-classes // n) - 1

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(2 * most - 1 + inserted) // n)

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return -(-(most + inserted) // n)  # its place in the deck it enters, and whoever enters before it comes

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats | None:
        if slots < classes and classes % slots:
            return None  # a batch then spans two traversals, and nobody has worked that out
        law = rpr_gap_pmf(classes, slots) / self.traversals
        law[-(-classes // slots)] += 1.0 - 1.0 / self.traversals  # where the order is the last pass's
        return tail_of(law, longest)

    def state_dict(self) -> dict[str, Any]:
        return {
            "residents": list(self.residents.ids),
            "deck": list(self.deck.left),
            "order": list(self.order),
            "used": self.used,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.residents = Residents(state["residents"])
        self.deck = Deck(state["deck"])
        self.order = [int(label) for label in state["order"]]
        self.used = int(state["used"])
