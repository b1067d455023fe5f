"""Networks by name, with initial weights that depend on the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Protocol

from reprise.core.arguments import as_float
from reprise.core.registry import Registered, register
from reprise.core.rng import Random
from reprise.nets import efficientnet
from reprise.nets.initial import filled
from reprise.nets.network import Network, batch_norms
from reprise.nets.resnet import ResNet18
from reprise.nets.vit import TimmNetwork, seeded, without_timm


class Builder(Protocol):
    """What makes a network of one name; `@register("network", name)` lets it be built by that name.

    Initial weights must depend on the seed alone. While a builder works, torch's generator is seeded by it, and is put
    back afterwards, so that layers made the usual way are in order. `random` is a stream of the same seed, for weights
    that are to be the same on every machine and under every torch, too: `fill(net, random)` draws them.

    A builder may have two attributes more. `takes_width = False`: any width but 64 is refused before it is called.
    `lacking(pretrained)`: which package it needs and does not find, in words, or an empty string.
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
    bn_momentum: float | None = None,
) -> Network:
    """A network on the CPU whose initial weights are the same for every arm of one seed.

    `backbone` is 'resnet18', 'efficientnet_lite0' to 'efficientnet_lite2', a name that somebody has registered, or any
    name timm knows; `head` is 'cosine' or 'linear'; `width` is the ResNet's. Torch's global generator is neither read
    nor moved. The weights of our own networks are the same on every machine and under every torch, and those below the
    head are the same whatever the head and the number of classes. `bn_momentum` is that of every BatchNorm, if given.

    >>> import torch
    >>> net = build("resnet18", classes=100, width=8, seed=0)
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    if width != 64 and not takes_width(backbone):
        raise ValueError(f"width is for 'resnet18'; the backbone {backbone!r} has its own, got width={width!r}")
    random = Random(seed, "initial weights")
    if not from_timm(backbone):
        make = NETWORKS[backbone]
        # Ours draw nothing from torch's generator, which another thread may be using meanwhile.
        with nullcontext() if make in _OURS else seeded(Random(seed, "torch's initial weights")):
            net = make(classes, head=head, width=width, random=random, pretrained=pretrained)
        if not isinstance(net, Network):
            raise TypeError(f"the builder of {backbone!r} must give a reprise.nets.Network, got {type(net).__name__}")
    else:
        net = TimmNetwork(backbone, classes, head, random=random, pretrained=pretrained)
    if bn_momentum is not None:
        momentum, norms = as_float(bn_momentum, "bn_momentum", 0, 1), batch_norms(net)
        if not norms:
            raise ValueError(f"bn_momentum is for networks with BatchNorm; {backbone!r} has none, got {bn_momentum!r}")
        for norm in norms:
            norm.momentum = momentum
    return net


def from_timm(backbone: str) -> bool:
    """Whether a name means a network of timm's: every name does that nobody has registered."""
    return backbone not in NETWORKS


def takes_width(backbone: str) -> bool:
    """Whether a network of this name is made in any width; timm's are not."""
    return not from_timm(backbone) and getattr(NETWORKS[backbone], "takes_width", True)


def lacking(backbone: str, pretrained: bool) -> str:
    """Which package a network of this name needs and does not find here, in words; empty if there is none."""
    if from_timm(backbone):
        return "" if find_spec("timm") is not None else without_timm(backbone)
    asked: Callable[[bool], str] | None = getattr(NETWORKS[backbone], "lacking", None)
    return "" if asked is None else asked(pretrained)


@register("network", "resnet18")
def _resnet18(classes: int, *, head: str, width: int, random: Random, pretrained: bool) -> ResNet18:
    if pretrained:
        raise ValueError("no weights are published for this 'resnet18': give your own to reprise.nets.load_checkpoint")
    return filled(lambda: ResNet18(classes, head, width), random)


_OURS: tuple[Builder, ...] = (_resnet18, *efficientnet.BUILDERS)
