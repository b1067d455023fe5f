"""The picture of a study: how far its figures are from the paper's, as SVG for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from reprise.report.render import Markup
from reprise.report.study_tables import difference, head, ours, rows
from reprise.studies.compare import LIMIT, Comparison, Figure, half_unit

_ROW, _GAP = 19, 14  # pixels: height of a row, space between panels
_EDGE = 5.0  # standard errors at the end of an axis; what lies beyond is drawn there, as an arrow


def picture(comparison: Comparison) -> Markup:
    """Every judged cell as a dot: a panel for each figure, a line for each setting and arm."""
    keys = list(dict.fromkeys(figure.key for figure in comparison.judged))
    lines = list(_lines(comparison))
    labels = 14 + 7 * max(len(label) for label, _ in lines)
    width = max(104, min(230, (1100 - labels) // len(keys) - _GAP))
    top, bottom = 30, 30 + _ROW * len(lines)
    parts = []
    for place, (label, _) in enumerate(lines):
        y = top + _ROW * (place + 0.5) + 4
        setting = lines[place][1] is None
        parts.append(
            f'<text class="{"name" if setting else "arm"}" x="{0 if setting else 12}" y="{y}">{escape(label)}</text>'
        )
    for column, key in enumerate(keys):
        left = labels + column * (width + _GAP)
        parts += _panel(key, lines, left, width, top, bottom)
    total = labels + len(keys) * (width + _GAP)
    said = escape(f"{comparison.verdict}. Differences in standard errors, a panel for each figure.")
    box = f'viewBox="0 0 {total} {bottom + 26}" style="min-width:{min(total, 760)}px"'
    return Markup("\n".join([f'<svg class="dots" role="img" aria-label="{said}" {box}>', *parts, "</svg>"]))


def _lines(comparison: Comparison) -> Iterator[tuple[str, dict[str, Figure] | None]]:
    """The lines of the picture: a setting's name, then its arms with their figures."""
    last = ""
    for setting, arm, figures in rows(comparison):
        if setting != last:
            yield setting, None
            last = setting
        yield arm, figures


def _panel(
    key: str, lines: list[tuple[str, dict[str, Figure] | None]], left: float, width: float, top: float, bottom: float
) -> list[str]:
    def x(errors: float) -> float:
        return round(left + width * (max(-_EDGE, min(_EDGE, errors)) + _EDGE) / (2 * _EDGE), 1)

    parts = [
        f'<text class="name middle" x="{x(0)}" y="16">{escape(head(key))}</text>',
        f'<rect class="band" x="{x(-LIMIT)}" y="{top}" width="{x(LIMIT) - x(-LIMIT):.1f}" height="{bottom - top}"/>',
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="{top}" y2="{bottom}"/>',
        *(
            f'<text class="tick middle" x="{x(tick)}" y="{bottom + 16}">{sign}{abs(tick)}</text>'
            for tick, sign in ((-LIMIT, "−"), (0, ""), (LIMIT, "+"))
        ),
    ]
    for place, (_, figures) in enumerate(lines):
        y = top + _ROW * (place + 0.5)
        if figures is None:
            continue
        parts.append(f'<line class="row" x1="{left}" x2="{left + width}" y1="{y}" y2="{y}"/>')
        if (figure := figures.get(key)) is not None and figure.within is not None:
            parts.append(_dot(figure, x, y))
    return parts


def _dot(figure: Figure, x: Callable[[float], float], y: float) -> str:
    name = f"{figure.setting}, {figure.arm}, {head(figure.key)}"
    said = f"{name}: ours {ours(figure)}, the paper's {figure.paper}, difference {difference(figure)}"
    state = "in" if figure.within else "out"
    assert figure.paper is not None
    apart = figure.difference
    if apart is None:
        at = x(0) if figure.within else x(_EDGE if figure.ours > float(figure.paper) else -_EDGE)
        mark = f'<path d="M{at - 4.5} {y}l4.5 -4.5l4.5 4.5l-4.5 4.5z" class="hollow"/>'
    else:
        assert figure.error is not None
        slack = half_unit(figure.paper) / figure.error
        at, way = x(apart), 1 if apart > 0 else -1
        mark = f'<line x1="{x(apart - slack)}" x2="{x(apart + slack)}" y1="{y}" y2="{y}"/>'
        if abs(apart) > _EDGE:
            mark += f'<path d="M{at + 4 * way} {y}l{-8 * way} -5v10z"/>'
        else:
            mark += f'<circle cx="{at}" cy="{y}" r="4"/>'
    return f'<g class="{state}"><title>{escape(said)}</title>{mark}</g>'
