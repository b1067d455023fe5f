"""Independent draws under a cap: a class whose time is up is served, everything else stays random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from reprise.core.arguments import as_float
from reprise.core.registry import Policy, register
from reprise.core.rng import Random
from reprise.memory.schedule.deck import rounds
from reprise.memory.schedule.full_steps import FullSteps
from reprise.memory.schedule.ring import Ring
from reprise.memory.theory.laws import Floats, deadline_gap_pmf, geometric_tail, tail_of


@register("schedule", "deadline", argument=float, letter="S")
class Deadline(Policy):
    """An independent balanced draw, overruled only by classes that have waited ⌈S·C/b⌉ steps.

    Every class has a deadline, its last visit plus the cap, and no step holds more than b deadlines; so whoever
    is due can always be served, and nobody else need be. On a fixed set the gap is geometric below the cap, with
    an atom there. Under churn the cap is that of the largest resident set of the interval. A deadline is moved
    forward to the latest step with room when its own is taken, and put off when the set has grown meanwhile.
    """

    def __init__(self, stretch: float) -> None:
        self.stretch = as_float(stretch, "the S of 'deadline:S'")
        if self.stretch <= 1:
            raise ValueError(f"the S of 'deadline:S' must be above 1, got {self.stretch}")
        self._exact = Fraction(repr(self.stretch))  # 1.1 is to mean eleven tenths

    def start(self, random: Random) -> None:
        self.random = random
        self.ring = Ring()
        self.now = 0
        self.n = 1
        self.cap = 1
        self.last: dict[int, int] = {}  # step of the last visit; one before the first draw that knew the class
        self.due: dict[int, int] = {}
        self.steps: dict[int, dict[int, None]] = {}  # the classes due at a step, in order of entry; never none
        self.full = FullSteps()  # those that hold n deadlines or more
        self.late: dict[int, None] = {}  # due now

    def begin(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        self.now = now = self.now + 1
        if arrived or departed or n != self.n:
            self._change(n, arrived, departed)
        due = self.steps.pop(now, {})
        if len(due) >= n:
            self.full.remove(now)
        for label in due:
            del self.due[label]
            if self.last[label] + self.cap > now:
                self._defer(label)  # the set has grown since: it may wait a little longer
            else:
                self.late[label] = None

    def _change(self, n: int, arrived: Sequence[int], departed: Sequence[int]) -> None:
        self.ring.change(arrived, departed)
        for label in departed:
            self._release(label)
            del self.last[label]
        if n != self.n:
            self.n = n
            self.full = FullSteps(step for step, holders in self.steps.items() if len(holders) >= n)
        self.cap = self.bound(self.ring.size, n)
        for label in self.random.shuffled(list(arrived)) if arrived else ():
            self.last[label] = self.now - 1
            self._defer(label)

    def take(self, k: int, batch: Sequence[int]) -> list[int]:
        taken, rest = rounds(k, self.ring, self.random)
        if taken:
            taken += self.ring.draw(rest, self.random)
        else:
            taken = list(islice(self.late, rest)) if self.late else []
            taken += self.ring.draw_outside(rest - len(taken), self.late, self.random)
        self._serve(dict.fromkeys(taken))
        return taken

    def _serve(self, labels: Iterable[int]) -> None:
        """Each of these is visited now: release it, then defer it, as the two methods below do, without the calls."""
        late, due, steps, full, last, n, now = self.late, self.due, self.steps, self.full, self.last, self.n, self.now
        limit = now + self.cap
        for label in labels:
            step = due.pop(label, -1)
            if step < 0:
                late.pop(label, None)
            else:
                holders = steps[step]
                if len(holders) == n:
                    full.remove(step)
                del holders[label]
                if not holders:
                    del steps[step]
            last[label] = now
            if len(steps.get(limit, ())) < n - 1:  # there is room, and will be
                due[label] = limit
                steps.setdefault(limit, {})[label] = None
            else:
                self._defer(label)

    def _release(self, label: int) -> None:
        step = self.due.pop(label, None)
        if step is None:
            self.late.pop(label, None)
            return
        holders = self.steps[step]
        if len(holders) == self.n:
            self.full.remove(step)
        del holders[label]
        if not holders:
            del self.steps[step]

    def _defer(self, label: int) -> None:
        """Set the deadline: the latest step with room that keeps the cap."""
        step = self.last[label] + self.cap
        holders = self.steps.get(step)
        if holders is not None and len(holders) >= self.n:
            step = self.full.before(step)
            holders = self.steps.get(step)
        if step <= self.now:  # every step up to the limit is full: now is the only one left
            self.late[label] = None
            return
        self.due[label] = step
        if holders is None:
            holders = self.steps[step] = {}
        holders[label] = None
        if len(holders) == self.n:
            self.full.add(step)

    def bound(self, classes: int, n: int) -> int:
        return -(-self._exact.numerator * classes // (self._exact.denominator * n)) if n < classes else 1

    def churn_bound(self, most: int, inserted: int, n: int) -> int:
        return self.bound(most, n)

    def first_bound(self, most: int, inserted: int, n: int) -> int:
        return self.bound(most, n)  # an arrival counts as served at the step that brought it

    def gap_tail(self, classes: int, slots: int, longest: int) -> Floats:
        if self.stretch > 50:  # less than one gap in 10²¹ gets as far as the cap
            return np.asarray(geometric_tail(np.arange(longest), classes, slots))
        return tail_of(deadline_gap_pmf(classes, slots, self.stretch), longest)  # close, not exact

    def state_dict(self) -> dict[str, Any]:
        return {
            "ring": list(self.ring.ids),
            "now": self.now,
            "n": self.n,
            "cap": self.cap,
            "last": [[label, self.last[label]] for label in sorted(self.last)],
            "steps": [[step, list(holders)] for step, holders in sorted(self.steps.items())],
            "late": list(self.late),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.ring = Ring(state["ring"])
        self.now, self.n, self.cap = int(state["now"]), int(state["n"]), int(state["cap"])
        self.last = {int(label): int(step) for label, step in state["last"]}
        steps = {int(step): {int(label): None for label in holders} for step, holders in state["steps"]}
        self.steps = {step: holders for step, holders in steps.items() if holders}
        self.due = {label: step for step, holders in self.steps.items() for label in holders}
        self.late = {int(label): None for label in state["late"]}
        self.full = FullSteps(step for step, holders in self.steps.items() if len(holders) >= self.n)
