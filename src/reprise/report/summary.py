"""One row of a report: the audits of one stream, storage, retrieval and buffer, over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from reprise.audit import Audit
from reprise.lab.audits import AuditRun
from reprise.memory import Scheduled, as_retrieval

LARGE = 10**9  # from here on a figure is too long to be read
NOTHING = "—"  # where there is no figure


@dataclass(frozen=True, eq=False)
class Summary:
    """The audits of runs that differ in their seed alone."""

    run: AuditRun
    seeds: tuple[int, ...]
    audits: tuple[Audit, ...]

    @cached_property
    def means(self) -> dict[str, float | None]:
        """The figures of an audit, averaged over seeds."""
        means = Audit.average(self.audits)
        steps = means["steps"]
        return {**means, "steps": int(steps)} if steps is not None and steps == int(steps) else means

    @property
    def classes(self) -> int:
        """The largest number of classes resident at once, in any seed."""
        return max(audit.class_max for audit in self.audits)

    @property
    def longest(self) -> int | None:
        """The longest wait of any seed, of whatever kind: gap, first, open or cut."""
        return max((audit.longest for audit in self.audits if audit.longest is not None), default=None)

    @cached_property
    def bound(self) -> int | None:
        """The longest wait that is proved for `classes` classes that stay; None where nothing is proved."""
        retrieval = as_retrieval(self.run.retrieval)
        if not isinstance(retrieval, Scheduled) or not self.classes:
            return None
        return retrieval.schedule.bound(self.classes, self.run.replay)

    @property
    def memory_stands_still(self) -> bool:
        """Whether the memory is balanced and never changes, so that laws of a fixed set hold."""
        return self.run.classes is not None

    def to_dict(self) -> dict[str, Any]:
        """What was asked, the mean figures, and the figures of each seed: plain numbers, strings and None."""
        return {
            "stream": self.run.name,
            "storage": self.run.storage,
            "retrieval": self.run.retrieval,
            "buffer": self.run.capacity,
            "replay": self.run.replay,
            "seeds": len(self.seeds),
            **self.means,
            "per_seed": [
                {"seed": seed, **audit.to_dict()} for seed, audit in zip(self.seeds, self.audits, strict=True)
            ],
        }


def summarise(runs: Sequence[AuditRun], audits: Sequence[Audit]) -> list[Summary]:
    """Put the audits of runs that differ in their seed alone into one row each, in order of first appearance."""
    rows: dict[AuditRun, list[tuple[int, Audit]]] = {}
    for run, audit in zip(runs, audits, strict=True):
        rows.setdefault(replace(run, seed=0), []).append((run.seed, audit))
    return [
        Summary(run, tuple(seed for seed, _ in found), tuple(audit for _, audit in found))
        for run, found in rows.items()
    ]


def groups(summaries: Iterable[Summary]) -> list[list[Summary]]:
    """Rows that differ in retrieval alone, and so hold the same memory at every step, side by side."""
    found: dict[AuditRun, list[Summary]] = {}
    for summary in summaries:
        found.setdefault(replace(summary.run, retrieval=""), []).append(summary)
    return list(found.values())


def group_title(group: Sequence[Summary]) -> str:
    """What the rows of a group have in common, in a few words."""
    run = group[0].run
    memory = f"{run.storage} of {run.capacity:,}"
    return f"{_arriving(run)}, {memory}"


def caption(rows: Sequence[Summary]) -> str:
    """What all rows have in common: what arrives and who is kept, unless they vary, replay size, steps, seeds."""
    runs = [row.run for row in rows]
    parts = []
    if len({run.name for run in runs}) == 1:
        parts.append(_arriving(runs[0]))
    storage = runs[0].storage if len({run.storage for run in runs}) == 1 else ""
    buffer = f"{runs[0].capacity:,}" if len({run.capacity for run in runs}) == 1 else ""
    if storage and buffer:
        parts.append(f"{storage} of {buffer}")
    elif storage or buffer:
        parts.append(storage or f"buffer {buffer}")
    steps = sorted({row.means["steps"] or 0 for row in rows})
    count = f"{steps[0]:,.0f}" if steps[0] == steps[-1] else f"{steps[0]:,.0f} to {steps[-1]:,.0f}"
    parts.append(f"{count} step" if count == "1" else f"{count} steps")
    return " · ".join([*parts, f"{runs[0].replay} replayed a step", _seeds(rows[0].seeds)])


def _arriving(run: AuditRun) -> str:
    if run.classes is None:
        return run.name
    return "one class that stays" if run.classes == 1 else f"{run.classes:,} classes that stay"


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"means over seeds {seeds[0]} to {seeds[-1]}"


def figure(value: float | None, digits: int) -> str:
    """A figure with so many decimals, a dash for None; one too large to be read has three digits.

    >>> figure(6.625, 1), figure(None, 2), figure(1032.75, 0), figure(10**310, 0)
    ('6.6', '—', '1,033', '1.00e+310')
    """
    if value is None:
        return NOTHING
    return f"{value:,.{digits}f}" if value < LARGE else f"{Decimal(value):.2e}"
