"""What a record says of a tape: the audit's figures, the gaps that occur, and who met whom."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reprise
from reprise.audit import KEYS, measure
from reprise.runs import tapes
from reprise.runs.tapes import FIGURES, figures, summarise


def planned(retrieval: str = "rpr", capacity: int = 200) -> reprise.tape.Tape:
    stream = reprise.streams.label_stream("cifar10-lt100", seed=0)
    return reprise.plan(stream, reprise.Memory(capacity, retrieval=retrieval, seed=0), replay=4)


def meetings(tape: reprise.tape.Tape) -> np.ndarray:
    """In how many batches two classes are, the lower one first; slot by slot."""
    count = int(tape.labels.max()) + 1
    found = np.zeros((count, count), np.int64)
    for step in tape.replay:
        for batch in step:
            present = sorted(set(tape.labels[batch[batch >= 0]].tolist()))
            for number, lower in enumerate(present):
                for higher in present[number + 1 :]:
                    found[lower, higher] += 1
    return found


def test_figures_are_the_audit_and_four_more() -> None:
    tape = planned()
    audit = measure(tape)
    found = figures(audit)
    assert tuple(found) == FIGURES == (*KEYS, "gap_sd", "class_max", "distinct_per_batch", "occupancy_spread")
    assert {key: found[key] for key in KEYS} == audit.to_dict()
    assert (found["distinct_per_batch"], found["occupancy_spread"], found["class_max"]) == (
        audit.distinct_per_batch,
        audit.occupancy_spread,
        audit.class_max,
    )
    assert found["gap_sd"] == np.std(audit.gaps) > 0
    assert found["distinct_per_batch"] > 3
    assert found["occupancy_spread"] > 2
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_gaps_are_told_by_how_often_each_occurs() -> None:
    tape = planned("iid")
    audit, found = measure(tape), summarise(tape)
    assert found["tape"] == tape.hash
    assert found["audit"] == figures(audit)
    assert np.repeat(found["gaps"]["steps"], found["gaps"]["count"]).tolist() == sorted(audit.gaps.tolist())
    assert len(found["gaps"]["steps"]) == len(set(audit.gaps.tolist()))
    assert dict(zip(found["exposure"]["classes"], found["exposure"]["share"], strict=True)).keys() == set(range(10))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize("most", [100, 4, 3, 1])
def test_pairs_are_counted_as_a_look_at_every_batch_counts_them(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "MOST_CELLS", most)
    tape = planned()
    found, wanted = summarise(tape)["pairs"], meetings(tape)
    per_cell = {100: 1, 4: 3, 3: 4, 1: 10}[most]
    assert (found["classes"], found["per_cell"]) == (10, per_cell)
    cells = -(-10 // per_cell)
    assert [len(row) for row in found["cells"]] == list(range(cells, 0, -1))
    for row, counts in enumerate(found["cells"]):
        for column, count in enumerate(counts, row):
            rows, columns = (slice(one * per_cell, (one + 1) * per_cell) for one in (row, column))
            assert count == wanted[rows, columns].sum()
    assert wanted.sum() > 0


def test_of_a_tape_without_replay_there_is_nothing_to_say() -> None:
    stream = reprise.streams.label_stream("cifar10-lt100", seed=0)
    found = summarise(reprise.plan(stream, reprise.Memory(20, seed=0), replay=0))
    assert found["audit"]["distinct_per_batch"] is None
    assert found["audit"]["gap_sd"] is None
    assert found["gaps"] == {"steps": [], "count": []}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
