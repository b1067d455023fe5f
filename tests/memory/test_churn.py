"""Classes that come, go and return between draws, in any way: what must hold whatever happens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory.sampling import FROZEN, RENEWED, RETRIEVALS, SCHEDULES, STORAGES

import reprise
from reprise import specs
from reprise.memory import as_retrieval

LABELS = st.integers(0, 8)
ARRIVALS = st.lists(LABELS, max_size=6)


def through_json(state):
    return json.loads(json.dumps(state, default=np.ndarray.tolist))


# Bounds -----------------------------------------------------------------------------------------------------------


class Dictated:
    """A storage that writes where it is told: any class can be thrown out, or kept, at any time."""

    slots: list[int]

    def fresh(self):
        return self

    def start(self, random):
        pass

    def place(self, labels, index):
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
    assert {spec.split(":")[0] for spec in BOUNDS} == set(specs.registered("schedule"))


@pytest.mark.parametrize("retrieval", BOUNDS)
@given(n=st.integers(1, 6), first=FIRST, rest=st.lists(WRITES, min_size=5, max_size=25), seed=st.integers(0, 999))
@settings(max_examples=100)
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
    for seed in range(8):
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


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(
    script=st.lists(st.tuples(st.integers(0, 12), ARRIVALS), min_size=3, max_size=20),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_classes_come_as_they_would_without_example_passes(schedule, script, seed):
    """So what a schedule promises of classes, it promises with `+pass`."""
    one, other = (reprise.Memory(7, "fifo", spec, seed=seed) for spec in (schedule, f"{schedule}+pass"))
    for n, arriving in script:
        assert one.draw(n).labels.tolist() == other.draw(n).labels.tolist()
        one.store(arriving)
        other.store(arriving)


# Batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@given(
    capacity=st.integers(1, 12),
    storage=st.sampled_from(STORAGES),
    script=st.lists(st.tuples(st.integers(0, 14), ARRIVALS), min_size=3, max_size=20),
    seed=st.integers(0, 99),
)
@settings(max_examples=50)
def test_batches_are_sound(retrieval, capacity, storage, script, seed):
    memory = reprise.Memory(capacity, storage, retrieval, seed=seed)
    model = {}
    for step, (n, arriving) in enumerate(script):
        assert memory.steps == step
        draw = memory.draw(n)
        slots, labels = draw.slots.tolist(), draw.labels.tolist()
        assert len(set(slots)) == len(slots) <= min(n, len(model)), "an example came twice"
        assert [model[slot] for slot in slots] == labels, "an empty slot or a wrong label"
        resident = len(set(model.values()))
        if retrieval == "uniform":
            assert len(slots) == min(n, len(model))
        elif retrieval.split("+")[0] in RENEWED:
            assert len(set(labels)) == min(n, resident), "a class came twice, or one was left out"
            assert len(labels) >= min(n, resident)
        else:
            assert retrieval.split("+")[0] in FROZEN
            assert bool(labels) == bool(n and model)
        for slot, label in zip(memory.store(arriving).tolist(), arriving, strict=True):
            if slot >= 0:
                model[slot] = label
        assert memory.labels.tolist() == [model[slot] for slot in range(len(model))]
        assert memory.classes.tolist() == sorted(set(model.values()))
        assert memory.counts() == {c: list(model.values()).count(c) for c in memory.classes.tolist()}
        assert len(memory) == len(model) <= capacity


@pytest.mark.parametrize("storage", STORAGES)
@given(
    capacity=st.integers(1, 10),
    script=st.lists(st.tuples(st.integers(0, 9), ARRIVALS), min_size=3, max_size=15),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_every_retrieval_sees_the_same_memory_at_every_step(storage, capacity, script, seed):
    arms = [reprise.Memory(capacity, storage, retrieval, seed=seed) for retrieval in [*RETRIEVALS, "mir:4"]]
    arms.append(reprise.Memory(capacity, storage, "rpr", seed=seed, draws=2))
    for n, arriving in script:
        for arm in arms:
            arm.draw(n, score=lambda slots: -slots)
        arms[-1].draw(n, channel=1)
        written = {tuple(arm.store(arriving).tolist()) for arm in arms}
        assert len(written) == 1
        assert len({tuple(arm.labels.tolist()) for arm in arms}) == 1


@pytest.mark.parametrize("storage", STORAGES)
@given(capacity=st.integers(1, 8), script=st.lists(ARRIVALS, max_size=12), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_a_batch_is_stored_as_its_examples_one_by_one(storage, capacity, script, seed):
    together = reprise.Memory(capacity, storage, seed=seed)
    single = reprise.Memory(capacity, storage, seed=seed)
    for arriving in script:
        assert together.store(arriving).tolist() == [int(single.store([label])[0]) for label in arriving]
    assert through_json(together.state_dict()) == through_json(single.state_dict())


@pytest.mark.parametrize("storage", STORAGES)
def test_large_batches_are_stored_as_their_examples_one_by_one(storage):
    # Long enough to cross the borders of blocks of random words.
    labels = np.random.default_rng(0).integers(0, 20, 3_000)
    together, single = (reprise.Memory(50, storage, seed=1) for _ in range(2))
    slots = np.concatenate([together.store(part) for part in np.split(labels, [40, 340, 640, 1_400, 1_410, 2_200])])
    assert slots.tolist() == [int(single.store([label])[0]) for label in labels]


@given(
    retrieval=st.sampled_from(["rpr", "rpr+pass", "reused:1"]),
    script=st.lists(st.tuples(st.integers(0, 12), ARRIVALS), min_size=3, max_size=20),
)
def test_reused_once_is_rpr_draw_for_draw_under_churn(retrieval, script):
    suffix = "+pass" if "+pass" in retrieval else ""
    one, other = (reprise.Memory(7, "fifo", spec + suffix, seed=3) for spec in ("rpr", "reused:1"))
    for n, arriving in script:
        assert one.draw(n).slots.tolist() == other.draw(n).slots.tolist()
        one.store(arriving)
        other.store(arriving)


# Save and restore -------------------------------------------------------------------------------------------------


def follow(memory, script):
    """What a memory does from here on."""
    for n, arriving in script:
        for channel in range(memory.draws):
            yield memory.draw(n, channel=channel).slots.tolist()
        yield memory.store(arriving).tolist()
        yield memory.steps


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@given(
    capacity=st.integers(1, 10),
    storage=st.sampled_from(STORAGES),
    before=st.lists(st.tuples(st.integers(0, 12), ARRIVALS), max_size=12),
    after=st.lists(st.tuples(st.integers(0, 12), ARRIVALS), min_size=1, max_size=8),
    draws=st.integers(1, 2),
)
@settings(max_examples=30)
def test_a_restored_memory_continues_bit_for_bit(retrieval, capacity, storage, before, after, draws):
    memory = reprise.Memory(capacity, storage, retrieval, seed=5, draws=draws)
    list(follow(memory, before))
    memory.store([3, 1])  # arrivals that the schedule has not seen yet
    state = memory.state_dict()
    text = json.dumps(state, default=np.ndarray.tolist)
    expected = list(follow(memory, after))
    assert json.dumps(state, default=np.ndarray.tolist) == text, "the state is shared with the memory"
    for saved in (state, json.loads(text)):
        other = reprise.Memory(capacity, storage, retrieval, seed=6, draws=draws)
        list(follow(other, after))
        other.load_state_dict(saved)
        assert through_json(other.state_dict()) == json.loads(text)
        assert other.seed == 5
        assert list(follow(other, after)) == expected
        assert json.dumps(saved, default=np.ndarray.tolist) == text, "the state is shared with the memory"


def test_a_restored_deadline_remembers_who_is_late():
    # More classes due than slots is rare: it takes fewer slots, fewer classes and newcomers at once. So by hand.
    memory = reprise.Memory(12, "fifo", "deadline:1.5", seed=2)
    memory.store(range(12))
    memory.draw(2)
    state = through_json(memory.state_dict())
    schedule = state["channels"][0]["schedule"]
    schedule["steps"], late = [], [label for _, holders in schedule["steps"] for label in holders][:5]
    schedule["late"] = late
    memory.load_state_dict(state)
    assert through_json(memory.state_dict()) == state
    assert [label for _ in range(3) for label in memory.draw(2).labels.tolist()][:5] == late


def test_steps_count_the_first_draw_of_each():
    memory = reprise.Memory(4, draws=2)
    memory.store([1, 2])
    for step in range(1, 4):
        memory.draw(2)
        memory.draw(1, channel=1)
        memory.draw(0, channel=1)
        assert memory.steps == step


class MemoryMachine(RuleBasedStateMachine):
    """A memory, its twin that is saved and restored at odd moments, and a plain model of what it holds."""

    @initialize(
        capacity=st.integers(1, 9),
        storage=st.sampled_from(STORAGES),
        retrieval=st.sampled_from(RETRIEVALS),
        seed=st.integers(0, 2**70),
    )
    def begin(self, capacity, storage, retrieval, seed):
        self.arguments = (capacity, storage, retrieval)
        self.memory = reprise.Memory(*self.arguments, seed=seed)
        self.twin = reprise.Memory(*self.arguments, seed=seed)
        self.held, self.draws = {}, 0

    @rule(labels=ARRIVALS)
    def store(self, labels):
        slots = self.memory.store(labels).tolist()
        assert self.twin.store(np.array(labels, np.uint8)).tolist() == slots
        self.held.update((slot, label) for slot, label in zip(slots, labels, strict=True) if slot >= 0)

    @rule(n=st.integers(0, 12))
    def draw(self, n):
        draw = self.memory.draw(n)
        self.draws += 1
        assert self.twin.draw(n).slots.tolist() == draw.slots.tolist()
        assert draw.labels.tolist() == [self.held[slot] for slot in draw.slots.tolist()]

    @rule(seed=st.integers(0, 3))
    def restore(self, seed):
        state = through_json(self.twin.state_dict())
        self.twin = reprise.Memory(*self.arguments, seed=seed)
        self.twin.load_state_dict(state)

    @precondition(lambda self: len(self.held) > 1)
    @rule(labels=st.lists(st.one_of(LABELS, st.just(-1)), min_size=1, max_size=3).filter(lambda row: -1 in row))
    def refuse(self, labels):
        with pytest.raises(ValueError, match="-1"):
            self.memory.store(labels)
        with pytest.raises(ValueError, match="-2"):
            self.memory.draw(-2)

    @invariant()
    def holds_what_it_was_given(self):
        if hasattr(self, "memory"):
            assert self.memory.labels.tolist() == [self.held[slot] for slot in range(len(self.held))]
            assert self.memory.steps == self.twin.steps == self.draws
            assert through_json(self.memory.state_dict()) == through_json(self.twin.state_dict())


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(max_examples=60, stateful_step_count=25)
