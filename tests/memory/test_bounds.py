"""How long a class can wait, whatever comes and goes: what every schedule promises, kept and reached."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reprise
from reprise.core import registry
from reprise.memory import as_retrieval


class Dictated:
    """A storage that writes where it is told: any class can be thrown out, or kept, at any time."""

    slots: list[int]

    def fresh(self):
        return self

    def start(self, random):
        pass

    def assign(self, labels, index):
        slots = []
        for slot, label in zip(self.slots, labels, strict=True):
            slots.append(min(slot, index.size))
            index.put(slots[-1], label)
        return slots

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@dataclass
class Wait:
    """A class that stays: what has happened since its last visit, or since it came."""

    most: int
    arrival: bool = False
    inserted: int = 0
    steps: int = 0
    least: int = 10**9


def longest_waits(script, memory, storage):
    """Play a script of (n, [(slot, label), …]); yield for every class and step how long it has to wait."""
    waits, before = {}, set()
    for n, writes in script:
        storage.slots = [slot for slot, _ in writes]
        memory.store([label for _, label in writes])
        resident = set(memory.labels.tolist())
        batch = set(memory.draw(n).labels.tolist())
        arrived, before = resident - before, resident
        waits = {label: wait for label, wait in waits.items() if label in resident}
        for wait in waits.values():
            wait.most = max(wait.most, len(resident))
            wait.inserted += len(arrived)
        waits |= {label: Wait(len(resident), arrival=True) for label in arrived}
        for label, wait in waits.items():
            wait.least = min(wait.least, n)
            wait.steps += 1
            # A class not drawn now is drawn in one step at the earliest, whether the run goes on or not.
            yield label, wait, wait.steps + (label not in batch)
        waits |= {label: Wait(len(resident)) for label in batch}


CAPACITY = 12
WRITES = st.lists(st.tuples(st.integers(0, CAPACITY - 1), st.integers(0, 14)), max_size=3)
# A full memory first, so that there is something to wait for.
FIRST = st.lists(st.integers(0, 14), min_size=CAPACITY, max_size=CAPACITY).map(
    lambda labels: [(slot, label) for slot, label in enumerate(labels)]
)


def deck(wait, n):
    """What every pass over the classes keeps: after a visit, and sooner after an arrival."""
    return -(-((wait.most if wait.arrival else 2 * wait.most - 1) + wait.inserted) // n)


def cycle(wait, n):
    return -(-(wait.most + wait.inserted) // n)


def part(slots):
    return lambda wait, n: 1 if n >= wait.most else deck(wait, min(slots, n))


def capped(stretch):
    return lambda wait, n: ceil(Fraction(stretch) * wait.most / n) if n < wait.most else 1


def blocks(size=None):
    """A pass over blocks, one a step; as many blocks as classes where holes have left one class to each."""

    def bound(wait, n):
        if (size or n) > n:
            return None
        return wait.inserted + (max(wait.most, 2 * wait.most - 3) if wait.arrival else 2 * wait.most - 1)

    return bound


BOUNDS = {
    "rpr": deck,
    "reused:1": deck,
    "reused:4": deck,
    "window:0.2": deck,
    "window:1": deck,
    "fixed": cycle,
    "hybrid:1": part(1),
    "hybrid:2": part(2),
    "deadline:1.1": capped("1.1"),
    "deadline:2": capped(2),
    "deadline:4.5": capped("4.5"),
    "frozen-pass": blocks(),
    "frozen-pass:2": blocks(2),
    "iid": lambda wait, n: 1 if n >= wait.most else None,
    "frozen-iid": lambda wait, n: None,
}


def within(waited, wait, retrieval, n):
    """Whether a wait keeps the bound, which is the one that the schedule promises."""
    schedule = as_retrieval(retrieval).schedule
    bound = BOUNDS[retrieval](wait, n)
    promise = schedule.first_bound if wait.arrival else schedule.churn_bound
    assert promise(wait.most, wait.inserted, n) == bound
    return bound is None or waited <= bound


def test_every_schedule_says_what_it_promises():
    assert {spec.split(":")[0] for spec in BOUNDS} == set(registry.registered("schedule"))


@pytest.mark.parametrize("retrieval", BOUNDS)
@given(n=st.integers(1, 6), first=FIRST, rest=st.lists(WRITES, min_size=5, max_size=25), seed=st.integers(0, 999))
@settings(max_examples=50)
def test_no_class_waits_longer_than_its_bound(retrieval, n, first, rest, seed):
    storage = Dictated()
    memory = reprise.Memory(CAPACITY, storage, retrieval, seed=seed)
    for label, wait, waited in longest_waits([(n, writes) for writes in [first, *rest]], memory, storage):
        assert within(waited, wait, retrieval, n), (label, wait)


@pytest.mark.parametrize("retrieval", ["rpr", "reused:4", "window:0.2", "fixed", "hybrid:2"])
@given(
    first=FIRST,
    rest=st.lists(st.tuples(st.integers(1, 20), WRITES), min_size=5, max_size=25),
    seed=st.integers(0, 999),
)
@settings(max_examples=60)
def test_passes_keep_the_bound_of_the_smallest_draw_when_the_size_changes(retrieval, first, rest, seed):
    storage = Dictated()
    memory = reprise.Memory(CAPACITY, storage, retrieval, seed=seed)
    for label, wait, waited in longest_waits([(3, first), *rest], memory, storage):
        assert within(waited, wait, retrieval, wait.least), (label, wait)


def tides(rng, n):
    """Three classes stay; the other slots are flooded with strangers, drained to one class, or changed a little."""
    yield n, [(slot, slot) for slot in range(CAPACITY)]
    stranger = 100
    for _ in range(60):
        kind = rng.integers(4)
        slots = range(3, CAPACITY) if kind < 2 else rng.choice(range(3, CAPACITY), rng.integers(0, 4), replace=False)
        yield n, [(int(slot), 3 if kind == 0 else stranger + int(slot)) for slot in slots]
        stranger += CAPACITY * int(rng.integers(2))  # new faces, or the same as last time


@pytest.mark.parametrize("retrieval", BOUNDS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_bounds_hold_while_classes_flood_in_and_out(retrieval, n):
    for seed in range(4):
        storage = Dictated()
        memory = reprise.Memory(CAPACITY, storage, retrieval, seed=seed)
        for label, wait, waited in longest_waits(tides(np.random.default_rng(seed), n), memory, storage):
            assert within(waited, wait, retrieval, n), (label, wait, seed)


def attains(retrieval, script, seeds, *, arrival, inserted=0):
    """Whether a class waits as long as the bound allows, and longer than a step, under one of the seeds."""
    for seed in range(seeds):
        storage = Dictated()
        memory = reprise.Memory(CAPACITY, storage, retrieval, seed=seed)
        for _, wait, waited in longest_waits(script, memory, storage):
            reached = 1 < waited == BOUNDS[retrieval](wait, script[0][0])
            if reached and (wait.arrival, wait.inserted) == (arrival, inserted):
                return True
    return False


@pytest.mark.parametrize("retrieval", [spec for spec, bound in BOUNDS.items() if bound(Wait(5), 2) is not None])
def test_first_bounds_are_reached(retrieval):
    """So no smaller bound is true. The last class of a first pass is enough, but for blocks, which need holes."""
    holes = [(2, [(slot, slot) for slot in range(6)]), (2, [(1, 0), (3, 2), (5, 4)]), *[(2, [])] * 2, (2, [(1, 9)])]
    still = [(2, [(slot, slot) for slot in range(5)]), *[(2, [])] * 20]
    assert attains(retrieval, [*holes, *still[1:]] if "frozen" in retrieval else still, 200, arrival=True)


def test_the_bounds_of_rpr_are_reached_while_classes_come_and_go():
    # Two strangers take the slots of classes that have come, and come themselves before class 0: I is 2.
    came = [(1, [(1, 100)]), (1, [(2, 101)])]
    begin, still = (1, [(slot, slot) for slot in range(3)]), [(1, [])] * 8
    assert attains("rpr", [begin, *came, *still], 200, arrival=True, inserted=2)
    assert attains("rpr", [begin, *still[:3], *came, *still], 1_000, arrival=False, inserted=2)
