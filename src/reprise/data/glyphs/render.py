"""Rendering: one drawing, jittered in place, size, slant, bend, stroke, colour and background.

Everything is made of whole random numbers and single element-wise operations, never of sums or library functions whose
last digit may differ, so the pixels are the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .drawings import CELLS, CLUTTER, REACH, clutter_fields, glyph_fields

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

SIDE = 32
DIALS = 32
"""Random 32-bit numbers that shape one image."""
WORDS = DIALS // 2 + SIDE * SIDE // 8
"""Random 64-bit words that one image takes: its dials, and a byte of noise for every pixel."""
CHUNK = 128  # images at a time, so that what is worked on stays in the processor's cache

_TO_CELLS = np.float32(CELLS / (2 * REACH))
_LINE = (np.arange(SIDE, dtype=np.float32) - np.float32((SIDE - 1) / 2))[None, :]
_X = np.broadcast_to(_LINE[:, None, :], (1, SIDE, SIDE)).reshape(1, -1)
_Y = np.broadcast_to(_LINE[:, :, None], (1, SIDE, SIDE)).reshape(1, -1)


def render(labels: NDArray[np.int64], words: NDArray[np.uint64]) -> Bytes:
    """Images N×32×32×3 of the drawings `labels`, from `words` N×WORDS."""
    images = np.empty((len(labels), SIDE, SIDE, 3), np.uint8)
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        images[part] = _render(labels[part], words[part])
    return images


def _render(labels: NDArray[np.int64], words: NDArray[np.uint64]) -> Bytes:
    dials = _dials(words)
    noise = np.ascontiguousarray(words[:, DIALS // 2 :]).astype("<u8", copy=False).view(np.uint8)
    paper, ink, stray = _colours(dials)
    shade = _shade(dials, noise)
    glyph = _coverage(glyph_fields(), labels, dials.take(range(9), 1), scale=(8.5, 12.0), turn=0.16, reach=3.6)
    loose = (dials[:, 9] * CLUTTER).astype(np.int64)
    clutter = _coverage(clutter_fields(), loose, dials.take(range(10, 19), 1), scale=(9.0, 14.0), turn=0.9, reach=5.0)
    clutter *= _between(dials[:, 19], 0.1, 1.0)[:, None]
    images = np.empty((len(labels), SIDE * SIDE, 3), np.uint8)
    for channel in range(3):
        level = paper[:, channel, None] + shade
        level += clutter * (stray[:, channel, None] - level)
        level += glyph * (ink[:, channel, None] - level)
        np.clip(level, 0.0, 255.0, out=level)
        images[:, :, channel] = level  # cut to a whole number
    return images.reshape(-1, SIDE, SIDE, 3)


def _dials(words: NDArray[np.uint64]) -> Floats:
    """Numbers on [0, 1), multiples of 2⁻²⁴: each word gives two."""
    high = words[:, : DIALS // 2] >> np.uint64(40)
    low = (words[:, : DIALS // 2] >> np.uint64(8)) & np.uint64(0xFFFFFF)
    dials: Floats = np.concatenate([high, low], 1).astype(np.float32) * np.float32(2.0**-24)
    return dials


def _between(dial: Floats, low: float, high: float) -> Floats:
    scaled: Floats = dial * np.float32(high - low) + np.float32(low)
    return scaled


def _coverage(
    fields: Floats, which: NDArray[np.int64], dials: Floats, *, scale: tuple[float, float], turn: float, reach: float
) -> Floats:
    """How much of each pixel a stroke covers, 0 … 1.

    `scale` is the size in pixels of one unit of the drawing, `turn` the largest tangent of half the angle, `reach` how
    many pixels the drawing may leave the centre.
    """
    size = _between(dials[:, 0], *scale)
    wide, high = size * _between(dials[:, 1], 0.8, 1.1), size * _between(dials[:, 2], 0.8, 1.1)
    half = _between(dials[:, 3], -turn, turn)
    square = half * half
    cosine, sine = (1 - square) / (1 + square), (half + half) / (1 + square)
    slant = _between(dials[:, 4], -0.25, 0.25)
    x = _X - _between(dials[:, 5], -reach, reach)[:, None]
    y = _Y - _between(dials[:, 6], -reach, reach)[:, None]
    u = cosine[:, None] * x + sine[:, None] * y
    v = cosine[:, None] * y - sine[:, None] * x
    v *= (1 / high)[:, None]
    u *= (1 / wide)[:, None]
    u += slant[:, None] * v
    bend = _between(dials[:, 7], -0.22, 0.22)[:, None]
    u += bend * (v * v)
    for axis in (u, v):
        axis += np.float32(REACH)
        axis *= _TO_CELLS
        np.clip(axis, 0, CELLS - 1, out=axis)
    place = v.astype(np.int32) * CELLS + u.astype(np.int32)
    place += (which.astype(np.int32) * (CELLS * CELLS))[:, None]
    covered = fields.reshape(-1)[place]
    covered *= -size[:, None]
    covered += _between(dials[:, 8], 1.3, 2.4)[:, None]  # half the stroke's width, and half a pixel of soft edge
    return np.clip(covered, 0.0, 1.0, out=covered)


def _colours(dials: Floats) -> tuple[Floats, Floats, Floats]:
    """Paper, ink and stray ink, each N×3: ink is lighter than the paper in every channel, by little or by much."""
    paper = _between(dials[:, 20:23], 20.0, 140.0)
    ink = paper + _between(dials[:, 23:26], 45.0, 145.0)
    stray = paper + _between(dials[:, 26:29], -50.0, 90.0)
    return paper, ink, stray


def _shade(dials: Floats, noise: Bytes) -> Floats:
    """What lightens and darkens the paper: a slope and a grain."""
    across, down = _between(dials[:, 29], -1.6, 1.6)[:, None], _between(dials[:, 30], -1.6, 1.6)[:, None]
    shade: Floats = across * _X + down * _Y
    grain = noise.astype(np.float32)
    grain -= np.float32(127.5)
    grain *= _between(dials[:, 31], 0.04, 0.2)[:, None]
    shade += grain
    return shade
