"""Depthwise convolutions whose gradients are fast in bf16 on a CPU.

torch uses oneDNN there, which has fast kernels in bf16 for some of these gradients only. That of the weight is slow
unless it is 3×3, so larger ones are computed 3×3 at a time. That of the input is slow where there is a stride, so it is
computed as if there were none.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_SIDE = 3  # of a kernel whose gradient is fast


def depthwise(x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
    """`torch.nn.functional.conv2d` with as many groups as channels, and one output for each."""
    half = torch.bfloat16
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == half
    suits = (half, torch.float32) if autocast else (half,)
    ours = x.is_cpu and torch.is_grad_enabled() and x.dtype in suits and weight.dtype in suits
    if not ours or min(weight.shape[2:]) < _SIDE:
        return F.conv2d(x, weight, None, stride, padding, 1, len(weight))
    # Autocast would not reach the backward pass.
    result: Tensor = _Depthwise.apply(x.to(half), weight.to(half), stride, padding)  # type: ignore[no-untyped-call]
    return result


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return F.conv2d(x, weight, None, stride, padding, 1, len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_input, of_weight, *_ = ctx.needs_input_grad
        dx = _input_grad(dy, x, weight, ctx.stride, ctx.padding) if of_input else None
        dweight = _weight_grad(dy, x, weight, ctx.stride, ctx.padding) if of_weight else None
        return dx, dweight, None, None


def _input_grad(dy: Tensor, x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
    if max(stride) > 1:  # as if there were none, and nothing came back from positions that were passed over
        sides = zip(x.shape[2:], padding, weight.shape[2:], strict=True)
        sizes = (size + 2 * pad - side + 1 for size, pad, side in sides)
        spread = torch.empty(*dy.shape[:2], *sizes, dtype=dy.dtype, device=dy.device, memory_format=torch.channels_last)
        spread.zero_()
        spread[:, :, :: stride[0], :: stride[1]] = dy
        dy = spread
    return _grads(dy, x, weight, (1, 1), padding, (True, False, False))[0]


def _weight_grad(dy: Tensor, x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
    if weight.shape[2:] == (_SIDE, _SIDE):
        return _grads(dy, x, weight, stride, padding, (False, True, False))[1]
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    height, width = ((size - 1) * step + _SIDE for size, step in zip(dy.shape[2:], stride, strict=True))
    square = weight.new_empty(len(weight), 1, _SIDE, _SIDE)  # its numbers are not asked for
    found = torch.empty_like(weight)
    for top in _starts(weight.shape[2]):
        for left in _starts(weight.shape[3]):
            met = x[:, :, top : top + height, left : left + width]
            part = _grads(dy, met, square, stride, (0, 0), (False, True, False))[1]
            found[:, :, top : top + _SIDE, left : left + _SIDE] = part
    return found


def _grads(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """torch's own gradients of input, weight and bias, as far as they are wanted."""
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, (1, 1), False, (0, 0), len(weight), wanted
    )
    return found


def _starts(side: int) -> list[int]:
    """Where pieces of three begin that together are the whole side.

    >>> _starts(5), _starts(7), _starts(9)
    ([0, 2], [0, 3, 4], [0, 3, 6])
    """
    return [*range(0, side - _SIDE, _SIDE), side - _SIDE]
