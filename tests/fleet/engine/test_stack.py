"""Many ResNet-18s computed together, against each of them by itself, batch by batch."""

from __future__ import annotations

import copy
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.engine.stacked import DEVICE, few_tiles, flat, gradients, make_stack, network, noise, set_tiles

from reprise.fleet.engine.layers import Tiles


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def each_by_itself(net, x, sizes, real):
    """Features of the real images of each batch, one pass a batch."""
    found, first = [], 0
    for size, count in zip(sizes, real, strict=True):
        if count:
            found.append(net.features(x[first : first + count].permute(0, 3, 1, 2)))
        first += size
    return torch.cat(found)


SHAPES = [
    # sizes of the batches, real images of each batch of each run, height and width of an image, width of the network
    ((4, 3), ((4, 3), (3, 2)), (8, 8), 2),
    ((4, 4), ((4, 0), (4, 4)), (8, 8), 2),
    ((4, 3, 3), ((4, 3, 3), (3, 0, 0)), (8, 8), 2),
    ((4,), ((4,),), (8, 8), 4),
    ((3, 2), ((3, 2), (2, 2)), (9, 20), 2),  # halved, an odd side is rounded up
    ((5, 3), ((5, 3),), (8, 8), 16),  # channels that fill a tile
    ((4, 2), ((4, 2), (3, 1)), (16, 8), 5),
]
OWN, LARGE, TINY = "the GPU's tiles", "large tiles", "tiny tiles"
WAYS = [("fp32", OWN), ("fp32", LARGE), ("tf32", LARGE), ("fp32", TINY)]


@pytest.mark.parametrize(("precision", "tiles"), WAYS)
@pytest.mark.parametrize(("sizes", "real", "image", "width"), SHAPES, ids=str)
def test_features_gradients_and_statistics_are_those_of_separate_passes(
    sizes, real, image, width, precision, tiles, monkeypatch
):
    if tiles is not OWN and DEVICE.type == "cuda":
        pytest.skip("such tiles, and TF32 without rounding, are for the interpreter")
    # The interpreter is slow: not every shape in every way.
    wanted = {OWN: width == 2 and len(sizes) == 2 and image == (8, 8), LARGE: width != 5, TINY: width == 5}
    if DEVICE.type == "cpu" and not wanted[tiles]:
        pytest.skip("other shapes show this")
    if tiles is LARGE:
        few_tiles(monkeypatch)
    elif tiles is TINY:  # several of everything: depths, blocks of channels, parts of weights, chunks of tiles
        set_tiles(monkeypatch, 64, 16, 16, parts=8, chunk=2)
    own = [network(width=width, seed=run) for run in range(len(real))]
    plain = copy.deepcopy(own)
    counts = torch.tensor(real, dtype=torch.int32, device=DEVICE)
    stack = make_stack(own, sizes, counts, image, precision)
    x = noise(len(real), sum(sizes), *image, 3, seed=3)
    features = stack.forward(x)
    slopes = noise(*features.shape, seed=4)
    stack.backward(slopes)
    for run, (net, mine) in enumerate(zip(plain, own, strict=True)):
        there = torch.cat([torch.arange(size) < count for size, count in zip(sizes, real[run], strict=True)])
        expected = each_by_itself(net, x[run], sizes, real[run])
        assert (features[run][there] - expected).norm() < 1e-4 * expected.norm()
        assert torch.isfinite(features.square()).all()  # of a batch without images, too: 0 · ∞ would not be a number
        body = {name: one for name, one in net.named_parameters() if not name.startswith("fc.")}
        wanted = torch.autograd.grad(expected, list(body.values()), slopes[run][there])
        found = gradients(stack, run)
        for name, gradient in zip(body, wanted, strict=True):
            error = (found[name] - flat(gradient)).norm() / gradient.norm().clamp(min=1e-6)
            assert error < 1e-3, f"{name} of run {run} is {error:.1e} away"  # BatchNorm of few numbers: rounding grows
        for name, value in net.named_buffers():
            if value.is_floating_point():
                torch.testing.assert_close(mine.get_buffer(name), value, rtol=1e-5, atol=1e-6, msg=f"{name}, run {run}")


def test_a_run_that_rests_is_left_alone_and_leaves_the_others_alone(monkeypatch):
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    sizes, side = (3, 2), 8
    x = noise(2, 5, side, side, 3, seed=1)
    slopes = noise(2, 5, 16, seed=2)
    left = []
    for second in ((0, 0), (3, 2)):
        own = [network(seed=run) for run in range(2)]
        before = copy.deepcopy(own[1].state_dict())
        stack = make_stack(own, sizes, torch.tensor([(3, 1), second], dtype=torch.int32, device=DEVICE), (side, side))
        features = stack.forward(x)
        stack.backward(slopes)
        left.append((features[0], stack.gradient[0].clone(), stack.rows[0].clone()))
        same = all(torch.equal(value, before[name]) for name, value in own[1].state_dict().items())
        assert same == (second == (0, 0))
        assert stack.gradient[1].any() == (second != (0, 0))
    for one, other in zip(*left, strict=True):
        assert torch.equal(one, other)


def test_a_runs_bits_do_not_depend_on_how_many_go_beside_it(monkeypatch):
    if DEVICE.type == "cpu":
        few_tiles(monkeypatch)
    sizes, side = (3, 2), 8
    x = noise(3, 5, side, side, 3, seed=1)
    slopes = noise(3, 5, 16, seed=2)
    left = []
    for runs, row in (((0, 1, 2), 2), ((2,), 0)):
        own = [network(seed=run) for run in runs]
        stack = make_stack(
            own, sizes, torch.tensor([(3, 2)] * len(runs), dtype=torch.int32, device=DEVICE), (side, side)
        )
        which = list(runs)
        features = stack.forward(x[which])
        stack.backward(slopes[which])
        left.append((features[row], stack.gradient[row], stack.rows[row]))
    for one, other in zip(*left, strict=True):
        assert torch.equal(one, other)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="Triton's interpreter does not multiply in bf16")
def test_in_bf16_products_come_from_the_copies_and_rounding_is_no_worse_than_autocasts():
    sizes, side = (8,), 16
    net = network(width=8)
    plain, cast = copy.deepcopy(net), copy.deepcopy(net)
    stack = make_stack([net], sizes, torch.tensor([[8]], dtype=torch.int32, device=DEVICE), (side, side), "bf16")
    x = noise(1, 8, side, side, 3, seed=1).to(torch.bfloat16)
    near = stack.forward(x)
    assert near.dtype == torch.bfloat16
    slopes = noise(*near.shape, seed=2)
    stack.backward(slopes.to(torch.bfloat16))
    images, found = x[0].float().permute(0, 3, 1, 2), gradients(stack, 0)
    wanted = plain.features(images)
    assert (near[0] - wanted).norm() < 0.05 * wanted.norm()
    with torch.autocast("cuda", torch.bfloat16):
        features = cast.features(images)
    body = [name for name, _ in plain.named_parameters() if not name.startswith("fc.")]
    exact, rounded = (
        torch.cat(
            [flat(one) for one in torch.autograd.grad(y.float(), [of.get_parameter(name) for name in body], slopes[0])]
        )
        for of, y in ((plain, wanted), (cast, features))
    )
    mine = torch.cat([found[name] for name in body])
    assert (mine - exact).norm() < 1.3 * (rounded - exact).norm()
    stack.half.zero_()
    assert (stack.forward(x)[0] - wanted).norm() > 0.3 * wanted.norm()


def test_tiles_hold_every_position_once():
    for sizes, positions, size in [((32, 8), 1024, 128), ((32, 8, 8), 16, 64), ((5,), 1, 128), ((7, 3), 9, 16)]:
        tiles = Tiles.of(sizes, positions, size)
        for count, mine in zip((*sizes, 0, 0)[:3], tiles, strict=True):
            assert (mine - 1) * size < count * positions <= mine * size or count == mine == 0
        assert Tiles.of(sizes, positions, size, 4).all == 4 * tiles.all
