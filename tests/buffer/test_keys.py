"""Keys: any hashable in the place of a label."""

from __future__ import annotations

import enum
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from reprise import ReplayBuffer
from reprise.memory.keys import Keys


class Colour(enum.Enum):
    """A key that is neither a string nor a number."""

    RED = 1


def x(n: int = 3) -> torch.Tensor:
    return torch.arange(n)


def test_numbers_go_by_first_arrival_and_are_never_given_twice() -> None:
    keys = Keys(["a"])
    assert keys.add(np.array(["b", "a", "c"])).tolist() == [1, 0, 2]
    assert keys.add([("u", np.int64(3)), ("u", 3), True, 1.0, 1]).tolist() == [3, 3, 4, 4, 4]
    keys.drop([1, 99])
    assert "b" not in keys
    assert keys.known(["a", "b", "z"]) == [0]
    assert keys.add(["b"]).tolist() == [5]
    assert keys.named([0, 1, 5]) == ["a", "<dropped 1>", "b"]
    with pytest.raises(KeyError, match="no key has the number 1: its key was dropped"):
        keys[1]
    with pytest.raises(KeyError, match="6 numbers have been given"):
        keys[6]
    for state in (keys.state_dict(), json.loads(json.dumps(keys.state_dict()))):
        again = Keys.from_state(state)
        assert list(again) == list(keys)
        assert again.add(["d", "c", ("u", 3)]).tolist() == [6, 2, 3]
    for wrong in ({"numbers": [9, 1, 2, 3, 4]}, {"numbers": [0, 0, 1, 2, 3]}, {"given": -1}, {"numbers": [0]}):
        with pytest.raises(ValueError):
            Keys.from_state({**keys.state_dict(), **wrong})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("abc", "keys are a sequence, one per example in order, got 'abc'"),
        ({"a", "b"}, "keys are a sequence"),
        (3, "keys are a sequence"),
        ([[1], [2]], "a key must be hashable, got a list"),
        (torch.zeros(2, 2), r"keys must be one-dimensional, got shape \(2, 2\)"),
        ([torch.zeros(2)], r"a key is one thing, got Tensor of shape \(2,\)"),
        ([float("nan")], "nan cannot be a key"),
    ],
)
def test_what_is_no_key(keys: Any, words: str) -> None:
    known = Keys(["a"])
    with pytest.raises((TypeError, ValueError), match=words):
        known.add(keys)
    assert list(known) == ["a"]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (["cat", "dog", "cat"], ["cat", "dog", "cat"]),
        (("cat", 3, None), ["cat", 3, None]),
        (torch.tensor([7, 5, 7]), [7, 5, 7]),
        (np.array(["b", "a", "b"]), ["b", "a", "b"]),
        (np.array([2, -1, 2]), [2, -1, 2]),
        ("domain", ["domain"] * 3),
        (5, [5] * 3),
        (Colour.RED, [Colour.RED] * 3),
        ((letter for letter in "aba"), ["a", "b", "a"]),
        ({0: "a", 1: "b", 2: "a"}.values(), ["a", "b", "a"]),
        (np.int64(5), [5] * 3),
        (torch.tensor(5), [5] * 3),
        ([("user", 1), Colour.RED, frozenset("ab")], [("user", 1), Colour.RED, frozenset("ab")]),
    ],
)
def test_a_buffer_goes_by_keys(key: Any, names: list[Any]) -> None:
    buffer = ReplayBuffer(9, seed=0)
    buffer.store(x(), key=key)
    assert buffer.at(range(3)).key == names
    assert buffer.classes == list(dict.fromkeys(names))
    assert buffer.counts() == {name: names.count(name) for name in names}
    replay = buffer.draw(3)
    assert replay.key == [names[slot] for slot in replay.slots.tolist()]
    assert replay.y is None
    assert f"3 stored of {len(set(names))} keys" in repr(buffer)
    assert buffer.keys is not None
    assert buffer.keys.named(buffer.audit().classes) == list(dict.fromkeys(names))


def test_a_buffer_goes_by_keys_or_by_labels() -> None:
    keyed, labelled = ReplayBuffer(9), ReplayBuffer(9)
    keyed.store(x(), [0, 1, 2], key=["a", "b", "c"])
    labelled.store(x(), [0, 1, 2])
    assert labelled.keys is None
    with pytest.raises(ValueError, match="this buffer goes by keys since its first batch: give key="):
        keyed.store(x(), [0, 1, 2])
    with pytest.raises(ValueError, match="this buffer goes by labels since its first batch: give no key="):
        labelled.store(x(), [0, 1, 2], key=["a", "b", "c"])
    with pytest.raises(TypeError, match="labels must be whole numbers, got none; key= says"):
        labelled.store(x())
    with pytest.raises(ValueError, match="y is one tensor in this buffer since the first batch, got None"):
        keyed.store(x(), key="a")
    keyed.update([0], y=torch.tensor([9]))  # a target is no label here
    assert keyed.at([0]).y.tolist() == [9]


WRONG: list[tuple[str, Callable[[ReplayBuffer], object]]] = [
    ("x must have one row per example, got shape .* where there are 2 keys", lambda b: b.store(x(), key=["a", "n"])),
    ("a key must be hashable, got a list", lambda b: b.store(x(), key=[["a"], "n", "n"])),
    ("a key must be hashable, got a dict", lambda b: b.store(x(), key=[{}, "n", "n"])),
    ("x of an example is one number of int64", lambda b: b.store(x().half(), key=["n", "m", "o"])),
    ("exclude must be several keys, such as", lambda b: b.draw(2, exclude="a")),
    ("only must be several keys, such as", lambda b: b.draw(2, only="a")),
    ("remove takes keys= or slots=", lambda b: b.remove()),
    ("remove takes keys= or slots=", lambda b: b.remove(keys=["a"], slots=[0])),
    ("slots must lie in 0 … 2", lambda b: b.remove(slots=[7])),
    ("capacity must be 1 or more, got 0", lambda b: b.resize(0)),
    ("a column cannot be named 'slot'", lambda b: b.store(x(), key="a", slot=3)),
    ("a column cannot be named", lambda b: b.store(x(), key="a", **{"x['a']": x()})),
]


@pytest.mark.parametrize(("words", "action"), WRONG, ids=[words[:40] for words, _ in WRONG])
def test_bad_input_is_a_sentence_and_changes_nothing(words: str, action: Callable[[ReplayBuffer], object]) -> None:
    buffer, twin = ReplayBuffer(9, seed=1), ReplayBuffer(9, seed=1)
    for one in (buffer, twin):
        one.store(x(), key=["a", "b", "c"])
    with pytest.raises((TypeError, ValueError), match=words):
        action(buffer)
    assert list(buffer.keys or ()) == ["a", "b", "c"]
    for one in (buffer, twin):
        one.store(x(), key=["c", "d", "a"])
    assert [buffer.draw(3).key for _ in range(5)] == [twin.draw(3).key for _ in range(5)]
    assert buffer.tape().hash == twin.tape().hash


def test_plain_torch_load_reads_keys_that_are_strings_numbers_and_tuples(tmp_path: Any) -> None:
    plain, other = ReplayBuffer(9, seed=0), ReplayBuffer(9, seed=0)
    plain.store(x(), key=["a", ("u", 1.5), None])
    other.store(x(), key=[Colour.RED, "b", "c"])
    for name, buffer in (("plain", plain), ("other", other)):
        torch.save(buffer.state_dict(), tmp_path / name)
    again = ReplayBuffer(9)
    again.load_state_dict(torch.load(tmp_path / "plain"))
    assert again.draw(3).key == plain.draw(3).key
    with pytest.raises(Exception, match="weights_only"):
        torch.load(tmp_path / "other")
    again.load_state_dict(torch.load(tmp_path / "other", weights_only=False))
    assert again.draw(3).key == other.draw(3).key


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("a label that none of its keys has", {"keys": ["a", "b"], "numbers": [0, 1], "given": 3}),
        ("do not fit together", {"keys": ["a", "b", "a"], "numbers": [0, 1, 2], "given": 3}),
        ("its labels are not those of its memory", None),
    ],
)
def test_a_state_with_other_keys_is_refused(words: str, change: Any) -> None:
    buffer, other = ReplayBuffer(9), ReplayBuffer(9)
    buffer.store(x(), x() + 1, key=["a", "b", "c"])
    with pytest.raises(ValueError, match=f"this buffer state cannot be loaded: .*{words}"):
        other.load_state_dict({**buffer.state_dict(), "keys": change})
    assert len(other) == 0


def test_a_state_of_version_1_loads() -> None:
    """As it was written before there were keys and nests."""
    buffer, other = ReplayBuffer(9, seed=0), ReplayBuffer(9)
    buffer.store(x(), [0, 1, 2], task=4)
    state = buffer.state_dict()
    old = {name: state[name] for name in ("memory", "record", "columns")} | {"version": 1}
    other.load_state_dict(torch.load(io.BytesIO(saved(old))))
    assert [other.draw(2).slots.tolist() for _ in range(5)] == [buffer.draw(2).slots.tolist() for _ in range(5)]
    assert other.at([0]).task.tolist() == [4]
    old["columns"]["key"] = old["columns"].pop("task")
    with pytest.raises(ValueError, match="cannot be loaded: it has a column 'key', and this name is taken"):
        other.load_state_dict(old)


def saved(state: Any) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()
