"""The kernels of a captured step against what they stand for; without a GPU, Triton's interpreter runs them."""

from __future__ import annotations

import copy
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from train.tinyruns import CLASSES, SIDE, config, images, thin_networks

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from reprise import nets
from reprise.fleet.engine import norm_kernels, step_kernels
from reprise.fleet.engine.bodies import pieces
from reprise.fleet.engine.flat_state import Layout, aligned, shaped
from reprise.fleet.engine.lane import Lane
from reprise.fleet.lane_plan import make_lane_plan
from reprise.runs.plan import Labels
from reprise.train import Training
from reprise.train.average import Readout

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def assert_rounded(half, whole):
    """That one is the other in bf16: to the nearest on a GPU, while the interpreter cuts the last digits off."""
    assert half.dtype == torch.bfloat16
    if DEVICE.type == "cuda":
        assert torch.equal(half, whole.to(torch.bfloat16))
    else:
        torch.testing.assert_close(half.float(), whole, rtol=2**-7, atol=0)


# Reading the tape.


def plan_of(run):
    return make_lane_plan(run, Labels.of(images(), run))


def fetched(run: Training, planned, number: int, dtype=torch.float32, block=512, active=1):
    """What `fetch` gives for a step, laid out as a lane of two runs has it; every position holds rubbish before.

    It is the second run's that is given. The first has the same tape, and stands at its first step.
    """
    batch, replay = run.run.stream.batch, run.run.memory.replay
    segments, positions = planned.counts.shape[1], planned.ids.shape[1]

    def rubbish(*shape, dtype):
        return torch.full((2, *shape), 77, dtype=dtype, device=DEVICE)

    out = SimpleNamespace(
        x=rubbish(positions, SIDE, SIDE, 3, dtype=dtype),
        y=rubbish(positions, dtype=torch.int64),
        example=rubbish(positions, dtype=torch.int64),
        keep=rubbish(batch, dtype=torch.int64),
        group=rubbish(batch, dtype=torch.int64),
        weight=rubbish(positions, dtype=torch.float32),
        real=rubbish(segments, dtype=torch.int32),
    )
    pixels = run.pixels
    tape = [torch.from_numpy(np.stack([part] * 2)).to(DEVICE) for part in (planned.ids, planned.counts, planned.crops)]
    counter, flags = torch.tensor([0, number], device=DEVICE), torch.tensor([1, active], device=DEVICE)
    step_kernels.fetch[positions, -(-SIDE * SIDE * 3 // block), 2](
        pixels.images, pixels.labels, *tape, counter, flags, pixels.shift, pixels.scale, *vars(out).values(),
        len(planned.ids), height=SIDE, width=SIDE, positions=positions, incoming=batch,
        replay=max(replay, 1), segments=segments, pad=4, nowhere=len(pixels.labels), classes=CLASSES,
        block=block,
    )  # fmt: skip
    assert out.real[0].tolist() == planned.counts[0].tolist()
    return SimpleNamespace(**{name: value[1] for name, value in vars(out).items()})


@pytest.mark.parametrize(
    "settings", [{}, {"learner": "der++"}, {"learner": "none"}, {"replay": 0}, {"batch": 7, "replay": 3}], ids=str
)
def test_a_fetched_step_is_the_plain_loops(settings):
    run = config(**settings)
    with thin_networks():
        plain = Training(run, images(), DEVICE)
    planned = plan_of(run)
    for number in (0, 1, 2, 7, plain.steps - 1):  # nothing stored; regular; the last of a task; the last of all
        got, step = fetched(plain, planned, number), plain.feed.step(number)
        batches = [step.incoming, *step.replay]
        batches += [None] * (planned.counts.shape[1] - len(batches))
        assert got.real.tolist() == [0 if batch is None else len(batch.y) for batch in batches]
        first = 0
        for segment, batch in enumerate(batches):
            size = run.stream.batch if segment == 0 else run.memory.replay
            count = 0 if batch is None else len(batch.y)
            here, beyond = slice(first, first + count), slice(first + count, first + size)
            if batch is not None:
                assert torch.equal(got.x[here].permute(0, 3, 1, 2), batch.x)
                assert torch.equal(got.y[here], batch.y)
                assert torch.equal(got.example[here], batch.ids)
                torch.testing.assert_close(got.weight[here], batch.weight, rtol=1e-7, atol=0)
            assert not got.weight[beyond].any()
            assert torch.isfinite(got.x[beyond]).all()
            assert ((got.y[beyond] >= 0) & (got.y[beyond] < CLASSES)).all()
            if segment == 0:
                assert torch.equal(got.keep[:count], batch.ids)
                assert torch.equal(got.group[:count], batch.y)
                assert (got.keep[count:] == len(plain.pixels.labels)).all()
                assert (got.group[count:] == CLASSES).all()
            first += size


def test_images_are_rounded_to_bf16_only_when_all_is_done():
    run = config()
    with thin_networks():
        plain = Training(run, images(), DEVICE)
    planned = plan_of(run)
    whole, half = (fetched(plain, planned, 4, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert_rounded(half.x, whole.x)


def test_a_run_at_rest_has_no_real_image():
    run = config(learner="der++")
    with thin_networks():
        plain = Training(run, images(), DEVICE)
    got = fetched(plain, plan_of(run), 7, active=0)
    assert not got.real.any()
    assert not got.weight.any()
    assert (got.keep == len(plain.pixels.labels)).all()
    assert (got.group == CLASSES).all()


# The step of SGD and the averaged read-out, as a lane makes them.


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("examples", "horizon"), [(5, 64), (8, 4)], ids=["average", "beyond its horizon"])
def test_a_descent_is_sgd_and_the_read_outs_average(half, examples, horizon):
    """Two steps in a row, with weight decay, over gradients of one part and of three, and BatchNorm's statistics.

    Of two runs the second rests.
    """
    own, means, plain = ([nets.build(classes=CLASSES, head="linear", width=4).to(DEVICE)] for _ in range(3))
    own += copy.deepcopy(own)
    means += copy.deepcopy(means)
    (plain,) = plain
    layout = Layout.of(plain)
    rows, mean_rows = (torch.zeros(2, layout.length, device=DEVICE) for _ in range(2))
    for mine, row in zip([*own, *means], [*rows, *mean_rows], strict=True):
        layout.attach(mine, row)
    at_rest = rows[1].clone()
    parts, end = {}, 0
    for index, name in enumerate(layout.parameters):
        parts[name] = end, 1 + 2 * (index % 2)
        end += parts[name][1] * aligned(layout.spans[name].size)
    readout = Readout(plain, horizon)
    optimizer = torch.optim.SGD(plain.parameters(), 0.1, weight_decay=0.05)
    body = SimpleNamespace(gradient=torch.zeros(2, end, device=DEVICE), parts=parts, changed=lambda: None)
    copies = rows[:, : layout.copied].to(torch.bfloat16) if half else None
    lane = SimpleNamespace(
        rows=rows, mean_rows=mean_rows, layout=layout, horizon=horizon,
        descent=config(lr=0.1, weight_decay=0.05).descent,
        copies=copies, body=body, pieces=pieces(layout, body, DEVICE), width=2, segments=2,
        real=torch.tensor([[examples, 3], [0, 0]], dtype=torch.int32, device=DEVICE),
    )  # fmt: skip
    for step in range(2):
        for index, name in enumerate(layout.parameters):
            parameter = plain.get_parameter(name)
            start, count = parts[name]
            size = aligned(parameter.numel())
            slopes = [randn(*parameter.shape, seed=100 * step + 10 * index + part) for part in range(count)]
            for part, slope in enumerate(slopes):
                first = start + part * size
                shaped(body.gradient[0, first : first + parameter.numel()], parameter).copy_(slope)
            parameter.grad = sum(slopes)
        for number, (mine, other) in enumerate(zip(_statistics(own[0]), _statistics(plain), strict=True)):
            mine.copy_(randn(*mine.shape, seed=1000 * step + number))
            other.copy_(mine)
        with torch.no_grad():
            Lane._sgd_ema(lane)
        optimizer.step()
        readout.update(plain, examples)
    for mine, other in ((own[0], plain), (means[0], readout.net)):
        for name, value in other.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(mine.state_dict()[name], value, rtol=1e-6, atol=1e-6, msg=name)
    assert torch.equal(rows[1], at_rest)
    assert torch.equal(mean_rows[1], at_rest)
    if half:
        assert_rounded(copies[0], rows[0, : layout.copied])
        assert_rounded(copies[1], at_rest[: layout.copied])


def _statistics(net):
    return [buffer for buffer in net.buffers() if buffer.is_floating_point()]


# BatchNorm.


def test_a_small_spread_around_a_large_mean_is_found():
    """Where E[x²] − E[x]² would have no digit left. Seven tiles of 16 rows, the last one short; then an empty batch."""
    size, channels, rows = 16, 6, 105
    x = 1000 + 0.1 * randn(rows, channels, seed=1).double()
    tiles = torch.split(x, size)
    means = torch.stack([tile.mean(0) for tile in tiles])
    squares = torch.stack([(tile - tile.mean(0)).square().sum(0) for tile in tiles])
    empty = torch.full((2, channels), 77.0, device=DEVICE, dtype=torch.float64)  # nothing is asked of what is not real
    means, squares = (torch.cat([one, empty])[None].float().contiguous() for one in (means, squares))
    counts = torch.tensor([[rows, 0]], dtype=torch.int32, device=DEVICE)
    running_mean, running_var = torch.zeros(channels, device=DEVICE), torch.ones(channels, device=DEVICE)
    mean, scale = torch.full((2, 2, channels), 77.0, device=DEVICE)
    for track in (False, True):
        norm_kernels.bn_stats[1, 1](
            means, squares, counts, mean, scale, running_mean, running_var, channels, 1, c=channels, segments=2, t0=7,
            t1=2, t2=0, size=size, chunk=4, bc=16, track=track,
        )  # fmt: skip
        assert running_mean.any() == track
        assert (running_var != 1).any() == track
    torch.testing.assert_close(running_var, (0.9 + 0.1 * x.var(0)).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(running_mean, (0.1 * x.mean(0)).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(scale[0], (x.var(0, correction=0) + 1e-5).rsqrt().float(), rtol=1e-4, atol=0)
    # Divided by its deviation of 0, a batch without images would grow by 300 at every layer.
    assert not mean[1].any()
    assert not scale[1].any()


@pytest.mark.parametrize(("add", "relu"), [(False, True), (True, True), (False, False), (True, False)])
def test_affine_is_scale_shift_residual_and_relu(add, relu):
    x = randn(3, 5, 5, 6, seed=1)  # rows × channels
    residual, scale, shift = randn(*x.shape, seed=2), randn(6, seed=3), randn(6, seed=4)
    y = torch.full_like(x, 77)
    norm_kernels.affine[(-(-x.numel() // 128),)](
        x, residual, y, scale, shift, x.numel(), c=6, block=128, add=add, relu=relu
    )
    expected = x * scale + shift + (residual if add else 0)
    torch.testing.assert_close(y, F.relu(expected) if relu else expected, rtol=1e-6, atol=1e-6)


def test_the_constants_of_the_kernels_are_batchnorms_own():
    norm = nn.BatchNorm2d(1)
    assert norm_kernels.EPS.value == norm.eps
    assert norm_kernels.MOMENTUM.value == norm.momentum
