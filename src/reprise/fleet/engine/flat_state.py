"""A network's whole state as one row of numbers, so that one kernel can move all of it, for many networks at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

_ALIGNED = 64  # every tensor of a row, and every row, begins at a multiple of this, where wide loads are possible


class Span(NamedTuple):
    """Where a tensor lies in a row."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True)
class Layout:
    """What lies where in a network's row: convolutions' weights, other parameters, those not trained, buffers."""

    spans: dict[str, Span]
    parameters: list[str]  # that are trained, in the order of the row
    copied: int  # numbers of their convolutions' weights
    weights: int  # numbers of all of them
    length: int  # of a row; what lies between tensors is 0

    @classmethod
    def of(cls, net: nn.Module) -> Layout:
        spans: dict[str, Span] = {}
        parameters: list[str] = []
        end = copied = weights = 0
        for _, _, whole, tensor in _tensors(net):
            spans[whole] = Span(end, tensor.numel())
            end = aligned(end + tensor.numel())
            if tensor.requires_grad:
                parameters.append(whole)
                weights = end
                copied = end if tensor.dim() == 4 else copied
        return cls(spans, parameters, copied, weights, end)

    @torch.no_grad()
    def attach(self, net: nn.Module, row: Tensor) -> None:
        """Move a network's state into a row, of which its parameters and buffers become views."""
        for module, name, whole, tensor in _tensors(net):
            span = self.spans[whole]
            part = shaped(row[span.start : span.end], tensor)
            part.copy_(tensor)
            if name in module._parameters:
                tensor.data = part
            else:
                module._buffers[name] = part


def aligned(numbers: int) -> int:
    """The next multiple of what rows are aligned to."""
    return -(-numbers // _ALIGNED) * _ALIGNED


def initial_row(net: nn.Module) -> Tensor:
    """A network's state as such a row, apart from the network."""
    layout = Layout.of(net)
    row = torch.zeros(layout.length)
    for _, _, whole, tensor in _tensors(net):
        span = layout.spans[whole]
        shaped(row[span.start : span.end], tensor).copy_(tensor.detach())
    return row


def shaped(part: Tensor, like: Tensor) -> Tensor:
    """A piece of a row in a tensor's shape, channels last where it has them."""
    if like.dim() != 4:
        return part.view(like.shape)
    outputs, inputs, height, width = like.shape
    return part.view(outputs, height, width, inputs).permute(0, 3, 1, 2)


def _tensors(net: nn.Module) -> Iterator[tuple[nn.Module, str, str, Tensor]]:
    """Owner, name there, whole name and tensor, in the order of the row."""
    parameters = [
        (module, name, f"{prefix}.{name}" if prefix else name, parameter)
        for prefix, module in net.named_modules()
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    trained = [entry for entry in parameters if entry[3].requires_grad]
    yield from (entry for entry in trained if entry[3].dim() == 4)
    yield from (entry for entry in trained if entry[3].dim() != 4)
    yield from (entry for entry in parameters if not entry[3].requires_grad)
    for prefix, module in net.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                yield module, name, f"{prefix}.{name}" if prefix else name, buffer
