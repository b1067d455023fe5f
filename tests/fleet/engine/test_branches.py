"""Branches wait for what comes before them, and what comes after them waits for all; no GPU is needed to see it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from reprise.fleet.engine.branches import Branches


class Stream:
    """Stands in for a stream of a GPU, and notes whom it waits for."""

    made: list[Stream]
    said: list[str]

    def __init__(self, device: torch.device) -> None:
        self.name = f"branch {len(Stream.made) + 1}"
        Stream.made.append(self)

    def wait_stream(self, other: Stream) -> None:
        Stream.said.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    Stream.made, Stream.said = [], []
    own = Stream.__new__(Stream)
    own.name = "the lane"

    @contextmanager
    def within(stream: Stream | None):  # type: ignore[no-untyped-def]
        Stream.said.append(f"in {own.name if stream is None else stream.name}")
        yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", within)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: own)


@pytest.mark.usefixtures("streams")
def test_branches_begin_together_and_are_waited_for() -> None:
    Branches(3, torch.device("cuda")).each(lambda run: Stream.said.append(f"run {run}"))
    assert Stream.said == [
        *("branch 1 waits for the lane", "branch 2 waits for the lane"),
        *("in the lane", "run 0", "in branch 1", "run 1", "in branch 2", "run 2"),
        *("the lane waits for branch 1", "the lane waits for branch 2"),
    ]


def test_without_a_gpu_runs_come_one_after_the_other() -> None:
    done: list[int] = []
    Branches(3, torch.device("cpu")).each(done.append)
    assert done == [0, 1, 2]
