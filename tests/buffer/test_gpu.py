"""On a GPU nobody waits for a draw, nor for a store whose keys are on the host; and all is as on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from reprise import ReplayBuffer
from reprise.buffer import pad

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
BATCH = 12


@contextmanager
def nobody_waits() -> Iterator[None]:
    """Any call that makes the host wait for the GPU is an error."""
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def batch(step: int, device: str) -> dict[str, Any]:
    ids = torch.arange(step * BATCH, (step + 1) * BATCH)
    rows = [torch.arange(1 + int(number) % 5) + int(number) for number in ids]
    x = {"image": (ids % 251).to(torch.uint8)[:, None].expand(-1, 6).contiguous().to(device), "both": (ids.to(device),)}
    return {"x": x, "y": (ids.float() / 3).to(device), "tokens": [row.to(device) for row in rows], "task": step}


def keys(step: int) -> list[str]:
    return [f"user {(step * 3 + place) % 17}" for place in range(BATCH)]


def make(device: str, **options: Any) -> ReplayBuffer:
    return ReplayBuffer(40, "reservoir", "rpr", device=device, seed=2, collate={"tokens": pad(-1)}, **options)


def equal(one: Any, other: Any) -> None:
    assert one.slots.tolist() == other.slots.tolist()
    assert one.key == other.key
    assert torch.equal(one.x["image"].cpu(), other.x["image"].cpu())
    assert torch.equal(one.x["both"][0].cpu(), other.x["both"][0].cpu())
    assert torch.equal(one.y.cpu(), other.y.cpu())
    assert torch.equal(one.tokens.cpu(), other.tokens.cpu())
    assert torch.equal(one.task.cpu(), other.task.cpu())


def test_nobody_waits_for_a_draw_or_a_store() -> None:
    here, there = make("cpu"), make("cuda")
    for step in range(4):  # what is allocated once is allocated now
        here.draw(5)
        there.draw(5)
        here.store(**batch(step, "cpu"), key=keys(step))
        there.store(**batch(step, "cuda"), key=keys(step))
    batches = [batch(step, "cuda") for step in range(4, 30)]
    replays = []
    with nobody_waits():
        torch.cuda._sleep(200_000_000)  # the GPU is far behind: a copy that is not waited for must still be right
        for step, given in enumerate(batches, 4):
            replays.append(there.draw(5, exclude=["user 3"]) if step % 2 else there.draw(5))
            there.store(**given, key=keys(step))
            there.update(replays[-1].slots, task=-step)
    for step, replay in enumerate(replays, 4):
        expected = here.draw(5, exclude=["user 3"]) if step % 2 else here.draw(5)
        equal(replay, expected)
        here.store(**batch(step, "cpu"), key=keys(step))
        here.update(expected.slots, task=-step)
    equal(there.at(range(40)), here.at(range(40)))
    assert there.audit().violations == 0


def test_nobody_waits_for_host_labels_and_one_waits_for_those_on_the_gpu() -> None:
    buffer = ReplayBuffer(40, device="cuda", seed=0)
    x = torch.rand(8, 3, 4, 4, device="cuda")
    labels = torch.arange(8)
    there = labels.cuda()
    buffer.store(x, labels)
    buffer.draw(4)
    with nobody_waits():
        buffer.draw(4)
        buffer.store(x, labels)
        buffer.store(x, labels.tolist())
        buffer.store(x, labels.numpy())
        list(buffer.batches(8))
        with pytest.raises(RuntimeError, match="synchroniz"):
            buffer.store(x, there)
    assert buffer.draw(4).y.is_cuda


def test_a_removal_does_not_wait_either() -> None:
    buffer, there = make("cpu"), make("cuda")
    for step in range(6):
        buffer.store(**batch(step, "cpu"), key=keys(step))
        there.store(**batch(step, "cuda"), key=keys(step))
    with nobody_waits():
        there.remove(keys=["user 3", "user 4"])
        there.remove(slots=[0, 5])
        there.resize(30)
        there.resize(50)
    buffer.remove(keys=["user 3", "user 4"])
    buffer.remove(slots=[0, 5])
    buffer.resize(30)
    buffer.resize(50)
    equal(there.at(range(len(there))), buffer.at(range(len(buffer))))
    assert not there._columns.leaves["y"].table[len(there) :].any()
    there.clear()
    assert all(not column.table.any() for column in there._columns.leaves.values())


def test_a_buffer_moves_to_the_gpu_and_back() -> None:
    buffer, twin = make("cpu"), make("cpu")
    for step in range(6):
        buffer.store(**batch(step, "cpu"), key=keys(step))
        twin.store(**batch(step, "cpu"), key=keys(step))
    assert buffer.to("cuda") is buffer
    assert str(buffer.device) == "cuda:0"
    replay = buffer.draw(6)
    assert replay.x["image"].is_cuda
    equal(replay, twin.draw(6))
    buffer.store(**batch(6, "cuda"), key=keys(6))
    twin.store(**batch(6, "cpu"), key=keys(6))
    equal(buffer.to("cpu").draw(6), twin.draw(6))
    assert not buffer.at([0]).y.is_cuda


def test_draws_from_disk_come_to_the_gpu(tmp_path: Path) -> None:
    here, disk = make("cpu"), make("cuda", path=tmp_path / "columns")
    for step in range(8):
        expected, replay = here.draw(5), disk.draw(5)
        if replay:
            assert replay.x["image"].is_cuda
            assert replay.tokens.is_cuda
            equal(replay, expected)
        here.store(**batch(step, "cpu"), key=keys(step))
        disk.store(**batch(step, "cuda" if step % 2 else "cpu"), key=keys(step))
    disk.close()
