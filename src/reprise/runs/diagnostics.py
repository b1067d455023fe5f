"""What a run looked like from inside: how the head's bias moves while a class is absent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reprise.audit.gaps import find_gaps
from reprise.audit.residency import reconstruct
from reprise.audit.visits import find_visits
from reprise.tape import Tape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BINS = ("1-4", "5-8", "9-16", "17-32", "33+")
_LEAST = np.array([1, 5, 9, 17, 33])  # the shortest gap of each bin


@dataclass(frozen=True, eq=False)
class Episodes:
    """Every episode with a jointly absent update, sorted by class and then by time."""

    classes: Ints  # label
    first: Ints  # step of the replay visit that opens the episode
    second: Ints  # step of the next replay visit, which closes it
    absent: Ints  # jointly absent updates: the class neither replayed nor incoming
    displacement: Floats  # what these updates added to the class's bias

    @property
    def gaps(self) -> Ints:
        """Steps between the two visits."""
        return self.second - self.first


@dataclass(frozen=True)
class BiasDisplacement:
    """How far biases moved during joint absence, for each of `BINS`; None where a bin has no episode."""

    episodes: tuple[int, ...]
    """Episodes whose gap is in the bin."""
    mean: tuple[float | None, ...]
    """Their mean displacement."""
    negative: tuple[float | None, ...]
    """The fraction of them with a displacement below 0."""

    def to_dict(self) -> dict[str, dict[str, int | float | None]]:
        """The three figures under the name of each bin, as plain numbers or None."""
        rows = zip(BINS, self.episodes, self.mean, self.negative, strict=True)
        return {name: {"episodes": n, "mean": mean, "negative": negative} for name, n, mean, negative in rows}


def find_episodes(tape: Tape, biases: ArrayLike) -> Episodes:
    """Find the episodes of `tape`, and how far each one's bias moved while its class was absent.

    `biases` holds the live head's bias before step 0, after step 0, and so on: T+1 rows, a column per class.

    An episode opens at a replay visit of a class, that is, at a step whose draws together hold it, and closes at
    the next. An eviction seen at a draw discards it. Its displacement is Σ (biases[t+1] − biases[t]) over the steps
    t strictly between the two visits at which the class does not come in either: an incoming appearance neither
    closes nor discards the episode, its update is left out. An episode without any such step is not counted.
    """
    if not isinstance(tape, Tape):
        raise TypeError(f"bias displacement needs a Tape, got {type(tape).__name__}")
    rows = np.asarray(biases)
    if rows.dtype.kind != "f":
        raise TypeError(f"biases must be floating-point numbers, got {rows.dtype}")
    if rows.ndim != 2 or len(rows) != len(tape) + 1:
        raise ValueError(
            f"biases must have a row before the first of the tape's {len(tape)} steps and one after each, "
            f"{len(tape) + 1} in all, and a column per class, got shape {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise ValueError(f"biases must be finite, row {np.argwhere(~np.isfinite(rows))[0][0]} is not")
    residency = reconstruct(tape)
    came, place = np.nonzero(tape.incoming >= 0)
    labels = tape.labels[tape.incoming[came, place]]
    most = max(labels.max(initial=-1), residency.classes.max(initial=-1))
    if most >= rows.shape[1]:
        raise ValueError(f"biases must have a column for every class, got {rows.shape[1]} and class {most} on the tape")

    gaps, _ = find_gaps(find_visits(tape, residency))  # both visits in one stay: what an eviction cut off is not there
    classes = residency.classes[gaps.classes]
    # Between two visits a class is not replayed, so what comes in is all that is to be left out.
    absent = np.ones((len(tape), rows.shape[1]), bool)
    absent[came, labels] = False
    moved = np.where(absent, np.diff(rows.astype(np.float64), axis=0), 0.0)
    updates, displacement = (_between(table, gaps.first, gaps.second, classes) for table in (absent, moved))
    kept = updates > 0
    return Episodes(
        classes[kept], gaps.first[kept], gaps.second[kept], updates[kept].astype(np.int64), displacement[kept]
    )


def bias_displacement(tape: Tape, biases: ArrayLike) -> BiasDisplacement:
    """How far the bias of an absent class moved, by the length of its replay gap; see `find_episodes`."""
    found = find_episodes(tape, biases)
    chosen = np.searchsorted(_LEAST, found.gaps, side="right") - 1
    episodes = np.bincount(chosen, minlength=len(BINS))
    totals = np.bincount(chosen, found.displacement, len(BINS))
    below = np.bincount(chosen, (found.displacement < 0).astype(np.float64), len(BINS))
    return BiasDisplacement(tuple(episodes.tolist()), _shares(totals, episodes), _shares(below, episodes))


def _between(table: NDArray[np.generic], first: Ints, second: Ints, classes: Ints) -> Floats:
    """The sum of each class's column over the steps strictly between `first` and `second`."""
    reached = np.zeros((len(table) + 1, table.shape[1]))
    np.cumsum(table, axis=0, out=reached[1:])
    result: Floats = reached[second, classes] - reached[first + 1, classes]
    return result


def _shares(totals: NDArray[np.generic], counts: NDArray[np.generic]) -> tuple[float | None, ...]:
    return tuple(
        total / count if count else None for total, count in zip(totals.tolist(), counts.tolist(), strict=True)
    )
