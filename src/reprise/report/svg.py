"""Pictures of a page, drawn as SVG: intervals below each other, and lines.

A picture is as wide as a phone, and a page puts several side by side. Colours are classes of the stylesheet. What
answers to the pointer is a group of class `mark` with its figures as the title, which `page.js` shows; without scripts
the browser shows titles itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from reprise.report.render import Markup

WIDTH = 400.0
_PITCH, _LABEL, _BETWEEN = 16.0, 16.0, 7.0  # heights: a line, its row's label, the space below a row
_CHARACTER = 6.1  # width of one, about


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its interval; `said` are its figures in words."""

    value: float
    said: str
    low: float | None = None
    high: float | None = None
    style: str = "c0"
    """The colour's class; `paper` is drawn as a diamond."""


@dataclass(frozen=True)
class Row:
    """Intervals under a label: each line has a name at its left, and one interval or several."""

    label: str
    lines: tuple[tuple[str, tuple[Interval, ...]], ...]


def intervals(rows: Sequence[Row], said: str, *, zero: bool = False, unit: str = "") -> Markup:
    """Intervals below each other on one axis; `zero` draws a line there."""
    every = [one for row in rows for _, line in row.lines for one in line]
    ends = [end for one in every for end in (one.value, one.low, one.high) if end is not None]
    left = 6 + _CHARACTER * min(16, max(len(name) for row in rows for name, _ in row.lines))
    axis = _axis([*ends, 0.0] if zero else ends, left + 6, WIDTH - 10)
    parts, y = [], 4.0
    bottom = y + sum(_LABEL + _PITCH * len(row.lines) + _BETWEEN for row in rows)
    parts += _vertical(axis, 4.0, bottom, zero=zero)
    for row in rows:
        parts.append(f'<text class="name" x="0" y="{y + 11:.1f}">{escape(row.label)}</text>')
        y += _LABEL
        for name, line in row.lines:
            middle = y + _PITCH / 2
            parts.append(f'<text class="muted" x="2" y="{middle + 4:.1f}">{escape(name)}</text>')
            beside = 3.5 if len(line) > 1 else 0.0  # so that marks of one line do not hide each other
            parts += [_interval(one, axis, middle + (beside if place else -beside)) for place, one in enumerate(line)]
            y += _PITCH
        y += _BETWEEN
    if unit:
        parts.append(f'<text class="tick end" x="{WIDTH - 2:.0f}" y="{bottom + 27:.1f}">{escape(unit)}</text>')
    return _picture(parts, bottom + (32 if unit else 18), said)


def _interval(one: Interval, axis: Axis, y: float) -> str:
    x = axis(one.value)
    body = [f'<rect class="hit" x="{x - 9:.1f}" y="{y - 6:.1f}" width="18" height="12"/>']
    if one.low is not None and one.high is not None:
        a, b = axis(one.low), axis(one.high)
        body[0] = (
            f'<rect class="hit" x="{min(a, x - 9):.1f}" y="{y - 6:.1f}" width="{max(b - a, 18):.1f}" height="12"/>'
        )
        body.append(f'<path class="bar" d="M{a:.1f} {y:.1f}H{b:.1f}M{a:.1f} {y - 3:.1f}v6M{b:.1f} {y - 3:.1f}v6"/>')
    if one.style == "paper":
        body.append(f'<path class="dot" d="M{x - 4.5:.1f} {y:.1f}l4.5 -4.5l4.5 4.5l-4.5 4.5z"/>')
    else:
        body.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    return mark("".join(body), one.said, one.style)


@dataclass(frozen=True)
class Line:
    """A line, with a band around it if `low` and `high` are given."""

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Chart:
    """Lines on common axes. `said` says for a place on the x axis what stands there."""

    title: str
    lines: Sequence[Line]
    stops: Sequence[tuple[float, str]]
    x_label: str
    y_label: str
    log: bool = False
    bounds: Sequence[tuple[float, str, str]] = ()
    """Vertical lines: where, its label, its style."""
    height: float = field(default=230.0)

    def svg(self) -> Markup:
        """The chart as a picture."""
        bottom = self.height - 38
        xs = [x for line in self.lines for x in line.x] + [x for x, _, _ in self.bounds]
        ys = [y for line in self.lines for y in (*line.y, *line.low, *line.high)]
        across = _axis([0.0, *xs] if self.log else xs, 44, WIDTH - 8, tight=True)
        up = _log_axis(min(ys), bottom, 24) if self.log else _axis([0.0, *ys], bottom, 24)
        parts = [f'<text class="name" x="0" y="13">{escape(self.title)}</text>']
        for tick in up.ticks:
            y = up(tick)
            label = _percent(tick) if self.log else _tick(tick)
            parts.append(f'<path class="grid" d="M44 {y:.1f}H{WIDTH - 8:.0f}"/>')
            parts.append(f'<text class="tick end" x="39" y="{y + 4:.1f}">{label}</text>')
        for tick in across.ticks:
            x = across(tick)
            parts.append(f'<text class="tick middle" x="{x:.1f}" y="{bottom + 15:.1f}">{_tick(tick)}</text>')
        parts.append(f'<path class="axis" d="M44 {bottom:.1f}H{WIDTH - 8:.0f}"/>')
        for place, (x, label, style) in enumerate(self.bounds):
            parts.append(f'<path class="bound {style}" d="M{across(x):.1f} 24V{bottom:.1f}"/>')
            side = "end" if across(x) > WIDTH - 90 else ""
            away = -3 if side else 3
            parts.append(
                f'<text class="label {side}" x="{across(x) + away:.1f}" y="{34 + 13 * place}">{escape(label)}</text>'
            )
        parts += [self._line(line, across, up) for line in self.lines]
        parts += self._stops(across, bottom)
        parts.append(f'<text class="tick end" x="{WIDTH - 8:.0f}" y="{self.height - 6:.0f}">{self.x_label}</text>')
        parts.append(f'<text class="tick" x="44" y="{self.height - 6:.0f}">{self.y_label}</text>')
        return _picture(parts, self.height, f"{self.title}: {self.y_label} by {self.x_label}")

    def _line(self, line: Line, across: Axis, up: Axis) -> str:
        def way(ys: Sequence[float]) -> list[str]:
            return [f"{across(x):.1f} {up(y):.1f}" for x, y in zip(line.x, ys, strict=True)]

        band = ""
        if len(line.low):
            band = f'<path class="area" d="M{"L".join([*way(line.low), *reversed(way(line.high))])}z"/>'
        return f'<g class="line {line.style}">{band}<path d="M{"L".join(way(line.y))}"/></g>'

    def _stops(self, across: Axis, bottom: float) -> list[str]:
        """Upright strips that say what stands there; each reaches half way to the next."""
        xs = [across(x) for x, _ in self.stops]
        edges = [44.0, *((a + b) / 2 for a, b in itertools.pairwise(xs)), WIDTH - 8]
        return [
            mark(
                f'<rect class="hit" x="{a:.1f}" y="24" width="{max(b - a, 0.1):.1f}" height="{bottom - 24:.0f}"/>'
                f'<path class="cursor" d="M{x:.1f} 24V{bottom:.0f}"/>',
                said,
                "stop",
            )
            for x, a, b, (_, said) in zip(xs, edges[:-1], edges[1:], self.stops, strict=True)
        ]


def mark(body: str, said: str, style: str) -> str:
    """Something that answers to the pointer."""
    return f'<g class="mark {style}"><title>{escape(said)}</title>{body}</g>'


@dataclass(frozen=True)
class Axis:
    """Where values stand in a picture, and the ticks of their axis."""

    place: Callable[[float], float]
    ticks: Sequence[float]

    def __call__(self, value: float) -> float:
        return self.place(value)


def _axis(values: Iterable[float], start: float, end: float, *, tight: bool = False) -> Axis:
    found = list(values)
    low, high = min(found), max(found)
    if low == high:
        low, high = low - 0.5, high + 0.5
    room = 0.0 if tight else 0.04 * (high - low)
    low, high = low - (room if low < 0 or low > 0.02 * high else 0.0), high + room
    step = _step((high - low) / (abs(end - start) / 60))
    first = math.ceil(low / step - 1e-9)
    ticks = [step * place for place in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(lambda value: start + (end - start) * (value - low) / (high - low), ticks)


def _log_axis(least: float, start: float, end: float) -> Axis:
    low, high = math.log10(max(least, 1e-12)) - 0.2, 0.1
    every = max(1, round(-low / 5))
    ticks = [10.0**power for power in range(0, math.floor(low), -every)]
    return Axis(
        lambda value: start + (end - start) * (math.log10(max(value, 1e-12)) - low) / (high - low),
        [tick for tick in ticks if math.log10(tick) >= low],
    )


def _step(about: float) -> float:
    """The nearest of 1, 2, 5, 10, … that is no smaller."""
    power = 10.0 ** math.floor(math.log10(about))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= about * 0.999)


def _tick(value: float) -> str:
    return f"{value:.6g}".replace("-", "−") if abs(value) > 1e-12 else "0"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _vertical(axis: Axis, top: float, bottom: float, *, zero: bool) -> list[str]:
    parts = []
    for tick in axis.ticks:
        style = "zero" if zero and abs(tick) < 1e-12 else "grid"
        parts.append(f'<path class="{style}" d="M{axis(tick):.1f} {top:.0f}V{bottom:.1f}"/>')
        parts.append(f'<text class="tick middle" x="{axis(tick):.1f}" y="{bottom + 14:.1f}">{_tick(tick)}</text>')
    return parts


def _picture(parts: Sequence[str], height: float, said: str) -> Markup:
    opening = f'<svg class="plot" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="group" aria-label="{escape(said)}">'
    return Markup("".join([opening, *parts, "</svg>"]))
