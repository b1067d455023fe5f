"""ER, ER-ACE and the two references against their equations, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners.steps import (
    CLASSES,
    ByHand,
    NothingReadBack,
    TinyNetwork,
    assert_same,
    entropy_term,
    gradients,
    make_batch,
    make_step,
    setting,
)
from torch import Tensor

from reprise.learners import MASKS, Batch, make_learner
from reprise.nets import build

INCOMING = make_batch([1, 4, 1], [10, 11, 12], seed=1)
REPLAY = make_batch([0, 2, 5, 2], [3, 4, 5, 6], seed=2)
SEEN = (0, 2, 5)
OPEN = {  # of six classes: 1 and 4 present, 0 2 5 seen before, 3 never
    "present_and_unseen": [1, 3, 4],
    "present": [1, 4],
    "reference_max": [1, 4, 5],
    "none": range(CLASSES),
}


def by_hand(net: TinyNetwork, terms: list[tuple[Batch, list[int] | range]]) -> tuple[float, dict[str, np.ndarray]]:
    """The sum over batches of the mean over examples of the cross-entropy over these classes."""
    hand = ByHand(net)
    total, slopes = 0.0, []
    for batch, opened in terms:
        for x, y in zip(batch.x, batch.y.tolist(), strict=True):
            loss, slope = entropy_term(hand.logits(x), y, opened)
            total += loss / len(batch.y)
            slopes.append((x, slope / len(batch.y)))
    return total, hand.gradients(slopes)


def test_er_adds_the_means_of_its_two_batches() -> None:
    learner = make_learner("er", TinyNetwork(), setting())
    step = make_step(INCOMING, [REPLAY], SEEN)
    assert_same(gradients(learner, step), *by_hand(learner.net, [(INCOMING, OPEN["none"]), (REPLAY, OPEN["none"])]))


@pytest.mark.parametrize("rule", MASKS)
def test_er_ace_masks_what_comes_in_and_not_what_returns(rule: str) -> None:
    learner = make_learner("er-ace", TinyNetwork(), setting(), mask=rule)
    step = make_step(INCOMING, [REPLAY], SEEN)
    assert_same(gradients(learner, step), *by_hand(learner.net, [(INCOMING, OPEN[rule]), (REPLAY, OPEN["none"])]))


@pytest.mark.parametrize(("name", "rule"), [("er", "none"), ("er-ace", "present_and_unseen")])
def test_while_nothing_is_stored_the_incoming_term_stands_alone(name: str, rule: str) -> None:
    learner = make_learner(name, TinyNetwork(), setting())
    assert_same(gradients(learner, make_step(INCOMING, (), SEEN)), *by_hand(learner.net, [(INCOMING, OPEN[rule])]))


@pytest.mark.parametrize("name", ["none", "joint"])
def test_references_learn_from_what_comes_in(name: str) -> None:
    learner = make_learner(name, TinyNetwork(), setting())
    assert (learner.draws, learner.shuffled) == (0, name == "joint")
    assert_same(gradients(learner, make_step(INCOMING, (), SEEN)), *by_hand(learner.net, [(INCOMING, OPEN["none"])]))


def test_er_ace_masks_present_and_unseen_unless_told_otherwise() -> None:
    step = make_step(INCOMING, [REPLAY], SEEN)
    default = make_learner("er-ace", TinyNetwork(), setting())
    named = make_learner("er-ace", TinyNetwork(), setting(), mask="present_and_unseen")
    assert torch.equal(default(step).loss, named(step).loss)


@pytest.mark.parametrize("name", ["er", "er-ace"])
def test_logits_given_back_are_the_incoming_ones_unmasked(name: str) -> None:
    net = TinyNetwork()
    logits = make_learner(name, net, setting())(make_step(INCOMING, [REPLAY], SEEN)).logits
    assert torch.equal(logits, net(INCOMING.x))


@pytest.mark.parametrize("passes", ["separate", "joint"])
def test_passes_decide_what_batchnorm_sees_as_one_batch(passes: str) -> None:
    incoming, replay = make_batch([1, 4, 1], [0, 1, 2], 1, size=8), make_batch([0, 2], [3, 4], 2, size=8)
    net = build("resnet18", classes=CLASSES, width=2)
    seen: list[Tensor] = []
    handle = net.bn1.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    make_learner("er", net, setting(passes))(make_step(incoming, [replay], SEEN))
    handle.remove()
    assert [len(x) for x in seen] == ([3, 2] if passes == "separate" else [5])


def test_a_joint_pass_gives_each_batch_its_own_logits() -> None:
    step = make_step(INCOMING, [REPLAY], SEEN)
    separate, joint = (make_learner("er-ace", TinyNetwork(), setting(passes))(step) for passes in ("separate", "joint"))
    torch.testing.assert_close(joint.loss, separate.loss)
    torch.testing.assert_close(joint.logits, separate.logits)


@pytest.mark.parametrize("given", [("er", {}), *(("er-ace", {"mask": rule}) for rule in MASKS)], ids=str)
def test_a_step_reads_nothing_back(given: tuple[str, dict[str, str]]) -> None:
    learner = make_learner(given[0], TinyNetwork(), setting(), **given[1])
    step = make_step(INCOMING, [REPLAY], SEEN)
    with NothingReadBack():
        learner(step).loss.backward()
