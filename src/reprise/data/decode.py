"""Image files to one array of pixels. Pillow is imported here, when the first file is opened, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from reprise.core.extras import not_installed

from .errors import DataError
from .imageset import Images

Progress = Callable[[int, int], None]
"""Called with how many are done, and how many there are."""
CHUNK = 256
_BITS_PER_SAMPLE = 258  # a tag of TIFF


def first_size(path: str) -> tuple[int, int]:
    """Height and width of an image file."""
    return _open(path, None).shape[:2]


def decode_into(
    images: Images, files: Sequence[str], *, resize: bool, advice: str, progress: Progress | None = None
) -> None:
    """Decode every file into its place in `images`, as RGB of 8 bits.

    With `resize`, an image of another size is scaled until it covers the wanted size, and its middle is kept; without,
    it is an error.
    """
    height, width = images.shape[1:3]
    _fill(images, files, partial(_fitted, size=(height, width), resize=resize, advice=advice), progress)


def resize_into(images: Images, pixels: Images, progress: Progress | None = None) -> None:
    """Scale every image of `pixels` to the size of those in `images`, as one from a file is."""
    image, ops = _pillow()
    size = images.shape[2], images.shape[1]

    def read(one: Images) -> Images:
        return np.asarray(ops.fit(image.fromarray(one), size, image.Resampling.BICUBIC))

    _fill(images, pixels, read, progress)


def _fill(
    images: Images, sources: Sequence[str] | Images, read: Callable[[Any], Images], progress: Progress | None
) -> None:
    workers = min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:  # Pillow works outside Python's lock
        for start in range(0, len(sources), CHUNK):
            part = sources[start : start + CHUNK]
            for place, pixels in enumerate(pool.map(read, part), start):
                images[place] = pixels
            if progress is not None:
                progress(start + len(part), len(sources))


def _fitted(path: str, *, size: tuple[int, int], resize: bool, advice: str) -> Images:
    try:
        pixels = _open(path, size if resize else None)
    except DataError as error:
        raise DataError(f"{error}; {advice}") from error.__cause__
    if pixels.shape[:2] != size:
        raise ValueError(
            f"{path} is {pixels.shape[1]}×{pixels.shape[0]} pixels, the first image {size[1]}×{size[0]}; "
            "images of different sizes need size=, such as size=32, to be brought to one"
        )
    return pixels


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError(not_installed("images need Pillow", "train")) from error
    return Image, ImageOps


def _open(path: str, size: tuple[int, int] | None) -> Images:
    image, ops = _pillow()
    try:
        with image.open(path) as file:
            if size is not None:
                file.draft("RGB", (2 * size[1], 2 * size[0]))  # lets a large JPEG be decoded smaller, and sooner
            deep = file.mode == "F" or file.mode.startswith("I")
            picture = (image.fromarray(_eight_bits(file)) if deep else file).convert("RGB")
            if size is not None and (picture.height, picture.width) != size:
                picture = ops.fit(picture, (size[1], size[0]), image.Resampling.BICUBIC)
            return np.asarray(picture)
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except _NoRange as error:
        raise DataError(f"{path} holds {error}, which have no defined range as 8- and 16-bit ones have") from None
    except Exception as error:  # a damaged image can fail in any way at all
        raise DataError(f"{path} is damaged or not an image ({error})") from error


class _NoRange(Exception):
    """Pixels of which nothing says what is black and what is white."""


def _eight_bits(file: Any) -> Images:
    """The one channel of an image whose pixels are deeper than a byte, scaled so that white is 255.

    Pillow gives them as I;16 or as I. Which of the two a file of 16 bits becomes differs between its versions, and I is
    also what a file of 32 bits becomes: that is read as 16 bits when its values fit these and no others.
    """
    if file.mode == "F":
        raise _NoRange("floating-point pixels")
    values = np.asarray(file)
    low, high = int(values.min()), int(values.max())
    sure = file.mode != "I" or file.format in ("PNG", "PPM")
    if low < 0 or high > 65535 or (0 < high < 256 and not sure):
        raise _NoRange(f"32-bit pixels from {low} to {high}")
    bits = getattr(file, "tag_v2", {}).get(_BITS_PER_SAMPLE, (16,))
    white = 4095 if bits == (12,) else 65535
    return ((values.astype(np.int64) * 255 + white // 2) // white).astype(np.uint8)
