"""Batches of any structure with live replay, apart from any library: fields, padding, several processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reprise
from reprise.integrations import live
from reprise.integrations.live import LiveReplay

FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda ids: ids,
    "tuple": lambda ids: (ids[:, None].float().expand(-1, 3), ids),
    "list": lambda ids: [ids, ids % 2 == 0],
    "dict": lambda ids: {"x": ids, "y": {"deep": [ids[:, None].double(), ids.to(torch.uint8)]}},
}


def of(batch: Any) -> list[int]:
    """Who is in a batch, all its fields being of one mind."""
    found: list[list[int]] = []
    live.mapped(lambda leaf: found.append(leaf.reshape(len(leaf), -1)[:, 0].long().tolist()), batch)
    ids = found[0]
    assert all(one in (ids, [int(place % 2 == 0) for place in ids]) for one in found)
    return ids


@pytest.mark.parametrize("form", FORMS)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), size=st.integers(0, 5), seed=st.integers(0, 9))
@settings(max_examples=20)
def test_a_batch_is_what_came_and_what_a_plain_loop_would_draw(
    form: str, sizes: list[int], size: int, seed: int
) -> None:
    replay, plain = LiveReplay(reprise.ReplayBuffer(7, seed=seed), size), reprise.ReplayBuffer(7, seed=seed)
    first = 0
    for count in sizes:
        ids = torch.arange(first, first + count)
        first += count
        drawn = plain.draw(size)
        batch = replay.enlarge(FORMS[form](ids), ids % 3)
        assert of(batch) == [*ids.tolist(), *(drawn.x.tolist() if drawn else [])]
        assert type(batch) is type(FORMS[form](ids))
        assert replay.sizes == (count, len(drawn))
        replay.store()
        plain.store(ids, ids % 3)
    assert replay.buffer.tape() == plain.tape()


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=6))
@settings(max_examples=40)
def test_padded_rows_come_back_as_they_were(lengths: list[list[int]]) -> None:
    replay = LiveReplay(reprise.ReplayBuffer(50, seed=0), 3, pad={"ids": 0, "types": 0, "mask": 0}, length=6)
    rows: set[tuple[int, ...]] = set()
    number = 1
    for batch in lengths:
        texts = []
        for length in batch:
            texts.append(list(range(number, number + length)))
            number += length
        rows |= set(map(tuple, texts))
        width = max(batch)
        ids = torch.tensor([text + [0] * (width - len(text)) for text in texts])
        enlarged = replay.enlarge({"ids": ids, "types": torch.zeros_like(ids), "mask": ids > 0}, [0] * len(batch))
        assert {tuple(row[row > 0].tolist()) for row in enlarged["ids"]} <= rows
        assert enlarged["types"].shape == enlarged["ids"].shape
        assert torch.equal(enlarged["mask"], enlarged["ids"] > 0)
        assert enlarged["mask"].any(0).all()  # no wider than the longest row
        replay.store()


class Ranks:
    """Threads that take each other's part for processes."""

    def __init__(self, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.here, self.barrier = world, threading.local(), threading.Barrier(world, timeout=20)
        self.sent: list[Any] = [None] * world
        monkeypatch.setattr(live, "place", lambda: (self.here.rank, world))
        monkeypatch.setattr(live, "distributed", SimpleNamespace(all_gather=self.all_gather))

    def all_gather(self, into: list[torch.Tensor], mine: torch.Tensor) -> None:
        self.sent[self.here.rank] = mine
        self.barrier.wait()
        for target, source in zip(into, self.sent, strict=True):
            target.copy_(source)  # of another shape, this is an error
        self.barrier.wait()

    def run(self, job: Callable[[int], Any]) -> list[Any]:
        def named(rank: int) -> Any:
            self.here.rank = rank
            return job(rank)

        with ThreadPoolExecutor(self.world) as pool:
            return list(pool.map(named, range(self.world)))


@pytest.mark.parametrize("counts", [(4, 4, 4), (4, 4, 3), (2, 1, 1), (1, 0, 0)], ids=str)
@pytest.mark.parametrize("interleaved", [True, False])
def test_all_processes_have_the_rows_of_all(
    counts: tuple[int, ...], interleaved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(counts)
    if interleaved:
        parts = [torch.arange(total)[rank::3] for rank in range(3)]
    else:
        parts = list(torch.arange(total).split(counts))
    assert tuple(map(len, parts)) == counts

    def job(rank: int) -> list[torch.Tensor]:
        ids = parts[rank]
        values = [ids, ids[:, None].float().expand(-1, 2), ids.to(torch.uint8), ids % 2 == 0, ids[:, None, None].half()]
        return live.gathered(values, interleaved)

    for ids, pairs, bytes_of, even, halves in Ranks(3, monkeypatch).run(job):
        assert ids.tolist() == bytes_of.tolist() == halves.flatten().tolist() == list(range(total))
        assert pairs.tolist() == [[place, place] for place in range(total)]
        assert even.tolist() == [place % 2 == 0 for place in range(total)]


def test_three_processes_are_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(rank: int) -> tuple[list[list[int]], str, int]:
        replay, seen = LiveReplay(reprise.ReplayBuffer(10, seed=1), 5), []
        for first in range(0, 60, 6):
            ids = torch.arange(first, first + 6)[rank::3]
            seen.append(replay.enlarge((ids, ids // 10), ids // 10)[0].tolist())
            replay.store()
        return seen, replay.buffer.tape().hash, replay.buffer.audit().violations

    tape = reprise.plan(torch.arange(60) // 10, reprise.Memory(10, seed=1), 5, batch=6)
    for rank, (seen, _, violations) in enumerate(told := Ranks(3, monkeypatch).run(job)):
        assert seen == [step.part(rank, 3).ids.tolist() for step in tape]
        assert violations == 0
    assert len({made for _, made, _ in told}) == 1


def test_processes_with_different_shapes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(rank: int) -> str:
        with pytest.raises(ValueError, match="examples of different shapes: 16, 24 bytes a row") as caught:
            live.gathered([torch.zeros(3, 2 + rank).double()], True)
        return str(caught.value)

    assert len(set(Ranks(2, monkeypatch).run(job))) == 1


def test_a_state_goes_on(tmp_path: Any) -> None:
    def steps(replay: LiveReplay, numbers: range) -> list[list[int]]:
        seen = []
        for number in numbers:
            ids = torch.arange(6) + 6 * number
            seen.append(replay.enlarge([ids, ids % 5], ids % 5)[0].tolist())
            replay.store()
        return seen

    one, other = (LiveReplay(reprise.ReplayBuffer(9, seed=2), 4) for _ in range(2))
    steps(one, range(7))
    torch.save(one.state_dict(), tmp_path / "state.pt")
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert steps(other, range(7, 15)) == steps(one, range(7, 15))
    with pytest.raises(ValueError, match="this is not the state of live replay"):
        other.load_state_dict({"version": 2})


def test_what_is_refused_leaves_everything_as_it_was() -> None:
    replay = LiveReplay(reprise.ReplayBuffer(9, seed=2), 4)
    replay.enlarge((torch.zeros(6, 3), torch.arange(6)), torch.arange(6))
    replay.store()
    before = replay.buffer.tape().hash
    ids = torch.arange(4)
    for batch, keys, words in [
        ((torch.zeros(4, 2), ids), ids, r"0 of an example has the shape \(2,\), and \(3,\) in the first batch"),
        ((torch.zeros(4, 3), ids), ids.float(), "one whole number per example"),
        ((torch.zeros(4, 3), ids), ids[:3], "the batch has 4 of them; got int64 of shape"),
        ((torch.zeros(4, 3), ids[:2]), ids, "one row per example: 0 has 4, 1 has 2"),
        ({"a.b": ids, "a": {"b": ids}}, ids, r"two fields of a batch would both be named 'a\.b'"),
    ]:
        with pytest.raises(ValueError, match=words):
            replay.enlarge(batch, keys)
    with pytest.raises(TypeError, match=r"batch\[1\] is a number"):
        replay.enlarge((torch.zeros(4, 3), torch.tensor(3)), ids)
    with pytest.raises(TypeError, match=r"one whole number per example, got \['a', 'b', 'c', 'd'\]"):
        replay.enlarge((torch.zeros(4, 3), ids), list("abcd"))
    assert replay.buffer.tape().hash == before
    with pytest.raises(ValueError, match="pad and length go together"):
        LiveReplay(reprise.ReplayBuffer(9), 4, length=3)


def test_a_buffer_that_goes_by_keys_is_refused() -> None:
    buffer = reprise.ReplayBuffer(9)
    buffer.store({"0": torch.zeros(2, 3), "1": torch.arange(2)}, key=["ann", "bob"])
    with pytest.raises(ValueError, match="this buffer goes by keys, and replay here goes by whole numbers"):
        LiveReplay(buffer, 4).enlarge((torch.zeros(4, 3), torch.arange(4)), torch.arange(4))
