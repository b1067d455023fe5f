"""Storage of the caller's own: the memory is told what slots hold, and decides what returns."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.sampling import ALPHA, RETRIEVALS, uniform_fit

import reprise

ASSIGNED = st.lists(st.tuples(st.integers(0, 11), st.integers(-1, 4)), max_size=8)


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@given(script=st.lists(st.tuples(ASSIGNED, st.sets(st.integers(0, 4))), max_size=15))
@settings(max_examples=15)
def test_a_draw_names_slots_that_hold_what_it_says(retrieval, script):
    memory = reprise.Memory(12, "external", retrieval, seed=0)
    held: dict[int, int] = {}
    for pairs, barred in script:
        memory.assign([slot for slot, _ in pairs], [label for _, label in pairs])
        for slot, label in pairs:
            held.pop(slot, None)
            if label >= 0:
                held[slot] = label
        assert len(memory) == len(held)
        assert memory.labels.tolist() == [held.get(slot, -1) for slot in range(12)]
        assert memory.classes.tolist() == sorted(set(held.values()))
        drawn = memory.draw(3, exclude=barred)
        assert [held[slot] for slot in drawn.slots.tolist()] == drawn.labels.tolist()
        assert bool(drawn) == any(label not in barred for label in held.values())


def test_the_bound_holds_for_a_storage_of_ones_own():
    memory = reprise.RecordedMemory(50, "external", "rpr", seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        memory.draw(3)
        memory.assign(rng.integers(0, 50, 4), rng.integers(-1, 20, 4))
    audit = memory.audit()
    assert (audit.violations, audit.overdue) == (0, 0)
    assert audit.deactivations > 10
    assert memory.tape().storage == "external"


def test_removing_leaves_holes_and_moves_nothing():
    memory = reprise.Memory(10, "external", seed=0)
    memory.assign([9, 4, 6, 1], [1, 2, 1, 3])
    moves = memory.remove(labels=[1])
    assert [moves.removed.tolist(), moves.source.tolist(), moves.target.tolist()] == [[6, 9], [], []]
    assert memory.labels.tolist() == [-1, 3, -1, -1, 2, -1, -1, -1, -1, -1]
    with pytest.raises(ValueError, match="slot 6 is empty"):
        memory.remove(slots=[4, 6])
    assert memory.resize(3).removed.tolist() == [4]
    assert memory.labels.tolist() == [-1, 3, -1]
    memory.resize(20)
    memory.assign([15], [8])
    memory.clear()
    assert memory.labels.tolist() == [-1] * 20
    memory.assign([15], [8])
    assert memory.draw(4).slots.tolist() == [15]


def test_every_filled_slot_is_as_likely():
    memory = reprise.Memory(100, "external", "uniform", seed=0)
    memory.assign([90, 5, 33, 60, 2], [0, 0, 1, 2, 2])
    memory.assign([60, 7], [-1, 1])
    drawn = [int(memory.draw(1).slots[0]) for _ in range(3000)]
    assert uniform_fit(drawn, [90, 5, 33, 2, 7]) > ALPHA


def test_a_score_is_asked_by_the_callers_slots():
    memory = reprise.Memory(100, "external", "mir:3", seed=0)
    memory.assign([90, 5, 33], [0, 0, 1])
    asked: list[int] = []
    assert memory.draw(1, score=lambda slots: asked.extend(slots.tolist()) or slots).slots.tolist() == [90]
    assert sorted(asked) == [5, 33, 90]


def test_a_state_goes_on():
    memory = reprise.Memory(12, "external", "rpr+pass", seed=0)
    memory.assign([11, 3, 7, 0], [1, 1, 2, 3])
    memory.draw(2)
    memory.assign([3], [-1])
    other = reprise.Memory(12, "external", "rpr+pass", seed=5)
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    for _ in range(10):
        assert memory.draw(2).slots.tolist() == other.draw(2).slots.tolist()


def test_who_decides_is_said_plainly():
    own, ours = reprise.Memory(4, "external"), reprise.Memory(4)
    with pytest.raises(
        ValueError, match=r"'external' storage is your own: say what a slot holds by assign\(slots, labels\)"
    ):
        own.store([1])
    with pytest.raises(ValueError, match=r"'reservoir' decides itself what it keeps: call store\(labels\), not assign"):
        ours.assign([0], [1])
    with pytest.raises(ValueError, match="'external' storage is the caller's own, so what it keeps cannot be planned"):
        reprise.plan([0, 1, 2], own)


@pytest.mark.parametrize(
    ("slots", "labels", "words"),
    [
        ([4], [1], "slots must be 0 to 3, got 4"),
        ([-1], [1], "slots must be 0 to 3, got -1"),
        ([0], [-2], "labels must be -1 to"),
        ([0, 1], [1], "got 2 slots and 1 labels"),
        ([0], [0.5], "labels must be whole numbers"),
    ],
)
def test_bad_input_changes_nothing(slots, labels, words):
    memory = reprise.Memory(4, "external")
    memory.assign([2], [1])
    before = memory.state_dict()
    with pytest.raises((TypeError, ValueError), match=words):
        memory.assign(slots, labels)
    assert memory.state_dict() == before
