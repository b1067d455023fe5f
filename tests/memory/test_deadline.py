"""`deadline:S` against a literal account that lists every free step; and its cost, which S must not drive."""

from __future__ import annotations

import json
import tracemalloc
from bisect import bisect_right, insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise import Memory
from reprise.memory import Deadline, Scheduled

STRETCHES = [1.0001, 1.01, 1.1, 1.5, 2.0, 3.0, 9.0, 50.0]


class Literal(Deadline):
    """Lists all steps with room up to the farthest one that was ever asked for, as the library did at first."""

    def start(self, random):
        super().start(random)
        self.room: list[int] = []
        self.horizon = 0

    def begin(self, n, arrived, departed):
        self.now = now = self.now + 1
        self.horizon = max(self.horizon, now)
        if arrived or departed or n != self.n:
            self._change(n, arrived, departed)
        del self.room[: bisect_right(self.room, now)]
        for label in self.steps.pop(now, ()):
            del self.due[label]
            if self.last[label] + self.cap > now:
                self._defer(label)
            else:
                self.late[label] = None

    def _change(self, n, arrived, departed):
        self.ring.change(arrived, departed)
        for label in departed:
            self._release(label)
            del self.last[label]
        if n != self.n:
            self.n = n
            steps = range(self.now + 1, self.horizon + 1)
            self.room = [step for step in steps if len(self.steps.get(step, ())) < n]
        del self.room[: bisect_right(self.room, self.now)]
        self.cap = self.bound(len(self.ring.ids), n)
        for label in self.random.shuffled(list(arrived)) if arrived else ():
            self.last[label] = self.now - 1
            self._defer(label)

    def _serve(self, labels):
        for label in labels:
            self._release(label)
            self.last[label] = self.now
            self._defer(label)

    def _release(self, label):
        self.late.pop(label, None)
        step = self.due.pop(label, None)
        if step is not None:
            if len(self.steps[step]) == self.n:
                insort(self.room, step)
            del self.steps[step][label]

    def _defer(self, label):
        limit = self.last[label] + self.cap
        while self.horizon < limit:
            self.horizon += 1
            self.room.append(self.horizon)
        place = bisect_right(self.room, limit) - 1
        if place < 0:
            self.late[label] = None
            return
        step = self.due[label] = self.room[place]
        holders = self.steps.setdefault(step, {})
        holders[label] = None
        if len(holders) >= self.n:
            del self.room[place]

    def state_dict(self):
        return {**super().state_dict(), "room": list(self.room), "horizon": self.horizon}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.room, self.horizon = [int(step) for step in state["room"]], int(state["horizon"])


SCRIPTS = st.lists(
    st.tuples(st.integers(0, 9), st.lists(st.integers(0, 15), max_size=12)), min_size=1, max_size=40
)  # a draw of so many, then these arrive


def drawn(memory: Memory, script: list[tuple[int, list[int]]]) -> list[list[int]]:
    found = []
    for n, labels in script:
        found.append(memory.draw(n).slots.tolist())
        memory.store(labels)
    return found


@given(
    stretch=st.sampled_from(STRETCHES),
    storage=st.sampled_from(["fifo", "reservoir"]),
    capacity=st.integers(1, 24),
    seed=st.integers(0, 9),
    script=SCRIPTS,
    example_pass=st.booleans(),
)
def test_draws_are_those_of_the_literal_account(stretch, storage, capacity, seed, script, example_pass):
    ours = Memory(capacity, storage, Scheduled(Deadline(stretch), example_pass), seed)
    theirs = Memory(capacity, storage, Scheduled(Literal(stretch), example_pass), seed)
    schedule, literal = ours._channels[0]._schedule, theirs._channels[0]._schedule
    for n, labels in script:
        assert drawn(ours, [(n, labels)]) == drawn(theirs, [(n, labels)])
        assert schedule.due == literal.due
        assert list(schedule.late) == list(literal.late)
        assert all(schedule.steps.values())
        assert list(schedule.full) == sorted(step for step, due in schedule.steps.items() if len(due) >= schedule.n)
        assert sum(map(len, schedule.steps.values())) + len(schedule.late) == len(schedule.last) <= capacity


@pytest.mark.parametrize("stretch", [1.0001, 1.5, 9.0])
@pytest.mark.parametrize(("classes", "n"), [(40, 1), (97, 8), (300, 4)])
def test_many_classes_and_their_first_draw(stretch, classes, n):
    """All classes come at once, so that full steps stand in long rows; later half of them go."""
    ours, theirs = (Memory(classes, "fifo", policy(stretch), seed=1) for policy in (Deadline, Literal))
    script = [(0, list(range(classes)))] + [(n, [])] * 60 + [(n, [1] * (classes // 2))] + [(2 * n, []), (n, [])] * 30
    assert drawn(ours, script) == drawn(theirs, script)


@given(
    stretch=st.sampled_from(STRETCHES),
    capacity=st.integers(1, 24),
    before=SCRIPTS,
    after=SCRIPTS,
    seed=st.integers(0, 9),
)
def test_a_state_with_its_free_steps_listed_still_loads(stretch, capacity, before, after, seed):
    old = Memory(capacity, "fifo", Literal(stretch), seed)
    drawn(old, before)
    new = Memory(capacity, "fifo", Deadline(stretch))
    state = {**old.state_dict(), "retrieval": new.retrieval_spec}
    assert {"room", "horizon"} <= state["channels"][0]["schedule"].keys()
    new.load_state_dict(state)
    assert drawn(new, after) == drawn(old, after)


@pytest.mark.parametrize("stretch", [1e6, 1e18, 1e300, 1.7e308])
def test_memory_is_in_proportion_to_the_classes(stretch):
    memory = Memory(200, "fifo", Deadline(stretch), seed=0)
    memory.store([label % 100 for label in range(200)])
    tracemalloc.start()
    try:
        memory.draw(8)
        for step in range(2000):
            memory.draw(1 + step % 9)
            memory.store([step % 120])
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    schedule = memory._channels[0]._schedule
    assert len(schedule.steps) <= len(schedule.last) <= 120
    assert len(list(schedule.full)) <= len(schedule.steps)
    again = Memory(200, "fifo", Deadline(stretch))
    again.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert drawn(again, [(8, [3])] * 50) == drawn(memory, [(8, [3])] * 50)


def test_caps_that_are_never_met_are_all_the_same():
    far, never = (Memory(60, "fifo", f"deadline:{stretch}", seed=4) for stretch in ("1e4", "1e300"))
    script = [(0, list(range(60)))] + [(8, [])] * 300
    assert drawn(far, script) == drawn(never, script)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("deadline:inf", "finite, got inf"),
        ("deadline:nan", "finite, got nan"),
        ("deadline:-inf", "finite, got -inf"),
        ("deadline:1e309", "finite, got inf"),
        ("deadline:1", "above 1, got 1.0"),
        ("deadline:0.5", "above 1, got 0.5"),
        ("deadline:-2", "above 1, got -2.0"),
        ("deadline:soon", "must be a number, got 'soon'"),
    ],
)
def test_what_is_no_stretch(spec, words):
    with pytest.raises(ValueError, match=words):
        Memory(8, retrieval=spec)
