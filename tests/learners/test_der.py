"""DER, DER++ and DER++ with ER-ACE's mask against their equations, worked out by hand; and what they store."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from learners.steps import (
    CLASSES,
    EXAMPLES,
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

from reprise.learners import MASKS, Batch
from reprise.learners.der import DER
from reprise.learners.derpp import DERpp
from reprise.learners.derpp_ace import DERppACE

INCOMING = make_batch([1, 4, 1], [10, 11, 12], seed=1)
FIRST = make_batch([0, 2, 5, 2], [3, 4, 5, 6], seed=2)
SECOND = make_batch([5, 0], [5, 7], seed=3)
SEEN = (0, 2, 5)
STORED = torch.randn(EXAMPLES, CLASSES, generator=torch.Generator().manual_seed(9)) * 2
OPEN = {
    "present_and_unseen": [1, 3, 4],
    "present": [1, 4],
    "reference_max": [1, 4, 5],
    "none": list(range(CLASSES)),
}
Terms = list[tuple[Tensor, np.ndarray]]


def entropy(hand: ByHand, batch: Batch, opened: list[int], weight: float) -> tuple[float, Terms]:
    """weight · mean of −log p(y), over the open classes."""
    terms = [entropy_term(hand.logits(x), y, opened) for x, y in zip(batch.x, batch.y.tolist(), strict=True)]
    share = weight / len(terms)
    return share * sum(t[0] for t in terms), [(x, share * t[1]) for x, t in zip(batch.x, terms, strict=True)]


def regression(hand: ByHand, batch: Batch, weight: float) -> tuple[float, Terms]:
    """weight · mean over examples and over all classes of (h(x) − z)²."""
    total, slopes = 0.0, []
    for x, example in zip(batch.x, batch.ids.tolist(), strict=True):
        slope = np.zeros(CLASSES)
        for c in range(CLASSES):
            error = hand.logits(x)[c] - float(STORED[example, c])
            total += weight * error**2 / (len(batch.ids) * CLASSES)
            slope[c] = weight * 2 * error / (len(batch.ids) * CLASSES)
        slopes.append((x, slope))
    return total, slopes


def summed(hand: ByHand, *parts: tuple[float, Terms]) -> tuple[float, dict[str, np.ndarray]]:
    return sum(part[0] for part in parts), hand.gradients(term for part in parts for term in part[1])


def with_stored(learner: DER | DERpp) -> DER | DERpp:
    learner.stored.logits.copy_(STORED)
    return learner


@pytest.mark.parametrize("alpha", [None, 0.8])
def test_der_holds_replay_to_its_stored_logits(alpha: float | None) -> None:
    net = TinyNetwork()
    learner = with_stored(DER(net, setting()) if alpha is None else DER(net, setting(), alpha=alpha))
    hand = ByHand(net)
    weight = 0.3 if alpha is None else alpha
    expected = summed(hand, entropy(hand, INCOMING, OPEN["none"], 1), regression(hand, FIRST, weight))
    assert_same(gradients(learner, make_step(INCOMING, [FIRST], SEEN)), *expected)


@pytest.mark.parametrize("weights", [{}, {"alpha": 0.8, "beta": 0.2}])
def test_derpp_takes_logits_of_the_first_draw_and_labels_of_the_second(weights: dict[str, float]) -> None:
    net = TinyNetwork()
    learner = with_stored(DERpp(net, setting(), **weights))
    hand = ByHand(net)
    expected = summed(
        hand,
        entropy(hand, INCOMING, OPEN["none"], 1),
        regression(hand, FIRST, weights.get("alpha", 0.1)),
        entropy(hand, SECOND, OPEN["none"], weights.get("beta", 0.5)),
    )
    assert_same(gradients(learner, make_step(INCOMING, [FIRST, SECOND], SEEN)), *expected)


@pytest.mark.parametrize("rule", [None, *MASKS])
def test_derpp_ace_masks_what_comes_in_and_no_draw(rule: str | None) -> None:
    net = TinyNetwork()
    learner = with_stored(DERppACE(net, setting()) if rule is None else DERppACE(net, setting(), mask=rule))
    hand = ByHand(net)
    expected = summed(
        hand,
        entropy(hand, INCOMING, OPEN[rule or "present_and_unseen"], 1),
        regression(hand, FIRST, 0.1),
        entropy(hand, SECOND, OPEN["none"], 0.5),
    )
    assert_same(gradients(learner, make_step(INCOMING, [FIRST, SECOND], SEEN)), *expected)


@pytest.mark.parametrize(("kind", "rule"), [(DER, "none"), (DERpp, "none"), (DERppACE, "present_and_unseen")])
def test_while_nothing_is_stored_the_incoming_term_stands_alone(kind: type[DER | DERpp], rule: str) -> None:
    learner = with_stored(kind(TinyNetwork(), setting()))
    hand = ByHand(learner.net)
    expected = summed(hand, entropy(hand, INCOMING, OPEN[rule], 1))
    assert_same(gradients(learner, make_step(INCOMING, (), SEEN)), *expected)


def test_draws_are_as_many_as_the_loss_has_replay_terms() -> None:
    assert (DER.draws, DERpp.draws, DERppACE.draws) == (1, 2, 2)


@pytest.mark.parametrize("kind", [DER, DERpp, DERppACE])
def test_logits_are_kept_by_example_id_as_they_were_before_the_update(kind: type[DER | DERpp]) -> None:
    learner = kind(TinyNetwork(), setting())
    descent = torch.optim.SGD(learner.parameters(), lr=0.5)
    step = make_step(INCOMING, [FIRST, SECOND][: learner.draws], SEEN)
    before = learner.net(INCOMING.x).detach()
    loss, logits = learner(step)
    loss.backward()
    descent.step()
    learner.after(step, logits.detach())
    assert not torch.equal(learner.net(INCOMING.x), before)
    assert torch.equal(learner.stored.logits[[10, 11, 12]], before)
    others = [example for example in range(EXAMPLES) if example not in (10, 11, 12)]
    assert (learner.stored.logits[others] == 0).all()


def test_logits_of_the_whole_batch_are_kept_where_a_process_sees_a_part_of_it() -> None:
    learner = DER(TinyNetwork(), setting())
    step = replace(make_step(INCOMING), ids=torch.tensor([10, 11, 12, 20]))
    learner.after(step, STORED[:4])
    assert torch.equal(learner.stored.logits[[10, 11, 12, 20]], STORED[:4])


def test_unmasked_logits_are_given_back_to_be_stored() -> None:
    net = TinyNetwork()
    logits = DERppACE(net, setting())(make_step(INCOMING, (), SEEN)).logits
    assert torch.equal(logits, net(INCOMING.x))


@pytest.mark.parametrize("kind", [DER, DERpp, DERppACE])
def test_state_holds_the_stored_logits(kind: type[DER | DERpp]) -> None:
    learner = with_stored(kind(TinyNetwork(seed=1), setting()))
    again = kind(TinyNetwork(seed=2), setting())
    again.load_state_dict(learner.state_dict())
    step = make_step(INCOMING, [FIRST, SECOND][: learner.draws], SEEN)
    assert torch.equal(again(step).loss, learner(step).loss)
    assert torch.equal(again.stored.logits, STORED)


@pytest.mark.parametrize("kind", [DER, DERpp, DERppACE])
def test_a_step_reads_nothing_back(kind: type[DER | DERpp]) -> None:
    learner = kind(TinyNetwork(), setting())
    step = make_step(INCOMING, [FIRST, SECOND][: kind.draws], SEEN)
    with NothingReadBack():
        loss, logits = learner(step)
        loss.backward()
        learner.after(step, logits.detach())


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (DER, {"alpha": -0.1}, "alpha must be 0 or more, got -0.1"),
        (DER, {"alpha": float("nan")}, "alpha must be finite, got nan"),
        (DERpp, {"beta": -1.0}, "beta must be 0 or more, got -1.0"),
        (DERppACE, {"mask": "all"}, "got 'all'"),
    ],
)
def test_bad_hyper_parameters_are_errors(kind: type[DER | DERpp], given: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind(TinyNetwork(), setting(), **given)
