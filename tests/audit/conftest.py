"""Tapes written out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from reprise.tape import Tape

Step = tuple[Sequence[Sequence[int]], Sequence[tuple[int, int]]]


def padded(rows: list[list[int]], width: int) -> np.ndarray:
    out = np.full((len(rows), width), -1, np.int64)
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return out


def build(
    steps: Sequence[Step], initial: Sequence[int] = (), replay_size: int = 2, draws: int = 1, slots: bool = False
) -> Tape:
    """A tape from a script: for each step what each draw replays, and (label, slot) of what arrives, slot -1 not kept.

    Draws name labels and take some stored example of each, or name slots when `slots` is true.
    """
    labels = list(initial)
    memory = dict(enumerate(range(len(initial))))
    incoming, written, replay, taken = [], [], [], []
    for drawn, arriving in steps:
        for one in drawn:
            if slots:
                chosen = list(one)
            else:
                chosen = []
                for label in one:
                    chosen.append(next(s for s in memory if labels[memory[s]] == label and s not in chosen))
            taken.append(chosen)
            replay.append([memory[slot] for slot in chosen])
        replay.extend([[]] * (draws - len(drawn)))
        taken.extend([[]] * (draws - len(drawn)))
        incoming.append([])
        written.append([])
        for label, slot in arriving:
            incoming[-1].append(len(labels))
            written[-1].append(slot)
            if slot >= 0:
                memory[slot] = len(labels)
            labels.append(label)
    width = max([1, *map(len, incoming)])
    total = len(steps)
    return Tape(
        incoming=padded(incoming, width),
        replay=padded(replay, replay_size).reshape(total, draws, replay_size),
        slots=padded(taken, replay_size).reshape(total, draws, replay_size),
        written=padded(written, width),
        labels=np.array(labels, np.int64),
        boundaries=np.array([total], np.int64),
        initial=np.arange(len(initial), dtype=np.int64),
        stream="by-hand",
        storage="reservoir",
        retrieval="uniform",
        capacity=max([1, len(initial), *(slot + 1 for _, arriving in steps for _, slot in arriving)]),
        replay_size=replay_size,
        seed=0,
    )


@pytest.fixture(scope="session")
def tape_of() -> Callable[..., Tape]:
    return build
