"""A ResNet-18 whose batches go through in one pass, against the ResNet-18 it is made of, batch by batch."""

from __future__ import annotations

import copy
import os

import pytest
import torch
from torch import nn

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from reprise import nets
from reprise.nets.fused import FusedResNet18, read_out

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES, SIDE = 5, 8


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def network(head="linear", width=2):
    """A network whose BatchNorm has learnt something already."""
    net = nets.build(classes=CLASSES, width=width, head=head, seed=1).to(DEVICE)
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for tensor in (module.weight, module.bias, module.running_mean):
                    tensor.add_(0.3 * torch.randn(tensor.shape, generator=random).to(DEVICE))
                module.running_var.mul_(0.5 + torch.rand(module.running_var.shape, generator=random).to(DEVICE))
    return net.to(memory_format=torch.channels_last).train()


def images(count, seed):
    return torch.randn(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize(
    ("sizes", "real", "head"),
    [
        ((4, 3), (4, 3), "cosine"),
        ((4, 3), (3, 2), "linear"),
        ((4, 3), (4, 0), "linear"),
        ((4, 2, 3), (4, 2, 2), "linear"),
        ((4,), (4,), "cosine"),
    ],
    ids=str,
)
def test_logits_gradients_and_statistics_are_those_of_separate_passes(sizes, real, head):
    net = network(head)
    plain = copy.deepcopy(net)
    counts = torch.tensor(real, dtype=torch.int32, device=DEVICE)
    batches = [images(size, seed) for seed, size in enumerate(sizes)]
    slopes = [torch.randn(size, CLASSES, generator=torch.Generator().manual_seed(9)).to(DEVICE) for size in sizes]
    logits = FusedResNet18(net, counts).each(batches)
    sum((one[:n] * slope[:n]).sum() for one, slope, n in zip(logits, slopes, real, strict=True)).backward()

    expected = [plain(batch[:n]) if n else None for batch, n in zip(batches, real, strict=True)]
    there = [(one, slope) for one, slope in zip(expected, slopes, strict=True) if one is not None]
    sum((one * slope[: len(one)]).sum() for one, slope in there).backward()

    assert [len(one) for one in logits] == list(sizes)
    for one, other, count in zip(logits, expected, real, strict=True):
        assert torch.isfinite(one).all()
        if other is not None:
            torch.testing.assert_close(one[:count], other, rtol=1e-4, atol=1e-4)
    others = dict(plain.named_parameters())
    for name, parameter in net.named_parameters():
        far = (parameter.grad - others[name].grad).norm() / others[name].grad.norm()
        assert far < 1e-3, f"{name}: {far:.1e}"  # the last layers' BatchNorm sees three numbers: rounding grows there
    buffers = dict(plain.named_buffers())
    for name, buffer in net.named_buffers():
        if buffer.is_floating_point():
            torch.testing.assert_close(buffer, buffers[name], rtol=1e-5, atol=1e-6, msg=name)


def test_a_batch_without_images_leaves_finite_logits_however_they_are_used():
    """At the first step nothing is stored. The replay batch's loss has weight 0, and 0 · ∞ would not be a number."""
    net = network()
    counts = torch.tensor([3, 0], dtype=torch.int32, device=DEVICE)
    _, empty = FusedResNet18(net, counts).each([images(3, 1), images(2, 2)])
    assert torch.isfinite(empty.square()).all()
    (0 * empty.square()).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())


def test_a_copy_of_a_weight_is_computed_with_and_gets_the_gradient():
    net = network()
    fused = FusedResNet18(net, torch.tensor([3], dtype=torch.int32, device=DEVICE))
    own = net.layer1[0].conv1
    stand_in = (0.5 * own.weight).detach().requires_grad_()
    before = fused(images(3, 1)).detach()
    fused.weights[own] = stand_in
    logits = fused(images(3, 1))
    assert not torch.equal(logits, before)
    logits.square().sum().backward()
    assert own.weight.grad is None
    assert stand_in.grad.abs().sum() > 0


@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_the_read_out_is_the_network_in_evaluation_mode(head):
    net = network(head)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x = images(5, 3)
    with torch.no_grad():
        found = read_out(net, "fp32")(x)
        torch.testing.assert_close(found, net.eval()(x), rtol=1e-4, atol=1e-5)
        once, alone = read_out(net, "fp32")(x[:2]), found[:2]
    torch.testing.assert_close(once, alone, rtol=1e-4, atol=1e-5)  # no image depends on another
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_read_out_sees_the_weights_of_its_making():
    """It is made anew for every test: what training does meanwhile does not reach it."""
    net, x = network(), images(2, 4)
    with torch.no_grad():
        earlier = read_out(net, "fp32")
        before = earlier(x)
        net.bn1.running_mean += 1
        assert torch.equal(earlier(x), before)
        assert not torch.equal(read_out(net, "fp32")(x), before)


def test_the_read_out_in_bf16_is_near():
    net, x = network("cosine", width=4), images(4, 5)
    with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16):
        found = read_out(net, "bf16")(x).float()
    with torch.no_grad():
        expected = net.eval()(x)
    assert (found - expected).abs().max() < 0.3  # of logits that reach from −10 to 10
