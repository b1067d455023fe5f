"""What the tests of this room share: tapes, data sets whose examples say who they are, and ways to look at batches.

Data sets have a module of their own, as a process that is spawned must be able to import them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from memory.sampling import RETRIEVALS, STORAGES
from torch.utils.data import Dataset

from reprise import Memory, Tape, TapeStep, plan, streams


class Pair(NamedTuple):
    first: Any
    second: Any


class Named(Dataset[Any]):
    """Examples of several fields, each of which says whose it is."""

    def __init__(self, count: int, form: str = "tuple") -> None:
        self.count, self.form = count, form

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, example: int) -> Any:
        if not 0 <= example < self.count:
            raise IndexError(example)
        x, y = torch.full((2, 3), float(example)), example
        if self.form == "tensor":
            return x
        if self.form == "dict":
            return {"x": x, "meta": {"id": y, "pair": Pair(y, x)}, "name": f"n{example}"}
        if self.form == "nested":
            return Pair([x, {"id": y}], (y, f"n{example}"))
        return x, y


class Whole(Named):
    """A data set that fetches many examples at once, and by no other way."""

    def __getitem__(self, example: int) -> Any:
        raise AssertionError("one example was asked for by itself")

    def __getitems__(self, examples: list[int]) -> list[Any]:
        return [super(Whole, self).__getitem__(example) for example in examples]


def ids(part: Any) -> list[int]:
    """Who is in a batch, all its fields being of one mind."""
    if part is None:
        return []
    leaves: list[list[int]] = []

    def look(nested: Any) -> None:
        if isinstance(nested, torch.Tensor):
            rows = nested.reshape(len(nested), -1)
            assert (rows == rows[:, :1]).all()
            leaves.append(rows[:, 0].long().tolist())
        elif isinstance(nested, dict):
            for value in nested.values():
                look(value)
        elif nested and isinstance(nested[0], str):
            leaves.append([int(name[1:]) for name in nested])
        else:
            for value in nested:
                look(value)

    look(part)
    assert all(leaf == leaves[0] for leaf in leaves)
    return leaves[0]


def parts(step: TapeStep) -> list[list[int]]:
    """Who is in each part of a step."""
    return [row.tolist() for row in (step.incoming, *step.replay)]


def tape_of(count: int = 60, batch: int = 7, replay: int = 4, draws: int = 2, seed: int = 0, **memory: Any) -> Tape:
    """A tape of a stream of six classes."""
    stream = streams.from_labels(torch.arange(count).numpy() % 6, seed, tasks=3, batch=batch)
    return plan(stream, Memory(12, seed=seed, draws=draws, **memory), replay)


@st.composite
def tapes(draw: st.DrawFn, least: int = 0) -> Tape:
    """Tapes of any small stream, storage and retrieval; at least so many examples arrive at every step."""
    labels = draw(st.lists(st.sampled_from(["cat", "dog", "eel", "fox"]), min_size=4, max_size=40))
    batches = st.lists(st.lists(st.integers(0, len(labels) - 1), min_size=least, max_size=5), max_size=9)
    memory = Memory(
        draw(st.integers(1, 9)),
        draw(st.sampled_from(STORAGES)),
        draw(st.sampled_from(RETRIEVALS)),
        seed=draw(st.integers(0, 9)),
        draws=draw(st.integers(1, 3)),
    )
    return plan(streams.from_batches(draw(batches), labels), memory, draw(st.integers(0, 4)))
