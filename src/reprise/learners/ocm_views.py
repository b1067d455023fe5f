"""OCM's own views of an image: turned in sixteen ways, each a class of its own; and flipped, greyed and cropped."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from reprise.core.rng import Random

ROTATIONS = (1, 4, 16)
"""The image alone; its four quarter turns; those of the image and of its halves turned."""
GREY = 0.25
"""How often a view is grey."""
LUMA = (0.299, 0.587, 0.114)
"""What red, green and blue weigh in grey."""
SCALE = (0.3, 1.0)
"""A crop's part of the image's area."""
RATIO = (3 / 4, 4 / 3)
"""A crop's width over its height."""
TRIES = 10
"""Crops tried before the whole image is taken."""


def rotations(x: Tensor, count: int) -> Tensor:
    """Every image in `count` positions, one position after the other: count·B images.

    Position 4g+i is a turn by g quarters, anticlockwise, of the image with both halves upright (i = 0), the right half
    upside down (1), both (2), or the left (3). With a count of four, position g is a turn by g quarters alone.
    """
    if count == 1:
        return x
    if x.shape[2] != x.shape[3]:
        raise ValueError(f"images must be square to be turned, got {x.shape[2]}×{x.shape[3]}: use rotations=1")
    whole = halves(x) if count == 16 else x
    return torch.cat([torch.rot90(whole, quarters, (2, 3)) for quarters in range(4)])


def halves(x: Tensor) -> Tensor:
    """Every image four times: as it is; its right half upside down, in place; both halves; the left half."""
    middle = x.shape[3] // 2
    left, right = x[..., :middle], x[..., middle:]
    turned_left, turned_right = left.flip((2, 3)), right.flip((2, 3))
    pairs = [(left, right), (left, turned_right), (turned_left, turned_right), (turned_left, right)]
    return torch.cat([torch.cat(pair, dim=3) for pair in pairs])


def pseudo_labels(y: Tensor, count: int, classes: int) -> Tensor:
    """A label for each class in each position, in the order of `rotations`: class c in position p is c + p·classes."""
    positions = torch.arange(count, device=y.device).repeat_interleave(len(y))
    return y.repeat(count) + classes * positions


def views(x: Tensor, random: Random) -> Tensor:
    """Each image by numbers of its own: flipped or not, greyed or not, and a part of it stretched to the whole."""
    count, _, height, width = x.shape
    grey = torch.from_numpy(random.fractions(count) < GREY).to(x.device)
    maps = torch.from_numpy(crop_maps(count, height, width, random)).to(x.device, x.dtype)
    luma = (x * torch.tensor(LUMA, dtype=x.dtype, device=x.device)[:, None, None]).sum(1, keepdim=True)
    x = torch.where(grey[:, None, None, None], luma, x)
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def crop_maps(count: int, height: int, width: int, random: Random) -> NDArray[np.float64]:
    """`count` affine maps of the square [−1, 1]² onto a random part of it, every second one mirrored on average.

    A part has an area of SCALE and a shape of RATIO, whole pixels wide and high, and lies on a grid of half pixels.
    """
    area, shape = random.fractions(2 * count * TRIES).reshape(2, count, TRIES)
    area = (SCALE[0] + (SCALE[1] - SCALE[0]) * area) * height * width
    shape = np.exp(math.log(RATIO[0]) + math.log(RATIO[1] / RATIO[0]) * shape)
    wide, high = np.rint(np.sqrt(area * shape)), np.rint(np.sqrt(area / shape))
    fits = (wide >= 1) & (wide <= width) & (high >= 1) & (high <= height)
    first, some, row = fits.argmax(1), fits.any(1), np.arange(count)
    wide, high = np.where(some, wide[row, first], width), np.where(some, high[row, first], height)

    across, down, mirror = random.fractions(3 * count).reshape(3, count)
    maps = np.zeros((count, 2, 3))
    maps[:, 0, 0] = np.where(mirror < 0.5, -wide, wide) / width
    maps[:, 1, 1] = high / height
    maps[:, 0, 2] = (np.floor(across * (2 * (width - wide) + 1)) - (width - wide)) / width
    maps[:, 1, 2] = (np.floor(down * (2 * (height - high) + 1)) - (height - high)) / height
    return maps
