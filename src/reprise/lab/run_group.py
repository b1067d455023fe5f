"""Runs that differ in their seed alone, read from their records: figures, curves, waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reprise.core.files import Record
from reprise.core.registry import did_you_mean
from reprise.lab import waits
from reprise.lab.table import flat
from reprise.memory import as_retrieval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METRICS = {
    "final": "final task-mean accuracy",
    "boundary_mean": "mean task-boundary accuracy",
    "any_time": "average any-time accuracy",
    "worst_case": "worst-case accuracy",
    "backward_transfer": "backward transfer",
    "forgetting": "forgetting",
    "head": "frequent classes",
    "mid": "middling classes",
    "tail": "rare classes",
    "macro": "class-mean accuracy",
}
"""The metrics of a read-out, in words."""
READOUTS = {"ema": "averaged network", "live": "live network"}
"""The read-outs of a run: the first is what figures are of unless another is named."""


@dataclass(frozen=True, eq=False)
class RunGroup:
    """Runs that differ in their seed alone."""

    name: str
    """What they are called beside others."""
    records: Mapping[int, Record]
    """The record of each seed."""

    def values(self, metric: str = "final", readout: str = "ema") -> dict[int, float | None]:
        """A figure of every run, by seed; a metric is that of a read-out, and other figures have their whole name."""
        return {seed: value_of(record, metric, readout) for seed, record in self.records.items()}

    @property
    def about(self) -> str:
        """What was run, in a few words."""
        return str(next(iter(self.records.values()))["name"]).rpartition(", seed")[0]

    @property
    def trained(self) -> bool:
        """Whether these are runs of a learner, and no audits."""
        return all("metrics" in record for record in self.records.values())

    def learning_curves(self, readout: str = "ema") -> Floats:
        """Seeds × tasks: at each task boundary, the mean accuracy of the tasks so far; NaN where there is none.

        Seeds whose record was read without its evaluations are left out.
        """
        return _stack([learning_curve(one, readout) for one in self.records.values() if "evaluations" in one])

    def along(self, what: str) -> tuple[Ints, Floats]:
        """Steps, and seeds × steps: the `loss` or the online `accuracy` along the stream, means over windows."""
        curves = [record["curves"] for record in self.records.values()]
        longest = max((one["steps"] for one in curves), key=len)
        return np.array(longest, np.int64), _stack([np.array(one[what], np.float64) for one in curves])

    @cached_property
    def tail(self) -> Floats:
        """The share of gaps of at least 1, 2, … steps, over all seeds; empty where there was no gap."""
        return waits.gap_tail([*self.records.values()])

    @property
    def longest(self) -> int:
        """The longest wait, which need not be a gap; 0 if no class was ever stored when a batch was drawn."""
        return waits.longest(self.records.values()) or 0

    @property
    def broken(self) -> float:
        """Waits of any kind a run beyond the bound that a randomised pass keeps while classes come and go."""
        audits = [record["audit"] for record in self.records.values()]
        return float(np.mean([audit["violations"] + audit["overdue"] for audit in audits]))

    @property
    def retrieval(self) -> str:
        """The spec of their retrieval."""
        return str(next(iter(self.records.values()))["run"]["memory"]["retrieval"])

    @property
    def known(self) -> bool:
        """Whether their retrieval is registered here; that of somebody else's may not be."""
        try:
            as_retrieval(self.retrieval)
        except ValueError:
            return False
        return True

    @property
    def bound(self) -> int | None:
        """The longest wait that is proved once all classes are stored and stay; None where nothing is proved."""
        return waits.proved([*self.records.values()])


def value_of(record: Record, metric: str, readout: str = "ema") -> float | None:
    """A metric of a read-out, or another figure under its whole name, such as `audit.max` or `prequential.accuracy`."""
    row = flat(record)
    for name in (f"{readout}.{metric}", metric):
        if name in row and not isinstance(row[name], str):
            value: float | None = row[name]
            return value
    if "metrics" not in record and "." not in metric:
        raise ValueError(f"{record['name']!r} is an audit and trains nothing; name one of its figures, as audit.max")
    if "metrics" in record and readout not in record["metrics"]:
        raise ValueError(f"a read-out is one of {', '.join(record['metrics'])}, got {readout!r}")
    known = [name.removeprefix(f"{readout}.") for name, value in row.items() if not isinstance(value, str)]
    near = did_you_mean(metric, known)
    raise ValueError(f"a run has no figure {metric!r}" + (f": did you mean {near!r}?" if near else ""))


def learning_curve(record: Record, readout: str = "ema") -> Floats:
    """At each task boundary, the mean over the tasks so far of the share of their test images that was named."""
    tested, stream = record["evaluations"], record["stream"]
    rows = np.array(tested["accuracies"][readout], np.float64)[np.array(tested["boundary"], bool)]  # None is NaN
    tasks, weights = np.array(stream["task_of_class"]), np.array(tested["test_counts"], np.float64)
    member = (tasks[:, None] == np.arange(tasks.max() + 1)) * weights[:, None]
    right, there = np.nan_to_num(rows) @ member, ~np.isnan(rows) @ member
    by_task = np.divide(right, there, out=np.zeros_like(right), where=there > 0)
    begun = (there > 0).sum(axis=1)
    curve: Floats = np.divide(by_task.sum(axis=1), begun, out=np.full(len(begun), np.nan), where=begun > 0)
    return curve


def _stack(rows: list[Floats]) -> Floats:
    """Rows on top of each other, the shorter ones filled up with NaN."""
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table
