"""Training under a storage that asks the network: a live run, told what a look at each image tells."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from train.tinyruns import config, go_to, images, result, run_to, same, thin_networks, weights

from reprise.core import registry
from reprise.core.registry import register
from reprise.memory import Fifo
from reprise.train import Training, train
from reprise.train.feed import LiveFeed

TOLD: list[tuple[list[int] | None, np.ndarray]] = []


class Told(Fifo):
    """First in, first out, and asks all the same."""

    def assign(self, labels, index, score):
        stored = list(range(index.size))[::3]
        TOLD.append((None, score()))
        if stored:
            TOLD.append((stored, score(stored)))
        return super().assign(labels, index)


class ToldFeatures(Told):
    scored = "features"


class ToldGradients(Told):
    scored = "gradients"


class ToldFortunes(Told):
    scored = "fortunes"


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    for name in (ToldFeatures, ToldGradients, ToldFortunes):
        register("storage", name.__name__)(name)
    TOLD.clear()
    with thin_networks():
        yield


@pytest.mark.parametrize("learner", ["er", "der++", "none"])
def test_a_live_run_is_the_planned_one_if_the_storage_decides_alike(learner):
    live, planned = (run_to(config(learner=learner, storage=name)) for name in ("ToldFeatures", "fifo"))
    assert isinstance(live.feed, LiveFeed)
    assert live.run.scored
    assert not planned.run.scored
    for name in ("incoming", "replay", "slots", "written"):
        assert np.array_equal(getattr(live.feed.tape(), name), getattr(planned.feed.tape(), name))
    assert same(weights(live), weights(planned))


@pytest.mark.parametrize(("storage", "head"), [("ToldFeatures", "cosine"), ("ToldGradients", "linear")])
def test_it_is_told_what_a_look_at_each_image_tells(storage, head):
    run = Training(config(storage=storage, head=head), images())
    go_to(run, 4)
    TOLD.clear()
    held = run.feed.holder.copy()
    go_to(run, 5)
    (_, incoming), (slots, stored) = TOLD
    arriving = run.feed.rows[4, : run.feed.arrivals[4]]
    assert len(incoming) == 8
    assert len(slots) == 7
    net, train_images = run.net.eval(), images().train
    for number, row in zip([*arriving, *held[slots]], [*incoming, *stored], strict=True):
        x = run.pixels.normalised(torch.from_numpy(train_images.images[number : number + 1]))
        expected = net.features(x)
        if storage == "ToldGradients":
            loss = F.cross_entropy(net.fc(expected), torch.tensor(train_images.labels[number : number + 1]))
            slopes = torch.autograd.grad(loss, list(net.fc.parameters()))
            expected = torch.cat([slope.flatten() for slope in slopes])
        assert torch.allclose(torch.from_numpy(row).float(), expected.flatten(), atol=1e-6)


def test_asking_leaves_the_network_as_it_is(monkeypatch):
    run = run_to(config(storage="ToldGradients"), 5)
    before, modes = weights(run), [part.training for part in run.net.modules()]
    run.feed.close(run.feed.step(5))
    assert same(before, weights(run))
    assert [part.training for part in run.net.modules()] == modes


def test_a_run_that_was_stopped_goes_on_to_the_same_record(tmp_path):
    settings = config(learner="er", storage="ToldFeatures", retrieval="mir:12")
    whole = train(settings, images())

    def stop(run, trained):
        if trained.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(settings, images(), checkpoints=tmp_path, watch=stop)
    assert result(train(settings, images(), checkpoints=tmp_path)) == result(whole)


def test_a_run_can_tell_of_some_things_only():
    with pytest.raises(ValueError, match=r"'ToldFortunes' says scored = 'fortunes'; .* features or gradients"):
        config(storage="ToldFortunes")
