"""By what a run is known: a hash that moves with all that decides the result, however it was written down."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.core.files import digest
from reprise.learners import LEARNERS
from reprise.runs import Run, from_file, settings, to_json, to_toml
from reprise.runs.augmentation import AUGMENTS
from reprise.runs.config import expand
from reprise.runs.run import SECTIONS, flat_names

OTHER = {
    "dataset": "cifar100",
    "imbalance": 10.0,
    "imbalance_seed": 3,
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
    "bn_momentum": 0.05,
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
"""For every setting, a value that is not the usual one."""
BESIDE = {"imbalance_seed": {"imbalance": 100.0}}
"""What a setting needs beside it: a balanced stream has no rare classes."""


def changed(name):
    """The settings of a run in which this one is not the usual one."""
    return {**BESIDE.get(name, {}), name: OTHER[name]}


NOT_OF_AN_AUDIT = {"holdout", "per_class"}  # it is of all labels
OF_AN_AUDIT = [
    name
    for name in OTHER
    if name == "seed" or (flat_names()[name][0] in ("data", "stream", "memory") and name not in NOT_OF_AN_AUDIT)
]
DATA = {"train": "ab12", "test": "cd34"}
LABELS = {"labels": "ef56"}


def test_the_identity_moves_with_every_setting():
    assert set(OTHER) == {"seed", *flat_names()} - {"draws"}  # which follows from the learner
    runs = [Run.of(), *(Run.of(**changed(name)) for name in OTHER), *(Run.of(**beside) for beside in BESIDE.values())]
    assert len({run.identity(DATA) for run in runs}) == len(runs)
    assert len(set(runs)) == len(runs)


def test_the_identity_of_an_audit_moves_with_every_setting():
    runs = [Run.of(learner=None, **changed(name)) for name in OF_AN_AUDIT]
    runs += [Run.of(learner=None, **beside) for beside in BESIDE.values()]
    runs += [Run.of(learner=None), Run.of(learner=None, draws=2), Run.of()]
    runs += [Run.of(learner=None, classes=10, steps=50, buffer=buffer) for buffer in (100, 200)]
    runs += [Run.of(learner=None, classes=classes, steps=steps, buffer=100) for classes, steps in ((20, 50), (10, 51))]
    assert len({run.identity(LABELS) for run in runs}) == len(runs) == len(set(runs))


def test_the_identity_moves_with_the_images():
    others = [{"train": "ab12"}, {**DATA, "train": "ab13"}, {**DATA, "test": "cd35"}, {"train": "cd34", "test": "ab12"}]
    assert len({Run.of().identity(data) for data in (DATA, *others)}) == 1 + len(others)
    assert Run.of().identity(dict(reversed(DATA.items()))) == Run.of().identity(DATA)


def test_the_identity_does_not_know_how_the_run_was_written_down():
    plain = Run.of(learner="er-ace", hyper={"mask": "present"}, lr=1.0, imbalance=10.0, holdout=None)
    assert Run.of(lr=1, imbalance=10, hyper={"mask": "present"}) == plain
    assert Run.of(lr=1, imbalance=10, hyper={"mask": "present"}).identity(DATA) == plain.identity(DATA)
    spelt_out = Run.of(optimizer="sgd", lr=0.03, momentum=0, weight_decay=0, augment="crop", draws=1)
    assert Run.of().identity(DATA) == spelt_out.identity(DATA)


@pytest.mark.parametrize(
    "kind", [int, float, np.int64, np.int8, np.float64, np.float32], ids=lambda kind: kind.__name__
)
def test_a_number_is_the_same_of_whatever_kind(kind):
    wanted = Run.of(imbalance=1.0, lr=1.0, blur=0.0)
    given = Run.of(imbalance=kind(1), lr=kind(1), blur=kind(0))
    if kind not in (float, np.float64, np.float32):  # a whole number is no fraction
        wanted, given = (run.replace(seed=seed, replay=seed) for run, seed in ((wanted, 3), (given, kind(3))))
    assert given == wanted
    assert hash(given) == hash(wanted)
    assert given.identity(DATA) == wanted.identity(DATA)
    assert json.dumps(given.to_dict()) == json.dumps(wanted.to_dict())


@pytest.mark.parametrize(
    ("spelt", "other"),
    [
        ("reused:4", "reused:04"),
        ("deadline:2", " deadline:2.0"),
        ("window:0.5+pass", "window:.5+pass"),
        ("rpr", "rpr "),
    ],
)
def test_a_spec_is_the_same_however_it_is_spelt(spelt, other):
    for learner in (None, "er"):
        one, two = (
            Run.of(learner=learner, retrieval=text, storage=f"{end}fifo") for text, end in ((spelt, ""), (other, " "))
        )
        assert one == two
        assert (two.memory.retrieval, two.memory.storage) == (spelt, "fifo")
        assert one.identity(DATA) == two.identity(DATA)


def older(run):
    """A run as a version described it that knew no setting which this run leaves unset."""
    kept = {
        name: {k: v for k, v in values.items() if v is not None}
        for name, values in run.to_dict().items()
        if name != "seed"
    }
    return {"seed": run.seed, **kept}


@pytest.mark.parametrize("learner", [None, "er"])
def test_the_identity_does_not_know_settings_that_are_unset(learner):
    # So a version that adds one knows the runs that were made before.
    run = Run.of(learner=learner, imbalance=10)
    assert {"imbalance_seed", "size", "per_class"} <= {name for name, value in run.flat().items() if value is None}
    assert Run.from_dict(older(run)) == run
    assert run.identity(DATA) == digest([older(run), DATA])[:24]


def test_a_setting_that_is_set_is_part_of_the_identity_whatever_its_value():
    # Nought and False are values.
    run = Run.of(imbalance=10, imbalance_seed=0, replay=0, weight_decay=0.0)
    assert [run.flat()[name] for name in ("imbalance_seed", "replay", "weight_decay", "validation")] == [0, 0, 0, False]
    assert run.identity(DATA) == digest([older(run), DATA])[:24]
    assert len({run.replace(imbalance_seed=seed).identity(DATA) for seed in (None, 0, 1)}) == 3


def test_nought_is_nought():
    assert Run.of(blur=-0.0).identity(DATA) == Run.of(blur=0.0).identity(DATA)


def test_the_order_of_hyperparameters_does_not_matter():
    name = next(name for name in LEARNERS if len(Run.of(learner=name).learner.hyper) > 1)
    hyper = dict(Run.of(learner=name).learner.hyper)
    backwards = dict(reversed(list(hyper.items())))
    runs = [Run.of(learner=name, hyper=given) for given in (hyper, backwards, {})]
    assert len(set(runs)) == len({run.identity(DATA) for run in runs}) == 1


def values(setting):
    """Values that a setting may have, whatever the others are."""
    declared = settings.setting_of(setting)
    if declared.choices:
        found = st.sampled_from(declared.choices)
    elif declared.kind is bool:
        found = st.booleans()
    elif declared.kind is int:
        found = st.integers(int(declared.least or 0), 10**6)
    elif declared.kind is float:
        found = st.floats(declared.least or 0.0, 1e6)
    else:
        return st.nothing()
    return st.none() | found if declared.unset else found


EVERY = [one for section in SECTIONS.values() for one in settings.options(section)]
FREE = {option: values(one) for option, one in EVERY if option != "hyper"} | {
    "seed": st.integers(0, 2**63),
    "dataset": st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    "learner": st.sampled_from(sorted(LEARNERS)),
    "storage": st.sampled_from(["reservoir", "fifo", "brs", "brs-always", "cbrs"]),
    "retrieval": st.sampled_from(["uniform", "iid", "rpr", "rpr+pass", "hybrid:3", "window:0.25"]),
    "imbalance": st.floats(1, 1e6) | st.integers(1, 500),
    "disjoint": st.floats(0, 1),
    "blur": st.just(0.0),
    "holdout": st.none() | st.floats(0.01, 0.99),
    "bn_momentum": st.none() | st.floats(0, 1),
    "augment": st.sampled_from(AUGMENTS),
    "backbone": st.just("resnet18"),
    "draws": st.none(),
    "optimizer": st.just("sgd"),
}  # fmt: skip


def _with_a_tail(given):
    """The settings, without the seed of a tail where there is none."""
    return {name: value for name, value in given.items() if name != "imbalance_seed" or given.get("imbalance", 1) > 1}


STILL = st.fixed_dictionaries({"classes": st.integers(1, 50), "steps": st.integers(1, 500)})
AUDITS = st.fixed_dictionaries({"learner": st.none()}, optional={name: FREE[name] for name in OF_AN_AUDIT})
RUNS = st.one_of(
    st.fixed_dictionaries({}, optional=FREE), AUDITS, STILL.map(lambda given: {"learner": None, **given})
).map(lambda given: Run.of(**_with_a_tail(given)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("descriptions")


@given(run=RUNS)
def test_the_way_through_a_dictionary_json_toml_and_pickle_and_back(run, folder):
    read = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert read == run.to_dict()
    ways = [Run.from_dict(read), pickle.loads(pickle.dumps(run))]
    for suffix, text in ((".toml", to_toml(run)), (".json", to_json(run))):
        path = folder / f"run{suffix}"
        path.write_text(text, encoding="utf-8")
        ways += expand(from_file(path))
    assert ways == [run] * 4
    for again in ways:
        assert hash(again) == hash(run)
        assert again.identity(DATA) == run.identity(DATA)
        assert again.to_dict() == read


def test_every_setting_is_among_those_that_go_that_way():
    assert {"seed", *flat_names()} - {"hyper"} == set(FREE)


@pytest.mark.parametrize("name", LEARNERS)
def test_hyperparameters_go_that_way_too(name, folder):
    run = Run.of(learner=name, hyper=dict(Run.of(learner=name).learner.hyper))
    (folder / "run.toml").write_text(to_toml(run), encoding="utf-8")
    assert expand(from_file(folder / "run.toml")) == [run] == [Run.from_dict(run.to_dict())]


def test_sections_that_a_run_has_not_are_not_described():
    assert list(Run.of(learner=None).to_dict()) == ["seed", "data", "stream", "memory"]
    assert list(Run.of(learner=None, classes=5, steps=9).to_dict()) == ["seed", "stream", "memory"]
    assert list(Run.of().to_dict()) == [one.name for one in fields(Run)]
