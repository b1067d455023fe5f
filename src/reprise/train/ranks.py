"""Data-parallel training: which part of a batch this process takes, and how parts become whole again."""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

_LETTING_GO = 0.2  # seconds; a moment is enough, once those threads get a processor


class Ranks:
    """The processes that share a run, and which of them this one is.

    Every process reads the same tape and takes every n-th example of each batch. So the memory is the same
    everywhere without a word being sent about it, and only gradients and kept logits travel.
    """

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank = rank
        self.world = world

    @classmethod
    def here(cls) -> Ranks:
        """The process group that is set up, or this process alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.rank == 0

    def part(self, count: int, device: torch.device) -> tuple[slice, Tensor]:
        """This process's part of a batch, and the weight of each example in it.

        Gradients are averaged over processes, so a weight is world / count: then their average is the batch's mean
        though parts differ in size. A part that would be empty holds the first example with weight 0.
        """
        mine = len(range(self.rank, count, self.world))
        if not mine:
            return slice(0, 1), torch.zeros(1, device=device)
        return slice(self.rank, None, self.world), torch.full((mine,), self.world / count, device=device)

    def gather(self, rows: Tensor, count: int) -> Tensor:
        """The rows of all parts in the order of the batch of `count`."""
        if self.world == 1:
            return rows
        most = -(-count // self.world)
        padded = rows.new_zeros((most, *rows.shape[1:]))
        padded[: len(rows)] = rows[:most]
        parts = [torch.empty_like(padded) for _ in range(self.world)]
        dist.all_gather(parts, padded)
        return torch.stack(parts, 1).flatten(0, 1)[:count]

    def mean(self, value: Tensor) -> Tensor:
        """The mean over processes."""
        return value if self.world == 1 else self.total(value.clone()) / self.world

    def follow(self, tensors: Iterable[Tensor]) -> None:
        """Take over the first process's values."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def agree(self, hashed: str, device: torch.device) -> bool:
        """Whether all processes have given the same hash."""
        mine = torch.tensor(list(hashed.encode()), device=device)
        first = mine.clone()
        self.follow([first])
        return not self.total((first != mine).sum())

    def told(self, yes: bool, device: torch.device) -> bool:
        """Whether the first process says yes."""
        if self.world == 1:
            return yes
        word = torch.tensor([yes], dtype=torch.int64, device=device)
        self.follow([word])
        return bool(word.item())

    def total(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values


def leave() -> None:
    """Part from the other processes, after the last step that is shared with them.

    Gloo's threads let go of their last work a moment after it is done, and need the interpreter for that: one that
    has begun to end aborts the process. They would be waited for here, but DDP keeps the group alive (torch 2.13), so
    they are given time. Without it, now and then a process was aborted after all its work had been done.
    """
    gloo = dist.get_backend() == "gloo"
    dist.destroy_process_group()
    if gloo:
        time.sleep(_LETTING_GO)
