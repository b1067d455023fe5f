"""One row of a report: the audits of one stream, storage, retrieval and buffer, over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprise.audit import KEYS
from reprise.core.files import Record
from reprise.lab import waits
from reprise.runs.run import Run
from reprise.runs.settings import Section, StillSettings, setting_of

LARGE = 10**9  # from here on a figure is too long to be read
NOTHING = "—"  # where there is no figure
_TITLES = {"name", "imbalance", "classes", "storage", "buffer", "retrieval"}  # what the title of a group says


@dataclass(frozen=True, eq=False)
class Summary:
    """Runs that differ in their seed alone, from their records."""

    run: Run
    records: tuple[Record, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(record["run"]["seed"] for record in self.records)

    @property
    def retrieval(self) -> str:
        return self.run.memory.retrieval

    @cached_property
    def means(self) -> dict[str, float | None]:
        """The figures of an audit, averaged over seeds; what no seed defines is None."""
        known = {key: [one for record in self.records if (one := record["audit"][key]) is not None] for key in KEYS}
        means = {key: fmean(values) if values else None for key, values in known.items()}
        steps = means["steps"]
        return {**means, "steps": int(steps)} if steps is not None and steps == int(steps) else means

    @property
    def classes(self) -> int:
        """The largest number of classes resident at once, in any seed."""
        return waits.most_classes(self.records)

    @property
    def longest(self) -> int | None:
        """The longest wait of any seed, of whatever kind: gap, first, open or cut."""
        return waits.longest(self.records)

    @cached_property
    def bound(self) -> int | None:
        """The longest wait that is proved for `classes` classes that stay; None where nothing is proved."""
        return waits.proved(self.records)

    @property
    def memory_stands_still(self) -> bool:
        """Whether the memory is balanced and never changes, so that laws of a fixed set hold."""
        return isinstance(self.run.stream, StillSettings)

    @cached_property
    def gap_counts(self) -> NDArray[np.int64]:
        """How many gaps had 0, 1, 2, … steps, in all seeds."""
        return waits.gap_counts(self.records)

    def to_dict(self) -> dict[str, Any]:
        """What was asked, the mean figures, and the figures of each seed: plain numbers, strings and None."""
        memory = self.run.memory
        return {
            "stream": stream_label(self.run),
            "storage": memory.storage,
            "retrieval": memory.retrieval,
            "buffer": memory.buffer,
            "replay": memory.replay,
            "seeds": len(self.seeds),
            "run": {name: value for name, value in self.run.to_dict().items() if name != "seed"},
            **self.means,
            "per_seed": [
                {"seed": record["run"]["seed"], **{key: record["audit"][key] for key in KEYS}}
                for record in self.records
            ],
        }


def summarise(records: Sequence[Record]) -> list[Summary]:
    """Put the records of runs that differ in their seed alone into one row each, in order of first appearance."""
    rows: dict[Run, list[Record]] = {}
    for record in records:
        rows.setdefault(Run.from_dict({**record["run"], "seed": 0}), []).append(record)
    return [Summary(run, tuple(found)) for run, found in rows.items()]


def stream_label(run: Run) -> str:
    """What arrives, as one word."""
    return f"still-{run.stream.classes}" if isinstance(run.stream, StillSettings) else run.stream_path


def groups(summaries: Iterable[Summary]) -> list[list[Summary]]:
    """Rows that differ in retrieval alone, and so hold the same memory at every step, side by side."""
    found: dict[Run, list[Summary]] = {}
    for summary in summaries:
        found.setdefault(summary.run.replace(retrieval="uniform"), []).append(summary)
    return list(found.values())


def group_title(group: Sequence[Summary], rows: Sequence[Summary] = ()) -> str:
    """What the rows of a group have in common, in a few words; what tells it from the others among `rows` included."""
    run = group[0].run
    more = [f"{head} {value(run)}" for head, _, value in varying(rows or group)]
    return ", ".join([run.stream_name, f"{run.memory.storage} of {run.memory.buffer:,}", *more])


def varying(rows: Sequence[Summary]) -> list[tuple[str, str, Callable[[Run], str]]]:
    """Settings in which rows differ, beside those of every title: the name of each, its meaning, and its value."""
    found: list[tuple[str, str, Callable[[Run], str]]] = []
    for name in ("data", "stream", "memory"):
        section = getattr(rows[0].run, name)
        if section is None:
            continue
        for one in fields(section):
            value = _value_of(name, one.name)
            if one.name not in _TITLES and len({value(row.run) for row in rows}) > 1:
                found.append((one.name.replace("_", " "), setting_of(one).help, value))
    return found


def _value_of(section: str, name: str) -> Callable[[Run], str]:
    def value(run: Run) -> str:
        settings: Section = getattr(run, section)
        one = getattr(settings, name, None)
        return NOTHING if one is None else f"{one:g}" if isinstance(one, float) else str(one)

    return value


def caption(rows: Sequence[Summary]) -> str:
    """What all rows have in common: what arrives and who is kept, unless they vary, replay size, steps, seeds."""
    runs = [row.run for row in rows]
    parts = []
    if len({run.stream_name for run in runs}) == 1:
        parts.append(runs[0].stream_name)
    storage = runs[0].memory.storage if len({run.memory.storage for run in runs}) == 1 else ""
    buffer = f"{runs[0].memory.buffer:,}" if len({run.memory.buffer for run in runs}) == 1 else ""
    if storage and buffer:
        parts.append(f"{storage} of {buffer}")
    elif storage or buffer:
        parts.append(storage or f"buffer {buffer}")
    steps = sorted({row.means["steps"] or 0 for row in rows})
    count = f"{steps[0]:,.0f}" if steps[0] == steps[-1] else f"{steps[0]:,.0f} to {steps[-1]:,.0f}"
    parts.append(f"{count} step" if count == "1" else f"{count} steps")
    if len({(run.memory.replay, run.draws) for run in runs}) == 1:
        batches = "" if runs[0].draws == 1 else f"{runs[0].draws} × "
        parts.append(f"{batches}{runs[0].memory.replay} replayed a step")
    return " · ".join([*parts, _seeds(rows[0].seeds)])


def _seeds(seeds: Sequence[int]) -> str:
    """
    >>> _seeds([3]), _seeds([0, 1, 2]), _seeds([0, 5, 6, 7])
    ('seed 3', 'means over seeds 0 to 2', 'means over seeds 0, 5 to 7')
    """
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    return f"means over seeds {', '.join(str(one[0]) + f' to {one[-1]}' * (len(one) > 1) for one in spans)}"


def figure(value: float | None, digits: int) -> str:
    """A figure with so many decimals, a dash for None; one too large to be read has three digits.

    >>> figure(6.625, 1), figure(None, 2), figure(1032.75, 0), figure(10**310, 0)
    ('6.6', '—', '1,033', '1.00e+310')
    """
    if value is None:
        return NOTHING
    return f"{value:,.{digits}f}" if value < LARGE else f"{Decimal(value):.2e}"
