"""Figures that a paper prints: rows of its tables, found by the facts of a cell. They stay text, for their digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Row = Mapping[str, str]
Rows = tuple[Row, ...]


@dataclass(frozen=True)
class Printed:
    """A column of a printed table.

    A row is a cell's if it says of the cell what its facts say, wherever both say something, and if it is one of
    those that `where` names; of an arm, if its column `retrieval` is the arm. The column's name may hold `{arm}`.
    """

    rows: Rows = field(repr=False)
    column: str
    where: Mapping[str, str] = field(default_factory=dict, hash=False)

    def find(self, facts: Mapping[str, str], arm: str = "") -> str | None:
        """What is printed for a cell and an arm; None where nothing is."""
        row = find_row(self.rows, facts, self.where, arm)
        return None if row is None else row.get(self.column.format(arm=arm)) or None


@dataclass(frozen=True)
class PrintedContrast:
    """Where contrasts are printed: the rows, and which column holds what."""

    rows: Rows = field(repr=False)
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    columns: Mapping[str, str] = field(
        default_factory=lambda: {"mean": "delta", "low": "ci_lo", "high": "ci_hi", "relative": "rel_pct"}, hash=False
    )

    def find(self, facts: Mapping[str, str]) -> dict[str, str]:
        """What is printed of a contrast: `mean`, `low`, `high`, `relative`, `sd`, `t`, `p`, `holm`, `positive`."""
        row = find_row(self.rows, facts, self.where)
        return {} if row is None else {name: row[column] for name, column in self.columns.items() if row.get(column)}


def find_row(rows: Sequence[Row], facts: Mapping[str, str], where: Mapping[str, str], arm: str = "") -> Row | None:
    """The row of a cell, or None; that two rows fit is a mistake in the study."""
    asked = {**facts, **({"retrieval": arm} if arm else {}), **where}
    found = [row for row in rows if all(row.get(name) == value for name, value in where.items()) and _fits(row, asked)]
    if len(found) > 1:
        raise ValueError(f"{len(found)} printed rows fit {asked}, name what tells them apart")
    return found[0] if found else None


def _fits(row: Row, facts: Mapping[str, str]) -> bool:
    return all(row.get(name, "") in ("", value) for name, value in facts.items())
