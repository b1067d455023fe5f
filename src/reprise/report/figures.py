"""Pictures of an audit: tails of gaps with their bound, co-occurrence maps, exposure.

Needs matplotlib, which comes with the extra `plot`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from reprise.report.colours import COLOURS, INK, MUTED, NEVER, OTHERS
from reprise.report.drawing import Sheet, file_of, house_style, percent, without_frame
from reprise.report.panels import Panel, class_count, panel
from reprise.report.summary import Summary, caption, figure, groups, varying

PER_BAND = 4  # rows of the table side by side; more go below
_DASHES, _DOTS = (0, (4, 2)), (0, (1, 1.6))


@dataclass(frozen=True, eq=False)
class Band:
    """Rows that differ in retrieval alone, and the axes they share, so that pictures can be compared at sight."""

    title: str
    panels: tuple[Panel, ...]
    classes: int
    longest: int
    rarest: float
    most_pairs: int
    most_exposed: float

    @classmethod
    def of(cls, group: Sequence[Summary], rows: Sequence[Summary] = ()) -> Band:
        """The band of a group among all rows: its title says what tells it from the others."""
        classes = class_count(group)
        also = "".join(
            f" · {head} {value(group[0].run)}" for head, _, value in varying(rows or group) if head != "replay"
        )
        maps = f" · maps of seed {group[0].seeds[0]}" if len(group[0].seeds) > 1 else ""
        panels = tuple(panel(row, classes) for row in group)
        return cls(
            title=f"{caption(group)}{also}{maps}",
            panels=panels,
            classes=classes,
            longest=max(max(one.longest or 0, one.bound or 0) for one in panels) or 1,
            rarest=min((float(one.tail[-1]) for one in panels if len(one.tail)), default=0.1),
            most_pairs=max(int(one.pairs.max(initial=0)) for one in panels),
            most_exposed=max(float(one.spread.max(initial=0.0)) for one in panels) or 1.0,
        )


def save(rows: Sequence[Summary], kind: str) -> bytes:
    """The whole picture as the bytes of a `png` or `svg` file: a band for each stream, storage and buffer."""
    bands = [Band.of(group, rows) for group in groups(rows)]
    columns = min(PER_BAND, max(len(band.panels) for band in bands))
    width = _COLUMN_WIDTHS[columns]
    sheet_width = _LEFT + columns * (width + _BETWEEN) + 0.8
    titles = [textwrap.fill(band.title, int(sheet_width * 12)) for band in bands]
    lines = [-(-len(band.panels) // columns) for band in bands]
    handles = _handles(bands)
    per_line = int(sheet_width / 2.4)
    foot = 0.25 + 0.2 * -(-len(handles) // per_line)
    heights = [
        0.2 + 0.2 * (1 + title.count("\n")) + count * _column_height(width)
        for title, count in zip(titles, lines, strict=True)
    ]
    with house_style():
        sheet = Sheet(sheet_width, sum(heights) + foot)
        sheet.figure.set_facecolor("white")
        for band, title, count, height in zip(bands, titles, lines, heights, strict=True):
            sheet.text(0.12, 0.1, title)
            top = height - count * _column_height(width)
            for place in range(len(band.panels)):
                line, column = divmod(place, columns)
                corner = (_LEFT + column * (width + _BETWEEN), top + line * _column_height(width))
                _draw_column(sheet, band, place, corner, width, first=column == 0)
            for line in range(count):
                beside = min(columns, len(band.panels) - line * columns)
                left = _LEFT + beside * (width + _BETWEEN) + 0.05
                corner = (left, top + line * _column_height(width) + _MAP_TOP + 0.1 * width)
                _colour_bar(sheet, band, sheet.axes(corner, 0.11, 0.8 * width), "vertical")
            sheet.advance(height)
        sheet.figure.legend(
            handles=handles, loc="lower center", ncols=per_line, frameon=False, fontsize=8.5, borderaxespad=0.2
        )
        return file_of(sheet.figure, kind)


def column_svg(band: Band, place: int) -> str:
    """One row of the table as a picture of its own, for a page that puts them side by side."""
    width = 1.95
    with house_style():
        sheet = Sheet(_LEFT + width + 0.1, _column_height(width) + _BAR)
        _draw_column(sheet, band, place, (_LEFT, 0.0), width, first=True, bar=_BAR)
        bar = sheet.axes((_LEFT, _MAP_TOP + width + 0.48), width, 0.1)
        _colour_bar(sheet, band, bar, "horizontal")
        sheet.figure.patch.set_alpha(0.0)
        return file_of(sheet.figure, "svg").decode()


# Inches. Sizes are set here and not by a solver, whose last digits differ from one time to the next.
_COLUMN_WIDTHS = {1: 4.2, 2: 3.4, 3: 2.95, 4: 2.75}  # by the number of columns
_LEFT, _BETWEEN = 0.82, 0.2
_HEAD, _GAPS, _EXPOSURE = 0.5, 1.85, 1.2
_MAP_TOP = _HEAD + _GAPS + 0.55
_BAR = 0.6  # for a colour bar below the map


def _column_height(width: float) -> float:
    return _MAP_TOP + width + 0.5 + _EXPOSURE + 0.55


def _draw_column(
    sheet: Sheet, band: Band, place: int, corner: tuple[float, float], width: float, *, first: bool, bar: float = 0.0
) -> None:
    """Three pictures of one row below each other, with room for a colour bar of height `bar` below the map."""
    colour = COLOURS[place % len(COLOURS)]
    left, top = corner
    gaps = sheet.axes((left, top + _HEAD), width, _GAPS)
    pairs = sheet.axes((left, top + _MAP_TOP), width, width)
    exposure = sheet.axes((left, top + _MAP_TOP + width + 0.5 + bar), width, _EXPOSURE)
    gaps.set_title(band.panels[place].retrieval, color=colour, fontweight="bold", fontsize=12, pad=18)
    _draw_gaps(gaps, band, place, colour)
    _draw_map(pairs, band, place)
    _draw_exposure(exposure, band, place, colour)
    for ax, label in ((gaps, "gaps of g steps or more"), (pairs, "class"), (exposure, "visits per draw")):
        if first:
            ax.set_ylabel(label)
            ax.yaxis.set_label_coords(-0.62 / width, 0.5)
        else:
            ax.tick_params(labelleft=False)


def _draw_gaps(ax: Axes, band: Band, place: int, colour: str) -> None:
    own = band.panels[place]
    for other in band.panels:
        if other is not own:
            ax.plot(other.steps, other.tail, color=OTHERS, linewidth=1.1, zorder=1.5)
    if own.bound is not None:
        ax.axvline(own.bound, color=INK, linewidth=1.0, linestyle=_DASHES, zorder=2)
    ax.plot(own.steps, own.tail, color=colour, linewidth=2.2, zorder=3, solid_capstyle="round")
    if len(own.steps):
        ax.plot(own.steps[-1:], own.tail[-1:], "o", color=colour, markersize=4.5, zorder=4)
    if len(own.law):
        ax.plot(1 + np.arange(len(own.law)), own.law, color=INK, linewidth=1.1, linestyle=_DOTS, zorder=3.5)
    if own.longest is not None and own.longest > len(own.steps):
        # It is no gap, so it has no share of them: it stands below.
        below, ring = ax.get_xaxis_transform(), "none"
        ax.plot([own.longest], [0.05], "o", color=colour, fillstyle=ring, markersize=4.5, zorder=4, transform=below)
    longest = "no wait at all" if own.longest is None else f"longest wait {own.longest}"
    note = f"{longest}, no bound" if own.bound is None else f"{longest}, bound {figure(own.bound, 0)}"
    ax.annotate(note, (0.5, 1), (0, 5), "axes fraction", "offset points", ha="center", fontsize=8.5, color=MUTED)
    ax.set_yscale("log")
    ax.set_ylim(band.rarest / 2.5, 1.6)
    ax.set_xlim(0, band.longest * 1.04 + 1)
    ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
    ax.yaxis.set_major_formatter(FuncFormatter(percent))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.minorticks_off()
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    ax.grid(True)
    ax.set_xlabel("g, steps between two visits")
    without_frame(ax)


def _draw_map(ax: Axes, band: Band, place: int) -> None:
    own = band.panels[place]
    edge = band.classes - 0.5
    ax.set_facecolor(NEVER)
    if own.pairs.any():
        end = len(own.pairs) * own.per_cell - 0.5
        ax.imshow(
            np.ma.masked_equal(own.pairs, 0),
            cmap=_colour_map(),
            norm=_norm(band),
            extent=(-0.5, end, end, -0.5),
            interpolation="none",
        )
    else:
        words = "no two classes met" if own.pairs.size or not band.classes else "not in the records"
        ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color=MUTED)
    ax.set_xlim(-0.5, max(edge, 0.5))
    ax.set_ylim(max(edge, 0.5), -0.5)
    ax.set_aspect("equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    ax.set_xlabel("class" if own.per_cell == 1 else f"class, {own.per_cell} to a cell")


def _draw_exposure(ax: Axes, band: Band, place: int, colour: str) -> None:
    own = band.panels[place]
    if own.even is not None:
        ax.axhline(own.even, color=INK, linewidth=1.1, linestyle=_DOTS, zorder=4)
    ax.vlines(own.exposed, own.spread[0], own.spread[1], color=colour, alpha=0.35, linewidth=1.2, zorder=2.5)
    ax.plot(own.exposed, own.exposure, "o", color=colour, markersize=2.4, zorder=3, clip_on=False)
    ax.set_xlim(-0.5, max(band.classes - 0.5, 0.5))
    ax.set_ylim(0, band.most_exposed * 1.08)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.grid(True, axis="y")
    ax.set_xlabel("class")
    without_frame(ax)


def _norm(band: Band) -> LogNorm:
    return LogNorm(1, max(band.most_pairs, 2))


def _colour_map() -> Colormap:
    # The dark end of the map is left out, so that the rarest meeting still stands apart from a dark page.
    return ListedColormap(mpl.colormaps["viridis"](np.linspace(0.25, 1.0, 256)))


def _colour_bar(sheet: Sheet, band: Band, ax: Axes, orientation: Literal["vertical", "horizontal"]) -> None:
    steps = (1, 2, 5) if band.most_pairs < 100 else (1,)
    ticks = [step * 10**power for power in range(19) for step in steps if step * 10**power <= max(band.most_pairs, 1)]
    scale = ScalarMappable(_norm(band), _colour_map())
    form = StrMethodFormatter("{x:,.0f}")
    bar = sheet.figure.colorbar(scale, cax=ax, ticks=ticks, format=form, orientation=orientation)
    bar.set_label("batches shared by two classes")
    bar.minorticks_off()
    bar.outline.set_visible(False)


def _handles(bands: Sequence[Band]) -> list[Line2D | Patch]:
    panels = [one for band in bands for one in band.panels]
    line = partial(Line2D, [], [])
    handles: list[Line2D | Patch] = [
        line(color=MUTED, linewidth=2.2, marker="o", markersize=4.5, label="the retrieval named above")
    ]
    if any((one.longest or 0) > len(one.steps) for one in panels):
        handles.append(
            line(
                color=MUTED,
                linewidth=0,
                marker="o",
                fillstyle="none",
                markersize=4.5,
                label="longest wait that is no gap",
            )
        )
    if len(panels) > len(bands):
        handles.append(line(color=OTHERS, linewidth=1.1, label="the others"))
    if any(one.bound is not None for one in panels):
        handles.append(line(color=INK, linewidth=1.0, linestyle=_DASHES, label="bound, if classes stay"))
    law = "law by theory; b/C" if any(len(one.law) for one in panels) else "b/C"
    handles.append(line(color=INK, linewidth=1.0, linestyle=_DOTS, label=law))
    handles.append(Patch(facecolor=NEVER, edgecolor=OTHERS, label="never met"))
    return handles
