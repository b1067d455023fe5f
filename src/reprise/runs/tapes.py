"""What a record says of a tape, so that pages and comparisons need no tape: its audit, its gaps, who met whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from reprise.audit import KEYS, Audit, measure
from reprise.audit.cooccurrence import count_pairs
from reprise.tape import Tape

FIGURES = (*KEYS, "gap_sd", "class_max", "distinct_per_batch", "occupancy_spread")
"""The figures of a record's audit."""
MOST_CELLS = 100
"""Rows of a record's table of pairs; more classes than that share rows."""


def summarise(tape: Tape) -> dict[str, Any]:
    """The parts of a record that its tape decides."""
    audit = measure(tape)
    lengths, count = np.unique(audit.gaps, return_counts=True)
    return {
        "tape": tape.hash,
        "audit": figures(audit),
        "gaps": {"steps": lengths.tolist(), "count": count.tolist()},
        "pairs": _pairs(audit),
        "exposure": {"classes": audit.classes.tolist(), "share": audit.exposure.tolist()},
    }


def figures(audit: Audit) -> dict[str, float | int | None]:
    """The audit's figures, with the spread of gaps, and what is stored and replayed at once."""
    return {
        **audit.to_dict(),
        "gap_sd": float(np.std(audit.gaps)) if len(audit.gaps) else None,
        "class_max": audit.class_max,
        "distinct_per_batch": audit.distinct_per_batch,
        "occupancy_spread": audit.occupancy_spread,
    }


def _pairs(audit: Audit) -> dict[str, Any]:
    """In how many batches two groups of classes met: groups of `per_cell` classes by id, the upper triangle row by row.

    A row begins at the diagonal, which counts the meetings within a group.
    """
    classes = int(audit.classes.max(initial=-1)) + 1
    per_cell = max(1, -(-classes // MOST_CELLS))
    cells = -(-classes // per_cell)
    table = np.zeros((cells, cells), np.int64)
    cell = audit.classes // per_cell
    for lower, higher, counts in count_pairs(audit.visits, len(audit.classes)):
        np.add.at(table, (cell[lower], cell[higher]), counts)
    return {"classes": classes, "per_cell": per_cell, "cells": [table[row, row:].tolist() for row in range(cells)]}
