"""Tapes: planned, hashed, saved, read back; and a damaged one is never taken for a whole one."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

import reprise
from reprise import Memory, Tape, plan

ARRAYS = ("incoming", "replay", "slots", "written", "labels", "boundaries", "initial")


class Batches:
    """A stream of given batches of example ids."""

    def __init__(self, labels, batches, name="by hand"):
        self.labels = np.array(labels, np.int64)
        self.batches = [np.array(batch, np.int64) for batch in batches]
        self.boundaries = np.array([len(batches)], np.int64)
        self.name = name

    def __iter__(self):
        return iter(self.batches)


def drift(steps=40, arriving=5, classes=15, seed=0):
    """A stream in which classes come and go, with batches of uneven length."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(steps * arriving) // (3 * arriving) + rng.integers(0, 4, steps * arriving)) % classes
    batches = [np.arange(step * arriving, (step + 1) * arriving - step % 3) for step in range(steps)]
    return Batches(labels, batches, "drift")


def small(**changes):
    tape = plan(drift(6, 3, 5), Memory(4, seed=2), 2)
    return replace(tape, **changes) if changes else tape


def state_of(memory):
    return json.dumps(memory.state_dict(), default=np.ndarray.tolist)


# Planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retrieval", ["rpr", "uniform", "frozen-pass"])
@pytest.mark.parametrize("storage", ["reservoir", "fifo"])
def test_a_plan_says_what_the_memory_does(storage, retrieval):
    stream = drift()
    planned, live = (Memory(12, storage, retrieval, seed=4) for _ in range(2))
    tape = plan(stream, planned, 6)
    held = {}
    for step, batch in enumerate(stream):
        draw = live.draw(6)
        count = len(draw)
        assert tape.slots[step, 0, :count].tolist() == draw.slots.tolist()
        assert tape.replay[step, 0, :count].tolist() == [held[slot] for slot in draw.slots.tolist()]
        assert stream.labels[tape.replay[step, 0, :count]].tolist() == draw.labels.tolist()
        assert (tape.slots[step, 0, count:] == -1).all()
        assert (tape.replay[step, 0, count:] == -1).all()
        assert not set(tape.replay[step, 0].tolist()) & set(batch.tolist()), "replayed in the step that brings it"
        slots = live.store(stream.labels[batch])
        assert tape.incoming[step, : len(batch)].tolist() == batch.tolist()
        assert tape.written[step, : len(batch)].tolist() == slots.tolist()
        assert (tape.incoming[step, len(batch) :] == -1).all()
        assert (tape.written[step, len(batch) :] == -1).all()
        held.update((slot, example) for slot, example in zip(slots.tolist(), batch.tolist(), strict=True) if slot >= 0)
    assert state_of(planned) == state_of(live), "the plan did not advance the memory"
    assert (tape.storage, tape.retrieval, tape.capacity, tape.replay_size, tape.seed) == (storage, retrieval, 12, 6, 4)
    assert tape.stream == "drift"
    assert tape.labels.tolist() == stream.labels.tolist()
    assert tape.boundaries.tolist() == [40]
    assert len(tape) == 40
    assert len(tape.initial) == 0


def test_a_slot_written_twice_in_a_step_holds_the_later():
    tape = plan(Batches([0, 1, 2, 3, 4, 5], [[0, 1, 2, 3], [4], [5]]), Memory(2, "fifo"), 2)
    assert tape.written[0].tolist() == [0, 1, 0, 1]
    assert sorted(tape.replay[1, 0].tolist()) == [2, 3]
    assert sorted(tape.replay[2, 0].tolist()) == [3, 4]


def test_a_plan_goes_on_from_what_the_memory_holds():
    memory = Memory(4, "fifo", seed=1)
    memory.store([7, 8, 7])
    tape = plan(Batches([7, 9, 9], [[0, 1], [2]]), memory, 3)
    assert tape.initial.tolist() == [3, 4, 5], "what it held has ids of its own, after the stream's"
    assert tape.labels.tolist() == [7, 9, 9, 7, 8, 7]
    assert set(tape.replay[0, 0].tolist()) == {3, 4, 5}
    named = Memory(4, "fifo", seed=1)
    named.store([7, 8, 7])
    tape = plan(Batches([7, 9, 8, 7], [[1], [1]]), named, 3, initial=[0, 2, 3])
    assert tape.initial.tolist() == [0, 2, 3]
    assert tape.labels.tolist() == [7, 9, 8, 7]
    assert set(tape.replay[0, 0].tolist()) == {0, 2, 3}


def test_a_second_plan_continues_the_first():
    stream = drift()
    whole = plan(stream, Memory(9, seed=3), 4)
    memory = Memory(9, seed=3)
    for half in (stream.batches[:20], stream.batches[20:]):
        tape = plan(Batches(stream.labels, half), memory, 4)
    assert tape.slots.tolist() == whole.slots[20:].tolist()
    assert tape.written.tolist() == whole.written[20:].tolist()


def test_two_draws_a_step_are_independent():
    one = plan(drift(300), Memory(12, seed=1), 3)
    two = plan(drift(300), Memory(12, seed=1, draws=2), 3)
    assert two.replay.shape == (300, 2, 3)
    assert two.slots[:, :1].tolist() == one.slots.tolist(), "a second draw changed the first"
    assert two.written.tolist() == one.written.tolist()
    full = slice(5, None)
    classes = np.sort(two.labels[two.replay[full]], axis=2)
    same = (classes[:, 0] == classes[:, 1]).all(axis=1).mean()
    assert same < 0.25, "both draws bring the same classes"
    second = plan(drift(300), Memory(12, seed=1, draws=3), 3)
    assert second.slots[:, :2].tolist() == two.slots.tolist()


def test_nothing_to_plan_and_nothing_to_replay(tmp_path):
    for tape, shape in [
        (plan(Batches([0, 1], []), Memory(3), 4), (0, 1, 4)),
        (plan(Batches([], []), Memory(3, draws=2), 0), (0, 2, 0)),
        (plan(drift(5), Memory(3), 0), (5, 1, 0)),
        (plan(Batches([0], [[], []]), Memory(3), 2), (2, 1, 2)),
        (plan(reprise.streams.StillStream(3), Memory(3), 2), (3, 1, 2)),
    ]:
        assert tape.replay.shape == tape.slots.shape == shape
        tape.save(tmp_path / "tape")
        assert Tape.load(tmp_path / "tape") == tape
    assert plan(Batches([0], [[], []]), Memory(3), 2).incoming.shape == (2, 0)


def test_progress_is_told():
    told = []
    plan(drift(4), Memory(3), 2, progress=told.append)
    assert told == [1, 2, 3, 4]


def test_a_tape_is_frozen():
    tape = small()
    for name in ARRAYS:
        assert getattr(tape, name).dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            getattr(tape, name)[...] = 0
    with pytest.raises(AttributeError):
        tape.seed = 3
    stream = Batches([0, 1, 2], [[0, 1, 2]])
    plan(stream, Memory(3), 1)
    stream.labels[0] = 5  # what was given is still one's own


# Hashes -----------------------------------------------------------------------------------------------------------


def test_the_hash_is_of_the_content_alone():
    assert small().hash == small().hash
    assert small() == small()
    assert len({small(), small()}) == 1
    tape = small()
    spread = replace(tape, replay=np.asfortranarray(tape.replay), labels=np.repeat(tape.labels, 2)[::2])
    assert spread.hash == tape.hash, "the layout in memory shows"
    assert tape.hash[:12] in repr(tape)


def test_everything_a_tape_says_is_in_the_hash():
    tape = small()
    facts = {"stream": "other", "storage": "fifo", "retrieval": "iid", "capacity": 5, "replay_size": 3, "seed": 3}
    arrays = {"boundaries": np.array([3, 6]), "initial": np.array([0]), "incoming": tape.incoming[:, ::-1].copy()}
    changed = [replace(tape, **{name: value}) for name, value in {**facts, **arrays}.items()]
    for name in ("incoming", "replay", "slots", "written", "labels"):
        array = getattr(tape, name).copy()
        place = tuple(size - 1 for size in array.shape)
        array[place] = 0 if array[place] else 1
        changed.append(replace(tape, **{name: array}))
    assert len({tape.hash, *(other.hash for other in changed)}) == len(changed) + 1
    assert all(other != tape for other in changed)


# Files ------------------------------------------------------------------------------------------------------------


def test_there_and_back(tmp_path):
    path = tmp_path / "a tape.safetensors"
    tape = plan(drift(), Memory(9, "brs", "reused:4+pass", seed=2**70, draws=2), 5)
    tape.save(path)
    again = Tape.load(str(path))
    assert again == tape
    assert again.facts == tape.facts
    for name in ARRAYS:
        assert np.array_equal(getattr(again, name), getattr(tape, name))
        assert getattr(again, name).dtype == np.int64
        assert not getattr(again, name).flags.writeable
    assert os.listdir(tmp_path) == [path.name]
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first


def test_safetensors_reads_the_same_arrays(tmp_path):
    path = tmp_path / "tape.safetensors"
    for tape in (small(), plan(drift(5), Memory(3), 0), plan(Batches([0, 1], []), Memory(3), 4)):
        tape.save(path)
        arrays = load_file(path)
        assert set(arrays) == set(ARRAYS)
        for name in ARRAYS:
            assert arrays[name].dtype == np.int64
            assert arrays[name].shape == getattr(tape, name).shape
            assert arrays[name].tolist() == getattr(tape, name).tolist()


def refuse(path, data):
    """A damaged file is answered by a ValueError that names the file, and by nothing else."""
    path.write_bytes(data)
    try:
        Tape.load(path)
    except ValueError as error:
        return path.name in str(error)
    except BaseException as error:
        return type(error)
    return False


def test_no_changed_byte_goes_unnoticed(tmp_path):
    path = tmp_path / "tape"
    small().save(path)
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    faults = {}
    for place in range(len(data)):
        # Of the header two bits and a character that means something there; of the arrays one bit in turn.
        values = [data[place] ^ 1 << place % 8, data[place] ^ 1, b' "0-9e{}[],:.\\\t\x00\xff'[place % 17]]
        for value in values if place < header else values[:1]:
            if value != data[place]:
                damaged = bytearray(data)
                damaged[place] = value
                if (answer := refuse(path, damaged)) is not True:
                    faults[place] = (data[max(0, place - 10) : place + 10], answer)
    assert not faults


def test_no_cut_or_lengthened_file_is_taken(tmp_path):
    path = tmp_path / "tape"
    small().save(path)
    data = path.read_bytes()
    cut = [data[:length] for length in range(0, len(data), 7)]
    for damaged in [
        b"",
        *cut,
        data[:-1],
        data[:-8],
        data + b"\0",
        data + bytes(8),
        data + data,
        bytes(400),
        b"{}" * 50,
    ]:
        assert refuse(path, damaged) is True


@pytest.mark.parametrize(
    "header", [b"[]", b"{}", b"3", b"null", b'{"__metadata__":[]}', b'{"__metadata__":{"format":3}}', b"[" * 10**5]
)
def test_other_safetensors_files_are_not_tapes(tmp_path, header):
    assert refuse(tmp_path / "tape", len(header).to_bytes(8, "little") + header) is True


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tape.load(tmp_path / "none")


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tape"
    old = small()
    old.save(path)
    new = small(seed=99)

    def full(*_):
        raise OSError("no space left")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="no space"):
                new.save(path)
        assert Tape.load(path) == old
        assert os.listdir(tmp_path) == ["tape"], "it left something lying about"
    with pytest.raises(FileNotFoundError):
        new.save(tmp_path / "no such folder" / "tape")
    new.save(path)
    assert Tape.load(path) == new


# Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"incoming": np.zeros((6, 3), np.int32)}, ["incoming", "int32"]),
        ({"replay": np.zeros((6, 1, 2))}, ["replay", "float64"]),
        ({"written": np.zeros((6, 2), np.int64)}, ["written"]),
        ({"slots": np.zeros((6, 1, 3), np.int64)}, ["slots"]),
        ({"replay": np.zeros((5, 1, 2), np.int64), "slots": np.zeros((5, 1, 2), np.int64)}, ["(5, 1, 2)"]),
        ({"replay": np.zeros((6, 2), np.int64), "slots": np.zeros((6, 2), np.int64)}, ["(6, 2)"]),
        ({"slots": np.full((6, 1, 2), 4)}, ["slots", "4"]),
        ({"written": np.full((6, 3), -2)}, ["written", "-2"]),
        ({"incoming": np.full((6, 3), 18)}, ["incoming", "18"]),
        ({"labels": np.full(18, -1)}, ["labels", "-1"]),
        ({"initial": np.array([-1])}, ["initial", "-1"]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        small(**changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("stream", "options", "word"),
    [
        (drift(5), {"replay": -1}, "-1"),
        (drift(5), {"replay": 1.5}, "1.5"),
        (drift(5), {"replay": True}, "True"),
        (drift(5), {"initial": [0]}, "1"),
        (drift(5), {"initial": [0, 99]}, "99"),
        (drift(5), {"initial": [0, -1]}, "-1"),
        (drift(5), {"initial": [0, 0]}, "label"),
        (Batches([0, 1, -3], [[0], [1], [2]]), {}, "-3"),
        (Batches([0, 1], [[0], [1], [2]]), {}, "2"),
        (Batches([0, 1], [[0], [-1]]), {}, "-1"),
    ],
)
def test_a_plan_that_cannot_be_made_changes_nothing(stream, options, word):
    memory = Memory(4, "fifo", seed=3)
    memory.store([11, 12])
    memory.draw(1)
    before = state_of(memory)
    with pytest.raises((ValueError, TypeError)) as caught:
        plan(stream, memory, **options)
    assert word in str(caught.value)
    assert state_of(memory) == before


@pytest.mark.parametrize(
    "labels", [np.array([0.0, 1.0]), np.array([[0, 1]]), np.array([True, False]), np.array(["a", "b"])]
)
def test_a_stream_s_labels_must_be_whole_numbers(labels):
    stream = Batches([0, 1], [[0], [1]])
    stream.labels = labels
    memory = Memory(4)
    with pytest.raises((TypeError, ValueError), match="a stream's labels must be"):
        plan(stream, memory)
    assert state_of(memory) == state_of(Memory(4))


def test_the_largest_label_is_a_label():
    tape = plan(Batches([2**63 - 1], [[0], [0]]), Memory(4), 2)
    assert tape.labels.tolist() == [2**63 - 1]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_whole_numbers_of_any_width_are_labels_and_ids(dtype):
    stream = Batches([0, 1, 2], [[0, 1], [2]])
    expected = plan(stream, Memory(4), 2)
    stream.labels = stream.labels.astype(dtype)
    assert plan(stream, Memory(4), 2) == expected
    stream.batches = [batch.astype(dtype) for batch in stream.batches]
    assert plan(stream, Memory(4), 2) == expected


def test_batches_may_be_lists():
    stream = Batches([0, 1, 2], [[0, 1], [2]])
    expected = plan(stream, Memory(4), 2)
    stream.batches = [batch.tolist() for batch in stream.batches]
    assert plan(stream, Memory(4), 2) == expected


@pytest.mark.parametrize("held", [[], [1, 2]])
def test_a_scored_retrieval_cannot_be_planned(held):
    memory = Memory(4, retrieval="mir:3")
    memory.store(held)
    before = state_of(memory)
    with pytest.raises(ValueError, match="mir:3"):
        plan(drift(5), memory, 2)
    assert state_of(memory) == before
