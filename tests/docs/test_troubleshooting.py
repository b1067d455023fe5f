"""The page about errors quotes messages as they are today."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import reprise
from reprise.buffer import buffer as buffer_module
from reprise.cli import main
from reprise.core.extras import not_installed
from reprise.core.workers import _GUARD
from reprise.runs.errors import diverged

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
QUOTED = re.findall(r"^```message\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
LABELS = [0, 1, 2] * 4


def stored() -> reprise.ReplayBuffer:
    buffer = reprise.ReplayBuffer(8)
    buffer.store(torch.zeros(2, 3), [0, 1])
    return buffer


def tape() -> reprise.Tape:
    return reprise.plan(LABELS, reprise.Memory(4), batch=2)


def with_targets(targets: list[int]) -> Any:
    images = TensorDataset(torch.zeros(len(targets), 1))
    images.targets = targets
    return images


def in_a_worker() -> None:
    buffer = stored()
    buffer._alone.add(0)  # it has drawn once before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_module, "get_worker_info", lambda: type("Info", (), {"id": 0}))
        buffer.draw(1)


CALLS: list[Callable[[], object]] = [
    lambda: reprise.Memory(8, retrieval="rrp"),
    lambda: reprise.Memory(8, retrieval="reused"),
    lambda: reprise.TapeDataset(with_targets([0] * 5), tape()),
    lambda: reprise.TapeDataset(with_targets([0] * 12), tape()),
    lambda: reprise.Memory(8).store([0.5]),
    lambda: reprise.Memory(8).store([-1]),
    lambda: stored().store(torch.zeros(2, 4), [0, 1]),
    lambda: reprise.ReplayBuffer(8).store(["a film", "a hotel"], [0, 1]),
    lambda: stored().store(torch.zeros(2, 3), [0, 1], logits=torch.zeros(2, 2)),
    lambda: reprise.Memory(8).draw(2, score=lambda slots: slots),
    lambda: reprise.Memory(9).load_state_dict(reprise.Memory(8).state_dict()),
    lambda: reprise.plan(LABELS, reprise.Memory(8, retrieval="mir:20")),
    lambda: next(iter(DataLoader(reprise.TapeDataset(with_targets(LABELS), tape())))),
    in_a_worker,
]
COMMANDS = [
    "train --dataset glyphs --backbone vit_tiny --device cpu",
    "train --retreival rpr",
    "train --dataset cifar100",
    "train --dataset glyphs --device cuda",
    "runs list nowhere",
]
SENTENCES = [  # what cannot be provoked quickly
    not_installed("reprise.ReplayBuffer needs torch", "train"),
    _GUARD,
    str(diverged("the loss of step 8 of 70 is nan", 3.0)),
]


def plain(message: str) -> str:
    """A message without what differs with the plugins and policies that other tests register."""
    return re.sub(r"Known: .*", "Known:", " ".join(message.split()))


def test_every_quoted_message_is_said_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setitem(sys.modules, "timm", None)
    said = [*SENTENCES]
    tape().save("x.tape")
    content = bytearray(Path("x.tape").read_bytes())
    content[-1] ^= 1
    Path("x.tape").write_bytes(content)
    for call in [*CALLS, lambda: reprise.Tape.load("x.tape")]:
        with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
            call()
        said.append(str(caught.value))
    for command in COMMANDS:
        assert main(command.split()) == 2
        said.append(capsys.readouterr().err.splitlines()[-1].removeprefix("reprise: "))
    assert sorted(map(plain, QUOTED)) == sorted(map(plain, said))
