"""Refresh: the unlearning move and the running Fisher information against their equations; noise and resuming."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from learners.steps import CLASSES, ByHand, NothingReadBack, TinyNetwork, entropy_term, make_batch, make_step, setting
from torch import Tensor, nn

from reprise.learners import Batch, Step
from reprise.learners.derpp import DERpp
from reprise.learners.refresh import Refresh
from reprise.nets import build

INCOMING = make_batch([1, 4, 1], [10, 11, 12], seed=1)
DRAWS = (make_batch([0, 2, 5, 2], [3, 4, 5, 6], seed=2), make_batch([5, 0], [5, 7], seed=3))


def uphill(net: TinyNetwork, batch: Batch) -> dict[str, np.ndarray]:
    """The gradient of the mean cross-entropy of a batch, all classes open, worked out by hand."""
    hand = ByHand(net)
    pairs = list(zip(batch.x, batch.y.tolist(), strict=True))
    return hand.gradients((x, entropy_term(hand.logits(x), y, range(CLASSES))[1] / len(pairs)) for x, y in pairs)


def values(net: nn.Module) -> dict[str, np.ndarray]:
    return {name: parameter.detach().double().numpy().copy() for name, parameter in net.named_parameters()}


def flat(parts: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([part.ravel() for part in parts.values()])


def sizes(net: nn.Module) -> list[int]:
    return np.cumsum([parameter.numel() for parameter in net.parameters()])[:-1].tolist()


def test_defaults_are_the_published_ones() -> None:
    learner = Refresh(TinyNetwork(), setting())
    assert (learner.unlearn, learner.damping, learner.noise) == (1e-5, 1e-3, 1e-3)
    assert (learner.alpha, learner.beta, learner.mask, learner.draws) == (0.1, 0.5, "none", 2)
    assert (learner.descent.lr, learner.descent.weight_decay, learner.descent.momentum) == (0.03, 1e-4, 0)
    assert not learner.parallel


def test_move_is_uphill_by_the_length_of_each_tensor_and_damped_by_fisher() -> None:
    net = TinyNetwork()
    learner = Refresh(net, setting(), unlearn=0.2, damping=0.5, noise=0.0)
    learner.fisher.copy_(torch.rand(learner.fisher.shape, generator=torch.Generator().manual_seed(7)) * 9)
    fisher = np.split(learner.fisher.double().numpy(), sizes(net))
    before, slopes = values(net), uphill(net, INCOMING)
    learner.before(make_step(INCOMING))
    after = values(net)
    assert after.keys() == slopes.keys()
    for (name, theta), information in zip(before.items(), fisher, strict=True):
        step = np.sqrt((theta**2).sum()) / np.sqrt((slopes[name] ** 2).sum()) * slopes[name]
        expected = 0.2 / (1 + 0.5 * information.reshape(theta.shape)) * step
        np.testing.assert_allclose(after[name] - theta, expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_move_is_that_of_a_copy_after_one_step_of_ascent() -> None:
    # The published way: copy the network, descend −CE once at 0.01, take the difference of the weights.
    net = build("resnet18", classes=CLASSES, width=2, seed=3)
    incoming = make_batch([1, 4, 1, 0], [10, 11, 12, 13], seed=1, size=8)
    twin = copy.deepcopy(net).train()
    ascent = torch.optim.SGD(twin.parameters(), lr=0.01)
    (-nn.functional.cross_entropy(twin(incoming.x), incoming.y)).backward()
    ascent.step()
    before, target = values(net), values(twin)
    learner = Refresh(net, setting(), unlearn=0.1, noise=0.0)
    learner.before(make_step(incoming))
    for name, after in values(net).items():
        theta, difference = before[name], target[name] - before[name]
        scale = np.linalg.norm(theta) / (np.linalg.norm(difference) + 1e-20)
        moved = after - theta
        error = np.linalg.norm(moved - 0.1 * scale * difference)
        assert error <= 2e-3 * np.linalg.norm(moved), name  # the difference of nearly equal weights is coarse


def test_the_extra_pass_leaves_batchnorm_and_gradients_alone() -> None:
    net = build("resnet18", classes=CLASSES, width=2)
    learner = Refresh(net, setting())
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    weights = values(net)
    learner.before(make_step(make_batch([1, 4, 1, 0], [0, 1, 2, 3], seed=1, size=8)))
    assert before
    assert all(torch.equal(buffer, before[name]) for name, buffer in net.named_buffers())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert (flat(values(net)) != flat(weights)).any()


def noise_of(number: int, seed: int = 0, *, made: int | None = None) -> np.ndarray:
    """What the noise adds to the weights at a move, over δσ, with so many moves made before and the others told of."""
    moves = []
    for sigma in (0.0, 0.5):
        learner = Refresh(TinyNetwork(), setting(seed=seed), unlearn=0.1, noise=sigma)
        learner.moves.fill_(number - (made or 0))
        for _ in range(made or 0):
            learner.before(make_step(INCOMING))
        learner.net.load_state_dict(TinyNetwork().state_dict())
        learner.before(make_step(INCOMING, number=99))
        moves.append(flat(values(learner.net)))
    return (moves[1] - moves[0]) / (0.1 * 0.5)


def test_noise_is_standard_normal_and_depends_on_seed_and_move_alone() -> None:
    one = noise_of(4)
    draws = np.concatenate([noise_of(number) for number in range(40)])  # 96 weights each
    assert abs(draws.mean()) < 4 / np.sqrt(draws.size)
    assert abs(draws.std() - 1) < 4 / np.sqrt(2 * draws.size)
    np.testing.assert_allclose(noise_of(4, made=3), one, atol=1e-5)
    assert np.abs(noise_of(5) - one).max() > 0.1
    assert np.abs(noise_of(4, seed=1) - one).max() > 0.1


def test_restarted_it_is_as_one_newly_made() -> None:
    learner, other = Refresh(TinyNetwork(), setting(), fisher_every=2), Refresh(TinyNetwork(), setting(seed=3))
    step = make_step(INCOMING, DRAWS, (0, 2, 5))
    learner.before(step)
    learner.after(step, learner(step).logits.detach())
    net = copy.deepcopy(learner.net.state_dict())
    learner.restart(3)
    for name, value in other.state_dict().items():
        mine = learner.state_dict()[name]
        assert torch.equal(mine, net[name.removeprefix("net.")] if name.startswith("net.") else value), name


def test_fisher_is_a_moving_average_refreshed_by_example_count() -> None:
    net = TinyNetwork()
    learner = Refresh(net, setting(), unlearn=0.01, fisher_every=7, fisher_decay=0.75)
    fisher = np.zeros(sum(parameter.numel() for parameter in net.parameters()))
    gathered, since, refreshed = np.zeros_like(fisher), 0, []
    for number, count in enumerate([3, 3, 2, 4, 3, 1, 7, 2]):
        batch = make_batch([number % CLASSES] * count, range(count), seed=number)
        gathered += (count * flat(uphill(net, batch))) ** 2  # the gradient before the move
        since += count
        if since >= 7:
            fisher = 0.75 * fisher + 0.25 * gathered / since
            gathered, since = np.zeros_like(fisher), 0
            refreshed.append(number)
        learner.before(make_step(batch, number=number))
        np.testing.assert_allclose(learner.fisher.numpy(), fisher, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(learner.gathered.numpy(), gathered, rtol=1e-4, atol=1e-7)
        assert int(learner.since) == since
    assert refreshed == [2, 4, 6]
    assert fisher.max() > 0


def test_a_batch_is_not_damped_by_itself() -> None:
    moves = []
    for damping in (0.0, 1e6):
        learner = Refresh(TinyNetwork(), setting(), unlearn=0.1, damping=damping, fisher_every=1)
        for number in range(2):
            before = flat(values(learner.net))
            learner.before(make_step(INCOMING, number=number))
            moves.append(np.abs(flat(values(learner.net)) - before).max())
            learner.net.load_state_dict(TinyNetwork().state_dict())
    assert moves[2] == moves[0] > 0.01  # the first batch: F is still zero
    assert moves[3] < 0.1 * moves[1]  # the second: F holds the first


def test_then_the_loss_is_that_of_derpp() -> None:
    learner = Refresh(TinyNetwork(), setting(), unlearn=0.1)
    step = make_step(INCOMING, DRAWS, (0, 2, 5))
    learner.before(step)
    plain = DERpp(copy.deepcopy(learner.net), setting())
    stored = torch.randn(learner.stored.logits.shape, generator=torch.Generator().manual_seed(3))
    for one in (learner, plain):
        one.stored.logits.copy_(stored)
    assert torch.equal(learner(step).loss, plain(step).loss)


def test_under_autocast_the_step_sees_the_moved_weights() -> None:
    # Autocast remembers the weights it has cast, and would go on with those of before the move.
    step = make_step(INCOMING, DRAWS, (0, 2, 5))
    learner = Refresh(TinyNetwork(), setting(), unlearn=0.5)
    with torch.autocast("cpu", torch.bfloat16):
        learner.before(step)
        at_once = learner(step).loss
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(learner(step).loss, at_once)


def test_a_step_reads_nothing_back() -> None:
    learner = Refresh(TinyNetwork(), setting(), fisher_every=2)
    step = make_step(INCOMING, DRAWS, (0, 2, 5))
    with NothingReadBack():
        learner.before(step)
        learner(step).loss.backward()


def train(learner: Refresh, numbers: range) -> list[Tensor]:
    descent = torch.optim.SGD(learner.parameters(), lr=0.03, weight_decay=1e-4)
    losses = []
    for number in numbers:
        ids = range(4 * number, 4 * number + 4)
        step = made(number, ids)
        learner.before(step)
        loss, logits = learner(step)
        descent.zero_grad()
        loss.backward()
        descent.step()
        learner.after(step, logits.detach())
        losses.append(loss.detach())
    return losses


def made(number: int, ids: range) -> Step:
    earlier = [max(0, ids[0] - 1), max(0, ids[0] - 3)]
    draws = [make_batch([1, 2], earlier, seed, size=8) for seed in (100 + number, 200 + number)] if number else []
    return make_step(make_batch([0, 1, 2, 3], ids, seed=number, size=8), draws, number=number)


def test_resumed_from_its_state_it_goes_on_bit_for_bit() -> None:
    def fresh(seed: int) -> Refresh:
        net = build("resnet18", classes=CLASSES, width=2, seed=seed)
        return Refresh(net, setting(), unlearn=1e-2, damping=1.0, fisher_every=8)

    through = fresh(0)
    losses = train(through, range(3))
    state = copy.deepcopy(through.state_dict())
    losses = train(through, range(3, 7))
    resumed = fresh(1)
    resumed.load_state_dict(state)
    assert all(torch.equal(*pair) for pair in zip(losses, train(resumed, range(3, 7)), strict=True))
    ends = (through.state_dict(), resumed.state_dict())
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unlearn": -1.0}, "unlearn must be 0 or more, got -1.0"),
        ({"damping": float("inf")}, "damping must be finite, got inf"),
        ({"noise": -0.5}, "noise must be 0 or more, got -0.5"),
        ({"fisher_every": 0}, "fisher_every must be 1 or more, got 0"),
        ({"fisher_decay": 1.0}, "fisher_decay must be below 1"),
    ],
)
def test_bad_hyper_parameters_are_errors(given: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Refresh(TinyNetwork(), setting(), **given)
