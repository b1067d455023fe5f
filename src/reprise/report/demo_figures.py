"""Pictures of a demo: how long classes waited, the accuracy difference of each pair, and the way there.

Needs matplotlib, which comes with the extra `plot`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from reprise.report.demo_result import Arm, Outcome, points
from reprise.report.figures import COLOURS, GRID, INK, Sheet, file_of, house_style, percent, without_frame

Draw = Callable[[Axes, Outcome], None]

_WIDTH, _HEIGHT = 3.4, 2.7  # inches of one picture without its labels
_LEFT, _TOP, _BOTTOM, _RIGHT = 0.72, 0.42, 0.5, 0.2


def save(outcome: Outcome) -> bytes:
    """The three pictures side by side, as the bytes of a PNG file."""
    with house_style():
        sheet = Sheet(3 * (_LEFT + _WIDTH + _RIGHT), _TOP + _HEIGHT + _BOTTOM)
        sheet.figure.set_facecolor("white")
        for place, draw in enumerate(PICTURES):
            left = place * (_LEFT + _WIDTH + _RIGHT) + _LEFT
            draw(sheet.axes((left, _TOP), _WIDTH, _HEIGHT), outcome)
        return file_of(sheet.figure, "png")


def picture_svg(draw: Draw, outcome: Outcome) -> str:
    """One picture by itself, for a page."""
    with house_style():
        sheet = Sheet(_LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM)
        draw(sheet.axes((_LEFT, _TOP), _WIDTH, _HEIGHT), outcome)
        sheet.figure.patch.set_alpha(0.0)
        return file_of(sheet.figure, "svg").decode()


def draw_waits(ax: Axes, outcome: Outcome) -> None:
    """The share of gaps of g steps or more, on a log scale, and the bound; a ring is a longest wait that is no gap."""
    ax.set_title("How long a stored class waited")
    rarest = 1.0
    for arm, colour in _arms(outcome):
        tail = arm.tail
        if not len(tail):
            continue
        rarest = min(rarest, float(tail[-1]))
        ax.plot(1 + np.arange(len(tail)), tail, color=colour, linewidth=2.2, solid_capstyle="round")
        ax.plot([len(tail)], tail[-1:], "o", color=colour, markersize=4.5)
        end, scale = (len(tail), float(tail[-1])), ax.transData
        if arm.longest > len(tail):  # it is no gap, so it has no share of them: it stands below
            end, scale = (arm.longest, 0.05), ax.get_xaxis_transform()
            ax.plot([end[0]], [end[1]], "o", color=colour, markersize=4.5, fillstyle="none", transform=scale)
        # The longer line leaves room above its end, the shorter one to the left of it.
        away, side = ((0, 6), "center") if arm is outcome.base else ((-6, 6), "right")
        note = f"{arm.retrieval}\nlongest {arm.longest}"
        ax.annotate(note, end, away, scale, "offset points", color=colour, ha=side)
    bound = outcome.arm.bound
    if bound is not None:
        ax.axvline(bound, color=INK, linewidth=1.0, linestyle=(0, (4, 2)))
        label = f" bound of {outcome.arm.retrieval}: {bound}"
        ax.annotate(label, (bound, 1.0), (2, -3), textcoords="offset points", va="top", fontsize=8.5)
    ax.set_yscale("log")
    ax.set_ylim(rarest / 2.5, 1.6)
    ax.set_xlim(0, 1.12 * max(outcome.base.longest, outcome.arm.longest, bound or 1))
    ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
    ax.yaxis.set_major_formatter(FuncFormatter(percent))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.minorticks_off()
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_xlabel("g, steps between two visits")
    ax.set_ylabel("gaps of g steps or more")
    ax.grid(True)
    without_frame(ax)


def draw_pairs(ax: Axes, outcome: Outcome) -> None:
    """The accuracy difference of each pair, their mean and its interval."""
    found = outcome.contrast()
    base, arm = outcome.base.final(), outcome.arm.final()
    apart = {seed: _apart(arm.get(seed), base.get(seed)) for seed in {**base, **arm}}
    colour = COLOURS[1]
    ax.set_title(f"Accuracy, {outcome.arm.retrieval} less {outcome.base.retrieval}")
    ax.axhline(0, color=INK, linewidth=1.0)
    places = np.arange(len(apart))
    heights = np.array([np.nan if value is None else 100 * value for value in apart.values()])
    ax.vlines(places, 0, heights, color=colour, linewidth=2.0, alpha=0.45)
    ax.plot(places, heights, "o", color=colour, markersize=6)
    last = len(apart) + 0.4
    ax.axvspan(last - 0.6, last + 1.5, color=GRID, linewidth=0, zorder=0)
    ax.plot([last, last], [100 * found.low, 100 * found.high], color=INK, linewidth=2.0)
    ax.plot([last], [100 * found.mean], "D", color=INK, markersize=6)
    ax.annotate(points(found.mean), (last, 100 * found.mean), (7, 0), textcoords="offset points", va="center")
    ax.set_xticks([*places, last], [*map(str, apart), "mean"])
    ax.set_xlim(-0.7, last + 1.5)
    ends = [0.0, 100 * found.low, 100 * found.high, *heights[~np.isnan(heights)]]
    low, high = min(ends), max(ends)
    ax.set_ylim(low - 0.08 * (high - low or 1), high + 0.08 * (high - low or 1))
    ax.set_xlabel(f"seed; their mean and its {found.confidence:.0%} interval")
    ax.set_ylabel("percentage points")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0"))
    ax.grid(True, axis="y")
    without_frame(ax)


def draw_curves(ax: Axes, outcome: Outcome) -> None:
    """Task-mean accuracy after each task: thin for each seed, thick for their mean."""
    ax.set_title("Accuracy on the tasks so far")
    ends = []
    for arm, colour in _arms(outcome):
        curves = 100 * arm.curves()
        tasks = 1 + np.arange(curves.shape[1])
        ax.plot(tasks, curves.T, color=colour, linewidth=0.8, alpha=0.35)
        ax.plot(tasks, curves.mean(0), color=colour, linewidth=2.2, marker="o", markersize=3.5)
        ends.append((float(curves.mean(0)[-1]), arm.retrieval, colour))
    for place, (height, name, colour) in enumerate(sorted(ends)):
        # The lower name stands below its line's end, the upper one above, so that near ends do not overprint.
        ax.annotate(
            name, (tasks[-1], height), (4, (-9, 5)[place]), textcoords="offset points", color=colour, fontweight="bold"
        )
    ax.set_ylim(bottom=0)
    ax.set_xlim(0.6, tasks[-1] + 0.13 * len(tasks))
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
    ax.set_xlabel("tasks learned")
    ax.set_ylabel("test images named")
    ax.grid(True)
    without_frame(ax)


PICTURES: tuple[Draw, ...] = (draw_waits, draw_pairs, draw_curves)


def _arms(outcome: Outcome) -> list[tuple[Arm, str]]:
    return [(outcome.base, COLOURS[0]), (outcome.arm, COLOURS[1])]


def _apart(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
