"""Two processes of Lightning (gloo, on the CPU): one memory, one tape, every batch shared out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reprise

pytest.importorskip("lightning.pytorch", reason="needs lightning: make integrations")
SCRIPT = Path(__file__).with_name("lightning_ranks.py")
COUNT, BATCH, SIZE, CAPACITY = 96, 8, 4, 30


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


TAPE = reprise.plan([place * 6 // COUNT for place in range(COUNT)], reprise.Memory(CAPACITY, seed=3), SIZE, batch=BATCH)


@pytest.mark.parametrize("way", ["live", "tape"])
def test_both_processes_play_one_tape(way: str, told: list[dict[str, Any]]) -> None:
    assert told[0][way]["hash"] == told[1][way]["hash"]
    assert told[0][way]["violations"] == told[1][way]["violations"] == 0


@pytest.mark.parametrize("way", ["live", "tape"])
def test_every_batch_is_shared_out_as_planned(way: str, told: list[dict[str, Any]]) -> None:
    """Each process has every second example of what arrives and of what is drawn; live draws are the planned ones."""
    for rank in range(2):
        assert told[rank][way]["seen"] == [step.part(rank, 2).ids.tolist() for step in TAPE]
    together = zip(told[0][way]["seen"], told[1][way]["seen"], strict=True)
    assert [sorted(one + other) for one, other in together] == [sorted(step.ids.tolist()) for step in TAPE]


def test_both_processes_end_with_the_same_weights(told: list[dict[str, Any]]) -> None:
    assert told[0]["live"]["weights"] == told[1]["live"]["weights"]


@pytest.mark.parametrize(("way", "done"), [("within", 5), ("between", 12)])
def test_live_replay_goes_on_from_a_checkpoint(way: str, done: int, told: list[dict[str, Any]]) -> None:
    """Both processes draw, and learn, what they would have without the stop, whatever their seeds were."""
    for whole, rest in (rank[way] for rank in told):
        assert len(whole["seen"]) == 24
        assert rest["seen"] == whole["seen"][done:]
        assert rest["hash"] == whole["hash"] == told[0][way][0]["hash"]
        assert rest["weights"] == whole["weights"]
        assert rest["violations"] == 0
    assert told[0][way][1]["seen"] != told[1][way][1]["seen"]
