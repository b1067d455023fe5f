"""The replay buffer: it decides as the memory does, and holds what was stored, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import reprise
from reprise.buffer import Replay, ReplayBuffer

STORAGES = ("reservoir", "brs", "brs-always", "cbrs", "fifo")


def batch(first: int, labels: list[int]) -> dict[str, Any]:
    """Examples whose every column tells when they arrived, and their labels."""
    ids = torch.arange(first, first + len(labels))
    return {
        "x": (ids % 251).to(torch.uint8)[:, None, None].expand(-1, 2, 3),
        "y": torch.tensor(labels, dtype=torch.int64),
        "logits": ids.half()[:, None] / 4 + torch.arange(3),
        "arrival": ids,
    }


def live(buffer: ReplayBuffer, steps: int = 60, size: int = 7, n: int = 5) -> list[list[int]]:
    """A stream of slowly moving classes; the slots of every draw."""
    drawn = []
    for step in range(steps):
        for channel in range(buffer.memory.draws):
            drawn.append(buffer.draw(n, channel=channel).slots.tolist())
        buffer.store(**batch(step * size, [(step // 6 + i) % 9 for i in range(size)]))
    return drawn


def snapshot(buffer: ReplayBuffer) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return (str(value.dtype), value.tolist()) if isinstance(value, (np.ndarray, Tensor)) else value

    return repr((plain(buffer.state_dict()), [(n, t.table.data_ptr()) for n, t in buffer._columns.leaves.items()]))


def test_buffer_is_a_public_name_that_brings_torch_on_first_use() -> None:
    script = "import reprise, sys; print('torch' in sys.modules); reprise.ReplayBuffer; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    assert reprise.ReplayBuffer is ReplayBuffer
    assert "ReplayBuffer" in dir(reprise)


def test_missing_torch_is_a_sentence() -> None:
    script = """
import sys
sys.modules["torch"] = None
from reprise import *
import reprise
for name in ("ReplayBuffer", "TapeDataset"):
    try:
        getattr(reprise, name)
    except ModuleNotFoundError as error:
        print(error)
print(reprise.plan(["a", "b"], reprise.Memory(2))[0].incoming)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for name in ("ReplayBuffer", "TapeDataset"):
        words = f"{name} needs torch, which is not installed; the extra 'train' brings it: pip install '.[train]'"
        assert f"reprise.{words}" in done.stdout
    assert "[0 1]" in done.stdout, "a tape needs no torch"
    with pytest.raises(AttributeError, match="no attribute 'RepleyBuffer'"):
        reprise.RepleyBuffer  # noqa: B018


@pytest.mark.parametrize("storage", STORAGES)
def test_decisions_are_those_of_the_memory(storage: str) -> None:
    buffer = ReplayBuffer(20, storage, "rpr", seed=3, draws=2)
    memory = reprise.Memory(20, storage, "rpr", seed=3, draws=2)
    drawn = live(buffer)
    expected = []
    for step in range(60):
        expected += [memory.draw(5, channel=channel).slots.tolist() for channel in (0, 1)]
        memory.store([(step // 6 + i) % 9 for i in range(7)])
    assert drawn == expected
    assert drawn[50] != drawn[51]
    assert len(buffer) == len(memory) == 20
    assert buffer.classes.tolist() == memory.classes.tolist()


def test_arms_of_one_seed_hold_the_same_examples() -> None:
    held = {}
    for retrieval in ("uniform", "iid", "fixed", "rpr", "rpr+pass"):
        buffer = ReplayBuffer(20, "reservoir", retrieval, seed=3)
        live(buffer)
        held[retrieval] = buffer.at(range(20)).arrival.tolist()
    assert len(set(map(tuple, held.values()))) == 1
    other = ReplayBuffer(20, "reservoir", "rpr", seed=4)
    live(other)
    assert other.at(range(20)).arrival.tolist() != held["rpr"]


@given(
    storage=st.sampled_from(STORAGES),
    capacity=st.integers(1, 6),
    seed=st.integers(0, 50),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("store"), st.lists(st.integers(0, 3), max_size=9)),
            st.tuples(st.just("draw"), st.integers(0, 7)),
            st.tuples(st.just("update"), st.lists(st.integers(-1, 5), max_size=8)),
        ),
        max_size=12,
    ),
)
def test_every_slot_holds_what_was_put_there(storage: str, capacity: int, seed: int, actions: list[Any]) -> None:
    """A model of the content: a dictionary from slot to columns, written one example after the other."""
    buffer, arrived, refreshed = ReplayBuffer(capacity, storage, "rpr", seed=seed), 0, 1000
    model: dict[int, dict[str, Any]] = {}
    for action, argument in actions:
        if action == "store":
            rows = batch(arrived, argument)
            for i, slot in enumerate(buffer.store(**rows).tolist()):
                if slot >= 0:
                    model[slot] = {name: column[i].tolist() for name, column in rows.items()}
            arrived += len(argument)
        elif action == "update":
            slots = [slot for slot in argument if slot < len(buffer)]
            if not model:
                continue
            buffer.update(slots, arrival=torch.arange(refreshed, refreshed + len(slots)))
            for i, slot in enumerate(slots):
                if slot >= 0:
                    model[slot]["arrival"] = refreshed + i
            refreshed += len(slots)
        else:
            replay = buffer.draw(argument)
            assert bool(replay) == (len(replay) > 0) == (argument > 0 and bool(model))
            check(replay, model)
    assert sorted(model) == list(range(len(buffer)))
    check(buffer.at(range(len(buffer))), model)


def check(replay: Replay, model: dict[int, dict[str, Any]]) -> None:
    for i, slot in enumerate(replay.slots.tolist()):
        assert {name: getattr(replay, name)[i].tolist() for name in model[slot]} == model[slot]


def test_ten_examples_in_one_slot_leave_the_last() -> None:
    buffer = ReplayBuffer(1, "fifo")
    slots = buffer.store(torch.arange(10.0)[:, None], [0] * 10, when=np.arange(10))
    assert slots.tolist() == [0] * 10
    replay = buffer.draw(1)
    assert (replay.x.item(), replay.when.item()) == (9, 9)


def test_no_slot_is_written_twice_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU may write the rows of one call in any order, so none may go where another goes."""
    written, write = [], Tensor.index_copy_

    def noted(table: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        written.append(index.tolist())
        return write(table, dim, index, source)

    monkeypatch.setattr(Tensor, "index_copy_", noted)
    buffer = ReplayBuffer(3, "fifo")
    buffer.store(torch.arange(8)[:, None], [0] * 8)
    buffer.update([1, 1, 0, 1], x=torch.arange(4)[:, None])
    assert [sorted(slots) for slots in written] == [[0, 1, 2], [0, 1, 2], [0, 1]]
    assert buffer.at([0, 1, 2]).x[:, 0].tolist() == [2, 3, 5]


@pytest.mark.parametrize(
    "x",
    [
        torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8),
        torch.randn(4, 3, 8, 8).half(),
        torch.randn(4, 5).bfloat16(),
        torch.randn(4, dtype=torch.float64),
        torch.randn(4, 2, 1, 3, 2).to(torch.complex64),
        torch.rand(4, 2) < 0.5,
        torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last),
        np.arange(8, dtype=np.int16).reshape(4, 2),
    ],
    ids=lambda x: f"{x.dtype} {tuple(x.shape)}",
)
def test_dtype_and_shape_are_kept(x: Tensor | np.ndarray) -> None:
    buffer = ReplayBuffer(9)
    buffer.store(x, torch.arange(4))
    replay = buffer.draw(4)
    expected = torch.as_tensor(x)[replay.slots]
    assert replay.x.dtype == expected.dtype
    assert torch.equal(replay.x, expected)
    assert replay.y.dtype == torch.int64
    assert torch.equal(replay.y, replay.slots)


def test_room_is_made_once_and_draws_are_copies() -> None:
    buffer = ReplayBuffer(12)
    assert buffer._columns.leaves == {}
    live(buffer, 2)
    places = {name: (leaf.table.data_ptr(), leaf.table.shape) for name, leaf in buffer._columns.leaves.items()}
    assert places["x"][1] == (12, 2, 3)
    live(buffer, 20)
    assert {name: (leaf.table.data_ptr(), leaf.table.shape) for name, leaf in buffer._columns.leaves.items()} == places
    before = snapshot(buffer)
    replay = buffer.at([0, 1])
    replay.x.zero_()
    replay.y.fill_(77)
    assert snapshot(buffer) == before


def test_gradients_stay_outside() -> None:
    buffer = ReplayBuffer(4)
    weight = torch.ones(2, requires_grad=True)
    x = torch.ones(3, 2, requires_grad=True)
    buffer.store(x, [0, 1, 2], logits=x * weight)
    buffer.update([0], logits=(x * weight)[:1])
    replay = buffer.draw(3)
    assert not replay.x.requires_grad
    assert not replay.logits.requires_grad
    assert (replay.logits * weight).sum().requires_grad


def test_made_inside_inference_mode_and_used_outside() -> None:
    buffer = ReplayBuffer(4)
    with torch.inference_mode():
        buffer.store(torch.ones(2, 2), [0, 1])
    buffer.store(torch.zeros(2, 2), [0, 1])
    weight = torch.ones(2, requires_grad=True)
    (buffer.draw(4).x * weight).sum().backward()
    assert weight.grad is not None


def test_a_number_stands_for_a_column() -> None:
    buffer = ReplayBuffer(6)
    buffer.store(torch.zeros(3, 1), [0, 1, 2], task=4, weight=0.5, fresh=True)
    buffer.update([1], task=9)
    held = buffer.at([0, 1, 2])
    assert held.task.tolist() == [4, 9, 4]
    assert held.weight.tolist() == [0.5] * 3
    assert (held.task.dtype, held.weight.dtype, held.fresh.dtype) == (torch.int64, torch.float32, torch.bool)


def test_nothing_stored_yet() -> None:
    buffer = ReplayBuffer(6)
    replay = buffer.draw(8)
    assert not replay
    assert replay.slots.tolist() == []
    with pytest.raises(AttributeError, match="nothing was stored when this replay was drawn, so it has no 'x'"):
        replay.x  # noqa: B018
    assert buffer.store(torch.zeros(0, 3), []).tolist() == []
    buffer.store(torch.zeros(2, 5), torch.tensor([1, 2], dtype=torch.uint8))  # an empty batch fixed no shape
    with pytest.raises(AttributeError, match="this replay has x, y, slots, no 'logit'"):
        buffer.draw(1).logit  # noqa: B018
    assert repr(buffer.draw(1)) == "Replay(1 examples: x, y, slots)"


def test_scored_retrieval_sees_candidate_slots() -> None:
    buffer = ReplayBuffer(30, retrieval="mir:10", seed=1)
    buffer.draw(4, score=lambda slots: slots)
    buffer.store(torch.arange(30.0)[:, None].requires_grad_(), torch.arange(30) % 3)
    seen: list[Tensor] = []

    def score(slots: Tensor) -> Tensor:
        seen.append(slots)
        return -(buffer.at(slots).x[:, 0] * torch.ones(1, requires_grad=True)).bfloat16()

    replay = buffer.draw(4, score=score)
    assert len(seen[0].unique()) == 10
    assert replay.x[:, 0].tolist() == sorted(seen[0].tolist())[:4]
    before = snapshot(buffer)
    for wrong in (None, lambda slots: torch.full((len(slots),), torch.nan), lambda slots: torch.zeros(3)):
        with pytest.raises(ValueError, match="score"):
            buffer.draw(4, score=wrong)
    assert snapshot(buffer) == before


X, Y = torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)
WRONG: list[tuple[str, Callable[[ReplayBuffer], object]]] = [
    ("x of an example is 2 of float32 .*, got 5 of float32", lambda b: b.store(torch.zeros(3, 5), Y, task=Y)),
    ("x of an example is 2 of float32 .*, got 2 of float64", lambda b: b.store(X.double(), Y, task=Y)),
    ("x of an example is 2 of float32 .*, got one number of float32", lambda b: b.store(X[:, 0], Y, task=Y)),
    ("task of an example is one number of int64 .*, got one number of float32", lambda b: b.store(X, Y, task=0.5)),
    (r"x must have one row per example, got shape \(2, 2\) where y has 3 labels", lambda b: b.store(X[:2], Y, task=Y)),
    (r"x must have one row per example, got shape \(\)", lambda b: b.store(torch.tensor(1.0), Y, task=Y)),
    ("task must have one row per example", lambda b: b.store(X, Y, task=Y[:2])),
    ("x is on meta and this buffer on cpu: give x.to", lambda b: b.store(X.to("meta"), Y, task=Y)),
    ("every batch has the columns task, x, y, got x, y", lambda b: b.store(X, Y)),
    ("every batch has the columns task, x, y, got more, task, x, y", lambda b: b.store(X, Y, task=Y, more=Y)),
    ("a column cannot be named 'slots'", lambda b: b.store(X, Y, task=Y, slots=Y)),
    ("x must be a tensor, an array or a number, got list", lambda b: b.store(["a", "b", "c"], Y, task=Y)),
    ("x must be a dense tensor, got torch.sparse_coo", lambda b: b.store(X.to_sparse(), Y, task=Y)),
    ("labels must be whole numbers, got torch.float32", lambda b: b.store(X, Y.float(), task=Y)),
    ("labels must be whole numbers, got dtype bool", lambda b: b.store(X, Y.bool(), task=Y)),
    ("labels must be 0 .*, got -1", lambda b: b.store(X, Y - 1, task=Y)),
    ("labels must be one-dimensional, got shape", lambda b: b.store(X, Y[:, None], task=Y)),
    ("the replay size must be 0 or more, got -1", lambda b: b.draw(-1)),
    ("the replay size must be a whole number, got 1.5", lambda b: b.draw(1.5)),
    ("channel must be 0 to 0, got 1", lambda b: b.draw(3, channel=1)),
    ("slots must lie in -1 … 3, as 4 are filled; got 0 … 4", lambda b: b.update([0, 4], task=1)),
    ("slots must lie in -1 … 3, as 4 are filled; got -2 … 0", lambda b: b.update([0, -2], task=1)),
    ("slots must lie in 0 … 3, as 4 are filled; got -1 … 0", lambda b: b.at([0, -1])),
    ("slots must be a row of whole numbers, got float64", lambda b: b.at([0.5])),
    ("update rewrites the columns .*: task, x; got 'logits'", lambda b: b.update([0], logits=X[:1])),
    ("update rewrites the columns .* but for labels: task, x; got 'y'", lambda b: b.update([0], y=Y[:1])),
    ("task must have one row per example, got shape .* where there are 1 slots", lambda b: b.update([0], task=Y)),
    ("x of an example is 2 of float32", lambda b: b.update([0], task=1, x=X[:1].half())),
]


@pytest.mark.parametrize(("words", "action"), WRONG, ids=[words[:50] for words, _ in WRONG])
def test_bad_input_is_a_sentence_and_changes_nothing(words: str, action: Callable[[ReplayBuffer], object]) -> None:
    buffer = ReplayBuffer(6)
    buffer.store(torch.ones(4, 2), [0, 1, 2, 3], task=7)
    buffer.draw(2)
    before = snapshot(buffer)
    with pytest.raises((TypeError, ValueError), match=words):
        action(buffer)
    assert snapshot(buffer) == before


def test_bad_first_batch_fixes_nothing() -> None:
    buffer = ReplayBuffer(6)
    for labels in ([0, 1, -1], [0.5, 1, 2], [0, 1]):
        with pytest.raises((TypeError, ValueError)):
            buffer.store(X, labels)
    with pytest.raises(ValueError, match="none, as nothing is stored; got 'x'"):
        buffer.update([], x=X[:0])
    assert snapshot(buffer) == snapshot(ReplayBuffer(6))
    buffer.store(torch.zeros(1, 9, dtype=torch.uint8), [5])


def test_repr_says_what_it_is() -> None:
    buffer = ReplayBuffer(6, "cbrs", "reused:4", seed=2, draws=2)
    buffer.store(X, [1, 1, 2])
    assert repr(buffer) == (
        "ReplayBuffer(capacity=6, storage='cbrs', retrieval='reused:4', device='cpu', seed=2, draws=2: "
        "3 stored of 2 classes)"
    )


class Numbered:
    """A stream whose example ids are arrival numbers, as those of a buffer are."""

    name = "live"

    def __init__(self, steps: int = 60, size: int = 7) -> None:
        self.labels = np.array([(step // 6 + i) % 9 for step in range(steps) for i in range(size)])
        self.batches = np.arange(steps * size).reshape(steps, size)

    def __iter__(self) -> Any:
        return iter(self.batches)


@pytest.mark.parametrize("capacity", [3, 20])  # 3: every draw is short
@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("storage", STORAGES)
def test_tape_and_audit_are_those_of_the_plan(storage: str, draws: int, capacity: int) -> None:
    buffer = ReplayBuffer(capacity, storage, "rpr", seed=3, draws=draws)
    live(buffer)
    tape = reprise.plan(Numbered(), reprise.Memory(capacity, storage, "rpr", seed=3, draws=draws), replay=5)
    assert buffer.tape().hash == tape.hash
    assert buffer.audit().to_dict() == reprise.audit.measure(tape).to_dict()


def test_steps_begin_with_draws() -> None:
    buffer = ReplayBuffer(8, "fifo", "rpr", draws=2)
    buffer.store(X, [0, 1, 2])  # before any draw: a step of its own
    buffer.draw(4, channel=1)
    buffer.draw(2)  # the other channel: the same step
    buffer.store(X[:1], [3])
    buffer.store(X[:2], [4, 4])  # no draw in between: the same step
    buffer.draw(2)
    buffer.draw(2)  # the same channel again: another step
    tape = buffer.tape()
    assert tape.incoming.tolist() == [[0, 1, 2], [3, 4, 5], [-1, -1, -1], [-1, -1, -1]]
    assert [[int((drawn >= 0).sum()) for drawn in step] for step in tape.replay] == [[0, 0], [2, 3], [2, 0], [2, 0]]
    assert tape.replay_size == 2
    assert buffer.audit().violations == 0


def test_audit_before_anything_happened_and_without_record() -> None:
    assert ReplayBuffer(3).audit().steps == 0
    buffer = ReplayBuffer(3, record=False)
    live(buffer, 5)
    with pytest.raises(ValueError, match="record=False, so it has no tape and no audit"):
        buffer.audit()
