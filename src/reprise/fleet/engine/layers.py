"""The layers of a ResNet, and how each is cut into tiles for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from reprise.nets.resnet import BasicBlock


class Tiles(NamedTuple):
    """The tiles of a layer, batch by batch."""

    t0: int
    t1: int
    t2: int

    @classmethod
    def of(cls, sizes: tuple[int, ...], positions: int, size: int, classes: int = 1) -> Tiles:
        """Tiles of `size` positions for batches of images with `positions` of each class."""
        return cls(*(classes * -(-count * positions // size) for count in (*sizes, 0, 0)[:3]))

    @property
    def all(self) -> int:
        return sum(self)


class Block(NamedTuple):
    """How a product of matrices is cut: rows and columns of a tile, and how deep it goes at a time."""

    bm: int
    bn: int
    bk: int
    num_warps: int
    num_stages: int

    def within(self, columns: int, depth: int) -> Block:
        """The same, no larger than there is."""
        return self._replace(bn=min(self.bn, tile_side(columns)), bk=min(self.bk, tile_side(depth)))


# Measured on an H200. They depend on a run's own sizes alone: so its bits do not depend on how many go beside it.
FORWARD = {"bf16": Block(128, 128, 64, 4, 3), "tf32": Block(128, 64, 32, 4, 3), "fp32": Block(64, 64, 32, 4, 2)}
BACKWARD = {"bf16": Block(128, 64, 64, 4, 3), "tf32": Block(128, 64, 32, 4, 3), "fp32": Block(64, 64, 32, 4, 2)}
SMALL = {"bf16": Block(64, 64, 64, 4, 4)}  # for images of few positions
WEIGHTS = {"bf16": Block(64, 64, 32, 4, 4), "tf32": Block(64, 64, 32, 4, 2), "fp32": Block(64, 64, 16, 8, 2)}
FEW = 1024


def tile_side(count: int) -> int:
    """The power of two that holds so many, and 16 at least: products of smaller tiles are not to be had."""
    return max(16, 1 << (count - 1).bit_length())


@dataclass(frozen=True)
class Layer:
    """A convolution and the BatchNorm behind it."""

    conv: str
    norm: str
    h: int  # of the input
    wd: int
    c: int
    k: int
    side: int
    stride: int

    @property
    def p(self) -> int:
        return -(-self.h // self.stride)

    @property
    def q(self) -> int:
        return -(-self.wd // self.stride)

    @property
    def shape(self) -> dict[str, int]:
        return {"h": self.h, "wd": self.wd, "p": self.p, "q": self.q, "c": self.c, "k": self.k, "stride": self.stride}


class BlockOfLayers(NamedTuple):
    """The layers of a block."""

    first: Layer
    second: Layer
    around: Layer | None


def layer_of(net: nn.Module, conv: str, norm: str, h: int, wd: int) -> Layer:
    module = net.get_submodule(conv)
    assert isinstance(module, nn.Conv2d)
    return Layer(conv, norm, h, wd, module.in_channels, module.out_channels, module.kernel_size[0], module.stride[0])


def blocks_of(net: nn.Module, stem: Layer) -> Iterator[BlockOfLayers]:
    h, wd = stem.p, stem.q
    for name, module in net.named_modules():
        if isinstance(module, BasicBlock):
            first = layer_of(net, f"{name}.conv1", f"{name}.bn1", h, wd)
            around = (
                None
                if module.downsample is None
                else layer_of(net, f"{name}.downsample.0", f"{name}.downsample.1", h, wd)
            )
            h, wd = first.p, first.q
            yield BlockOfLayers(first, layer_of(net, f"{name}.conv2", f"{name}.bn2", h, wd), around)
