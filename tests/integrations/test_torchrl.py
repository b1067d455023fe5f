"""Our sampler and our writer in torchrl's replay buffers."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what a library says of itself when it is imported
    method = multiprocessing.get_start_method(allow_none=True)
    pytest.importorskip("torchrl", reason="needs torchrl: make integrations")
    multiprocessing.set_start_method(method, force=True)  # torchrl sets it for the whole process: tests share one

import torch
from tensordict import TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    RoundRobinWriter,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorStorage,
)

from reprise import Memory
from reprise.integrations.torchrl import MemoryWriter, ScheduledSampler

pytestmark = pytest.mark.filterwarnings("ignore:Got conflicting batch_sizes:UserWarning")
STORAGES = {"list": ListStorage, "tensor": LazyTensorStorage, "memmap": LazyMemmapStorage}
WRITERS = {
    "round robin": RoundRobinWriter,
    "max": lambda: TensorDictMaxValueWriter(rank_key="id"),
    "reservoir": lambda: MemoryWriter("reservoir", seed=1),
    "cbrs": lambda: MemoryWriter("cbrs", seed=1),
}


def entries(labels: Any, first: int = 0) -> TensorDict:
    """Entries with ids first, first + 1, … in a scrambled order of rank."""
    labels = torch.as_tensor(labels, dtype=torch.int64)
    ids = torch.arange(first, first + len(labels))
    return TensorDict({"label": labels, "id": ids, "rank": (ids * 7919 % 101).float()}, [len(labels)])


def made(storage: Any = LazyTensorStorage, size: int = 12, kind: Any = ReplayBuffer, **changed: Any) -> Any:
    sampler = ScheduledSampler("rpr", seed=5, record=True)
    return kind(**{"storage": storage(size), "sampler": sampler, "batch_size": 4, **changed})


def held(buffer: Any, name: str = "label") -> list[int]:
    return [int(buffer.storage[place][name]) for place in range(len(buffer))]


OPERATIONS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 5), min_size=1, max_size=16),  # extend
        st.integers(0, 5),  # add
        st.tuples(st.integers(1, 15)),  # sample
        st.none(),  # empty
    ),
    max_size=15,
)


@settings(max_examples=80)
@given(
    operations=OPERATIONS,
    storage=st.sampled_from(["list", "tensor"]),
    writer=st.sampled_from(sorted(WRITERS)),
    kind=st.sampled_from([ReplayBuffer, TensorDictReplayBuffer]),
)
def test_sampler_knows_what_every_writer_writes(operations: Any, storage: str, writer: str, kind: Any) -> None:
    buffer = made(STORAGES[storage], kind=kind, writer=WRITERS[writer]())
    sampler = buffer.sampler
    first = 0
    for operation in operations:
        if isinstance(operation, list):
            buffer.extend(entries(operation, first))
            first += len(operation)
        elif isinstance(operation, int):
            buffer.add(entries([operation], first)[0])
            first += 1
        elif operation is None:
            buffer.empty()
            assert not len(sampler.memory)
        elif len(buffer):
            got = buffer.sample(*operation) if kind is ReplayBuffer else buffer.sample(*operation).exclude("index")
            now = held(buffer)
            assert sampler.memory.labels[: len(now)].tolist() == now
            assert len(set(got["id"].tolist())) == len(got) <= operation[0]
    if not len(buffer):
        with pytest.raises(RuntimeError, match="empty storage"):
            buffer.sample(3)
    assert sampler.audit().violations == 0


@pytest.mark.parametrize("storage", sorted(STORAGES))
def test_it_draws_as_a_memory_does_that_is_told_the_same(storage: str) -> None:
    buffer, memory = made(STORAGES[storage]), Memory(12, "external", "rpr", 5)
    for step in range(30):
        labels = [step % 3, step // 5, 7]
        index = buffer.extend(entries(labels, 3 * step))
        memory.assign(*np.array(sorted(zip(index.tolist(), labels, strict=True))).T)
        got, info = buffer.sample(return_info=True)
        assert info["index"].tolist() == memory.draw(4).slots.tolist()
        assert got["label"].tolist() == memory.labels[info["index"]].tolist()


@settings(max_examples=50)
@given(
    batches=st.lists(st.lists(st.integers(0, 4), max_size=9), max_size=8),
    rule=st.sampled_from(["reservoir", "brs", "brs-always", "cbrs", "fifo"]),
    storage=st.sampled_from(["list", "tensor"]),
)
def test_writer_keeps_what_the_storage_keeps(batches: Any, rule: str, storage: str) -> None:
    buffer = made(STORAGES[storage], 6, writer=MemoryWriter(rule, seed=2))
    memory = Memory(6, rule, "uniform", 2)
    slots: dict[int, int] = {}
    first = 0
    for labels in batches:
        if len(labels) == 1:
            index = [buffer.add(entries(labels, first)[0])]
        elif labels:
            index = buffer.extend(entries(labels, first)).tolist()
        else:
            continue
        for number, slot in enumerate(memory.store(labels).tolist(), first):
            if slot >= 0:
                slots[slot] = number
        assert index == [
            next((slot for slot, one in slots.items() if one == number), None if len(labels) == 1 else -1)
            for number in range(first, first + len(labels))
        ]
        first += len(labels)
        assert len(buffer) == len(memory)
        assert held(buffer, "id") == [slots[slot] for slot in range(len(memory))]
        assert held(buffer) == memory.labels.tolist()
    assert buffer.write_count >= len(buffer)


def by_state(buffer: Any, fresh: Any, folder: Path) -> Any:
    torch.save(buffer.state_dict(), folder / "state.pt")
    fresh.load_state_dict(torch.load(folder / "state.pt", weights_only=False))
    return fresh


def by_dumps(buffer: Any, fresh: Any, folder: Path) -> Any:
    buffer.dumps(folder / "buffer")
    fresh.loads(folder / "buffer")
    return fresh


def by_pickle(buffer: Any, fresh: Any, folder: Path) -> Any:
    return pickle.loads(pickle.dumps(buffer))


@pytest.mark.parametrize("save", [by_state, by_dumps, by_pickle])
@pytest.mark.parametrize("writer", ["round robin", "cbrs"])
@pytest.mark.parametrize("pending", [False, True], ids=["heard", "unheard"])
def test_a_saved_buffer_goes_on_as_if_nothing_had_happened(
    save: Any, writer: str, pending: bool, tmp_path: Path
) -> None:
    def go(buffer: Any, steps: range) -> list[list[int]]:
        drawn = []
        for step in steps:
            if step or len(buffer):
                drawn.append(buffer.sample()["id"].tolist() if len(buffer) else [])
            buffer.extend(entries([step % 7, step // 4], 2 * step))
        return drawn

    def new() -> Any:
        sampler = ScheduledSampler("rpr+pass", seed=5, record=True)
        return made(size=20, writer=WRITERS[writer](), sampler=sampler)

    whole, half = new(), new()
    expected = go(whole, range(30))
    begun = go(half, range(17))
    if not pending:
        half.sampler._hear(half.storage)
    half = save(half, new(), tmp_path)
    assert begun + go(half, range(17, 30)) == expected
    assert half.sampler.tape().hash == whole.sampler.tape().hash
    assert half.write_count == whole.write_count


def test_a_state_of_something_else_is_refused() -> None:
    sampler = ScheduledSampler("rpr")
    for state in ({}, {"version": 2}, {"version": 1, "memory": Memory(3).state_dict(), "fresh": []}):
        with pytest.raises(ValueError, match="this state cannot be loaded"):
            sampler.load_state_dict(state)
    writer = MemoryWriter()
    writer.register_storage(ListStorage(4))
    with pytest.raises(ValueError, match="the state is of 5 slots, the storage has 4"):
        writer.load_state_dict(
            {"version": 1, "memory": Memory(5, "reservoir", "uniform").state_dict(), "write_count": 0}
        )
    json.dumps(ScheduledSampler("rpr", record=True).state_dict())


def test_prefetch_is_refused_unless_it_is_meant() -> None:
    buffer = made(prefetch=2)
    buffer.extend(entries([0, 1, 2, 3, 4]))
    buffer.sample()
    with pytest.raises(RuntimeError, match="samples in several threads"):
        buffer.sample()
    buffer = made(prefetch=2, sampler=ScheduledSampler("rpr", record=True, prefetch=True))
    buffer.extend(entries([0, 1, 2, 3, 4]))
    assert all(len(buffer.sample()) == 4 for _ in range(5))


def test_what_was_stored_before_is_found() -> None:
    storage = TensorStorage(entries([0, 0, 1, 2]))
    buffer = ReplayBuffer(storage=storage, sampler=ScheduledSampler("rpr"), batch_size=3)
    assert sorted(buffer.sample()["label"].tolist()) == [0, 1, 2]


def test_buffers_that_share_a_storage_hear_of_each_other() -> None:
    storage = LazyTensorStorage(10)
    one, other = (made(storage=lambda size: storage, size=10) for _ in range(2))
    one.extend(entries([0, 1, 2]))
    assert sorted(other.sample(3)["label"].tolist()) == [0, 1, 2]
    one.extend(entries([3, 4], 3))
    one.empty()
    one.extend(entries([5, 6], 5))
    assert sorted(other.sample(9)["label"].tolist()) == [5, 6]


def test_labels_changed_in_place_are_read_again_when_it_is_said() -> None:
    buffer = made()
    buffer.extend(entries([0, 1, 2]))
    buffer.sample()
    buffer[1] = entries([8])[0]
    buffer.mark_update(1)
    assert sorted(buffer.sample()["label"].tolist()) == [0, 2, 8]


def test_nested_keys_columns_and_functions() -> None:
    nested = TensorDict({"next": {"task": torch.tensor([[0], [0], [1]])}}, [3])
    keys: list[Any] = [("next", "task"), lambda rows: rows["next", "task"]]
    for key in keys:
        buffer = made(sampler=ScheduledSampler("rpr", key=key))
        buffer.extend(nested.clone())
        assert sorted(buffer.sample(2)["next", "task"].flatten().tolist()) == [0, 1]
    plain = made(ListStorage, sampler=ScheduledSampler("rpr", key=lambda rows: [row % 2 for row in rows]))
    plain.extend([torch.tensor(number) for number in (2, 4, 6, 7)])
    assert sorted(int(one) % 2 for one in plain.sample(2)) == [0, 1]


def test_a_storage_without_end_grows_the_memory() -> None:
    buffer = made(lambda size: ListStorage())
    for first in range(0, 3000, 500):
        buffer.extend(entries([number % 11 for number in range(500)], first))
        assert len(buffer.sample(11)["label"].unique()) == 11
    assert buffer.sampler.memory.capacity < 20_000


def test_errors_are_sentences() -> None:
    buffer = made(sampler=ScheduledSampler("rpr", key="task"))
    buffer.extend(entries([0, 1]))
    for _ in range(2):
        with pytest.raises(KeyError, match="goes by the key 'task', and an entry has 'label', 'id', 'rank'"):
            buffer.sample()
    buffer = made(sampler=ScheduledSampler("rpr", key="rank"))
    buffer.extend(entries([0, 1]))
    with pytest.raises(TypeError, match=r"'rank' must be whole numbers, got torch\.float32"):
        buffer.sample()
    buffer = made()
    buffer.extend(entries([0, 1, -1]))
    for _ in range(2):
        with pytest.raises(ValueError, match="'label' must be 0 or more, got -1: such an entry would never return"):
            buffer.sample()
    with pytest.raises(
        KeyError, match=r"goes by the key 'task', .*; a storage that does not balance may have key=None"
    ):
        made(writer=MemoryWriter(key="task")).extend(entries([0]))
    buffer = made(ListStorage, sampler=ScheduledSampler("rpr", key="name"))
    buffer.extend([{"name": "ann"}, {"name": "bob"}])
    with pytest.raises(TypeError, match=r"'name' must be whole numbers, got \['ann', 'bob'\]"):
        buffer.sample()
    for key in (3, (), None):
        with pytest.raises(TypeError, match="key must be the name of an entry, a tuple of names, or a function"):
            ScheduledSampler("rpr", key=key)
    with pytest.raises(ValueError, match="needs a storage of one dimension"):
        ScheduledSampler().sample(LazyTensorStorage(10, ndim=2), 3)
    with pytest.raises(ValueError, match="needs a storage of one dimension"):
        MemoryWriter().register_storage(LazyTensorStorage(10, ndim=2))
    with pytest.raises(ValueError, match="needs a storage with max_size"):
        MemoryWriter().register_storage(ListStorage())
    with pytest.raises(ValueError, match="record=False"):
        ScheduledSampler().tape()
    with pytest.raises(RuntimeError, match="it must write all"):
        made(lambda size: TensorStorage(entries([0, 1])), writer=MemoryWriter()).extend(entries([2]))
    assert "ScheduledSampler('rpr', key='label', seed=5)" in repr(made(writer=MemoryWriter()))
