"""Which classes each step replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.audit.residency import Residency
from reprise.tape import Tape

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Visits:
    """Every visit of a class, once per step, in the order of steps and of classes within a step.

    A class is visited at a step when it is among the labels of the union of the step's draws.
    """

    classes: Ints  # class visited, as a place among the audit's classes
    steps: Ints  # step of the visit
    stays: Ints  # stay in memory during which it happened
    by_class: Ints  # the order that sorts visits by class, then by step
    last: Ints  # for each visit, the place after the last visit of its step

    def __len__(self) -> int:
        return len(self.classes)


def find_visits(tape: Tape, residency: Residency) -> Visits:
    """Collect the visits of `tape`, and make sure that no absent class was replayed."""
    total, draws, size = tape.replay.shape
    replay = tape.replay.reshape(total, draws * size)
    drawn = replay >= 0
    label = tape.labels[replay[drawn]]
    place = np.searchsorted(residency.classes, label).astype(np.int64, copy=False)
    known = place < len(residency.classes)
    known[known] = residency.classes[place[known]] == label[known]
    if not known.all():
        step = int(np.nonzero(drawn)[0][~known][0])
        raise ValueError(_contradiction(step, int(label[~known][0])))

    # Sorting a row puts padding first and equal classes side by side.
    row = np.full(replay.shape, -1, np.int64)
    row[drawn] = place
    row.sort(axis=1)
    distinct = row >= 0
    distinct[:, 1:] &= row[:, 1:] != row[:, :-1]
    steps = np.nonzero(distinct)[0]
    classes = row[distinct]

    stays = residency.stay_of(classes, steps)
    if (stays < 0).any():
        first = int(np.argmax(stays < 0))
        raise ValueError(_contradiction(int(steps[first]), int(residency.classes[classes[first]])))
    ends = np.cumsum(np.count_nonzero(distinct, axis=1))
    return Visits(classes, steps, stays, np.argsort(classes, kind="stable"), ends[steps])


def _contradiction(step: int, label: int) -> str:
    return (
        f"the tape contradicts itself: step {step} replays class {label}, "
        f"but by what was written before it the memory held no example of class {label} then"
    )
