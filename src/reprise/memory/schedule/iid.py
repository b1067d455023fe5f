"""Independent balanced draws: every step a fresh draw of classes, as if there had been none before."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.allowed import allowed_rounds
from reprise.memory.schedule.deck import rounds
from reprise.memory.schedule.ring import Ring
from reprise.memory.theory.laws import Floats, geometric_tail


@register("schedule", "iid")
class IndependentBalanced(Policy):
    """b distinct classes, uniform, each step anew; ⌊b/C⌋ whole permutations first when b ≥ C.

    On a fixed set a class's gap is geometric with p = b/C: it has no bound.
    """

    def start(self, random: Random) -> None:
        self.random = random
        self.ring = Ring()

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.ring.change(arrived, departed)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        whole, rest = rounds(k, self.ring, self.random)
        return whole + self.ring.draw(rest, self.random) if rest else whole

    def take_among(self, k: int, batch: Sequence[int], barred: Set[int]) -> list[int]:
        if k < self.ring.size - len(barred):
            return self.ring.draw_outside(k, barred, self.random)
        whole, rest = allowed_rounds(k, self.ring.ids, barred, self.random)
        return whole + self.ring.draw_outside(rest, barred, self.random) if rest else whole

    def bound(self, classes: int, n: int) -> int | None:
        return 1 if n >= classes else None

    def churn_bound(self, most: int, inserted: int, n: int) -> int | None:
        return 1 if n >= most else None

    def first_bound(self, most: int, inserted: int, n: int) -> int | None:
        return 1 if n >= most else None

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats:
        return np.asarray(geometric_tail(np.arange(longest), classes, slots))

    def state_dict(self) -> dict[str, Any]:
        return {"ring": list(self.ring.ids)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.ring = Ring(state["ring"])
