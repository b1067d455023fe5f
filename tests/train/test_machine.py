"""The machine that a run is made on."""

from __future__ import annotations

import pytest
import torch
from train.tinyruns import config, images

from reprise.runs import Run
from reprise.runs.settings import PRECISIONS
from reprise.train import Training
from reprise.train.evaluate import forward_precision
from reprise.train.machine import computes_bf16


def test_a_gpu_that_is_not_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="device 'cuda' was asked for, but torch finds no GPU here"):
        Training(config(), images(), "cuda")


def test_a_device_of_no_known_name_is_a_sentence():
    with pytest.raises(ValueError, match="there is no device 'gpu'; 'cpu' and 'cuda' are known"):
        Training(config(), images(), "gpu")


@pytest.mark.parametrize(
    ("machine", "instructions", "has", "bf16"),
    [
        ("x86_64", "AVX512", True, True),
        ("x86_64", "AVX512", False, False),
        ("x86_64", "AVX2", True, False),  # torch was told to do without
        ("AMD64", "DEFAULT", False, False),
        ("arm64", "DEFAULT", False, True),
    ],
)
def test_bf16_is_single_precision_where_a_cpu_has_no_instructions_for_it(machine, instructions, has, bf16, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: instructions)
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": has}, raising=False)
    monkeypatch.setattr("reprise.train.evaluate.computes_bf16", computes_bf16.__wrapped__)
    device = torch.device("cpu")
    for precision in PRECISIONS:
        with forward_precision(precision, device):
            assert torch.is_autocast_enabled("cpu") == (bf16 and precision == "bf16")
    assert computes_bf16.__wrapped__("cuda")


def test_an_audit_is_not_trained():
    with pytest.raises(ValueError, match="without a learner there is nothing to train"):
        Training(Run.of(learner=None, dataset="tiny"), images())
