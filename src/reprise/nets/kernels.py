"""Triton kernels for BatchNorm with ReLU and a residual, over several batches in one tensor, each normalised by itself.

A tensor holds segments of images one after the other: the incoming batch, then each replay batch. A segment may be
padded: `counts` says on the device how many of its images are real. Those alone make the statistics, and only they get
a gradient. Tensors are rows × channels: an image batch in channels-last order is that already.

Rows are cut into tiles that do not cross segments. Statistics are taken tile by tile around the tile's own mean and
then joined by Chan's formula, so that they are as exact as a two-pass computation.
"""

from __future__ import annotations

import triton
import triton.language as tl

EPS = tl.constexpr(1e-5)
MOMENTUM = tl.constexpr(0.1)


@triton.jit
def _place(tile, counts, hw, t0: tl.constexpr, t1: tl.constexpr, r0: tl.constexpr, r1: tl.constexpr,
           r2: tl.constexpr, size: tl.constexpr):  # fmt: skip
    """Segment of a tile, its place there, its first row, and how many of its rows are real, or there at all."""
    segment = (tile >= t0).to(tl.int32) + (tile >= t0 + t1).to(tl.int32)
    local = tile - tl.where(segment == 0, 0, tl.where(segment == 1, t0, t0 + t1))
    base = tl.where(segment == 0, 0, tl.where(segment == 1, r0, r0 + r1))
    there = tl.where(segment == 0, r0, tl.where(segment == 1, r1, r2)) - local * size
    real = tl.load(counts + segment) * hw - local * size
    return segment, local, base + local * size, real, there


@triton.jit
def _joined(means, squares, counts, hw, segment, first, tiles, channels,
            inside, c: tl.constexpr, size: tl.constexpr, most: tl.constexpr):  # fmt: skip
    """Mean, variance and number of a segment's rows, from those of its tiles."""
    place = tl.arange(0, most)
    number = tl.minimum(tl.maximum(tl.load(counts + segment) * hw - place * size, 0), size).to(tl.float32)
    total = tl.sum(number, 0)
    where = (first + place)[:, None] * c + channels[None, :]
    mask = (place < tiles)[:, None] & inside[None, :]
    mean = tl.load(means + where, mask=mask, other=0.0)
    square = tl.load(squares + where, mask=mask, other=0.0)
    number = tl.where(place < tiles, number, 0.0)
    divisor = tl.maximum(total, 1.0)
    whole = tl.sum(mean * number[:, None], 0) / divisor
    apart = mean - whole[None, :]
    variance = tl.sum(square + apart * apart * number[:, None], 0) / divisor
    return whole, variance, total


@triton.jit
def statistics(x, means, squares, counts, hw, c: tl.constexpr, t0: tl.constexpr,
               t1: tl.constexpr, r0: tl.constexpr, r1: tl.constexpr, r2: tl.constexpr, size: tl.constexpr,
               bm: tl.constexpr, bc: tl.constexpr):  # fmt: skip
    """Mean and sum of squares around it, for each tile and channel."""
    tile = tl.program_id(0)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, row, real, there = _place(tile, counts, hw, t0, t1, r0, r1, r2, size)
    mean = tl.zeros((bc,), tl.float32)
    square = tl.zeros((bc,), tl.float32)
    number = 0.0
    for start in range(0, size, bm):
        rows = start + tl.arange(0, bm)
        mask = (rows < real)[:, None] & inside[None, :]
        value = tl.load(x + (row + rows)[:, None] * c + channels[None, :], mask=mask, other=0.0).to(tl.float32)
        more = tl.minimum(tl.maximum(real - start, 0), bm).to(tl.float32)
        part = tl.sum(value, 0) / tl.maximum(more, 1.0)
        apart = tl.where(mask, value - part[None, :], 0.0)
        both = tl.maximum(number + more, 1.0)
        shift = part - mean
        square += tl.sum(apart * apart, 0) + shift * shift * (number * more / both)
        mean += shift * (more / both)
        number += more
    where = tile * c + channels
    tl.store(means + where, mean, mask=inside)
    tl.store(squares + where, square, mask=inside)


@triton.jit
def normalise(x, residual, y, weight, bias, means, squares, counts,
              saved_mean, saved_scale, running_mean, running_var, hw, c: tl.constexpr,
              t0: tl.constexpr, t1: tl.constexpr, t2: tl.constexpr, r0: tl.constexpr, r1: tl.constexpr,
              r2: tl.constexpr, size: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr, most: tl.constexpr,
              add: tl.constexpr, relu: tl.constexpr, segments: tl.constexpr):  # fmt: skip
    """y = relu((x − mean) / deviation · weight + bias + residual); running statistics moved once per segment."""
    tile = tl.program_id(0)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, row, real, there = _place(tile, counts, hw, t0, t1, r0, r1, r2, size)
    first = tile - local
    tiles = tl.where(segment == 0, t0, tl.where(segment == 1, t1, t2))
    mean, variance, total = _joined(means, squares, counts, hw, segment, first, tiles, channels, inside, c, size, most)
    # A segment without images has no statistics. Left at its mean of 0 it stays small, however deep the network.
    scale = tl.where(total > 0.5, 1.0 / tl.sqrt(variance + EPS), 0.0)
    if local == 0:
        tl.store(saved_mean + segment * c + channels, mean, mask=inside)
        tl.store(saved_scale + segment * c + channels, scale, mask=inside)
    if tile == 0:
        old_mean = tl.load(running_mean + channels, mask=inside, other=0.0)
        old_var = tl.load(running_var + channels, mask=inside, other=0.0)
        for one in tl.static_range(segments):
            begin = 0 if one == 0 else (t0 if one == 1 else t0 + t1)
            there_are = t0 if one == 0 else (t1 if one == 1 else t2)
            m, v, n = _joined(means, squares, counts, hw, one, begin, there_are, channels, inside, c, size, most)
            unbiased = v * (n / tl.maximum(n - 1.0, 1.0))
            step = tl.where(n > 0.5, MOMENTUM, 0.0)
            old_mean += step * (m - old_mean)
            old_var += step * (unbiased - old_var)
        tl.store(running_mean + channels, old_mean, mask=inside)
        tl.store(running_var + channels, old_var, mask=inside)
    gain = tl.load(weight + channels, mask=inside, other=0.0)
    shift = tl.load(bias + channels, mask=inside, other=0.0)
    for start in range(0, size, bm):
        rows = start + tl.arange(0, bm)
        mask = (rows < there)[:, None] & inside[None, :]
        where = (row + rows)[:, None] * c + channels[None, :]
        value = tl.load(x + where, mask=mask, other=0.0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] * gain[None, :] + shift[None, :]
        if add:
            value += tl.load(residual + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            value = tl.maximum(value, 0.0)
        tl.store(y + where, value.to(y.dtype.element_ty), mask=mask)


@triton.jit
def gradient_sums(dy, y, x, dz, saved_mean, saved_scale, sums, products,
                  counts, hw, c: tl.constexpr, t0: tl.constexpr, t1: tl.constexpr, r0: tl.constexpr,
                  r1: tl.constexpr, r2: tl.constexpr, size: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr,
                  relu: tl.constexpr, keep: tl.constexpr):  # fmt: skip
    """Per tile the sums of dz and of dz · normalised x, where dz is dy behind the ReLU; dz itself if it is wanted."""
    tile = tl.program_id(0)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, row, real, there = _place(tile, counts, hw, t0, t1, r0, r1, r2, size)
    mean = tl.load(saved_mean + segment * c + channels, mask=inside, other=0.0)
    scale = tl.load(saved_scale + segment * c + channels, mask=inside, other=0.0)
    total = tl.zeros((bc,), tl.float32)
    product = tl.zeros((bc,), tl.float32)
    for start in range(0, size, bm):
        rows = start + tl.arange(0, bm)
        mask = (rows < there)[:, None] & inside[None, :]
        where = (row + rows)[:, None] * c + channels[None, :]
        g = tl.load(dy + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            out = tl.load(y + where, mask=mask, other=0.0).to(tl.float32)
            g = tl.where(out > 0.0, g, 0.0)
        if keep:
            tl.store(dz + where, g.to(dz.dtype.element_ty), mask=mask)
        value = tl.load(x + where, mask=mask, other=0.0).to(tl.float32)
        g = tl.where((rows < real)[:, None], g, 0.0)
        total += tl.sum(g, 0)
        product += tl.sum(g * (value - mean[None, :]) * scale[None, :], 0)
    tl.store(sums + tile * c + channels, total, mask=inside)
    tl.store(products + tile * c + channels, product, mask=inside)


@triton.jit
def _added(sums, first, tiles, channels, inside, c: tl.constexpr, most: tl.constexpr):
    place = tl.arange(0, most)
    mask = (place < tiles)[:, None] & inside[None, :]
    return tl.sum(tl.load(sums + (first + place)[:, None] * c + channels[None, :], mask=mask, other=0.0), 0)


@triton.jit
def input_gradient(dy, y, x, dx, weight, saved_mean, saved_scale, sums,
                   products, dweight, dbias, counts, hw, c: tl.constexpr, t0: tl.constexpr,
                   t1: tl.constexpr, t2: tl.constexpr, r0: tl.constexpr, r1: tl.constexpr, r2: tl.constexpr,
                   size: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr, most: tl.constexpr, relu: tl.constexpr,
                   segments: tl.constexpr):  # fmt: skip
    """dx of every row, and the gradients of weight and bias over all segments."""
    tile = tl.program_id(0)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, row, real, there = _place(tile, counts, hw, t0, t1, r0, r1, r2, size)
    first = tile - local
    tiles = tl.where(segment == 0, t0, tl.where(segment == 1, t1, t2))
    if tile == 0:
        whole_sum = tl.zeros((bc,), tl.float32)
        whole_product = tl.zeros((bc,), tl.float32)
        for one in tl.static_range(segments):
            begin = 0 if one == 0 else (t0 if one == 1 else t0 + t1)
            there_are = t0 if one == 0 else (t1 if one == 1 else t2)
            whole_sum += _added(sums, begin, there_are, channels, inside, c, most)
            whole_product += _added(products, begin, there_are, channels, inside, c, most)
        tl.store(dbias + channels, whole_sum, mask=inside)
        tl.store(dweight + channels, whole_product, mask=inside)
    number = tl.maximum((tl.load(counts + segment) * hw).to(tl.float32), 1.0)
    total = _added(sums, first, tiles, channels, inside, c, most) / number
    product = _added(products, first, tiles, channels, inside, c, most) / number
    mean = tl.load(saved_mean + segment * c + channels, mask=inside, other=0.0)
    scale = tl.load(saved_scale + segment * c + channels, mask=inside, other=0.0)
    gain = tl.load(weight + channels, mask=inside, other=0.0)
    for start in range(0, size, bm):
        rows = start + tl.arange(0, bm)
        mask = (rows < there)[:, None] & inside[None, :]
        where = (row + rows)[:, None] * c + channels[None, :]
        g = tl.load(dy + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            out = tl.load(y + where, mask=mask, other=0.0).to(tl.float32)
            g = tl.where(out > 0.0, g, 0.0)
        value = (tl.load(x + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
        d = (g - total[None, :] - value * product[None, :]) * (gain * scale)[None, :]
        d = tl.where((rows < real)[:, None], d, 0.0)
        tl.store(dx + where, d.to(dx.dtype.element_ty), mask=mask)


@triton.jit
def affine(x, residual, y, scale, shift, total, c: tl.constexpr, block: tl.constexpr,
           add: tl.constexpr, relu: tl.constexpr):  # fmt: skip
    """y = relu(x · scale + shift + residual), scale and shift by channel: BatchNorm when it is read out."""
    where = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = where < total
    channel = (where % c).to(tl.int32)
    value = tl.load(x + where, mask=mask, other=0.0).to(tl.float32)
    value = value * tl.load(scale + channel, mask=mask, other=0.0) + tl.load(shift + channel, mask=mask, other=0.0)
    if add:
        value += tl.load(residual + where, mask=mask, other=0.0).to(tl.float32)
    if relu:
        value = tl.maximum(value, 0.0)
    tl.store(y + where, value.to(y.dtype.element_ty), mask=mask)
