"""What policies are told of the network: MIR's score for retrieval, features or gradients for storage.

MIR's score is how much the loss of a stored example would rise if the network learnt what comes in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from reprise.learners import Batch, Learner, Step
from reprise.learners.losses import cross_entropy
from reprise.nets import Network
from reprise.runs.settings import SCORING, VIRTUAL_LOSSES

CHUNK = 1024
"""Candidates at once in evaluation mode."""


def interference(
    learner: Learner, step: Step, candidates: Batch, *, lr: float, loss: str = "plain", mode: str = "train"
) -> Tensor:
    """For each candidate, its cross-entropy after a virtual step minus that before; both over all classes.

    The virtual step is plain SGD, θ − lr·∇, in training mode. `loss` says of what: `plain` is the cross-entropy of the
    incoming batch over all classes; `own` is the learner's loss of a step that replays nothing.

    `mode` is how BatchNorm behaves while candidates are scored. In `train` it goes by the statistics of the candidates
    themselves, so they are one batch, whatever their number. In `eval` it goes by the running statistics, which the
    virtual step does not move.

    Nothing of the learner moves, and it is not copied: only its buffers are, and the stepped parameters are made. The
    step is this process's own: in data-parallel training it knows only a part of the incoming batch.
    """
    if loss not in VIRTUAL_LOSSES:
        raise ValueError(f"a virtual loss is one of {', '.join(VIRTUAL_LOSSES)}, got {loss!r}")
    if mode not in SCORING:
        raise ValueError(f"a scoring mode is one of {', '.join(SCORING)}, got {mode!r}")
    if not 0 < lr < float("inf"):
        raise ValueError(f"the virtual step's lr must be a number above 0, got {lr!r}")
    now = {name: weight.detach() for name, weight in learner.net.named_parameters()}
    then = _stepped(learner, step, now, lr, loss)
    with torch.no_grad():
        return _losses(learner.net, then, candidates, mode) - _losses(learner.net, now, candidates, mode)


@torch.no_grad()
def describe(net: Network, batch: Batch, kind: str) -> Tensor:
    """One row of numbers for each example, in evaluation mode, so that it depends on nothing but the example.

    `features` are those that the head sees. `gradients` are those of the example's cross-entropy over all classes with
    respect to the head's parameters, end to end.
    """
    with _training(net, False):
        features = torch.cat([net.features(x).float() for x in torch.split(batch.x, CHUNK)])
    if kind == "features":
        return features

    def loss(parameters: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net.fc, parameters, (row[None],)).float(), label[None])

    now = {name: parameter.detach() for name, parameter in net.fc.named_parameters()}
    found: dict[str, Tensor] = vmap(grad(loss), (None, 0, 0))(now, features, batch.y)
    return torch.cat([rows.flatten(1) for rows in found.values()], 1)


def _stepped(learner: Learner, step: Step, now: Mapping[str, Tensor], lr: float, loss: str) -> dict[str, Tensor]:
    """The network's parameters after the virtual step."""
    live = {name for name, weight in learner.net.named_parameters() if weight.requires_grad}
    with torch.enable_grad(), _training(learner, True):
        # Of one storage with the learner's, but leaves of a graph of their own: no .grad is written.
        leaves = {name: weight.detach().requires_grad_(name in live) for name, weight in now.items()}
        inside = {f"net.{name}": weight for name, weight in leaves.items()} | _clones(learner)
        if loss == "own":
            value = functional_call(learner, inside, (dataclasses.replace(step, replay=()),)).loss
        else:
            logits = functional_call(learner.net, leaves | _clones(learner.net), (step.incoming.x,)).float()
            value = cross_entropy(logits, step.incoming)
        slopes = torch.autograd.grad(value, [leaves[name] for name in sorted(live)], allow_unused=True)
    moves = {name: slope for name, slope in zip(sorted(live), slopes, strict=True) if slope is not None}
    return {name: weight - lr * moves[name] if name in moves else weight for name, weight in now.items()}


def _losses(net: nn.Module, weights: Mapping[str, Tensor], candidates: Batch, mode: str) -> Tensor:
    """One plain cross-entropy per candidate, with these weights in the place of the network's."""
    buffers = _clones(net) if mode == "train" else {}  # in evaluation mode nothing is written
    size = max(1, len(candidates.x)) if mode == "train" else CHUNK
    with _training(net, mode == "train"):
        parts = [functional_call(net, {**weights, **buffers}, (x,)).float() for x in torch.split(candidates.x, size)]
    return F.cross_entropy(torch.cat(parts), candidates.y, reduction="none")


def _clones(module: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


@contextmanager
def _training(module: nn.Module, training: bool) -> Iterator[None]:
    """All parts in training or evaluation mode, and afterwards each as it was."""
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, was in before:
            part.training = was
