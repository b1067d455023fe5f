"""A buffer beside a plain model: nested examples, keys of any type, rows of any length, removal, resizing, states."""

from __future__ import annotations

import copy
import io
from collections.abc import Hashable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise import ReplayBuffer
from reprise.buffer import pad

COLLATE = {"tokens": pad()}
POOL: tuple[Hashable, ...] = (0, "0", ("user", 1), 2.5, None, -3, "ß", ("user", ("a", 1)))
SOME = st.lists(st.sampled_from(POOL), max_size=6)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), SOME),
        st.tuples(st.just("store"), SOME),
        st.tuples(st.just("draw"), st.tuples(st.integers(1, 5), SOME, st.one_of(st.none(), SOME))),
        st.tuples(st.just("draw"), st.tuples(st.integers(1, 5), st.just([]), st.none())),
        st.tuples(st.just("update"), st.lists(st.integers(-1, 7), max_size=4)),
        st.tuples(st.just("remove keys"), SOME),
        st.tuples(st.just("remove slots"), st.lists(st.integers(0, 7), max_size=3)),
        st.tuples(st.just("resize"), st.integers(1, 9)),
        st.tuples(st.just("clear"), st.none()),
        st.tuples(st.just("save"), st.sampled_from(["state", "copy"])),
    ),
    max_size=14,
)


class View(NamedTuple):
    """Two views of an example."""

    one: Any
    other: Any


def row(number: int) -> torch.Tensor:
    """Its length and its content tell which example it belongs to."""
    return torch.arange(number * 7 % 5) + number


def batch(numbers: list[int]) -> dict[str, Any]:
    ids = torch.tensor(numbers, dtype=torch.int64)
    x = {"tokens": [row(number) for number in numbers], "views": View(ids.half()[:, None], (ids, None))}
    return {"x": x, "y": (ids[:, None] / 7, ids % 3 == 0), "id": ids, "refreshed": 0}


class Model:
    """What a buffer should hold: which example is in which slot, and which key it came with."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self.buffer = buffer
        self.keys: list[Hashable] = []  # of all that arrived
        self.held: dict[int, int] = {}
        self.refreshed: dict[int, int] = {}

    def step(self, action: str, argument: Any) -> None:
        getattr(self, action.replace(" ", "_"))(argument)
        self.check()

    def store(self, keys: list[Hashable]) -> None:
        numbers = list(range(len(self.keys), len(self.keys) + len(keys)))
        slots = self.buffer.store(**batch(numbers), key=keys).tolist()
        self.held |= {slot: number for slot, number in zip(slots, numbers, strict=True) if slot >= 0}
        self.keys += keys

    def draw(self, argument: tuple[int, list[Hashable], list[Hashable] | None]) -> None:
        n, exclude, only = argument
        replay = self.buffer.draw(n, exclude=exclude, only=only) if exclude or only is not None else self.buffer.draw(n)
        drawn = replay.slots.tolist()
        allowed = {self.keys[number] for number in self.held.values()}
        allowed = {key for key in allowed if key not in exclude and (only is None or key in only)}
        assert len(set(drawn)) == len(drawn) <= n
        assert bool(drawn) == bool(allowed)
        assert {self.keys[self.held[slot]] for slot in drawn} <= allowed
        self.check_rows(replay, [self.held[slot] for slot in drawn])

    def update(self, slots: list[int]) -> None:
        chosen = [slot for slot in slots if slot < len(self.buffer)]
        if not self.buffer._columns.leaves:
            return
        self.buffer.update(chosen, refreshed=len(self.keys) + 1)
        self.refreshed |= {self.held[slot]: len(self.keys) + 1 for slot in chosen if slot >= 0}

    def remove_keys(self, keys: list[Hashable]) -> None:
        if self.buffer.keys is None:  # a buffer without a batch goes by labels still
            return
        gone = {number for number in self.held.values() if self.keys[number] in keys}
        assert self.buffer.remove(keys=keys) == len(gone)
        assert all(key not in self.buffer.keys for key in keys)
        self.left(set(self.held.values()) - gone)

    def remove_slots(self, slots: list[int]) -> None:
        chosen = {slot for slot in slots if slot < len(self.buffer)}
        assert self.buffer.remove(slots=sorted(chosen)) == len(chosen)
        self.left({number for slot, number in self.held.items() if slot not in chosen})

    def resize(self, capacity: int) -> None:
        before = set(self.held.values())
        went = self.buffer.resize(capacity)
        assert self.buffer.capacity == capacity
        assert went == max(len(before) - capacity, 0)
        kept = set(self.buffer.at(range(len(self.buffer))).id.tolist()) if before else set()
        assert kept <= before
        assert len(kept) == len(before) - went
        self.left(kept)

    def clear(self, _: None) -> None:
        self.buffer.clear()
        self.left(set())

    def save(self, way: str) -> None:
        if way == "copy":
            self.buffer = copy.deepcopy(self.buffer)
            return
        file = io.BytesIO()
        torch.save(self.buffer.state_dict(), file)
        file.seek(0)
        other = ReplayBuffer(self.buffer.capacity, self.buffer.memory.storage_spec, seed=99, collate=COLLATE)
        other.load_state_dict(torch.load(file))
        self.buffer = other

    def left(self, numbers: set[int]) -> None:
        """These remain, wherever they are now."""
        assert len(self.buffer) == len(numbers)
        found = self.buffer.at(range(len(numbers))).id.tolist() if numbers else []
        assert set(found) == numbers
        self.held = dict(enumerate(found))

    def check(self) -> None:
        assert sorted(self.held) == list(range(len(self.buffer)))
        if not self.buffer._columns.leaves:
            return
        numbers = [self.held[slot] for slot in range(len(self.buffer))]
        counts: dict[Hashable, int] = {}
        for number in numbers:
            counts[self.keys[number]] = counts.get(self.keys[number], 0) + 1
        assert self.buffer.counts() == counts
        assert set(self.buffer.classes) == counts.keys()
        for part, first in zip(self.buffer.batches(3), range(0, 99, 3)):  # noqa: B905
            self.check_rows(part, numbers[first : first + 3])
        for example, number in zip(self.buffer, numbers, strict=True):
            assert example.x["tokens"].tolist() == row(number).tolist()
            assert (example.id.item(), example.key) == (number, self.keys[number])
        for column in self.buffer._columns.leaves.values():  # what is gone is overwritten
            if column.ragged:
                assert not column.table[column.free].any()
                assert len(column.free) + sum(map(len, column.pages)) == len(column.table)
            else:
                assert len(column.table) == self.buffer.capacity

    def check_rows(self, replay: Any, numbers: list[int]) -> None:
        if not numbers:
            return
        expected = batch(numbers)
        assert replay.id.tolist() == numbers
        assert replay.key == [self.keys[number] for number in numbers]
        assert replay.refreshed.tolist() == [self.refreshed.get(number, 0) for number in numbers]
        views = replay.x["views"]
        assert views._fields == View._fields
        assert views.other[1] is None
        assert torch.equal(views.one, expected["x"]["views"].one)
        assert torch.equal(views.other[0], replay.id)
        assert isinstance(replay.y, tuple)
        assert torch.equal(replay.y[0], expected["y"][0])
        lengths = replay.lengths("tokens").tolist()
        assert lengths == [len(row(number)) for number in numbers]
        assert replay.x["tokens"].shape == (len(numbers), max(lengths))
        for padded, number, length in zip(replay.x["tokens"], numbers, lengths, strict=True):
            assert padded[:length].tolist() == row(number).tolist()
            assert not padded[length:].any()


@pytest.mark.parametrize("storage", ["reservoir", "cbrs", "fifo"])
@settings(max_examples=40)
@given(capacity=st.integers(1, 8), seed=st.integers(0, 9), actions=ACTIONS)
def test_a_buffer_is_its_model(storage: str, capacity: int, seed: int, actions: list[Any]) -> None:
    model = Model(ReplayBuffer(capacity, storage, "rpr", seed=seed, collate=COLLATE))
    for action, argument in actions:
        model.step(action, argument)
    audit = model.buffer.audit()
    assert (audit.violations, audit.overdue) == (0, 0)
    assert len(model.buffer.tape().labels) == len(model.keys)


@settings(max_examples=25)
@given(capacity=st.integers(1, 8), seed=st.integers(0, 9), actions=ACTIONS)
def test_a_buffer_on_disk_is_its_model(capacity: int, seed: int, actions: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        model = Model(ReplayBuffer(capacity, seed=seed, path=Path(folder) / "columns", collate=COLLATE))
        for action, argument in actions:
            if action != "save":
                model.step(action, argument)
                continue
            state = model.buffer.state_dict()
            model.buffer.close()
            model.buffer = ReplayBuffer(model.buffer.capacity, seed=99, path=Path(folder) / "columns", collate=COLLATE)
            model.buffer.load_state_dict(state)
            model.check()
        audit = model.buffer.audit()
        assert (audit.violations, audit.overdue) == (0, 0)
        model.buffer.close()


@settings(max_examples=25)
@given(keys=st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers())), min_size=1))
def test_keys_change_nothing_but_names(keys: list[Hashable]) -> None:
    """A buffer that goes by keys does what one does that is given their numbers as labels."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    named, plain = ReplayBuffer(6, seed=1), ReplayBuffer(6, seed=1)
    for first in range(0, len(keys), 4):
        part = keys[first : first + 4]
        x = torch.arange(len(part))
        assert named.draw(3).slots.tolist() == plain.draw(3).slots.tolist()
        named.store(x, key=part)
        plain.store(x, [numbers[key] for key in part])
    assert named.tape().hash == plain.tape().hash
    assert named.classes == [list(numbers)[label] for label in np.asarray(plain.classes)]
