"""BatchNorm and what follows it in a ResNet, by kernels of our own where those are faster."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

LARGE = 1 << 22
"""Numbers in a batch of images from which on the kernels are faster: with fewer, a step waits for the host."""


def fused(norm: nn.Module, x: Tensor, added: Tensor | None = None, *, relu: bool = True) -> Tensor | None:
    """relu(norm(x) + added) in one, or None where torch is to do it: nothing has been done then."""
    if not (_plain(norm) and _fits(x) and _work_on(x.device)):
        return None
    if added is not None and not (_fits(added) and added.shape == x.shape):
        return None
    from reprise.nets.fused_norm import norm_relu  # needs Triton

    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.momentum is not None
    running = None
    if norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None:
        running = norm.running_mean, norm.running_var
        norm.num_batches_tracked.add_(1)
    return norm_relu(x, norm.weight, norm.bias, running, added, momentum=norm.momentum, eps=norm.eps, relu=relu)


def _plain(norm: nn.Module) -> bool:
    """Whether it is torch's own BatchNorm, goes by the batch, and nobody is to be told of it."""
    if type(norm) is not nn.BatchNorm2d or "forward" in vars(norm):
        return False
    if norm._forward_hooks or norm._forward_pre_hooks or norm._backward_hooks or norm._backward_pre_hooks:
        return False
    absent = [one is None for one in (norm.running_mean, norm.running_var, norm.num_batches_tracked)]
    tracking = norm.training and norm.track_running_stats and not any(absent)
    return (tracking or all(absent)) and norm.affine and norm.momentum is not None


def _fits(x: Tensor) -> bool:
    """Whether it is a large batch of images in bf16 on a GPU, channels last."""
    return x.is_cuda and _suits(x)


def _suits(x: Tensor) -> bool:
    return x.dtype == torch.bfloat16 and x.numel() >= LARGE and x.is_contiguous(memory_format=torch.channels_last)


@cache
def _work_on(device: torch.device) -> bool:
    """Whether the kernels can be compiled and run there: Triton may be missing, or find no compiler."""
    if find_spec("triton") is None:
        return False
    x, one = torch.ones(2, 1, 2, 2, dtype=torch.bfloat16, device=device), torch.ones(1, device=device)
    try:
        from reprise.nets.fused_norm import norm_relu

        norm_relu(x, one, one, None, None, momentum=0.1, eps=1e-5, relu=True)
    except torch.OutOfMemoryError:
        raise  # which says nothing of the kernels
    except Exception as error:
        warnings.warn(f"BatchNorm goes by torch's slower kernels, for Triton's fail: {error}", stacklevel=3)
        return False
    return True
