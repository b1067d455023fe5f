"""The bound of every measured wait, with that interval's own classes and insertions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reprise.audit.gaps import Gaps
from reprise.audit.residency import Residency

Ints = NDArray[np.int64]


def pass_bounds(waits: Gaps, residency: Residency, replay_size: int, arrival: bool | NDArray[np.bool_] = False) -> Ints:
    """The longest that a randomised pass lets each wait last, in its own interval.

    After a visit that is ⌈(2·C_max − 1 + I)/b⌉ (`theory.churn_bound`), where C_max is the largest resident count at the
    draws from the visit to the end of the wait, both included, and I counts the classes inserted at draws after the
    visit, up to and including the end. After an `arrival` it is ⌈(C_max + I)/b⌉ (`theory.first_bound`), over the draws
    from the first that knew the class: C_max counts all who were resident then, and I those who came at later draws.
    With several draws a step, b is still the size of one draw: each draw has a schedule of its own that keeps the
    bound, so their union keeps it too. Where draws exclude classes, a wait counts the steps that did not skip its
    class, and the bounds are the same; C_max and I are those of all steps of the interval, excluded classes included.
    """
    if not len(waits):
        return np.empty(0, np.int64)
    first, last = waits.first + arrival, waits.second
    inserted = np.cumsum(residency.arrivals)
    most = range_maximum(residency.count, first, last)
    slots = np.where(arrival, most, 2 * most - 1) + inserted[last] - inserted[first]
    bounds: Ints = -(-slots // replay_size)
    return bounds


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
