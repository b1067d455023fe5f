"""A learner that says how it predicts: the nearest mean of stored examples, against a computation by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from train.tinyruns import CLASSES, config, images, run_to, thin_networks

from reprise.core import registry
from reprise.core.registry import register
from reprise.fleet import grouping
from reprise.fleet.grouping import capturable
from reprise.learners import Learner
from reprise.learners.er import ER
from reprise.train.pixels import Pixels


class NearestMean(ER):
    """ER whose read-outs name the class whose stored examples lie nearest, by the mean of their features."""

    def predictor(self, net, stored):
        sums = torch.zeros(self.setting.classes, net.fc.weight.shape[1])
        counts = torch.zeros(self.setting.classes)
        for batch in stored:
            assert not net.training
            sums.index_add_(0, batch.y, net.features(batch.x).float())
            counts.index_add_(0, batch.y, torch.ones(len(batch.y)))
        means = sums / counts[:, None]  # not a number where nothing is stored

        def scores(x):
            return (-torch.cdist(net.features(x).float(), means)).nan_to_num(nan=-torch.inf)

        return scores


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    register("learner", "nearest-mean")(NearestMean)
    with thin_networks():
        yield


def by_hand(run, net):
    """How many test images of each class are right, from the tape, slot by slot and image by image."""
    train, test = images().train, images().test
    held = {}
    tape = run.feed.tape()
    for slots, ids in zip(tape.written[: run.step].tolist(), tape.incoming[: run.step].tolist(), strict=True):
        held.update({slot: number for slot, number in zip(slots, ids, strict=True) if slot >= 0})
    net.eval()

    def features(pixels, number):
        x = Pixels(pixels, torch.device("cpu")).normalised(torch.from_numpy(pixels.images[number : number + 1]))
        with torch.no_grad():
            return net.features(x)[0].double().numpy()

    stored = {number: features(train, number) for number in held.values()}
    means = {
        label: np.mean([row for number, row in stored.items() if train.labels[number] == label], axis=0)
        for label in {int(train.labels[number]) for number in stored}
    }
    seen = set(train.labels[run.plan.stream.ids[: run.plan.stream.offsets[run.step]]].tolist())
    right = [0] * CLASSES
    for number, label in enumerate(test.labels.tolist()):
        if label in seen:
            row = features(test, number)
            nearest = min(means, key=lambda one: np.linalg.norm(row - means[one]))
            right[label] += nearest == label
    net.train()
    return right


@pytest.mark.parametrize(
    "settings", [{"storage": "fifo"}, {"retrieval": "mir:12", "buffer": 8}], ids=["planned", "live"]
)  # nothing is stored of some classes
@pytest.mark.parametrize("stop", [6, 15])
def test_both_readouts_name_the_nearest_mean_of_what_is_stored(settings, stop):
    run = run_to(config(learner="nearest-mean", ema=200, **settings), stop)
    for name, net in (("live", run.net), ("ema", run.readout.net)):
        expected = by_hand(run, net)
        assert run.correct[name][-1].tolist() == expected
        assert 0 < sum(expected) < len(images().test)


def test_training_does_not_know_how_it_is_tested():
    nearest, plain = run_to(config(learner="nearest-mean")), run_to(config(learner="er"))
    assert torch.equal(nearest.losses, plain.losses)
    assert nearest.correct["live"][-1].tolist() != plain.correct["live"][-1].tolist()


def test_a_lane_leaves_it_to_the_plain_loop(monkeypatch):
    monkeypatch.setattr(grouping, "find_spec", lambda name: object())
    assert NearestMean.capturable
    assert capturable(config(learner="er"))
    assert not capturable(config(learner="nearest-mean"))


def test_the_usual_predictor_is_the_network_itself():
    run = run_to(config(), 3)
    assert Learner.predictor(run.learner, run.net, ()) is run.net
