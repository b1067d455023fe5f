"""The loop against training written out in plain torch; and what its options change, and do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from train.tinyruns import ARMS, CLASSES, config, cut_by_hand, images, run_to, same, thin_networks, weights

from reprise import Memory, nets, plan
from reprise.runs.augmentation import plan_augmentation
from reprise.runs.plan import make_stream
from reprise.streams import from_labels
from reprise.train import Training, steps, train


def pixels(ids, crops):
    """Cropped and flipped one image at a time, and normalised, rounded in the order in which training rounds."""
    train = images().train
    rows = zip(ids.tolist(), crops.tolist(), strict=True)
    cut = np.stack([cut_by_hand(train.images[one], *crop) for one, crop in rows])
    shift, spread = 255 * torch.tensor(train.mean), 255 * torch.tensor(train.std)
    return ((torch.from_numpy(cut).float() - shift) * (1 / spread)).permute(0, 3, 1, 2)


def mean(losses):
    """The mean of so few numbers, rounded as a sum of equal shares is: then weights can be compared bit for bit."""
    return (losses * (1 / len(losses))).sum()


def er_ace_by_hand(seed, lr, batch=8, buffer=20, replay=4):
    """ER-ACE from a tape: the incoming batch over present and unseen classes, replay over all; its losses too."""
    labels = torch.from_numpy(images().train.labels)
    stream = make_stream(config(seed=seed), images().train.labels)
    tape = plan(stream, Memory(buffer, "reservoir", "rpr", seed), replay)
    net = nets.build("resnet18", classes=CLASSES, head="cosine", width=2, seed=seed)
    crops = plan_augmentation(seed, "augmentation", tape.incoming.shape, "crop+flip")
    replay_crops = plan_augmentation(seed, "augmentation of replay", tape.replay.shape, "crop+flip")
    optimizer, seen, losses = torch.optim.SGD(net.parameters(), lr), set(), []
    for step in range(len(tape)):
        ids = tape.incoming[step][tape.incoming[step] >= 0]
        present = set(labels[ids].tolist())
        seen |= present
        closed = [label for label in seen if label not in present]
        logits = net(pixels(ids, crops[step][: len(ids)]))
        logits[:, closed] = float("-inf")
        loss = mean(F.cross_entropy(logits, labels[ids], reduction="none"))
        again = tape.replay[step, 0][tape.replay[step, 0] >= 0]
        if len(again):
            logits = net(pixels(again, replay_crops[step, 0][: len(again)]))
            loss = loss + mean(F.cross_entropy(logits, labels[again], reduction="none"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return net, losses


def test_momentum_of_batchnorm_is_that_of_the_run():
    made = [Training(config(bn_momentum=momentum), images()) for momentum in (None, 0.25)]
    assert [{norm.momentum for norm in nets.batch_norms(one.net)} for one in made] == [{0.1}, {0.25}]
    usual, other = (run_to(config(bn_momentum=momentum), 1) for momentum in (None, 0.25))
    assert torch.equal(usual.net.fc.weight, other.net.fc.weight)
    assert not torch.equal(usual.net.bn1.running_mean, other.net.bn1.running_mean)


def test_it_is_er_ace_written_out():
    run = run_to(config(seed=2, lr=0.05))
    net, losses = er_ace_by_hand(seed=2, lr=0.05)
    np.testing.assert_array_equal(run.losses.numpy(), np.array(losses, np.float32))
    begun = nets.build("resnet18", classes=CLASSES, head="cosine", width=2, seed=2).state_dict()
    for name, value in net.state_dict().items():
        assert torch.equal(run.net.state_dict()[name], value), name
        assert not torch.equal(value, begun[name]), name


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_repeats_itself_bit_for_bit(arm):
    with thin_networks():
        one, two, other = (run_to(config(**ARMS[arm], seed=seed), 7) for seed in (0, 0, 1))
    assert same(weights(one), weights(two))
    assert torch.equal(one.losses[:7], two.losses[:7])
    assert torch.isfinite(one.losses[:7]).all()
    assert not torch.equal(other.losses[:7], one.losses[:7])


def test_a_joint_pass_differs_from_separate_passes_through_batchnorm_alone():
    differences = {}
    for batchnorm in (False, True):
        with thin_networks(batchnorm):
            separate, joint = (run_to(config(passes=passes)) for passes in ("separate", "joint"))
        pairs = zip(separate.net.parameters(), joint.net.parameters(), strict=True)
        differences[batchnorm] = max(float((a - b).detach().abs().max()) for a, b in pairs)
    assert differences[False] < 1e-6
    assert differences[True] > 1e-3


def test_each_step_says_what_it_did():
    with thin_networks():
        run = Training(config(), images())
        found = list(steps(run))
    assert [one.step for one in found] == list(range(1, 16))
    assert [one.examples for one in found] == [8, 8, 4] * 5
    assert [one.loss for one in found] == run.losses.tolist()
    assert [one.step for one in found if one.evaluations is not None] == [3, 6, 9, 12, 15]
    assert len(found[5].evaluations["ema"].steps) == 2


def test_hits_are_those_of_the_network_before_it_learnt_the_batch():
    with thin_networks(batchnorm=False):
        run = Training(config(learner="none", lr=0.5), images())
        for number in range(run.steps):
            step = run.feed.step(number)
            with torch.no_grad():
                expected = int((run.net(step.incoming.x).argmax(1) == step.incoming.y).sum())
            next(steps(run))
            assert int(run.hits[number]) == expected
    assert run.hits.sum() > 0


def test_biases_are_noted_before_the_first_step_and_after_every_one():
    with thin_networks():
        run = Training(config(head="linear"), images())
        rows = [run.net.fc.bias.detach().clone()]
        for _ in steps(run):
            rows.append(run.net.fc.bias.detach().clone())
        assert torch.equal(run.biases, torch.stack(rows))
        assert not torch.equal(rows[0], rows[-1])
        assert Training(config(head="cosine"), images()).biases is None
        bins = train(config(head="linear"), images())["diagnostics"]["bias_displacement"]
        assert sum(row["episodes"] for row in bins.values()) > 0
        assert train(config(head="cosine"), images())["diagnostics"] == {}


def test_a_run_s_stream_has_the_tail_of_the_seed_asked_for():
    labels = images().train.labels
    for name in ("tiny", "cifar10"):  # any labels, and those of a data set that is known by name
        run = config(dataset=name, imbalance=5, seed=2, imbalance_seed=8)
        given = from_labels(labels, 2, imbalance=5, batch=8, tasks=5, imbalance_seed=8)
        usual = make_stream(run.replace(imbalance_seed=None), labels)
        assert make_stream(run, labels).ids.tolist() == given.ids.tolist() != usual.ids.tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "bf16"},
        {"optimizer": "adam", "lr": 0.001},
        {"weight_decay": 0.1},
        {"augment": "none"},
        {"hyper": {"mask": "none"}},
        {"order": "permuted"},
        {"imbalance": 5},
        {"disjoint": 0.5, "blur": 0.3},
        {"storage": "fifo"},
    ],
    ids=str,
)
def test_a_setting_changes_what_is_learnt(settings, monkeypatch):
    monkeypatch.setattr("reprise.train.evaluate.computes_bf16", lambda kind: True)  # whatever the processor here has
    with thin_networks():
        usual, other = run_to(config()), run_to(config(**settings))
    assert torch.isfinite(other.losses).all()
    assert not torch.equal(usual.net.fc.weight, other.net.fc.weight)


@pytest.mark.parametrize(
    ("settings", "kind", "defaults"),
    [
        ({"optimizer": "adam", "lr": 0.001, "weight_decay": 0.1}, torch.optim.Adam, {"lr": 0.001, "weight_decay": 0.1}),
        ({"momentum": 0.9, "weight_decay": 0.1}, torch.optim.SGD, {"lr": 0.03, "momentum": 0.9, "weight_decay": 0.1}),
        ({"learner": "refresh"}, torch.optim.SGD, {"lr": 0.03, "momentum": 0.0, "weight_decay": 1e-4}),
        ({"learner": "ocm"}, torch.optim.Adam, {"lr": 1e-3, "weight_decay": 1e-4}),
    ],
    ids=str,
)
def test_the_optimiser_is_the_one_asked_for_or_the_learners(settings, kind, defaults):
    with thin_networks():
        optimizer = Training(config(**settings), images()).optimizer
    assert type(optimizer) is kind
    assert {name: optimizer.defaults[name] for name in defaults} == defaults


def test_adam_is_adam():
    """One step by hand: the first step of Adam moves every weight by lr · g / (|g| + ε·√…), decay within g."""
    with thin_networks():
        run = Training(config(optimizer="adam", lr=0.01, weight_decay=0.1), images())
        before = [one.detach().clone() for one in run.learner.parameters()]
        next(steps(run))
    for old, one in zip(before, run.learner.parameters(), strict=True):
        slope = one.grad + 0.1 * old
        torch.testing.assert_close(one.detach(), old - 0.01 * slope / (slope.abs() + 1e-8), rtol=1e-4, atol=1e-6)


def test_a_learning_rate_of_nought_learns_nothing():
    with thin_networks():
        begun, ended = run_to(config(lr=0), 0), run_to(config(lr=0))
    assert torch.equal(begun.net.fc.weight, ended.net.fc.weight)


@pytest.mark.parametrize(("precision", "expected"), [("fp32", False), ("tf32", True), ("bf16", False)])
def test_both_ways_through_the_network_are_rounded_alike(precision, expected):
    """TF32 is allowed in the backward pass too, where two thirds of the work are; and in no other precision."""
    found = []
    with thin_networks():
        run = Training(config(precision=precision), images())
    run.net.conv1.register_forward_hook(lambda *_: found.append(torch.backends.cuda.matmul.allow_tf32))
    run.net.conv1.weight.register_hook(lambda _: found.append(torch.backends.cudnn.allow_tf32))
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    next(steps(run))
    assert found == [expected, expected]
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
