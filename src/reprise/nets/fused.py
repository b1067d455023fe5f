"""A ResNet-18 on a GPU with everything that is not a convolution in a few kernels, and its batches in one pass.

The convolutions see all batches of a step as one; BatchNorm sees each by itself, as in separate passes. Weights and
statistics are those of the `ResNet18` it is made of, and so are its results, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reprise.nets import kernels
from reprise.nets.network import Network
from reprise.nets.resnet import BasicBlock, ResNet18

PROGRAMS = 80  # tiles of a layer, times blocks of its channels: enough to fill a large GPU together with other runs
ROWS = 64  # rows that a program holds at a time
WARPS = 4


_BLOCK = 1024


def _power_of_two(value: int) -> int:
    return 1 << max(value - 1, 0).bit_length()


class _Cut(NamedTuple):
    """How the rows of a layer are cut into tiles."""

    hw: int
    channels: int
    segments: int
    rows: tuple[int, int, int]
    tiles: tuple[int, int, int]
    size: int
    bm: int
    bc: int
    most: int

    @classmethod
    def of(cls, sizes: tuple[int, ...], hw: int, channels: int) -> _Cut:
        bc = min(64, _power_of_two(channels))
        blocks = -(-channels // bc)
        target = max(sum(sizes) * hw * blocks // PROGRAMS, 1)
        size = max(32, min(4096, 1 << (target.bit_length() - 1)))
        rows = tuple(count * hw for count in (*sizes, 0, 0)[:3])
        tiles = tuple(-(-count // size) for count in rows)
        return cls(hw, channels, len(sizes), rows, tiles, size, min(size, ROWS), bc, _power_of_two(max(tiles)))  # type: ignore[arg-type]

    @property
    def grid(self) -> tuple[int, int]:
        return sum(self.tiles), -(-self.channels // self.bc)


class _Norm(torch.autograd.Function):
    """BatchNorm of each segment by itself, a residual if there is one, and ReLU if asked for."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, running_mean: Tensor,
        running_var: Tensor, counts: Tensor, cut: _Cut, relu: bool,
    ) -> Tensor:  # fmt: skip
        tiles = sum(cut.tiles)
        means, squares = torch.empty((2, tiles, cut.channels), device=x.device)
        saved_mean, saved_scale = torch.empty((2, cut.segments, cut.channels), device=x.device)
        y = torch.empty_like(x)
        t0, t1, t2 = cut.tiles
        shape = {"hw": cut.hw, "c": cut.channels, "t0": t0, "t1": t1, "r0": cut.rows[0], "r1": cut.rows[1],
                 "r2": cut.rows[2], "size": cut.size, "bm": cut.bm, "bc": cut.bc}  # fmt: skip
        kernels.statistics[cut.grid](x, means, squares, counts, **shape, num_warps=WARPS)
        kernels.normalise[cut.grid](
            x, x if residual is None else residual, y, weight, bias, means, squares, counts, saved_mean, saved_scale,
            running_mean, running_var, **shape, t2=t2, most=cut.most, add=residual is not None, relu=relu,
            segments=cut.segments, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(x, y, weight, saved_mean, saved_scale, counts)
        ctx.cut, ctx.shape, ctx.relu, ctx.add = cut, shape, relu, residual is not None
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, y, weight, saved_mean, saved_scale, counts = ctx.saved_tensors
        cut, shape = ctx.cut, ctx.shape
        dy = dy.contiguous(memory_format=torch.channels_last)
        tiles = sum(cut.tiles)
        sums, products = torch.empty((2, tiles, cut.channels), device=x.device)
        dweight, dbias = torch.empty((2, cut.channels), device=x.device)
        dx = torch.empty_like(x)
        dz = torch.empty_like(x) if ctx.add and ctx.relu else dy
        keep = ctx.add and ctx.relu
        kernels.gradient_sums[cut.grid](
            dy, y, x, dz, saved_mean, saved_scale, sums, products, counts, **shape, relu=ctx.relu, keep=keep,
            num_warps=WARPS,
        )  # fmt: skip
        kernels.input_gradient[cut.grid](
            dz if keep else dy, y, x, dx, weight, saved_mean, saved_scale, sums, products, dweight, dbias, counts,
            **shape, t2=cut.tiles[2], most=cut.most, relu=ctx.relu and not keep, segments=cut.segments,
            num_warps=WARPS,
        )  # fmt: skip
        return dx, dz if ctx.add else None, dweight, dbias, None, None, None, None, None


class FusedResNet18(Network):
    """The network of a `ResNet18`, computed as described above; `counts` says how many images of each batch are real.

    `weights` has the weight that each convolution computes with: its own, or a copy of it in another precision, which
    then gets the gradient in its place.
    """

    def __init__(self, net: ResNet18, counts: Tensor) -> None:
        super().__init__()
        self.net = net
        self.fc = net.fc
        self.counts = counts
        self.weights: dict[nn.Module, Tensor] = {
            module: module.weight for module in net.modules() if isinstance(module, nn.Conv2d)
        }

    def published(self, name: str) -> str:
        return name.removeprefix("net.")

    def each(self, batches: list[Tensor]) -> list[Tensor]:
        sizes = tuple(map(len, batches))
        x = torch.cat(batches) if len(batches) > 1 else batches[0]
        logits: Tensor = self.fc(self._features(x, sizes))
        return list(torch.split(logits, list(sizes)))

    def features(self, x: Tensor) -> Tensor:
        return self._features(x, (len(x),))

    def _features(self, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
        net = self.net
        x = x.to(self.weights[net.conv1].dtype, memory_format=torch.channels_last)
        x = self._norm(self._conv(x, net.conv1), net.bn1, sizes)
        for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
            for block in layer:
                assert isinstance(block, BasicBlock)
                around = x
                if block.downsample is not None:
                    conv, norm = block.downsample
                    assert isinstance(conv, nn.Conv2d)
                    assert isinstance(norm, nn.BatchNorm2d)
                    around = self._norm(self._conv(x, conv), norm, sizes, relu=False)
                x = self._norm(self._conv(x, block.conv1), block.bn1, sizes)
                x = self._norm(self._conv(x, block.conv2), block.bn2, sizes, around)
        return x.mean((2, 3))

    def _conv(self, x: Tensor, conv: nn.Conv2d) -> Tensor:
        return F.conv2d(x, self.weights[conv], None, conv.stride, conv.padding)

    def _norm(
        self, x: Tensor, norm: nn.BatchNorm2d, sizes: tuple[int, ...], around: Tensor | None = None, relu: bool = True
    ) -> Tensor:
        cut = _Cut.of(sizes, x.shape[2] * x.shape[3], x.shape[1])
        y: Tensor = _Norm.apply(
            x, around, norm.weight, norm.bias, norm.running_mean, norm.running_var, self.counts, cut, relu
        )
        return y


def read_out(net: ResNet18, precision: str) -> Callable[[Tensor], Tensor]:
    """The network as a function that evaluates images: BatchNorm's running statistics, folded into one step a layer."""
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
        scale, shift = steps[norm]
        grid = (-(-x.numel() // _BLOCK),)
        kernels.affine[grid](
            x, x if around is None else around, x, scale, shift, x.numel(), c=x.shape[1], block=_BLOCK,
            add=around is not None, relu=relu,
        )  # fmt: skip
        return x

    def forward(x: Tensor) -> Tensor:
        x = x.to(dtype, memory_format=torch.channels_last)
        x = layer(x, net.conv1, net.bn1)
        for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
            for block in stage:
                assert isinstance(block, BasicBlock)
                around = x
                if block.downsample is not None:
                    conv, norm = block.downsample
                    around = layer(x, conv, norm, relu=False)
                y = layer(x, block.conv1, block.bn1)
                x = layer(y, block.conv2, block.bn2, around)
        logits: Tensor = net.fc(x.mean((2, 3)))
        return logits

    return forward
