"""Class cycling: the resident classes in order of their ids, round and round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from heapq import heappop, heappush
from typing import Any

import numpy as np

from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.theory.laws import Floats, tail_of


@register("schedule", "fixed")
class FixedCycle(Policy):
    """Next is the smallest resident id above the last one served, wrapping around.

    On a fixed set every gap is ⌊C/b⌋ or ⌈C/b⌉, the least there can be; if b divides C the same classes always
    share a batch (the paper's fixed-partition proposition).
    """

    def start(self, random: Random) -> None:
        self._resume((), -1)

    def _resume(self, residents: Iterable[int], last: int, missed: Iterable[int] = ()) -> None:
        self.residents = set(residents)
        self.last = last
        self.round = sorted(self.residents)  # as they were when the cursor was last at the beginning
        self.place = bisect_right(self.round, last)
        self.changed = False  # since then
        self.come: list[int] = []  # a heap of arrivals ahead of the cursor
        self.missed = list(missed)  # classes that were passed over while they were barred: first to come

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        if arrived or departed:
            self.changed = True
            self.residents.difference_update(departed)
            self.residents.update(arrived)
            for label in arrived:
                if label > self.last:
                    heappush(self.come, label)
            if self.missed:
                self.missed = [label for label in self.missed if label in self.residents]

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        return self.take_among(k, batch, frozenset()) if self.missed else self._cycle(k)

    def take_among(self, k: int, batch: Sequence[int], barred: Set[int]) -> list[int]:
        """Whoever was passed over comes first; the cursor goes on when none of these may come.

        So it meets no class twice before one that waits here, and that one has at most the others that wait before it.
        """
        count = len(self.residents) - len(barred)
        whole, rest = divmod(k, count)
        if whole:
            self.missed = [label for label in self.missed if label in barred]
        served = [label for label in self.missed if label not in barred][:rest]
        now, waiting = set(served), set(self.missed)
        while len(served) < rest:
            (label,) = self._cycle(1)
            if label in barred and label not in waiting:
                waiting.add(label)
                self.missed.append(label)
            elif label not in barred and label not in now:
                now.add(label)
                served.append(label)
        self.missed = [label for label in self.missed if label not in now]
        return sorted(self.residents - barred) * whole + served if whole else served

    def _cycle(self, k: int) -> list[int]:
        """The next k classes that the cursor meets."""
        taken: list[int] = []
        while len(taken) < k:
            if self.changed:
                taken.append(self._next())
            else:
                served = self.round[self.place : self.place + k - len(taken)]
                self.place += len(served)
                taken += served or [self._next()]
            self.last = taken[-1]
        return taken

    def _next(self) -> int:
        """The next class, where some of the round may have left and others may have come."""
        order, come, residents, last = self.round, self.come, self.residents, self.last
        while self.place < len(order) and (order[self.place] not in residents or order[self.place] <= last):
            self.place += 1
        while come and (come[0] not in residents or come[0] <= last):
            heappop(come)
        if self.place < len(order) and not (come and come[0] < order[self.place]):
            return order[self.place]
        if come:
            return come[0]
        if self.changed:
            self.round, self.changed = sorted(residents), False
        self.place = 1
        return self.round[0]

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
        missed = {"missed": list(self.missed)} if self.missed else {}
        return {"residents": sorted(self.residents), "last": self.last, **missed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        residents, missed = map(int, state["residents"]), map(int, state.get("missed", ()))
        self._resume(residents, int(state["last"]), missed)
