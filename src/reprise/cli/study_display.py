"""Studies on a terminal: their figures, their contrasts, and how far campaigns have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from reprise.lab.figure import ContrastFigure, Figure
from reprise.lab.verdict import signed
from reprise.report.study_tables import NOTHING, beside_row, difference, ours
from reprise.report.study_words import short_head as head

if TYPE_CHECKING:
    from rich.console import Console

    from reprise.lab.outcome import StudyOutcome
    from reprise.lab.status import CampaignStatus


def table_of(*words: str, **rest: str) -> Table:
    """A table without lines: columns of words, then others with the side they are aligned to."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in words:
        table.add_column(name, overflow="fold", no_wrap=name != "table")
    for name, side in rest.items():
        table.add_column(
            name.replace("_", " "), justify="right" if side == "right" else "left", overflow="fold", no_wrap=True
        )
    return table


def fitting(widths: Mapping[str, int], room: int) -> list[list[str]]:
    """Columns in groups that fit side by side, two characters apart, so that no figure is cut off.

    >>> fitting({"mean": 5, "p99": 5, "max": 5}, 14)
    [['mean', 'p99'], ['max']]
    """
    groups: list[list[str]] = []
    left = -1
    for name, width in widths.items():
        left -= width + 2
        if left < 0:
            groups.append([])
            left = room - width - 2
        groups[-1].append(name)
    return groups


def print_outcome(outcome: StudyOutcome, console: Console) -> None:
    """Everything a study found, for a terminal."""
    study, small = outcome.plan.study, outcome.plan.small
    keys = list(dict.fromkeys(column.key for column in study.columns))
    console.print(Text(f"{study.name}: {study.table}", style="bold"))
    first = max(map(len, outcome.runs.arms))
    widths = {}  # as wide in every table, so that they stand in line
    for key in keys:
        shown = [text for one in outcome.figures if one.key == key for text in (ours(one), difference(one))]
        widths[key] = max(map(len, [*shown, *head(key).split()]), default=0)
    for cell, group in groupby(outcome.figures, key=attrgetter("cell")):
        found = list(group)
        console.print(Text(f"\n{cell}", style="bold cyan"))
        for some in fitting(widths, console.width - first - len("paper") - 4):
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
            table.add_column(min_width=first)
            table.add_column(style="dim", min_width=len("paper"))
            for key in some:
                table.add_column(head(key), justify="right", min_width=widths[key])
            for arm in outcome.runs.arms:
                by_key = {one.key: one for one in found if one.arm == arm}
                for name, cells in _lines([by_key.get(key) for key in some], small=small):
                    table.add_row(arm if name == "ours" else "", name, *cells)
            console.print(table)
    if outcome.contrasts:
        console.print(Text("\nContrasts, seed by seed", style="bold"))
        console.print(_contrasts(outcome.contrasts))
    if outcome.beside:
        console.print(Text("\nBeside the theory, not judged", style="bold"))
        beside = table_of("cell", "retrieval", "figure", ours="right", range="right", paper="right", theory="right")
        for figure in outcome.beside:
            beside.add_row(*beside_row(figure)[:-1])
        console.print(beside)
    for doubt in outcome.doubts:
        console.print(Text(f"Doubtful: {doubt}", style="bold red"), soft_wrap=True)
    style = "bold" if small or not outcome.judged else "bold red" if outcome.outside else "bold green"
    console.print(Text(f"\n{outcome.verdict}", style=style), soft_wrap=True)


def _lines(figures: Sequence[Figure | None], *, small: bool) -> list[tuple[str, list[Text]]]:
    """The lines of one arm: ours, then what is beside it."""
    mine = [Text() if figure is None else Text(ours(figure)) for figure in figures]
    if small or all(one is None or one.paper is None for one in figures):
        return [("ours", mine), ("sd", [Text("" if one is None else _deviation(one)) for one in figures])]
    theirs = [Text() if one is None else Text(one.paper or NOTHING) for one in figures]
    apart = [
        Text() if one is None else Text(difference(one), style="bold red" if one.within is False else "cyan")
        for one in figures
    ]
    return [("ours", mine), ("paper", theirs), ("in se", apart)]


def _deviation(figure: Figure) -> str:
    return NOTHING if figure.sd is None else f"{figure.sd:.2g}"


def _contrasts(contrasts: Sequence[ContrastFigure]) -> Table:
    paper = any(one.paper for one in contrasts)
    families = any(one.holm is not None for one in contrasts)
    words = {"mean": "right", "95%_interval": "right", "p": "right", "Holm": "right", "above_0": "right"}
    if not families:
        del words["Holm"]
    table = table_of("contrast", "cell", **words, **({"paper": "right", "agrees": "left"} if paper else {}))
    for column in table.columns[:2]:
        column.no_wrap = False
    for one in contrasts:
        found, contrast = one.found, one.contrast
        if found is None:
            cells = [NOTHING, one.why, *[""] * (len(words) - 2)]
        else:
            ends = found.low, found.high
            interval = f"{signed(found.low, *ends)} to {signed(found.high, *ends)}"
            holm = [] if not families else ["" if one.holm is None else f"{one.holm:.2g}"]
            cells = [signed(found.mean, *ends), interval, f"{found.p:.2g}", *holm, f"{found.positive}/{found.n}"]
        if paper:
            agrees = "" if one.within is None else "yes" if one.within else "no"
            cells += [one.paper or "", agrees]
        style = "bold red" if one.within is False else ""
        table.add_row(contrast.name, contrast.label, *cells, style=style)
    return table


def status_table(statuses: Sequence[CampaignStatus]) -> Table:
    """How far campaigns have come: a line for each cell and arm of one, or for each of several."""
    if len(statuses) == 1:
        table = table_of("cell", "retrieval", done="right", under_way="right", failed="right", of="right")
        for arm in statuses[0].arms:
            numbers = [str(value or NOTHING) for value in (arm.done, arm.under_way, arm.failed)]
            table.add_row(arm.cell, arm.arm, *numbers, str(arm.total), style="dim" if arm.done == arm.total else "")
        return table
    table = table_of("campaign", "state", done="right", under_way="right", failed="right", of="right", left="right")
    for one in statuses:
        numbers = [str(value or NOTHING) for value in (one.done, one.under_way, one.failed)]
        left = NOTHING if one.left is None else spoken(one.left)
        table.add_row(one.file.name, one.state, *numbers, str(one.total), left)
    return table


def status_sentence(status: CampaignStatus) -> str:
    """How far a campaign has come, in a sentence."""
    said = f"{status.file.name}: {status.state}, {status.done} of {status.total} runs have ended"
    if status.failed:
        said += f", {status.failed} failed"
    if status.under_way:
        said += f", {status.under_way} {'is' if status.under_way == 1 else 'are'} under way"
        said += f" by {len(status.workers)} commands" if len(status.workers) > 1 else ""
    if status.rate is not None and status.done < status.total:
        said += f"; {status.rate:.3g} runs a minute"
        said += f", about {spoken(status.left)} left" if status.left is not None else ""
    return f"{said}."


def spoken(seconds: float) -> str:
    """A time as one says it.

    >>> spoken(8), spoken(200), spoken(5000), spoken(200000)
    ('8 s', '3 min 20 s', '1 h 23 min', '2 d 7 h')
    """
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
