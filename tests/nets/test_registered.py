"""Networks of one's own: built by name, with weights that depend on the seed alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reprise import nets
from reprise.core import registry
from reprise.core.registry import register
from reprise.runs import Run


class Small(nets.Network):
    def __init__(self, classes, head, width):
        super().__init__()
        self.body = nn.Conv2d(3, width, 3)
        self.fc = nets.make_head(head, width, classes)

    def features(self, x):
        return self.body(x).mean((2, 3))


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())


def usual(classes, *, head, width, random, pretrained):
    """With the weights that torch gives a layer."""
    return Small(classes, head, width)


def filled(classes, *, head, width, random, pretrained):
    net = Small(classes, head, width)
    nets.fill(net, random)
    return net


@pytest.mark.parametrize("builder", [usual, filled])
def test_weights_depend_on_the_seed_alone(builder):
    register("network", "small")(builder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        before = torch.get_rng_state()
        one = nets.build("small", classes=3, width=5, seed=4)
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(3)
        again, other = (nets.build("small", classes=3, width=5, seed=seed) for seed in (4, 5))
    assert torch.equal(one.body.weight, again.body.weight)
    assert torch.equal(one.fc.weight, again.fc.weight)
    assert not torch.equal(one.body.weight, other.body.weight)
    assert one(torch.zeros(2, 3, 8, 8)).shape == (2, 3)
    assert one.published("body.weight") == "body.weight"


def test_a_run_may_have_one_of_any_width():
    register("network", "small")(usual)
    assert Run.of(backbone="small", width=3).network.width == 3
    assert not nets.from_timm("small")
    assert nets.from_timm("large")
    with pytest.raises(ValueError, match="the backbone 'large' has its own"):
        Run.of(backbone="large", width=3)


def test_a_network_without_batchnorm_has_no_momentum_of_it():
    register("network", "small")(usual)
    with pytest.raises(ValueError, match=r"bn_momentum is for networks with BatchNorm; 'small' has none, got 0\.1"):
        nets.build("small", classes=3, bn_momentum=0.1)


def test_a_builder_must_give_a_network():
    register("network", "wrong")(lambda classes, **more: nn.Linear(2, classes))
    with pytest.raises(TypeError, match=r"the builder of 'wrong' must give a reprise.nets.Network, got Linear"):
        nets.build("wrong", classes=3)
