"""Part of every batch by randomised passes, the rest drawn independently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from reprise.core.arguments import as_int
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.deck import Deck, Residents, rounds
from reprise.memory.schedule.ring import Ring
from reprise.memory.theory.laws import Floats, rpr_gap_pmf, tail_of


@register("schedule", "hybrid", argument=int, letter="S")
class HybridPass(Policy):
    """min(S, n) slots by `rpr`, the others by an independent draw over the classes that the batch has least of.

    So with b ≤ C the others are outside the batch, and the marginal stays b/C. The gap bound is `rpr`'s with b = S.
    """

    def __init__(self, slots: int) -> None:
        self.slots = as_int(slots, "the S of 'hybrid:S'", 1)

    def start(self, random: Random) -> None:
        self.random = random
        self.residents = Residents()
        self.deck = Deck()
        self.ring = Ring()

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.residents.change(arrived, departed)
            self.deck.change(arrived, departed, self.random)
            self.ring.change(arrived, departed)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        if batch:  # some classes had no further example: whoever is not in the batch yet, then anybody
            outside = self.ring.draw_outside(k, batch, self.random)
            full, rest = rounds(k - len(outside), self.residents, self.random)
            return outside + full + self.ring.draw(rest, self.random)
        taken, rest = rounds(min(self.slots, k), self.residents, self.random)
        if rest:
            taken += self.deck.deal(rest, self._order)
        counts = Counter(taken)
        while len(taken) < k:
            least = min(counts.values()) if len(counts) == self.residents.size else 0
            ahead = {label for label, count in counts.items() if count > least}
            drawn = self.ring.draw_outside(k - len(taken), ahead, self.random)
            counts.update(drawn)
            taken += drawn
        return taken

    def _order(self) -> list[int]:
        return self.random.shuffled(self.residents.ids)

    def bound(self, classes: int, n: int) -> int:
        return 1 if n >= classes else 2 * -(-classes // min(self.slots, n)) - 1

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        return 1 if n >= most else -(-(2 * most - 1 + inserted) // min(self.slots, n))

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return 1 if n >= most else -(-(most + inserted) // min(self.slots, n))

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats:
        passing = min(self.slots, slots)
        if slots >= classes:
            return tail_of(rpr_gap_pmf(classes, slots), longest)
        law = rpr_gap_pmf(classes, passing)
        # The chance of g steps in a row without a visit: none by the pass, and none by the draw of each step.
        by_pass = tail_of(law, max(longest + 1, len(law)))[::-1].cumsum()[::-1][: longest + 1] * passing / classes
        none = by_pass * ((classes - slots) / (classes - passing)) ** np.arange(longest + 1)
        return np.asarray(-np.diff(none) * classes / slots)

    def state_dict(self) -> dict[str, Any]:
        return {"residents": list(self.residents.ids), "deck": list(self.deck.left), "ring": list(self.ring.ids)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.residents = Residents(state["residents"])
        self.deck = Deck(state["deck"])
        self.ring = Ring(state["ring"])
