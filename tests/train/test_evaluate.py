"""Evaluation: against a count made image by image, and without a trace in the network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from train.tinyruns import CLASSES, config, go_to, images, run_to, thin_networks

from reprise.train import Training, evaluate
from reprise.train import state as state_module
from reprise.train.evaluate import arithmetic, correct_per_class
from reprise.train.pixels import Pixels

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


@pytest.fixture
def net():
    return run_to(config(learner="joint"), 12).net


def one_by_one(net, images, ids):
    """How many of each class are right, one image at a time, BatchNorm by its running statistics."""
    right = [0] * CLASSES
    pixels = Pixels(images, CPU)
    for number in ids:
        x = pixels.normalised(torch.from_numpy(images.images[number : number + 1]))
        net.eval()
        with torch.no_grad():
            scores = net(x)[0].tolist()
        best = max(range(CLASSES), key=lambda label: scores[label])
        right[images.labels[number]] += best == images.labels[number]
    net.train()
    return right


@pytest.mark.parametrize("size", [250, 7, 1])
def test_it_counts_what_a_look_at_each_image_counts(net, size, monkeypatch):
    monkeypatch.setattr(evaluate, "_SMALLEST", size)
    monkeypatch.setattr(evaluate, "_IN_CACHE", 0)
    test = images().test
    ids = [0, 5, 9, 38, 2, *range(10, 30)]
    expected = one_by_one(net, test, ids)
    found = correct_per_class(net, Pixels(test, CPU), torch.tensor(ids), CLASSES)
    assert found.tolist() == expected
    assert 0 < sum(expected) < len(ids), "a count of none or of all would show little"


@pytest.mark.parametrize(("side", "batch"), [(32, 128), (64, 32), (224, 32)])
def test_batches_on_a_cpu_are_small_where_images_are_large(side, batch, monkeypatch):
    pixels = Pixels(images().test, CPU)
    monkeypatch.setattr(pixels, "size", (side, side))
    parts = evaluate._batches(torch.arange(300), pixels)
    assert [len(part) for part in parts] == [batch] * (300 // batch) + [300 % batch]
    assert torch.equal(torch.cat(parts), torch.arange(300))


def test_height_and_width_are_known():
    wide = replace(images().test, images=images().test.images[:, :5])
    assert Pixels(wide, CPU).size == (5, 16)


def test_no_images_give_no_hits(net):
    found = correct_per_class(net, Pixels(images().test, CPU), torch.empty(0, dtype=torch.int64), CLASSES)
    assert found.tolist() == [0] * CLASSES


def test_the_network_is_left_as_it_was(net):
    net.bn2.eval()  # a part that somebody has frozen stays frozen
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [part.training for part in net.modules()]
    correct_per_class(net, Pixels(images().test, CPU), torch.arange(40), CLASSES)
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_modes_come_back_after_an_error(net):
    modes = [part.training for part in net.modules()]
    with pytest.raises(IndexError):
        correct_per_class(net, Pixels(images().test, CPU), torch.tensor([10_000]), CLASSES)
    assert [part.training for part in net.modules()] == modes


def test_training_does_not_know_how_often_it_is_tested():
    seldom, often = run_to(config()), run_to(config(evaluate_every=1))
    assert often.evaluations()["ema"].steps.tolist() == list(range(1, 16))
    assert torch.equal(seldom.losses, often.losses)
    assert all(torch.equal(a, b) for a, b in zip(seldom.net.parameters(), often.net.parameters(), strict=True))


def test_evaluations_come_at_task_boundaries_and_on_all_seen_classes_alone(monkeypatch):
    asked = []

    def spy(net, pixels, ids, classes, *more):
        asked.append((ids.tolist(), net.training))
        return correct_per_class(net, pixels, ids, classes, *more)

    monkeypatch.setattr(state_module, "correct_per_class", spy)
    run = Training(config(evaluate_every=4), images())
    go_to(run)
    found = run.evaluations()
    assert found["ema"].steps.tolist() == found["live"].steps.tolist() == [3, 4, 6, 8, 9, 12, 15]
    assert found["ema"].boundary.tolist() == [True, False, True, False, True, True, True]
    for place, step in enumerate(found["ema"].steps.tolist()):
        arrived = set(images().train.labels[run.plan.stream.ids[: run.plan.stream.offsets[step]]].tolist())
        expected = [number for number, label in enumerate(images().test.labels.tolist()) if label in arrived]
        for ids, _ in asked[2 * place : 2 * place + 2]:
            assert ids == expected
        assert set(found["live"].seen[place].nonzero()[0].tolist()) == arrived
    assert asked[1][1]
    assert not asked[0][1]


def test_both_readouts_are_counted_each_from_its_own_network():
    run = run_to(config(ema=200))
    test = images().test
    for name, net in (("live", run.net), ("ema", run.readout.net)):
        assert run.correct[name][-1].tolist() == one_by_one(net, test, range(len(test)))
    assert run.correct["live"][-1].tolist() != run.correct["ema"][-1].tolist()


def test_bf16_is_used_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(evaluate, "computes_bf16", lambda kind: True)  # whatever the processor here has

    class Says(nn.Module):
        def forward(self, x):
            self.found = torch.nn.functional.linear(x.flatten(1), torch.ones(CLASSES, x[0].numel())).dtype
            return torch.zeros(len(x), CLASSES)

    for name, expected in (("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)):
        says = Says()
        correct_per_class(says, Pixels(images().test, CPU), torch.arange(3), CLASSES, name)
        assert says.found == expected


def test_tf32_is_allowed_within_and_not_after():
    before = torch.backends.cuda.matmul.allow_tf32
    with arithmetic("tf32"):
        assert torch.backends.cuda.matmul.allow_tf32
        with arithmetic("fp32"):
            assert not torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before
