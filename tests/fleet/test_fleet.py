"""The fleet's book-keeping: what is kept, what is run again, what is told, and which runs may share a lane."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from train.tinyruns import config, identity, images, other_pixels, result, thin_networks

from reprise.fleet import RunOutcome, fleet
from reprise.fleet.fleet import _group_of, capturable
from reprise.train import Images, Run, TrainingFailed, TrainRun, steps, train
from reprise.train.record import RunResult

fleet_module = sys.modules["reprise.fleet.fleet"]  # its package gives this name to the function
STEPS = 15
RUNS = [config(seed=seed) for seed in range(3)]


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


@pytest.fixture
def ran(monkeypatch):
    """Runs made in this process, one after the other; gives the list of those that were made."""
    made = []

    def one_by_one(runs, given, data, jobs, tick):
        for run in runs:
            made.append(run)
            try:
                yield run, train(run, given, data=data, watch=lambda _, __: tick(1)), {}
            except TrainingFailed as error:
                yield run, error, {}

    monkeypatch.setattr(fleet_module, "on_cores", one_by_one)
    return made


def kept(folder):
    return {path.stem for path in (folder / "runs").iterdir()}


def test_a_record_is_on_disk_when_its_run_is_given(ran, tmp_path):
    for number, outcome in enumerate(fleet(RUNS, images(), out=tmp_path), 1):
        assert kept(tmp_path) == {identity(run) for run in RUNS[:number]}
        written = json.loads((tmp_path / "runs" / f"{identity(outcome.config)}.json").read_text())
        assert result(written) == result(outcome.record)
    assert ran == RUNS


def test_a_run_that_has_its_record_is_not_run_again(ran, tmp_path):
    outcomes = fleet(RUNS, images(), out=tmp_path)
    first = next(outcomes)
    outcomes.close()
    again = list(fleet(RUNS, images(), out=tmp_path))
    assert ran == RUNS
    assert [outcome.config for outcome in again] == RUNS
    assert [outcome.known for outcome in again] == [True, False, False]
    assert result(again[0].record) == result(first.record)


def test_images_that_differ_in_a_bit_have_records_of_their_own_in_one_folder(ran, tmp_path):
    given = [images(), other_pixels(), other_pixels(part="test")]
    first = [[outcome.record for outcome in fleet(RUNS[:2], one, out=tmp_path)] for one in given]
    assert ran == 3 * RUNS[:2]
    assert kept(tmp_path) == {identity(run, one) for run in RUNS[:2] for one in given}
    assert len(kept(tmp_path)) == 6
    again = [list(fleet(RUNS[:2], one, out=tmp_path)) for one in given]
    assert all(outcome.known for ends in again for outcome in ends)
    assert [[outcome.record for outcome in ends] for ends in again] == first
    assert ran == 3 * RUNS[:2]


def test_images_are_read_once_for_all_records_that_are_there_and_not_at_all_if_none_is(ran, tmp_path, monkeypatch):
    hashed, read = [], []
    fingerprints = Images.fingerprints
    monkeypatch.setattr(Images, "load", lambda run, root=None, progress=None: read.append(run) or images())
    monkeypatch.setattr(fleet_module, "on_cores", lambda runs, *_: ((run, train(run, images()), {}) for run in runs))
    list(fleet(RUNS, out=tmp_path))
    assert read == []
    monkeypatch.setattr(Images, "fingerprints", lambda self, run: hashed.append(run) or fingerprints(self, run))
    assert all(outcome.known for outcome in fleet(RUNS, out=tmp_path))
    assert len(read) == len(hashed) == 1


def test_without_its_images_a_record_cannot_be_known(ran, tmp_path):
    """They are missed by whoever was to train on them."""
    list(fleet(RUNS[:1], images(), out=tmp_path))
    with pytest.raises(ValueError, match="tiny"):
        list(fleet(RUNS[:1], out=tmp_path))


@pytest.mark.parametrize("damage", ["cut off", "another number", "another run's", "no JSON at all"])
def test_a_damaged_record_is_made_again_and_written_over(damage, ran, tmp_path):
    (whole,) = fleet(RUNS[:1], images(), out=tmp_path)
    path = tmp_path / "runs" / f"{identity(RUNS[0])}.json"
    text = path.read_text()
    if damage == "cut off":
        path.write_text(text[: len(text) // 2])
    elif damage == "another number":
        path.write_text(json.dumps({**json.loads(text), "final_loss": 0.5}))
    elif damage == "another run's":
        (other,) = fleet(RUNS[1:2], images(), out=tmp_path / "other")
        path.write_text((tmp_path / "other" / "runs" / f"{identity(other.config)}.json").read_text())
    else:
        path.write_text("")
    ran.clear()
    (again,) = fleet(RUNS[:1], images(), out=tmp_path)
    assert ran == RUNS[:1]
    assert not again.known
    assert result(again.record) == result(whole.record)
    (known,) = fleet(RUNS[:1], images(), out=tmp_path)
    assert known.known


def test_a_failed_run_leaves_no_record_and_is_tried_again(ran, tmp_path):
    runs = [replace(RUNS[0], lr=1e38), RUNS[1]]
    failed, well = fleet(runs, images(), out=tmp_path)
    assert (failed.config, failed.record) == (runs[0], None)
    assert isinstance(failed.error, TrainingFailed)
    assert well.error is None
    assert kept(tmp_path) == {identity(RUNS[1])}
    ran.clear()
    assert [outcome.config for outcome in fleet(runs, images(), out=tmp_path)] == [RUNS[1], runs[0]]
    assert ran == runs[:1]


def test_a_run_that_is_listed_twice_is_run_once_and_told_of_once(ran):
    told = []
    ends = list(fleet([*RUNS, RUNS[0], RUNS[2]], images(), watch=told.append))
    assert [outcome.config for outcome in ends] == RUNS
    assert ran == RUNS
    assert (told[-1].done, told[-1].total) == (3, 3)


def test_what_is_told_adds_up(ran, tmp_path):
    list(fleet(RUNS[:1], images(), out=tmp_path))
    told = []
    list(fleet([*RUNS, replace(RUNS[0], lr=1e38)], images(), out=tmp_path, watch=told.append))
    assert (told[0].done, told[0].failed, told[0].total, told[0].steps) == (1, 0, 4, 0)
    last = told[-1]
    assert (last.done, last.failed, last.total) == (4, 1, 4)
    assert 2 * STEPS <= last.steps < 3 * STEPS
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)


def test_without_runs_nothing_is_started(tmp_path):
    assert list(fleet([], images(), out=tmp_path)) == []
    assert list(fleet([], images())) == []


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_run(ran, tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ValueError, match=r"runs cannot be made for the records"):
        list(fleet(RUNS, images(), out=tmp_path))
    assert ran == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize(
    ("device", "said"), [("cuda", "torch finds no GPU here"), ("gpu", "there is no device 'gpu'; 'cpu' and 'cuda'")]
)
def test_a_device_that_is_not_there_is_refused_before_all_else(device, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        list(fleet(RUNS, data="nowhere", device=device, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_impossible_number_of_lanes_is_refused():
    with pytest.raises(ValueError, match="lanes must be 1 or more, got 0"):
        list(fleet(RUNS, images(), lanes=0))


def test_what_a_lane_leaves_becomes_the_record_that_the_plain_loop_makes(monkeypatch):
    """Whoever ran it: `RunResult` holds all that a record says."""
    run = Run(RUNS[0], images())
    for _ in steps(run):
        pass
    outcome = (RUNS[0], RunResult.of(run), {"train": 1.5})
    monkeypatch.setattr(fleet_module, "on_cores", lambda *_: iter([outcome]))
    (outcome,) = fleet(RUNS[:1], images())
    assert result(outcome.record) == result(train(RUNS[0], images()))
    assert outcome.record["timings"] == {"train": 1.5}


def test_a_run_is_named_in_a_few_words():
    run = TrainRun("cifar100", 10, learner="der++", storage="cbrs", retrieval="iid", buffer=500, seed=4)
    assert RunOutcome(run, None).name == "der++ on cifar100 lt10, cbrs of 500, iid, seed 4"
    assert RunOutcome(config(), None).name == "er-ace on tiny, reservoir of 20, rpr, seed 0"


# What can be captured.

CAN = [
    *({"learner": name} for name in ("er", "er-ace", "der", "der++", "der++-ace", "none", "joint")),
    {"head": "linear"},
    {"replay": 0},
    {"learner": "der++", "replay": 0},
    {"lr": 0.1, "weight_decay": 0.01},
    {"precision": "bf16"},
    {"validation": True, "evaluate_every": 3},
    {"retrieval": "fixed", "storage": "cbrs"},
]
CANNOT = [
    {"learner": "refresh"},  # its noise is seeded by the host
    {"learner": "ocm"},  # its views are drawn by the host
    {"learner": "er", "retrieval": "mir:12"},  # the network is asked what to draw
    {"passes": "joint"},  # BatchNorm would have to leave padding out within one batch
    {"momentum": 0.9},
    {"optimizer": "adam", "momentum": 0.0},
]


@pytest.fixture
def with_triton(monkeypatch):
    monkeypatch.setattr(fleet_module, "find_spec", lambda name: object())


@pytest.mark.usefixtures("with_triton")
@pytest.mark.parametrize("settings", CAN, ids=str)
def test_a_step_that_needs_nothing_from_the_host_can_be_captured(settings):
    assert capturable(config(**settings))


@pytest.mark.usefixtures("with_triton")
@pytest.mark.parametrize("settings", CANNOT, ids=str)
def test_a_step_that_needs_the_host_cannot_be_captured(settings):
    assert not capturable(config(**settings))


def test_without_triton_nothing_is_captured(monkeypatch):
    monkeypatch.setattr(fleet_module, "find_spec", lambda name: None if name == "triton" else find_spec(name))
    assert not capturable(config())


# Which runs may share a lane: those alike in all but what is on the tape.

FREE = {
    "seed": 5,
    "imbalance": 10.0,
    "storage": "cbrs",
    "retrieval": "iid",
    "buffer": 30,
    "order": "permuted",
    "disjoint": 0.5,
    "blur": 0.1,
}
BOUND = {
    "dataset": "glyphs",
    "learner": "er",
    "hyper": {"mask": "none"},
    "replay": 5,
    "backbone": "vit_tiny_patch16_224",
    "width": 3,
    "head": "linear",
    "pretrained": True,
    "batch": 9,
    "tasks": 2,
    "validation": True,
    "size": 8,
    "holdout": 0.5,
    "per_class": 3,
    "test_per_class": 2,
    "optimizer": "adam",
    "lr": 0.5,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "augment": "none",
    "passes": "joint",
    "precision": "bf16",
    "ema": 99,
    "evaluate_every": 2,
}
INERT = {"virtual_loss", "scoring"}  # of scored retrieval, which no lane plays


def test_every_setting_is_accounted_for():
    assert FREE.keys() | BOUND.keys() | INERT == set(TrainRun.__dataclass_fields__)


@pytest.mark.parametrize("name", FREE)
def test_runs_that_differ_on_their_tapes_share_a_lane(name):
    other = replace(config(), **{name: FREE[name]})
    assert other != config()
    assert _group_of(other) == _group_of(config())


@pytest.mark.parametrize("name", BOUND)
def test_runs_that_differ_in_their_step_or_their_tests_share_none(name):
    wide = {"width": 64} if name == "backbone" else {}  # other backbones have a width of their own
    other = config(**{**wide, name: BOUND[name]})
    assert _group_of(other) != _group_of(config(**wide))
