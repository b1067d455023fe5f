"""Triton kernels of a captured step of many runs: reading tapes at counters on the device, moves, SGD, the average."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def fetch(images, labels, ids, counts, crops, counter, active, shift, scale,
          x, y, example, keep, group, weight, real, longest, height: tl.constexpr,
          width: tl.constexpr, positions: tl.constexpr, incoming: tl.constexpr, replay: tl.constexpr,
          segments: tl.constexpr, pad: tl.constexpr, nowhere, classes: tl.constexpr,
          block: tl.constexpr):  # fmt: skip
    """The images of the step where each run's counter stands: cropped, flipped, normalised, with label, id and weight.

    `ids` has a row of positions for each step: the incoming batch, then the replay batches; a position beyond a batch's
    count holds an id all the same, and gets the weight 0. A run that is not active has no real image. `keep` is the
    id under which an incoming example's logits are kept, and `group` its class among those present: for a position that
    is not real, one beyond the last.
    """
    position = tl.program_id(0)
    run = tl.program_id(2).to(tl.int64)
    step = run * longest + tl.load(counter + run)
    segment = tl.where(position < incoming, 0, 1 + (position - incoming) // replay)
    within = tl.where(position < incoming, position, (position - incoming) % replay)
    count = tl.load(counts + step * segments + segment) * tl.load(active + run)
    one = tl.load(ids + step * positions + position).to(tl.int64)
    here = run * positions + position
    if tl.program_id(1) == 0:
        is_real = within < count
        label = tl.load(labels + one)
        tl.store(y + here, label)
        tl.store(example + here, one)
        tl.store(weight + here, tl.where(is_real, 1.0 / tl.maximum(count, 1).to(tl.float32), 0.0))
        if position < incoming:
            tl.store(keep + run * incoming + position, tl.where(is_real, one, nowhere))
            tl.store(group + run * incoming + position, tl.where(is_real, label, classes))
        if within == 0:
            tl.store(real + run * segments + segment, count)
    where = (step * positions + position) * 3
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
    tl.store(x + here * (height * width * 3) + element, value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def _inputs_last(number, inputs, taps):
    """Where a number of a tensor of outputs × inputs × taps lies once it is outputs × taps × inputs."""
    return (number // (inputs * taps) * taps + number % taps) * inputs + number // taps % inputs


@triton.jit
def collect(gradient, flat, firsts, lefts, begins, starts, sources, inputs, taps, parts, steps, real, gradient_length,
            flat_length, block: tl.constexpr):  # fmt: skip
    """Gradients in parts and inputs last, as `sgd_ema` reads them, made a row for each run, in the parameters' order.

    A program has a piece of one tensor: from its number `firsts` on, `lefts` numbers, of a tensor that begins at
    `begins` of the row; see `sgd_ema` for `sources`, `parts` and `steps`.
    """
    piece = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    if tl.load(real + run) == 0:
        return
    within = tl.arange(0, block)
    mask = within < tl.load(lefts + piece)
    number = tl.load(firsts + piece) + within
    place = _inputs_last(number, tl.load(inputs + piece), tl.load(taps + piece))
    source = gradient + run * gradient_length + tl.load(sources + piece) + place
    slope = tl.load(source, mask=mask, other=0.0)
    step = tl.load(steps + piece)
    for part in range(1, tl.load(parts + piece)):
        slope += tl.load(source + part * step, mask=mask, other=0.0)
    tl.store(flat + run * flat_length + tl.load(begins + piece) + number, slope, mask=mask)


@triton.jit
def add_move(state, copy, move, firsts, lefts, begins, starts, sources, inputs, taps, parts, steps, real, copied,
             block: tl.constexpr):  # fmt: skip
    """Add a row in the parameters' order to a run's weights, and write the copies in bf16 of the first `copied`.

    Pieces are those of `collect`; `starts` says where a tensor begins in the row of weights.
    """
    if tl.load(real) == 0:
        return
    piece = tl.program_id(0)
    within = tl.arange(0, block)
    mask = within < tl.load(lefts + piece)
    number = tl.load(firsts + piece) + within
    place = tl.load(starts + piece) + _inputs_last(number, tl.load(inputs + piece), tl.load(taps + piece))
    weight = tl.load(state + place, mask=mask, other=0.0)
    weight += tl.load(move + tl.load(begins + piece) + number, mask=mask, other=0.0)
    tl.store(state + place, weight, mask=mask)
    tl.store(copy + place, weight.to(copy.dtype.element_ty), mask=mask & (place < copied))


@triton.jit
def sgd_ema(state, mean, copy, gradient, starts, sources, sizes, parts, steps, real, row_length, copy_length,
            gradient_length, segments, lr, decay, horizon: tl.constexpr, copied, block: tl.constexpr):  # fmt: skip
    """A step of SGD over all weights; then mean += (n / horizon) · (weight − mean) for n examples that came in.

    A program has a piece of one tensor: `starts` says where it lies in a run's row of weights, `sources` where in its
    row of gradients, `sizes` how long it is; the gradient is the sum of `parts`, `steps` apart. All of these are
    multiples of 64, and there is nothing but 0 between tensors. Of the first `copied` weights there is a copy in bf16,
    which is written too.
    """
    piece = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    came = tl.load(real + run * segments)
    if came == 0:
        return
    within = tl.arange(0, block)
    mask = within < tl.multiple_of(tl.load(sizes + piece), 64)
    source = gradient + run * gradient_length + tl.multiple_of(tl.load(sources + piece), 64) + within
    slope = tl.load(source, mask=mask, other=0.0)
    step = tl.multiple_of(tl.load(steps + piece), 64)
    for part in range(1, tl.load(parts + piece)):
        slope += tl.load(source + part * step, mask=mask, other=0.0)
    start = tl.multiple_of(tl.load(starts + piece), 64)
    where = run * row_length + start + within
    weight = tl.load(state + where, mask=mask, other=0.0)
    weight -= lr * (slope + decay * weight)
    tl.store(state + where, weight, mask=mask)
    has_copy = mask & (start + within < copied)
    tl.store(copy + run * copy_length + start + within, weight.to(copy.dtype.element_ty), mask=has_copy)
    rate = tl.minimum(came.to(tl.float32) / horizon, 1.0)
    then = tl.load(mean + where, mask=mask, other=0.0)
    tl.store(mean + where, then + rate * (weight - then), mask=mask)


@triton.jit
def average(state, mean, real, first, row_length, segments, horizon: tl.constexpr, block: tl.constexpr):
    """mean += (n / horizon) · (state − mean) for n examples that came in, of the numbers of a row from `first` on."""
    run = tl.program_id(1).to(tl.int64)
    came = tl.load(real + run * segments)
    if came == 0:
        return
    within = first + tl.program_id(0) * block + tl.arange(0, block)
    mask = within < row_length
    where = run * row_length + within
    rate = tl.minimum(came.to(tl.float32) / horizon, 1.0)
    now = tl.load(state + where, mask=mask, other=0.0)
    then = tl.load(mean + where, mask=mask, other=0.0)
    tl.store(mean + where, then + rate * (now - then), mask=mask)
