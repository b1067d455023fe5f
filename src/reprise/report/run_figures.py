"""Pictures of two sets of runs: how long classes waited, the difference of each pair, and the way there.

Needs matplotlib, which comes with the extra `plot`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from reprise.lab.comparison import RunComparison
from reprise.lab.run_group import READOUTS, RunGroup
from reprise.report.colours import COLOURS, GRID, INK
from reprise.report.drawing import Sheet, file_of, house_style, percent, without_frame

Draw = Callable[[Axes, RunComparison], None]
Floats = NDArray[np.float64]

_WIDTH, _HEIGHT = 3.4, 2.7  # inches of one picture without its labels
_LEFT, _TOP, _BOTTOM, _RIGHT = 0.72, 0.42, 0.5, 0.2
_PER_LINE = 3
_MOST_SEEDS = 12  # that can be read side by side
_DASHES = (0, (4, 2))


def save(comparison: RunComparison, kind: str, pictures: Sequence[Draw] | None = None) -> bytes:
    """The pictures side by side, as the bytes of a `png` or `svg` file."""
    chosen = pictures_of(comparison) if pictures is None else pictures
    columns, lines, top = min(_PER_LINE, len(chosen)), -(-len(chosen) // _PER_LINE), _top(comparison)
    wide, high = _LEFT + _WIDTH + _RIGHT, top + _HEIGHT + _BOTTOM
    with house_style():
        sheet = Sheet(columns * wide, lines * high)
        sheet.figure.set_facecolor("white")
        for place, draw in enumerate(chosen):
            line, column = divmod(place, _PER_LINE)
            draw(sheet.axes((column * wide + _LEFT, line * high + top), _WIDTH, _HEIGHT), comparison)
        return file_of(sheet.figure, kind)


def picture_svg(draw: Draw, comparison: RunComparison) -> str:
    """One picture by itself, for a page."""
    top = _top(comparison)
    with house_style():
        sheet = Sheet(_LEFT + _WIDTH + _RIGHT, top + _HEIGHT + _BOTTOM)
        draw(sheet.axes((_LEFT, top), _WIDTH, _HEIGHT), comparison)
        sheet.figure.patch.set_alpha(0.0)
        return file_of(sheet.figure, "svg").decode()


def pictures_of(comparison: RunComparison) -> list[Draw]:
    """All pictures that these runs have: audits have no accuracy, and packed records may lack loss curves."""
    sides = (comparison.a, comparison.b)
    if not all(side.trained for side in sides):
        return [draw_waits, draw_pairs]
    along = all("curves" in record for side in sides for record in side.records.values())
    return [draw_waits, draw_pairs, draw_curves, draw_other_curves, *((draw_loss, draw_online) if along else ())]


def draw_waits(ax: Axes, comparison: RunComparison) -> None:
    """The share of gaps of g steps or more, on a log scale, and bounds; a ring is a longest wait that is no gap."""
    ax.set_title("How long a stored class waited")
    sides = _sides(comparison)
    if np.array_equal(sides[0][0].tail, sides[1][0].tail) and sides[0][0].longest == sides[1][0].longest:
        sides = sides[1:]  # the same retrieval on both sides: one line stands for both
    rarest = min((float(side.tail[-1]) for side, _ in sides if len(side.tail)), default=0.1)
    ahead = max(side.longest for side, _ in sides)
    for side, colour in sides:
        _draw_tail(ax, side, colour, side.name if len(sides) > 1 else "both", last=side.longest == ahead)
    bounds = dict.fromkeys((side.bound, side.retrieval) for side, _ in reversed(sides) if side.bound is not None)
    shown = [(bound, name) for bound, name in bounds if bound is not None and bound <= 3 * ahead + 30]
    right = 1.12 * max(ahead, *(bound for bound, _ in shown), 1)
    for place, (bound, name) in enumerate(shown):
        ax.axvline(bound, color=INK, linewidth=1.0, linestyle=_DASHES)
        away, alignment = ((4, -3 - 12 * place), "left") if bound < 0.6 * right else ((-4, 10 - 12 * place), "right")
        label = f"bound of {name}: {bound}"
        ax.annotate(label, (bound, 1.0), away, textcoords="offset points", va="top", ha=alignment, fontsize=8.5)
    ax.set_yscale("log")
    ax.set_ylim(rarest / 2.5, 1.6)
    ax.set_xlim(0, right)
    ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
    ax.yaxis.set_major_formatter(FuncFormatter(percent))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.minorticks_off()
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_xlabel("g, steps between two visits")
    ax.set_ylabel("gaps of g steps or more")
    ax.grid(True)
    without_frame(ax)


def _draw_tail(ax: Axes, side: RunGroup, colour: str, name: str, *, last: bool) -> None:
    tail = side.tail
    if not len(tail):
        return
    ax.plot(1 + np.arange(len(tail)), tail, color=colour, linewidth=2.2, solid_capstyle="round")
    ax.plot([len(tail)], tail[-1:], "o", color=colour, markersize=4.5)
    end, scale = (len(tail), float(tail[-1])), ax.transData
    if side.longest > len(tail):  # it is no gap, so it has no share of them: it stands below
        end, scale = (side.longest, 0.05), ax.get_xaxis_transform()
        ax.plot([end[0]], [end[1]], "o", color=colour, markersize=4.5, fillstyle="none", transform=scale)
    # Where the line leaves room: a bounded one falls steeply, and one that ends high has the title above it.
    away, alignment = ((0, 6), "center") if last else ((-6, 6), "right")
    if tail[-1] > 0.3:
        away, alignment = (-6, -48), "right"
    elif last and side.bound is not None:
        away, alignment = (-9, -12), "right"
    ax.annotate(f"{name}\nlongest {side.longest}", end, away, scale, "offset points", color=colour, ha=alignment)


def draw_pairs(ax: Axes, comparison: RunComparison) -> None:
    """The difference of each pair, their mean and its interval."""
    a, b = (side.values(comparison.metric, comparison.readout) for side in (comparison.a, comparison.b))
    scale, colour = 100 if comparison.is_metric else 1, COLOURS[1]
    apart = [_apart(a.get(seed), b.get(seed)) for seed in comparison.seeds]
    heights = scale * np.array([np.nan if value is None else value for value in apart])
    what = "accuracy" if comparison.metric == "final" else comparison.title
    ax.set_title(_wrapped(f"{what[:1].upper()}{what[1:]}, {comparison.a.name} less {comparison.b.name}"))
    ax.axhline(0, color=INK, linewidth=1.0)
    places = np.arange(len(apart))
    ax.vlines(places, 0, heights, color=colour, linewidth=2.0, alpha=0.45)
    ax.plot(places, heights, "o", color=colour, markersize=6)
    every = -(-len(apart) // _MOST_SEEDS)
    ticks, names, ends = [*places[::every]], [str(seed) for seed in comparison.seeds[::every]], [0.0]
    if (found := comparison.contrast()) is not None:
        last = len(apart) + 0.4 * every
        ax.axvspan(last - 0.6 * every, last + 1.5 * every, color=GRID, linewidth=0, zorder=0)
        ax.plot([last, last], [scale * found.low, scale * found.high], color=INK, linewidth=2.0)
        ax.plot([last], [scale * found.mean], "D", color=INK, markersize=6)
        beside = comparison.difference(found.mean)
        ax.annotate(beside, (last, scale * found.mean), (7, 0), textcoords="offset points", va="center")
        ax.set_xlim(-0.7, last + 1.5 * every)
        ax.set_xlabel(f"seed; their mean and its {found.confidence:.0%} interval")
        ticks, names, ends = [*ticks, last], [*names, "mean"], [0.0, scale * found.low, scale * found.high]
    else:
        ax.set_xlim(-0.7, len(apart) - 0.3)
        ax.set_xlabel("seed")
    ax.set_xticks(ticks, names)
    ends += heights[~np.isnan(heights)].tolist()
    low, high = min(ends), max(ends)
    ax.set_ylim(low - 0.08 * (high - low or 1), high + 0.08 * (high - low or 1))
    ax.set_ylabel("percentage points" if comparison.is_metric else "difference")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0"))
    ax.grid(True, axis="y")
    without_frame(ax)


def draw_curves(ax: Axes, comparison: RunComparison) -> None:
    """Task-mean accuracy after each task, of the read-out that is compared."""
    _title(ax, comparison, "Accuracy on the tasks so far")
    _learning_curves(ax, comparison, comparison.readout)


def draw_other_curves(ax: Axes, comparison: RunComparison) -> None:
    """The same of the other read-out."""
    other = next(name for name in READOUTS if name != comparison.readout)
    _title(ax, comparison, f"The same of the {READOUTS[other]}")
    _learning_curves(ax, comparison, other)


def _learning_curves(ax: Axes, comparison: RunComparison, readout: str) -> None:
    curves = [100 * side.learning_curves(readout) for side, _ in _sides(comparison)]
    tasks = 1 + np.arange(max(one.shape[1] for one in curves))
    _draw_lines(ax, comparison, [(tasks[: one.shape[1]], one) for one in curves], marker="o", markersize=3.5)
    ax.set_ylim(bottom=0)
    ax.set_xlim(0.6, tasks[-1] + 0.13 * len(tasks))
    ax.set_xlabel("tasks learned")
    ax.set_ylabel("test images named")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))


def draw_loss(ax: Axes, comparison: RunComparison) -> None:
    """The loss along the stream."""
    _title(ax, comparison, "Loss along the stream")
    _draw_lines(ax, comparison, [side.along("loss") for side, _ in _sides(comparison)])
    ax.set_xlabel("steps")
    ax.set_ylabel("loss")


def draw_online(ax: Axes, comparison: RunComparison) -> None:
    """Online accuracy along the stream: images named before they were learned."""
    _title(ax, comparison, "Online accuracy along the stream")
    curves = [side.along("accuracy") for side, _ in _sides(comparison)]
    _draw_lines(ax, comparison, [(steps, 100 * shares) for steps, shares in curves])
    ax.set_ylim(bottom=0)
    ax.set_xlabel("steps")
    ax.set_ylabel("arriving images named")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))


def _draw_lines(ax: Axes, comparison: RunComparison, curves: Sequence[tuple[Any, Floats]], **style: Any) -> None:
    """Thin for each seed, thick for their mean; each side's name at the end of its line."""
    ends = []
    for (side, colour), (x, rows) in zip(_sides(comparison), curves, strict=True):
        known = ~np.isnan(rows).all(axis=0)
        x, rows = np.asarray(x)[known], rows[:, known]
        if not len(x):
            continue
        ax.plot(x, rows.T, color=colour, linewidth=0.8, alpha=0.35 if len(rows) <= 6 else 0.2)
        ax.plot(x, np.nanmean(rows, axis=0), color=colour, linewidth=2.2, zorder=3, **style)
        ends.append((float(np.nanmean(rows, axis=0)[-1]), float(x[-1]), side.name, colour))
    if _long_names(comparison):  # they find no room beside the lines
        above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.98), "ncols": 2, "columnspacing": 1.2}
        lines = [Line2D([], [], color=colour, linewidth=2.2) for _, colour in _sides(comparison)]
        names = [side.name for side, _ in _sides(comparison)]
        ax.legend(lines, names, frameon=False, fontsize=7.5, handlelength=1.2, handletextpad=0.5, **above)
        ends = []
    for place, (height, right, name, colour) in enumerate(sorted(ends)):
        # The lower name stands below its line's end, the upper one above, so that near ends do not overprint.
        away = (4, (-9, 5)[place])
        ax.annotate(name, (right, height), away, "data", "offset points", color=colour, fontweight="bold")
    ax.xaxis.set_major_locator(MaxNLocator(10 if style else 6, integer=True))
    ax.grid(True)
    without_frame(ax)


def _long_names(comparison: RunComparison) -> bool:
    return max(len(comparison.a.name), len(comparison.b.name)) > 9


def _top(comparison: RunComparison) -> float:
    """Inches above a picture, for its title and what stands below that."""
    return _TOP + 0.2 * _long_names(comparison)


def _title(ax: Axes, comparison: RunComparison, title: str) -> None:
    """A title above a line of names, where there is one."""
    ax.set_title(title, pad=20 if _long_names(comparison) else None)


def _wrapped(title: str) -> str:
    """A title in two lines at most."""
    lines = textwrap.wrap(title, 50)
    return "\n".join([*lines[:1], textwrap.shorten(" ".join(lines[1:]), 50, placeholder=" …")]).rstrip()


def _sides(comparison: RunComparison) -> list[tuple[RunGroup, str]]:
    """What is compared with, then what is compared, so that it is drawn above."""
    return [(comparison.b, COLOURS[0]), (comparison.a, COLOURS[1])]


def _apart(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
