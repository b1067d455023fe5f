"""The audit of a long tape takes a fraction of a second and little memory, however many classes there are."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from reprise.audit import measure
from reprise.tape import Tape


def long_tape(classes, steps=10_000, replay=32, incoming=32, capacity=20_000):
    """First in, first out, and uniform draws: as many writes as a tape can have."""
    rng = np.random.default_rng(0)
    ids = np.arange(steps * incoming)
    held = np.minimum(np.arange(steps) * incoming, capacity)
    slots = (rng.random((steps, 1, replay)) * held[:, None, None]).astype(np.int64)
    newest = np.arange(steps)[:, None, None] * incoming - 1
    drawn = newest - (newest - slots) % capacity
    slots[0] = drawn[0] = -1
    return Tape(
        incoming=ids.reshape(steps, incoming),
        replay=drawn,
        slots=slots,
        written=(ids % capacity).reshape(steps, incoming),
        labels=rng.integers(classes, size=len(ids)),
        boundaries=np.array([steps]),
        initial=np.empty(0, np.int64),
        stream="long",
        storage="fifo",
        retrieval="uniform",
        capacity=capacity,
        replay_size=replay,
        seed=0,
    )


def seconds(work):
    """Processor time of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("classes", [1_000, 100_000])
def test_a_long_tape(classes):
    tape = long_tape(classes)
    everything = np.random.default_rng(0).permutation(tape.incoming.size + tape.replay.size)
    # The least of three each, alternately: what else the machine does then weighs on both sides alike.
    rounds = [(seconds(lambda: measure(tape)), seconds(lambda: np.sort(everything, kind="stable"))) for _ in range(3)]
    audit, floor = map(min, zip(*rounds, strict=True))
    assert len(measure(tape).classes) > 0.9 * classes
    assert audit < 100 * floor, f"{audit / floor:.0f} times the sorting of all examples"
    tracemalloc.start()
    measure(tape)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_a_matrix_of_too_many_classes_is_refused():
    audit = measure(long_tape(6_000, steps=2_000))
    with pytest.raises(ValueError, match=r"at most 5000 classes, this tape has \d+"):
        audit.pairs()
