"""MIR's score against a copied network and a real step; and nothing of the learner moves."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import reprise
from reprise.core.rng import Random
from reprise.learners import Batch, Learner, LearnerContext, Step, make_learner
from reprise.learners.losses import open_classes
from reprise.learners.ocm import OCM
from reprise.nets import build
from reprise.runs.settings import SCORING, VIRTUAL_LOSSES
from reprise.train import scoring
from reprise.train.scoring import interference

CLASSES, SIZE, LR = 6, 8, 0.1


def batch(labels: list[int], seed: int) -> Batch:
    count = len(labels)
    x = torch.from_numpy(Random(seed, "images").fractions(count * 3 * SIZE * SIZE)).view(count, 3, SIZE, SIZE)
    weight = torch.full((count,), 1 / count)
    return Batch(x * 4 - 2, torch.tensor(labels), torch.arange(count), weight)


def classes(*labels: int) -> torch.Tensor:
    return torch.zeros(CLASSES, dtype=torch.bool).index_fill(0, torch.tensor(labels), True)


STEP = Step(3, batch([4, 5, 4, 5], 0), (batch([0, 1], 9),), classes(4, 5), classes(0, 1, 2, 4, 5), torch.arange(4))
CANDIDATES = batch([0, 1, 2, 0, 1, 2, 4, 0, 0, 2], 1)


def trained(name: str = "er-ace") -> Learner:
    """A learner a few steps on, so that running statistics are not those of the start; in double precision."""
    learner = make_learner(name, build(classes=CLASSES, width=4, seed=0).double(), LearnerContext(CLASSES, 100))
    optimizer = torch.optim.SGD(learner.parameters(), lr=LR)
    for number in range(4):
        incoming = batch([0, 1, 2, 4], 20 + number)
        optimizer.zero_grad()
        learner(Step(number, incoming, (), classes(0, 1, 2, 4), classes(0, 1, 2, 4), incoming.ids)).loss.backward()
        optimizer.step()
    return learner


def literal(learner: Learner, candidates: Batch, loss: str, mode: str) -> torch.Tensor:
    """A copy of the network, a real step of a real optimiser, and losses of one pass each."""
    net, stepped = copy.deepcopy(learner.net), copy.deepcopy(learner.net)
    optimizer = torch.optim.SGD(stepped.parameters(), lr=LR)
    logits = stepped(STEP.incoming.x)
    if loss == "own":
        logits = logits.masked_fill(~open_classes("present_and_unseen", STEP), -torch.inf)
    F.cross_entropy(logits, STEP.incoming.y).backward()
    optimizer.step()
    for mine, its in zip(net.buffers(), stepped.buffers(), strict=True):
        its.copy_(mine)
    with torch.no_grad():
        before, after = (one.train(mode == "train")(candidates.x) for one in (net, stepped))
        scores = [
            float(F.cross_entropy(late[None], y[None]) - F.cross_entropy(early[None], y[None]))
            for early, late, y in zip(before, after, candidates.y, strict=True)
        ]
    return torch.tensor(scores, dtype=torch.float32)


@pytest.mark.parametrize("loss", VIRTUAL_LOSSES)
@pytest.mark.parametrize("mode", SCORING)
def test_score_is_that_of_a_copied_network_and_a_real_step(loss: str, mode: str) -> None:
    learner = trained()
    score = interference(learner, STEP, CANDIDATES, lr=LR, loss=loss, mode=mode)
    torch.testing.assert_close(score, literal(learner, CANDIDATES, loss, mode), rtol=0, atol=1e-6)
    assert score.abs().max() > 0.01
    assert not score.requires_grad


def test_virtual_losses_and_modes_differ() -> None:
    learner = trained()
    scores = [
        interference(learner, STEP, CANDIDATES, lr=LR, loss=loss, mode=mode)
        for loss in VIRTUAL_LOSSES
        for mode in SCORING
    ]
    for number, one in enumerate(scores):
        assert all((one - other).abs().max() > 1e-3 for other in scores[:number])


def test_own_loss_of_a_learner_without_a_mask_is_the_plain_one() -> None:
    learner = trained("er")
    plain, own = (interference(learner, STEP, CANDIDATES, lr=LR, loss=loss) for loss in VIRTUAL_LOSSES)
    torch.testing.assert_close(plain, own, rtol=0, atol=1e-7)


@pytest.mark.parametrize("loss", VIRTUAL_LOSSES)
@pytest.mark.parametrize("mode", SCORING)
@pytest.mark.parametrize("name", ["er-ace", "ocm"])
def test_nothing_of_the_learner_moves(name: str, mode: str, loss: str) -> None:
    if name == "ocm":
        net = build(classes=CLASSES, width=4, seed=0).double()
        learner: Learner = OCM(net, LearnerContext(CLASSES, 100), rotations=4, projection=8)
    else:
        learner = trained()
    learner.net.layer2.eval()  # a part that somebody has put in evaluation mode stays so
    for number, weight in enumerate(learner.parameters()):
        weight.grad = torch.full_like(weight, 0.5) if number % 2 else None
    state = {key: value.clone() for key, value in learner.state_dict().items()}
    slopes = [None if weight.grad is None else weight.grad.clone() for weight in learner.parameters()]
    flags, needs = [part.training for part in learner.modules()], [p.requires_grad for p in learner.parameters()]
    places, random = [p.data_ptr() for p in learner.state_dict().values()], torch.get_rng_state()

    interference(learner, STEP, CANDIDATES, lr=LR, loss=loss, mode=mode)

    now = learner.state_dict()
    assert all(torch.equal(now[key], state[key]) for key in state)
    assert [value.data_ptr() for value in now.values()] == places
    assert [part.training for part in learner.modules()] == flags
    assert [p.requires_grad for p in learner.parameters()] == needs
    assert torch.equal(torch.get_rng_state(), random)
    for weight, slope in zip(learner.parameters(), slopes, strict=True):
        assert weight.grad is None if slope is None else torch.equal(weight.grad, slope)


def test_mode_is_restored_when_scoring_fails() -> None:
    learner = trained()
    wrong = dataclasses.replace(CANDIDATES, x=torch.zeros(10, 4, SIZE, SIZE).double())
    with pytest.raises(RuntimeError):
        interference(learner, STEP, wrong, lr=LR, mode="eval")
    assert all(part.training for part in learner.modules())


def test_evaluation_mode_scores_each_alone_and_training_mode_the_pool_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = trained()
    part = dataclasses.replace(CANDIDATES, x=CANDIDATES.x[:4], y=CANDIDATES.y[:4])
    whole = {mode: interference(learner, STEP, CANDIDATES, lr=LR, mode=mode) for mode in SCORING}
    fewer = {mode: interference(learner, STEP, part, lr=LR, mode=mode) for mode in SCORING}
    torch.testing.assert_close(fewer["eval"], whole["eval"][:4], rtol=0, atol=1e-6)
    assert (fewer["train"] - whole["train"][:4]).abs().max() > 1e-3
    monkeypatch.setattr(scoring, "CHUNK", 3)
    for mode in SCORING:
        again = interference(learner, STEP, CANDIDATES, lr=LR, mode=mode)
        torch.testing.assert_close(again, whole[mode], rtol=0, atol=1e-6)


def test_frozen_parameters_take_no_virtual_step() -> None:
    learner = trained()
    learner.requires_grad_(False)
    learner.net.fc.requires_grad_(True)
    head_alone = interference(learner, STEP, CANDIDATES, lr=LR)
    assert head_alone.abs().max() > 1e-3
    assert (head_alone - interference(trained(), STEP, CANDIDATES, lr=LR)).abs().max() > 1e-3


def test_memory_returns_the_most_interfered_of_its_pool() -> None:
    learner = trained()
    stored = batch([n % 5 for n in range(30)], 5)
    memory = reprise.Memory(capacity=30, storage="fifo", retrieval="mir:12", seed=4)
    assert memory.store(stored.y.numpy()).tolist() == list(range(30))
    pools: list[np.ndarray] = []

    def take(slots: np.ndarray) -> Batch:
        return dataclasses.replace(stored, x=stored.x[slots], y=stored.y[slots])

    def score(slots: np.ndarray) -> np.ndarray:
        pools.append(slots)
        return interference(learner, STEP, take(slots), lr=LR).numpy()

    drawn = memory.draw(5, score=score)
    (pool,) = pools
    assert len(set(pool.tolist())) == 12
    scores = literal(learner, take(pool), "plain", "train").numpy()
    expected = [int(pool[place]) for place in sorted(range(12), key=lambda place: -scores[place])[:5]]
    assert drawn.slots.tolist() == expected
    assert np.diff(np.sort(scores)).min() > 1e-5  # no tie that a rounding error could turn


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loss": "masked"}, "virtual loss.*plain, own.*'masked'"),
        ({"mode": "test"}, "scoring mode.*train, eval.*'test'"),
        ({"lr": 0.0}, "lr.*above 0.*0.0"),
        ({"lr": float("nan")}, "lr.*above 0.*nan"),
    ],
)
def test_wrong_values_are_named(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        interference(trained(), STEP, CANDIDATES, **{"lr": LR, **given})  # type: ignore[arg-type]
