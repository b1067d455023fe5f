"""Initial weights that depend on a seed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from reprise.core.rng import Random
from reprise.nets.heads import CosineHead

N = TypeVar("N", bound=nn.Module)


def filled(make: Callable[[], N], random: Random) -> N:
    """What `make` makes, on the CPU, with weights from `random`; torch's generator is neither read nor moved."""
    with torch.device("meta"):  # without memory, so that torch draws no weights of its own
        net = make()
    net.to_empty(device="cpu")
    fill(net, random)
    return net


@torch.no_grad()
def fill(net: nn.Module, random: Random) -> None:
    """Give convolutions, heads and BatchNorm torch's default law: uniform on ±1/√(inputs of one output); 1 and 0."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif isinstance(module, (nn.Conv2d, nn.Linear, CosineHead)):
            limit = module.weight[0].numel() ** -0.5
            for parameter in module.parameters():
                drawn = (2 * random.fractions(parameter.numel()) - 1) * limit
                parameter.copy_(torch.from_numpy(drawn).view(parameter.shape))
