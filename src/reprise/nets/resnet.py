"""ResNet-18 as it is used on small images: a 3×3 stem and no max-pool."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from reprise.core.arguments import as_int
from reprise.nets.heads import make_head
from reprise.nets.network import Network
from reprise.nets.norm import fused


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class Projection(nn.Conv2d):
    """A 1×1 convolution with a stride.

    On a CPU, and if its input channels are no multiple of 8, the pixels it reads are picked out first, and the
    convolution goes without a stride. In the backward pass of a strided one, oneDNN (as of torch 2.13) then writes past
    its memory on processors with AVX2 and without AVX-512, if the input is in channels-last format.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or self.in_channels % 8 == 0:
            return super().forward(x)
        rows, columns = self.stride
        return F.conv2d(x[:, :, ::rows, ::columns], self.weight)


def _normed(norm: nn.Module, x: Tensor, added: Tensor | None = None, *, relu: bool = True) -> Tensor:
    """relu(norm(x) + added)."""
    if (found := fused(norm, x, added, relu=relu)) is not None:
        return found
    x = norm(x)
    if added is not None:
        x = x + added
    return F.relu(x) if relu else x


class Shortcut(nn.Sequential):
    """The way around two convolutions: a projection, and BatchNorm."""

    def forward(self, x: Tensor) -> Tensor:
        project, norm = self
        return _normed(norm, project(x), relu=False)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a way around them, projected by a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = _conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: Shortcut | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = Shortcut(Projection(inputs, outputs, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.downsample is None else self.downsample(x)
        x = _normed(self.bn1, self.conv1(x))
        return _normed(self.bn2, self.conv2(x), around)


def _layer(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))


class ResNet18(Network):
    """Eight blocks of widths w, 2w, 4w, 8w, halving the image three times; then the mean over the image.

    Parameters are named as torchvision and timm name those of their `resnet18`. With `width=64` all shapes are
    theirs, too, but for the stem (theirs is 7×7) and the head.

    The weights are torch's default for each layer, from torch's global generator, as with any module of torch.
    `reprise.nets.build` makes the same network with weights that depend on a seed alone.
    """

    stackable = True
    output_stride = 8

    def __init__(self, classes: int, head: str = "cosine", width: int = 64, channels: int = 3) -> None:
        super().__init__()
        width = as_int(width, "width", 1)
        self.conv1 = _conv3x3(as_int(channels, "channels", 1), width)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _layer(width, width, 1)
        self.layer2 = _layer(width, 2 * width, 2)
        self.layer3 = _layer(2 * width, 4 * width, 2)
        self.layer4 = _layer(4 * width, 8 * width, 2)
        self.fc = make_head(head, 8 * width, classes)

    def features(self, x: Tensor) -> Tensor:
        x = _normed(self.bn1, self.conv1(x))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))
