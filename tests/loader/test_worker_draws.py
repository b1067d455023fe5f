"""Live draws in a DataLoader run ahead of the loop; where it can be seen that they do, they are refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from reprise import Memory, ReplayBuffer

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Drawing(Dataset[Any]):
    """A data set that draws at every example, and may store."""

    def __init__(self, buffer: ReplayBuffer, channels: int = 1, store: bool = False) -> None:
        self.buffer, self.channels, self.store = buffer, channels, store

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> list[int]:
        drawn = [len(self.buffer.draw(2, channel=channel)) for channel in range(self.channels)]
        if self.store:
            self.buffer.store(torch.zeros(1, 1), [place])
        return drawn


def filled(**options: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(8, seed=0, **options)
    buffer.store(torch.arange(8.0)[:, None], torch.arange(8) % 3)
    return buffer


def test_a_worker_that_only_draws_is_stopped() -> None:
    loader = DataLoader(Drawing(filled()), num_workers=1, batch_size=None)
    with pytest.raises(RuntimeError, match=r"worker \d of a DataLoader draws from a copy .* reprise.TapeDataset"):
        list(loader)


def test_it_is_stopped_in_a_collate_function_too() -> None:
    buffer = filled()
    loader = DataLoader(
        range(64), batch_size=4, num_workers=1, collate_fn=lambda rows: (rows, buffer.draw(2).y.tolist())
    )
    with pytest.raises(RuntimeError, match="nothing that the loop stores reaches it"):
        list(loader)


@pytest.mark.parametrize("way", ["forked", "pickled"])
def test_a_worker_may_be_allowed_to(way: str) -> None:
    buffer = filled(worker_draws=True)
    if way == "pickled":
        buffer = pickle.loads(pickle.dumps(buffer))
    assert list(DataLoader(Drawing(buffer), num_workers=2, batch_size=None)) == [[2]] * 8


def test_a_worker_that_stores_as_well_has_a_memory_of_its_own() -> None:
    loader = DataLoader(Drawing(filled(draws=2), channels=2, store=True), num_workers=2, batch_size=None)
    assert list(loader) == [[2, 2]] * 8


def test_the_loop_may_draw_as_often_as_it_likes() -> None:
    buffer = filled()
    assert [len(buffer.draw(2)) for _ in range(5)] == [2] * 5
    assert list(DataLoader(Drawing(buffer), batch_size=None)) == [[2]] * 8, "no worker, nothing ahead"


@pytest.mark.parametrize(("workers", "prefetch"), [(0, None), (2, 2), (2, 3)])
def test_a_live_batch_sampler_runs_ahead(workers: int, prefetch: int | None) -> None:
    """Which nothing can see: the page on loaders says so, with these numbers."""
    memory = Memory(50, seed=0)

    class Live:
        def __iter__(self) -> Iterator[list[int]]:
            for place in range(20):
                memory.draw(2)
                yield [place]

    loader = DataLoader(range(20), batch_sampler=Live(), num_workers=workers, prefetch_factor=prefetch)  # type: ignore[arg-type]
    batches = iter(loader)
    next(batches)
    assert memory.steps == 1 + workers * (prefetch or 0)
    del batches
