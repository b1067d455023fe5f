"""Our exemplars buffer and plugin in Avalanche's strategies."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what a library says of itself when it is imported
    pytest.importorskip("avalanche", reason="needs avalanche-lib: make integrations")

import torch
from avalanche.benchmarks import benchmark_from_datasets, task_incremental_benchmark
from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute
from avalanche.checkpointing import maybe_load_checkpoint, save_checkpoint
from avalanche.models import SimpleMLP
from avalanche.training import DER, ER_ACE, Naive
from avalanche.training.plugins import (
    EvaluationPlugin,
    GDumbPlugin,
    MIRPlugin,
    ReplayPlugin,
    SynapticIntelligencePlugin,
)
from torch.utils.data import TensorDataset

from reprise import Memory
from reprise.integrations.avalanche import MemoryBuffer, ScheduledReplayPlugin

pytestmark = [
    pytest.mark.filterwarnings("ignore:No loggers specified:UserWarning"),
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning"),
]
CLASSES = 10


def dataset(labels: list[int], first: int = 0) -> AvalancheDataset:
    """Examples whose input begins with their id: first, first + 1, …"""
    y = torch.tensor(labels, dtype=torch.int64)
    x = torch.zeros(len(labels), 6)
    x[:, 0] = torch.arange(first, first + len(labels))
    return AvalancheDataset([TensorDataset(x, y)], data_attributes=[DataAttribute(labels, "targets")])


def benchmark(experiences: int = 5, size: int = 40, tasks: bool = False) -> Any:
    """Two new classes in every experience."""
    stream = [
        dataset([2 * number + place % 2 for place in range(size)], number * size) for number in range(experiences)
    ]
    made = benchmark_from_datasets(train=stream)
    return task_incremental_benchmark(made) if tasks else made


def parts(seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = SimpleMLP(num_classes=CLASSES, input_size=6, hidden_size=8)
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.01), "evaluator": EvaluationPlugin()}


def naive(*plugins: Any, **changed: Any) -> Naive:
    return Naive(**{**parts(), "train_mb_size": 8, "plugins": list(plugins), **changed})


def ids(data: Any) -> list[int]:
    return [int(data[place][0][0]) for place in range(len(data))]


def ours(strategy: Any) -> Any:
    return next(plugin for plugin in strategy.plugins if isinstance(plugin, ScheduledReplayPlugin | ReplayPlugin))


UPDATES = st.lists(
    st.tuples(st.lists(st.integers(0, 4), max_size=8), st.booleans(), st.none() | st.integers(1, 9)), max_size=12
)


@settings(max_examples=60)
@given(updates=UPDATES, storage=st.sampled_from(["reservoir", "brs", "cbrs", "fifo"]), capacity=st.integers(1, 9))
def test_buffer_has_at_every_place_what_the_memory_says(updates: Any, storage: str, capacity: int) -> None:
    buffer, memory = MemoryBuffer(capacity, storage, seed=3), Memory(capacity, storage, "uniform", 3)
    held: dict[int, int] = {}
    first = 0
    for labels, look, size in updates:
        buffer.update_from_dataset(dataset(labels, first))
        for place, slot in enumerate(memory.store(labels).tolist()):
            if slot >= 0:
                held[slot] = first + place
        first += len(labels)
        if size is not None:
            buffer.resize(None, size)
            moves = memory.resize(size)
            moved = [held[slot] for slot in moves.source.tolist()]
            held.update(zip(moves.target.tolist(), moved, strict=True))
            held = {slot: held[slot] for slot in range(len(memory))}
            assert buffer.max_size == size
        if look:
            assert ids(buffer.buffer) == [held[slot] for slot in range(len(memory))]
    assert ids(buffer.buffer) == [held[slot] for slot in range(len(memory))]
    assert list(buffer.buffer.targets) == memory.labels.tolist() if len(memory) else not len(buffer.buffer)
    groups = {label: sorted(ids(group.buffer)) for label, group in buffer.buffer_groups.items()}
    assert groups == {
        label: sorted(held[slot] for slot in np.flatnonzero(memory.labels == label)) for label in memory.classes
    }
    assert [len(group) for group in buffer.buffer_groups.values()] == [len(one) for one in buffer.buffer_datasets]


def test_many_updates_leave_nothing_of_what_was_replaced() -> None:
    buffer = MemoryBuffer(10, "fifo")
    for first in range(300):
        buffer.update_from_dataset(dataset([first % 3], first))
    assert len(buffer._fresh) <= 64
    assert ids(buffer.buffer) == list(range(290, 300))


@pytest.mark.parametrize("by", ["class", "task", "experience", None])
def test_replay_plugin_takes_our_buffer(by: Any) -> None:
    made = benchmark(tasks=True)
    replay = ReplayPlugin(mem_size=20, storage_policy=MemoryBuffer(20, "cbrs", by=by))
    strategy = naive(replay)
    for number, experience in enumerate(made.train_stream, 1):
        strategy.train(experience)
        policy = replay.storage_policy
        groups = {"class": 2 * number, None: 1}.get(by, number)
        counts = [len(one) for one in policy.buffer_datasets]
        assert sum(counts) == len(policy.buffer) == 20
        assert len(counts) == groups
        assert max(counts) - min(counts) <= 1 or by is None


def test_a_storage_by_task_needs_task_labels() -> None:
    with pytest.raises(ValueError, match="'targets_task_labels', which this one does not have"):
        MemoryBuffer(5, by="task").update_from_dataset(dataset([0, 1]))
    with pytest.raises(ValueError, match="by must be 'class'"):
        MemoryBuffer(5, by="colour")  # type: ignore[arg-type]


def with_policy(strategy: Any) -> Any:
    strategy.storage_policy = MemoryBuffer(20, "brs")
    return strategy


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_policy(ER_ACE(**parts(), mem_size=20, batch_size_mem=4, train_mb_size=8)),
        lambda: naive(with_policy(MIRPlugin(batch_size_mem=4, mem_size=20, subsample=10))),
        lambda: naive(with_policy(GDumbPlugin(mem_size=20))),
    ],
    ids=["er_ace", "mir", "gdumb"],
)
def test_other_strategies_take_our_buffer(make: Any) -> None:
    strategy = make()
    for experience in benchmark(tasks=True).train_stream:
        strategy.train(experience)
    held = [one for one in (strategy, *strategy.plugins) if hasattr(one, "storage_policy")]
    assert [len(one.storage_policy.buffer) for one in held] == [20]


def test_plugin_joins_what_the_schedule_draws_and_stores_afterwards() -> None:
    seen: list[tuple[list[int], list[int]]] = []

    class Watch(ScheduledReplayPlugin):
        def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
            come = [int(one[0]) for one in strategy.mbatch[0]]
            seen.append((come[: len(self._incoming[0])], come[len(self._incoming[0]) :]))
            assert strategy.mb_output.shape[0] == len(come) == len(strategy.mb_y)
            super().after_training_iteration(strategy, **kwargs)

    plugin = Watch(30, 5, "brs", "rpr", seed=7)
    strategy = naive(plugin)
    for experience in benchmark().train_stream:
        strategy.train(experience)
    memory = Memory(30, "brs", "rpr", 7)
    held: dict[int, int] = {}
    for incoming, replayed in seen:
        assert replayed == [held[slot] for slot in memory.draw(5).slots.tolist()]
        labels = [number // 40 * 2 + number % 2 for number in incoming]
        for number, slot in zip(incoming, memory.store(labels).tolist(), strict=True):
            if slot >= 0:
                held[slot] = number
    assert len(seen) == 25
    assert len(plugin.tape()) == 25
    audit = plugin.audit()
    assert audit.violations == 0
    assert plugin.replay is None


def test_only_the_first_epoch_is_stored() -> None:
    for every_epoch, arrivals in ((False, 80), (True, 240)):
        plugin = ScheduledReplayPlugin(30, 5, every_epoch=every_epoch)
        strategy = naive(plugin, train_epochs=3)
        for experience in benchmark(2).train_stream:
            strategy.train(experience)
        assert len(plugin.tape().labels) == arrivals


@pytest.mark.parametrize(
    ("by", "groups"), [("class", range(10)), ("task", range(5)), ("experience", range(5)), (None, [0])]
)
def test_plugin_goes_by_class_task_or_experience(by: Any, groups: Any) -> None:
    plugin = ScheduledReplayPlugin(30, by=by)
    strategy = naive(plugin)
    for experience in benchmark(tasks=True).train_stream:
        strategy.train(experience)
    assert plugin.buffer.classes.tolist() == list(groups)
    replay = plugin.buffer.draw(4)
    assert replay.part2.tolist() == [label // 2 for label in replay.part1.tolist()]  # task labels return with theirs


def test_plugin_goes_on_on_another_device() -> None:
    """A buffer made anew with the state of the old one, as it is when the strategy is elsewhere after a checkpoint."""
    plain, moved = ScheduledReplayPlugin(30, 5), ScheduledReplayPlugin(30, 5)
    for plugin in (plain, moved):
        strategy = naive(plugin)
        for experience in benchmark(3).train_stream:
            torch.manual_seed(0)
            strategy.train(experience)
            if plugin is moved:
                before = plugin.buffer
                plugin._move("cpu")
                assert plugin.buffer is not before
    assert moved.tape().hash == plain.tape().hash


def test_transform_is_applied_to_what_returns() -> None:
    sizes: list[float] = []

    class Watch(ScheduledReplayPlugin):
        def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
            sizes.extend(strategy.mbatch[0][8:, 5].tolist())
            super().after_training_iteration(strategy, **kwargs)

    strategy = naive(Watch(30, 5, transform=lambda x: x + 1))
    strategy.train(benchmark(1).train_stream[0])
    assert set(sizes) == {1.0}


@pytest.mark.parametrize(
    "make",
    [
        lambda plugin: naive(plugin, SynapticIntelligencePlugin(0.1)),
        lambda plugin: ER_ACE(**parts(), mem_size=20, batch_size_mem=4, train_mb_size=8, plugins=[plugin]),
        lambda plugin: DER(**parts(), mem_size=20, batch_size_mem=4, train_mb_size=8, plugins=[plugin]),
    ],
    ids=["si", "er_ace", "der"],
)
def test_plugin_works_beside_other_strategies(make: Any) -> None:
    plugin = ScheduledReplayPlugin(30, 5)
    strategy = make(plugin)
    for experience in benchmark(3, tasks=True).train_stream:
        strategy.train(experience)
    assert len(plugin.tape()) == 15
    assert plugin.audit().violations == 0


def test_plugin_says_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="needs a mini-batch with task labels"):
        naive(ScheduledReplayPlugin(10, by="task")).train(benchmark(1).train_stream[0])
    with pytest.raises(TypeError, match="must be a list of tensors"):
        ScheduledReplayPlugin(10).before_training_iteration(type("Strategy", (), {"mbatch": {"x": 0}}))
    with pytest.raises(TypeError, match="transform must be a function of the inputs that return, got 3"):
        ScheduledReplayPlugin(10, transform=3)
    strategy = naive(ScheduledReplayPlugin(10))
    strategy.plugins.append(ScheduledReplayPlugin(10))
    with pytest.raises(ValueError, match="a strategy takes one ScheduledReplayPlugin"):
        strategy.train(benchmark(1).train_stream[0])
    plugin = ScheduledReplayPlugin(10, 2, transform=lambda x: x[:, :4])
    with pytest.raises(ValueError, match=r"has examples of shape \(6,\), what returns has \(4,\)"):
        naive(plugin).train(benchmark(1).train_stream[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScheduledReplayPlugin(30, 5, "brs", "rpr+pass", seed=1),
        lambda: ReplayPlugin(mem_size=30, storage_policy=MemoryBuffer(30, "cbrs", seed=1)),
    ],
    ids=["plugin", "buffer"],
)
def test_a_checkpoint_goes_on_as_if_nothing_had_happened(make: Any, tmp_path: Path) -> None:
    def train(strategy: Any, experiences: Any) -> Any:
        for experience in experiences:
            torch.manual_seed(experience.current_experience)  # the order in which Avalanche shuffles
            strategy.train(experience)
        return strategy

    stream = benchmark().train_stream
    whole = train(naive(make()), stream)
    save_checkpoint(train(naive(make()), stream[:3]), tmp_path / "strategy.pkl", exclude=["optimizer"])
    strategy, done = maybe_load_checkpoint(naive(make()), tmp_path / "strategy.pkl", map_location="cpu")
    assert done == 3
    resumed = train(strategy, stream[done:])
    for mine, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    if isinstance(ours(whole), ReplayPlugin):
        assert ids(ours(resumed).storage_policy.buffer) == ids(ours(whole).storage_policy.buffer)
    else:
        assert ours(resumed).tape().hash == ours(whole).tape().hash
        assert torch.equal(ours(resumed).buffer.draw(30).x, ours(whole).buffer.draw(30).x)
