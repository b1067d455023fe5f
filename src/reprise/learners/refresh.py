"""DER++/Refresh: before each step a small move that unlearns the incoming batch, then the step of DER++."""

from __future__ import annotations

import torch
from torch import Tensor

from reprise.core.arguments import as_float, as_int
from reprise.core.registry import register
from reprise.core.rng import Random
from reprise.learners.derpp import DERpp
from reprise.learners.learner import Batch, Descent, LearnerContext
from reprise.learners.losses import cross_entropy
from reprise.learners.noise import standard_normal, word
from reprise.nets import Network

_TINY = 1e-20  # keeps a tensor without gradient where it is, but for the noise


@register("learner", "refresh")
class Refresh(DERpp):
    """DER++'s loss, after θ += δ/(1 + γF) · (‖θ‖/‖D‖ · D + σ·ξ) for every parameter tensor θ.

    D is the gradient of CE(incoming), so the move goes uphill; ξ is standard normal noise; F is a running Fisher
    information, one number per weight. `unlearn` is δ, `damping` γ, `noise` σ. F is refreshed whenever
    `fisher_every` examples have come in since the last time, and needs no task:
    F ← fisher_decay · F + (1 − fisher_decay) · Σ|A|²D² / Σ|A|, the sums over the batches A since then.
    """

    parallel = False  # D is taken here, of the batch that this process sees
    moves_first = True
    descent = Descent(weight_decay=1e-4)
    fisher: Tensor  # F of all parameters, end to end
    gathered: Tensor  # Σ|A|²D² since the last refresh
    since: Tensor  # Σ|A|
    key: Tensor  # of the run's noise
    moves: Tensor  # made so far

    def __init__(
        self,
        net: Network,
        setting: LearnerContext,
        *,
        alpha: float = 0.1,
        beta: float = 0.5,
        unlearn: float = 1e-5,
        damping: float = 1e-3,
        noise: float = 1e-3,
        fisher_every: int = 1000,
        fisher_decay: float = 0.9,
    ) -> None:
        super().__init__(net, setting, alpha=alpha, beta=beta)
        self.unlearn = as_float(unlearn, "unlearn", 0)
        self.damping = as_float(damping, "damping", 0)
        self.noise = as_float(noise, "noise", 0)
        self.fisher_every = as_int(fisher_every, "fisher_every", 1)
        self.fisher_decay = as_float(fisher_decay, "fisher_decay", 0)
        if self.fisher_decay >= 1:
            raise ValueError(f"fisher_decay must be below 1, or nothing is ever learnt, got {self.fisher_decay}")
        weights = sum(parameter.numel() for parameter in net.parameters())
        self.register_buffer("fisher", torch.zeros(weights))
        self.register_buffer("gathered", torch.zeros(weights))
        for name in ("since", "key", "moves"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))
        self.restart(setting.seed)

    def restart(self, seed: int) -> None:
        super().restart(seed)
        self.key.fill_(Random(seed, "refresh noise").word() - (1 << 63))

    def first_loss(self, logits: Tensor, incoming: Batch) -> Tensor:
        return cross_entropy(logits, incoming)

    def first_move(self, gradient: Tensor, incoming: Batch) -> Tensor:
        move = self._move(gradient)
        self._watch(gradient, incoming)
        return move

    def _move(self, gradient: Tensor) -> Tensor:
        # A row is as long as the network: whatever can be is computed in place.
        xi = standard_normal(word(self.key, self.moves), len(gradient))
        self.moves.add_(1)
        parameters = list(self.net.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        uphill = torch.split(gradient, sizes)
        lengths, slopes = (torch.stack(torch._foreach_norm(list(tensors))) for tensors in (parameters, uphill))
        scales = lengths / (slopes + _TINY)
        move = torch.cat([scale.expand(size) for scale, size in zip(scales, sizes, strict=True)])
        move.mul_(gradient).add_(xi.mul_(self.noise))
        rate = (self.damping * self.fisher).add_(1).reciprocal_().mul_(self.unlearn)
        return move.mul_(rate)

    def _watch(self, gradient: Tensor, incoming: Batch) -> None:
        # The count and the question whether a refresh is due stay on the device, and are saved with all else.
        size = incoming.weight.count_nonzero()  # of which padding is no part
        self.gathered.add_(gradient.mul_(size).square_())
        self.since.add_(size)
        due = self.since >= self.fisher_every
        self.fisher.lerp_(self.gathered / self.since, due * (1 - self.fisher_decay))
        self.gathered.mul_(~due)
        self.since.mul_(~due)
