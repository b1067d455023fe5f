"""Image files to one array of pixels. Pillow is imported here, when the first file is opened, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from .errors import DataError
from .imageset import Images

Progress = Callable[[int, int], None]
"""Called with how many are done, and how many there are."""
CHUNK = 256


def first_size(path: str) -> tuple[int, int]:
    """Height and width of an image file."""
    return _open(path, None).shape[:2]


def decode_into(
    images: Images, files: Sequence[str], *, resize: bool, advice: str, progress: Progress | None = None
) -> None:
    """Decode every file into its place in `images`, as RGB.

    With `resize`, an image of another size is scaled until it covers the wanted size, and its middle is kept; without,
    it is an error.
    """
    height, width = images.shape[1:3]
    read = partial(_fitted, size=(height, width), resize=resize, advice=advice)
    workers = min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:  # decoding itself runs outside Python's lock
        for start in range(0, len(files), CHUNK):
            part = files[start : start + CHUNK]
            for place, pixels in enumerate(pool.map(read, part), start):
                images[place] = pixels
            if progress is not None:
                progress(start + len(part), len(files))


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


def _open(path: str, size: tuple[int, int] | None) -> Images:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError("image files need Pillow, which is not installed: pip install 'reprise-cl[train]'") from error
    try:
        with Image.open(path) as file:
            if size is not None:
                file.draft("RGB", (2 * size[1], 2 * size[0]))  # lets a large JPEG be decoded smaller, and sooner
            picture = file.convert("RGB")
            if size is not None and (picture.height, picture.width) != size:
                picture = ImageOps.fit(picture, (size[1], size[0]), Image.Resampling.BICUBIC)
            return np.asarray(picture)
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except Exception as error:  # a damaged image can fail in any way at all
        raise DataError(f"{path} is damaged or not an image ({error})") from error
