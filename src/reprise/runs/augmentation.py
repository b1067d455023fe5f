"""Crops and flips, planned for a whole run beside its tape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
