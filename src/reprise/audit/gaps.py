"""Rehearsal gaps: how many steps a class waited between two replay visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.audit.visits import Visits

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Gaps:
    """Intervals in which a class waited, sorted by class and then by time: after step `first`, up to `second`."""

    classes: Ints
    first: Ints  # of a gap, the step of the visit that opens it
    second: Ints  # of a gap, the step of the visit that closes it

    def lengths(self) -> Ints:
        return self.second - self.first

    def __len__(self) -> int:
        return len(self.classes)


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
