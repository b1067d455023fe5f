"""Class cycling: the resident classes in order of their ids, round and round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.deck import Residents
from reprise.memory.theory.laws import Floats, tail_of


@register("schedule", "fixed")
class FixedCycle(Policy):
    """Next is the smallest resident id above the last one served, wrapping around.

    On a fixed set every gap is ⌊C/b⌋ or ⌈C/b⌉, the least there can be; if b divides C the same classes always
    share a batch (the paper's fixed-partition proposition).
    """

    def start(self, random: Random) -> None:
        self.residents = Residents()
        self.last = -1

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.residents.change(arrived, departed)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        ids = self.residents.ids
        first = bisect_right(ids, self.last)
        taken = [ids[place % len(ids)] for place in range(first, first + k)]
        self.last = taken[-1]
        return taken

    def bound(self, classes: int, n: int) -> int:
        return -(-classes // n)

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        # Between two visits of a class the cursor meets every other class at most once, and each arrival once.
        return -(-(most + inserted) // n)

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return self.churn_bound(most, inserted, n)  # the cursor reaches an arrival within one round, too

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats:
        law = np.zeros(-(-classes // slots) + 1)
        law[max(classes // slots, 1)] = 1.0
        if rest := classes % slots if slots < classes else 0:  # ⌊C/b⌋ and ⌈C/b⌉, so that the mean is C/b
            law[-2:] = 1.0 - rest / slots, rest / slots
        return tail_of(law, longest)

    def state_dict(self) -> dict[str, Any]:
        return {"residents": list(self.residents.ids), "last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.residents = Residents(state["residents"])
        self.last = int(state["last"])
