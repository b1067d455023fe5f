"""Examples of several parts, targets of any kind, and what a replay gives back."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict, UserDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from reprise import ReplayBuffer


class Pair(NamedTuple):
    """Two views."""

    one: Any
    other: Any


class Encoding(UserDict):
    """A mapping that is no dict, as tokenizers have it."""


def column(n: int = 3, *shape: int) -> torch.Tensor:
    return torch.arange(n * int(np.prod(shape))).reshape(n, *shape).float()


NESTED: dict[str, Callable[[int], Any]] = {
    "tensor": lambda n: column(n, 2),
    "dict": lambda n: {"input_ids": column(n, 4).long(), "attention_mask": column(n, 4) > 1},
    "tuple": lambda n: (column(n, 2), column(n, 2) + 1),
    "list": lambda n: [column(n, 2), column(n, 5)],
    "named": lambda n: Pair(column(n, 2), np.arange(n)),
    "mapping": lambda n: Encoding({"a": column(n, 1)}),
    "ordered": lambda n: OrderedDict(b=column(n, 1), a=column(n)),
    "deep": lambda n: {"a": [(column(n), {"b": Pair(column(n, 3), None)}), column(n, 2)], 3: column(n)},
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, (torch.Tensor, np.ndarray)):
        return torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    if one is None or other is None:
        return one is other
    if type(one) is not type(other):
        return False
    if hasattr(one, "items"):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return len(one) == len(other) and all(map(same, one, other))


@pytest.mark.parametrize("name", NESTED)
def test_a_replay_is_nested_as_its_examples_are(name: str) -> None:
    x, y = NESTED[name](6), NESTED[name](6)
    buffer = ReplayBuffer(9, "fifo")
    buffer.store(x, y, key=range(6), more=NESTED[name](6))
    for held in (buffer, copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        found = held.at(range(6))
        assert same(x, found.x)
        assert same(y, found.y)
        assert same(x, found.more)
    loaded = ReplayBuffer(9, "fifo")
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file))
    assert pickle.loads(pickle.dumps(loaded)).keys.number(5) == 5
    loaded.store(x, y, key=range(6), more=NESTED[name](6))  # brings the classes, which no state has
    assert same(x, loaded.at([6, 7, 8, 0, 1, 2]).x)
    buffer.update([4, 1], more=NESTED[name](2))
    assert len(list(buffer)) == len(buffer) == 6


def test_a_nested_x_needs_no_key() -> None:
    buffer = ReplayBuffer(9, seed=0)
    buffer.store((column(4, 2), column(4, 3)), [0, 1, 2, 3])
    (one, other), y = buffer.draw(2)
    assert (one.shape, other.shape, y.dtype) == ((2, 2), (2, 3), torch.int64)


def test_the_order_of_a_dict_is_free() -> None:
    buffer = ReplayBuffer(9)
    buffer.store({"a": column(2), "b": column(2, 2)}, [0, 1])
    buffer.store({"b": column(2, 2) + 9, "a": column(2)}, [0, 1])
    assert list(buffer.at([2]).x) == ["a", "b"]
    assert buffer.at([2]).x["b"].tolist() == [[9, 10]]


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (
            {"a": column()},
            r"x is dict \(a: one tensor, b: tuple \(one tensor, None\)\) in this buffer .*, got dict \(a",
        ),
        ({"a": column(), "b": (column(), column())}, r"since the first batch, got dict .*\(one tensor, one tensor\)"),
        ({"a": column(), "b": [column(), None]}, r"got dict \(a: one tensor, b: list"),
        (column(), "got one tensor"),
        ({"a": column(), "b": (column(2), None)}, r"x\['b'\]\[0\] must have one row per example, got shape \(2,\)"),
        ({"a": column(), "b": (column().half(), None)}, r"x\['b'\]\[0\] of an example is one number of float32 in"),
        ({"a": "text", "b": (column(), None)}, r"x\['a'\] must be a tensor, an array or a number, got str"),
    ],
)
def test_another_nesting_is_a_sentence_and_changes_nothing(x: Any, words: str) -> None:
    buffer = ReplayBuffer(9)
    buffer.store({"a": column(), "b": (column(), None)}, [0, 1, 2])
    before = buffer.tape().hash, buffer.at(range(3)).x["a"].tolist()
    with pytest.raises((ValueError, TypeError), match=words):
        buffer.store(x, [0, 1, 2])
    assert (buffer.tape().hash, buffer.at(range(3)).x["a"].tolist()) == before


def test_a_list_may_be_rows_or_columns() -> None:
    rows, columns = ReplayBuffer(9), ReplayBuffer(9)
    rows.store([torch.zeros(2)] * 3, [0, 1, 2])
    rows.store([torch.zeros(2)] * 2, [0, 1])  # now it is known which it is
    columns.store([column(3), column(3)], [0, 1, 2])
    columns.store([column(2), column(2)], [0, 1])
    assert rows.at([4]).x.shape == (1, 2)
    assert len(columns.at([4]).x) == 2
    with pytest.raises(ValueError, match="x is a list of 2 tensors with 2 rows each"):
        ReplayBuffer(9).store([column(2, 2)] * 2, [0, 1])


@pytest.mark.parametrize(
    "y",
    [
        torch.rand(4, 10),
        torch.rand(4) < 0.5,
        (torch.rand(4, 3) < 0.5).long(),
        torch.zeros(4, 7).long(),
        [0.1, 0.2, 0.3, 1],
    ],
)
def test_targets_may_be_anything_with_a_key(y: Any) -> None:
    buffer = ReplayBuffer(9)
    buffer.store(column(4), y, key="all")
    assert buffer.at(range(4)).y.tolist() == (y if isinstance(y, list) else y.tolist())
    with pytest.raises((TypeError, ValueError), match=r"labels must be .*; key= says what to go by when it is not y"):
        ReplayBuffer(9).store(column(4), y)


def test_a_replay_unpacks_and_has_its_columns_by_name() -> None:
    buffer = ReplayBuffer(9, seed=0)
    buffer.store(column(4, 2), [0, 1, 2, 3], logits=column(4, 5), task=3)
    replay = buffer.draw(3)
    x, y, *rest = replay
    assert x is replay.x is replay["x"]
    assert y is replay["y"]
    assert [part is replay[name] for part, name in zip(rest, ("logits", "task"), strict=True)] == [True, True]
    assert replay["slots"] is replay.slots
    assert "logits" in replay
    assert "logit" not in replay
    assert replay.key == replay.y.tolist()
    with pytest.raises(KeyError, match="this replay has x, y, logits, task, slots, no 'logit'"):
        replay["logit"]
    with pytest.raises(KeyError, match="nothing was stored when this replay was drawn, so it has no 'x'"):
        ReplayBuffer(9).draw(3)["x"]
    with pytest.raises(TypeError, match="a column is found by its name, got 0: x, y, logits, task, slots"):
        replay[0]  # type: ignore[index]
    x, y = ReplayBuffer(9).draw(3) or (None, None)
    assert x is None
    keyed = ReplayBuffer(9, seed=0)
    keyed.store(column(2), key=["a", "b"])
    x, y = keyed.draw(2)
    assert (len(x), y) == (2, None)
    assert repr(keyed.draw(2)) == "Replay(2 examples: x, y, key, slots)"


def test_iteration_draws_nothing() -> None:
    buffer = ReplayBuffer(200, seed=0)
    for step in range(15):
        buffer.store(column(10, 2) + step, torch.arange(10), step=step)
    before = buffer.tape().hash, buffer.memory.state_dict()
    examples = list(buffer)
    assert [example.slot for example in examples] == list(range(150))
    assert [example.key for example in examples] == buffer.memory.labels.tolist()
    x, y, step = examples[37]
    assert (x.tolist(), y.item(), step.item()) == ([17, 18], 7, 3)
    assert repr(examples[0]) == "Example(x, y, step, key, slot)"
    assert [len(batch) for batch in buffer.batches(64)] == [64, 64, 22]
    assert torch.equal(torch.cat([batch.x for batch in buffer.batches(64)]), torch.stack([one.x for one in examples]))
    assert (buffer.tape().hash, buffer.memory.state_dict()) == before


def test_a_transform_sees_what_is_drawn_and_changes_nothing_stored() -> None:
    seen = []

    def transform(x: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append(len(x["a"]))
        return x["a"].add_(100)

    buffer = ReplayBuffer(9, seed=0, transform=transform)
    assert not buffer.draw(3)
    buffer.store({"a": column(4)}, [0, 1, 2, 3])
    replay = buffer.draw(3)
    assert torch.equal(replay.x, replay.slots + 100.0)
    assert buffer.at(range(4)).x["a"].tolist() == [0, 1, 2, 3]
    assert not buffer.draw(0)
    assert seen == [3]
    with pytest.raises(TypeError, match="transform must be a function of a replay's x, got 3"):
        ReplayBuffer(9, transform=3)  # type: ignore[arg-type]
