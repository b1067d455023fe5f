"""What a run is: every wrong value named in a sentence, an identity that moves with every setting, and the way back."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import numpy as np
import pytest

from reprise.learners import LEARNERS, find_learner
from reprise.train import TrainRun
from reprise.train.config import OPTIMIZERS, PRECISIONS

WRONG = [
    # setting, value, what the sentence must name beside the value
    ("seed", -1, ["seed", "0 or more"]),
    ("seed", 1.5, ["seed", "whole number"]),
    ("seed", True, ["seed", "whole number"]),
    ("imbalance", 0.5, ["imbalance", "1"]),
    ("imbalance", "ten", ["imbalance", "number"]),
    ("imbalance", float("nan"), ["imbalance", "finite"]),
    ("learner", "er_ace", ["learner", "did you mean 'er-ace'", "none"]),
    ("hyper", {"masks": "present"}, ["masks", "mask"]),
    ("hyper", {"mask": 3}, ["mask", "str"]),
    ("storage", "reservoire", ["reservoire", "reservoir"]),
    ("retrieval", "rprr", ["rprr", "rpr"]),
    ("retrieval", "mirr:4", ["mirr:4", "mir:N"]),
    ("buffer", 0, ["buffer", "1 or more"]),
    ("buffer", 2.5, ["buffer", "whole number"]),
    ("replay", -1, ["replay", "0 or more"]),
    ("replay", "8", ["replay", "whole number"]),
    ("width", 0, ["width", "1 or more"]),
    ("head", "cosin", ["head", "cosine", "linear"]),
    ("pretrained", "yes", ["pretrained", "True or False"]),
    ("batch", 0, ["batch", "1 or more"]),
    ("tasks", 0, ["tasks", "1 or more"]),
    ("order", "alphabetical", ["order", "label", "permuted"]),
    ("disjoint", 1.5, ["disjoint", "1"]),
    ("blur", -0.1, ["blur", "0"]),
    ("validation", 1, ["validation", "True or False"]),
    ("size", 0, ["size", "1 or more"]),
    ("holdout", 0.0, ["holdout", "between 0 and 1"]),
    ("holdout", 1, ["holdout", "between 0 and 1"]),
    ("per_class", 0, ["per class", "1 or more"]),
    ("test_per_class", -2, ["test per class", "1 or more"]),
    ("optimizer", "SGD", ["optimizer", "sgd", "adam"]),
    ("lr", -0.1, ["lr", "0 or more"]),
    ("lr", float("inf"), ["lr", "finite"]),
    ("lr", "fast", ["lr", "number"]),
    ("momentum", -0.5, ["momentum", "0 or more"]),
    ("weight_decay", -1, ["weight_decay", "0 or more"]),
    ("augment", "flip", ["augment", "crop+flip", "none"]),
    ("passes", "both", ["passes", "separate", "joint"]),
    ("precision", "fp16", ["precision", "fp32", "bf16"]),
    ("ema", 0, ["ema", "1 or more"]),
    ("evaluate_every", -1, ["evaluate every", "0 or more"]),
    ("virtual_loss", "masked", ["virtual_loss", "plain", "own"]),
    ("scoring", "test", ["scoring", "train", "eval"]),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG, ids=[f"{name}={value}" for name, value, _ in WRONG])
def test_a_wrong_value_is_a_sentence_that_names_it(name, value, words):
    with pytest.raises((ValueError, TypeError)) as found:
        TrainRun(**{name: value})
    said = str(found.value)
    shown = next(iter(value)) if isinstance(value, dict) else value
    for word in [*words, str(shown)]:
        assert word in said, said
    assert len(said.split()) > 4


def test_the_table_names_every_setting_that_can_be_wrong():
    free = {"dataset", "backbone"}  # whatever data sets and networks there are: known when they are looked for
    assert {name for name, _, _ in WRONG} | free == {field.name for field in fields(TrainRun)}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": "adam", "momentum": 0.9}, ["momentum", "0.9", "adam"]),
        ({"learner": "none", "retrieval": "mir:5"}, ["'none'", "0 replay", "'mir:5'"]),
        ({"learner": "joint", "retrieval": "mir:5"}, ["'joint'", "'mir:5'"]),
        ({"retrieval": "mir:5", "lr": 0}, ["lr", "above 0", "'mir:5'"]),
        ({"tasks": 1, "disjoint": 0.5, "blur": 0.5}, ["blur", "tasks is 1"]),
        ({"learner": "er", "hyper": {"mask": "present"}}, ["'er'", "mask", "has none"]),
    ],
)
def test_settings_that_do_not_go_together_are_named(settings, words):
    with pytest.raises(ValueError) as found:
        TrainRun(**settings)
    assert all(word in str(found.value) for word in words), str(found.value)


OTHER = {
    "dataset": "cifar100",
    "imbalance": 10.0,
    "learner": "er",
    "hyper": {"mask": "present"},
    "storage": "fifo",
    "retrieval": "iid",
    "buffer": 7,
    "replay": 3,
    "seed": 1,
    "backbone": "vit_tiny",
    "width": 8,
    "head": "linear",
    "pretrained": True,
    "batch": 16,
    "tasks": 5,
    "order": "permuted",
    "disjoint": 0.5,
    "blur": 0.1,
    "validation": True,
    "size": 8,
    "holdout": 0.2,
    "per_class": 5,
    "test_per_class": 5,
    "optimizer": "adam",
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 0.1,
    "augment": "none",
    "passes": "joint",
    "precision": "bf16",
    "ema": 512,
    "evaluate_every": 5,
    "virtual_loss": "own",
    "scoring": "eval",
}


DATA = {"train": "ab12", "test": "cd34"}


def test_the_identity_moves_with_every_setting():
    assert set(OTHER) == {field.name for field in fields(TrainRun)}
    runs = [TrainRun(), *(TrainRun(**{name: value}) for name, value in OTHER.items())]
    assert len({run.identity(DATA) for run in runs}) == len(runs)
    assert len(set(runs)) == len(runs)


def test_the_identity_moves_with_the_images():
    others = [{"train": "ab12"}, {**DATA, "train": "ab13"}, {**DATA, "test": "cd35"}, {"train": "cd34", "test": "ab12"}]
    assert len({TrainRun().identity(data) for data in (DATA, *others)}) == 1 + len(others)
    assert TrainRun().identity(dict(reversed(DATA.items()))) == TrainRun().identity(DATA)


def test_the_identity_does_not_know_how_the_run_was_written_down():
    plain = TrainRun(learner="er-ace", hyper={"mask": "present"}, lr=1.0, imbalance=10.0, holdout=None)
    assert TrainRun(lr=1, imbalance=10, hyper={"mask": "present"}) == plain
    assert TrainRun(lr=1, imbalance=10, hyper={"mask": "present"}).identity(DATA) == plain.identity(DATA)
    spelt_out = TrainRun(optimizer="sgd", lr=0.03, momentum=0, weight_decay=0, augment="crop")
    assert TrainRun().identity(DATA) == spelt_out.identity(DATA)
    numpys = TrainRun(seed=np.int64(3), buffer=np.int64(5120), lr=np.float64(0.03), width=np.int32(64))
    assert numpys.identity(DATA) == TrainRun(seed=3).identity(DATA)
    assert hash(numpys) == hash(TrainRun(seed=3))


def test_the_order_of_hyperparameters_does_not_matter():
    name = next(name for name in LEARNERS if len(TrainRun(learner=name).hyper) > 1)
    hyper = dict(TrainRun(learner=name).hyper)
    backwards = dict(reversed(list(hyper.items())))
    assert TrainRun(learner=name, hyper=hyper).identity(DATA) == TrainRun(learner=name, hyper=backwards).identity(DATA)
    assert TrainRun(learner=name, hyper=hyper).identity(DATA) == TrainRun(learner=name).identity(DATA)


@pytest.mark.parametrize("settings", [{}, {"seed": 9}, *({name: value} for name, value in OTHER.items())], ids=str)
def test_the_way_through_json_and_back(settings):
    run = TrainRun(**settings)
    read = json.loads(json.dumps(run.configuration(), allow_nan=False))
    again = TrainRun.from_configuration(read, run.seed)
    assert again == run
    assert again.identity(DATA) == run.identity(DATA)
    assert again.configuration() == read


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_left_open_is_the_learners_own(name):
    run = TrainRun(learner=name)
    for setting, value in asdict(find_learner(name).descent).items():
        assert getattr(run, setting) == value
        assert getattr(run, setting) is not None
    with_seed = run.with_seed(4)
    assert with_seed.seed == 4
    assert replace(with_seed, seed=0) == run


def test_what_is_given_is_kept_though_it_be_nought():
    run = TrainRun(lr=0.5, momentum=0.0, weight_decay=0.25, optimizer="sgd", augment="none")
    assert (run.lr, run.momentum, run.weight_decay, run.optimizer, run.augment) == (0.5, 0, 0.25, "sgd", "none")
    assert TrainRun(lr=0.0).lr == 0


def test_glyphs_are_not_flipped_and_pictures_are():
    assert TrainRun().augment == "crop"
    assert TrainRun(dataset="cifar10").augment == "crop+flip"
    assert set(OPTIMIZERS) == {"sgd", "adam"}
    assert "fp32" in PRECISIONS


def test_a_run_cannot_be_changed_through_its_hyperparameters():
    given = {"mask": "present"}
    run = TrainRun(hyper=given)
    identity = run.identity(DATA)
    given["mask"] = "none"
    with pytest.raises(TypeError):
        run.hyper["mask"] = "none"
    run.configuration()["hyper"]["mask"] = "none"
    assert run.identity(DATA) == identity
