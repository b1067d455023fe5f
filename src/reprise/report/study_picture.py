"""A campaign as a picture file: contrasts and figures with their intervals, how long classes waited, learning curves.

Needs matplotlib, which comes with the extra `plot`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from reprise.lab.figure import ContrastFigure, Figure
from reprise.lab.outcome import StudyOutcome
from reprise.lab.verdict import unit_of
from reprise.report.colours import COLOURS, INK, MUTED
from reprise.report.drawing import Sheet, file_of, house_style, percent, without_frame
from reprise.report.study_panels import mean_curve, tested
from reprise.report.study_words import head

Draw = Callable[[Axes], None]

_WIDTH, _LEFT, _TOP, _BOTTOM, _RIGHT = 3.1, 1.95, 0.45, 0.5, 0.2  # inches
_LINE = 0.17  # height of a line of intervals
_PER_LINE = 3
_MOST = 12  # panels


def save(outcome: StudyOutcome, kinds: Sequence[str]) -> list[bytes]:
    """The picture as the bytes of files, `png` or `svg`."""
    panels = _panels(outcome)[:_MOST]
    columns = min(_PER_LINE, len(panels)) or 1
    title = textwrap.wrap(f"{outcome.plan.name}: {outcome.verdict}", 50 * columns)
    ends, corners = [0.2 * len(title) + 0.2] * columns, []  # each panel goes where there is most room
    for height, _ in panels:
        column = ends.index(min(ends))
        corners.append((column * (_LEFT + _WIDTH + _RIGHT) + _LEFT, ends[column] + _TOP))
        ends[column] += _TOP + height + _BOTTOM
    with house_style():
        sheet = Sheet(columns * (_LEFT + _WIDTH + _RIGHT), max(ends))
        sheet.figure.set_facecolor("white")
        sheet.text(0.12, 0.12, "\n".join(title))
        for corner, (height, draw) in zip(corners, panels, strict=True):
            draw(sheet.axes(corner, _WIDTH, height))
        return [file_of(sheet.figure, kind) for kind in kinds]


def _panels(outcome: StudyOutcome) -> list[tuple[float, Draw]]:
    """The height of every panel, and what draws it."""
    found: list[tuple[float, Draw]] = []
    names = dict.fromkeys(one.contrast.name for one in outcome.contrasts if one.found is not None)
    for name in names:
        some = [one for one in outcome.contrasts if one.contrast.name == name and one.found is not None]
        found.append((0.3 + 2 * _LINE * len(some), _contrasts(name, some)))
    for key in dict.fromkeys(column.key for column in outcome.plan.study.columns):
        figures = [one for one in outcome.figures if one.key == key and one.ours is not None]
        if figures:
            found.append((0.3 + _LINE * len(figures), _figures(key, figures, outcome.runs.arms)))
    cell = outcome.runs.cells[0].name
    if any(
        len(outcome.runs.group(cell, arm).tail) for arm in outcome.runs.arms if outcome.runs.group(cell, arm).records
    ):
        found.append((2.4, _waits(outcome, cell)))
    if any(tested(outcome.runs.group(cell, arm)).records for arm in outcome.runs.arms):
        found.append((2.4, _curves(outcome, cell)))
    return found


def _contrasts(name: str, contrasts: Sequence[ContrastFigure]) -> Draw:
    def draw(ax: Axes) -> None:
        found = [(place, one.found, one) for place, one in enumerate(contrasts) if one.found is not None]
        colours = [COLOURS[1] if one.within is False else COLOURS[0] for _, _, one in found]
        places = np.array([place for place, _, _ in found]) - 0.17
        ax.hlines(
            places, [ours.low for _, ours, _ in found], [ours.high for _, ours, _ in found], colours, linewidth=1.8
        )
        ax.scatter([ours.mean for _, ours, _ in found], places, 20, colours, zorder=3)
        printed = [(place + 0.17, one.contrast.paper) for place, one in enumerate(contrasts) if one.paper is not None]
        ends = np.array([(place, float(one["low"]), float(one["high"])) for place, one in printed if "low" in one])
        if len(ends):
            ax.hlines(ends[:, 0], ends[:, 1], ends[:, 2], MUTED, linewidth=1.2)
        _diamonds(ax, [(float(one["mean"]), place) for place, one in printed])
        ax.axvline(0, color=INK, linewidth=0.8)
        _rows(ax, [one.contrast.label for one in contrasts], name)
        ax.set_xlabel("percentage points" if unit_of(contrasts[0].contrast.key) else head(contrasts[0].contrast.key))

    return draw


def _figures(key: str, figures: Sequence[Figure], arms: Sequence[str]) -> Draw:
    def draw(ax: Axes) -> None:
        colours = [COLOURS[list(arms).index(one.arm) % len(COLOURS)] for one in figures]
        ours = np.array([one.ours for one in figures], np.float64)
        ends = np.array([(one.low, one.high) for one in figures], np.float64)  # None is NaN, and is not drawn
        ax.hlines(np.arange(len(figures)), ends[:, 0], ends[:, 1], colours, linewidth=1.8)
        ax.scatter(ours, np.arange(len(figures)), 16, colours, zorder=3)
        printed = [(float(one.paper), place + 0.3) for place, one in enumerate(figures) if one.paper is not None]
        _diamonds(ax, printed)
        _rows(ax, [f"{one.cell} {one.arm}" for one in figures], head(key))

    return draw


def _diamonds(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """The paper's figures."""
    if points:
        x, y = zip(*points, strict=True)
        ax.scatter(x, y, 14, "none", marker="D", edgecolors=MUTED, linewidths=1.0, zorder=3)


def _rows(ax: Axes, labels: Sequence[str], title: str) -> None:
    ax.set_yticks(range(len(labels)), [textwrap.shorten(label, 36, placeholder="…") for label in labels], fontsize=7)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_title("\n".join(textwrap.wrap(title, 42)[:2]), fontsize=9)
    ax.grid(True, axis="x")
    ax.tick_params(axis="y", length=0)
    without_frame(ax)


def _waits(outcome: StudyOutcome, cell: str) -> Draw:
    def draw(ax: Axes) -> None:
        for place, arm in enumerate(outcome.runs.arms):
            group = outcome.runs.group(cell, arm)
            if not group.records or not len(group.tail):
                continue
            colour = COLOURS[place % len(COLOURS)]
            ax.plot(1 + np.arange(len(group.tail)), group.tail, color=colour, linewidth=1.8, label=arm)
            if group.bound is not None:
                ax.axvline(group.bound, color=colour, linewidth=1.0, linestyle=(0, (4, 2)))
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
        ax.yaxis.set_major_formatter(FuncFormatter(percent))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("g, steps; a dashed line is a bound")
        ax.set_ylabel("gaps of g steps or more")
        _finish(ax, f"How long classes waited, {cell}")

    return draw


def _curves(outcome: StudyOutcome, cell: str) -> Draw:
    def draw(ax: Axes) -> None:
        for place, arm in enumerate(outcome.runs.arms):
            group = tested(outcome.runs.group(cell, arm))
            if not group.records:
                continue
            colour = COLOURS[place % len(COLOURS)]
            mean, half, tasks = mean_curve(group)
            ax.plot(tasks, mean, color=colour, linewidth=1.8, label=arm)
            ax.fill_between(tasks, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        ax.set_xlabel("tasks learned")
        ax.set_ylabel("accuracy so far, %, EMA")
        _finish(ax, f"Learning curves, {cell}")

    return draw


def _finish(ax: Axes, title: str) -> None:
    ax.set_title("\n".join(textwrap.wrap(title, 42)[:2]), fontsize=9)
    ax.legend(frameon=False, fontsize=7.5, loc="best")
    ax.grid(True)
    without_frame(ax)
