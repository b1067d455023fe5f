"""The kernels of a captured step against what they stand for; without a GPU, Triton's interpreter runs them."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from train.tinyruns import CLASSES, SIDE, config, images, thin_networks

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from reprise import nets
from reprise.nets import fused
from reprise.nets import kernels as norm_kernels
from reprise.train import Run
from reprise.train.fleet import kernels
from reprise.train.fleet.lane import Lane
from reprise.train.fleet.planned import make_plan
from reprise.train.fleet.row import Row
from reprise.train.readout import Readout

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


def fetched(run: Run, planned, number: int, dtype=torch.float32, block=512):
    """What `fetch` gives for a step, laid out as a lane has it; every place holds rubbish before."""
    settings = run.config
    segments, places = planned.counts.shape[1], planned.ids.shape[1]

    def rubbish(*shape, dtype):
        return torch.full(shape, 77, dtype=dtype, device=DEVICE)

    out = SimpleNamespace(
        x=rubbish(places, SIDE, SIDE, 3, dtype=dtype),
        y=rubbish(places, dtype=torch.int64),
        example=rubbish(places, dtype=torch.int64),
        keep=rubbish(settings.batch, dtype=torch.int64),
        group=rubbish(settings.batch, dtype=torch.int64),
        weight=rubbish(places, dtype=torch.float32),
        real=rubbish(segments, dtype=torch.int32),
    )
    pixels = run.pixels
    tape = [torch.from_numpy(part).to(DEVICE) for part in (planned.ids, planned.counts, planned.crops)]
    kernels.fetch[(places, -(-SIDE * SIDE * 3 // block))](
        pixels.images, pixels.labels, *tape, torch.tensor([number], device=DEVICE), pixels.shift, pixels.scale,
        *vars(out).values(), height=SIDE, width=SIDE, places=places, incoming=settings.batch,
        replay=max(settings.replay, 1), segments=segments, pad=4, nowhere=len(pixels.labels), classes=CLASSES,
        block=block,
    )  # fmt: skip
    return out


@pytest.mark.parametrize(
    "settings", [{}, {"learner": "der++"}, {"learner": "none"}, {"replay": 0}, {"batch": 7, "replay": 3}], ids=str
)
def test_a_fetched_step_is_the_plain_loops(settings):
    run = config(**settings)
    with thin_networks():
        plain = Run(run, images(), DEVICE)
    planned = make_plan(run, images().train.labels)
    for number in (0, 1, 2, 7, plain.steps - 1):  # nothing stored; regular; the last of a task; the last of all
        got, step = fetched(plain, planned, number), plain.feed.step(number)
        batches = [step.incoming, *step.replay]
        batches += [None] * (planned.counts.shape[1] - len(batches))
        assert got.real.tolist() == [0 if batch is None else len(batch.y) for batch in batches]
        first = 0
        for place, batch in enumerate(batches):
            size = run.batch if place == 0 else run.replay
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
            if place == 0:
                assert torch.equal(got.keep[:count], batch.ids)
                assert torch.equal(got.group[:count], batch.y)
                assert (got.keep[count:] == len(plain.pixels.labels)).all()
                assert (got.group[count:] == CLASSES).all()
            first += size


def test_images_are_rounded_to_bf16_only_when_all_is_done():
    run = config()
    with thin_networks():
        plain = Run(run, images(), DEVICE)
    planned = make_plan(run, images().train.labels)
    whole, half = (fetched(plain, planned, 4, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert_rounded(half.x, whole.x)


# The step of SGD and the averaged read-out, as a lane makes them.


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("examples", "horizon"), [(5, 64), (8, 4)], ids=["average", "beyond its horizon"])
def test_a_descent_is_sgd_and_the_read_outs_average(half, examples, horizon, monkeypatch):
    """Two steps in a row, with weight decay, over tensors of one piece and of many, and BatchNorm's statistics."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    net, mean, plain = (nets.build(classes=CLASSES, head="linear", width=4).to(DEVICE) for _ in range(3))
    readout = Readout(plain, horizon)
    optimizer = torch.optim.SGD(plain.parameters(), 0.1, weight_decay=0.05)
    row = Row.of(net)
    copy, copies = row.half() if half else (None, {})
    lane = SimpleNamespace(
        row=row, mean_row=Row.of(mean), config=config(lr=0.1, weight_decay=0.05, ema=horizon), copy=copy, pieces={},
        device=DEVICE, real=torch.tensor([examples, 3], dtype=torch.int32, device=DEVICE),
    )  # fmt: skip
    names = {parameter: name for name, parameter in net.named_parameters()}
    theirs = dict(plain.named_parameters())
    for step in range(2):
        gradients = []
        for place, parameter in enumerate(row.parameters):
            gradient = randn(*parameter.shape, seed=10 * step + place)
            if place < len(copies):
                gradient = gradient.to(torch.bfloat16).to(memory_format=torch.channels_last)
            gradients.append(gradient)
            theirs[names[parameter]].grad = gradient.float()
        for number, (mine, other) in enumerate(zip(_statistics(net), _statistics(plain), strict=True)):
            mine.copy_(randn(*mine.shape, seed=100 * step + number))
            other.copy_(mine)
        with torch.no_grad():
            Lane._descend(lane, tuple(gradients))
        optimizer.step()
        readout.update(plain, examples)
    for mine, other in ((net, plain), (mean, readout.net)):
        for name, value in other.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(mine.state_dict()[name], value, rtol=1e-6, atol=1e-7, msg=name)
    if half:
        assert len(copies) == 20
        assert_rounded(copy, row.values[: row.copied])
        for module, part in copies.items():
            assert_rounded(part.detach(), module.weight.detach())


def _statistics(net):
    return [buffer for buffer in net.buffers() if buffer.is_floating_point()]


# BatchNorm over several batches in one tensor.


def normalised_apart(x, residual, norm, sizes, real, relu):
    """Each batch's real images by `norm` itself, one batch after the other; others as nothing."""
    out, first = [], 0
    for size, count in zip(sizes, real, strict=True):
        if count:
            here = slice(first, first + count)
            y = norm(x[here])
            y = y if residual is None else y + residual[here]
            out.append(F.relu(y) if relu else y)
        first += size
    return torch.cat(out)


def places(sizes, real):
    """Which images are real."""
    return torch.cat([torch.arange(size) < count for size, count in zip(sizes, real, strict=True)]).to(DEVICE)


def channels_last(x):
    return x.contiguous(memory_format=torch.channels_last).requires_grad_()


NORMS = [
    # sizes, real, channels, side
    ((5,), (5,), 6, 4),
    ((5,), (3,), 6, 4),
    ((6, 3), (6, 3), 20, 3),
    ((6, 3), (4, 1), 20, 3),
    ((6, 3), (6, 0), 6, 5),
    ((4, 3, 2), (4, 3, 2), 6, 5),
    ((4, 3, 2), (3, 3, 1), 70, 3),  # more channels than a block has
    ((4, 2, 2), (4, 0, 0), 20, 4),
    ((2, 2, 2), (1, 2, 1), 4, 8),
]


@pytest.mark.parametrize("programs", [80, 1], ids=["many tiles", "few tiles"])
@pytest.mark.parametrize(("add", "relu"), [(False, True), (True, True), (False, False)], ids=["", "residual", "plain"])
@pytest.mark.parametrize(("sizes", "real", "channels", "side"), NORMS, ids=str)
def test_norm_is_batchnorm_of_each_batch_by_itself(sizes, real, channels, side, add, relu, programs, monkeypatch):
    monkeypatch.setattr(fused, "PROGRAMS", programs)
    x = channels_last(2 + 3 * randn(sum(sizes), channels, side, side, seed=1))
    residual = channels_last(randn(*x.shape, seed=2)) if add else None
    norm = nn.BatchNorm2d(channels).to(DEVICE)
    with torch.no_grad():
        norm.weight.copy_(randn(channels, seed=3))
        norm.bias.copy_(randn(channels, seed=4))
        norm.running_mean.copy_(randn(channels, seed=5))
    weight, bias = (one.detach().clone().requires_grad_() for one in (norm.weight, norm.bias))
    running = norm.running_mean.clone(), norm.running_var.clone()
    cut = fused._Cut.of(sizes, side * side, channels)
    counts = torch.tensor(real, dtype=torch.int32, device=DEVICE)
    y = fused._Norm.apply(x, residual, weight, bias, *running, counts, cut, relu)
    mine = [x, weight, bias, *([residual] if add else [])]
    slopes = randn(*y.shape, seed=6).contiguous(memory_format=torch.channels_last)
    gradients = torch.autograd.grad(y, mine, slopes)

    there = places(sizes, real)
    x2, residual2 = (None if one is None else one.detach().clone().requires_grad_() for one in (x, residual))
    expected = normalised_apart(x2, residual2, norm, sizes, real, relu)
    others = [x2, norm.weight, norm.bias, *([residual2] if add else [])]
    wanted = torch.autograd.grad(expected, others, slopes[there])

    close = {"rtol": 1e-4, "atol": 2e-5}
    torch.testing.assert_close(y[there], expected, **close)
    assert torch.isfinite(y).all()
    torch.testing.assert_close(gradients[0], wanted[0], **close)  # for what is not real, none
    torch.testing.assert_close(gradients[1], wanted[1], **close)
    torch.testing.assert_close(gradients[2], wanted[2], **close)
    if add:
        torch.testing.assert_close(gradients[3][there], wanted[3][there], **close)
    torch.testing.assert_close(running[0], norm.running_mean, **close)
    torch.testing.assert_close(running[1], norm.running_var, **close)


@pytest.mark.parametrize("programs", [80, 1], ids=["many tiles", "few tiles"])
def test_a_small_spread_around_a_large_mean_is_found(programs, monkeypatch):
    """Where E[x²] − E[x]² would have no digit left."""
    monkeypatch.setattr(fused, "PROGRAMS", programs)
    x = channels_last(1000 + 0.1 * randn(6, 6, 5, 5, seed=1))
    ones, zeros = torch.ones(6, device=DEVICE), torch.zeros(6, device=DEVICE)
    mean, variance = zeros.clone(), ones.clone()
    counts = torch.tensor([6], dtype=torch.int32, device=DEVICE)
    fused._Norm.apply(x, None, ones, zeros, mean, variance, counts, fused._Cut.of((6,), 25, 6), False)
    exact = x.detach().double()
    torch.testing.assert_close(variance, (0.9 + 0.1 * exact.var((0, 2, 3))).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(mean, (0.1 * exact.mean((0, 2, 3))).float(), rtol=1e-6, atol=0)


def test_a_batch_without_images_does_not_grow_from_layer_to_layer():
    """Divided by its deviation of 0 it would: by 300 at every layer, until products with weight 0 are not numbers."""
    sizes = (2, 2)
    x = channels_last(randn(4, 6, 4, 4))
    ones, zeros = torch.ones(6, device=DEVICE), torch.zeros(6, device=DEVICE)
    counts = torch.tensor([2, 0], dtype=torch.int32, device=DEVICE)
    y = fused._Norm.apply(x, None, ones, zeros, zeros.clone(), ones.clone(), counts, fused._Cut.of(sizes, 16, 6), True)
    assert y[2:].abs().max() <= x[2:].abs().max()


def test_tiles_hold_every_row_once():
    for sizes, hw, channels in [((32, 8), 1024, 64), ((32, 8, 8), 16, 512), ((5,), 1, 6), ((7, 3), 9, 130)]:
        cut = fused._Cut.of(sizes, hw, channels)
        for rows, tiles in zip(cut.rows, cut.tiles, strict=True):
            assert (tiles - 1) * cut.size < rows <= tiles * cut.size or rows == tiles == 0
        assert cut.size % cut.bm == 0
        assert cut.most >= max(cut.tiles)
        assert cut.grid[1] * cut.bc >= channels


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
