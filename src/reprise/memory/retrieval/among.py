"""Examples of the classes that may return."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Set
from itertools import accumulate

from reprise.core.rng import Random
from reprise.memory.index import Index


def sample_among(n: int, index: Index, barred: Set[int], random: Random) -> list[int]:
    """At most n distinct slots, uniform among those of the classes that are not barred."""
    allowed = index.size - sum(map(index.count, barred))
    if 2 * allowed >= index.size > 4 * n:
        # Of slots in random order, the first n that are allowed; which they are does not depend on where they stand.
        some = random.sample(index.size, 4 * n)
        found = [slot for slot, label in zip(some, index.labels[some].tolist(), strict=True) if label not in barred]
        if len(found) >= n:
            return found[:n]
    labels = sorted(index.residents - barred)
    ends = [0, *accumulate(map(index.count, labels))]
    drawn = []
    for turn in random.sample(ends[-1], min(n, ends[-1])):
        at = bisect_right(ends, turn) - 1
        drawn.append(index.slot(labels[at], turn - ends[at]))
    return drawn
