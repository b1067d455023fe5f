"""Triton kernels of BatchNorm in training, with the sum and the ReLU behind it.

Images lie channels last: a row of channels for each position of each image. Statistics come tile by tile, each around
the tile's own mean, and are joined by Chan's formula. Sums are in single precision and in a fixed order, so that the
same input always gives the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_stats(x, means, squares, rows, c, size, bm: tl.constexpr, bc: tl.constexpr):
    """Of each tile and channel the mean, and the sum of squares around it."""
    tile = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    mean = tl.zeros((bc,), tl.float32)
    square = tl.zeros((bc,), tl.float32)
    for start in range(0, size, bm):
        row = tile * size + start + tl.arange(0, bm)
        mask = (row < rows)[:, None] & inside[None, :]
        value = tl.load(x + row[:, None] * c + channels[None, :], mask=mask, other=0.0).to(tl.float32)
        here = tl.minimum(tl.maximum(rows - (tile * size + start), 0), bm).to(tl.float32)
        share = here / tl.maximum(here + start, 1.0)  # of all rows so far: those before are full
        own = tl.sum(value, 0) / tl.maximum(here, 1.0)
        apart = tl.where(mask, value - own[None, :], 0.0)
        step = own - mean
        square += tl.sum(apart * apart, 0) + step * step * share * start
        mean += step * share
    at = tile * c + channels
    tl.store(means + at, mean, mask=inside)
    tl.store(squares + at, square, mask=inside)


@triton.jit
def join_stats(means, squares, mean, scale, running_mean, running_var, rows, size, tiles, c, eps, momentum,
               track: tl.constexpr, chunk: tl.constexpr, bc: tl.constexpr):  # fmt: skip
    """The mean of each channel and 1 / its deviation, from those of its tiles; running statistics moved."""
    channels = tl.program_id(0) * bc + tl.arange(0, bc)
    inside = channels < c
    whole = tl.zeros((bc,), tl.float32)
    for start in range(0, tiles, chunk):
        tile = start + tl.arange(0, chunk)
        number = tl.minimum(tl.maximum(rows - tile.to(tl.int64) * size, 0), size).to(tl.float32)
        mask = (tile < tiles)[:, None] & inside[None, :]
        where = tile[:, None] * c + channels[None, :]
        whole += tl.sum(tl.load(means + where, mask=mask, other=0.0) * number[:, None], 0)
    whole = whole / rows
    square = tl.zeros((bc,), tl.float32)
    for start in range(0, tiles, chunk):
        tile = start + tl.arange(0, chunk)
        number = tl.minimum(tl.maximum(rows - tile.to(tl.int64) * size, 0), size).to(tl.float32)
        mask = (tile < tiles)[:, None] & inside[None, :]
        where = tile[:, None] * c + channels[None, :]
        apart = tl.load(means + where, mask=mask, other=0.0) - whole[None, :]
        square += tl.sum(tl.load(squares + where, mask=mask, other=0.0) + apart * apart * number[:, None], 0)
    tl.store(mean + channels, whole, mask=inside)
    tl.store(scale + channels, 1.0 / tl.sqrt(square / rows + eps), mask=inside)
    if track:
        old = tl.load(running_mean + channels, mask=inside, other=0.0)
        tl.store(running_mean + channels, old + momentum * (whole - old), mask=inside)
        old = tl.load(running_var + channels, mask=inside, other=0.0)
        tl.store(running_var + channels, old + momentum * (square / (rows - 1) - old), mask=inside)


@triton.jit
def normalise(x, mean, scale, gain, shift, added, y, rows, c, size, bm: tl.constexpr, bc: tl.constexpr,
              add: tl.constexpr, relu: tl.constexpr):  # fmt: skip
    """y = norm of x, with `add` plus `added`, with `relu` cut at 0."""
    first = tl.program_id(0).to(tl.int64) * size
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    middle = tl.load(mean + channels, mask=inside, other=0.0)
    slope = tl.load(scale + channels, mask=inside, other=0.0) * tl.load(gain + channels, mask=inside, other=0.0)
    level = tl.load(shift + channels, mask=inside, other=0.0)
    for start in range(0, size, bm):
        row = first + start + tl.arange(0, bm)
        mask = (row < rows)[:, None] & inside[None, :]
        where = row[:, None] * c + channels[None, :]
        value = tl.load(x + where, mask=mask, other=0.0).to(tl.float32)
        value = (value - middle[None, :]) * slope[None, :] + level[None, :]
        if add:
            value += tl.load(added + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            value = tl.where(value < 0.0, 0.0, value)  # a maximum would make 0 of what is not a number
        tl.store(y + where, value.to(y.dtype.element_ty), mask=mask)


@triton.jit
def tile_slopes(dy, y, x, mean, scale, sums, products, rows, c, size, bm: tl.constexpr, bc: tl.constexpr,
                relu: tl.constexpr):  # fmt: skip
    """Of each tile and channel the sum of dz, the gradient before the ReLU, and of dz · normalised x."""
    tile = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    middle = tl.load(mean + channels, mask=inside, other=0.0)
    slope = tl.load(scale + channels, mask=inside, other=0.0)
    total = tl.zeros((bc,), tl.float32)
    product = tl.zeros((bc,), tl.float32)
    for start in range(0, size, bm):
        row = tile * size + start + tl.arange(0, bm)
        mask = (row < rows)[:, None] & inside[None, :]
        where = row[:, None] * c + channels[None, :]
        dz = tl.load(dy + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            dz = tl.where(tl.load(y + where, mask=mask, other=0.0).to(tl.float32) <= 0.0, 0.0, dz)
        normal = (tl.load(x + where, mask=mask, other=0.0).to(tl.float32) - middle[None, :]) * slope[None, :]
        total += tl.sum(dz, 0)
        product += tl.sum(dz * normal, 0)
    at = tile * c + channels
    tl.store(sums + at, total, mask=inside)
    tl.store(products + at, product, mask=inside)


@triton.jit
def join_slopes(sums, products, dshift, dgain, tiles, c, chunk: tl.constexpr, bc: tl.constexpr):
    """The gradients of shift and gain: the sums over all tiles."""
    channels = tl.program_id(0) * bc + tl.arange(0, bc)
    inside = channels < c
    total = tl.zeros((bc,), tl.float32)
    product = tl.zeros((bc,), tl.float32)
    for start in range(0, tiles, chunk):
        tile = start + tl.arange(0, chunk)
        mask = (tile < tiles)[:, None] & inside[None, :]
        where = tile[:, None] * c + channels[None, :]
        total += tl.sum(tl.load(sums + where, mask=mask, other=0.0), 0)
        product += tl.sum(tl.load(products + where, mask=mask, other=0.0), 0)
    tl.store(dshift + channels, total, mask=inside)
    tl.store(dgain + channels, product, mask=inside)


@triton.jit
def input_slopes(dy, y, x, mean, scale, gain, dshift, dgain, dx, dz, rows, c, size, bm: tl.constexpr,
                 bc: tl.constexpr, add: tl.constexpr, relu: tl.constexpr):  # fmt: skip
    """The gradient of x; with `add`, that of what was added, dz, too."""
    first = tl.program_id(0).to(tl.int64) * size
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    middle = tl.load(mean + channels, mask=inside, other=0.0)
    slope = tl.load(scale + channels, mask=inside, other=0.0)
    outer = slope * tl.load(gain + channels, mask=inside, other=0.0)
    level = tl.load(dshift + channels, mask=inside, other=0.0) / rows
    product = tl.load(dgain + channels, mask=inside, other=0.0) / rows
    for start in range(0, size, bm):
        row = first + start + tl.arange(0, bm)
        mask = (row < rows)[:, None] & inside[None, :]
        where = row[:, None] * c + channels[None, :]
        given = tl.load(dy + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            given = tl.where(tl.load(y + where, mask=mask, other=0.0).to(tl.float32) <= 0.0, 0.0, given)
        normal = (tl.load(x + where, mask=mask, other=0.0).to(tl.float32) - middle[None, :]) * slope[None, :]
        found = (given - level[None, :] - normal * product[None, :]) * outer[None, :]
        tl.store(dx + where, found.to(dx.dtype.element_ty), mask=mask)
        if add:
            tl.store(dz + where, given.to(dz.dtype.element_ty), mask=mask)
