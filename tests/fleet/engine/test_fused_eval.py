"""A ResNet-18 read out by the kernels, against the network in evaluation mode."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")

from fleet.engine.stacked import DEVICE, network, noise

from reprise.fleet.engine.fused_eval import read_out


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def images(count, seed):
    return noise(count, 3, 16, 16, seed=seed)


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


def test_the_read_out_sees_the_statistics_of_its_making():
    """They are folded into one step a layer, so it is made anew for every test."""
    net, x = network(), images(2, 4)
    with torch.no_grad():
        earlier = read_out(net, "fp32")
        before = earlier(x)
        net.bn1.running_mean += 1
        assert torch.equal(earlier(x), before)
        assert not torch.equal(read_out(net, "fp32")(x), before)


def test_the_read_out_in_bf16_is_near_and_rounded():
    net, x = network("cosine", width=4), images(4, 5)
    with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16):
        found = read_out(net, "bf16")(x).float()
    with torch.no_grad():
        expected = net.eval()(x)
    error = (found - expected).norm() / expected.norm()
    assert 1e-4 < error < 0.05
