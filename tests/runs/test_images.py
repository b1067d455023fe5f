"""Which images a run reads."""

from __future__ import annotations

import numpy as np
import pytest
from train.tinyruns import config

from reprise import data
from reprise.core import registry
from reprise.data import from_arrays
from reprise.execute.one import audit
from reprise.runs import Images, Run, fingerprints
from reprise.runs.images import source
from reprise.streams import Dataset


@pytest.fixture
def five_of_each(monkeypatch):
    labels = np.array([1, 0, 1, 0, 0, 1, 1, 0, 0, 1])
    sets = {
        split: from_arrays(np.full((10, 8, 8, 3), shade, np.uint8), labels, split=split)
        for split, shade in (("train", 10), ("test", 20))
    }
    asked = []

    def load(name, root, split, **_):
        asked.append(split)
        return sets[split]

    monkeypatch.setattr(data, "load", load)
    return labels, asked


def test_the_first_images_of_every_class(five_of_each):
    labels, _ = five_of_each
    found = Images.load(config(per_class=2, test_per_class=1))
    assert found.train.labels.tolist() == labels[[0, 1, 2, 3]].tolist()
    assert found.test.labels.tolist() == labels[[0, 1]].tolist()
    assert (found.train.images == 10).all()
    assert (found.test.images == 20).all()
    assert len(Images.load(config()).train) == len(Images.load(config()).test) == 10


def test_a_validation_run_reads_no_test_images(five_of_each):
    _, asked = five_of_each
    Images.load(config(validation=True))
    assert asked == ["train"]
    assert source(config(validation=True)) != source(config())


def test_runs_need_the_same_images_whatever_is_done_to_them():
    assert source(config(augment="none")) == source(config(augment="crop", seed=3, learner="er", retrieval="iid"))
    assert source(config(per_class=2)) != source(config())
    with pytest.raises(ValueError, match="nothing arrives in this run, so it has no images"):
        source(Run.of(learner=None, classes=5, steps=9))


def test_an_audit_of_few_classes_is_known_by_its_labels(monkeypatch):
    small = Dataset("four", classes=4, train=40)
    entry = registry._Entry("dataset", "four", small, None, "", False)
    monkeypatch.setitem(registry._REGISTRY, ("dataset", "four"), entry)
    run = Run.of(learner=None, dataset="four", tasks=2, batch=4, buffer=8, replay=2)
    assert fingerprints(run) == fingerprints(run.replace(tasks=4, imbalance=5.0))
    assert audit(run)["stream"]["boundaries"] == [5, 10]
