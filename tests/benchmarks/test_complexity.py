"""The work of a step does not grow with the memory nor with the classes: counted, not timed.

Two counts, both the same on every machine: events of the interpreter (lines, calls, turns of a loop), and bytes
allocated, which tell of copies that the interpreter makes without an event. Means over whole passes.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from reprise import Memory
from reprise.core.registry import registered


def ours(kind: str) -> list[str]:
    """The library's own policies: other tests of this process may have registered more."""
    return sorted(name for name, policy in registered(kind).items() if policy.__module__.startswith("reprise."))


STORAGES = [name for name in ours("storage") if name != "external"]
ARGUMENTS = {"reused": ":3", "hybrid": ":4", "window": ":0.25", "deadline": ":2", "mir": ":16"}
RETRIEVALS = [name + ARGUMENTS.get(name, "") for kind in ("retrieval", "schedule") for name in ours(kind)]
PASSES = [f"{name}+pass" for name in ("iid", "rpr")]
INCOMING, REPLAY = 32, 8
# Slots and classes: sixteen times the slots, then as many times the classes. A class has 32 slots or more, and stays.
SMALL, MORE_SLOTS, MORE_CLASSES = (1024, 32), (16_384, 32), (16_384, 512)


def events(work: Callable[[], None]) -> int:
    """How many lines, calls and turns of loops the interpreter goes through; calls of C functions as well."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        seen += 1
        return trace

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal seen
        seen += event == "c_call"

    before, profiled = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(profiled)
        sys.settrace(before)
    return seen


LISTS = ("insert", "remove", "index", "sort", "copy", "extend", "reverse")  # these may go through a whole list


def touched(work: Callable[[], None]) -> int:
    """The lengths of all lists that methods are called on that may go through them, without any event."""
    total = 0

    def profile(frame: FrameType, event: str, function: Any) -> None:
        nonlocal total
        if event == "c_call" and function.__name__ in LISTS and type(function.__self__) is list:
            total += len(function.__self__)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return total


def late(capacity: int, classes: int, storage: str, retrieval: str) -> tuple[Memory, np.random.Generator]:
    """A full memory, so late in its stream that its pace hardly changes any more; and where its labels come from."""
    memory = Memory(capacity, storage, retrieval, seed=0)
    labels = np.random.default_rng(0)
    for _ in range((1 if storage == "fifo" else 16) * capacity // 1024):
        memory.store(labels.integers(classes, size=1024))
    return memory, labels


def scoring(memory: Memory) -> Callable[[Any], Any] | None:
    return (lambda slots: slots) if memory.retrieval_spec.startswith("mir") else None


def steps(memory: Memory, labels: list[Any], excluding: bool = False) -> None:
    score = scoring(memory)
    limits: dict[str, Any] = {}
    for batch in labels:
        memory.draw(REPLAY, score=score, **limits)
        memory.store(batch)
        limits = {"exclude": batch} if excluding else {}


def work_a_step(capacity: int, classes: int, storage: str, retrieval: str) -> float:
    memory, source = late(capacity, classes, storage, retrieval)
    count = 2 * max(classes // REPLAY, 16)  # two whole passes
    steps(memory, list(source.integers(classes, size=(count // 2, INCOMING))))  # and one before, to settle
    batches = list(source.integers(classes, size=(count, INCOMING)))
    return events(lambda: steps(memory, batches)) / count


def bytes_a_step(capacity: int, classes: int, retrieval: str) -> float:
    memory, source = late(capacity, classes, "fifo", retrieval)
    batches = list(source.integers(classes, size=(classes // REPLAY, INCOMING)))
    steps(memory, batches)
    total, score = 0, scoring(memory)
    tracemalloc.start()
    try:
        for batch in batches:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            memory.draw(REPLAY, score=score)
            memory.store(batch)
            total += tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return total / len(batches)


def churn(
    classes: int, retrieval: str, chunk: int, count: Callable[[Callable[[], None]], int], excluding: bool = False
) -> float:
    """What is counted a step, over whole passes, while at every step a class leaves and another comes."""
    with ExitStack() as stack:
        for module in ("order", "deck", "ring"):
            stack.enter_context(patch(f"reprise.memory.schedule.{module}.CHUNK", chunk))
        memory = Memory(classes, "fifo", retrieval, seed=0)  # a slot a class
        turns = 2 * classes // REPLAY
        labels = np.arange(classes + 2 * turns)[:, None] * 7919 % (2 * classes)  # in no order, and none soon again
        memory.store(labels[:classes, 0])
        steps(memory, list(labels[classes : classes + turns // 2]), excluding)
        return count(lambda: steps(memory, list(labels[-turns:]), excluding)) / turns


def test_the_counter_counts_turns_of_loops() -> None:
    def work(turns: int) -> Callable[[], None]:
        return lambda: [None for _ in range(turns)] and None  # type: ignore[func-returns-value]

    assert events(work(10_000)) > 10_000
    assert events(work(10)) < 100


@pytest.mark.parametrize("storage", STORAGES)
def test_storage_work_does_not_grow(storage: str) -> None:
    most = 1.15 * work_a_step(*SMALL, storage, "uniform")
    assert work_a_step(*MORE_SLOTS, storage, "uniform") < most
    assert work_a_step(*MORE_CLASSES, storage, "uniform") < most


@pytest.mark.parametrize("retrieval", [*RETRIEVALS, *PASSES])
def test_retrieval_work_does_not_grow(retrieval: str) -> None:
    most = 1.15 * work_a_step(*SMALL, "fifo", retrieval)
    assert work_a_step(*MORE_SLOTS, "fifo", retrieval) < most
    assert work_a_step(*MORE_CLASSES, "fifo", retrieval) < most


@pytest.mark.parametrize("retrieval", [*RETRIEVALS, *PASSES])
def test_retrieval_copies_do_not_grow(retrieval: str) -> None:
    # Not from the smallest size: Python keeps whole numbers up to 256 ready, and they cost nothing there.
    assert bytes_a_step(65_536, 2048, retrieval) < 1.3 * bytes_a_step(16_384, 512, retrieval)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_removal_costs_what_it_removes(storage: str) -> None:
    def work(capacity: int, classes: int) -> int:
        memory, _ = late(capacity, classes, storage, "rpr+pass")
        memory.remove(slots=[0])  # `fifo` orders its slots the first time
        return events(lambda: [memory.remove(slots=[5, 7, 100]) for _ in range(40)] and None)  # type: ignore[func-returns-value]

    most = 1.15 * work(*SMALL)
    assert work(*MORE_SLOTS) < most
    assert work(*MORE_CLASSES) < most


@pytest.mark.parametrize("retrieval", [*RETRIEVALS, *PASSES])
def test_a_class_that_comes_or_goes_costs_the_logarithm_of_their_number(retrieval: str) -> None:
    # In small chunks, so that few classes are many. The logarithm grows by four, from seven to eleven.
    for count in (events, touched):
        assert churn(2048, retrieval, 16, count) < 1.4 * churn(128, retrieval, 16, count) + 2


@pytest.mark.parametrize("retrieval", ["uniform", "iid", "fixed", "rpr", "rpr+pass", "window:0.25"])
def test_a_draw_that_leaves_a_class_out_costs_no_more_than_that(retrieval: str) -> None:
    for count in (events, touched):
        assert churn(2048, retrieval, 16, count, True) < 1.4 * churn(128, retrieval, 16, count, True) + 2


@pytest.mark.parametrize("retrieval", ["rpr", "iid"])
def test_work_in_proportion_to_the_classes_would_be_seen(retrieval: str) -> None:
    plain = 10**9  # never in chunks
    assert churn(2048, retrieval, plain, touched) > 8 * churn(128, retrieval, plain, touched)
