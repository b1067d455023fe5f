"""Rehearsal gaps: how many steps a class waited between two replay visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.audit.residency import Residency
from reprise.audit.visits import Visits
from reprise.tape import Tape

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Skipped:
    """The steps that skipped a class: one of their draws excluded it while it was resident, and none visited it."""

    classes: Ints  # sorted; places among the audit's classes
    steps: Ints  # sorted within a class
    total: int  # steps of the tape

    def within(self, waits: Gaps) -> Ints:
        """How many steps of each wait skipped its class."""
        keys = self.classes * self.total + self.steps
        begin, end = waits.classes * self.total + waits.first, waits.classes * self.total + waits.second
        count: Ints = np.searchsorted(keys, end, side="right") - np.searchsorted(keys, begin, side="right")
        return count


@dataclass(frozen=True, eq=False)
class Gaps:
    """Intervals in which a class waited, sorted by class and then by time: after step `first`, up to `second`."""

    classes: Ints
    first: Ints  # of a gap, the step of the visit that opens it
    second: Ints  # of a gap, the step of the visit that closes it

    def lengths(self, skipped: Skipped | None = None) -> Ints:
        """How many steps each took, without those that skipped the class."""
        steps: Ints = self.second - self.first
        return steps if skipped is None else steps - skipped.within(self)

    def __len__(self) -> int:
        return len(self.classes)


def find_skipped(tape: Tape, residency: Residency, visits: Visits) -> Skipped | None:
    """The steps that skipped a class; None where no draw excluded any."""
    if not len(tape.excluded):
        return None
    total = max(len(tape), 1)
    steps, _, labels = tape.excluded.T
    known = np.isin(labels, residency.classes)
    classes = np.searchsorted(residency.classes, labels[known]).astype(np.int64, copy=False)
    keys = np.unique(classes * total + steps[known])
    keys = keys[residency.stay_of(keys // total, keys % total) >= 0]
    keys = np.setdiff1d(keys, visits.classes * total + visits.steps)
    return Skipped(keys // total, keys % total, total)


def find_gaps(visits: Visits) -> tuple[Gaps, Gaps]:
    """The resident gaps and the wall gaps between `visits`.

    A wall gap lies between any two consecutive visits of a class. It is a resident gap too when the class was
    resident at every draw between them, that is, when both visits fall into the same stay.
    """
    classes, steps, stays = (column[visits.by_class] for column in (visits.classes, visits.steps, visits.stays))
    wall = classes[1:] == classes[:-1]
    resident = stays[1:] == stays[:-1]  # a stay belongs to one class
    return (
        Gaps(classes[1:][resident], steps[:-1][resident], steps[1:][resident]),
        Gaps(classes[1:][wall], steps[:-1][wall], steps[1:][wall]),
    )
