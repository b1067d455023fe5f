"""Ours beside the paper's: how far apart two means are, in standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import sqrt
from statistics import fmean, stdev

from reprise.core.files import Record
from reprise.lab.study import Cell, Column, TheoryFigure, figure_of
from reprise.lab.study_plan import StudyPlan
from reprise.studies.paper_figures import Printed, paper_figures

LIMIT = 3  # standard errors
_TINY = 1e-9  # so that a difference of exactly half a digit is not lost to binary fractions


def standard_error(sd: float, ours: int, theirs: int) -> float:
    """The standard error of the difference of two means, over `ours` runs and over `theirs`.

    >>> round(standard_error(2.0, 10, 10), 4)
    0.8944
    """
    return sd * sqrt(1 / ours + 1 / theirs)


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit: how far rounding may have moved a figure.

    >>> half_unit("6.63"), half_unit("427.4"), half_unit("9")
    (0.005, 0.05, 0.5)
    """
    return float(Decimal((0, (5,), int(Decimal(printed).as_tuple().exponent) - 1)))


@dataclass(frozen=True)
class Figure:
    """One cell of a study's table: our figure, and the paper's beside it."""

    setting: str
    arm: str
    key: str
    ours: float
    """Mean over the first seeds."""
    sd: float
    """Standard deviation between runs."""
    lowest: float
    highest: float
    """The extremes over all runs."""
    paper: str | None = None
    """As the paper prints it; None where it prints nothing, or where nothing can be compared."""
    error: float | None = None
    """The standard error of the difference."""
    rule: str = ""
    """How it is judged: `errors`, `zero` or `bound`; empty where it is not."""
    within: bool | None = None
    theory: float | None = None
    theory_name: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in standard errors; None where runs do not differ or the paper has no figure."""
        if self.paper is None or not self.error:
            return None
        return (self.ours - float(self.paper)) / self.error

    @property
    def digits(self) -> int:
        """Digits after the point that show our figure one digit finer than the paper's."""
        if self.paper is None:
            size = abs(self.ours)
            return 2 if size >= 10 else 3 if size >= 0.1 or not size else 5
        return 0 if self.rule == "zero" else 1 - int(Decimal(self.paper).as_tuple().exponent)


@dataclass(frozen=True)
class Comparison:
    """A campaign's figures, those judged and those stated beside the theory."""

    campaign: StudyPlan
    figures: tuple[Figure, ...]
    beside: tuple[Figure, ...]
    versions: tuple[str, ...]
    """The versions of this library that made the records."""

    @property
    def judged(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.within is not None]

    @property
    def outside(self) -> list[Figure]:
        return [figure for figure in self.judged if not figure.within]

    @property
    def verdict(self) -> str:
        """How many cells agree, in a sentence."""
        if self.campaign.small:
            return "Small form: not comparable with the paper, so nothing is judged"
        total = len(self.judged)
        if not total:
            return "A study of our own: there is no figure of the paper to stand beside it"
        verdict = f"{total - len(self.outside)} of {total} cells within three standard errors"
        if self.outside:
            verdict += "; outside: " + ", ".join(f"{one.setting} {one.arm} {one.key}" for one in self.outside)
        return verdict


def compare(campaign: StudyPlan, records: Sequence[Record]) -> Comparison:
    """Put a campaign's records beside the paper's figures."""
    study = campaign.study
    printed = {} if campaign.small else paper_figures(study)
    settings = study.small if campaign.small else study.cells
    runs = _Runs(campaign, records)
    figures = [
        _compared(runs, setting, arm, column, printed)
        for setting in settings
        for arm in study.arms
        for column in study.columns
        if column.holds(arm)
    ]
    beside = [_stated(runs, setting, one, printed) for setting in settings for one in study.beside]
    versions = sorted({record["provenance"]["reprise"] for record in records})
    return Comparison(campaign, tuple(figures), tuple(beside), tuple(versions))


class _Runs:
    """A campaign's figures by setting and arm, seed after seed."""

    def __init__(self, campaign: StudyPlan, records: Sequence[Record]) -> None:
        self.campaign = campaign
        self.records = dict(zip(campaign.runs, records, strict=True))

    def values(self, setting: Cell, arm: str, key: str) -> list[float]:
        seeds = range(max(self.campaign.seeds, self.campaign.error_seeds))
        if "/" in arm:
            above, below = (self.values(setting, one, key) for one in arm.split("/"))
            return [one / other for one, other in zip(above, below, strict=True)]
        found = [figure_of(self.records[setting.run(arm, seed)], key) for seed in seeds]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            seed = found.index(None)
            raise ValueError(
                f"{setting.name} is too short for {key!r}: nothing defines it in the run of {arm} with seed {seed}"
            )
        return values

    def figure(self, setting: Cell, arm: str, key: str, paper: str | None) -> Figure:
        values = self.values(setting, arm, key)
        seeds, error_seeds = self.campaign.seeds, self.campaign.error_seeds
        sd = stdev(values[:error_seeds])
        error = None if paper is None else standard_error(sd, seeds, self.campaign.study.paper_runs)
        return Figure(
            setting.name, arm, key, fmean(values[:seeds]), sd, min(values), max(values), paper=paper, error=error
        )


def _compared(runs: _Runs, setting: Cell, arm: str, column: Column, printed: Printed) -> Figure:
    figure = runs.figure(setting, arm, column.key, printed.get((setting.name, arm, column.key)))
    if figure.paper is None:
        return figure
    if column.bound is not None:
        bound = column.bound(setting)
        return _judged(figure, "bound", figure.highest == bound == float(figure.paper))
    if column.zero and float(figure.paper) == 0:
        return _judged(figure, "zero", figure.lowest == figure.highest == 0)
    return _judged(figure, "errors", agrees(figure.ours, figure.paper, figure.error or 0.0))


def agrees(ours: float, paper: str, error: float) -> bool:
    """Whether two means differ by at most three standard errors and the rounding of the printed one.

    >>> agrees(10.2, "9.9", 0.1), agrees(10.3, "9.9", 0.1)
    (True, False)
    """
    return abs(ours - float(paper)) <= LIMIT * error + half_unit(paper) + _TINY


def _judged(figure: Figure, rule: str, within: bool) -> Figure:
    return replace(figure, rule=rule, within=within)


def _stated(runs: _Runs, setting: Cell, one: TheoryFigure, printed: Printed) -> Figure:
    figure = runs.figure(setting, one.arm, one.key, printed.get((setting.name, one.arm, one.key)))
    return replace(figure, theory=one.theory(setting), theory_name=one.theory_name)


def rules(campaign: StudyPlan) -> list[str]:
    """How figures are compared, in sentences."""
    study, seeds = campaign.study, campaign.seeds
    theirs = (
        "the one run that the paper seems to report" if study.paper_runs == 1 else f"the paper's {study.paper_runs}"
    )
    said = [
        f"Ours is the mean over seeds 0 to {seeds - 1}; the standard deviation (sd) is that of "
        f"{campaign.error_seeds} seeds.",
    ]
    if campaign.small:
        return said
    said.append(
        f"A standard error is sd·√(1/{seeds} + 1/{study.paper_runs}), for {seeds} runs of ours and {theirs}. A cell is "
        f"within if the difference is at most {LIMIT} standard errors plus half a unit of the paper's last printed "
        "digit, which is its rounding."
    )
    if any(column.zero for column in study.columns):
        said.append("Where the paper prints 0 violations, every run of ours must have exactly 0.")
    if any(column.bound for column in study.columns):
        said.append("The longest gap of rpr must reach its proven bound and never pass it.")
    said.append("A dash in place of a difference: all runs give the same figure.")
    return said
