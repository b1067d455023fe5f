"""Which classes return together."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, log

import numpy as np
from numpy.typing import NDArray

from reprise.audit.visits import Visits

Ints = NDArray[np.int64]

_CHUNK = 1 << 19  # pairs held at once


def count_pairs(visits: Visits, classes: int, chunk: int = _CHUNK) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield lower class, higher class and number of shared batches of every pair ever seen, some pairs at a time.

    Within a step classes are sorted, so the partners of a visit are the visits after it in its step. Taking the
    visits class by class meets all batches of a pair together: each pair is yielded once, and memory stays
    bounded whatever the number of classes.
    """
    order = visits.by_class
    partners = (visits.last - np.arange(len(visits)) - 1)[order]
    border = np.searchsorted(visits.classes[order], np.arange(classes + 1))  # where each class's visits begin
    reached = np.append(0, np.cumsum(partners))[border]  # pairs of all lower classes
    low = 0
    while low < classes:
        high = max(low + 1, int(np.searchsorted(reached, reached[low] + chunk, side="right")) - 1)
        if reached[high] > reached[low]:
            yield from _count(visits, classes, low, high, slice(border[low], border[high]), partners, chunk)
        low = high


def _count(
    visits: Visits, classes: int, low: int, high: int, places: slice, partners: Ints, chunk: int
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Count the pairs whose lower class is in `low` … `high - 1`, whose visits are at `places` of the class order."""
    chosen, lengths = visits.by_class[places], partners[places]
    total = int(lengths.sum())
    dense = (high - low) * classes
    if high - low == 1 and total > chunk:
        # One class with more pairs than a chunk: its counts are one row, filled piece by piece.
        counts = np.zeros(classes, np.int64)
        piece = max(1, chunk // int(lengths.max()))
        for begin in range(0, len(chosen), piece):
            part = slice(begin, begin + piece)
            counts += np.bincount(_keys(visits, classes, low, chosen[part], lengths[part]), minlength=classes)
        keys = np.flatnonzero(counts)
        counts = counts[keys]
    elif dense <= 4 * total:
        counts = np.bincount(_keys(visits, classes, low, chosen, lengths), minlength=dense)
        keys = np.flatnonzero(counts)
        counts = counts[keys]
    else:
        keys, counts = np.unique(_keys(visits, classes, low, chosen, lengths), return_counts=True)
    lower, higher = np.divmod(keys, classes)
    yield lower + low, higher, counts


def _keys(visits: Visits, classes: int, low: int, chosen: Ints, lengths: Ints) -> Ints:
    """One number per pair: (lower class − low) · classes + higher class."""
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    partner = np.repeat(chosen + 1, lengths) + within
    keys: Ints = np.repeat((visits.classes[chosen] - low) * classes, lengths) + visits.classes[partner]
    return keys


def pair_statistics(visits: Visits, classes: int, class_max: int) -> tuple[float | None, float | None]:
    """Pair coverage and pair entropy, both against the pairs of `class_max` classes.

    Coverage is the number of distinct pairs seen in a batch over C(class_max, 2). Entropy is the natural-log
    entropy of the pairs' shares of all pair observations over log C(class_max, 2). When classes leave and others
    come, more pairs can be met than `class_max` classes have at once; coverage may then exceed one. A measure
    whose denominator is zero, and the entropy of no pair at all, is None.
    """
    possible = comb(class_max, 2)
    if possible == 0:
        return None, None
    distinct, total, weighted = 0, 0, 0.0
    for _, _, counts in count_pairs(visits, classes):
        distinct += len(counts)
        total += int(counts.sum())
        weighted += float(counts @ np.log(counts))
    coverage = distinct / possible
    if total == 0 or possible == 1:
        return coverage, None
    return coverage, max(0.0, log(total) - weighted / total) / log(possible)


def pair_matrix(visits: Visits, classes: int) -> Ints:
    """How many batches each two classes shared: symmetric, with a diagonal of zeros."""
    matrix = np.zeros((classes, classes), np.int64)
    for lower, higher, counts in count_pairs(visits, classes):
        matrix[lower, higher] = counts
        matrix[higher, lower] = counts
    return matrix
