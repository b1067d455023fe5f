"""How the networks of a lane are computed: stackable ones together, up to their features; others one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from reprise import nets
from reprise.fleet.engine.flat_state import Layout, aligned, shaped
from reprise.fleet.engine.stack import Stack

PIECE = 2048
"""Numbers that a program of `sgd_ema` goes over."""


class Body(Protocol):
    """The networks of a lane's runs, up to where each run's own loss begins."""

    @property
    def networks(self) -> Sequence[nets.Network]:
        """What the learners are given."""

    gradient: Tensor  # runs × numbers
    parts: dict[str, tuple[int, int]]  # of each parameter, where its gradient begins, and of how many parts it is a sum

    def changed(self) -> None:
        """Weights have changed."""

    def forward(self, x: Tensor) -> None:
        """Take all runs' images, runs × positions × height × width × 3, before the losses are computed."""

    def wanted(self, run: int) -> Sequence[Tensor]:
        """What a run's loss is to be differentiated by."""

    def take(self, run: int, gradients: Sequence[Tensor]) -> None:
        """Take these gradients."""

    def backward(self) -> None:
        """Fill the rest of `gradient`, after all runs' losses."""


class Separate:
    """Networks of any kind, each computed by itself."""

    def __init__(self, networks: Sequence[nets.Network], layout: Layout) -> None:
        self.networks = networks
        self.parts, end = {}, 0
        for name in layout.parameters:
            self.parts[name] = end, 1
            end += aligned(layout.spans[name].size)
        device = next(networks[0].parameters()).device
        self.gradient = torch.zeros(len(networks), end, device=device)
        self._wanted = [[net.get_parameter(name) for name in layout.parameters] for net in networks]
        self._into = [
            _views(row, self.parts, layout.parameters, own)
            for row, own in zip(self.gradient, self._wanted, strict=True)
        ]

    def changed(self) -> None: ...

    def forward(self, x: Tensor) -> None: ...

    def wanted(self, run: int) -> Sequence[Tensor]:
        return self._wanted[run]

    def take(self, run: int, gradients: Sequence[Tensor]) -> None:
        torch._foreach_copy_(self._into[run], list(gradients))

    def backward(self) -> None: ...


class Stacked:
    """Stackable networks: their features are computed together, and every run's head and loss by itself."""

    def __init__(self, networks: Sequence[nets.Network], stack: Stack) -> None:
        self.stack, layout = stack, stack.layout
        self.gradient, self.parts = stack.gradient, stack.parts
        self.networks = [_Given(net) for net in networks]
        names = [name for name in layout.parameters if name.startswith("fc.")]
        self._own = [[net.get_parameter(name) for name in names] for net in networks]
        self._into = [_views(row, self.parts, names, own) for row, own in zip(self.gradient, self._own, strict=True)]

    def changed(self) -> None:
        self.stack.turn()

    def forward(self, x: Tensor) -> None:
        with torch.no_grad():
            features = self.stack.forward(x)
        self.dfeatures = torch.empty_like(features)
        for net, own in zip(self.networks, features, strict=True):
            net.given = own.detach().requires_grad_()

    def wanted(self, run: int) -> Sequence[Tensor]:
        return [self.networks[run].given, *self._own[run]]

    def take(self, run: int, gradients: Sequence[Tensor]) -> None:
        first, *others = gradients
        self.dfeatures[run].copy_(first)
        torch._foreach_copy_(self._into[run], others)

    def backward(self) -> None:
        with torch.no_grad():
            self.stack.backward(self.dfeatures)


class _Given(nets.Network):
    """A network whose features are given: those of all its batches, one after the other."""

    def __init__(self, net: nets.Network) -> None:
        super().__init__()
        self.whole = net  # with its parameters, in their order
        self.fc = net.fc
        self.given: Tensor

    def features(self, x: Tensor) -> Tensor:
        return self.given

    def each(self, batches: list[Tensor]) -> list[Tensor]:
        logits: Tensor = self.fc(self.given)
        return list(torch.split(logits, [len(batch) for batch in batches]))

    def published(self, name: str) -> str:
        return name


def pieces(layout: Layout, body: Body, device: torch.device) -> list[Tensor]:
    """All weights cut into pieces, as `sgd_ema` goes over them: start, source, size, parts, and step between parts."""
    found = []
    for name in layout.parameters:
        start, size = layout.spans[name]
        source, parts = body.parts[name]
        first = np.arange(0, size, PIECE)
        one = np.ones_like(first)
        found.append(
            np.stack(
                [
                    start + first,
                    source + first,
                    np.minimum(aligned(size) - first, PIECE),
                    parts * one,
                    aligned(size) * one,
                ]
            )
        )
    return [
        torch.from_numpy(part.astype(np.int64)).to(device) for part in np.ascontiguousarray(np.concatenate(found, 1))
    ]


def _views(
    row: Tensor, parts: dict[str, tuple[int, int]], names: Sequence[str], like: Sequence[Tensor]
) -> list[Tensor]:
    """The parts of a row where gradients go, in the shapes of their parameters."""
    starts = [parts[name][0] for name in names]
    return [shaped(row[start : start + one.numel()], one) for start, one in zip(starts, like, strict=True)]
