"""A batch sampler of a tape: flat batches in the planned order, taken apart again whatever their structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loader.made import Named, Pair, Whole, ids, parts, tape_of, tapes
from torch.utils.data import DataLoader

from reprise import Memory, Tape, TapeBatchSampler, plan, split_batch, streams
from reprise.train.ranks import Ranks

FORMS = ["tuple", "tensor", "dict", "nested"]


@given(tapes(least=1), st.sampled_from(FORMS), st.sampled_from([Named, Whole]), st.data())
def test_batches_split_into_what_the_tape_says(tape: Tape, form: str, kind: Any, data: Any) -> None:
    start = data.draw(st.integers(0, len(tape)))
    dataset = kind(len(tape.labels), form)
    sampler = TapeBatchSampler(tape, dataset, start=start)
    assert len(sampler) == len(tape) - start
    assert list(sampler) == list(sampler) == [step.ids.tolist() for step in tape[start:]]
    loader = DataLoader(dataset, batch_sampler=sampler)
    seen = [[ids(part) for part in split_batch(batch, step)] for step, batch in zip(sampler.steps, loader, strict=True)]
    assert seen == [parts(step) for step in tape[start:]]


@given(tapes(least=4), st.integers(1, 4))
def test_ranks_share_every_step(tape: Tape, world: int) -> None:
    dataset = Named(len(tape.labels))
    samplers = [TapeBatchSampler(tape, rank=rank, world_size=world) for rank in range(world)]
    shares = []
    for rank, sampler in enumerate(samplers):
        loader = DataLoader(dataset, batch_sampler=sampler)
        share = [
            [ids(part) for part in split_batch(batch, step)] for step, batch in zip(sampler.steps, loader, strict=True)
        ]
        assert share == [parts(step.part(rank, world)) for step in tape]
        shares.append(share)
    for place, step in enumerate(tape):
        for number, whole in enumerate(parts(step)):
            together: list[Any] = [None] * len(whole)
            for rank, share in enumerate(shares):
                together[rank::world] = share[place][number]
            assert together == whole


@given(st.integers(1, 9), st.integers(1, 4))
def test_ranks_share_as_runs_do(count: int, world: int) -> None:
    """`reprise train` in several processes takes the same part of every batch."""
    step = plan([0] * count, Memory(4), 0, batch=count)[0]
    for rank in range(min(count, world)):
        mine, _ = Ranks(rank, world).part(count, torch.device("cpu"))
        assert step.part(rank, world).incoming.tolist() == step.incoming[mine].tolist()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_batches(workers: int) -> None:
    tape = tape_of()
    sampler = TapeBatchSampler(tape)
    loader = DataLoader(Named(60, "nested"), batch_sampler=sampler, num_workers=workers, timeout=120)
    assert len(loader) == len(tape)
    for _ in range(2):
        assert [ids(batch) for batch in loader] == [step.ids.tolist() for step in tape]


def test_a_step_of_no_examples_is_refused_when_it_is_seen() -> None:
    memory = Memory(4, seed=0)
    tape = plan(streams.from_batches([[0], [], [1, 2], [3]], [0, 1, 0, 1]), memory, 1)
    assert [len(batch) for batch in TapeBatchSampler(tape)] == [1, 1, 3, 2]
    for rank, first in ((0, None), (1, 0), (2, 0)):
        if first is None:
            TapeBatchSampler(tape, rank=rank, world_size=3)
            continue
        with pytest.raises(ValueError, match=f"step {first} has no example for rank {rank} of 3, .* TapeDataset"):
            TapeBatchSampler(tape, rank=rank, world_size=3)
    with pytest.raises(ValueError, match=r"step 3 has no example for rank 1 of 3"):
        TapeBatchSampler(tape, rank=1, world_size=3, start=3)
    empty = plan(streams.from_batches([[], [0]], [0]), Memory(4), 1)
    with pytest.raises(ValueError, match="step 0 has no example, and a batch cannot be empty"):
        TapeBatchSampler(empty)
    assert list(TapeBatchSampler(empty, start=1)) == [[0]]


def test_rows_of_anything_are_split_alike() -> None:
    tape = tape_of(draws=2)
    step = tape[2]
    rows = torch.arange(14)
    batch = {
        "x": rows[:, None].expand(14, 5),
        "array": rows.numpy(),
        "names": [f"n{row}" for row in range(14)],
        "pair": Pair(rows, (rows, [rows])),
        "weights": tuple(float(row) for row in range(14)),
        "nothing": [],
    }
    came, first, second = split_batch(batch, step)
    assert step.sizes == (6, 4, 4)
    assert first["x"][:, 0].tolist() == first["array"].tolist() == [6, 7, 8, 9]
    assert first["names"] == ["n6", "n7", "n8", "n9"]
    assert second["weights"] == (10.0, 11.0, 12.0, 13.0)
    assert isinstance(second["pair"], Pair)
    assert second["pair"].second[1][0].tolist() == [10, 11, 12, 13]
    assert came["nothing"] == []
    assert np.shares_memory(came["array"], batch["array"])
    losses, *_ = split_batch(torch.rand(14), step)
    assert len(losses) == 6
    assert split_batch(rows[:7], tape[0])[1:] == (None, None)


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        (torch.zeros(13), ValueError, r"batch has 13 rows, and step 2 has 14 examples; .* TapeDataset"),
        ([torch.zeros(14), {"y": torch.zeros(4)}], ValueError, r"batch\[1\]\['y'\] has 4 rows"),
        ((torch.zeros(14), torch.tensor(3)), ValueError, r"batch\[1\] has 0 rows"),
        ([torch.zeros(14), 3.5], TypeError, r"batch\[1\] is a float, which has no rows to split"),
        ({"a": "text"}, TypeError, r"batch\['a'\] is a str, which has no rows"),
        ((["a"] * 13, torch.zeros(14)), ValueError, r"batch\[0\] has 13 rows"),
        ([torch.zeros(3, 8, 8)] * 14, ValueError, r"batch\[0\] has 3 rows"),
    ],
    ids=str,
)
def test_what_cannot_be_split(batch: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        split_batch(batch, tape_of(draws=2)[2])
