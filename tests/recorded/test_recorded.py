"""A memory that records what happens: it does what a plain one does, and its tape says so."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import reprise
from reprise.audit import measure
from reprise.memory.plain import original, plain
from reprise.recorded import Record


def played(memory, tape, exclude=()):
    """Let a memory do what a tape says that one did; whether it does the same."""
    for step in tape:
        for channel, slots in enumerate(step.slots):
            assert memory.draw(tape.replay_size, channel=channel, exclude=exclude).slots.tolist() == slots.tolist()
        assert memory.store(step.labels).tolist() == step.written.tolist()


@pytest.mark.parametrize("retrieval", ["rpr", "uniform", "deadline:2+pass"])
def test_its_tape_is_the_one_that_would_have_been_planned(retrieval):
    labels = np.arange(600) // 20 % 13
    planned = reprise.plan(labels, reprise.Memory(40, "brs", retrieval, seed=3, draws=2), replay=3, batch=10)
    memory = reprise.RecordedMemory(40, "brs", retrieval, seed=3, draws=2)
    played(memory, planned)
    tape = memory.tape()
    assert tape.sparse == ()
    for name in ("incoming", "replay", "slots", "written", "labels"):
        assert np.array_equal(getattr(tape, name), getattr(planned, name)), name
    assert memory.audit() == measure(planned)
    assert (tape.stream, tape.capacity, tape.replay_size, tape.seed) == ("live", 40, 3, 3)


def test_it_does_what_a_plain_memory_does():
    plain_one, memory = (kind(9, "cbrs", "rpr+pass", seed=1) for kind in (reprise.Memory, reprise.RecordedMemory))
    for step in range(60):
        answers = []
        for one in (plain_one, memory):
            answer = [one.draw(3, exclude=[step % 5]).slots.tolist(), one.store([step % 7, step % 3]).tolist()]
            answer += [repr(one.remove(slots=[0])) if step % 9 == 8 else repr(one.resize(5 + step % 6))]
            answers.append(answer)
        assert answers[0] == answers[1]
    state = memory.state_dict()
    assert {**plain_one.state_dict(), "record": state["record"]} == state


def test_the_tape_is_read_step_by_step():
    """A removal after a draw belongs to that draw's step, and the next draw begins another."""
    memory = reprise.RecordedMemory(4, "fifo", "fixed", seed=0)
    memory.store([5, 6])
    memory.draw(1)
    memory.store([7])
    memory.remove(slots=[0])  # slot 2 moves to slot 0
    memory.store([8, 8])
    memory.draw(1)
    memory.remove(labels=[8])
    memory.draw(2, exclude=[6])
    memory.draw(0, exclude=[6])
    memory.clear()
    memory.draw(1)
    tape = memory.tape()
    assert tape.incoming.tolist() == [[0, 1, -1], [2, 3, 4], *[[-1] * 3] * 4]
    assert tape.written.tolist() == [[0, 1, -1], [2, 2, 3], *[[-1] * 3] * 4]
    assert tape.moved.tolist() == [[1, 1, 0, 2], [2, 0, 2, -1], [2, 0, 3, -1], [4, 0, 0, -1], [4, 0, 1, -1]]
    assert tape.excluded.tolist() == [[3, 0, 6]]
    assert tape.replay.tolist() == [[[-1, -1]], [[0, -1]], [[1, -1]], [[2, -1]], [[-1, -1]], [[-1, -1]]]
    assert tape.replay_size == 1


def test_what_is_removed_between_two_draws_begins_a_step():
    memory = reprise.RecordedMemory(4, retrieval="uniform", draws=2)
    memory.store([5, 6])
    memory.draw(2)
    memory.remove(labels=[5])
    memory.draw(2, channel=1)
    assert memory.tape().replay.tolist()[1][1] == memory.tape().replay.tolist()[2][0] == [-1, -1]
    assert memory.tape().replay.tolist()[2][1] == [1, -1]
    memory.audit()  # a draw before its removal would have brought a class that had gone


def test_channels_may_be_drawn_in_any_order():
    memory = reprise.RecordedMemory(4, retrieval="rpr", draws=2)
    memory.store([5, 6, 7])
    memory.draw(1, channel=1, exclude=[7, 5])
    memory.draw(1, exclude=[6])
    assert memory.tape().excluded.tolist() == [[1, 0, 6], [1, 1, 5], [1, 1, 7]]


def test_a_state_without_a_record_is_refused():
    memory = reprise.RecordedMemory(4)
    with pytest.raises(ValueError, match="a memory that kept no record"):
        memory.load_state_dict(reprise.Memory(4).state_dict())
    plain_one = reprise.Memory(4)
    memory.store([1, 2])
    plain_one.load_state_dict(memory.state_dict())  # the other way it is simply not looked at
    assert plain_one.labels.tolist() == [1, 2]


def test_a_record_that_does_not_fit_is_refused():
    memory = reprise.RecordedMemory(4, seed=1)
    memory.store([1, 2, 3])
    memory.draw(2)
    memory.remove(slots=[0])
    state = memory.state_dict()
    before = json.dumps(state)
    record = original(state["record"])
    for part, value in {
        "moved": np.empty(0, np.int64),
        "labels": record["labels"] + 1,
        "written": record["written"][:-1],
        "excluded": np.array([9, 0, 1]),
        "sizes": [],
    }.items():
        with pytest.raises(ValueError):
            memory.load_state_dict({**state, "record": plain({**record, part: value})})
        assert json.dumps(memory.state_dict()) == before


def test_a_record_of_before_has_no_moves():
    memory = reprise.RecordedMemory(4, seed=1)
    memory.store([1, 2, 3])
    saved = memory.record.state_dict()
    for part in ("moved", "excluded", "capacity"):
        del saved[part]
    assert Record.from_state(1, saved, memory).state_dict()["labels"].tolist() == [1, 2, 3]


def test_nothing_that_fails_is_recorded():
    memory = reprise.RecordedMemory(4, seed=1)
    memory.store([1, 2, 3])
    before = memory.tape()
    for call in (
        lambda: memory.store([-1]),
        lambda: memory.draw(-1),
        lambda: memory.draw(1, exclude=[0.5]),
        lambda: memory.remove(slots=[9]),
        lambda: memory.resize(0),
        lambda: memory.assign([0], [1]),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert memory.tape() == before


def test_copies_keep_records_of_their_own():
    memory = reprise.RecordedMemory(4, seed=1)
    memory.store([1, 2, 3])
    twin = pickle.loads(pickle.dumps(memory))
    twin.draw(1)
    assert (len(twin.tape()), len(memory.tape())) == (2, 1)
    assert repr(twin) == "RecordedMemory(capacity=4, storage='reservoir', retrieval='rpr', seed=1)"


def test_before_anything_happened():
    memory = reprise.RecordedMemory(4)
    assert len(memory.tape()) == 0
    assert memory.audit().violations == 0
    memory.clear()
    memory.draw(2)
    assert memory.audit().steps == 1
