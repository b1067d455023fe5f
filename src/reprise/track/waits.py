"""How long classes wait while a run goes on: the audit's figures, counted step by step."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from reprise.memory import Scheduled, as_retrieval
from reprise.memory.theory import churn_bound, first_bound, fixed_set_bound

Ids = NDArray[np.int64]


class WaitCounter:
    """The waits of all classes up to the last step that it was told of.

    They are what `reprise.audit.measure` finds on the tape up to that step. A step takes time in proportion to what it
    replays and stores; the open waits are looked at when they are asked for, one for each resident class.
    """

    def __init__(self, labels: Ids, capacity: int, replay_size: int, retrieval: str) -> None:
        classes = int(labels.max(initial=-1)) + 1
        policy = as_retrieval(retrieval)
        self.labels, self.replay_size = labels, replay_size
        self.schedule = policy.schedule if isinstance(policy, Scheduled) else None
        self.steps = 0
        self.examples = 0  # stored now
        self.max: int | None = None
        self.first_max: int | None = None
        self.cut_max = 0
        self._holder = [-1] * capacity  # the label in each slot
        self._stored = [0] * classes  # examples of each class
        self._changed: set[int] = set()  # classes that came, went or stayed since the last draw
        self._resident: set[int] = set()  # at the last draw
        self._since = [0] * classes  # step of the last visit, or that which brought the class
        self._visited = [False] * classes  # since it came
        self._inserted = 0  # classes that have come
        self._inserted_then = [0] * classes  # that number when the wait began
        # Resident classes at the draws, but only where no later draw had as many: steps rise, counts fall.
        self._peak_steps: list[int] = []
        self._peaks: list[int] = []

    @property
    def classes(self) -> int:
        """Classes of which an example is stored."""
        left = self._resident - self._changed
        return len(left) + sum(self._stored[label] > 0 for label in self._changed)

    def step(self, incoming: Ids, replay: Ids, written: Ids) -> None:
        """Go on by a step: what came in, what was replayed by all draws, and the slots written; −1 is padding."""
        if self.replay_size:
            self._observe()
            for label in set(self.labels[replay[replay >= 0]].tolist()):
                self._visit(label)
        for label, slot in zip(self.labels[incoming].tolist(), written.tolist(), strict=True):
            if slot >= 0:
                self._write(label, slot)
        self.steps += 1

    def _observe(self) -> None:
        """See who is resident at the draw of this step; who leaves and comes back between two draws never left."""
        arrived = []
        for label in self._changed:
            if self._stored[label] and label not in self._resident:
                arrived.append(label)
            elif not self._stored[label] and label in self._resident:
                self._resident.remove(label)
                self.cut_max = max(self.cut_max, self.steps - 1 - self._since[label])
        self._changed.clear()
        self._resident.update(arrived)
        self._inserted += len(arrived)
        for label in arrived:
            self._begin(label, self.steps - 1, visited=False)
        while self._peaks and self._peaks[-1] <= len(self._resident):
            self._peaks.pop()
            self._peak_steps.pop()
        self._peaks.append(len(self._resident))
        self._peak_steps.append(self.steps)

    def _visit(self, label: int) -> None:
        wait = self.steps - self._since[label]
        if self._visited[label]:
            self.max = max(self.max or 0, wait)
        else:
            self.first_max = max(self.first_max or 0, wait)
        self._begin(label, self.steps, visited=True)

    def _begin(self, label: int, since: int, *, visited: bool) -> None:
        self._since[label], self._visited[label] = since, visited
        self._inserted_then[label] = self._inserted

    def _write(self, label: int, slot: int) -> None:
        before = self._holder[slot]
        if before >= 0:
            self._stored[before] -= 1
            self._changed.add(before)
        else:
            self.examples += 1
        self._holder[slot] = label
        self._stored[label] += 1
        self._changed.add(label)

    @property
    def open_max(self) -> int | None:
        """The longest open wait; None while no draw has found a class."""
        return max((self._open(label) for label in self._resident), default=None)

    @property
    def overdue(self) -> int:
        """Resident classes whose open wait has reached the bound of its own interval, so that its end will exceed it.

        That is the schedule's churn bound, or its bound of a first wait, with the classes that were resident and came
        during the wait; a randomised pass's where the schedule has none.
        """
        return sum(self._open(label) >= self._bound(label) for label in self._resident)

    @property
    def bound(self) -> int | None:
        """The longest wait that the schedule allows on a fixed set of as many classes as are resident, if any."""
        if self.schedule is None or not self._resident:
            return None
        return self.schedule.bound(len(self._resident), self.replay_size)

    @property
    def pass_bound(self) -> int | None:
        """The same for a randomised pass, under whatever schedule: 2⌈C/b⌉ − 1."""
        return fixed_set_bound(len(self._resident), self.replay_size) if self._resident else None

    def _open(self, label: int) -> int:
        return self.steps - 1 - self._since[label]

    def _bound(self, label: int) -> int:
        visited = self._visited[label]
        first = self._since[label] + (not visited)
        most = self._peaks[bisect_left(self._peak_steps, first)]
        interval = most, self._inserted - self._inserted_then[label], self.replay_size
        own = getattr(self.schedule, "churn_bound" if visited else "first_bound", None)
        promised: int | None = None if own is None else own(*interval)
        return (churn_bound if visited else first_bound)(*interval) if promised is None else promised
