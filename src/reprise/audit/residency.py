"""When each class was resident, rebuilt from what a tape wrote."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from reprise.tape import Tape

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Residency:
    """The stays of every class in memory, as the draws of a tape saw them.

    A stay is an unbroken run of draws at which the class was resident. Residency is observed at draws only:
    the draws of step t see what steps before t wrote, so a class that leaves and returns between two draws never
    left. A class all of whose examples were removed has left as by an eviction. Classes are places in `classes`.
    """

    steps: int
    classes: Ints  # labels of the classes resident at some draw, sorted
    owner: Ints  # class of each stay; stays are sorted by class, then by time
    start: Ints  # first draw of each stay
    stop: Ints  # first draw after each stay; `steps` where the stay outlasts the tape
    count: Ints  # resident classes at each draw
    arrivals: Ints  # classes inserted at each draw, re-arrivals included
    occupancy: Ints  # stored examples of every class the memory holds after the last step

    @property
    def departures(self) -> int:
        """How often a class was resident at one draw and not at the next."""
        return int(np.count_nonzero(self.stop < self.steps))

    def draws(self) -> Ints:
        """How many draws found each class resident."""
        total = np.zeros(len(self.classes), np.int64)
        np.add.at(total, self.owner, self.stop - self.start)
        return total

    def stay_of(self, classes: Ints, steps: Ints) -> Ints:
        """The stay that holds each class at each step, or -1 where the class was not resident."""
        if not len(self.owner):
            return np.full(len(classes), -1, np.int64)
        stay = np.searchsorted(self.owner * self.steps + self.start, classes * self.steps + steps, side="right") - 1
        stay = stay.astype(np.int64, copy=False)
        found = (stay >= 0) & (self.owner[stay] == classes) & (steps < self.stop[stay])
        return np.where(found, stay, -1)


def reconstruct(tape: Tape) -> Residency:
    """Rebuild who was resident at every draw of `tape`."""
    steps = len(tape)
    # Without a replay size nothing is ever drawn, so nothing is observed.
    horizon = steps if tape.replay_size > 0 and tape.replay.shape[1] > 0 else 0
    labels, owner, draw, count = _counts(tape)

    same = owner[1:] == owner[:-1]
    before = np.zeros(len(count), bool)
    before[1:] = same & (count[:-1] > 0)
    begins = np.flatnonzero((count > 0) & ~before)
    ends = np.flatnonzero((count == 0) & before)
    # Starts and ends of one class alternate, so the end of a stay is the first one at or after its start.
    follower = np.searchsorted(ends, begins)
    closed = follower < len(ends)
    closed[closed] = owner[ends[follower[closed]]] == owner[begins[closed]]
    stop = np.full(len(begins), horizon, np.int64)
    stop[closed] = draw[ends[follower[closed]]]

    seen = draw[begins] < horizon  # what came with the last step's writes was never drawn from
    start, stop, stayed = draw[begins][seen], stop[seen], owner[begins][seen]
    places, stay_owner = np.unique(stayed, return_inverse=True)
    arrivals = np.bincount(start, minlength=steps)
    leaving = np.bincount(stop, minlength=steps + 1)[:steps]
    last = np.ones(len(owner), bool)
    last[:-1] = ~same
    return Residency(
        steps=horizon,
        classes=labels[places],
        owner=stay_owner.reshape(-1).astype(np.int64, copy=False),
        start=start,
        stop=stop,
        count=np.cumsum(arrivals - leaving),
        arrivals=arrivals,
        occupancy=count[last & (count > 0)],
    )


def _counts(tape: Tape) -> tuple[Ints, Ints, Ints, Ints]:
    """How many examples of a class were stored, at every draw before which that number may have changed.

    Returns all labels, and class (a place among the labels), draw and count of each change, sorted by class and
    then by draw. What the memory held before step 0 is a change at draw 0.
    """
    labels = np.unique(tape.labels)
    changes = _changes(tape, labels)
    running = np.cumsum((1 - 2 * (changes & 1)).astype(np.int8), dtype=np.int64)
    changes >>= 1
    # All changes between two draws count as one: only their sum is ever observed.
    final = np.ones(len(changes), bool)
    final[:-1] = changes[1:] != changes[:-1]
    owner, draw = np.divmod(changes[final], len(tape) + 1)
    running = running[final]
    # The running sum goes on across classes; take off what the classes before had reached.
    opening = np.flatnonzero(np.diff(owner, prepend=-1))
    base = np.append(0, running[opening[1:] - 1])[: len(opening)]
    return labels, owner, draw, running - np.repeat(base, np.diff(opening, append=len(owner)))


def _changes(tape: Tape, labels: Ints) -> Ints:
    """Every coming and leaving of an example as one sorted number: (class · (steps + 1) + draw) · 2 + leaving."""
    if len(tape.moved):
        return _changes_with_moves(tape, labels)
    steps, width = tape.written.shape
    held = len(tape.initial)
    places = np.flatnonzero(tape.written.reshape(-1) >= 0)
    examples = np.concatenate([tape.initial, tape.incoming.reshape(-1)[places]])
    slots = np.concatenate([np.arange(held), tape.written.reshape(-1)[places]])
    draw = np.concatenate([np.zeros(held, np.int64), places // max(width, 1) + 1])
    owner = np.searchsorted(labels, tape.labels[examples]) * (steps + 1)
    # What a write evicts is what was written to the same slot before it.
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    again = slots[1:] == slots[:-1]
    leaving = owner[order[:-1][again]] + draw[order[1:][again]]
    changes: Ints = np.concatenate([(owner + draw) * 2, leaving * 2 + 1])
    changes.sort()
    return changes


def _changes_with_moves(tape: Tape, labels: Ints) -> Ints:
    """The same, event by event, where examples were removed or moved to other slots."""
    total = len(tape) + 1
    owner = (np.searchsorted(labels, tape.labels) * total).tolist()
    holder = {slot: owner[example] for slot, example in enumerate(tape.initial.tolist())}
    changes = [place * 2 for place in holder.values()]

    def leave(slot: int, draw: int) -> None:
        if (place := holder.pop(slot, None)) is not None:
            changes.append((place + draw) * 2 + 1)

    moved = {step: list(rows) for step, rows in groupby(tape.moved.tolist(), key=itemgetter(0))}
    for step, (incoming, written) in enumerate(zip(tape.incoming.tolist(), tape.written.tolist(), strict=True)):
        draw = step + 1
        rows = [*moved.get(step, ()), (step, len(incoming), -1, -1)]
        done = 0
        for _, after, slot, source in rows:
            for example, place in zip(incoming[done:after], written[done:after], strict=True):
                if place >= 0:
                    leave(place, draw)
                    holder[place] = owner[example]
                    changes.append((owner[example] + draw) * 2)
            done = after
            if slot != source:
                leave(slot, draw)
                if source in holder:
                    holder[slot] = holder.pop(source)
    return np.sort(np.array(changes, np.int64))
