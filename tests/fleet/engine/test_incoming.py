"""The first pass of stacked networks, of the incoming batches alone, against each network by itself."""

from __future__ import annotations

import copy
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.engine.stacked import DEVICE, make_stack, network, noise, set_tiles

from reprise.fleet.engine.branches import Branches
from reprise.fleet.engine.incoming import Incoming

SIDE, SIZES = 8, (4, 2)
REAL = ((4, 2), (3, 0), (0, 0))  # full; short, with nothing stored; at rest


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def parameters(net: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def made(width=4, precision="fp32"):
    """Three networks, the state of each before, and what computes their incoming batches."""
    own = [network(width=width, seed=run) for run in range(len(REAL))]
    counts = torch.tensor(REAL, dtype=torch.int32, device=DEVICE)
    stack = make_stack(own, SIZES, counts, (SIDE, SIDE), precision)
    return own, copy.deepcopy(own), stack, Incoming(own, stack, Branches(len(own), DEVICE))


@pytest.mark.parametrize("parts", [1, 8], ids=["one part", "some parts"])
def test_gradients_are_those_of_the_real_images_in_the_parameters_order(parts, monkeypatch):
    if DEVICE.type == "cpu":
        set_tiles(monkeypatch, 64, 16, 16, parts=parts, chunk=2)
    own, plain, stack, incoming = made()
    assert (max(count for _, count in incoming.parts.values()) > 1) == (DEVICE.type == "cuda" or parts > 1)
    before = stack.rows.clone()
    x, labels = noise(len(REAL), sum(SIZES), SIDE, SIDE, 3, seed=3), torch.arange(4, device=DEVICE)
    incoming.forward(x)
    for run, (real, _) in enumerate(REAL):
        logits = incoming.networks[run](x[run, :4].permute(0, 3, 1, 2))
        loss = F.cross_entropy(logits[:real], labels[:real], reduction="sum")
        incoming.take(run, torch.autograd.grad(loss, incoming.wanted(run)))
    incoming.backward()
    found = incoming.gradients()
    assert found.stride(0) % 64 == 0  # every row begins where a wide load may
    for run, (real, _) in enumerate(REAL[:2]):
        logits = plain[run](x[run, :real].permute(0, 3, 1, 2))
        loss = F.cross_entropy(logits, labels[:real], reduction="sum")
        wanted = torch.autograd.grad(loss, list(plain[run].parameters()))
        sizes = [one.numel() for one in wanted]
        for mine, theirs in zip(torch.split(found[run], sizes), wanted, strict=True):
            assert (mine - theirs.flatten()).norm() < 1e-3 * theirs.norm().clamp(min=1e-6)
    assert torch.equal(stack.rows, before)  # running statistics as well
    assert [parameters(net).numel() for net in incoming.networks] == [found.shape[1]] * len(own)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_move_is_added_to_the_weights_of_its_run_and_their_copies(precision):
    own, plain, stack, incoming = made(precision=precision)
    incoming.stack.counts.copy_(stack.counts[:, :1])  # as the pass does
    moves = noise(len(REAL), incoming.numbers, seed=5)
    before, copies = stack.rows.clone(), None if stack.half is None else stack.half.clone()
    for run in (0, 2):
        incoming.add(run, moves[run])
    incoming.changed()
    assert torch.equal(parameters(own[0]), parameters(plain[0]) + moves[0])
    for run in (1, 2):  # the one was not moved, the other rests
        assert torch.equal(stack.rows[run], before[run])
    layout = stack.layout
    assert torch.equal(stack.rows[0, layout.weights :], before[0, layout.weights :])
    between = torch.ones_like(stack.rows[0], dtype=torch.bool)
    for span in layout.spans.values():
        between[span.start : span.end] = False
    assert not stack.rows[0, between].any()
    weights = stack.rows[:, : layout.copied]
    if stack.half is not None:
        assert ((stack.half[0] - weights[0]).abs() <= 2**-7 * weights[0].abs()).all()
        assert torch.equal(stack.half[1:], copies[1:])
        assert not torch.equal(stack.half[0], before[0, : layout.copied].to(torch.bfloat16))
    if stack.turned is not None:
        turned = stack.turned.clone()
        stack.turn()
        assert torch.equal(stack.turned, turned)
