"""Crops and flips as planned, applied to a batch at once on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from reprise.runs.augmentation import PAD


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
