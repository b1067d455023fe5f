"""Standard deviations beside printed ones: between the runs of an arm, and between the seeds of a contrast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reprise.lab.distributions import deviation_interval
from reprise.lab.figure import ContrastFigure, Figure
from reprise.lab.printed import half_unit
from reprise.lab.study import Study


@dataclass(frozen=True)
class Spread:
    """A standard deviation of ours, and the paper's."""

    cell: str
    """The cell, or what the cells of a contrast have in common."""
    arm: str
    """The arm, or the contrast."""
    key: str
    ours: float
    n: int
    """Runs that it is of."""
    low: float
    """The 95% interval of ours, by χ²."""
    high: float
    paper: str
    """As the paper prints it."""
    within: bool
    """Whether its interval and that of the paper's overlap."""


def spreads(study: Study, figures: Sequence[Figure], contrasts: Sequence[ContrastFigure]) -> tuple[Spread, ...]:
    """All standard deviations that the paper prints and that are here, too."""
    return (*_of_figures(study, figures), *_of_contrasts(study, contrasts))


def _of_figures(study: Study, figures: Sequence[Figure]) -> Iterator[Spread]:
    facts = {cell.name: cell.facts for cell in study.cells}
    printed = {column.key: column.spread for column in study.columns if column.spread is not None}
    for one in figures:
        if one.key in printed and one.sd is not None and (paper := printed[one.key].find(facts[one.cell], one.arm)):
            yield _spread(one.cell, one.arm, one.key, one.sd, one.spread_n, paper, study.paper_runs)


def _of_contrasts(study: Study, contrasts: Sequence[ContrastFigure]) -> Iterator[Spread]:
    for one in contrasts:
        asked, found = one.contrast, one.found
        if found is not None and (paper := asked.paper.get("sd")):
            yield _spread(asked.label, asked.name, asked.key, found.sd, found.n, paper, study.paper_runs)


def _spread(cell: str, arm: str, key: str, sd: float, n: int, paper: str, theirs: int) -> Spread:
    low, high = deviation_interval(sd, n)
    value, half = float(paper), half_unit(paper)
    least, _ = deviation_interval(max(0.0, value - half), theirs)
    _, most = deviation_interval(value + half, theirs)
    return Spread(cell, arm, key, sd, n, low, high, paper, low <= most and high >= least)
