"""Triton kernels for the convolutions of many networks at once: one tensor of images and one of weights for each run.

Images are channels last, and so are weights: outputs × taps × inputs. A tile is some positions of the images times some
channels, and never crosses from one batch of a run to the next: so what BatchNorm needs of a tile, its mean and its
spread on the way forward and the sums of its gradient on the way back, is made here as well, while the tile is at hand.

`counts` says how many images of each batch of each run are real. A run whose incoming batch has none rests, and its
programs end at once.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def segment_of(tile, counts, t0, t1, n0, n1, n2):
    """A tile's batch, its number among the batch's tiles, the batch's first image, its size, and its real images."""
    segment = (tile >= t0).to(tl.int32) + (tile >= t0 + t1).to(tl.int32)
    local = tile - tl.where(segment == 0, 0, tl.where(segment == 1, t0, t0 + t1))
    first = tl.where(segment == 0, 0, tl.where(segment == 1, n0, n0 + n1))
    there = tl.where(segment == 0, n0, tl.where(segment == 1, n1, n2))
    return segment, local, first, there, tl.load(counts + segment)


@triton.jit
def convolve(x, w, y, means, squares, counts, w_run,
             h: tl.constexpr, wd: tl.constexpr, p: tl.constexpr, q: tl.constexpr, c: tl.constexpr, k: tl.constexpr,
             side: tl.constexpr, stride: tl.constexpr, wk: tl.constexpr, wt: tl.constexpr, wc: tl.constexpr,
             images: tl.constexpr, segments: tl.constexpr, t0: tl.constexpr, t1: tl.constexpr, t2: tl.constexpr,
             n0: tl.constexpr, n1: tl.constexpr, n2: tl.constexpr,
             bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, precision: tl.constexpr):  # fmt: skip
    """y = x convolved with w, c channels to k; and of each tile and channel of y the mean and the squares around it.

    `wk`, `wt` and `wc` are the steps from one output, tap or input of the weights to the next.
    """
    run = tl.program_id(1).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    blocks: tl.constexpr = (k + bn - 1) // bn
    tile = tl.program_id(0) // blocks
    outs = tl.program_id(0) % blocks * bn + tl.arange(0, bn)
    _, local, first, there, real = segment_of(tile, counts, t0, t1, n0, n1, n2)
    within = local * bm + tl.arange(0, bm)
    image = within // (p * q)
    up = within // q % p * stride - side // 2
    left = within % q * stride - side // 2
    is_there = image < there
    x += run * (images * h * wd * c)
    w += run * w_run
    base = ((first + image) * h + up) * (wd * c) + left * c
    acc = tl.zeros((bm, bn), tl.float32)
    if c % bk == 0:
        inner = tl.arange(0, bk)
        per: tl.constexpr = c // bk
        for i in range(side * side * per):
            tap = i // per
            r = tap // side
            s = tap % side
            ok = is_there & (up + r >= 0) & (up + r < h) & (left + s >= 0) & (left + s < wd)
            at = x + (base + (r * wd + s) * c + i % per * bk)[:, None] + inner[None, :]
            a = tl.load(at, mask=ok[:, None], other=0.0)
            at = w + outs[None, :] * wk + tap * wt + (i % per * bk + inner)[:, None] * wc
            b = tl.load(at) if k % bn == 0 else tl.load(at, mask=(outs < k)[None, :], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=precision)
    else:  # few channels: taps and inputs in one row
        depth: tl.constexpr = side * side * c
        for i in range((depth + bk - 1) // bk):
            inner = i * bk + tl.arange(0, bk)
            r = (inner // c // side)[None, :]
            s = (inner // c % side)[None, :]
            rows = up[:, None] + r
            columns = left[:, None] + s
            ok = is_there[:, None] & (rows >= 0) & (rows < h) & (columns >= 0) & (columns < wd)
            at = x + base[:, None] + (r * wd + s) * c + (inner % c)[None, :]
            a = tl.load(at, mask=ok & (inner < depth)[None, :], other=0.0)
            at = w + outs[None, :] * wk + (inner // c * wt + inner % c * wc)[:, None]
            b = tl.load(at, mask=(outs < k)[None, :] & (inner < depth)[:, None], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=precision)
    value = acc.to(y.dtype.element_ty)
    where = (run * images + first) * (p * q) + within
    tl.store(y + where[:, None] * k + outs[None, :], value, mask=is_there[:, None] & (outs < k)[None, :])
    value = value.to(tl.float32)
    number = tl.minimum(tl.maximum(real * (p * q) - local * bm, 0), bm)
    counted = (tl.arange(0, bm) < number)[:, None]
    mean = tl.sum(tl.where(counted, value, 0.0), 0) / tl.maximum(number, 1).to(tl.float32)
    apart = tl.where(counted, value - mean[None, :], 0.0)
    entry = (run * (t0 + t1 + t2) + tile) * k + outs
    tl.store(means + entry, mean, mask=outs < k)
    tl.store(squares + entry, tl.sum(apart * apart, 0), mask=outs < k)


@triton.jit
def conv_input_grad(dy, w, dz, around, around_dy, around_w, out, x1, mean1, scale1, x2, mean2, scale2,
         sums, products1, products2, counts, w_run,
         h: tl.constexpr, wd: tl.constexpr, p: tl.constexpr, q: tl.constexpr, c: tl.constexpr, k: tl.constexpr,
         stride: tl.constexpr, wk: tl.constexpr, wt: tl.constexpr, wc: tl.constexpr,
         around_wk: tl.constexpr, around_wc: tl.constexpr, images: tl.constexpr, segments: tl.constexpr,
         t0: tl.constexpr, t1: tl.constexpr, t2: tl.constexpr,
         n0: tl.constexpr, n1: tl.constexpr, n2: tl.constexpr,
         bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, precision: tl.constexpr,
         add: tl.constexpr, projected: tl.constexpr, two: tl.constexpr):  # fmt: skip
    """dz: what a 3×3 convolution's output gradient dy gives for its input `out`, and on through the ReLU that made it.

    With `add` the gradient that came the way around is added; with `projected`, the one that comes through the 1×1
    convolution there. Of each tile and channel of dz: its sum, and its product with what was normalised before the
    ReLU, (x1 − mean1) · scale1; with `two`, with x2 as well. Where the convolution goes two positions at a time, a tile
    has positions of one parity, which see one, two or four of the nine taps.
    """
    run = tl.program_id(1).to(tl.int64)
    counts += run * segments
    if tl.load(counts) == 0:
        return
    blocks: tl.constexpr = (c + bn - 1) // bn
    tile = tl.program_id(0) // blocks
    ins = tl.program_id(0) % blocks * bn + tl.arange(0, bn)
    segment, local, first, there, _ = segment_of(tile, counts, t0, t1, n0, n1, n2)
    parity = local % (stride * stride)
    down = parity // stride
    right = parity % stride
    within = local // (stride * stride) * bm + tl.arange(0, bm)
    image = within // (p * q)
    row = within // q % p * stride + down
    column = within % q * stride + right
    is_there = (image < there) & (row < h) & (column < wd)
    taps_down = 3 if stride == 1 else 1 + down
    taps_right = 3 if stride == 1 else 1 + right
    dy += run * (images * p * q * k)
    w += run * w_run
    source = (first + image) * (p * q)
    inner = tl.arange(0, bk)
    per: tl.constexpr = (k + bk - 1) // bk
    acc = tl.zeros((bm, bn), tl.float32)
    for i in range(taps_down * taps_right * per):
        outs = i % per * bk + inner
        r = i // per // taps_right
        s = i // per % taps_right
        if stride == 2:
            r = tl.where(down == 0, 1, 2 * r)
            s = tl.where(right == 0, 1, 2 * s)
        up = (row + 1 - r) // stride
        left = (column + 1 - s) // stride
        ok = is_there & (row + 1 - r >= 0) & (up < p) & (column + 1 - s >= 0) & (left < q)
        at_dy = dy + (source + up * q + left)[:, None] * k + outs[None, :]
        at_w = w + outs[:, None] * wk + (r * 3 + s) * wt + ins[None, :] * wc
        if k % bk == 0 and c % bn == 0:
            a = tl.load(at_dy, mask=ok[:, None], other=0.0)
            b = tl.load(at_w)
        else:
            a = tl.load(at_dy, mask=ok[:, None] & (outs < k)[None, :], other=0.0)
            b = tl.load(at_w, mask=(outs < k)[:, None] & (ins < c)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=precision)
    if projected:  # noqa: SIM102 - only this is known when the kernel is compiled
        if parity == 0:
            around_dy += run * (images * p * q * k)
            around_w += run * w_run
            for i in range(per):
                outs = i * bk + inner
                at = (source + row // stride * q + column // stride)[:, None] * k + outs[None, :]
                a = tl.load(around_dy + at, mask=is_there[:, None] & (outs < k)[None, :], other=0.0)
                at_w = around_w + outs[:, None] * around_wk + ins[None, :] * around_wc
                b = tl.load(at_w, mask=(outs < k)[:, None] & (ins < c)[None, :], other=0.0)
                acc = tl.dot(a, b, acc, input_precision=precision)
    where = (((run * images + first + image) * h + row) * wd + column)[:, None] * c + ins[None, :]
    mask = is_there[:, None] & (ins < c)[None, :]
    if add:
        acc += tl.load(around + where, mask=mask, other=0.0).to(tl.float32)
    kept = tl.load(out + where, mask=mask, other=0.0).to(tl.float32) > 0.0
    value = tl.where(kept, acc, 0.0).to(dz.dtype.element_ty)  # 0 for what is not real, as dy and `around` are
    tl.store(dz + where, value, mask=mask)
    value = value.to(tl.float32)
    entry = (run * (t0 + t1 + t2) + tile) * c + ins
    at = (run * segments + segment) * c + ins
    tl.store(sums + entry, tl.sum(value, 0), mask=ins < c)
    mean = tl.load(mean1 + at, mask=ins < c, other=0.0)
    scale = tl.load(scale1 + at, mask=ins < c, other=0.0)
    normal = (tl.load(x1 + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
    tl.store(products1 + entry, tl.sum(value * normal, 0), mask=ins < c)
    if two:
        mean = tl.load(mean2 + at, mask=ins < c, other=0.0)
        scale = tl.load(scale2 + at, mask=ins < c, other=0.0)
        normal = (tl.load(x2 + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
        tl.store(products2 + entry, tl.sum(value * normal, 0), mask=ins < c)


@triton.jit
def conv_weight_grad(dy, x, dw, counts, dw_run, dw_part,
          h: tl.constexpr, wd: tl.constexpr, p: tl.constexpr, q: tl.constexpr, c: tl.constexpr, k: tl.constexpr,
          side: tl.constexpr, stride: tl.constexpr, images: tl.constexpr, segments: tl.constexpr,
          rows: tl.constexpr, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr,
          precision: tl.constexpr):  # fmt: skip
    """The gradient of a convolution's weights, in parts: each over `rows` positions of the output, to be added up.

    A program has the taps of one row, which share what they read of dy.
    """
    run = tl.program_id(1).to(tl.int64)
    if tl.load(counts + run * segments) == 0:
        return
    across: tl.constexpr = (c + bn - 1) // bn
    down: tl.constexpr = (k + bm - 1) // bm
    program = tl.program_id(0)
    ins = program % across * bn + tl.arange(0, bn)
    outs = program // across % down * bm + tl.arange(0, bm)
    r = program // (across * down) % side
    part = program // (across * down * side)
    dy += run * (images * p * q * k)
    x += run * (images * h * wd * c)
    total: tl.constexpr = images * p * q
    acc = tl.zeros((bm, bn), tl.float32)
    left_acc = tl.zeros((bm, bn), tl.float32)
    right_acc = tl.zeros((bm, bn), tl.float32)
    for start in range(0, rows, bk):
        m = part * rows + start + tl.arange(0, bk)
        a = tl.load(dy + m[None, :] * k + outs[:, None], mask=(m < total)[None, :] & (outs < k)[:, None], other=0.0)
        up = m // q % p * stride + r - side // 2
        left = m % q * stride
        ok = (m < total) & (up >= 0) & (up < h)
        at = x + ((m // (p * q) * h + up) * wd + left)[:, None] * c + ins[None, :]
        b = tl.load(at, mask=ok[:, None] & (ins < c)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=precision)
        if side == 3:
            b = tl.load(at - c, mask=(ok & (left > 0))[:, None] & (ins < c)[None, :], other=0.0)
            left_acc = tl.dot(a, b, left_acc, input_precision=precision)
            b = tl.load(at + c, mask=(ok & (left + 1 < wd))[:, None] & (ins < c)[None, :], other=0.0)
            right_acc = tl.dot(a, b, right_acc, input_precision=precision)
    mask = (outs < k)[:, None] & (ins < c)[None, :]
    where = dw + run * dw_run + part * dw_part
    where += (outs * (side * side) + r * side + side // 2)[:, None] * c + ins[None, :]
    tl.store(where, acc, mask=mask)
    if side == 3:
        tl.store(where - c, left_acc, mask=mask)
        tl.store(where + c, right_acc, mask=mask)
