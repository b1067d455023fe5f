"""What a benchmark reports: rows of a table, each a figure beside its floor, and the machine they were taken on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table

import reprise

PACKAGES = ("numpy", "torch", "torchrl", "tensordict", "avalanche-lib")


@dataclass(frozen=True)
class Row:
    """One figure, the floor it is measured against, and their ratio: medians over rounds taken in turn.

    `low` and `high` are the quartiles of the ratio over rounds. `limit` bounds the ratio, `most` the figure
    itself. A row that could not be measured has a `skipped` reason and no figures.
    """

    part: str
    what: str
    unit: str = "µs"
    value: float | None = None
    floor: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    steps: int = 0
    written: float | None = None  # images written a step
    limit: float | None = None
    most: float | None = None
    skipped: str = ""

    @property
    def within(self) -> bool | None:
        """Whether the limits are kept; None where there is none to keep."""
        checks = [
            figure <= bound
            for figure, bound in ((self.ratio, self.limit), (self.value, self.most))
            if figure is not None and bound is not None
        ]
        return all(checks) if checks else None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "within": self.within}


def compared(part: str, what: str, ours: list[float], floor: list[float], **facts: Any) -> Row:
    """The row of two lists of timings taken in turn, one of each a round."""
    ratios = np.array(ours) / np.array(floor)
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return Row(
        part,
        what,
        value=float(np.median(ours)),
        floor=float(np.median(floor)),
        ratio=float(middle),
        low=float(low),
        high=float(high),
        rounds=len(ratios),
        **facts,
    )


def environment() -> dict[str, Any]:
    """The machine and the versions."""
    versions = {"python": platform.python_version(), "reprise": reprise.__version__}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"machine": _processor(), "cores": os.cpu_count(), "threads": 1, "versions": versions}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor()} ({platform.machine()}, {platform.system()})"


def table(rows: list[Row]) -> Table:
    """All rows as one table, a section for each part."""
    shown = Table(title="The price of a replay memory, beside its floor")
    shown.add_column("part")
    shown.add_column("what")
    for heading in ("figure", "floor", "ratio", "quartiles", "limit", "written", "rounds × steps"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for place, row in enumerate(rows):
        first = place == 0 or rows[place - 1].part != row.part
        last = place + 1 == len(rows) or rows[place + 1].part != row.part
        shown.add_row(row.part if first else "", *_cells(row), end_section=last)
    return shown


def _cells(row: Row) -> list[str]:
    if row.skipped:
        return [row.what, f"[dim]skipped: {row.skipped}[/dim]", *[""] * 6]
    colour = {True: "green", False: "red", None: "default"}[row.within]
    limit = f"{row.limit:g}×" if row.limit else f"{row.most:g} {row.unit}" if row.most else ""
    return [
        row.what,
        f"{_figure(row.value)} {row.unit}",
        "" if row.floor is None else f"{_figure(row.floor)} {row.unit}",
        "" if row.ratio is None else f"[{colour}]{row.ratio:.2f}×[/{colour}]",
        "" if row.low is None else f"{row.low:.2f} … {row.high:.2f}",
        f"[{colour}]{limit}[/{colour}]",
        "" if row.written is None else f"{row.written:.1f}",
        f"{row.rounds} × {row.steps:,}" if row.steps else f"{row.rounds}",
    ]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def markdown(rows: list[Row]) -> str:
    """The same table for a page of documentation."""
    lines = [
        "| part | what | figure | floor | ratio | quartiles | limit | written | rounds × steps |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = [cell if "[" not in cell else cell.split("]")[1].split("[")[0] for cell in _cells(row)]
        lines.append("| " + " | ".join([row.part, *cells]) + " |")
    return "\n".join(lines)
