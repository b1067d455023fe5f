"""The averaged read-out: what is evaluated beside the live network, and never trained."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from reprise.nets import Network


class Readout:
    """An exponential moving average of a network's parameters and BatchNorm statistics.

    After a step that brought n examples: average += (n / horizon) · (network − average). So a step's weight depends
    on how many examples it brought, not on how many were replayed. Whole numbers are copied.
    """

    def __init__(self, net: Network, horizon: int = 1024) -> None:
        self.net: Network = copy.deepcopy(net).requires_grad_(False).eval()
        self.horizon = horizon

    @torch.no_grad()
    def update(self, net: nn.Module, examples: int) -> None:
        """Move towards the network as it is now."""
        mine, theirs = _state(self.net), _state(net)
        floats = [place for place, tensor in enumerate(mine) if tensor.is_floating_point()]
        torch._foreach_lerp_(
            [mine[place] for place in floats],
            [theirs[place] for place in floats],
            weight=min(examples / self.horizon, 1.0),
        )
        for here, there in zip(mine, theirs, strict=True):
            if not here.is_floating_point():
                here.copy_(there)


def _state(net: nn.Module) -> list[Tensor]:
    return [*net.parameters(), *net.buffers()]
