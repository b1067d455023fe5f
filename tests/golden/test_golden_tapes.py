"""Tapes must never change: `tapes.json` holds the hash of one tape for every policy on three small streams.

A change that makes these differ changes every figure ever made with the policy. If that is meant, say so in the
change log, with what it was before and what it is now, and write the hashes anew:

    PYTHONPATH=src python tests/golden/test_golden_tapes.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reprise import Memory, plan
from reprise.core.registry import registered
from reprise.streams import label_stream

GOLDEN = Path(__file__).parent / "tapes.json"

STORAGES = ["reservoir", "brs", "brs-always", "cbrs", "fifo"]
SCHEDULES = ["iid", "fixed", "rpr", "reused:4", "hybrid:2", "window:0.5", "deadline:1.5"]
SCHEDULES += ["frozen-pass", "frozen-iid", "frozen-pass:3"]
RETRIEVALS = ["uniform", *SCHEDULES, *(f"{spec}+pass" for spec in SCHEDULES)]


class Drift:
    """Classes come, stay a while and go, in batches of uneven length; made by arithmetic alone."""

    name = "drift"
    boundaries = np.array([20, 40], np.int64)
    labels = np.array([(i // 15 + i * i * 7 // 11 % 4) % 15 for i in range(200)], np.int64)

    def __iter__(self):
        for step in range(40):
            yield np.arange(step * 5, step * 5 + 5 - step % 3)


STREAMS = {
    "drift": (Drift, 24, 4),
    "drift, few slots and many asked for": (Drift, 7, 9),
    "cifar10-lt10": (lambda: label_stream("cifar10-lt10", seed=1, batch=128), 200, 8),
}


def hashes(title):
    """The hash of every policy's tape on one stream."""
    make, capacity, n = STREAMS[title]
    stream, found = make(), {}
    for storage in STORAGES:
        found[f"{storage} rpr"] = plan(stream, Memory(capacity, storage, "rpr", seed=1), n).hash
    for retrieval in RETRIEVALS:
        draws = 1 + (retrieval == "iid+pass")
        found[f"brs {retrieval}"] = plan(stream, Memory(capacity, "brs", retrieval, seed=7, draws=draws), n).hash
    return found


@pytest.mark.parametrize("title", STREAMS)
def test_tapes_are_what_they_were(title):
    expected, found = json.loads(GOLDEN.read_text())[title], hashes(title)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


def test_every_policy_that_can_be_planned_is_here():
    names = {spec.partition("+")[0].partition(":")[0] for spec in RETRIEVALS + STORAGES}
    kinds = ("storage", "schedule", "retrieval")
    assert names == {name for kind in kinds for name in registered(kind)} - {"mir", "external"}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({title: hashes(title) for title in STREAMS}, indent=1) + "\n")
