"""Stopped and going on: the rest is what it would have been, by `start` and by a state."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loader.made import Named, ids, tape_of, tapes
from torch.utils.data import DataLoader

from reprise import Tape, TapeBatchSampler, TapeDataset


@given(tapes(least=3), st.integers(1, 3), st.data())
def test_a_sampler_goes_on_where_its_state_stood(tape: Tape, world: int, data: Any) -> None:
    rank = data.draw(st.integers(0, world - 1))
    start, stop = sorted(data.draw(st.integers(0, len(tape))) for _ in range(2))
    sampler = TapeBatchSampler(tape, start=start, rank=rank, world_size=world)
    whole = list(sampler)
    batches = iter(sampler)
    head = [next(batches) for _ in range(stop - start)]
    state = json.loads(json.dumps(batches.state_dict()))
    again = iter(TapeBatchSampler(tape, start=data.draw(st.integers(0, len(tape))), rank=rank, world_size=world))
    again.load_state_dict(state)
    assert head + list(again) == whole
    assert list(TapeBatchSampler(tape, start=stop, rank=rank, world_size=world)) == whole[stop - start :]
    assert batches.state_dict() == state
    assert list(batches) == whole[stop - start :]
    # Steps are shared among however many processes go on.
    others = [iter(TapeBatchSampler(tape, rank=one, world_size=2)) for one in range(2)]
    for other in others:
        other.load_state_dict(state)
    rest = [sorted(pair[0] + pair[1]) for pair in zip(*others, strict=True)]
    assert rest == [sorted(step.ids.tolist()) for step in tape[stop:]]


@given(tapes(), st.data())
def test_a_data_set_of_steps_begins_anywhere(tape: Tape, data: Any) -> None:
    stop = data.draw(st.integers(0, len(tape)))
    dataset = Named(len(tape.labels))
    whole = [[ids(part) for part in batch] for batch in TapeDataset(dataset, tape)]
    rest = TapeDataset(dataset, tape, start=stop)
    assert [[ids(part) for part in batch] for batch in rest] == whole[stop:]
    assert [batch.step.number for batch in rest] == list(range(stop, len(tape)))


def test_states_that_are_not_of_this_tape() -> None:
    tape, other = tape_of(), tape_of(seed=1)
    state = iter(TapeBatchSampler(other)).state_dict()
    batches = iter(TapeBatchSampler(tape))
    next(batches)
    for load in (batches.load_state_dict, TapeDataset(Named(60), tape).load_state_dict):
        with pytest.raises(
            ValueError, match=f"the state is of the tape {other.hash[:12]}…, and this is {tape.hash[:12]}"
        ):
            load(state)
        for wrong in ({}, {"step": 3}, {**state, "version": 2}, None):
            with pytest.raises(ValueError, match="this is not the state of a tape that is played"):
                load(wrong)
    with pytest.raises(ValueError, match="start must be 0 to 9"):
        batches.load_state_dict({**batches.state_dict(), "step": 10})
    assert next(batches) == tape[1].ids.tolist(), "a state that was refused changed something"


class Loader:
    """What torchdata's StatefulDataLoader does with a batch sampler, without its workers: it asks ahead of the loop."""

    def __init__(self, dataset: Any, sampler: TapeBatchSampler, ahead: int, state: Any = None) -> None:
        self.dataset, self.sampler, self.ahead = dataset, sampler, ahead
        self.batches = iter(sampler)  # before a state is loaded, as there
        if state is not None:
            self.batches = iter(sampler)
            self.batches.load_state_dict(state)
        self.state = self.batches.state_dict()

    def __iter__(self) -> Iterator[list[int]]:
        asked: list[tuple[list[int], Any]] = []
        while True:
            while len(asked) <= self.ahead:
                try:
                    asked.append((next(self.batches), self.batches.state_dict()))
                except StopIteration:
                    break
            if not asked:
                return
            batch, self.state = asked.pop(0)
            yield [self.dataset[one][1] for one in batch]


@pytest.mark.parametrize("ahead", [0, 1, 5])
@pytest.mark.parametrize("stop", [0, 1, 6, 9])
def test_a_loader_that_asks_ahead_keeps_the_state_of_what_it_yielded(ahead: int, stop: int) -> None:
    tape = tape_of()
    whole = [step.ids.tolist() for step in tape]
    loader = Loader(Named(60), TapeBatchSampler(tape), ahead)
    head = [batch for _, batch in zip(range(stop), loader, strict=False)]
    rest = Loader(Named(60), TapeBatchSampler(tape), ahead, loader.state)
    assert head + list(rest) == whole


# Killed -----------------------------------------------------------------------------------------------------------


def train(path: Path, die: int = -1) -> None:
    """Train from where a checkpoint stands, with a checkpoint after every step; killed when this step has come."""
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 60)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    start = 0
    if path.exists():
        saved = torch.load(path)
        start = saved["step"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    steps = TapeDataset(Named(60), tape_of(), start=start)
    for batch in DataLoader(steps, batch_size=None, num_workers=2):
        if batch.step.number == die:
            os.kill(os.getpid(), signal.SIGKILL)
        parts = [part for part in batch if part is not None]
        loss = sum(torch.nn.functional.cross_entropy(model(x.flatten(1) / 60), y) for x, y in parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = {"step": batch.step.number + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    train(tmp_path / "whole.pt")
    for die in (3, 7):
        if not (child := os.fork()):
            train(tmp_path / "broken.pt", die)
            os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert torch.load(tmp_path / "broken.pt")["step"] == die
    train(tmp_path / "broken.pt")
    whole, broken = (torch.load(tmp_path / name) for name in ("whole.pt", "broken.pt"))
    assert whole["step"] == broken["step"] == 9
    assert all(torch.equal(whole["model"][name], broken["model"][name]) for name in whole["model"])


def test_a_plain_loader_goes_on_by_start() -> None:
    tape = tape_of()
    whole = [ids(batch) for batch in DataLoader(Named(60), batch_sampler=TapeBatchSampler(tape))]
    rest = [ids(batch) for batch in DataLoader(Named(60), batch_sampler=TapeBatchSampler(tape, start=4))]
    assert rest == whole[4:]
