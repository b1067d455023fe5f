"""Memories and buffers that are copied, pickled, sent to another process: each goes on bit for bit, by itself."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory.sampling import RETRIEVALS, STORAGES
from torch.utils.data import DataLoader
from travellers import Draws, EveryOther, Learner, LeastServed, Newest

from reprise import Memory, Tape, plan, streams
from reprise.buffer import ReplayBuffer
from reprise.checks import check_schedule
from reprise.memory import RandomisedPass

ALL_STORAGES = [*STORAGES, EveryOther(3)]
ALL_RETRIEVALS = [*RETRIEVALS, "mir:5", LeastServed(), Newest()]
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {n}": lambda one, n=n: pickle.loads(pickle.dumps(one, n))
        for n in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}
Script = list[tuple[int, list[int]]]


def played(memory: Memory, script: Script) -> list[Any]:
    """Everything a memory answers while it draws and stores by a script."""
    score = (lambda slots: -slots) if memory.retrieval_spec.startswith("mir") else None
    seen = []
    for n, labels in script:
        for channel in range(memory.draws):
            seen.append(memory.draw(n, channel=channel, score=score).slots.tolist())
        seen.append(memory.store(labels).tolist())
    return seen


def content(memory: Memory) -> dict[str, Any]:
    """The state but for the policies' names: a user's may have none but its place in the computer's memory."""
    return {name: value for name, value in memory.state_dict().items() if name not in ("storage", "retrieval")}


def goes_on(
    make: Callable[[], Memory], before: Script, after: Script, other: Script, way: Callable[[Any], Any]
) -> None:
    plain, memory = make(), make()
    played(plain, before)
    played(memory, before)
    twin, stranger = way(memory), way(memory)
    played(stranger, other)  # whatever a copy does, the others do not notice
    expected = played(plain, after)
    assert played(twin, after) == expected
    assert played(memory, after) == expected
    assert content(twin) == content(memory) == content(plain)
    assert (twin.capacity, twin.seed, twin.steps, twin.draws) == (
        memory.capacity,
        memory.seed,
        memory.steps,
        memory.draws,
    )


SCRIPTS = st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 8), max_size=6)), max_size=12)


@given(
    capacity=st.integers(1, 12),
    storage=st.sampled_from(ALL_STORAGES),
    retrieval=st.sampled_from(ALL_RETRIEVALS),
    draws=st.integers(1, 2),
    seed=st.integers(0, 9),
    scripts=st.tuples(SCRIPTS, SCRIPTS, SCRIPTS),
    way=st.sampled_from(sorted(WAYS)),
)
def test_a_copied_memory_goes_on_bit_for_bit_and_by_itself(capacity, storage, retrieval, draws, seed, scripts, way):
    goes_on(lambda: Memory(capacity, storage, retrieval, seed, draws), *scripts, WAYS[way])


def named(policy: Any) -> str:
    """What a test is called after."""
    return policy if isinstance(policy, str) else type(policy).__name__


@pytest.mark.parametrize("storage", ALL_STORAGES, ids=named)
def test_every_retrieval_can_be_copied_under_every_storage(storage):
    source = np.random.default_rng(0)
    ways = list(WAYS.values())
    for number, retrieval in enumerate(ALL_RETRIEVALS):
        scripts = [
            [(int(source.integers(7)), source.integers(7, size=source.integers(6)).tolist()) for _ in range(8)]
            for _ in range(3)
        ]
        for way in [ways[number % len(ways)]] if isinstance(retrieval, str) else ways:
            goes_on(lambda retrieval=retrieval: Memory(6, storage, retrieval, seed=1), *scripts, way)


@pytest.mark.parametrize("retrieval", ALL_RETRIEVALS, ids=named)
def test_states_pass_through_json_and_torch_as_they_are(retrieval):
    script = [(3, [1, 2, 2]), (4, [5, 0]), (2, [7, 8, 1]), (5, [3])]
    memory = Memory(7, EveryOther(1), retrieval, seed=4)
    memory_of = {"json": lambda state: json.loads(json.dumps(state)), "torch": through_torch}
    played(memory, script)
    state = memory.state_dict()
    rest = [(3, [4, 4]), (6, [1]), (3, [])]
    expected = played(memory, rest)
    for way in memory_of.values():
        again = Memory(7, memory.storage, memory.retrieval)
        again.load_state_dict(way(state))
        assert played(again, rest) == expected


class Keyed(RandomisedPass):
    """Its state is a dict with whole numbers as keys, which JSON turns into strings."""

    def state_dict(self) -> dict[str, Any]:
        return {name: dict(enumerate(row)) for name, row in super().state_dict().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict({name: [row[place] for place in range(len(row))] for name, row in state.items()})


def test_whole_numbers_as_keys_pass_through_json() -> None:
    check_schedule(Keyed())
    memory, other = (Memory(8, retrieval=Keyed(), seed=seed) for seed in (1, 2))
    memory.store(range(8))
    memory.draw(3)
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert [other.draw(3).slots.tolist() for _ in range(9)] == [memory.draw(3).slots.tolist() for _ in range(9)]


def through_torch(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


# Buffers ----------------------------------------------------------------------------------------------------------


def live(buffer: ReplayBuffer, first: int, last: int) -> list[Any]:
    """Steps of a stream whose logits are rewritten when replayed; all that was drawn."""
    seen = []
    for step in range(first, last):
        for channel in range(buffer.memory.draws):
            if replay := buffer.draw(4, channel=channel):
                seen.append([replay.slots.tolist(), replay.x.tolist(), replay.y.tolist(), replay.logits.tolist()])
                buffer.update(replay.slots, logits=replay.logits + 1)
        ids = torch.arange(6 * step, 6 * step + 6)
        x = ids.to(torch.uint8)[:, None].expand(-1, 3)
        buffer.store(x, (ids // 9) % 11, logits=torch.stack([ids, -ids], 1).bfloat16() / 3, task=1j * step * ids)
    return seen


def make(**changes: Any) -> ReplayBuffer:
    settings = {"capacity": 25, "storage": "cbrs", "retrieval": "rpr+pass", "seed": 5, "draws": 2}
    return ReplayBuffer(**{**settings, **changes})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stop", [0, 1, 12])
def test_a_copied_buffer_goes_on_bit_for_bit_and_by_itself(way: str, stop: int) -> None:
    plain, buffer = make(), make()
    live(plain, 0, stop)
    live(buffer, 0, stop)
    twin, stranger = WAYS[way](buffer), WAYS[way](buffer)
    live(stranger, 40, 50)
    expected = live(plain, stop, 30)
    assert live(twin, stop, 30) == expected
    assert live(buffer, stop, 30) == expected
    assert twin.tape().hash == buffer.tape().hash == plain.tape().hash
    assert twin.device == buffer.device
    held, other = ([leaf.table for leaf in one._columns.leaves.values()] for one in (twin, buffer))
    assert [table.shape for table in held] == [table.shape for table in other]
    assert {table.data_ptr() for table in held}.isdisjoint(table.data_ptr() for table in other)


def test_a_buffer_without_record_or_examples_is_copied_too() -> None:
    buffer = make(record=False)
    twin = pickle.loads(pickle.dumps(buffer))
    with pytest.raises(ValueError, match="record=False"):
        twin.tape()
    assert live(twin, 0, 10) == live(buffer, 0, 10)
    empty = ReplayBuffer(4)
    empty.store(torch.zeros(0, 3), [])
    assert len(copy.deepcopy(empty)) == 0


@pytest.mark.parametrize(
    "x",
    [
        torch.rand(4, 2) < 0.5,
        torch.randn(4, 2, 1).half(),
        torch.randn(4).double(),
        torch.zeros(4, 0, 3),
        torch.rand(4, 2) * 1j,
        torch.arange(8, dtype=torch.int16).reshape(4, 2),
        torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last),
    ],
    ids=lambda x: f"{x.dtype} {tuple(x.shape)}",
)
def test_columns_of_any_dtype_and_shape_travel(x: torch.Tensor) -> None:
    buffer = ReplayBuffer(6)
    buffer.store(x, torch.arange(4))
    twin = pickle.loads(pickle.dumps(buffer))
    assert twin.at(range(4)).x.dtype == x.dtype
    assert torch.equal(twin.at(range(4)).x, x)
    twin.store(x, torch.arange(4))
    assert len(twin) == 6


def test_a_pickle_holds_what_is_stored_and_no_empty_room() -> None:
    buffer = ReplayBuffer(10_000)
    buffer.store(torch.zeros(3, 100), [0, 1, 2])
    assert len(pickle.dumps(buffer)) < 12_000


def test_a_module_that_holds_a_buffer() -> None:
    plain, held = make(), make()
    live(plain, 0, 9)
    live(held, 0, 9)
    learner = Learner(held)
    expected = live(plain, 9, 20)
    file = io.BytesIO()
    torch.save(learner, file)
    file.seek(0)
    twins = [copy.deepcopy(learner), pickle.loads(pickle.dumps(learner)), torch.load(file, weights_only=False)]
    for twin in [*twins, learner]:
        assert twin.buffer is twin.rehearsal
        assert live(twin.buffer, 9, 20) == expected
        assert twin.memory.draw(2).slots.tolist() == Learner(held).memory.draw(2).slots.tolist()
        assert torch.equal(twin.layer.weight, learner.layer.weight)


@pytest.mark.parametrize("retrieval", ["rpr", "deadline:1e300", "rpr+pass", LeastServed()], ids=named)
def test_plain_torch_load_reads_a_buffers_state(retrieval: Any, tmp_path: Any) -> None:
    buffer = make(retrieval=retrieval)
    live(buffer, 0, 12)
    torch.save({"epoch": 3, "buffer": buffer.state_dict()}, tmp_path / "checkpoint.pt")
    other = make(retrieval=buffer.memory.retrieval, seed=8)
    other.load_state_dict(torch.load(tmp_path / "checkpoint.pt")["buffer"])
    assert live(other, 12, 25) == live(buffer, 12, 25)
    assert other.tape().hash == buffer.tape().hash


def test_a_state_of_arrays_still_loads() -> None:
    """As states were written before: NumPy arrays for the memory's rows and the record's."""
    buffer = make()
    live(buffer, 0, 12)
    state = buffer.state_dict()
    for part in (state["memory"]["index"], state["record"]):
        for name, value in part.items():
            if not isinstance(value, int):
                part[name] = [one.numpy() for one in value] if isinstance(value, list) else value.numpy()
    other = make(seed=8)
    other.load_state_dict(state)
    assert live(other, 12, 25) == live(buffer, 12, 25)


def test_a_replay_travels() -> None:
    buffer = make()
    live(buffer, 0, 3)
    replay = buffer.draw(3)
    for way in WAYS.values():
        twin = way(replay)
        assert twin.slots.tolist() == replay.slots.tolist()
        assert torch.equal(twin.x, replay.x)


def test_spawned_workers_may_hold_a_buffer_and_a_memory() -> None:
    """The worker has what was there when it was spawned; neither process sees what the other does then."""
    buffer = ReplayBuffer(8, "fifo", "rpr", seed=3)
    buffer.store(torch.arange(8.0)[:, None], torch.arange(8) % 5)
    memory = Memory(5, EveryOther(2), LeastServed(), seed=3)
    memory.store([4, 4, 5, 6])
    alone = copy.deepcopy(Draws(buffer, memory))
    expected = [alone[place] for place in range(6)]
    loader = DataLoader(
        Draws(buffer, memory), num_workers=1, batch_size=None, multiprocessing_context="spawn", timeout=300
    )
    batches = iter(loader)
    buffer.update(range(8), x=torch.full((8, 1), -1.0))  # the worker may be only just starting
    assert list(batches) == expected
    assert buffer.at(range(8)).x.unique().tolist() == [-1.0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_buffer_on_a_gpu_travels(tmp_path: Any) -> None:
    buffer = ReplayBuffer(25, retrieval="rpr", device="cuda", seed=1)
    for step in range(9):
        buffer.draw(3)
        buffer.store(torch.full((4, 2), float(step), device="cuda"), [step % 5] * 4)
    torch.save(buffer.state_dict(), tmp_path / "state.pt")
    elsewhere = ReplayBuffer(25, retrieval="rpr", seed=2)
    elsewhere.load_state_dict(torch.load(tmp_path / "state.pt", map_location="cuda"))
    twins = [copy.copy(buffer), copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))]
    assert all(str(twin.device) == "cuda:0" and twin.at([0]).x.is_cuda for twin in twins)
    assert not elsewhere.at([0]).x.is_cuda
    expected = [buffer.draw(3).x.tolist() for _ in range(9)]
    for twin in [*twins, elsewhere]:
        assert [twin.draw(3).x.tolist() for _ in range(9)] == expected


# Tapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_tape_is_as_read_only_as_the_tape(way: str) -> None:
    stream = streams.from_labels(np.arange(40) % 4, seed=0, tasks=2, batch=4)
    tape = plan(stream, Memory(8, seed=0), 3)
    twin = WAYS[way](tape)
    assert isinstance(twin, Tape)
    assert twin == tape
    with pytest.raises(ValueError, match="read-only"):
        twin.replay[0] = 1
