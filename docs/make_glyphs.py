"""Draw the contact sheet of glyphs.

    python docs/make_glyphs.py

It writes docs/pictures/glyphs.png: ten training images of each of twenty classes. Pillow is needed
(`pip install '.[train]'`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from reprise.data.glyphs import SIDE, draw_glyphs

FILE = Path(__file__).resolve().parent / "pictures" / "glyphs.png"
CLASSES = tuple(range(0, 100, 5))
EACH = 10
GAP = 1
COLOURS = 128  # of the palette: the picture stays small, and looks the same


def sheet() -> np.ndarray:
    """The sheet's pixels: classes in rows in two halves, a line of white between images."""
    step = SIDE + GAP
    half = len(CLASSES) // 2
    pixels = np.full((half * step - GAP, (2 * EACH + 1) * step - 3 * step // 4, 3), 255, np.uint8)
    for place, label in enumerate(CLASSES):
        side, row = divmod(place, half)
        for column, image in enumerate(draw_glyphs("train", label, EACH)):
            left = (side * EACH + column) * step + side * step // 4
            pixels[row * step : row * step + SIDE, left : left + SIDE] = image
    return pixels


def main() -> None:
    picture = Image.fromarray(sheet())
    picture = picture.quantize(COLOURS, dither=Image.Dither.NONE)
    picture.resize((2 * picture.width, 2 * picture.height), Image.Resampling.NEAREST).save(FILE, optimize=True)


if __name__ == "__main__":
    main()
