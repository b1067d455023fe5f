"""BatchNorm with sum and ReLU as Triton kernels, against torch's; without a GPU, Triton's interpreter runs them."""

from __future__ import annotations

import copy
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from reprise import nets
from reprise.nets import fused_norm, norm
from reprise.nets.fused_norm import norm_relu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def some(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Images around a mean that is far from 0, where sums of squares would lose digits."""
    random = torch.Generator().manual_seed(seed)
    x = 30 + torch.randn(shape, generator=random) * torch.linspace(0.5, 2, shape[1])[:, None, None]
    return x.to(DEVICE, dtype).contiguous(memory_format=torch.channels_last)


def near(mine, exact, rounding=1e-4):
    return (mine - exact).norm() <= rounding * exact.norm()


def both(x, added, relu, running=True):
    """The kernels' results and torch's in double precision: outputs, gradients, running statistics."""
    channels, found = x.shape[1], []
    for ours in (True, False):
        layer = nn.BatchNorm2d(channels, momentum=0.3, eps=1e-4, track_running_stats=running).to(DEVICE)
        if not ours:
            x, added, layer = x.double(), None if added is None else added.double(), layer.double()
        with torch.no_grad():
            layer.weight.copy_(torch.linspace(-1, 2, channels))
            layer.bias.copy_(torch.linspace(1, -1, channels))
        mine, other = x.clone().requires_grad_(), None if added is None else added.clone().requires_grad_()
        if ours:
            state = (layer.running_mean, layer.running_var) if running else None
            y = norm_relu(mine, layer.weight, layer.bias, state, other, momentum=0.3, eps=1e-4, relu=relu)
        else:
            y = layer(mine) if other is None else layer(mine) + other
            y = F.relu(y) if relu else y
        dy = torch.linspace(-1, 1, y.numel(), device=DEVICE).reshape(y.shape).to(y.dtype)
        dy = dy.contiguous(memory_format=torch.channels_last)  # as it comes from a convolution
        given = dy.clone()
        wanted = [one for one in (mine, layer.weight, layer.bias, other) if one is not None]
        found.append(
            [y.detach(), *torch.autograd.grad(y, wanted, dy), *([layer.running_mean, layer.running_var] * running)]
        )
        assert torch.equal(dy, given)  # which autograd may need once more
    return zip(*found, strict=True)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("shape", [(3, 6, 5, 5), (2, 1, 3, 1), (5, 80, 8, 8)])
def test_outputs_and_gradients_are_torchs(shape, add, relu):
    x, added = some(*shape, seed=1), some(*shape, seed=2) - 30 if add else None
    for mine, exact in both(x, added, relu):
        assert mine.shape == exact.shape
        assert near(mine, exact)


@pytest.mark.parametrize("tiles", [1, 3, 1024])
def test_tiles_are_joined_whatever_their_number(tiles, monkeypatch):
    """450 positions: one tile; three, the last not full; eight of which the last has two positions."""
    monkeypatch.setattr(fused_norm, "_TILES", tiles)
    for mine, exact in both(some(2, 4, 15, 15, seed=3), None, True):
        assert near(mine, exact)


def test_without_running_statistics_none_are_moved():
    for mine, exact in both(some(3, 6, 5, 5, seed=4), None, True, running=False):
        assert near(mine, exact)


def as_written(exact):
    """In bf16; Triton's interpreter cuts off the digits that a GPU rounds."""
    if exact.is_cuda:
        return exact.bfloat16()
    return (exact.float().view(torch.int32) & ~0xFFFF).view(torch.float32).bfloat16()


def test_in_bf16_only_what_is_written_is_rounded():
    x, added = (some(4, 16, 9, 9, seed=seed, dtype=torch.bfloat16) for seed in (5, 6))
    (mine, exact), *others = both(x, added - 30, True)
    assert (mine == as_written(exact)).double().mean() > 0.998  # all but those half-way between two numbers
    assert all(near(mine, exact, 2**-8) for mine, exact in others)


@pytest.mark.parametrize("add", [True, False])
def test_what_is_not_a_number_stays_so(add):
    """Or a network that has diverged would go on with a loss that looks well."""
    x, added = some(2, 3, 4, 4, seed=10), some(2, 3, 4, 4, seed=11) if add else None
    (added if add else x)[1, 2, 0, 0] = torch.nan
    for mine, theirs in both(x, added, True):
        assert torch.equal(mine.isnan(), theirs.isnan())
        assert near(mine.nan_to_num(), theirs.nan_to_num())


def step(net, x, monkeypatch, ours):
    """Logits, gradients and state of a network after a forward and a backward pass, by the kernels or by torch's."""
    monkeypatch.setattr(norm, "_fits", lambda _: ours)
    net = copy.deepcopy(net)
    logits = net(x)
    logits.square().sum().backward()
    return [logits.detach(), *(one.grad for one in net.parameters()), *net.buffers()]


@pytest.mark.parametrize("frozen", [False, True], ids=["running statistics", "none"])
def test_a_network_is_the_same_by_either_way(frozen, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    net = nets.build(classes=5, width=4, seed=1).to(DEVICE, memory_format=torch.channels_last)
    for part in net.modules():
        if frozen and isinstance(part, nn.BatchNorm2d):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
    x = some(6, 3, 16, 16, seed=7) - 30
    monkeypatch.setattr(norm, "_work_on", lambda _: True)
    taken = []
    monkeypatch.setattr(
        fused_norm, "norm_relu", lambda *given, **more: taken.append(given) or norm_relu(*given, **more)
    )
    mine = step(net, x, monkeypatch, ours=True)
    assert len(taken) == 20  # one stem, two to a block, three ways around
    theirs = step(net, x, monkeypatch, ours=False)
    assert len(taken) == 20
    for one, other in zip(mine, theirs, strict=True):
        assert near(one.double(), other.double(), 1e-3)


def test_what_is_evaluated_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(norm, "_fits", lambda _: True)
    layer, x = nn.BatchNorm2d(3).to(DEVICE), some(2, 3, 4, 4, seed=8)
    assert norm.fused(layer, x) is not None
    assert norm.fused(layer.eval(), x) is None
    assert norm.fused(nn.BatchNorm2d(3, momentum=None).to(DEVICE), x) is None
    assert norm.fused(nn.BatchNorm2d(3, affine=False).to(DEVICE), x) is None
    assert norm.fused(layer.train(), x, x[:1]) is None
    assert layer.num_batches_tracked == 1


def test_kernels_that_fail_are_left_for_torchs(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(norm, "_fits", lambda _: True)
    norm._work_on.cache_clear()
    monkeypatch.setattr(fused_norm, "norm_relu", fail)
    layer, x = nn.BatchNorm2d(3).to(DEVICE), some(2, 3, 4, 4, seed=8)
    with pytest.warns(UserWarning, match="slower kernels, for Triton's fail: Failed to find C compiler"):
        assert norm.fused(layer, x) is None
    assert norm.fused(layer, x) is None  # and that is said once
    assert layer.num_batches_tracked == 0
    norm._work_on.cache_clear()


def test_hooks_and_norms_of_ones_own_are_left_to_torch(monkeypatch):
    class Own(nn.BatchNorm2d):
        def forward(self, x):
            return x

    monkeypatch.setattr(norm, "_fits", lambda _: True)
    layer, x = nn.BatchNorm2d(3).to(DEVICE), some(2, 3, 4, 4, seed=8)
    assert norm.fused(Own(3).to(DEVICE), x) is None
    for register in (
        layer.register_forward_hook,
        layer.register_forward_pre_hook,
        layer.register_full_backward_hook,
        layer.register_full_backward_pre_hook,
    ):
        hook = register(lambda *_: None)
        assert norm.fused(layer, x) is None
        hook.remove()
    assert norm.fused(layer, x) is not None
    layer.forward = lambda x: x
    assert norm.fused(layer, x) is None


@pytest.mark.parametrize(
    "absent", [["num_batches_tracked"], ["running_mean"], ["running_mean", "running_var"]], ids=str
)
def test_statistics_that_are_there_in_part_are_left_to_torch(absent, monkeypatch):
    monkeypatch.setattr(norm, "_fits", lambda _: True)
    layer, x = nn.BatchNorm2d(3).to(DEVICE), some(2, 3, 4, 4, seed=8)
    for name in absent:
        setattr(layer, name, None)
    assert norm.fused(layer, x) is None
    assert norm.fused(nn.BatchNorm2d(3, track_running_stats=False).to(DEVICE), x) is not None
    off = nn.BatchNorm2d(3).to(DEVICE)
    off.track_running_stats = False
    assert norm.fused(off, x) is None


def test_large_batches_in_bf16_with_channels_last_suit_the_kernels(monkeypatch):
    monkeypatch.setattr(norm, "LARGE", 96)
    x = some(2, 3, 4, 4, seed=8, dtype=torch.bfloat16)
    assert norm._suits(x)
    assert not any(map(norm._suits, (x.float(), x[:1], x.contiguous())))
    monkeypatch.setattr(norm, "_fits", norm._suits)  # wherever they are
    monkeypatch.setattr(norm, "_work_on", lambda _: True)
    layer = nn.BatchNorm2d(3).to(DEVICE)
    assert norm.fused(layer, x, x) is not None
    assert norm.fused(layer, x, x.contiguous()) is None


def test_too_little_memory_says_nothing_of_the_kernels(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("so it is said")

    monkeypatch.setattr(norm, "_fits", lambda _: True)
    layer, x = nn.BatchNorm2d(3).to(DEVICE), some(2, 3, 4, 4, seed=8)
    norm._work_on.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(fused_norm, "norm_relu", full)
        with pytest.raises(torch.OutOfMemoryError):
            norm.fused(layer, x)
    assert norm.fused(layer, x) is not None


def on_a_gpu(test):
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")(test))


@on_a_gpu
@pytest.mark.parametrize("side", [32, 64])
def test_large_batches_on_a_gpu_go_by_the_kernels(side, monkeypatch):
    """Gradients of a ResNet-18 are as near to those in single precision as torch's; statistics are twice the same."""
    net = nets.build(classes=10, seed=1).to(DEVICE, memory_format=torch.channels_last)
    x, y = some(300, 3, side, side, seed=9) - 30, torch.arange(300, device=DEVICE) % 10
    taken = []
    monkeypatch.setattr(fused_norm, "norm_relu", lambda *given, **more: taken.append(1) or norm_relu(*given, **more))
    usual = norm._fits

    def gradients(fits, half=True):
        monkeypatch.setattr(norm, "_fits", fits)
        mine = copy.deepcopy(net)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(mine(x).float(), y)
        found = torch.autograd.grad(loss, list(mine.parameters()))
        return list(mine.buffers()), torch.cat([one.flatten() for one in found])

    ours, again = gradients(usual), gradients(usual)
    assert len(taken) > 20
    taken.clear()
    theirs, exact = gradients(lambda _: False), gradients(lambda _: False, half=False)
    assert not taken
    assert all(map(torch.equal, ours[0], again[0]))
    assert all(near(one.double(), other.double(), 0.05) for one, other in zip(ours[0], exact[0], strict=True))
    assert (ours[1] - exact[1]).norm() <= 1.2 * (theirs[1] - exact[1]).norm()


@on_a_gpu
def test_more_numbers_than_an_int32_counts():
    one = some(1, 64, 64, 64, seed=11, dtype=torch.bfloat16)
    x = one.expand(8200, -1, -1, -1).contiguous(memory_format=torch.channels_last)
    assert x.numel() > 2**31
    layer = nn.BatchNorm2d(64).to(DEVICE)
    with torch.no_grad():
        y = norm.fused(layer, x)
        wanted = F.relu(layer(one.float()))
    assert torch.equal(y[0], y[-1])
    assert near(y[-1:].float(), wanted, 2**-8)


@on_a_gpu
def test_small_batches_and_other_formats_are_left_to_torch():
    layer = nn.BatchNorm2d(64).to(DEVICE)
    x = torch.ones(64, 64, 32, 32, device=DEVICE, dtype=torch.bfloat16)
    last = x.contiguous(memory_format=torch.channels_last)
    assert norm.fused(layer, last) is not None
    for other in (x, last.float(), last[:63]):
        assert norm.fused(layer, other) is None
