"""BatchNorm and what follows it in a ResNet, by kernels of our own where those are faster."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

LARGE = 1 << 22
"""Numbers in a batch of images from which on the kernels are faster: with fewer, a step waits for the host."""


def fused(norm: nn.BatchNorm2d, x: Tensor, added: Tensor | None = None, *, relu: bool = True) -> Tensor | None:
    """relu(norm(x) + added) in one, or None where torch is to do it: nothing has been done then."""
    by_batch = norm.training or norm.running_mean is None
    if not (by_batch and norm.affine and norm.momentum is not None and _fits(x) and _has_triton()):
        return None
    if added is not None and not (_fits(added) and added.shape == x.shape):
        return None
    from reprise.nets.fused_norm import norm_relu  # needs Triton

    running = None
    if norm.training and norm.track_running_stats:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        running = norm.running_mean, norm.running_var
        norm.num_batches_tracked.add_(1)
    return norm_relu(x, norm.weight, norm.bias, running, added, momentum=norm.momentum, eps=norm.eps, relu=relu)


def _fits(x: Tensor) -> bool:
    """Whether it is a large batch of images in bf16 on a GPU, channels last."""
    return (
        x.is_cuda
        and x.dtype == torch.bfloat16
        and x.numel() >= LARGE
        and x.is_contiguous(memory_format=torch.channels_last)
    )


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
