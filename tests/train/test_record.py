"""What a record says of a run, figure by figure; and which images a run reads."""

from __future__ import annotations

import numpy as np
import pytest
from train.tinyruns import config, images, run_to, thin_networks

from reprise import data
from reprise.data import from_arrays
from reprise.train import Images, Run, make_record


def test_figures_are_those_of_the_run():
    with thin_networks():
        run = run_to(config())
    record = make_record(run, {})
    hits, sizes = run.hits.numpy(), np.diff(run.stream.offsets)
    ends = run.stream.boundaries.tolist()
    by_task = [hits[a:b].sum() / sizes[a:b].sum() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    assert len(set(by_task)) > 1, "every order of tasks would look the same"
    assert record["prequential"]["by_task"] == pytest.approx(by_task)
    assert record["prequential"]["accuracy"] == pytest.approx(hits.sum() / sizes.sum())
    assert record["final_loss"] == float(run.losses[-1]) != float(run.losses[0])
    assert record["tape"] == run.feed.tape().hash
    assert record["evaluations"]["steps"] == ends
    assert record["data"] == {"train": images().train.fingerprint(), "test": images().test.fingerprint()}
    assert record["identity"] == run.config.identity(record["data"])


def test_the_command_is_the_programs_own(monkeypatch):
    with thin_networks():
        run = run_to(config())
    for argv, said in [(["/a/b/reprise", "train"], "reprise"), (["/x/reprise/__main__.py", "train"], "reprise")]:
        monkeypatch.setattr("sys.argv", argv)
        assert make_record(run, {})["provenance"]["command"] == [said, "train"]
    monkeypatch.setattr("sys.argv", ["/home/me/script.py", "--mine"])
    assert make_record(run, {})["provenance"]["command"] == ["script.py", "--mine"]


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
    assert Images.source(config(validation=True)) != Images.source(config())


def test_a_gpu_that_is_not_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="device 'cuda' was asked for, but torch finds no GPU here"):
        Run(config(), images(), "cuda")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hyper": {"mask": "foo"}}, "a mask is one of"),
        ({"learner": "der", "hyper": {"alpha": -1.0}}, "alpha must be 0 or more"),
        ({"learner": "ocm", "hyper": {"rotations": 3}}, "rotations must be one of"),
        ({"backbone": "vit_tiny", "width": 3}, "width is for 'resnet18'"),
    ],
    ids=str,
)
def test_a_wrong_hyper_parameter_is_found_before_images_are_read(settings, words):
    with pytest.raises(ValueError, match=words):
        config(**settings)
