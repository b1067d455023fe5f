"""What a memory refuses: each time a sentence that names the value, and nothing has changed."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from memory.sampling import RETRIEVALS, STORAGES

from reprise import Memory


def state_of(memory):
    return json.dumps(memory.state_dict(), default=np.ndarray.tolist)


def used(retrieval="rpr", storage="reservoir", seed=3, **more):
    """A memory that has done something: eight slots, full, some draws."""
    memory = Memory(8, storage, retrieval, seed=seed, **more)
    for step in range(5):
        memory.draw(3)
        memory.store([step, step + 1, 0])
    return memory


@pytest.mark.parametrize("value", [0, -1, 2.5, 8.0, True, np.True_, "8", None, [8], np.array([8]), np.float64(8)])
def test_capacity(value):
    with pytest.raises((ValueError, TypeError), match="capacity") as caught:
        Memory(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [0, -2, 1.0, True, "1", None])
def test_draws(value):
    with pytest.raises((ValueError, TypeError), match="draws") as caught:
        Memory(8, draws=value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [-1, 0.5, True, "0", None])
def test_seed(value):
    with pytest.raises((ValueError, TypeError), match="seed") as caught:
        Memory(8, seed=value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        ([1, -2, 3], "-2"),
        (np.array([-1], np.int8), "-1"),
        ([1.5], "1.5"),
        ([1.0], "1.0"),
        (np.array([1, 2], np.float32), "float32"),
        ([[1, 2]], "(1, 2)"),
        ([[]], "(1, 0)"),
        (3, "()"),
        ([True, False], "True"),
        (["a"], "'a'"),
        ("abc", "()"),
        ([None], "None"),
        ([1j], "1j"),
        ([2**63], str(2**63)),
        ([1, 2**64], str(2**64)),
        ([2**64 - 1], str(2**64 - 1)),
        ([-(2**63)], str(-(2**63))),
    ],
)
def test_labels(labels, word):
    memory = used(storage="brs")
    before = state_of(memory)
    with pytest.raises((ValueError, TypeError), match="labels") as caught:
        memory.store(labels)
    assert word in str(caught.value)
    assert state_of(memory) == before


@pytest.mark.parametrize(
    "labels", [[0], np.array([0], np.uint8), (0,), range(1), [2**63 - 1], np.array([2**63 - 1], np.uint64)]
)
def test_labels_that_are_well(labels):
    memory = Memory(4)
    assert memory.store(labels).tolist() == [0]
    assert memory.labels.tolist() == list(labels)
    assert memory.draw(1).labels.tolist() == list(labels)
    assert memory.store([]).tolist() == memory.store(np.empty(0)).tolist() == []


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@pytest.mark.parametrize("value", [-1, -(10**30), 1.5, 2.0, True, "3", None, [3], np.float64(2)])
def test_replay_size(retrieval, value):
    memory = used(retrieval)
    before = state_of(memory)
    with pytest.raises((ValueError, TypeError), match="replay size") as caught:
        memory.draw(value)
    assert repr(value) in str(caught.value)
    assert state_of(memory) == before


@pytest.mark.parametrize("value", [-1, 2, 0.5, 1.0, "0", None])
@pytest.mark.parametrize("n", [0, 2])
def test_channel(value, n):
    memory = used(draws=2)
    before = state_of(memory)
    with pytest.raises((ValueError, TypeError), match="channel") as caught:
        memory.draw(n, channel=value)
    assert repr(value) in str(caught.value)
    assert state_of(memory) == before


@pytest.mark.parametrize(
    "score",
    [
        None,
        lambda slots: slots[:-1],
        lambda slots: slots[:, None],
        lambda slots: slots * float("nan"),
        lambda slots: ["high"] * len(slots),
        lambda slots: 1 / 0,
    ],
)
def test_score(score):
    memory = Memory(8, retrieval="mir:5", seed=3)
    memory.store([1, 2, 3, 1, 2, 3])
    before = state_of(memory)
    with pytest.raises((ValueError, ZeroDivisionError)):
        memory.draw(2, score=score)
    assert state_of(memory) == before
    assert len(memory.draw(2, score=lambda slots: slots)) == 2


# States -----------------------------------------------------------------------------------------------------------


def unchanged_by(memory, state, *words):
    before = state_of(memory)
    with pytest.raises((ValueError, TypeError)) as caught:
        memory.load_state_dict(state)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert state_of(memory) == before
    memory.draw(3)
    memory.store([1, 2])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Memory(9), ["capacity", "9", "8"]),
        (Memory(8, "fifo"), ["storage", "'fifo'", "'reservoir'"]),
        (Memory(8, retrieval="rpr+pass"), ["retrieval", "'rpr+pass'", "'rpr'"]),
        (Memory(8, retrieval="uniform"), ["retrieval", "'uniform'"]),
        (Memory(8, draws=2), ["draws", "2", "1"]),
    ],
)
def test_the_state_of_another_memory(other, words):
    unchanged_by(used(), other.state_dict(), *words)


@pytest.mark.parametrize("state", [None, {}, [], 3, "state", b"", {"seed": 0}])
def test_something_that_is_no_state(state):
    unchanged_by(used(), state, "state")


def damaged(state, path, value):
    state = copy.deepcopy(state)
    place = state
    for name in path[:-1]:
        place = place[name]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


def every_path(state, path=()):
    for name, value in state.items() if isinstance(state, dict) else enumerate(state):
        yield (*path, name)
        if isinstance(value, (dict, list)) and (isinstance(value, dict) or (value and isinstance(value[0], dict))):
            yield from every_path(value, (*path, name))


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_a_state_that_lacks_something(retrieval):
    storage = STORAGES[len(retrieval) % len(STORAGES)]
    memory = used(retrieval, storage)
    state, before = memory.state_dict(), state_of(memory)
    taken = []
    for path in set(every_path(state)) - {("version",)}:
        try:
            memory.load_state_dict(damaged(state, path, KeyError))
        except ValueError:
            assert state_of(memory) == before
        else:
            taken.append(path)
    assert not taken


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("index", "labels"), [0, 1, 2]),
        (("index", "labels"), [0, 1, 2, 3, 4, 5, 6, -1]),
        (("index", "labels"), list(range(9))),
        (("index", "labels"), [[0] * 8]),
        (("index", "labels"), [0.5] * 8),
        (("index", "labels"), ["a"] * 8),
        (("index", "labels"), [2**70] * 8),
        (("index", "stamps"), [0, 1]),
        (("index", "order"), [0, 0, 1, 2, 3, 4, 5, 6]),
        (("index", "order"), [1, 2, 3, 4, 5, 6, 7, 8]),
        (("index", "order"), [0]),
        (("index", "writes"), "many"),
        (("index", "writes"), None),
        (("index",), None),
        (("store",), 3),
        (("store", "seen"), "x"),
        (("channels",), []),
        (("channels",), None),
        (("channels", 0), None),
        (("random",), {}),
        (("random", "schedule"), -1),
        (("random", "schedule"), 1.5),
        (("random", "schedule"), "0"),
        (("random", "schedule"), None),
        (("random", "schedule"), 10**90),
        (("steps",), -1),
        (("steps",), 1.5),
        (("seed",), -1),
        (("seed",), "0"),
        (("version",), 2),
        (("version",), KeyError),
    ],
)
def test_a_damaged_state(path, value):
    unchanged_by(used(), damaged(used().state_dict(), path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("index", "writes"), -4),
        (("store", "seen"), -3),
    ],
)
def test_a_state_whose_parts_contradict_each_other(path, value):
    # Taken, it would fail in some later draw, or keep what it should not.
    unchanged_by(used(), damaged(used().state_dict(), path, value))


def test_a_state_is_loaded_whole_after_a_refusal():
    memory, other = used(seed=1), used(seed=2)
    with pytest.raises(ValueError):
        memory.load_state_dict(damaged(other.state_dict(), ("random", "schedule"), -1))
    memory.load_state_dict(other.state_dict())
    assert state_of(memory) == state_of(other)
    assert memory.seed == 2


@pytest.mark.parametrize("spec", ["rp", "reused", "reused:0", "window:2", "nothing"])
def test_unknown_policies(spec):
    with pytest.raises(ValueError, match=spec.partition(":")[0]):
        Memory(8, retrieval=spec)
    with pytest.raises(ValueError, match=spec):
        Memory(8, storage=spec)
