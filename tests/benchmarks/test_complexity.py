"""The work of a step does not grow with the memory nor with the classes: counted, not timed.

Two counts, both the same on every machine: events of the interpreter (lines, calls, turns of a loop), and bytes
allocated, which tell of copies that the interpreter makes without an event. Means over whole passes.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from reprise import Memory
from reprise.core.registry import registered


def ours(kind: str) -> list[str]:
    """The library's own policies: other tests of this process may have registered more."""
    return sorted(name for name, policy in registered(kind).items() if policy.__module__.startswith("reprise."))


STORAGES = ours("storage")
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


def late(capacity: int, classes: int, storage: str, retrieval: str) -> tuple[Memory, np.random.Generator]:
    """A full memory, so late in its stream that its pace hardly changes any more; and where its labels come from."""
    memory = Memory(capacity, storage, retrieval, seed=0)
    labels = np.random.default_rng(0)
    for _ in range((1 if storage == "fifo" else 16) * capacity // 1024):
        memory.store(labels.integers(classes, size=1024))
    return memory, labels


def scoring(memory: Memory) -> Callable[[Any], Any] | None:
    return (lambda slots: slots) if memory.retrieval_spec.startswith("mir") else None


def steps(memory: Memory, labels: list[Any]) -> None:
    score = scoring(memory)
    for batch in labels:
        memory.draw(REPLAY, score=score)
        memory.store(batch)


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
    assert bytes_a_step(131_072, 4096, retrieval) < 1.3 * bytes_a_step(16_384, 512, retrieval)
