"""What a network says of itself, if it says nothing, and if it is the ResNet."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from reprise import nets
from reprise.nets.resnet import BasicBlock


class Own(nets.Network):
    """Says nothing of itself."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), norm
        self.fc = nets.make_head("linear", 4, 10)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.norm(self.conv(x).mean((2, 3)))
        return features

    def published(self, name: str) -> str:
        return name


@pytest.mark.parametrize(
    ("norm", "mixes"),
    [(nn.Identity(), False), (nn.LayerNorm(4), False), (nn.BatchNorm1d(4), True), (nn.SyncBatchNorm(4), True)],
)
def test_a_network_of_ones_own_mixes_examples_if_it_has_batchnorm(norm: nn.Module, mixes: bool) -> None:
    net = Own(norm)
    assert (net.stackable, net.output_stride, net.mixes_examples) == (False, None, mixes)


def test_what_the_resnet_says_of_itself_is_true() -> None:
    net = nets.build("resnet18", classes=3, width=2)
    assert net.stackable
    assert net.mixes_examples
    blocks = [module for module in net.modules() if isinstance(module, BasicBlock)]
    assert blocks[-1].downsample is None
    side, shapes = net.output_stride, []
    assert side is not None
    blocks[-1].register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[2:])))
    net.eval()
    for height, width in [(1, side), (side, side), (side + 1, side)]:
        x = torch.rand(2, 3, height, width)
        y = torch.relu(net.bn1(net.conv1(x)))
        for block in blocks:  # all that lies between the stem and the mean, in this order
            y = block(y)
        torch.testing.assert_close(net(x), net.fc(y.mean((2, 3))))
    assert shapes[::2] == [(1, 1), (1, 1), (2, 1)]


def test_momentum_of_every_batchnorm_can_be_set() -> None:
    usual, set_to = nets.build(classes=3, width=2), nets.build(classes=3, width=2, bn_momentum=0.25)
    assert {norm.momentum for norm in nets.batch_norms(usual)} == {0.1}
    assert {norm.momentum for norm in nets.batch_norms(set_to)} == {0.25}
    assert len(nets.batch_norms(set_to)) == 20
    assert all(torch.equal(one, other) for one, other in zip(usual.parameters(), set_to.parameters(), strict=True))
    x = torch.rand(4, 3, 8, 8)
    first = torch.nn.functional.conv2d(x, set_to.get_parameter("conv1.weight"), padding=1).mean((0, 2, 3))
    set_to.train()(x)
    torch.testing.assert_close(set_to.bn1.running_mean, 0.25 * first)
    still = nets.build(classes=3, width=2, bn_momentum=0).train()
    still(x)
    assert not still.bn1.running_mean.any()


@pytest.mark.parametrize(
    ("momentum", "said"),
    [(-0.1, "from 0 to 1"), (1.5, "from 0 to 1"), (float("nan"), "finite"), ("0.1", "a number"), (True, "a number")],
)
def test_momentum_that_is_no_share_is_refused(momentum: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"bn_momentum must be {said}, got "):
        nets.build(classes=3, width=2, bn_momentum=momentum)
