"""The runs behind a study's figures, listed cell by cell, and the anchors that figures lead to."""

from __future__ import annotations

from dataclasses import dataclass

from reprise.core.files import Record
from reprise.lab.outcome import StudyOutcome
from reprise.lab.study import figure_of
from reprise.lab.table import seconds
from reprise.report.html_table import TableCell, html_table
from reprise.report.render import Markup
from reprise.report.study_tables import number
from reprise.report.study_words import short_head


class Anchors:
    """Where the runs of a cell and an arm stand on a page."""

    def __init__(self, outcome: StudyOutcome) -> None:
        self.groups = outcome.runs.groups
        self.cells = {cell.name: place for place, cell in enumerate(outcome.runs.cells)}
        self.arms = {arm: place for place, arm in enumerate(outcome.runs.arms)}

    def cell(self, cell: str) -> str:
        return f"runs-{self.cells[cell]}"

    def of(self, cell: str, arm: str) -> str:
        """The id of the first run of an arm in a cell; of the cell's list if the arm has none."""
        there = (cell, arm) in self.groups and self.groups[cell, arm].records
        return f"{self.cell(cell)}-{self.arms[arm]}" if there else self.cell(cell)

    def link(self, cell: str, arm: str) -> str:
        return f"#{self.of(cell, arm)}"


@dataclass(frozen=True)
class RunList:
    """The runs of a cell."""

    anchor: str
    cell: str
    count: int
    table: Markup


def run_lists(outcome: StudyOutcome, anchors: Anchors) -> list[RunList]:
    """The runs of every cell."""
    return [_list(outcome, anchors, cell.name) for cell in outcome.runs.cells]


def _list(outcome: StudyOutcome, anchors: Anchors, cell: str) -> RunList:
    keys = list(dict.fromkeys(column.key for column in outcome.plan.study.columns))
    rows: list[list[TableCell | str]] = []
    ids: dict[int, str] = {}
    for arm in outcome.runs.arms:
        for seed, record in sorted(outcome.runs.group(cell, arm).records.items()):
            if (anchor := anchors.of(cell, arm)) not in ids.values():
                ids[len(rows)] = anchor
            rows.append(_row(arm, seed, record, keys))
    heads = ["arm", "seed", *map(short_head, keys), "identity", "tape", "seconds"]
    table = html_table(heads, rows, f"Runs of {cell}", anchors=ids, filtered=len(rows) > 1, kind="runs")
    return RunList(anchors.cell(cell), cell, len(rows), table)


def _row(arm: str, seed: int, record: Record, keys: list[str]) -> list[TableCell | str]:
    return [
        arm,
        str(seed),
        *(_figure(figure_of(record, key)) for key in keys),
        TableCell(record["identity"], style="code"),
        TableCell(str(record["tape"])[:12], style="code"),
        f"{seconds(record):.1f}",
    ]


def _figure(value: float | None) -> str:
    return number(value, 0 if value == int(value) else 3) if value is not None else number(None, 0)
