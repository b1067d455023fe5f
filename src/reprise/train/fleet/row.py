"""A network's whole state as one row of numbers, so that one kernel can move all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Row:
    """The row, and what lies where: convolutions' weights first, then other parameters, then buffers."""

    values: Tensor
    parameters: list[Tensor]  # the network's own, in the order of the row
    convolutions: dict[nn.Module, Tensor]  # the part of each weight
    copied: int  # numbers of convolutions' weights
    weights: int  # numbers of all parameters

    @classmethod
    @torch.no_grad()
    def of(cls, net: nn.Module) -> Row:
        """Move a network's state into a row, of which its parameters and buffers become views."""
        found = list(_tensors(net))
        values = torch.empty(sum(tensor.numel() for _, _, tensor in found), device=found[0][2].device)
        parameters: list[Tensor] = []
        convolutions: dict[nn.Module, Tensor] = {}
        place = copied = weights = 0
        for module, name, tensor in found:
            part = shaped(values[place : place + tensor.numel()], tensor)
            part.copy_(tensor)
            place += tensor.numel()
            if name not in module._parameters:
                module._buffers[name] = part
                continue
            tensor.data = part
            parameters.append(tensor)
            weights = place
            if tensor.dim() == 4:
                convolutions[module] = part
                copied = place
        return cls(values, parameters, convolutions, copied, weights)

    def half(self) -> tuple[Tensor, dict[nn.Module, Tensor]]:
        """A bf16 copy of the convolutions' weights as a row, and the part of each, ready to receive a gradient."""
        copy = self.values[: self.copied].to(torch.bfloat16)
        place, parts = 0, {}
        for module, part in self.convolutions.items():
            parts[module] = shaped(copy[place : place + part.numel()], part).requires_grad_()
            place += part.numel()
        return copy, parts


def initial_row(net: nn.Module) -> Tensor:
    """A network's state as such a row, apart from the network."""
    parts = [tensor.detach().permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor for _, _, tensor in _tensors(net)]
    return torch.cat([part.reshape(-1) for part in parts])


def shaped(part: Tensor, like: Tensor) -> Tensor:
    """A piece of a row in a tensor's shape, channels last where it has them."""
    if like.dim() != 4:
        return part.view(like.shape)
    outputs, inputs, height, width = like.shape
    return part.view(outputs, height, width, inputs).permute(0, 3, 1, 2)


def _tensors(net: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    parameters = [
        (module, name, parameter)
        for module in net.modules()
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    yield from (entry for entry in parameters if entry[2].dim() == 4)
    yield from (entry for entry in parameters if entry[2].dim() != 4)
    for module in net.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                yield module, name, buffer
