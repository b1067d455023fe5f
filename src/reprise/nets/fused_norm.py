"""BatchNorm in training, with the sum and the ReLU behind it, by kernels of our own, and its gradients.

Images are gone through twice on the way forward, for statistics and to be normalised, and twice on the way back. For
images whose channels lie last torch's own kernels take more passes, each far slower than the memory allows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from reprise.nets import norm_kernels as kernels

_ROWS = 64  # positions that a program has at once
_CHANNELS = 64  # at most
_TILES = 1024  # at most, of which each has statistics of its own
_JOINED = 4  # channels whose tiles a program joins
_SIZE = 4 * _ROWS  # positions that a program of an elementwise kernel goes through


def norm_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor] | None,
    added: Tensor | None,
    *,
    momentum: float,
    eps: float,
    relu: bool,
) -> Tensor:
    """relu(norm of x + added), by statistics of the batch; moves the running mean and variance, if there are any.

    `x` and `added` are images whose channels lie last.
    """
    result: Tensor = _NormReLU.apply(x, weight, bias, added, running, momentum, eps, relu)  # type: ignore[no-untyped-call]
    return result


class _NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        added: Tensor | None,
        running: tuple[Tensor, Tensor] | None,
        momentum: float,
        eps: float,
        relu: bool,
    ) -> Tensor:
        shape = _Shape(x)
        means, squares = shape.floats(shape.tiles)
        mean, scale = shape.floats(1)
        y = torch.empty_like(x)
        old_mean, old_var = running or (mean, scale)
        with _on_device_of(x):
            kernels.tile_stats[shape.by_tile](x, means, squares, **shape.of_tiles)
            kernels.join_stats[shape.by_channel](
                means, squares, mean, scale, old_mean, old_var, shape.rows, shape.tile, shape.tiles, shape.channels,
                eps, momentum, track=running is not None, **shape.of_joins,
            )  # fmt: skip
            kernels.normalise[shape.by_part](
                x, mean, scale, weight, bias, x if added is None else added, y, **shape.of_parts,
                add=added is not None, relu=relu,
            )  # fmt: skip
        ctx.save_for_backward(x, y if relu else x, weight, mean, scale)
        ctx.relu, ctx.add = relu, added is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, y, weight, mean, scale = ctx.saved_tensors
        shape = _Shape(x)
        dy = dy.to(x.dtype).contiguous(memory_format=torch.channels_last)
        sums, products = shape.floats(shape.tiles)
        dbias, dweight = shape.floats(1)
        dx = torch.empty_like(x)
        dz = torch.empty_like(x) if ctx.add and ctx.relu else dy
        with _on_device_of(x):
            kernels.tile_slopes[shape.by_tile](dy, y, x, mean, scale, sums, products, **shape.of_tiles, relu=ctx.relu)
            kernels.join_slopes[shape.by_channel](
                sums, products, dbias, dweight, shape.tiles, shape.channels, **shape.of_joins
            )
            kernels.input_slopes[shape.by_part](
                dy, y, x, mean, scale, weight, dbias, dweight, dx, dz, **shape.of_parts,
                add=ctx.add and ctx.relu, relu=ctx.relu,
            )  # fmt: skip
        return dx, dweight[0], dbias[0], dz if ctx.add else None, None, None, None, None


class _Shape:
    """How an image of many is cut: into rows, one for each position of each image, and these into tiles."""

    def __init__(self, x: Tensor) -> None:
        count, self.channels, height, width = x.shape
        self.device = x.device
        self.rows = count * height * width
        self.bc = min(triton.next_power_of_2(self.channels), _CHANNELS)
        self.tile = _up(-(-self.rows // _TILES), _ROWS)
        self.tiles = -(-self.rows // self.tile)
        across = -(-self.channels // self.bc)
        self.by_tile, self.by_part = (self.tiles, across), (-(-self.rows // _SIZE), across)
        self.by_channel = (-(-self.channels // _JOINED),)
        self.of_joins = {"most": triton.next_power_of_2(self.tiles), "bc": _JOINED, "num_warps": 8}
        cut = {"rows": self.rows, "c": self.channels, "bm": _ROWS, "bc": self.bc}
        self.of_tiles, self.of_parts = {"size": self.tile, **cut}, {"size": _SIZE, **cut}

    def floats(self, rows: int) -> tuple[Tensor, Tensor]:
        found = torch.empty(2, rows, self.channels, dtype=torch.float32, device=self.device)
        return found[0], found[1]


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


@contextlib.contextmanager
def _on_device_of(x: Tensor) -> Iterator[None]:
    """Within it kernels go to the tensor's device; on a CPU, Triton's interpreter takes them."""
    with torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext():
        yield
