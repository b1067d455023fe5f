"""Classes that come, go and return between draws, in any way: what must hold whatever happens."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory.sampling import FROZEN, RENEWED, RETRIEVALS, SCHEDULES, STORAGES

import reprise

LABELS = st.integers(0, 8)
ARRIVALS = st.lists(LABELS, max_size=6)


def through_json(state):
    return json.loads(json.dumps(state, default=np.ndarray.tolist))


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
@settings(max_examples=30)
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
@settings(max_examples=20)
def test_every_retrieval_sees_the_same_memory_at_every_step(storage, capacity, script, seed):
    arms = [reprise.Memory(capacity, storage, retrieval, seed=seed) for retrieval in [*RETRIEVALS, "mir:4"]]
    arms.append(reprise.Memory(capacity, storage, "rpr", seed=seed, draws=2))
    for n, arriving in script:
        for arm in arms:
            arm.draw(n, score=(lambda slots: -slots) if arm.retrieval_spec.startswith("mir") else None)
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
