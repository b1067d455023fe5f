"""Triton kernels for BatchNorm of many networks at once, with the ReLU and the residual sum that follow it.

A run's tensor holds batches of images one after the other: the incoming batch, then each replay batch. Each is
normalised by itself. A batch may be padded: `counts` says on the device how many of its images are real. Those alone
make the statistics, and only they get a gradient.

Statistics come tile by tile, each around the tile's own mean, and are joined by Chan's formula, so that they are as
exact as a two-pass computation.
"""

from __future__ import annotations

import triton
import triton.language as tl

from reprise.fleet import grouping
from reprise.fleet.engine.convolve import segment_of

EPS = tl.constexpr(grouping.EPS)
MOMENTUM = tl.constexpr(grouping.MOMENTUM)


@triton.jit
def bn_stats(means, squares, counts, mean, scale, running_mean, running_var, run_length, hw,
           c, segments: tl.constexpr, t0, t1, t2,
           size: tl.constexpr, chunk: tl.constexpr, bc: tl.constexpr, track: tl.constexpr):  # fmt: skip
    """Mean and 1 / deviation of each batch, from its tiles'; with `track`, running statistics moved once per batch."""
    run = tl.program_id(1).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    channels = tl.program_id(0) * bc + tl.arange(0, bc)
    inside = channels < c
    means += run * (t0 + t1 + t2) * c
    squares += run * (t0 + t1 + t2) * c
    running_mean += run * run_length
    running_var += run * run_length
    old_mean = tl.load(running_mean + channels, mask=inside, other=0.0)
    old_var = tl.load(running_var + channels, mask=inside, other=0.0)
    for segment in tl.static_range(segments):
        first = 0 if segment == 0 else (t0 if segment == 1 else t0 + t1)
        tiles = t0 if segment == 0 else (t1 if segment == 1 else t2)
        rows = tl.load(counts + segment) * hw
        divisor = tl.maximum(rows, 1).to(tl.float32)
        whole = tl.zeros((bc,), tl.float32)
        for start in range(0, tiles, chunk):
            tile = start + tl.arange(0, chunk)
            number = tl.minimum(tl.maximum(rows - tile * size, 0), size).to(tl.float32)
            where = (first + tile)[:, None] * c + channels[None, :]
            mask = (tile < tiles)[:, None] & inside[None, :]
            whole += tl.sum(tl.load(means + where, mask=mask, other=0.0) * number[:, None], 0)
        whole = whole / divisor
        square = tl.zeros((bc,), tl.float32)
        for start in range(0, tiles, chunk):
            tile = start + tl.arange(0, chunk)
            number = tl.minimum(tl.maximum(rows - tile * size, 0), size).to(tl.float32)
            where = (first + tile)[:, None] * c + channels[None, :]
            mask = (tile < tiles)[:, None] & inside[None, :]
            apart = tl.load(means + where, mask=mask, other=0.0) - whole[None, :]
            square += tl.sum(tl.load(squares + where, mask=mask, other=0.0) + apart * apart * number[:, None], 0)
        variance = square / divisor
        # A batch without images has no statistics. Left at its mean of 0 it stays small, however deep the network.
        at = (run * segments + segment) * c + channels
        tl.store(mean + at, whole, mask=inside)
        tl.store(scale + at, tl.where(rows > 0, 1.0 / tl.sqrt(variance + EPS), 0.0), mask=inside)
        step = tl.where(rows > 0, MOMENTUM, 0.0)
        old_mean += step * (whole - old_mean)
        old_var += step * (square / tl.maximum(rows - 1, 1).to(tl.float32) - old_var)
    if track:
        tl.store(running_mean + channels, old_mean, mask=inside)
        tl.store(running_var + channels, old_var, mask=inside)


@triton.jit
def normalise(x1, mean1, scale1, gain1, shift1, x2, mean2, scale2, gain2, shift2, y, counts, run_length,
              hw, c, images, segments: tl.constexpr,
              t0, t1, n0, n1, n2,
              size: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr,
              add: tl.constexpr, two: tl.constexpr):  # fmt: skip
    """y = relu(norm of x1), with `add` relu(norm of x1 + x2), with `two` relu(norm of x1 + norm of x2)."""
    run = tl.program_id(2).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, first, there, real = segment_of(tl.program_id(0), counts, t0, t1, n0, n1, n2)
    at = (run * segments + segment) * c + channels
    own = run * run_length + channels
    mean = tl.load(mean1 + at, mask=inside, other=0.0)
    scale = tl.load(scale1 + at, mask=inside, other=0.0) * tl.load(gain1 + own, mask=inside, other=0.0)
    shift = tl.load(shift1 + own, mask=inside, other=0.0)
    if two:
        other_mean = tl.load(mean2 + at, mask=inside, other=0.0)
        other = tl.load(scale2 + at, mask=inside, other=0.0) * tl.load(gain2 + own, mask=inside, other=0.0)
        shift += tl.load(shift2 + own, mask=inside, other=0.0)
    base = (run * images + first) * hw
    for start in range(0, size, bm):
        rows = local * size + start + tl.arange(0, bm)
        mask = (rows < there * hw)[:, None] & inside[None, :]
        where = (base + rows)[:, None] * c + channels[None, :]
        value = (tl.load(x1 + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
        value += shift[None, :]
        if add:
            value += tl.load(x2 + where, mask=mask, other=0.0).to(tl.float32)
        if two:
            value += (tl.load(x2 + where, mask=mask, other=0.0).to(tl.float32) - other_mean[None, :]) * other[None, :]
        tl.store(y + where, tl.maximum(value, 0.0).to(y.dtype.element_ty), mask=mask)


@triton.jit
def spread(dfeatures, out, x1, mean1, scale1, dz, sums, products, counts,
           hw: tl.constexpr, c: tl.constexpr, images: tl.constexpr, segments: tl.constexpr,
           t0: tl.constexpr, t1: tl.constexpr, t2: tl.constexpr, n0: tl.constexpr, n1: tl.constexpr,
           n2: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr):  # fmt: skip
    """dz of the last layer, whose mean over the image made the features; and of each tile its sum and product."""
    run = tl.program_id(2).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    tile = tl.program_id(0)
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, first, there, real = segment_of(tile, counts, t0, t1, n0, n1, n2)
    rows = local * bm + tl.arange(0, bm)
    mask = (rows < there * hw)[:, None] & inside[None, :]
    image = run * images + first + rows // hw
    where = ((run * images + first) * hw + rows)[:, None] * c + channels[None, :]
    value = tl.load(dfeatures + image[:, None] * c + channels[None, :], mask=mask, other=0.0).to(tl.float32) / hw
    kept = tl.load(out + where, mask=mask, other=0.0).to(tl.float32) > 0.0
    value = tl.where(kept & (rows < real * hw)[:, None], value, 0.0).to(dz.dtype.element_ty)
    tl.store(dz + where, value, mask=mask)
    value = value.to(tl.float32)
    at = (run * segments + segment) * c + channels
    mean = tl.load(mean1 + at, mask=inside, other=0.0)
    scale = tl.load(scale1 + at, mask=inside, other=0.0)
    normal = (tl.load(x1 + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
    entry = (run * (t0 + t1 + t2) + tile) * c + channels
    tl.store(sums + entry, tl.sum(value, 0), mask=inside)
    tl.store(products + entry, tl.sum(value * normal, 0), mask=inside)


@triton.jit
def bn_weight_grad(sums, products, counts, mean_dz, mean_product, dgain, dshift, gradient_length, hw,
           c, segments: tl.constexpr, t0, t1, t2,
           chunk: tl.constexpr, bc: tl.constexpr):  # fmt: skip
    """The means over each batch of dz and of dz · normalised x; and the gradients of gain and shift over all."""
    run = tl.program_id(1).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    channels = tl.program_id(0) * bc + tl.arange(0, bc)
    inside = channels < c
    sums += run * (t0 + t1 + t2) * c
    products += run * (t0 + t1 + t2) * c
    whole_sum = tl.zeros((bc,), tl.float32)
    whole_product = tl.zeros((bc,), tl.float32)
    for segment in tl.static_range(segments):
        first = 0 if segment == 0 else (t0 if segment == 1 else t0 + t1)
        tiles = t0 if segment == 0 else (t1 if segment == 1 else t2)
        total = tl.zeros((bc,), tl.float32)
        product = tl.zeros((bc,), tl.float32)
        for start in range(0, tiles, chunk):
            tile = start + tl.arange(0, chunk)
            where = (first + tile)[:, None] * c + channels[None, :]
            mask = (tile < tiles)[:, None] & inside[None, :]
            total += tl.sum(tl.load(sums + where, mask=mask, other=0.0), 0)
            product += tl.sum(tl.load(products + where, mask=mask, other=0.0), 0)
        divisor = tl.maximum(tl.load(counts + segment) * hw, 1).to(tl.float32)
        at = (run * segments + segment) * c + channels
        tl.store(mean_dz + at, total / divisor, mask=inside)
        tl.store(mean_product + at, product / divisor, mask=inside)
        whole_sum += total
        whole_product += product
    own = run * gradient_length + channels
    tl.store(dgain + own, whole_product, mask=inside)
    tl.store(dshift + own, whole_sum, mask=inside)


@triton.jit
def input_gradient(dz, x1, mean1, scale1, gain1, mean_dz, mean_product1, dx1,
                   x2, mean2, scale2, gain2, mean_product2, dx2, counts, run_length,
                   hw, c, images, segments: tl.constexpr,
                   t0, t1, n0, n1, n2,
                   size: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr, two: tl.constexpr):  # fmt: skip
    """What dz gives for the input x1 of BatchNorm; with `two`, also for x2, whose norm was added."""
    run = tl.program_id(2).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    channels = tl.program_id(1) * bc + tl.arange(0, bc)
    inside = channels < c
    segment, local, first, there, real = segment_of(tl.program_id(0), counts, t0, t1, n0, n1, n2)
    at = (run * segments + segment) * c + channels
    own = run * run_length + channels
    level = tl.load(mean_dz + at, mask=inside, other=0.0)
    mean = tl.load(mean1 + at, mask=inside, other=0.0)
    scale = tl.load(scale1 + at, mask=inside, other=0.0)
    product = tl.load(mean_product1 + at, mask=inside, other=0.0)
    gain = tl.load(gain1 + own, mask=inside, other=0.0) * scale
    if two:
        other_mean = tl.load(mean2 + at, mask=inside, other=0.0)
        other_scale = tl.load(scale2 + at, mask=inside, other=0.0)
        other_product = tl.load(mean_product2 + at, mask=inside, other=0.0)
        other_gain = tl.load(gain2 + own, mask=inside, other=0.0) * other_scale
    base = (run * images + first) * hw
    for start in range(0, size, bm):
        rows = local * size + start + tl.arange(0, bm)
        mask = (rows < there * hw)[:, None] & inside[None, :]
        is_real = (rows < real * hw)[:, None]
        where = (base + rows)[:, None] * c + channels[None, :]
        g = tl.load(dz + where, mask=mask, other=0.0).to(tl.float32) - level[None, :]
        normal = (tl.load(x1 + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
        d = tl.where(is_real, (g - normal * product[None, :]) * gain[None, :], 0.0)
        tl.store(dx1 + where, d.to(dx1.dtype.element_ty), mask=mask)
        if two:
            normal = tl.load(x2 + where, mask=mask, other=0.0).to(tl.float32) - other_mean[None, :]
            d = (g - normal * other_scale[None, :] * other_product[None, :]) * other_gain[None, :]
            tl.store(dx2 + where, tl.where(is_real, d, 0.0).to(dx2.dtype.element_ty), mask=mask)


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
