"""Examples that are removed, memories that change their size: what moves, what is kept, what storage promises then."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.sampling import ALPHA, STORAGES, uniform_fit
from scipy import stats

import reprise
from reprise.core.registry import Policy
from reprise.memory import Moves, Storage

LABELS = st.lists(st.integers(0, 5), max_size=6)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), LABELS),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 40), max_size=4)),
        st.tuples(st.just("labels"), LABELS),
        st.tuples(st.just("resize"), st.integers(1, 12)),
    ),
    max_size=30,
)


class Column:
    """The caller's own column of examples, which follows the moves."""

    def __init__(self, memory):
        self.memory, self.came = memory, 0
        self.rows = np.full(64, -1)

    def store(self, labels):
        for slot in self.memory.store(labels).tolist():
            if slot >= 0:
                self.rows[slot] = self.came
            self.came += 1

    def follow(self, moves: Moves):
        gone = self.rows[moves.removed].tolist()
        assert not set(moves.source.tolist()) & set(moves.target.tolist())
        assert moves.removed.tolist() == sorted(set(moves.removed.tolist()))
        self.rows[moves.target] = self.rows[moves.source]
        return gone

    @property
    def held(self):
        return self.rows[: len(self.memory)].tolist()


@pytest.mark.parametrize("storage", STORAGES)
@given(capacity=st.integers(1, 10), events=EVENTS, seed=st.integers(0, 9))
@settings(max_examples=40)
def test_columns_that_follow_the_moves_hold_what_is_left(storage, capacity, events, seed):
    memory = reprise.Memory(capacity, storage, seed=seed)
    column, label_of = Column(memory), []
    for kind, what in events:
        held = column.held
        if kind == "store":
            label_of += what
            column.store(what)
            assert set(column.held) <= {*held, *range(column.came - len(what), column.came)}
        elif kind == "remove":
            slots = [place % len(memory) for place in what] if len(memory) else []
            gone = column.follow(memory.remove(slots=slots))
            assert set(gone) == {held[slot] for slot in slots}
            assert set(column.held) == set(held) - set(gone)
        elif kind == "labels":
            gone = column.follow(memory.remove(labels=what))
            assert set(gone) == {example for example in held if label_of[example] in what}
            assert set(column.held) == set(held) - set(gone)
        else:
            gone = column.follow(memory.resize(what))
            assert len(gone) == max(len(held) - what, 0)
            assert set(column.held) == set(held) - set(gone)
            assert memory.capacity == what >= len(memory)
        assert len(set(column.held)) == len(memory)
        assert [label_of[example] for example in column.held] == memory.labels.tolist()


@given(capacity=st.integers(1, 8), events=EVENTS)
@settings(max_examples=100)
def test_first_in_first_out_whatever_was_removed(capacity, events):
    memory = reprise.Memory(capacity, "fifo")
    column, ages = Column(memory), list[int]()
    for kind, what in events:
        if kind == "store":
            column.store(what)
            ages += range(column.came - len(what), column.came)
        elif kind == "remove" and len(memory):
            gone = column.follow(memory.remove(slots=[place % len(memory) for place in what]))
            ages = [age for age in ages if age not in gone]
        elif kind == "resize":
            column.follow(memory.resize(what))
        ages = ages[-memory.capacity :]
        assert sorted(column.held) == sorted(ages)


def test_an_example_that_moves_keeps_its_turn():
    """Class 1 lies in the last slots. Whenever one of class 0 goes, one of class 1 moves, and its pass goes on."""
    for seed in range(10):
        memory = reprise.Memory(12, retrieval="rpr+pass", seed=seed)
        column = Column(memory)
        column.store([0] * 6 + [1] * 6)
        came = []
        for step in range(6):
            drawn = memory.draw(1, only=[1]).slots
            came += column.rows[drawn].tolist()
            if step in (1, 3, 4):
                column.follow(memory.remove(slots=[int(memory._index.slots(0)[0])]))
        assert sorted(came) == [6, 7, 8, 9, 10, 11]


# What a reservoir promises ------------------------------------------------------------------------------------------


def held_after(seed, *steps, storage="reservoir", capacity=8):
    """Which of the examples are held, each its own class, after stores of so many and other calls."""
    memory = reprise.Memory(capacity, storage, seed=seed)
    came = 0
    for step in steps:
        if isinstance(step, int):
            memory.store(np.arange(came, came + step))
            came += step
        else:
            step(memory)
    return memory.labels.tolist()


def inclusion_fit(samples, examples):
    """The p-value that `samples`, each of one size and without repeats, hold every one of `examples` as often."""
    counts = Counter(example for sample in samples for example in sample)
    assert counts.keys() <= set(examples)
    runs, held, of = len(samples), len(samples[0]), len(examples)
    # Counts of one sample exclude each other, which leaves of − 1 directions with this much variance in each.
    variance = runs * held / of * (1 - held / of) * of / (of - 1)
    spread = sum((counts[example] - runs * held / of) ** 2 for example in examples) / variance
    return float(stats.chi2.sf(spread, of - 1))


def test_a_smaller_reservoir_is_a_uniform_sample_of_all_that_came():
    samples = [held_after(seed, 14, lambda memory: memory.resize(4), 6) for seed in range(1500)]
    assert inclusion_fit(samples, range(20)) > ALPHA


def test_who_goes_when_a_reservoir_shrinks_is_uniform():
    gone = []
    for seed in range(1200):
        memory = reprise.Memory(6, seed=seed)
        memory.store(range(6))
        gone += memory.resize(5).removed.tolist()
    assert uniform_fit(gone, range(6)) > ALPHA


def test_after_a_removal_whoever_comes_next_is_kept():
    """So the sample leans towards them: both that come next are held, where a reservoir would hold 8 of 22."""
    for seed in range(50):
        assert {20, 21} <= set(held_after(seed, 20, lambda memory: memory.remove(slots=[0, 5]), 2))


def test_growing_brings_nothing_back():
    for seed in range(20):
        memory = reprise.Memory(8, seed=seed)
        memory.store(range(30))
        held = memory.labels.tolist()
        assert len(memory.resize(12)) == 0
        assert memory.store([30, 31, 32, 33]).tolist() == [8, 9, 10, 11]
        assert memory.labels.tolist() == [*held, 30, 31, 32, 33]


@pytest.mark.parametrize("storage", ["reservoir", "brs"])
def test_what_is_accepted_depends_on_how_many_came_alone(storage):
    """Once the empty slots are filled, a reservoir decides as it would have, had nothing been removed."""
    plain, other = (reprise.Memory(8, storage, seed=3) for _ in range(2))
    for memory in (plain, other):
        memory.store(np.arange(30) % 4)
    other.remove(slots=[7, 2])
    for memory in (plain, other):
        memory.store([9, 9])
    accepted = [[slot >= 0 for slot in memory.store(np.arange(900) % 4).tolist()] for memory in (plain, other)]
    assert accepted[0] == accepted[1]


@pytest.mark.parametrize("storage", ["brs", "brs-always", "cbrs"])
def test_a_smaller_balanced_memory_takes_from_its_largest_classes(storage):
    memory = reprise.Memory(20, storage, seed=0)
    memory.store([0] * 12 + [1] * 5 + [2] * 3)
    moves = memory.resize(11)
    assert len(moves) == 9
    assert memory.counts() == {0: 4, 1: 4, 2: 3}
    memory.store([3] * 8)
    assert max(memory.counts().values()) - min(memory.counts().values()) <= (2 if storage == "brs-always" else 4)


def test_a_class_that_was_full_can_grow_again_after_a_removal():
    memory = reprise.Memory(8, "cbrs", seed=0)
    memory.store([0] * 6 + [1] * 2 + [0] * 30)
    assert memory.counts() == {0: 6, 1: 2}
    memory.remove(labels=[0])
    memory.store([2] * 6)
    memory.store([0] * 3)
    assert memory.counts()[0] == 3


def test_clear_begins_anew():
    memory = reprise.Memory(5, "reservoir", seed=0)
    memory.store(range(100))
    memory.draw(2)
    memory.clear()
    assert (len(memory), memory.classes.tolist(), memory.counts()) == (0, [], {})
    assert not memory.draw(3)
    assert memory.state_dict()["store"] == reprise.Memory(5).state_dict()["store"]
    samples = [held_after(seed, 50, reprise.Memory.clear, 10, capacity=5) for seed in range(1000)]
    assert inclusion_fit(samples, range(50, 60)) > ALPHA  # a uniform sample of what came since


def test_who_goes_has_a_random_stream_of_its_own():
    one, other = (reprise.Memory(9, "brs", "rpr", seed=4) for _ in range(2))
    for memory in (one, other):
        memory.store(range(30))
        memory.draw(3)
    assert one.resize(4).removed.tolist() == other.resize(4).removed.tolist()
    before, after = reprise.Memory(9, "brs", seed=4).state_dict()["random"], one.state_dict()["random"]
    assert after.keys() - before.keys() == {"resize"}
    other.resize(9)
    assert other.state_dict()["random"]["storage"] == after["storage"]
    assert one.resize(4).removed.tolist() == []


# What cannot be ---------------------------------------------------------------------------------------------------


class Plain(Policy):
    """A storage that somebody else wrote: it fills the memory, and that is all it can do."""

    def start(self, source):
        pass

    def assign(self, labels, index):
        slots = []
        for label in labels:
            slots.append(index.size if index.size < index.capacity else -1)
            if slots[-1] >= 0:
                index.put(slots[-1], label)
        return slots

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_a_storage_that_cannot_forget_says_so():
    storage: Storage = Plain()
    memory = reprise.Memory(4, storage)
    memory.store([0, 1, 2])
    before = memory.state_dict()
    with pytest.raises(ValueError, match=r"'Plain\(\)' does not know how to remove: it has no method 'forget'"):
        memory.remove(labels=[1])
    with pytest.raises(ValueError, match=r"'Plain\(\)' does not know how to resize: it has no method 'forget'"):
        memory.resize(2)
    assert memory.state_dict() == before
    memory.clear()
    assert memory.store([5]).tolist() == [0]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({}, "either slots=… or labels=…"),
        ({"slots": [0], "labels": [0]}, "either slots=… or labels=…"),
        ({"slots": [3]}, "slots must be filled, and slot 3 is empty"),
        ({"slots": [-1]}, "slots must be 0 to 3, got -1"),
        ({"slots": [1, 4]}, "slots must be 0 to 3, got 4"),
        ({"slots": [0.5]}, "slots must be whole numbers"),
        ({"labels": 3}, "labels must be one-dimensional"),
    ],
)
def test_bad_input_changes_nothing(what, words):
    memory = reprise.Memory(4)
    memory.store([0, 1, 2])
    before = memory.state_dict()
    with pytest.raises((TypeError, ValueError), match=words):
        memory.remove(**what)
    assert memory.state_dict() == before
    for capacity, error in ((0, "must be 1 or more"), (2.5, "must be a whole number")):
        with pytest.raises((TypeError, ValueError), match=f"capacity {error}"):
            memory.resize(capacity)
    assert memory.state_dict() == before


def test_nothing_to_remove_is_no_error():
    memory = reprise.Memory(4)
    assert repr(memory.remove(slots=[])) == repr(memory.remove(labels=[7])) == "Moves(removed=[], source=[], target=[])"
    memory.clear()
    memory.store([1])
    assert len(memory.remove(slots=[], labels=None)) == 0
    assert memory.resize(4).removed.tolist() == []


# The capacity in a state ----------------------------------------------------------------------------------------------


def test_a_state_of_another_size_is_taken_by_a_memory_of_the_first_or_the_last():
    memory = reprise.Memory(6, seed=1)
    memory.store(range(20))
    memory.resize(4)
    state = memory.state_dict()
    for capacity in (6, 4):
        other = reprise.Memory(capacity, seed=2)
        other.load_state_dict(state)
        assert (other.capacity, other.labels.tolist()) == (4, memory.labels.tolist())
        assert other.state_dict() == state
    with pytest.raises(ValueError, match="capacity 4, this one has 5"):
        reprise.Memory(5).load_state_dict(state)
    with pytest.raises(ValueError, match="capacity 6, this one has 4"):
        reprise.Memory(4).load_state_dict(reprise.Memory(6).state_dict())
