"""Triton kernels of BatchNorm in training, with the sum and the ReLU behind it.

Images lie channels last: a row of channels for each position of each image. Statistics come tile by tile, each around
the tile's own mean, and are joined by Chan's formula, all tiles of a few channels by one program. Sums are in single
precision and in a fixed order, so that the same input always gives the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_stats(x, means, squares, rows, c, size, bm: tl.constexpr, bc: tl.constexpr):
    """Of each tile and channel the mean, and the sum of squares around it.

    Each row of a block has a mean and squares of its own, by Welford's method; they are joined once, at the end.
    """
    tile = tl.program_id(0).to(tl.int64)
    first = tile * size
    number = tl.minimum(rows - first, size).to(tl.int32)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    lane = tl.arange(0, bm)
    block = x + first * c
    where = lane[:, None] * c + channels[None, :]
    mean = tl.zeros((bm, bc), tl.float32)
    square = tl.zeros((bm, bc), tl.float32)
    full = number // bm
    for done in tl.range(0, full, num_stages=4):  # loads go ahead of sums
        value = tl.load(block + done * (bm * c) + where, mask=inside[None, :], other=0.0).to(tl.float32)
        apart = value - mean
        mean += apart * (1.0 / (done + 1.0))
        square += apart * (value - mean)
    counts = tl.zeros((bm,), tl.float32) + full.to(tl.float32)
    if full * bm < number:
        more = full * bm + lane < number
        mask = more[:, None] & inside[None, :]
        value = tl.load(block + full * (bm * c) + where, mask=mask, other=0.0).to(tl.float32)
        apart = value - mean
        mean += tl.where(mask, apart * (1.0 / (full + 1.0)), 0.0)
        square += tl.where(mask, apart * (value - mean), 0.0)
        counts += more.to(tl.float32)
    whole = tl.sum(mean * counts[:, None], 0) / number.to(tl.float32)
    apart = mean - whole[None, :]
    at = tile * c + channels
    tl.store(means + at, whole, mask=inside)
    tl.store(squares + at, tl.sum(square + apart * apart * counts[:, None], 0), mask=inside)


@triton.jit
def join_stats(means, squares, mean, scale, running_mean, running_var, rows, size, tiles, c, eps, momentum,
               track: tl.constexpr, most: tl.constexpr, bc: tl.constexpr):  # fmt: skip
    """The mean of each channel and 1 / its deviation, from those of its tiles; running statistics moved."""
    channels = tl.program_id(0) * bc + tl.arange(0, bc)
    inside = channels < c
    tile = tl.arange(0, most)
    number = tl.minimum(tl.maximum(rows - tile.to(tl.int64) * size, 0), size).to(tl.float32)
    mask = (tile < tiles)[:, None] & inside[None, :]
    where = tile[:, None] * c + channels[None, :]
    own = tl.load(means + where, mask=mask, other=0.0)
    whole = tl.sum(own * number[:, None], 0) / rows
    apart = own - whole[None, :]
    square = tl.sum(tl.load(squares + where, mask=mask, other=0.0) + apart * apart * number[:, None], 0)
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
def join_slopes(sums, products, dshift, dgain, tiles, c, most: tl.constexpr, bc: tl.constexpr):
    """The gradients of shift and gain: the sums over all tiles."""
    channels = tl.program_id(0) * bc + tl.arange(0, bc)
    inside = channels < c
    tile = tl.arange(0, most)
    mask = (tile < tiles)[:, None] & inside[None, :]
    where = tile[:, None] * c + channels[None, :]
    tl.store(dshift + channels, tl.sum(tl.load(sums + where, mask=mask, other=0.0), 0), mask=inside)
    tl.store(dgain + channels, tl.sum(tl.load(products + where, mask=mask, other=0.0), 0), mask=inside)


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
