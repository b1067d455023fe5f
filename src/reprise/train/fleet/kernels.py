"""Triton kernels of a captured step: reading the tape at a counter on the device, and the averaged read-out."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def fetch(images, labels, ids, counts, crops, counter, shift, scale,
          x, y, example, keep, group, weight, real, height: tl.constexpr,
          width: tl.constexpr, places: tl.constexpr, incoming: tl.constexpr, replay: tl.constexpr,
          segments: tl.constexpr, pad: tl.constexpr, nowhere, classes: tl.constexpr,
          block: tl.constexpr):  # fmt: skip
    """The images of the counter's step: cropped, flipped, normalised, with label, id and weight.

    `ids` has a row of places for each step: the incoming batch, then the replay batches; a place beyond a batch's
    count holds an id all the same, and gets the weight 0. `keep` is the id under which an incoming example's logits are
    kept, and `group` its class among those present: for a place that is not real, one beyond the last.
    """
    place = tl.program_id(0)
    step = tl.load(counter)
    segment = tl.where(place < incoming, 0, 1 + (place - incoming) // replay)
    within = tl.where(place < incoming, place, (place - incoming) % replay)
    count = tl.load(counts + step * segments + segment)
    one = tl.load(ids + step * places + place).to(tl.int64)
    if tl.program_id(1) == 0:
        is_real = within < count
        label = tl.load(labels + one)
        tl.store(y + place, label)
        tl.store(example + place, one)
        tl.store(weight + place, tl.where(is_real, 1.0 / tl.maximum(count, 1).to(tl.float32), 0.0))
        if place < incoming:
            tl.store(keep + place, tl.where(is_real, one, nowhere))
            tl.store(group + place, tl.where(is_real, label, classes))
        if within == 0:
            tl.store(real + segment, count)
    where = (step * places + place) * 3
    down = tl.load(crops + where).to(tl.int32) - pad
    right = tl.load(crops + where + 1).to(tl.int32) - pad
    flip = tl.load(crops + where + 2).to(tl.int32)
    element = tl.program_id(1) * block + tl.arange(0, block)
    mask = element < height * width * 3
    channel = element % 3
    column = (element // 3) % width
    row = element // (3 * width) + down
    column = tl.where(flip > 0, width - 1 - column, column) + right
    inside = mask & (row >= 0) & (row < height) & (column >= 0) & (column < width)
    source = images + one * (height * width * 3) + (row * width + column) * 3 + channel
    value = tl.load(source, mask=inside, other=0).to(tl.float32)
    value = (value - tl.load(shift + channel, mask=mask, other=0.0)) * tl.load(scale + channel, mask=mask, other=0.0)
    tl.store(x + place * (height * width * 3) + element, value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def descend(state, mean, copy, gradients, tensors, starts, places, sizes, real, lr, decay, horizon: tl.constexpr,
            half: tl.constexpr, block: tl.constexpr):  # fmt: skip
    """A step of SGD over many tensors; then mean += (n / horizon) · (weight − mean) for n examples that came in.

    A program has a piece of one tensor: `tensors` and `starts` say which, `places` where a tensor lies in the row of
    all weights, `gradients` where its gradient lies in memory. With `half`, gradients are bf16, and so is a copy of the
    weights, which is written too.
    """
    program = tl.program_id(0)
    tensor = tl.load(tensors + program)
    within = tl.load(starts + program) + tl.arange(0, block)
    mask = within < tl.load(sizes + tensor)
    where = tl.load(places + tensor) + within
    address = tl.load(gradients + tensor)
    if half:
        slope = tl.load(address.to(tl.pointer_type(tl.bfloat16)) + within, mask=mask, other=0.0).to(tl.float32)
    else:
        slope = tl.load(address.to(tl.pointer_type(tl.float32)) + within, mask=mask, other=0.0)
    weight = tl.load(state + where, mask=mask, other=0.0)
    weight -= lr * (slope + decay * weight)
    tl.store(state + where, weight, mask=mask)
    if half:
        tl.store(copy + where, weight.to(tl.bfloat16), mask=mask)
    rate = tl.minimum(tl.load(real).to(tl.float32) / horizon, 1.0)
    then = tl.load(mean + where, mask=mask, other=0.0)
    tl.store(mean + where, then + rate * (weight - then), mask=mask)


@triton.jit
def average(state, mean, real, total, horizon: tl.constexpr, block: tl.constexpr):
    """mean += (n / horizon) · (state − mean) for n examples that came in."""
    where = tl.program_id(0) * block + tl.arange(0, block)
    mask = where < total
    rate = tl.minimum(tl.load(real).to(tl.float32) / horizon, 1.0)
    now = tl.load(state + where, mask=mask, other=0.0)
    then = tl.load(mean + where, mask=mask, other=0.0)
    tl.store(mean + where, then + rate * (now - then), mask=mask)
