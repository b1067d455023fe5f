"""Glyphs: a hundred drawn characters, rendered anew on every machine to the same pixels.

No file is downloaded. Image number i of a class depends on the seed, the split, the class and i alone, so that a
smaller set is the beginning of a larger one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reprise.core.rng import Random

from .drawings import DRAWINGS
from .render import SIDE, WORDS, render

__all__ = ["CLASSES", "MEAN", "NAMES", "SIDE", "STD", "VERSION", "draw_glyphs"]

CLASSES = len(DRAWINGS)
VERSION = 1
"""Counts up whenever pixels change, so that kept images are drawn anew."""
MEAN = (0.36046353, 0.36053804, 0.36039817)
STD = (0.18900758, 0.18859652, 0.18838290)
"""Of the 50,000 training images, per channel."""
NAMES = tuple(f"glyph-{label:02d}" for label in range(CLASSES))


def draw_glyphs(split: str, label: int, count: int, seed: int = 0) -> NDArray[np.uint8]:
    """The first `count` images of one class, count×32×32×3.

    >>> draw_glyphs("train", 7, 2).shape
    (2, 32, 32, 3)
    """
    words = Random(seed, f"glyphs/{split}/{label}").words(count * WORDS).reshape(count, WORDS)
    return render(np.full(count, label, np.int64), words)
