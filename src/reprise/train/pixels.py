"""Images where training needs them: stored once as uint8, gathered by id."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reprise.data import ImageSet
from reprise.train.augment import augment


class Pixels:
    """The images of a set on a device.

    A set that is memory-mapped goes to a GPU if half of the memory that is free there holds it. Otherwise it stays on
    disk, as it does on the CPU, and batches are sent as needed. On the CPU the array is shared, not copied. The replay
    memory needs no images of its own: it holds ids of these.
    """

    def __init__(self, images: ImageSet, device: torch.device) -> None:
        self.device = device
        self.labels = _on(device, images.labels)
        self.size = images.images.shape[1:3]  # height and width
        mapped = isinstance(images.images, np.memmap) and not _fits(images.images.nbytes, device)
        self.mapped = images.images if mapped else None
        self.images = torch.empty(0) if self.mapped is not None else _on(device, images.images)
        self.shift = 255 * torch.tensor(images.mean, device=device)
        self.scale = 1 / (255 * torch.tensor(images.std, device=device))

    def gather(self, ids: Tensor) -> Tensor:
        """The images of these ids as they are stored: uint8, B×H×W×3."""
        if self.mapped is None:
            return self.images[ids]
        return torch.from_numpy(np.ascontiguousarray(self.mapped[ids.cpu().numpy()])).to(self.device)

    def augmented(self, ids: Tensor, plan: Tensor) -> Tensor:
        """The images of these ids, cropped and flipped as planned, normalised: float, B×3×H×W, channels last."""
        if self.mapped is None:
            return self.normalised(augment(self.images, ids, plan))
        rows = torch.arange(len(ids), device=self.device)
        return self.normalised(augment(self.gather(ids), rows, plan))

    def normalised(self, pixels: Tensor) -> Tensor:
        """Each channel less its mean, over its standard deviation."""
        return ((pixels.float() - self.shift) * self.scale).permute(0, 3, 1, 2)


def _fits(size: int, device: torch.device) -> bool:
    return device.type == "cuda" and size < torch.cuda.mem_get_info(device)[0] // 2


def _on(device: torch.device, array: NDArray[Any]) -> Tensor:
    """The array on a device; on a GPU in C order, which kernels count on, whatever its order was."""
    tensor = _tensor(array).to(device)
    return tensor if device.type == "cpu" else tensor.contiguous()


def _tensor(array: NDArray[Any]) -> Tensor:
    """The array as a tensor that shares its memory; one that runs backwards is copied, for no tensor can."""
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():  # of arrays that are read-only: nothing here writes to them
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)
