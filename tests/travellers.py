"""What the tests of copies and pickles share: policies of a user, and things that hold a memory or a buffer.

They have a module of their own, as a process that is spawned must be able to import them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from reprise import Memory
from reprise.buffer import ReplayBuffer


class LeastServed:
    """A schedule that derives from nothing: the classes served least. Its state is what it works with, not a copy."""

    def fresh(self):
        return LeastServed()

    def start(self, random):
        self.random = random
        self.counts: dict[int, int] = {}
        self.noise = np.zeros(4, np.float32)
        self.named: list[int] = []

    def begin(self, n, arrived, departed):
        for label in departed:
            del self.counts[label]
        self.counts.update(dict.fromkeys(arrived, 0))

    def take(self, k, batch):
        self.noise = np.roll(self.noise, 1) + np.float32(self.random.below(1000) / 7)
        noise = float(self.noise[0]) + len(self.named) / 3
        order = sorted(self.counts, key=lambda label: (self.counts[label], (label * noise) % 1))
        self.named += order[:k]
        for label in order[:k]:
            self.counts[label] += 1
        return order[:k]

    def bound(self, classes, n):
        return None

    def churn_bound(self, most, inserted, n):
        return None

    def state_dict(self):
        return {"counts": self.counts, "noise": self.noise, "named": self.named, "seen": {("a", 1): np.int64(2)}}

    def load_state_dict(self, state):
        self.counts, self.noise, self.named = state["counts"], state["noise"], state["named"]
        assert state["seen"] == {("a", 1): 2}
        assert self.noise.dtype == np.float32


class EveryOther:
    """A storage with plain attributes: every other example, in the place of the oldest."""

    def __init__(self, every: int = 2) -> None:
        self.every = every
        self.notes = ["anything"]

    def fresh(self):
        return EveryOther(self.every)

    def start(self, source):
        self.seen = 0
        self.random = source("storage")

    def assign(self, labels, index):
        slots = []
        for label in labels:
            self.seen += 1
            kept = self.seen % self.every == 0 or index.size == 0
            slots.append(
                (index.size if index.size < index.capacity else self.random.below(index.capacity)) if kept else -1
            )
            if kept:
                index.put(slots[-1], label)
        return slots

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


class Newest:
    """A retrieval that keeps the index it was started with."""

    def fresh(self):
        return Newest()

    def start(self, source, index):
        self.index, self.source = index, source
        self.turn = 0

    def draw(self, n, index, score):
        assert index is self.index
        self.turn += 1
        order = np.argsort(-index.stamps[: index.size])
        return np.roll(order, self.turn)[:n].tolist()

    def state_dict(self):
        return {"turn": self.turn}

    def load_state_dict(self, state):
        self.turn = state["turn"]


class Learner(torch.nn.Module):
    """A module that holds a buffer, twice, and a memory."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.buffer = self.rehearsal = buffer
        self.memory = Memory(9, retrieval="rpr+pass", seed=2)
        self.memory.store([1, 2, 3])


class Draws(Dataset[Any]):
    """A data set whose examples are what its buffer and its memory draw next."""

    def __init__(self, buffer: ReplayBuffer, memory: Memory) -> None:
        self.buffer, self.memory = buffer, memory

    def __len__(self) -> int:
        return 6

    def __getitem__(self, place: int) -> list[Any]:
        replay = self.buffer.draw(3)
        self.buffer.store(replay.x + 1, replay.y)
        self.memory.store([place])
        return [replay.slots.tolist(), replay.x.tolist(), self.memory.draw(2).slots.tolist()]
