"""What only a live memory does, on a tape: removals, moves and exclusions, saved and checked as the rest."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import reprise


@pytest.fixture
def live() -> reprise.Tape:
    memory = reprise.RecordedMemory(5, seed=0)
    for step in range(12):
        memory.draw(2, exclude=[step % 3, 4])
        memory.store([step % 5, step % 2])
        if step % 4 == 3:
            memory.remove(slots=[1])
    return memory.tape()


def test_it_is_saved_and_loaded(live: reprise.Tape, tmp_path: Path) -> None:
    assert live.sparse == ("moved", "excluded")
    live.save(tmp_path / "live.tape")
    again = reprise.Tape.load(tmp_path / "live.tape")
    assert again == live == pickle.loads(pickle.dumps(live))
    assert again.moved.tolist() == live.moved.tolist()
    assert not again.excluded.flags.writeable
    data = bytearray((tmp_path / "live.tape").read_bytes())
    data[-1] ^= 1
    (tmp_path / "live.tape").write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        reprise.Tape.load(tmp_path / "live.tape")


@pytest.mark.parametrize("name", ["moved", "excluded"])
def test_it_counts_for_equality_and_hash(live: reprise.Tape, name: str) -> None:
    other = dataclasses.replace(live, **{name: getattr(live, name)[:-1]})
    assert other != live
    assert other.hash != live.hash
    both = dataclasses.replace(live, moved=live.moved[:0], excluded=live.excluded[:0])
    assert both.sparse == ()
    assert len({live.hash, other.hash, both.hash}) == 3


def test_without_it_file_and_hash_are_as_they_were(tmp_path: Path) -> None:
    tape = reprise.plan(np.arange(40) % 4, reprise.Memory(6, seed=0), replay=2, batch=4)
    tape.save(tmp_path / "planned.tape")
    data = (tmp_path / "planned.tape").read_bytes()
    assert b"moved" not in data
    assert b"excluded" not in data
    assert "moved" not in tape.facts
    old = {name: value for name, value in vars(tape).items() if name not in ("moved", "excluded")}
    again = reprise.Tape.__new__(reprise.Tape)
    again.__setstate__(old)  # as it was pickled before
    assert again == tape
    assert again.sparse == ()


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("moved", [[0, 0, 0]], "rows of step, writes before, slot and source"),
        ("moved", [[12, 0, 0, -1]], "steps in 0 … 11"),
        ("moved", [[0, 0, 5, -1]], "slots in 0 … 4"),
        ("moved", [[0, 0, 0, -2]], "sources in -1 … 4"),
        ("moved", [[0, 3, 0, -1]], "after 0 to all of its step's incoming"),
        ("moved", [[1, 0, 0, -1], [0, 0, 0, -1]], "in order of time"),
        ("moved", [[0, 2, 0, -1], [0, 1, 0, -1]], "in order of time"),
        ("excluded", [[0, 0]], "rows of step, draw and label"),
        ("excluded", [[-1, 0, 0]], "steps in 0 … 11"),
        ("excluded", [[0, 1, 0]], "draws in 0 … 0"),
        ("excluded", [[0, 0, -1]], "labels in 0 …"),
        ("excluded", [[0, 0, 2], [0, 0, 2]], "sorted, each row once"),
        ("excluded", [[0, 0, 2], [0, 0, 1]], "sorted, each row once"),
    ],
)
def test_rows_that_say_nothing_are_refused(live: reprise.Tape, name: str, rows: list[list[int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(live, **{name: np.array(rows)})
    with pytest.raises(TypeError, match=f"a tape's {name} must be int64"):
        dataclasses.replace(live, **{name: getattr(live, name).astype(np.float64)})
