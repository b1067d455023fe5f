"""Class-incremental evaluation: how many test images of each class a network gets right, no task id given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn

from reprise.learners import Batch
from reprise.train.machine import computes_bf16
from reprise.train.pixels import Pixels

ModuleT = TypeVar("ModuleT", bound=nn.Module)

_BATCH = 2000
_SMALLEST, _IN_CACHE = 32, 1 << 17  # on a CPU: images, and pixels; of smaller batches more stays in the cache


@contextlib.contextmanager
def arithmetic(name: str) -> Iterator[None]:
    """Within it, forward and backward passes alike, products are rounded to TF32 if the precision is tf32, else not."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def forward_precision(name: str, device: torch.device) -> torch.autocast:
    """For forward passes alone: bf16 where torch deems it safe, if it is asked for and the device computes in it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=name == "bf16" and computes_bf16(device.type))


def _batches(ids: Tensor, pixels: Pixels) -> tuple[Tensor, ...]:
    """The ids in batches of a size that suits the device."""
    height, width = pixels.size
    size = max(_SMALLEST, _IN_CACHE // (height * width)) if pixels.device.type == "cpu" else _BATCH
    return torch.split(ids, size) if len(ids) else ()


class Stored:
    """Stored examples in batches, as they are: not augmented, and each with its share of the whole as its weight."""

    def __init__(self, pixels: Pixels, ids: Callable[[], Tensor]) -> None:
        self.pixels, self.ids = pixels, ids

    def __iter__(self) -> Iterator[Batch]:
        ids = self.ids()
        for part in _batches(ids, self.pixels):
            weight = torch.full((len(part),), 1 / len(ids), device=ids.device)
            yield Batch(self.pixels.normalised(self.pixels.gather(part)), self.pixels.labels[part], part, weight)


@torch.no_grad()
def correct_per_class(
    net: ModuleT,
    pixels: Pixels,
    ids: Tensor,
    classes: int,
    name: str = "fp32",
    predictor: Callable[[ModuleT], Callable[[Tensor], Tensor]] | None = None,
) -> Tensor:
    """For each class, how many of the images `ids` of it the network names; every class may be named.

    `predictor` is given the network, in evaluation mode, and gives the scores of images; by itself the network does.
    """
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    correct = torch.zeros(classes, dtype=torch.int64, device=pixels.device)
    try:
        with arithmetic(name), forward_precision(name, pixels.device):
            scores = net if predictor is None else predictor(net)
            for part in _batches(ids, pixels):
                found = scores(pixels.normalised(pixels.gather(part))).argmax(1)
                labels = pixels.labels[part]
                correct.index_add_(0, labels, (found == labels).long())
    finally:
        for module, training in modes:
            module.training = training
    return correct
