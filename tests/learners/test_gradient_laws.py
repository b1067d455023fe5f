"""What a real step does to the bias of an absent class, and when a replay gradient ignores its batchmates."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from learners.steps import gradients, make_batch, make_step
from torch import Tensor, nn

from reprise.learners import Batch, LearnerContext, Step, make_learner
from reprise.learners.der import DER
from reprise.nets import Network, build

CLASSES, EXAMPLES = 10, 40
SETTING = LearnerContext(CLASSES, EXAMPLES)
INCOMING = make_batch([6, 7, 6, 7, 6, 6], range(6), seed=1, size=16)
REPLAY = make_batch([0, 2, 3, 5], range(10, 14), seed=2, size=16)
SEEN = (0, 1, 2, 3, 4, 5)
ABSENT = [1, 4]  # seen, and in neither batch; 8 and 9 have never arrived


def network() -> Network:
    return build("resnet18", classes=CLASSES, head="linear", width=4, seed=5)


def step(replay: tuple[Batch, ...] = (REPLAY,)) -> Step:
    return make_step(INCOMING, replay, SEEN, classes=CLASSES)


def shares(batch: Batch) -> Tensor:
    """p_c(x) for every x of a batch, as the network sees it in training mode."""
    with torch.no_grad():
        return network()(batch.x).double().softmax(1)


def test_joint_absence_pushes_the_bias_down_by_the_mean_replay_probability() -> None:
    _, slopes = gradients(make_learner("er-ace", network(), SETTING), step())
    pressure = slopes["fc.bias"][ABSENT].double()
    assert (pressure > 1e-3).all()
    torch.testing.assert_close(pressure, shares(REPLAY).mean(0)[ABSENT], rtol=0, atol=1e-6)
    summed = step((replace(REPLAY, weight=torch.ones(4)),))  # the form in which the equation is printed
    _, slopes = gradients(make_learner("er-ace", network(), SETTING), summed)
    torch.testing.assert_close(slopes["fc.bias"][ABSENT].double(), shares(REPLAY).sum(0)[ABSENT], rtol=0, atol=4e-6)


def test_plain_descent_lowers_the_bias_of_a_jointly_absent_class_at_every_step() -> None:
    learner = make_learner("er-ace", network(), SETTING)
    descent = torch.optim.SGD(learner.parameters(), lr=0.03)
    for _ in range(3):
        before = learner.net.fc.bias.detach().clone()
        descent.zero_grad()
        learner(step()).loss.backward()
        descent.step()
        assert (learner.net.fc.bias.detach()[ABSENT] < before[ABSENT]).all()


def test_without_the_mask_the_incoming_batch_pushes_too() -> None:
    _, slopes = gradients(make_learner("er", network(), SETTING), step())
    both = shares(REPLAY).mean(0) + shares(INCOMING).mean(0)
    torch.testing.assert_close(slopes["fc.bias"][ABSENT].double(), both[ABSENT], rtol=0, atol=1e-6)
    _, masked = gradients(make_learner("er-ace", network(), SETTING), step())
    assert (slopes["fc.bias"][ABSENT] > masked["fc.bias"][ABSENT] + 1e-3).all()


@pytest.mark.parametrize("name", ["er-ace", "er"])
def test_incoming_gradient_on_heads_of_seen_and_absent_classes(name: str) -> None:
    _, slopes = gradients(make_learner(name, network(), SETTING), step(replay=()))
    closed, opened = list(SEEN), [6, 7, 8, 9]
    for part in ("fc.weight", "fc.bias"):
        rows = slopes[part].reshape(CLASSES, -1).abs().amax(1)
        assert (rows[opened] > 0).all()
        if name == "er-ace":
            assert (rows[closed] == 0.0).all()
        else:
            assert (rows[closed] > 1e-3).all()


# DER's replay term in sum form. The incoming batch weighs nothing, so that the gradient is the replay term's alone.
POOL = make_batch([0, 0, 1, 1, 2, 2], range(20, 26), seed=3, size=16)
ALL_PAIRS = [list(pair) for pair in combinations(range(6), 2)]
FIXED_PAIRS = [[0, 1], [2, 3], [4, 5]]  # every example in one of three: included as often as among all fifteen


def der(norm: bool) -> DER:
    net = network()
    if not norm:
        for module in list(net.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.BatchNorm2d):
                    setattr(module, name, nn.Identity())
    learner = DER(net.double(), SETTING)
    learner.stored.logits.copy_(torch.randn(EXAMPLES, CLASSES, generator=torch.Generator().manual_seed(4)))
    return learner


def replay_gradient(learner: DER, rows: list[int]) -> Tensor:
    """The gradient of α · Σ over these examples of the squared distance to their stored logits."""
    chosen = Batch(POOL.x[rows].double(), POOL.y[rows], POOL.ids[rows], torch.ones(len(rows)))
    silent = replace(INCOMING, x=INCOMING.x.double(), weight=torch.zeros(6))
    _, slopes = gradients(learner, make_step(silent, [chosen], SEEN, classes=CLASSES))
    return torch.cat([slope.flatten() for slope in slopes.values()])


def expected(learner: DER, batches: list[list[int]]) -> Tensor:
    return torch.stack([replay_gradient(learner, rows) for rows in batches]).mean(0)


def test_der_gradient_of_a_batch_is_the_sum_over_its_examples() -> None:
    learner = der(norm=False)
    alone = [replay_gradient(learner, [row]) for row in range(4)]
    torch.testing.assert_close(replay_gradient(learner, [0, 1, 2, 3]), sum(alone), rtol=1e-5, atol=1e-7)
    assert all(one.norm() > 1e-3 for one in alone)


def test_der_gradient_expected_depends_on_inclusion_alone() -> None:
    learner = der(norm=False)
    mixed, frozen = expected(learner, ALL_PAIRS), expected(learner, FIXED_PAIRS)
    assert (mixed - frozen).norm() < 1e-6 * mixed.norm()
    # Unequal inclusion is another gradient, so the agreement above says something.
    assert (expected(learner, FIXED_PAIRS[:2]) - frozen).norm() > 1e-2 * mixed.norm()


def test_batchnorm_makes_batchmates_matter() -> None:
    learner = der(norm=True)
    mixed, frozen = expected(learner, ALL_PAIRS), expected(learner, FIXED_PAIRS)
    assert (mixed - frozen).norm() > 1e-2 * mixed.norm()
