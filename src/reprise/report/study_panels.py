"""The pictures of a study's page: contrasts, figures, how long classes waited, learning curves."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reprise.lab.distributions import t_factor
from reprise.lab.figure import ContrastFigure, Figure
from reprise.lab.outcome import StudyOutcome
from reprise.lab.run_group import RunGroup
from reprise.lab.verdict import unit_of
from reprise.report.colours import COLOURS
from reprise.report.render import Markup
from reprise.report.study_tables import agreement, contrast_digits, interval, number, ours, paper_interval, plus
from reprise.report.study_words import head
from reprise.report.svg import Chart, Interval, Line, Row, intervals

Floats = NDArray[np.float64]
_POINTS = 60  # of a line along gaps


def styles(outcome: StudyOutcome) -> dict[str, str]:
    """The colour of every arm, the same in all pictures."""
    return {arm: f"c{place % len(COLOURS)}" for place, arm in enumerate(outcome.runs.arms)}


def contrast_panel(contrasts: Sequence[ContrastFigure]) -> Markup | None:
    """The contrasts of one name: ours, and the paper's where it prints it."""
    rows = []
    for one in contrasts:
        lines = []
        if one.found is not None:
            found, digits = one.found, contrast_digits(one)
            said = (
                f"{one.contrast.label}, {one.contrast.name}\nours {number(found.mean, digits, sign=True)}\n"
                f"95% interval {interval(found.low, found.high, digits, sign=True)}, {found.n} seeds"
            )
            said += f"\nbeside the paper's: {agreement(one)}" if one.within is not None else ""
            style = "bad" if one.within is False else "c0"
            lines.append(("ours", (Interval(found.mean, said, found.low, found.high, style),)))
        if one.paper is not None:
            low, high = one.contrast.paper.get("low"), one.contrast.paper.get("high")
            said = f"{one.contrast.label}, {one.contrast.name}\nthe paper's {plus(one.paper)}"
            said += f"\n95% interval {paper_interval(one)}" if low and high else ""
            low_end, high_end = (float(low), float(high)) if low and high else (None, None)
            lines.append(("paper", (Interval(float(one.paper), said, low_end, high_end, "paper"),)))
        if lines:
            rows.append(Row(one.contrast.label, tuple(lines)))
    if not rows:
        return None
    first = contrasts[0].contrast
    unit = "percentage points" if unit_of(first.key) else head(first.key)
    return intervals(rows, f"Contrast {first.name}, by cell", zero=True, unit=unit)


def figure_panel(figures: Sequence[Figure], style: Mapping[str, str]) -> Markup | None:
    """One figure in every cell, a line for each arm: ours with its interval, and the paper's as a diamond."""
    rows: dict[str, list[tuple[str, tuple[Interval, ...]]]] = {}
    for one in figures:
        if one.ours is None:
            continue
        name = f"{one.cell}, {one.arm}, {head(one.key)}"
        said = f"{name}\nours {ours(one)}, {one.n} run{'s' * (one.n != 1)}"
        said += f"\n95% interval {interval(one.low, one.high, one.digits)}" if one.low is not None else ""
        marks = [Interval(one.ours, said, one.low, one.high, style[one.arm])]
        if one.paper is not None:
            said = f"{name}\nthe paper's {one.paper}\n{agreement(one)}"
            marks.append(Interval(float(one.paper), said.rstrip(), style="paper"))
        rows.setdefault(one.cell, []).append((one.arm, tuple(marks)))
    if not rows:
        return None
    return intervals([Row(cell, tuple(lines)) for cell, lines in rows.items()], f"{head(figures[0].key)}, by cell")


def wait_panel(title: str, groups: Mapping[str, RunGroup], style: Mapping[str, str]) -> Markup | None:
    """The share of gaps of g steps or more under each arm of a cell, and the bounds that are proved."""
    tails = {arm: group.tail for arm, group in groups.items() if group.records and len(group.tail)}
    if not tails:
        return None
    farthest = max(map(len, tails.values()))
    places = np.unique(np.linspace(1, farthest, min(farthest, _POINTS)).round().astype(int))
    lines = []
    for arm, tail in tails.items():
        own = np.append(places[places < len(tail)], len(tail))
        lines.append(Line(arm, style[arm], own.tolist(), tail[own - 1].tolist()))
    proved = {arm: groups[arm].bound for arm in tails}
    bounds: dict[int, list[str]] = {}
    for arm, bound in proved.items():
        if bound is not None and bound <= 1.5 * farthest + 10:
            bounds.setdefault(bound, []).append(arm)
    stops = [(float(g), _waits(int(g), tails, proved)) for g in places[:: -(-len(places) // 30)]]
    drawn = [(float(at), f"bound {at}", style[names[0]] if len(names) == 1 else "") for at, names in bounds.items()]
    return Chart(title, lines, stops, "g, steps", "gaps of g steps or more", log=True, bounds=drawn).svg()


def _waits(g: int, tails: Mapping[str, Floats], proved: Mapping[str, int | None]) -> str:
    said = [f"gaps of {g} steps or more"]
    for arm, tail in tails.items():
        share = f"{100 * float(tail[g - 1]):.3g}%" if g <= len(tail) else "none"
        bound = "" if proved[arm] is None else f", bound {proved[arm]}"
        said.append(f"{arm}: {share} (longest {len(tail)}{bound})")
    return "\n".join(said)


def curve_panel(title: str, groups: Mapping[str, RunGroup], style: Mapping[str, str]) -> Markup | None:
    """Accuracy on the tasks so far at each task boundary: the mean over seeds, and its 95% interval."""
    lines: list[Line] = []
    said: dict[int, list[str]] = {}
    for arm, group in groups.items():
        if not (runs := tested(group)).records:
            continue
        mean, half, tasks = mean_curve(runs)
        lines.append(Line(arm, style[arm], tasks, mean.tolist(), (mean - half).tolist(), (mean + half).tolist()))
        for task, value, much in zip(tasks, mean, half, strict=True):
            said.setdefault(task, []).append(f"{arm}: {value:.2f}%" + (f" ± {much:.2f}" if much else ""))
    if not lines:
        return None
    stops = [(float(task), "\n".join([f"after task {task}", *words])) for task, words in sorted(said.items())]
    return Chart(title, lines, stops, "tasks learned", "accuracy so far, %, EMA").svg()


def tested(group: RunGroup) -> RunGroup:
    """Those of its runs that say how they were tested as they learned; of many, a report reads this of the first."""
    return RunGroup(group.name, {seed: one for seed, one in group.records.items() if "evaluations" in one})


def mean_curve(group: RunGroup) -> tuple[Floats, Floats, list[int]]:
    """In per cent, the mean over seeds and half its interval, at each task that any seed has."""
    rows = 100 * group.learning_curves()
    known = ~np.isnan(rows).all(axis=0)
    count = (~np.isnan(rows)).sum(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of tasks that one seed has, or none
        sd = np.nanstd(rows, axis=0, ddof=1)
        mean = np.nanmean(rows, axis=0)
    factor = np.array([t_factor(0.95, int(n)) if n > 1 else 0.0 for n in count])
    half = np.where(count > 1, factor * np.nan_to_num(sd) / np.sqrt(np.maximum(count, 1)), 0.0)
    return mean[known], half[known], [1 + int(place) for place in np.flatnonzero(known)]
