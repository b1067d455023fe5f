"""Retrieval by a schedule: it names the classes, this finds the examples."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Any

from reprise.core.registry import Policy
from reprise.memory.index import Index
from reprise.memory.protocols import Schedule, Score, Source, checked, fresh
from reprise.memory.retrieval.example_choice import AnyExample, ExamplePass
from reprise.memory.theory.laws import Floats


class Scheduled(Policy):
    """Asks the schedule for classes and takes from each a stored example not yet in the batch.

    What is missing then is asked for again, at most |M|+1 times; so a batch never repeats an example and may
    come back short. With `example_pass`, the examples of a class go by shuffled passes too (`+pass`).
    """

    scored = False

    def __init__(self, schedule: Schedule, example_pass: bool = False) -> None:
        self.schedule = checked(schedule, Schedule)
        self.example_pass = example_pass

    @property
    def spec(self) -> str:
        return str(getattr(self.schedule, "spec", repr(self.schedule))) + ("+pass" if self.example_pass else "")

    def start(self, source: Source, index: Index) -> None:
        self._schedule = fresh(self.schedule, Schedule)
        self._schedule.start(source("schedule"))
        self._examples = (ExamplePass if self.example_pass else AnyExample)(source("example choice"))
        self._changed = index.watch()

    def draw(self, n: int, index: Index, score: Score | None) -> list[int]:
        schedule, size = self._schedule, min(n, index.size)
        if self._changed:
            changed = sorted(self._changed)
            self._changed.clear()
            departed = [label for label in changed if label not in index.residents]
            schedule.begin(n, [label for label in changed if label in index.residents], departed)
            self._examples.forget(departed)
        else:
            schedule.begin(n, (), ())
        labels = schedule.take(size, ())
        if len(labels) == size == len(set(labels)):
            return self._examples.once(labels, index)
        return self._fill(labels, size, index, schedule.take)

    def draw_among(self, n: int, index: Index, score: Score | None, barred: Set[int]) -> list[int]:
        """As `draw`, but without these resident classes.

        A schedule with a method `take_among` leaves them out itself. For any other they have departed, and come again
        with the first draw that they are allowed in: until then they are among `_changed`, as news that it has not had.
        """
        changed, residents = self._changed, index.residents
        away = {label for label in changed if label not in residents}
        take = getattr(self._schedule, "take_among", None)
        if take is None:
            arrived, departed = changed - away - barred, away | (barred - changed)
            changed.clear()
            changed |= barred
            ask = self._schedule.take
        else:
            arrived, departed = changed - away, away
            changed.clear()
            ask = partial(take, barred=barred)
        self._schedule.begin(n, sorted(arrived), sorted(departed))
        self._examples.forget(away)
        size = min(n, index.size - sum(map(index.count, barred)))
        if not size:
            return []
        labels = ask(size, ())
        if len(labels) == size == len(set(labels)):
            return self._examples.once(labels, index)
        return self._fill(labels, size, index, ask)

    def _fill(self, labels: list[int], size: int, index: Index, ask: Callable[..., list[int]]) -> list[int]:
        slots: list[int] = []
        batch: list[int] = []
        taken: dict[int, int] = {}
        self._examples.open()
        asks = 1
        while True:
            for label in labels:
                count = taken.get(label, 0)
                if count < index.count(label) and len(batch) < size:
                    slots.append(self._examples.next(label, count, index))
                    batch.append(label)
                    taken[label] = count + 1
            if len(batch) == size or not labels or asks > index.size:
                return slots
            labels = ask(size - len(batch), batch)
            asks += 1

    def gap_tail(self, classes: int, per_class: int, slots: int, longest: int) -> Floats | None:
        """The schedule's law: how many examples a class has does not matter to it."""
        law = getattr(self.schedule, "gap_tail", None)
        tail: Floats | None = None if law is None else law(classes, slots, longest)
        return tail

    def state_dict(self) -> dict[str, Any]:
        return {
            "changed": sorted(self._changed),
            "schedule": self._schedule.state_dict(),
            "examples": self._examples.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._changed.clear()
        self._changed.update(int(label) for label in state["changed"])
        self._schedule.load_state_dict(state["schedule"])
        self._examples.load_state_dict(state["examples"])
