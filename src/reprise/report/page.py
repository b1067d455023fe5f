"""The page of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from reprise.report.figures import Band, column_svg
from reprise.report.reading import listed, read
from reprise.report.render import Markup, inline_svg, render
from reprise.report.summary import Summary, caption, figure, group_title, groups
from reprise.report.tables import columns


def page(rows: Sequence[Summary], command: str, version: str) -> str:
    """The page as text: what it means, the table, the pictures, what each column is, and the command behind it."""
    shown = columns(rows)
    retrievals = dict.fromkeys(row.retrieval for row in rows)
    return render(
        "audit",
        caption=caption(rows),
        names=Markup(listed([f"<b>{escape(name)}</b>" for name in retrievals])),
        columns=shown,
        lines=list(zip(*(one.cells(rows) for one in shown), strict=True)),
        groups=[_group(group, rows, f"g{place}") for place, group in enumerate(groups(rows))],
        command=command,
        version=version,
    )


def _group(group: Sequence[Summary], rows: Sequence[Summary], name: str) -> dict[str, Any]:
    band = Band.of(group, rows)
    return {
        "title": group_title(group, rows),
        "meaning": read(group),
        "classes": max(row.classes for row in group),
        "seeds": group[0].seeds,
        "law": any(len(one.law) for one in band.panels),
        "ring": any((one.longest or 0) > len(one.steps) for one in band.panels),
        "pictures": [
            inline_svg(column_svg(band, place), f"{name}-{place}-", _said(row)) for place, row in enumerate(group)
        ],
    }


def _said(row: Summary) -> str:
    longest = "no wait at all" if row.longest is None else f"longest wait {row.longest} steps"
    bound = "no bound is proved" if row.bound is None else f"{figure(row.bound, 0)} proved"
    return f"{row.retrieval}: {longest}, {bound}; share of pairs met {figure(row.means['pair_coverage'], 3)}."
