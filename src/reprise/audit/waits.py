"""Waits that are no gap: from arrival to the first visit, and those that no visit ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.audit.bounds import pass_bounds
from reprise.audit.gaps import Gaps, Skipped
from reprise.audit.residency import Residency
from reprise.audit.visits import Visits

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Waits:
    """Waits of one kind, sorted by class and then by time."""

    classes: Ints
    """The class label of each."""
    lengths: Ints
    """How many steps each took; those that skipped the class are not counted."""
    bounds: Ints
    """How long a randomised pass lets each last at most, with the interval's own C_max and I.

    ⌈(2·C_max − 1 + I)/b⌉ for one that began with a visit, ⌈(C_max + I)/b⌉ for one that began with an arrival.
    """

    def __post_init__(self) -> None:
        for array in (self.classes, self.lengths, self.bounds):
            array.flags.writeable = False

    @property
    def max(self) -> int | None:
        """The longest; None where there is none."""
        return int(self.lengths.max()) if len(self) else None

    def __len__(self) -> int:
        return len(self.lengths)


def find_waits(
    visits: Visits, residency: Residency, replay_size: int, skipped: Skipped | None = None
) -> tuple[Waits, Waits, Waits]:
    """The waits of every stay that no pair of visits encloses: first waits, open waits and cut waits.

    A stay with visits has a *first* wait, from its arrival to its first visit. Every stay ends in a wait, from its last
    visit, or from its arrival when it has none, to its last draw: *open* when that is the tape's last draw, *cut* when
    an eviction ended the stay. So first waits, gaps, open and cut waits together count every draw of every stay once,
    but for those that skipped the class.
    """
    steps, stays = visits.steps[visits.by_class], visits.stays[visits.by_class]
    count = np.bincount(stays, minlength=len(residency.owner))
    after = np.cumsum(count)
    visited = count > 0
    arrival = residency.start - 1  # the step that brought the class; -1 for what the memory began with
    last = arrival.copy()
    last[visited] = steps[after[visited] - 1]
    first = Gaps(residency.owner[visited], arrival[visited], steps[(after - count)[visited]])
    rest = Gaps(residency.owner, last, residency.stop - 1)
    bounds = pass_bounds(rest, residency, replay_size, ~visited)
    labels, lengths, cut = residency.classes[rest.classes], rest.lengths(skipped), residency.stop < residency.steps
    return (
        Waits(
            residency.classes[first.classes], first.lengths(skipped), pass_bounds(first, residency, replay_size, True)
        ),
        Waits(labels[~cut], lengths[~cut], bounds[~cut]),
        Waits(labels[cut], lengths[cut], bounds[cut]),
    )
