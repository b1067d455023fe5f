"""Two processes of a Trainer (gloo, on the CPU): one memory, one tape, every batch shared out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reprise

pytest.importorskip("transformers", reason="needs transformers: make integrations")
pytest.importorskip("datasets", reason="needs datasets: make integrations")
SCRIPT = Path(__file__).with_name("huggingface_ranks.py")
COUNT, BATCH, SIZE, CAPACITY = 96, 8, 4, 30
WAYS = ["live", "split", "dispatched", "tape"]
TAPE = reprise.plan([place * 6 // COUNT for place in range(COUNT)], reprise.Memory(CAPACITY, seed=3), SIZE, batch=BATCH)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder)],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    for process in started:
        printed, _ = process.communicate(timeout=300)
        assert process.returncode == 0, printed
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("way", WAYS)
def test_both_processes_play_one_tape(way: str, told: list[dict[str, Any]]) -> None:
    assert told[0][way]["hash"] == told[1][way]["hash"]
    assert told[0][way]["violations"] == told[1][way]["violations"] == 0
    assert told[0][way]["weights"] == told[1][way]["weights"]


@pytest.mark.parametrize("way", WAYS)
def test_every_batch_is_shared_out(way: str, told: list[dict[str, Any]]) -> None:
    """All examples of a step, each once; Accelerate gives a process the half of what arrives, a tape every second."""
    together = zip(told[0][way]["seen"], told[1][way]["seen"], strict=True)
    assert [sorted(one + other) for one, other in together] == [sorted(step.ids.tolist()) for step in TAPE]
    for rank in range(2):
        drawn = [row[BATCH // 2 :] for row in told[rank][way]["seen"]]
        assert drawn == [step.part(rank, 2).replayed.tolist() for step in TAPE]
    if way == "tape":
        for rank in range(2):
            assert told[rank][way]["seen"] == [step.part(rank, 2).ids.tolist() for step in TAPE]


def test_going_on_where_accelerate_would_repeat_examples_is_refused(told: list[dict[str, Any]]) -> None:
    assert all("goes on at an earlier example" in one["dispatched"]["refused"] for one in told)
