"""Crops and flips: planned for a whole run beside its tape, then applied to a batch at once on the device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reprise.core.rng import Random

AUGMENTS = ("crop+flip", "crop", "none")
PAD = 4
_BITS = np.uint64(21)  # of a random word, for each of a crop's two offsets


def plan_augmentation(seed: int, name: str, shape: tuple[int, ...], kind: str) -> NDArray[np.int8]:
    """For every image of a run a row (down, right, flip): the corner of its crop in the padded image, and 0 or 1.

    The stream of random numbers is called `name`; arms that share it see the same pixels. Offsets are uniform on
    0 … 2·PAD, to within 9 parts in 2²¹.
    """
    words = Random(seed, name).words(int(np.prod(shape, dtype=np.int64)))
    plan = np.zeros((*shape, 3), np.int8)
    if kind != "none":
        low = np.uint64((1 << 21) - 1)
        for place, shift in enumerate((np.uint64(43), np.uint64(22))):
            offsets = (((words >> shift) & low) * np.uint64(2 * PAD + 1)) >> _BITS
            plan[..., place] = offsets.astype(np.int8).reshape(shape)
    else:
        plan[..., :2] = PAD
    if kind == "crop+flip":
        plan[..., 2] = (words & np.uint64(1)).astype(np.int8).reshape(shape)
    return plan


def augment(images: Tensor, ids: Tensor, plan: Tensor) -> Tensor:
    """Gather images by id from a uint8 N×H×W×3 tensor, each cropped and flipped by its row of the plan.

    What lies outside an image is black, as padding before normalisation makes it.
    """
    height, width = images.shape[1:3]
    plan = plan.long()
    rows = torch.arange(height, device=images.device) + plan[:, :1] - PAD
    columns = torch.arange(width, device=images.device).expand(len(plan), -1)
    columns = torch.where(plan[:, 2:] > 0, width - 1 - columns, columns) + plan[:, 1:2] - PAD
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
    pixels = images[ids[:, None, None], rows.clamp(0, height - 1)[:, :, None], columns.clamp(0, width - 1)[:, None, :]]
    return pixels * inside[..., None]
