"""How long classes waited in several runs, from their records: gaps, the longest wait, and the bound that is proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from reprise.audit import longest_wait
from reprise.core.files import Record
from reprise.memory import Scheduled, as_retrieval


def gap_counts(records: Sequence[Record]) -> NDArray[np.int64]:
    """How many gaps had 0, 1, 2, … steps, in all runs."""
    gaps = [record["gaps"] for record in records]
    counts = np.zeros(1 + max((max(one["steps"], default=0) for one in gaps), default=0), np.int64)
    for one in gaps:
        counts[np.array(one["steps"], np.int64)] += np.array(one["count"], np.int64)
    return counts


def gap_tail(records: Sequence[Record]) -> NDArray[np.float64]:
    """The share of gaps of at least 1, 2, … steps, in all runs; empty where there was no gap."""
    counts = gap_counts(records)
    tail: NDArray[np.float64] = np.cumsum(counts[::-1])[::-1][1:] / max(int(counts.sum()), 1)
    return tail


def longest(records: Iterable[Record]) -> int | None:
    """The longest wait of any run, of whatever kind: gap, first, open or cut; None if no class was ever stored."""
    waits = (longest_wait(record["audit"]) for record in records)
    return max((int(wait) for wait in waits if wait is not None), default=None)


def most_classes(records: Iterable[Record]) -> int:
    """The largest number of classes resident at once, in any run."""
    return max(int(record["audit"]["class_max"]) for record in records)


def proved(records: Sequence[Record]) -> int | None:
    """The longest wait that is proved for as many classes as were resident at once, if they stay; None if none is."""
    memory = records[0]["run"]["memory"]
    try:
        retrieval = as_retrieval(memory["retrieval"])
    except ValueError:
        return None  # a policy of somebody else's, which is not known here
    classes = most_classes(records)
    if not isinstance(retrieval, Scheduled) or not classes or not memory["replay"]:
        return None
    return retrieval.schedule.bound(classes, memory["replay"])
