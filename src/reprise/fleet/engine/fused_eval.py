"""Evaluating a ResNet on a GPU: BatchNorm with ReLU and the residual sum in one kernel a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from reprise.fleet.engine import norm_kernels as kernels
from reprise.fleet.engine.launch import launch
from reprise.fleet.grouping import foldable
from reprise.nets import Network
from reprise.nets.resnet import BasicBlock

_BLOCK = 1024


def tested(net: Network, precision: str) -> Callable[[Tensor], Tensor]:
    """A network as a function that evaluates images: by our kernels where these can, else by itself."""
    if foldable(net):
        return read_out(net, precision)

    def forward(x: Tensor) -> Tensor:
        net.eval()
        try:
            logits: Tensor = net(x)
        finally:
            net.train()  # whatever went wrong: the next run's steps need it
        return logits

    return forward


def read_out(net: Network, precision: str) -> Callable[[Tensor], Tensor]:
    """A foldable network as a function that evaluates images: BatchNorm's running statistics as scale and shift."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    steps = {}
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            scale = module.weight * (module.running_var + module.eps).rsqrt()
            steps[module] = scale, module.bias - module.running_mean * scale
    weights = {
        module: module.weight.to(dtype, memory_format=torch.channels_last)
        for module in net.modules()
        if isinstance(module, nn.Conv2d)
    }

    def layer(x: Tensor, conv: Any, norm: Any, around: Tensor | None = None, relu: bool = True) -> Tensor:
        x = torch.ops.aten.convolution(x, weights[conv], None, conv.stride, conv.padding, [1, 1], False, [0, 0], 1)
        assert x.is_contiguous(memory_format=torch.channels_last)  # as the kernel goes through it
        scale, shift = steps[norm]
        grid = (-(-x.numel() // _BLOCK),)
        launch(
            kernels.affine, grid,
            x, x if around is None else around, x, scale, shift, x.numel(), c=x.shape[1], block=_BLOCK,
            add=around is not None, relu=relu,
        )  # fmt: skip
        return x

    blocks = [module for module in net.modules() if isinstance(module, BasicBlock)]

    def forward(x: Tensor) -> Tensor:
        x = x.to(dtype, memory_format=torch.channels_last)
        x = layer(x, net.conv1, net.bn1)
        for block in blocks:
            around = x
            if block.downsample is not None:
                conv, norm = block.downsample
                around = layer(x, conv, norm, relu=False)
            y = layer(x, block.conv1, block.bn1)
            x = layer(y, block.conv2, block.bn2, around)
        logits: Tensor = net.fc(x.mean((2, 3)))
        return logits

    return forward
