"""The numbers behind the pictures: tails of gaps, their laws, shared batches, exposure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprise.audit.cooccurrence import count_pairs
from reprise.memory import as_retrieval
from reprise.report.summary import Summary

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CELLS = 400  # rows of a map; more classes than that share cells
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
    pairs: Ints  # batches shared by two cells of classes, first seed
    per_cell: int  # classes of a cell
    exposed: Ints  # class ids
    exposure: Floats  # mean over seeds
    spread: Floats  # least and most over seeds, 2 × classes
    even: float | None  # b/C


def panel(summary: Summary, classes: int) -> Panel:
    """What is drawn of one row, on axes that hold class ids below `classes`."""
    gaps = np.concatenate([audit.gaps for audit in summary.audits])
    steps = np.arange(1, int(gaps.max(initial=0)) + 1)
    counts = np.bincount(gaps, minlength=1)
    tail = np.cumsum(counts[::-1])[::-1][1:] / max(len(gaps), 1)
    pairs, per_cell = _pairs(summary, classes)
    exposed, exposure, spread = _exposure(summary)
    return Panel(
        retrieval=summary.run.retrieval,
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
        even=min(summary.run.replay / summary.classes, 1.0) if summary.classes else None,
    )


def class_count(group: Sequence[Summary]) -> int:
    """One more than the largest class id that any row met."""
    return max((int(audit.classes.max(initial=-1)) + 1 for row in group for audit in row.audits), default=0)


def _pairs(summary: Summary, classes: int) -> tuple[Ints, int]:
    """Shared batches of the first seed: a mean over seeds would blur blocks that each seed freezes its own way."""
    audit = summary.audits[0]
    per_cell = max(1, -(-classes // MOST_CELLS))
    cells = -(-classes // per_cell)
    cell = audit.classes // per_cell
    matrix = np.zeros((cells, cells), np.int64)
    for lower, higher, counts in count_pairs(audit.visits, len(audit.classes)):
        np.add.at(matrix, (cell[lower], cell[higher]), counts)
    return matrix + matrix.T, per_cell


def _exposure(summary: Summary) -> tuple[Ints, Floats, Floats]:
    ids = np.unique(np.concatenate([audit.classes for audit in summary.audits]))
    table = np.full((len(summary.audits), len(ids)), np.nan)
    for row, audit in zip(table, summary.audits, strict=True):
        row[np.searchsorted(ids, audit.classes)] = audit.exposure
    if not len(ids):
        return ids, np.empty(0), np.empty((2, 0))
    return ids, np.nanmean(table, axis=0), np.stack([np.nanmin(table, axis=0), np.nanmax(table, axis=0)])


def _law(summary: Summary, longest: int) -> Floats:
    """The probability of a gap of at least 1, 2, … steps, where the set of classes stays and the law is known."""
    law = getattr(as_retrieval(summary.run.retrieval), "gap_tail", None)
    if law is None or not summary.memory_stands_still or not longest:
        return np.empty(0)
    classes, bound = summary.classes, summary.bound or 0
    reach = max(longest, bound if bound <= FARTHEST else 0)
    tail = law(classes, summary.run.capacity // classes, summary.run.replay, reach)
    return np.empty(0) if tail is None else np.trim_zeros(tail, "b")
