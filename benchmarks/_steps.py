"""The price of one step with images: draw 8 and read them, store 32 and write those that are kept."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _rows import Row, compared

from reprise import Memory

CLASSES = 100
INCOMING = 32
REPLAY = 8
SHAPE = (32, 32, 3)
LIMIT = 5.0
LIMITS = {("reservoir", "rpr"): 3.0, ("brs", "rpr"): 4.0, ("cbrs", "rpr"): 4.0}  # late in a stream
WARM = 16  # steps before the clock starts: the first of a memory that has just been loaded takes ten times as long
TURN = 160  # steps timed at a stretch
SWEPT = np.zeros(1 << 26, np.uint8)  # gone over before each: what one side has just touched is no help to the other
RETRIEVALS = ("uniform", "iid", "fixed", "rpr", "window:0.25", "deadline:2", "rpr+pass")
STORAGES = ("brs", "cbrs", "fifo")
POLICIES = (*(("reservoir", name) for name in RETRIEVALS), *((name, "rpr") for name in STORAGES))


@dataclass(frozen=True)
class Setting:
    """A place in a stream: how many times its capacity a memory has seen, and the steps to play from there."""

    name: str
    capacity: int
    seen: float  # times the capacity
    steps: int
    rounds: int


def settings(quick: bool) -> list[Setting]:
    """Late in a stream few arrivals are written; early, seen from once to three times the capacity, about half."""
    late = Setting("late", 5120, 10, 320, 20)
    early = Setting("early", 5120, 1, 320, 20)
    return [replace(late, capacity=1024, steps=TURN, rounds=4)] if quick else [late, early]


class Images:
    """Payload: the stored images, and incoming batches of them."""

    def __init__(self, capacity: int) -> None:
        noise = np.random.default_rng(0)
        self.stored = noise.integers(256, size=(capacity, *SHAPE), dtype=np.uint8)
        self.incoming = list(noise.integers(256, size=(64, INCOMING, *SHAPE), dtype=np.uint8))

    def batches(self, turn: slice) -> list[np.ndarray[Any, Any]]:
        return [self.incoming[step % len(self.incoming)] for step in range(turn.start, turn.stop)]


class Play:
    """One policy at one place of a stream, to be played from there as often as one likes."""

    def __init__(self, setting: Setting, storage: str, retrieval: str) -> None:
        self.storage, self.retrieval, self.capacity = storage, retrieval, setting.capacity
        source = np.random.default_rng(1)
        memory = self.memory()
        for _ in range(int(setting.seen * setting.capacity) // INCOMING):
            memory.draw(REPLAY)
            memory.store(source.integers(CLASSES, size=INCOMING))
        self.state = memory.state_dict()
        self.labels = [source.integers(CLASSES, size=INCOMING) for _ in range(WARM + setting.steps)]
        # Where the floor reads and writes: exactly where the memory will.
        self.reads, self.writes, self.kept = [], [], []
        for labels in self.labels:
            self.reads.append(memory.draw(REPLAY).slots)
            slots = memory.store(labels)
            self.kept.append(np.flatnonzero(slots >= 0))
            self.writes.append(slots[slots >= 0])
        self.written = float(np.mean([len(slots) for slots in self.writes]))

    def memory(self) -> Memory:
        return Memory(self.capacity, self.storage, self.retrieval, seed=0)

    def play(self, images: Images) -> tuple[list[float], list[float]]:
        """Play the steps once, in short turns with the floor; microseconds a step of each, turn by turn."""
        memory = self.memory()
        memory.load_state_dict(self.state)
        ours: list[float] = []
        floor: list[float] = []
        self.floor(images, slice(0, WARM))
        self._ours(memory, images, slice(0, WARM))
        for number, start in enumerate(range(WARM, len(self.labels), TURN)):
            turn = slice(start, start + TURN)
            count = len(self.labels[turn])
            if number % 2:  # who goes first changes
                ours.append(self._ours(memory, images, turn) / count * 1e6)
            floor.append(self.floor(images, turn) / count * 1e6)
            if not number % 2:
                ours.append(self._ours(memory, images, turn) / count * 1e6)
        return ours, floor

    def _ours(self, memory: Memory, images: Images, turn: slice) -> float:
        stored = images.stored
        steps = list(zip(self.labels[turn], images.batches(turn), strict=True))
        SWEPT[::64] += 1
        with timer() as seconds:
            for labels, x in steps:
                draw = memory.draw(REPLAY)
                replayed = stored[draw.slots]
                slots = memory.store(labels)
                kept = slots >= 0
                stored[slots[kept]] = x[kept]
        if not np.array_equal(draw.slots, self.reads[turn][-1]) or len(replayed) != REPLAY:
            raise RuntimeError(f"{memory!r} did not repeat its own draws: the floor would not be the same work")
        return seconds()

    def floor(self, images: Images, turn: slice) -> float:
        """Seconds to read and write the same images at the same slots, and nothing else."""
        stored = images.stored
        indices = (self.reads[turn], self.writes[turn], self.kept[turn])
        steps = list(zip(*indices, images.batches(turn), strict=True))
        SWEPT[::64] += 1
        with timer() as seconds:
            for read, written, kept, x in steps:
                replayed = stored[read]
                stored[written] = x[kept]
        del replayed
        return seconds()


@contextmanager
def collector_held() -> Iterator[None]:
    """Garbage is collected now, and then not again before the end of the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class timer:
    """A clock around a block; call it afterwards for the seconds of this process.

    All that is timed runs on one thread, so that processor time is wall time on an idle machine; on a busy one it
    leaves out the work of others, which a long block would meet more often than a short one.
    """

    def __enter__(self) -> timer:
        self.start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop = time.process_time()

    def __call__(self) -> float:
        return self.stop - self.start


def rows(quick: bool) -> Iterator[Row]:
    for setting in settings(quick):
        images = Images(setting.capacity)
        for storage, retrieval in POLICIES:
            yield _row(Play(setting, storage, retrieval), images, setting)


def _row(play: Play, images: Images, setting: Setting) -> Row:
    ours: list[float] = []
    floor: list[float] = []
    for turn in range(setting.rounds + 1):
        with collector_held():
            times = play.play(images)
        if turn:  # the first is to warm up
            ours += times[0]
            floor += times[1]
    what = f"{play.storage}, {play.retrieval}, {setting.name}"
    limit = LIMIT if play.storage == "reservoir" else None  # what is promised; the others are for comparison
    if setting.name == "late":
        limit = LIMITS.get((play.storage, play.retrieval), limit)
    return compared("step", what, ours, floor, steps=TURN, written=play.written, limit=limit)
