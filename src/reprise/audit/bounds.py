"""The churn bound of every measured gap, with that interval's own classes and insertions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reprise.audit.gaps import Gaps
from reprise.audit.residency import Residency

Ints = NDArray[np.int64]


def churn_bounds(gaps: Gaps, residency: Residency, replay_size: int) -> Ints:
    """The longest gap that the churn-conditional proposition allows in each interval.

    That is ⌈(2·C_max − 1 + I)/b⌉, where C_max is the largest resident count at the draws from the first visit to
    the second, both included, and I counts the classes inserted at draws after the first visit, up to and
    including the second. With several draws a step, b is still the size of one draw: each draw has a schedule of
    its own that keeps the bound, so their union keeps it too.
    """
    if not len(gaps):
        return np.empty(0, np.int64)
    inserted = np.cumsum(residency.arrivals)
    most = range_maximum(residency.count, gaps.first, gaps.second)
    slots = 2 * most - 1 + inserted[gaps.second] - inserted[gaps.first]
    return -(-slots // replay_size)


def range_maximum(values: Ints, first: Ints, last: Ints) -> Ints:
    """The largest of `values[first] … values[last]`, both ends included, for each pair of places.

    >>> range_maximum(np.array([3, 1, 4, 1, 5]), np.array([0, 1, 3]), np.array([1, 3, 3])).tolist()
    [3, 4, 1]
    """
    # A sparse table: row k holds the maximum of the 2**k values from each place on, and two such windows,
    # overlapping, cover any range.
    level = np.frexp(last - first + 1)[1] - 1
    table = np.empty((int(level.max(initial=0)) + 1, len(values)), values.dtype)
    table[0] = values
    for row in range(1, len(table)):
        half = 1 << (row - 1)
        table[row] = table[row - 1]
        np.maximum(table[row - 1, :-half], table[row - 1, half:], out=table[row, :-half])
    result: Ints = np.maximum(table[level, first], table[level, last + 1 - (1 << level.astype(np.int64))])
    return result
