"""Class-incremental evaluation: how many test images of each class a network gets right, no task id given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from reprise.train.pixels import Pixels

_BATCH = {"cpu": 250, "cuda": 2000}


@contextlib.contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """Within it forward passes run in this precision: fp32, tf32 (fp32 on a CPU) or bf16."""
    if name == "bf16":
        with torch.autocast(device.type, torch.bfloat16):
            yield
        return
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@torch.no_grad()
def correct_per_class(net: nn.Module, pixels: Pixels, ids: Tensor, classes: int, name: str = "fp32") -> Tensor:
    """For each class, how many of the images `ids` of it the network names; every class may be named."""
    was_training = net.training
    net.eval()
    correct = torch.zeros(classes, dtype=torch.int64, device=pixels.device)
    try:
        with precision(name, pixels.device):
            for part in torch.split(ids, _BATCH.get(pixels.device.type, 1000)):
                found = net(pixels.normalised(pixels.gather(part))).argmax(1)
                labels = pixels.labels[part]
                correct.index_add_(0, labels, (found == labels).long())
    finally:
        net.train(was_training)
    return correct
