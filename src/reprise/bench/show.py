"""The benchmark's report as tables: on a terminal, and in a page of documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from reprise.bench.results import Figure, Report, Row

MARKS = ("<!-- fleet table -->", "<!-- end of fleet table -->")
HEADINGS = (
    "images",
    "way",
    "at once",
    "ms a run-step",
    "rounds from, to",
    "run-steps/s",
    "× faithful",
    "host ms",
    "GiB",
    "rounds × steps",
)
KERNELS = ("kernels of a run-step", "ms", "share", "launches")


def as_tables(report: Report) -> Group:
    """All of a report for a terminal."""
    ways = Table(title="One step of training, many ways")
    for place, heading in enumerate(HEADINGS):
        ways.add_column(heading, justify="left" if place < 2 else "right", no_wrap=place != 1)
    for place, row in enumerate(report.rows):
        last = place + 1 == len(report.rows) or report.rows[place + 1].part != row.part
        ways.add_row(*map(Text, _cells(row)), end_section=last)
    parts: list[Table | Text] = [ways]
    if report.shares:
        kernels = Table(title="Where the time goes: a run-step on a full lane")
        for place, heading in enumerate(KERNELS):
            kernels.add_column(heading, justify="right" if place else "left")
        for cells in _shares(report):
            kernels.add_row(*cells)
        parts.append(kernels)
    return Group(*parts, *(Text(line) for line in _figures(report)), Text(machine(report)))


def as_markdown(report: Report) -> str:
    """The same for a page."""
    lines = _markdown(HEADINGS, [_cells(row) for row in report.rows], left=2)
    if report.shares:
        lines += ["", *_markdown(KERNELS, _shares(report), left=1)]
    figures = [f"- {line}" for line in _figures(report)]
    return "\n".join([*lines, *(["", *figures] if figures else []), "", machine(report), ""])


def write_page(page: Path, text: str) -> None:
    """Put the tables between a page's marks, or make them the page."""
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    head, mark, tail = old.partition(MARKS[0])
    if mark:
        text = f"{head}{MARKS[0]}\n{text}{MARKS[1]}{tail.partition(MARKS[1])[2]}"
    page.write_text(text, encoding="utf-8")


def machine(report: Report) -> str:
    """The machine and the versions in a sentence."""
    facts = report.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    device = "" if facts["device"] == "CPU" else f"{facts['device']}, {facts['device_gib']:g} GiB; "
    return f"{device}{facts['processor']}, {facts['cores']} cores, {facts['threads']} torch threads; {versions}."


def line(row: Row) -> str:
    """A row in one line, for those who wait."""
    if row.skipped:
        return f"{row.part}, {row.what}: skipped, {row.skipped}"
    times = "" if row.ratio is None else f", {row.ratio:.1f} × faithful"
    return f"{row.part}, {row.what}: {row.ms:.3f} ms a run-step{times}"


def _cells(row: Row) -> list[str]:
    if row.skipped:
        return [row.part, row.what, "", f"skipped: {row.skipped}", *[""] * 6]
    return [
        row.part,
        row.what,
        str(row.at_once),
        _number(row.ms),
        f"{_number(row.low)} … {_number(row.high)}",
        f"{row.rate:,.0f}",
        "" if row.ratio is None else f"{row.ratio:.1f}",
        _number(row.host_ms),
        "" if row.gib is None else f"{row.gib:.1f}",
        f"{row.rounds} × {row.steps}",
    ]


def _shares(report: Report) -> list[list[str]]:
    whole = sum(share.ms for share in report.shares)
    rows = [[one.what, f"{one.ms:.3f}", f"{one.ms / whole:.0%}", f"{one.launches:.1f}"] for one in report.shares]
    return [*rows, ["all", f"{whole:.3f}", "100%", f"{sum(one.launches for one in report.shares):.1f}"]]


def _figures(report: Report) -> Iterator[str]:
    return (_figure(figure) for figure in report.figures)


def _figure(figure: Figure) -> str:
    if figure.skipped:
        return f"{figure.what}: skipped, {figure.skipped}."
    return f"{figure.what}: {_number(figure.value)} {figure.unit}".rstrip() + "."


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _markdown(headings: tuple[str, ...], rows: list[list[str]], left: int) -> list[str]:
    rule = "|".join(["---"] * left + ["--:"] * (len(headings) - left))
    # A bar within a cell would end it.
    return [f"| {' | '.join(headings)} |", f"|{rule}|"] + [
        f"| {' | '.join(re.sub('[|]', '/', cell) for cell in row)} |" for row in rows
    ]
