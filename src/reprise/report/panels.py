"""The numbers behind the pictures: tails of gaps, their laws, shared batches, exposure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.memory import as_retrieval
from reprise.report.summary import Summary

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FARTHEST = 1_000  # steps: a law is drawn up to its bound, if that is no further, even where no gap came so far


@dataclass(frozen=True, eq=False)
class Panel:
    """All that is drawn of one row: arrays only, ready to plot."""

    retrieval: str
    steps: Ints  # 1 … longest gap
    longest: int | None  # longest wait, which need not be a gap
    tail: Floats  # share of gaps of at least so many steps; empty without gaps
    law: Floats  # the same by theory, from 1 on; empty where no law is known
    bound: int | None
    pairs: Ints  # batches shared by two cells of classes, first seed that has them
    per_cell: int  # classes of a cell
    exposed: Ints  # class ids
    exposure: Floats  # mean over seeds
    spread: Floats  # least and most over seeds, 2 × classes
    even: float | None  # b/C


def panel(summary: Summary, classes: int) -> Panel:
    """What is drawn of one row, on axes that hold class ids below `classes`."""
    counts = summary.gap_counts
    steps = np.arange(1, len(counts))
    tail = np.cumsum(counts[::-1])[::-1][1:] / max(int(counts.sum()), 1)
    pairs, per_cell = _pairs(summary, classes)
    exposed, exposure, spread = _exposure(summary)
    return Panel(
        retrieval=summary.retrieval,
        steps=steps,
        longest=summary.longest,
        tail=tail,
        law=_law(summary, len(steps)),
        bound=summary.bound,
        pairs=pairs,
        per_cell=per_cell,
        exposed=exposed,
        exposure=exposure,
        spread=spread,
        even=min(summary.run.memory.replay / summary.classes, 1.0) if summary.classes else None,
    )


def class_count(group: Sequence[Summary]) -> int:
    """One more than the largest class id that any row met."""
    met = [max(record["exposure"]["classes"], default=-1) for row in group for record in row.records]
    return 1 + max(met, default=-1)


def _pairs(summary: Summary, classes: int) -> tuple[Ints, int]:
    """Shared batches of the first seed: a mean over seeds would blur blocks that each seed freezes its own way.

    Packed records may lack them. Then the table is empty.
    """
    found = next((record["pairs"] for record in summary.records if "pairs" in record), None)
    if found is None:
        return np.zeros((0, 0), np.int64), 1
    per_cell = found["per_cell"]
    matrix = np.zeros((-(-classes // per_cell),) * 2, np.int64)
    for row, counts in enumerate(found["cells"]):
        matrix[row, row : row + len(counts)] = counts
    return matrix + matrix.T, per_cell  # as classes by classes would add up: a pair within a cell stands there twice


def _exposure(summary: Summary) -> tuple[Ints, Floats, Floats]:
    found = [record["exposure"] for record in summary.records]
    ids = np.unique(np.concatenate([np.array(one["classes"], np.int64) for one in found]))
    table = np.full((len(found), len(ids)), np.nan)
    for row, one in zip(table, found, strict=True):
        row[np.searchsorted(ids, np.array(one["classes"], np.int64))] = one["share"]
    if not len(ids):
        return ids, np.empty(0), np.empty((2, 0))
    return ids, np.nanmean(table, axis=0), np.stack([np.nanmin(table, axis=0), np.nanmax(table, axis=0)])


def _law(summary: Summary, longest: int) -> Floats:
    """The probability of a gap of at least 1, 2, … steps, where the set of classes stays and the law is known."""
    law = getattr(as_retrieval(summary.retrieval), "gap_tail", None)
    if law is None or not summary.memory_stands_still or not longest:
        return np.empty(0)
    classes, bound = summary.classes, summary.bound or 0
    reach = max(longest, bound if bound <= FARTHEST else 0)
    tail = law(classes, summary.run.memory.buffer // classes, summary.run.memory.replay, reach)
    return np.empty(0) if tail is None else np.trim_zeros(tail, "b")
