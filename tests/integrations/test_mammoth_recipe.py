"""The recipe for Mammoth, run with a stand-in of ours that has the two seams of its Buffer; the page says so."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reprise import Memory

torch = pytest.importorskip("torch", reason="needs torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations" / "mammoth.md"


class Reservoir:
    """Answers as Mammoth's selection does: a slot for the next example, or −1."""

    def __init__(self, size: int) -> None:
        self.size, self.random = size, np.random.default_rng(0)

    def __call__(self, seen: int) -> int:
        slot = seen if seen < self.size else int(self.random.integers(seen + 1))
        return slot if slot < self.size else -1


class Buffer:
    """A stand-in: `add_data` asks for a slot example by example, `get_data` returns forced slots."""

    def __init__(self, buffer_size: int, device: str = "cpu", sample_selection_strategy: str = "reservoir") -> None:
        self.buffer_size, self.device, self.num_seen_examples = buffer_size, device, 0
        self.sample_selection_fn: Any = Reservoir(buffer_size)

    def __len__(self) -> int:
        return min(self.num_seen_examples, self.buffer_size)

    def add_data(self, examples: Any, labels: Any = None) -> None:
        if not hasattr(self, "examples"):
            self.examples = torch.zeros(self.buffer_size, *examples.shape[1:])
            self.labels = torch.zeros(self.buffer_size, dtype=torch.int64)
        for example, label in zip(examples, labels, strict=True):
            slot = self.sample_selection_fn(self.num_seen_examples)
            self.num_seen_examples += 1
            if slot >= 0:
                self.examples[slot], self.labels[slot] = example, label

    def get_data(self, size: int, transform: Any = None, device: Any = None, force_indexes: Any = None) -> Any:
        if force_indexes is None:
            force_indexes = np.random.default_rng(0).choice(len(self), size, replace=False)
        assert len(force_indexes) == size
        x = self.examples[force_indexes]
        return (x if transform is None else transform(x)), self.labels[force_indexes]

    def empty(self) -> None:
        del self.examples, self.labels
        self.num_seen_examples = 0


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """What the page defines, in a clone whose `utils.buffer` is the stand-in."""
    buffers = types.ModuleType("utils.buffer")
    buffers.Buffer = Buffer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "utils", types.ModuleType("utils"))
    monkeypatch.setitem(sys.modules, "utils.buffer", buffers)
    defined: dict[str, Any] = {}
    for block in re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), defined)
    return types.SimpleNamespace(**defined)


def batch(step: int) -> tuple[Any, Any]:
    ids = torch.arange(8 * step, 8 * step + 8)
    return ids[:, None].float(), (ids % 3) + 2 * (step // 10)


def test_storage_and_schedule_are_ours(recipe: Any) -> None:
    buffer, memory = recipe.ScheduledBuffer(20, storage="brs", seed=4), Memory(20, "brs", "rpr", 4)
    held: dict[int, int] = {}
    for step in range(60):
        if step:
            x, y = buffer.get_data(5, transform=lambda x: x, device="cpu")
            slots = memory.draw(5).slots.tolist()
            assert x[:, 0].tolist() == [held[slot] for slot in slots]
            assert y.tolist() == memory.labels[slots].tolist()
        else:
            buffer.memory.draw(5), memory.draw(5)
        x, y = batch(step)
        buffer.add_data(x, labels=y)
        for row, slot in enumerate(memory.store(y.numpy()).tolist()):
            if slot >= 0:
                held[slot] = int(x[row, 0])
    assert len(buffer) == len(memory) == 20
    assert buffer.memory.audit().violations == 0
    buffer.empty()
    assert len(buffer) == len(buffer.memory) == 0


def test_a_task_can_be_left_out(recipe: Any) -> None:
    buffer = recipe.ScheduledBuffer(40)
    for step in range(20):
        buffer.add_data(*batch(step))
    assert not set(buffer.get_data(6, mask_task_out=1, cpt=2)[1].tolist()) & {2, 3}
    assert buffer.get_data(1, force_indexes=[3])[1].tolist() == [int(buffer.labels[3])]


def test_storage_may_stay_theirs(recipe: Any) -> None:
    buffer = recipe.ScheduledRetrieval(20, retrieval="rpr", seed=4)
    for step in range(60):
        if step:
            _, y = buffer.get_data(5)
            assert y.tolist() == buffer.labels[buffer.memory.record.drawn[0][-5:]].tolist()
        buffer.add_data(*batch(step))
        assert buffer.memory.labels[: len(buffer)].tolist() == buffer.labels[: len(buffer)].tolist()
    assert buffer.sample_selection_fn.size == 20
    assert buffer.memory.audit().violations == 0


def test_a_checkpoint_goes_on_bit_for_bit(recipe: Any, tmp_path: Path) -> None:
    buffer, other = recipe.ScheduledBuffer(20), recipe.ScheduledBuffer(20)
    for step in range(30):
        buffer.get_data(5) if step else None
        buffer.add_data(*batch(step))
    recipe.save_memory(buffer, tmp_path / "memory.json")
    other.examples, other.labels = buffer.examples.clone(), buffer.labels.clone()
    other.num_seen_examples = 20  # as Mammoth does
    recipe.load_memory(other, tmp_path / "memory.json")
    for step in range(30, 40):
        assert buffer.get_data(5)[0].tolist() == other.get_data(5)[0].tolist()
        for one in (buffer, other):
            one.add_data(*batch(step))
    assert other.memory.tape().hash == buffer.memory.tape().hash
