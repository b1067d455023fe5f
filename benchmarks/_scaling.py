"""How the price of a step and the memory of a slot grow from ten thousand slots to a million."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from _rows import Row, compared
from _steps import INCOMING, REPLAY, collector_held, timer

from reprise import Memory

LIMIT = 2.5
CHURN_LIMIT = 5.0  # the logarithm of the number of classes is 2.5 times as large
BYTES_LIMIT = 1.5  # a slot's share of its class is larger when a class has fewer slots
PAYLOAD = 64  # bytes a row
STRIDE = 7919  # a prime: labels that follow one another are far apart
CHURNING = ("uniform", "iid", "fixed", "reused:3", "hybrid:4", "window:0.25", "deadline:2", "frozen-pass", "frozen-iid")
RETRIEVALS = ("uniform", "iid", "fixed", "window:0.25", "deadline:2", "rpr+pass")


@dataclass(frozen=True)
class Size:
    slots: int
    classes: int

    @property
    def draws(self) -> int:
        """Draws in one whole pass over the classes."""
        return -(-self.classes // REPLAY)


class Running:
    """A full memory, first in first out, that goes on from one round to the next."""

    def __init__(self, size: Size, retrieval: str, payload: bool) -> None:
        self.memory = Memory(size.slots, "fifo", retrieval, seed=0)
        self.source = np.random.default_rng(2)
        self.size = size
        self.rows = np.zeros((size.slots, PAYLOAD), np.uint8) if payload else None
        fill(self.memory, size, self.source)

    def steps(self, count: int) -> float:
        """Seconds for so many steps."""
        labels = list(self.source.integers(self.size.classes, size=(count, INCOMING)))
        memory, rows = self.memory, self.rows
        if rows is None:
            with timer() as seconds:
                for batch in labels:
                    memory.draw(REPLAY)
                    memory.store(batch)
        else:
            x = np.ones((INCOMING, PAYLOAD), np.uint8)
            with timer() as seconds:
                for batch in labels:
                    replayed = rows[memory.draw(REPLAY).slots]
                    slots = memory.store(batch)
                    kept = slots >= 0
                    rows[slots[kept]] = x[kept]
            del replayed
        return seconds()


class Churning:
    """A memory with one slot a class: at every step a class leaves it and another comes."""

    def __init__(self, classes: int, retrieval: str) -> None:
        self.memory = Memory(classes, "fifo", retrieval, seed=0)
        self.size = Size(classes, classes)
        self.came = 0
        self.memory.store(self.next(classes))

    def next(self, count: int) -> np.ndarray[Any, Any]:
        """Labels of the next classes, in no order; one that has left comes again when as many others have come."""
        came = np.arange(self.came, self.came + count)
        self.came += count
        labels: np.ndarray[Any, Any] = came * STRIDE % (2 * self.size.classes)
        return labels

    def steps(self, count: int) -> float:
        """Seconds for so many steps."""
        labels, memory = self.next(count).reshape(-1, 1), self.memory
        with timer() as seconds:
            for label in labels:
                memory.draw(REPLAY)
                memory.store(label)
        return seconds()


def fill(memory: Memory, size: Size, source: np.random.Generator) -> None:
    for start in range(0, size.slots, 1024):
        memory.store(source.integers(size.classes, size=min(1024, size.slots - start)))


def bytes_a_slot(size: Size) -> float:
    """What a full memory has allocated, a slot; one draw included."""
    gc.collect()
    tracemalloc.start()
    try:
        memory = Memory(size.slots, "fifo", "rpr", seed=0)
        fill(memory, size, np.random.default_rng(2))
        memory.draw(REPLAY)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / size.slots
    finally:
        tracemalloc.stop()


def rows(quick: bool) -> Iterator[Row]:
    small, large = (Size(1000, 100), Size(10_000, 1000)) if quick else (Size(10_000, 100), Size(1_000_000, 100_000))
    sizes = f"{large.slots:,} slots, {large.classes:,} classes over {small.slots:,}, {small.classes:,}"
    for retrieval, payload, rounds in [
        ("rpr", False, 3 if quick else 7),
        ("rpr", True, 3 if quick else 7),
        *((name, False, 2 if quick else 3) for name in RETRIEVALS),
    ]:
        few, many = (Running(size, retrieval, payload) for size in (small, large))
        yield _row(f"fifo, {retrieval}{', rows' if payload else ''}: {sizes}", few, many, rounds)
    for retrieval, rounds in (("rpr", 3 if quick else 7), *((name, 2 if quick else 3) for name in CHURNING)):
        few, many = (Churning(size.classes, retrieval) for size in (small, large))
        what = f"churn, {retrieval}: {large.classes:,} classes over {small.classes:,}"
        yield _row(what, few, many, rounds, CHURN_LIMIT)
    yield compared(
        "scaling",
        f"memory, fifo, rpr: {sizes}",
        [bytes_a_slot(large)],
        [bytes_a_slot(small)],
        unit="bytes/slot",
        limit=BYTES_LIMIT,
    )


def _row(what: str, few: Running | Churning, many: Running | Churning, rounds: int, most: float = LIMIT) -> Row:
    steps = many.size.draws  # so that every round has one whole pass of the large memory
    times: dict[Running | Churning, list[float]] = {many: [], few: []}
    for memory in times:
        memory.steps(REPLAY)  # the first draw is of another kind: it meets all classes at once
    for turn in range(rounds):
        for memory in sorted(times, key=id, reverse=bool(turn % 2)):  # who goes first changes
            with collector_held():
                times[memory].append(memory.steps(steps) / steps * 1e6)
    limit = most if many.memory.retrieval_spec == "rpr" else None
    return compared("scaling", what, times[many], times[few], steps=steps, limit=limit)
