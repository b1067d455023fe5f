"""Steps of a tape: what the padded arrays hold, without their padding."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory.sampling import RETRIEVALS, STORAGES

import reprise
from reprise import Memory, Tape, TapeStep, plan, streams


@st.composite
def tapes(draw: st.DrawFn, draws: int = 3) -> Tape:
    """Tapes of small streams under any storage and retrieval, with uneven batches, some of them empty."""
    labels = draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    ids = st.lists(st.integers(0, len(labels) - 1), max_size=4)
    stream = streams.from_batches(draw(st.lists(ids, max_size=8)), labels)
    memory = Memory(
        draw(st.integers(1, 9)),
        draw(st.sampled_from(STORAGES)),
        draw(st.sampled_from(RETRIEVALS)),
        seed=draw(st.integers(0, 9)),
        draws=draw(st.integers(1, draws)),
    )
    return plan(stream, memory, draw(st.integers(0, 4)))


def unpadded(row: np.ndarray) -> list[int]:
    return [value for value in row.tolist() if value >= 0]


@given(tapes())
def test_a_step_is_its_rows_without_padding(tape: Tape) -> None:
    before = tape.hash, pickle.dumps(tape)
    steps = list(tape)
    assert [step.number for step in steps] == list(range(len(tape)))
    for t, step in enumerate(steps):
        assert step == tape[t] == tape[t - len(tape)]
        assert step.incoming.tolist() == unpadded(tape.incoming[t])
        assert [row.tolist() for row in step.replay] == [unpadded(row) for row in tape.replay[t]]
        assert [row.tolist() for row in step.slots] == [unpadded(row) for row in tape.slots[t]]
        assert step.written.tolist() == tape.written[t, : len(step.incoming)].tolist()
        assert step.labels.tolist() == tape.labels[step.incoming].tolist()
        assert [row.tolist() for row in step.replay_labels] == [tape.labels[row].tolist() for row in step.replay]
        assert step.sizes == (len(step.incoming), *map(len, step.replay))
        assert step.ids.tolist() == [*step.incoming.tolist(), *(one for row in step.replay for one in row.tolist())]
    assert (tape.hash, pickle.dumps(tape)) == before, "looking at steps changed the tape"
    assert list(tape.__dict__) == [*tape.__dataclass_fields__, "hash"]


@given(tapes(), st.slices(8))
def test_slices_are_those_of_a_list(tape: Tape, part: slice) -> None:
    chosen = tape[part]
    assert list(chosen) == list(tape)[part]
    assert len(chosen) == len(list(tape)[part])
    assert list(chosen[::-1][1:]) == list(tape)[part][::-1][1:]
    assert list(reversed(chosen)) == list(tape)[part][::-1]


@given(tapes(), st.integers(1, 5))
def test_parts_of_ranks_are_a_partition_of_every_row(tape: Tape, world: int) -> None:
    for step in tape:
        parts = [step.part(rank, world) for rank in range(world)]
        for name in ("incoming", "written", "labels"):
            whole = getattr(step, name).tolist()
            assert [getattr(part, name).tolist() for part in parts] == [whole[rank::world] for rank in range(world)]
        for name in ("replay", "slots", "replay_labels"):
            for number, row in enumerate(getattr(step, name)):
                mine = [getattr(part, name)[number].tolist() for part in parts]
                assert mine == [row.tolist()[rank::world] for rank in range(world)]
        assert sorted(one for part in parts for one in part.ids.tolist()) == sorted(step.ids.tolist())


def still() -> Tape:
    return plan(streams.from_labels(np.arange(60) % 6, tasks=3, batch=7), Memory(12, seed=1, draws=2), 4)


def test_rows_are_views_and_cannot_be_written() -> None:
    tape = still()
    step = tape[5]
    assert np.shares_memory(step.incoming, tape.incoming)
    assert np.shares_memory(step.written, tape.written)
    assert all(np.shares_memory(row, tape.replay) for row in step.replay)
    for one in (step, pickle.loads(pickle.dumps(step)), copy.deepcopy(step), step.part(1, 2)):
        for row in (one.incoming, one.written, one.labels, *one.replay, *one.slots, *one.replay_labels):
            with pytest.raises(ValueError, match="read-only"):
                row[...] = 0
    with pytest.raises(AttributeError):
        step.number = 3  # type: ignore[misc]


def test_a_step_is_a_value() -> None:
    tape = still()
    twin = pickle.loads(pickle.dumps(tape[5]))
    assert twin == tape[5]
    assert hash(twin) == hash(tape[5])
    assert len({tape[5], twin, tape[6]}) == 2
    assert tape[5] != tape[5].part(0, 2)
    assert tape[5] != 5
    assert isinstance(twin, TapeStep)
    assert len(pickle.dumps(tape[5])) < 3000, "a step carries the whole tape with it"


def test_one_draw_may_be_asked_for_by_itself() -> None:
    one = plan(streams.from_labels(np.arange(40) % 4, tasks=2, batch=4), Memory(8), 3)
    assert one[4].replayed.tolist() == one[4].replay[0].tolist() == unpadded(one.replay[4, 0])
    with pytest.raises(ValueError, match="this step has 2 draws: `replay` has one entry for each"):
        _ = still()[4].replayed


def test_padding_may_stand_anywhere() -> None:
    tape = replace(
        still(),
        incoming=np.array([[-1, 3, -1, 4]]),
        written=np.array([[-1, -1, -1, 2]]),
        replay=np.array([[[-1, 5], [6, -1]]]),
        slots=np.array([[[-1, 1], [0, -1]]]),
    )
    step = tape[0]
    assert (step.incoming.tolist(), step.written.tolist()) == ([3, 4], [-1, 2])
    assert [row.tolist() for row in step.replay] == [[5], [6]]
    assert [row.tolist() for row in step.slots] == [[1], [0]]


def test_steps_that_are_not_there() -> None:
    tape = still()
    for place in (len(tape), -len(tape) - 1, 10**6):
        with pytest.raises(IndexError, match=f"there are {len(tape)} steps, numbered from 0, got {place}"):
            tape[place]
    for place in ("0", 1.0, None, (0, 1)):
        with pytest.raises(TypeError, match="steps are numbered, got"):
            tape[place]  # type: ignore[call-overload]
    assert tape[np.int64(3)] == tape[3]


def test_steps_are_cheap() -> None:
    tape = plan(streams.from_labels(np.arange(64_000) % 100, batch=32), Memory(500, seed=0), 8)
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        for _ in tape:
            pass
        best = min(best, time.process_time() - began)
    assert best < 100e-6 * len(tape), f"{1e6 * best / len(tape):.0f} µs a step"
    began = time.process_time()
    assert len(tape[1:][::2]) == len(tape) // 2
    assert time.process_time() - began < 0.01, "a slice makes its steps before they are asked for"
    assert reprise.TapeStep is TapeStep
