"""Each way in which pairs of many arms can go wrong is found and named once, with its arms and seeds."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from records import PROVENANCE, record, run_of

from reprise.core.files import Record
from reprise.lab.doubts import MADE_BY, pairing_doubts
from reprise.lab.run_group import RunGroup

ARMS = ("iid", "fixed", "rpr", "uniform")
SEEDS = range(3)
Arms = dict[str, dict[int, Record]]


def arms(**more: Any) -> Arms:
    return {name: {seed: record(name, seed, **more) for seed in SEEDS} for name in ARMS}


def test_runs_that_may_be_paired_are_beyond_doubt() -> None:
    assert pairing_doubts(arms()) == []
    assert pairing_doubts({name: RunGroup(name, runs) for name, runs in arms().items()}) == []
    assert pairing_doubts({name: list(runs.values()) for name, runs in arms().items()}) == []
    assert pairing_doubts({}) == []


def test_a_missing_seed_is_named_once() -> None:
    found = arms()
    del found["iid"][1], found["rpr"][1], found["fixed"][0], found["fixed"][2]
    assert pairing_doubts(found) == ["Seed 1 has no run under iid and rpr.", "Seeds 0, 2 have no run under fixed."]


def test_a_duplicate_record_is_named() -> None:
    found = {name: list(runs.values()) for name, runs in arms().items()}
    found["fixed"].append(record("fixed", 2, data={"train": "1a" * 16, "test": "2b" * 16}))
    first = found["fixed"][2]["identity"][:8]
    assert pairing_doubts(found) == [f"There are 2 runs of seed 2 under fixed; the first, {first}, is used."]


def test_a_run_under_two_arms_or_another_seed_is_named() -> None:
    found = arms()
    found["fixed"] = found["iid"]
    assert pairing_doubts(found) == ["The runs of seeds 0, 1, 2 are the same under iid and fixed."]
    found = arms()
    found["rpr"][1] = found["rpr"][0]
    assert pairing_doubts(found) == ["Under rpr, a run of seed 0 is used for seed 1."]


MEMORY = (
    "For {}, stream and storage are set alike under iid, fixed, rpr and uniform, but the memory did not hold the same "
    "classes."
)


@pytest.mark.parametrize(("key", "words"), MADE_BY.items())
def test_other_versions_and_devices_are_named(key: str, words: str) -> None:
    found = arms()
    found["rpr"][0] = record("rpr", 0, provenance=PROVENANCE | {key: "other"})
    usual = PROVENANCE[key]
    said = f"{words}: {usual} under iid, fixed and uniform, other and {usual} under rpr."
    assert pairing_doubts(found) == [f"The runs were made with different {said}"]


def test_threads_of_the_host_are_no_doubt_of_runs_on_a_gpu() -> None:
    made = {"device": "NVIDIA H200"}
    found = arms(provenance=PROVENANCE | made | {"threads": 16})
    found["rpr"] = {seed: record("rpr", seed, provenance=PROVENANCE | made | {"threads": 1}) for seed in SEEDS}
    assert pairing_doubts(found) == []


def test_other_data_is_named() -> None:
    found = arms()
    for name in ("iid", "rpr"):
        found[name] = {seed: record(name, seed, data={"train": "3c" * 16, "test": "2b" * 16}) for seed in SEEDS}
    assert pairing_doubts(found) == [
        "The runs had different data: the fingerprint of train is 3c3c3c3c under iid and rpr, 1a1a1a1a under fixed and "
        "uniform."
    ]
    found = arms()
    found["rpr"][2] = record("rpr", 2, split="validation", data={"train": "1a" * 16})
    assert pairing_doubts(found) == [
        "Some runs were tested on validation images, others on test images: test under iid, fixed and uniform, "
        "test and validation under rpr."
    ]


def learners(**more: Any) -> Arms:
    """Arms of one memory, so of one tape."""
    runs = {name: [run_of("rpr", seed, learner__name=name) for seed in SEEDS] for name in ("er", "er-ace", "der")}
    return {name: {run["seed"]: record("rpr", run["seed"], run=run, **more) for run in of} for name, of in runs.items()}


def test_another_tape_for_the_same_memory_is_named() -> None:
    assert pairing_doubts(learners()) == []
    found = learners()
    found["der"][1]["tape"] = found["er"][2]["tape"] = "another"
    assert pairing_doubts(found) == [
        "For seeds 1, 2, stream and memory are set alike under er, er-ace and der, but the tapes differ."
    ]
    for runs in found.values():
        for one in runs.values():
            one["run"]["memory"]["retrieval"] = "mir:20"  # a model decides
    assert pairing_doubts(found) == []


def test_a_setting_that_is_unset_is_as_one_that_was_not_known_yet() -> None:
    found = learners()
    for one in found["der"].values():
        one["run"]["stream"]["imbalance_seed"] = one["run"]["memory"]["pace"] = None  # written by a later version
    assert pairing_doubts(found) == []
    found["der"][1]["tape"] = "another"
    (doubt,) = pairing_doubts(found)
    assert doubt.startswith("For seed 1, stream and memory are set alike under er, er-ace and der")
    found["der"][1]["run"]["stream"]["imbalance_seed"] = 0
    assert pairing_doubts(found) == []


def test_another_memory_for_the_same_storage_is_named() -> None:
    found = arms()
    for seed in (0, 2):
        found["uniform"][seed]["audit"] = found["uniform"][seed]["audit"] | {"deactivations": 7}
    assert pairing_doubts(found) == [MEMORY.format("seeds 0, 2")]
    for seed in (0, 2):
        found["uniform"][seed]["run"]["memory"]["buffer"] = 100  # it is set otherwise, then
    assert pairing_doubts(found) == []


def test_a_storage_that_asks_the_network_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    found = learners()
    found["der"][0]["audit"] = found["der"][0]["audit"] | {"class_max": 3}
    found["der"][0]["tape"] = "another"
    assert len(pairing_doubts(found)) == 2
    monkeypatch.setattr("reprise.lab.doubts.as_storage", lambda spec: SimpleNamespace(scored="features"))
    assert pairing_doubts(found) == []


def test_many_arms_are_read_in_no_time() -> None:
    """32 arms of 40 seeds: the work grows with the runs, not with pairs of arms."""
    runs = {f"arm {number}": {seed: record("rpr", seed) for seed in range(3)} for number in range(32)}
    many = {
        name: {
            seed: {**found[seed % 3], "identity": f"{name} {seed}", "run": {**found[seed % 3]["run"], "seed": seed}}
            for seed in range(40)
        }
        for name, found in runs.items()
    }
    begun = time.process_time()
    assert pairing_doubts(many) == []
    assert time.process_time() - begun < 2
