"""What came out of a study: its figures and contrasts, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev

from reprise.lab.contrast import SeedContrast
from reprise.lab.distributions import t_quantile
from reprise.lab.doubts import making_doubts, pairing_doubts
from reprise.lab.figure import ContrastFigure, Figure, agrees, judge, standard_error
from reprise.lab.spread import Spread, spreads
from reprise.lab.statistics import contrast, holm_by_family
from reprise.lab.study import Cell, Column, TheoryFigure
from reprise.lab.study_plan import StudyPlan
from reprise.lab.study_runs import StudyRuns, TestRuns
from reprise.lab.verdict import verdict


@dataclass(frozen=True, eq=False)
class StudyOutcome:
    """A study's figures and contrasts, those judged and those that are not."""

    plan: StudyPlan
    runs: StudyRuns
    figures: tuple[Figure, ...]
    beside: tuple[Figure, ...]
    """Figures stated beside the theory."""
    contrasts: tuple[ContrastFigure, ...]
    spreads: tuple[Spread, ...]
    """Standard deviations that the paper prints, too."""
    doubts: tuple[str, ...]
    """Sentences: what makes pairs doubtful, as far as records tell."""

    @property
    def judged(self) -> list[Figure | ContrastFigure | Spread]:
        every: list[Figure | ContrastFigure | Spread] = [*self.figures, *self.contrasts, *self.spreads]
        return [figure for figure in every if figure.within is not None]

    @property
    def outside(self) -> list[Figure | ContrastFigure | Spread]:
        return [figure for figure in self.judged if not figure.within]

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """The versions of this library that made the records."""
        return tuple(self.runs.provenance("reprise"))

    @property
    def verdict(self) -> str:
        """What was found, then how it stands beside the paper: two sentences."""
        return verdict(self)


def outcome(plan: StudyPlan, runs: StudyRuns) -> StudyOutcome:
    """Work out a study's figures and contrasts. The paper's stand beside those of test runs in the full form alone."""
    paper = isinstance(runs, TestRuns) and not plan.small
    study = plan.study
    figures = [
        _figure(plan, runs, cell, arm, column, paper)
        for cell in runs.cells
        for arm in runs.arms
        for column in study.columns
        if column.holds(arm)
    ]
    beside = [_beside(plan, runs, cell, one, paper) for cell in runs.cells for one in study.beside]
    asked = study.form_contrasts(small=plan.small)
    if not paper:
        asked = [replace(one, paper={}) for one in asked]
    contrasts = _adjusted([_contrast(plan, runs, one) for one in asked])
    spread = spreads(study, figures, contrasts) if paper else ()
    told = tuple(_doubts(runs, asked))
    return StudyOutcome(plan, runs, tuple(figures), tuple(beside), tuple(contrasts), spread, told)


def _doubts(runs: StudyRuns, contrasts: Sequence[SeedContrast]) -> Iterator[str]:
    """What can be said against pairing runs by seed, in cells and across them; what all cells share is said once."""
    cells = [cell.name for cell in runs.cells]
    said: dict[str, list[str]] = {}
    for cell in cells:
        for sentence in pairing_doubts({arm: runs.group(cell, arm) for arm in runs.arms}):
            said.setdefault(sentence, []).append(cell)
    for sentence, where in said.items():
        yield sentence if len(where) == len(cells) else f"In {', '.join(where)}: {sentence}"
    known = {sentence.partition(":")[0] for sentence in said}
    for sentence in _across(runs, contrasts):
        if sentence.partition(":")[0] not in known:
            yield sentence
    if runs.missing:
        cell, arm, seed = runs.missing[0]
        many = "1 run is" if len(runs.missing) == 1 else f"{len(runs.missing)} runs are"
        yield f"{many} not there; the first is {arm} in {cell} with seed {seed}."


def _across(runs: StudyRuns, contrasts: Sequence[SeedContrast]) -> list[str]:
    """How runs of cells that are set against each other were made, where that differs."""
    together = dict.fromkeys(tuple(dict.fromkeys(term.cell for term in one.terms)) for one in contrasts)
    found: dict[str, None] = {}
    for cells in together:
        groups = {cell: [one for arm in runs.arms for one in runs.group(cell, arm).records.values()] for cell in cells}
        found |= dict.fromkeys(making_doubts(groups) if len(cells) > 1 else ())
    return list(found)


def _mean(plan: StudyPlan, runs: StudyRuns, cell: str, arm: str, key: str, *, whole: bool) -> Figure:
    found = runs.values(cell, arm, key)
    lacking = [seed for seed, value in found.items() if value is None]
    if lacking and whole:
        raise ValueError(
            f"{cell} is too short for {key!r}: nothing defines it in the run of {arm} with seed {lacking[0]}"
        )
    first = [value for seed, value in found.items() if value is not None and seed < plan.seeds]
    every = [value for value in found.values() if value is not None]
    spread = _spread(plan, found)
    sd = stdev(spread) if spread else None
    if not first:
        return Figure(cell, arm, key, None, None, 0.0, 0.0, 0, None, None)
    ours, low, high = fmean(first), None, None
    if len(first) > 1:
        half = t_quantile(0.975, len(first) - 1) * stdev(first) / len(first) ** 0.5
        low, high = ours - half, ours + half
    return Figure(cell, arm, key, ours, sd, min(every), max(every), len(first), low, high, spread_n=len(spread))


def _spread(plan: StudyPlan, values: Mapping[int, float | None]) -> list[float]:
    """The values that the standard deviation is taken from; empty where there are fewer than two."""
    found = [value for seed, value in values.items() if value is not None and seed < plan.error_seeds]
    return found if len(found) > 1 else []


def _figure(plan: StudyPlan, runs: StudyRuns, cell: Cell, arm: str, column: Column, paper: bool) -> Figure:
    figure = _mean(plan, runs, cell.name, arm, column.key, whole=not column.open)
    printed = column.paper.find(cell.facts, arm) if paper and column.paper is not None else None
    if printed is None or figure.ours is None:
        return figure
    # Of one run nobody can say how far off it may be.
    error = None if figure.sd is None else standard_error(figure.sd, figure.n, plan.study.paper_runs)
    figure = replace(figure, paper=printed, error=error)
    if column.bound is not None:
        bound = column.bound(cell)
        return replace(figure, rule="bound", within=figure.highest == bound == float(printed))
    if column.zero and float(printed) == 0:
        return replace(figure, rule="zero", within=figure.lowest == figure.highest == 0)
    assert figure.ours is not None
    if error is None:
        return figure
    return replace(figure, rule="errors", within=agrees(figure.ours, printed, error))


def _beside(plan: StudyPlan, runs: StudyRuns, cell: Cell, one: TheoryFigure, paper: bool) -> Figure:
    figure = _mean(plan, runs, cell.name, one.arm, one.key, whole=True)
    printed = one.paper.find(cell.facts, "" if "/" in one.arm else one.arm) if paper and one.paper else None
    return replace(figure, paper=printed, theory=one.theory(cell), theory_name=one.theory_name)


def _contrast(plan: StudyPlan, runs: StudyRuns, asked: SeedContrast) -> ContrastFigure:
    terms = []
    for term in asked.terms:
        values = runs.values(term.cell, term.arm, term.key)
        terms.append((term.weight, {seed: value for seed, value in values.items() if seed < plan.seeds}))
    try:
        found = contrast(terms, names=[f"{term.arm} in {term.cell}" for term in asked.terms])
    except ValueError as error:
        return ContrastFigure(asked, None, str(error))
    rule, within = judge(asked, found, plan.study.paper_runs)
    return ContrastFigure(asked, found, "", None, rule, within)


def _adjusted(contrasts: list[ContrastFigure]) -> list[ContrastFigure]:
    """Each with Holm's p; a family that lacks a contrast has none, for it would be too small."""
    lacking = {one.contrast.family for one in contrasts if one.found is None}
    families = [one.contrast.family if one.contrast.family not in lacking else None for one in contrasts]
    adjusted = holm_by_family(
        [family or None for family in families], [None if one.found is None else one.found.p for one in contrasts]
    )
    return [replace(one, holm=p) for one, p in zip(contrasts, adjusted, strict=True)]
