"""Networks by name, with initial weights that depend on the seed alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Protocol

import torch
from torch import nn

from reprise.core.registry import Registered, register
from reprise.core.rng import Random
from reprise.nets.heads import CosineHead
from reprise.nets.network import Network
from reprise.nets.resnet import ResNet18
from reprise.nets.vit import TimmNetwork, seeded


class Builder(Protocol):
    """What makes a network of one name; `@register("network", name)` lets it be built by that name.

    Initial weights must depend on the seed alone. While a builder works, torch's generator is seeded by it, and is put
    back afterwards, so that layers made the usual way are in order. `random` is a stream of the same seed, for weights
    that are to be the same on every machine and under every torch, too: `fill(net, random)` draws them.
    """

    def __call__(self, classes: int, *, head: str, width: int, random: Random, pretrained: bool) -> Network: ...


NETWORKS: Mapping[str, Builder] = Registered("network")
"""All builders by name: ours, and whatever else has been registered."""


def build(
    backbone: str = "resnet18",
    *,
    classes: int,
    head: str = "cosine",
    width: int = 64,
    seed: int = 0,
    pretrained: bool = False,
) -> Network:
    """A network on the CPU whose initial weights are the same for every arm of one seed.

    `backbone` is 'resnet18', a name that somebody has registered, or any name timm knows; `head` is 'cosine' or
    'linear'; `width` is the ResNet's. Torch's global generator is neither read nor moved. A ResNet's weights are the
    same on every machine and under every torch, and those below the head are the same whatever the head and the number
    of classes.

    >>> net = build("resnet18", classes=100, width=8, seed=0)
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    random = Random(seed, "initial weights")
    if not from_timm(backbone):
        make = NETWORKS[backbone]
        # Ours draws nothing from torch's generator, which another thread may be using meanwhile.
        with nullcontext() if make is _resnet18 else seeded(Random(seed, "torch's initial weights")):
            net = make(classes, head=head, width=width, random=random, pretrained=pretrained)
        if not isinstance(net, Network):
            raise TypeError(f"the builder of {backbone!r} must give a reprise.nets.Network, got {type(net).__name__}")
        return net
    if width != 64:
        raise ValueError(f"width is for 'resnet18'; the backbone {backbone!r} has its own, got width={width!r}")
    return TimmNetwork(backbone, classes, head, random=random, pretrained=pretrained)


def from_timm(backbone: str) -> bool:
    """Whether a name means a network of timm's: every name does that nobody has registered."""
    return backbone not in NETWORKS


@register("network", "resnet18")
def _resnet18(classes: int, *, head: str, width: int, random: Random, pretrained: bool) -> ResNet18:
    if pretrained:
        raise ValueError("no weights are published for this 'resnet18': give your own to reprise.nets.load_checkpoint")
    with torch.device("meta"):  # without memory, so that torch draws no weights of its own
        net = ResNet18(classes, head, width)
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
