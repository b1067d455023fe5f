"""Streams whose order is given: labels of any kind as they stand, and batches of ids."""

from __future__ import annotations

import enum
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory.sampling import RETRIEVALS, STORAGES

from reprise import Memory, plan, streams

NAMES = st.one_of(st.text(max_size=2), st.integers(0, 3), st.none(), st.tuples(st.integers(0, 1), st.text(max_size=1)))


class Animal(enum.Enum):
    CAT, DOG = 1, 2


@given(st.integers(0, 60), st.integers(1, 70), st.sets(st.integers(1, 60)), st.booleans())
def test_batches_are_full_but_for_the_last_of_a_task(count: int, batch: int, cuts: set[int], closed: bool) -> None:
    given_ends = sorted(cut for cut in cuts if cut < count)
    ends = [*given_ends, count]
    boundaries = ends if closed and count else given_ends
    stream = streams.in_order([0] * count, batch, boundaries)
    rows = [row.tolist() for row in stream]
    assert len(stream) == len(rows)
    assert [one for row in rows for one in row] == list(range(count)), "an example is missing, or out of order"
    assert stream.boundaries[-1] == len(stream)
    first = 0
    for start, end, last in zip([0, *ends], ends, stream.boundaries.tolist(), strict=False):
        task = rows[first:last]
        assert [one for row in task for one in row] == list(range(start, end))
        assert all(len(row) == batch for row in task[:-1])
        assert all(0 < len(row) <= batch for row in task)
        first = last


@given(st.lists(NAMES, max_size=30))
def test_labels_are_numbered_by_first_appearance_unless_they_are_numbers(labels: list[Any]) -> None:
    stream = streams.in_order(labels)
    assert [stream.classes[number] for number in stream.labels.tolist()] == labels
    if all(type(label) is int for label in labels):
        assert stream.labels.tolist() == labels
        assert not stream.renumbered
    else:
        assert stream.classes == tuple(dict.fromkeys(labels))
        assert stream.renumbered


@given(
    st.lists(st.text("abcdef", min_size=1, max_size=1), min_size=2, max_size=40),
    st.sampled_from(STORAGES),
    st.sampled_from(RETRIEVALS),
    st.data(),
)
def test_a_tape_of_a_prefix_is_the_prefix_of_the_tape(
    names: list[str], storage: str, retrieval: str, data: Any
) -> None:
    """No class number and no draw depends on what comes later."""
    batch = data.draw(st.integers(1, 5))
    steps = data.draw(st.integers(1, -(-len(names) // batch)))
    whole = plan(names, Memory(6, storage, retrieval, seed=3), 2, batch=batch)
    part = plan(names[: steps * batch], Memory(6, storage, retrieval, seed=3), 2, batch=batch)
    assert list(part) == list(whole[:steps])


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 0, 3, 1]),
        np.array([3, 0, 3, 1], np.uint8),
        torch.tensor([3, 0, 3, 1]),
        [np.int32(3), 0, torch.tensor(3), True],
        (3, 0, 3, 1),
        iter((3, 0, 3, 1)),
        "array of objects",
    ],
    ids=lambda labels: re.sub(" object at 0x.*", "", str(labels)),
)
def test_whole_numbers_of_any_kind_stay_as_they_are(labels: Any) -> None:
    stream = streams.in_order(np.array([3, 0, 3, 1], object) if isinstance(labels, str) else labels)
    assert stream.labels.tolist() == [3, 0, 3, 1]
    assert stream.labels.dtype == np.int64
    assert list(stream.classes) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b"],
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], object),
        [Animal.DOG, Animal.CAT, Animal.DOG],
        [(1, "x"), (1, "y"), (1, "x")],
        [None, 0, None],
        [(torch.tensor(1), 2), (0, 2), (torch.tensor(1), 2)],
    ],
    ids=str,
)
def test_labels_of_other_kinds(labels: Any) -> None:
    stream = streams.in_order(labels)
    assert stream.labels.tolist() == [0, 1, 0]
    assert len(stream.classes) == 2


def test_plan_takes_labels_in_place_of_a_stream() -> None:
    names = ["cat", "eel", "cat", "dog"] * 10
    stream = streams.in_order(names, 6, [10])
    expected = plan(stream, Memory(5, seed=2), 3)
    assert plan(names, Memory(5, seed=2), 3, batch=6, boundaries=[10]) == expected
    assert plan(stream.labels, Memory(5, seed=2), 3, batch=6, boundaries=[10]) == expected
    assert plan(torch.tensor(stream.labels), Memory(5, seed=2), 3, batch=6, boundaries=[10, 40]) == expected
    assert (expected.stream, expected.boundaries.tolist()) == ("in order", [2, 7])
    assert [len(step.incoming) for step in expected] == [6, 4, 6, 6, 6, 6, 6]
    assert len(plan(names, Memory(5), 3)) == 2, "32 a step"


def test_classes_may_have_their_numbers_already() -> None:
    names = ["dog", "cat", "eel", "dog"]
    stream = streams.in_order(names, classes=sorted(set(names)))
    assert stream.labels.tolist() == [1, 0, 2, 1]
    later = streams.in_order(["fox", "cat"], classes=stream.classes)
    assert later.labels.tolist() == [3, 0]
    assert later.classes == ("cat", "dog", "eel", "fox")
    assert streams.in_order([7, 5], classes=[5, 6]).labels.tolist() == [2, 0]
    with pytest.raises(ValueError, match="classes must be 3 different labels, got 2"):
        streams.in_order(names, classes=["a", "b", "a"])


def test_a_second_stream_of_names_must_say_what_the_numbers_mean() -> None:
    first = streams.in_order(["cat", "dog"] * 4, 2)
    memory = Memory(4, seed=0)
    plan(first, memory, 1)
    before = repr(memory.state_dict())
    with pytest.raises(ValueError, match=r"holds classes \[0, 1\] by number, .* numbered anew; .*classes="):
        plan(["dog", "cat"], memory, 1)
    assert repr(memory.state_dict()) == before
    tape = plan(streams.in_order(["dog", "cat"], classes=first.classes), memory, 1)
    assert tape.labels[:2].tolist() == [1, 0]
    plan([1, 0], memory, 1)  # numbers mean what they say


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=10))
def test_given_batches_are_the_steps(batches: list[list[int]]) -> None:
    stream = streams.from_batches(batches, labels="abcdefghij"[:10].replace("", " ").split())
    assert [row.tolist() for row in stream] == batches
    assert [step.incoming.tolist() for step in plan(stream, Memory(4), 2)] == batches
    assert stream.boundaries.tolist() == [len(batches)]


def test_tasks_of_given_batches_end_at_steps() -> None:
    stream = streams.from_batches([[0], [1, 0], [1]], [4, 5], boundaries=[2])
    assert stream.boundaries.tolist() == [2, 3]
    assert repr(stream) == "<OrderedStream 'batches': 2 classes, 2 tasks, 4 examples, 3 steps>"


@pytest.mark.parametrize(
    ("labels", "error", "words"),
    [
        ("cifar10", TypeError, r"labels are a sequence, .*got 'cifar10'; reprise.streams.label_stream"),
        ({"a": 1}, TypeError, "labels are a sequence, one per example in order, got {'a': 1}"),
        ({1, 2}, TypeError, "labels are a sequence"),
        (3, TypeError, "labels are a sequence, one per example in order, got 3"),
        (torch.tensor(3), TypeError, r"labels are a sequence, .*got tensor\(3\)"),
        ([0, 0.5], TypeError, "a label is a whole number or a name, got 0.5"),
        (np.array([1.0, 2.0]), TypeError, "got 1.0"),
        (torch.tensor([0.5, 1.5]), TypeError, "a label is a whole number or a name"),
        ([0, -1], ValueError, "labels must be 0 to .*, got -1"),
        (np.array([0, -1]), ValueError, "labels must be 0 to .*, got -1"),
        (np.zeros((2, 2), int), TypeError, "labels must be hashable, got a list; reprise.streams.from_batches"),
        ([{}, {}], TypeError, "labels must be hashable, got a dict"),
        ([np.zeros(3)], TypeError, r"a label is one thing, got ndarray of shape \(3,\)"),
        ([(torch.zeros(3, 2), 1)], TypeError, r"a label is one thing, got Tensor of shape \(3, 2\)"),
    ],
    ids=str,
)
def test_labels_that_are_none(labels: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        streams.in_order(labels)
    if not hasattr(labels, "labels"):
        with pytest.raises((TypeError, ValueError)):
            plan(labels, Memory(4))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch": 0}, ValueError, "batch must be 1 or more, got 0"),
        ({"batch": 2.0}, TypeError, "batch must be a whole number"),
        ({"boundaries": [0, 2]}, ValueError, "boundaries must be 1 to 4, got 0"),
        ({"boundaries": [2, 5]}, ValueError, "boundaries must be 1 to 4, got 5"),
        ({"boundaries": [3, 2]}, ValueError, r"boundaries must ascend, got \[3, 2\]"),
        ({"boundaries": [2, 2]}, ValueError, "boundaries must ascend"),
        ({"boundaries": 2}, ValueError, "boundaries must be one-dimensional"),
    ],
    ids=str,
)
def test_cuts_that_cannot_be_made(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        streams.in_order([0, 1, 2, 3], **options)
    with pytest.raises(error, match=words):
        plan([0, 1, 2, 3], Memory(4), **options)


def test_a_stream_is_cut_already() -> None:
    stream = streams.in_order([0, 1, 2, 3])
    for options in ({"batch": 2}, {"boundaries": [2]}):
        with pytest.raises(TypeError, match="batch and boundaries cut plain labels into steps"):
            plan(stream, Memory(4), **options)  # type: ignore[arg-type]


def test_ids_beyond_the_labels() -> None:
    with pytest.raises(ValueError, match="batch 1 of a stream must be 0 to 1, got 2"):
        streams.from_batches([[0], [2]], [0, 1])


def test_initial_says_what_the_numbers_mean_too() -> None:
    def filled() -> Memory:
        memory = Memory(4, seed=0)
        memory.store([0, 1])
        return memory

    names = ["cat", "dog", "eel"]
    assert plan(names, filled(), 1, initial=[0, 1]).initial.tolist() == [0, 1]
    with pytest.raises(ValueError, match="initial names example 2 of label 2 for slot 1, which holds label 1"):
        plan(names, filled(), 1, initial=[0, 2])
