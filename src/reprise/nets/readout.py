"""Evaluating a ResNet-18: BatchNorm folded into the convolutions, and on a GPU ReLU and the residual sum with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from reprise.nets.resnet import BasicBlock, ResNet18


class _Folded(NamedTuple):
    """A convolution that does its BatchNorm, too."""

    weight: Tensor
    bias: Tensor
    geometry: tuple[Any, ...]  # stride, padding, dilation, groups

    def __call__(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, *self.geometry)

    def relu(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return torch.cudnn_convolution_relu(x, self.weight, self.bias, *self.geometry)
        return F.relu(self(x))

    def add_relu(self, x: Tensor, around: Tensor) -> Tensor:
        if x.is_cuda:
            return torch.cudnn_convolution_add_relu(x, self.weight, around, 1.0, self.bias, *self.geometry)
        return F.relu(self(x) + around)


def read_out(net: ResNet18, precision: str) -> Callable[[Tensor], Tensor]:
    """The network as a function that evaluates images, with its weights and BatchNorm's statistics as they are now."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32

    def folded(conv: Any, norm: Any) -> _Folded:
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        weight = (conv.weight * scale[:, None, None, None]).to(dtype, memory_format=torch.channels_last)
        bias = (norm.bias - norm.running_mean * scale).to(dtype)
        return _Folded(weight, bias, (conv.stride, conv.padding, conv.dilation, conv.groups))

    def folded_blocks() -> Iterator[tuple[_Folded, _Folded, _Folded | None]]:
        for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
            for block in stage:
                assert isinstance(block, BasicBlock)
                around = None if block.downsample is None else folded(*block.downsample)
                yield folded(block.conv1, block.bn1), folded(block.conv2, block.bn2), around

    stem, blocks = folded(net.conv1, net.bn1), list(folded_blocks())

    def forward(x: Tensor) -> Tensor:
        x = stem.relu(x.to(dtype, memory_format=torch.channels_last))
        for first, second, around in blocks:
            x = second.add_relu(first.relu(x), x if around is None else around(x))
        logits: Tensor = net.fc(x.mean((2, 3)))
        return logits

    return forward
