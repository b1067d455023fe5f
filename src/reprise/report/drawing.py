"""What all pictures share: their style, a sheet measured in inches, and files that are the same whenever they are made.

Needs matplotlib, which comes with the extra `plot`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reprise.report.colours import GRID, INK, MUTED

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "reprise",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.linewidth": 0.7,
    "axes.titlesize": 10.0,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
}


class Sheet:
    """A figure on which things are placed in inches from the upper left, or from where the last band ended."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height, self.top = width, height, 0.0
        self.figure = Figure(figsize=(width, height))

    def advance(self, height: float) -> None:
        self.top += height

    def axes(self, corner: tuple[float, float], width: float, height: float) -> Axes:
        left, top = corner
        bottom = self.height - self.top - top - height
        return self.figure.add_axes((left / self.width, bottom / self.height, width / self.width, height / self.height))

    def text(self, left: float, top: float, text: str) -> None:
        self.figure.text(left / self.width, 1 - (self.top + top) / self.height, text, va="top", fontsize=11)


@contextmanager
def house_style() -> Iterator[None]:
    """Within it, pictures are drawn as all of this project are."""
    with mpl.rc_context():
        mpl.rcdefaults()  # a person's own settings are for their own figures
        mpl.rcParams.update(_STYLE)
        yield


def file_of(figure: Figure, kind: str) -> bytes:
    """A picture as a file, png or svg."""
    target = io.BytesIO()
    # No date and no version: the same figures give the same file.
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    figure.savefig(target, format=kind, dpi=160, metadata=metadata)
    return target.getvalue()


def without_frame(ax: Axes) -> None:
    """Leave the axes, take the frame away."""
    ax.spines[["top", "right"]].set_visible(False)


def percent(share: float, _: object = None) -> str:
    """A share as a tick's label."""
    return f"{100 * share:.10g}%"
