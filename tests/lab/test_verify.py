"""Tapes planned again: those of every kind of run are the recorded ones, and nothing else passes for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.pictures import make_pictures
from data.tinysets import save
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import FATAL

pytest.importorskip("torch", reason="training needs torch")

from reprise.core import plugins, registry
from reprise.core.files import Record
from reprise.core.registry import register
from reprise.data import load
from reprise.data.loading import folder_labels
from reprise.execute.one import audit
from reprise.lab.verify import TapeCheck, verify_tapes
from reprise.runs import Images, Run
from reprise.runs.images import Root
from reprise.runs.plan import Labels, make_plan
from reprise.train import train

GLYPHS: dict[str, Any] = {"dataset": "glyphs", "per_class": 7, "test_per_class": 1, "buffer": 60, "batch": 10}
CIFAR = "cifar10"

# Audits, which need no images.
AUDITS: dict[str, dict[str, Any]] = {
    "a memory that stands still": {"classes": 20, "steps": 60, "replay": 4},
    "two draws": {"classes": 20, "steps": 60, "replay": 4, "draws": 2, "retrieval": "hybrid:3"},
    "a long tail": {"dataset": "cifar100", "imbalance": 100.0, "retrieval": "iid", "storage": "brs"},
    "a tail of its own": {"dataset": CIFAR, "imbalance": 10.0, "imbalance_seed": 3, "tasks": 5, "seed": 2},
    "blurred tasks": {"dataset": CIFAR, "tasks": 5, "disjoint": 0.5, "blur": 0.2, "retrieval": "uniform"},
    "permuted classes": {"dataset": CIFAR, "tasks": 5, "order": "permuted", "storage": "cbrs", "seed": 4},
    "held-out images": {"dataset": CIFAR, "tasks": 5, "validation": True, "retrieval": "rpr+pass"},
}

# Runs that train, all on labels alone.
TRAINING: dict[str, dict[str, Any]] = {
    "few of each class": {**GLYPHS},
    "validation": {**GLYPHS, "validation": True, "seed": 3},
    "der++, of two draws": {**GLYPHS, "learner": "der++", "retrieval": "fixed"},
    "ocm": {**GLYPHS, "learner": "ocm", "imbalance": 5.0},
    "no replay": {**GLYPHS, "learner": "none"},
    "all at once": {**GLYPHS, "learner": "joint", "seed": 5},
    "a tail of its own, blurred": {
        **GLYPHS,
        "imbalance": 3.0,
        "imbalance_seed": 1,
        "order": "permuted",
        "disjoint": 0.5,
        "blur": 0.5,
    },
    "all of each class": {"dataset": "glyphs", "retrieval": "window:0.5", "storage": "fifo", "tasks": 20},
}


def planned(run: Run, data: Root = None) -> Record:
    """What verification reads of a record, with the tape that training over a run's images has."""
    labels = Labels.of(Images.load(run, data), run)
    tape = make_plan(run, labels).tape
    return {"identity": run.name, "name": run.name, "run": run.to_dict(), "tape": None if tape is None else tape.hash}


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})


def check(record: Record, data: Root = None) -> TapeCheck:
    (found,) = verify_tapes([record], data)
    return found


@pytest.mark.parametrize("kind", AUDITS)
def test_the_tape_of_an_audit_is_planned_again(kind: str, tmp_path: Path) -> None:
    record = audit(Run.of(learner=None, **AUDITS[kind]))
    assert check(record) == TapeCheck(record["identity"], record["name"], record["tape"], record["tape"])
    assert check(record, tmp_path).same  # where no data set is: an audit needs none


@pytest.mark.parametrize("kind", TRAINING)
def test_the_tape_of_training_is_planned_again_without_images(kind: str, tmp_path: Path) -> None:
    record = planned(Run.of(**TRAINING[kind]))
    assert check(record).same
    assert check(record, tmp_path).same
    assert not list(tmp_path.iterdir())  # glyphs need not be drawn


@settings(max_examples=30)
@given(
    st.fixed_dictionaries(
        {
            "seed": st.integers(0, 9),
            "imbalance": st.sampled_from([1.0, 4.0]),
            "tasks": st.sampled_from([2, 7, 20]),
            "order": st.sampled_from(["label", "permuted"]),
            "disjoint": st.sampled_from([1.0, 0.3]),
            "blur": st.sampled_from([0.0, 0.4]),
            "validation": st.booleans(),
            "per_class": st.integers(2, 5),
            "learner": st.sampled_from(["er", "der++", "none", "joint"]),
            "storage": st.sampled_from(["reservoir", "brs", "cbrs", "fifo"]),
            "retrieval": st.sampled_from(["uniform", "iid", "rpr", "deadline:2+pass"]),
        }
    )
)
def test_any_settings_plan_the_tape_of_their_images(chosen: dict[str, Any]) -> None:
    assert check(planned(Run.of(**{**GLYPHS, **chosen}))).same


def test_the_tape_that_training_recorded_is_planned_again(tmp_path: Path) -> None:
    folder = str(make_pictures(tmp_path / "pictures"))
    tiny: dict[str, Any] = {"dataset": folder, "tasks": 2, "batch": 4, "replay": 2, "buffer": 8, "width": 2}
    run, live = Run.of(**tiny), Run.of(**tiny, learner="er", retrieval="mir:4")
    images = Images.load(run)
    records = [train(one, images) for one in (run, live)]
    assert check(records[0]).same
    found = check(records[1])
    assert (found.recorded, found.found, found.why) == (records[1]["tape"], "", "a memory that asks the network")
    assert not found.same


@pytest.mark.parametrize("holdout", [None, 0.3])
def test_a_folder_is_listed_as_it_is_read(tmp_path: Path, holdout: float | None) -> None:
    """One that has parts has them for classes at first sight; a share that is held out is left out."""
    folder = make_pictures(tmp_path / "pictures")
    name = str(folder if holdout is None else folder / "train")
    assert np.array_equal(folder_labels(name, holdout), load(name, holdout=holdout).labels)
    for chosen in ({}, {"per_class": 3}, {"validation": True, "seed": 1}):
        run = Run.of(dataset=name, holdout=holdout, tasks=2, batch=4, buffer=8, replay=2, **chosen)
        record = planned(run)
        assert check(record).same
        assert check(record, tmp_path).same
    (folder / "train" / "a" / "0.png").unlink()
    assert check(record).found not in ("", record["tape"])
    folder.rename(tmp_path / "elsewhere")
    assert check(record).found == ""
    assert "there is no folder" in check(record).why


def test_a_data_set_of_ours_is_read_where_it_is_in_the_folder(tmp_path: Path) -> None:
    """Here it has another size than the catalogue says, so that its tape is another without it."""
    for part, count in (("train", 3), ("test", 1)):
        for label in range(10):
            for number in range(count + label % 2):
                save(tmp_path / "data" / CIFAR / part / str(label) / f"{number}.png", number)
    record = planned(Run.of(dataset=CIFAR, tasks=5, batch=4, buffer=8, replay=2), tmp_path / "data")
    assert check(record, tmp_path / "data").same
    for elsewhere in (None, tmp_path):
        found = check(record, elsewhere)
        assert found.found
        assert not found.same
    assert check(planned(Run.of(**GLYPHS)), tmp_path / "data").same


def test_a_data_set_of_somebody_s_own_is_asked_for_its_labels(tmp_path: Path) -> None:
    labels = np.array([2, 0, 1, 0, 2, 1, 2, 2])
    register("dataset", "mine")(lambda split, root: (np.zeros((8, 6, 6), np.uint8), labels))
    record = planned(Run.of(dataset="mine", tasks=3, batch=2, buffer=4, replay=2, width=2, per_class=2))
    assert check(record).same
    assert check(record, tmp_path).same


def test_one_that_cannot_be_planned_says_why() -> None:
    record = audit(Run.of(learner=None, **AUDITS["two draws"]))
    memory = {**record["run"]["memory"], "retrieval": "unheard-of"}
    for description, why in (
        ({**record["run"], "memory": memory}, "unknown retrieval 'unheard-of'"),
        ({**record["run"], "memory": 3}, "the section 'memory' must hold settings, got 3"),
        ({**record["run"], "soul": {}}, "a run has no section 'soul'"),
        ({**planned(Run.of(**GLYPHS))["run"], "data": {"name": "imagenet-r"}}, "imagenet-r"),
        ({**planned(Run.of(**GLYPHS))["run"], "data": {"name": "noise"}}, "noise"),
    ):
        found = check({**record, "run": description})
        assert not found.same
        assert found.found == ""
        assert why in found.why
        assert not check({**record, "run": description, "tape": None}).same


CHANGES: dict[str, Callable[[Record], Record]] = {
    "the seed": lambda one: {**one, "run": {**one["run"], "seed": 1 + one["run"]["seed"]}},
    "the policy": lambda one: _memory(one, retrieval="rpr" if one["run"]["memory"]["retrieval"] != "rpr" else "iid"),
    "the storage": lambda one: _memory(one, storage="fifo" if one["run"]["memory"]["storage"] != "fifo" else "cbrs"),
    "the buffer": lambda one: _memory(one, buffer=one["run"]["memory"]["buffer"] * 2),
    "the hash": lambda one: {**one, "tape": one["tape"][:-1] + ("0" if one["tape"][-1] != "0" else "1")},
    "no hash": lambda one: {**one, "tape": None},
}


def _memory(one: Record, **changes: Any) -> Record:
    return {**one, "run": {**one["run"], "memory": {**one["run"]["memory"], **changes}}}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("kind", ["two draws", "a tail of its own", "validation", "all at once"])
def test_what_was_changed_is_found(kind: str, what: str) -> None:
    record = audit(Run.of(learner=None, **AUDITS[kind])) if kind in AUDITS else planned(Run.of(**TRAINING[kind]))
    assert check(record).same
    found = check(CHANGES[what](record))
    assert found.found
    assert not found.same


def test_processes_find_the_same_and_one_that_is_killed_takes_its_own_alone(tmp_path: Path) -> None:
    """A policy of somebody's own may raise anything, too."""
    (tmp_path / "fatal.py").write_text(FATAL)
    plugins.load_modules([str(tmp_path / "fatal.py")])
    good = [audit(Run.of(learner=None, classes=6, steps=30, replay=2, seed=seed)) for seed in range(6)]
    odd = [_memory(good[0], retrieval="broken"), CHANGES["the seed"](good[1]), CHANGES["the hash"](good[2])]
    records = [*good, *({**one, "identity": str(number)} for number, one in enumerate(odd))]

    def found(jobs: int, *more: Record) -> dict[str, TapeCheck]:
        return {one.identity: one for one in verify_tapes([*more, *records], jobs=jobs)}

    alone = found(1)
    assert [alone[one["identity"]].same for one in records] == [True] * 6 + [False] * 3
    assert alone["0"].why == "integer division or modulo by zero"
    assert [alone[name].found == "" for name in "012"] == [True, False, False]
    assert found(2) == alone
    fatal = {**_memory(good[0], retrieval="fatal"), "identity": "fatal"}
    both = found(2, fatal)
    lost = both.pop("fatal")
    assert both == alone
    assert (lost.scored, lost.same, lost.found) == (False, False, "")
    assert "its process ended with status -9" in lost.why
    assert not any(one.scored for one in alone.values())


def test_nothing_to_verify() -> None:
    assert list(verify_tapes([], jobs=2)) == []
