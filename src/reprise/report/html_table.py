"""Tables of a page, which can be sorted and filtered; thousands of rows take no noticeable time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from reprise.report.render import Markup


@dataclass(frozen=True)
class TableCell:
    """A cell: what it says, and if need be what it is sorted by, where it leads, and how it looks."""

    text: str
    by: float | None = None
    """The number it is sorted by, if its text is not."""
    link: str = ""
    style: str = ""
    links: Sequence[tuple[str, str]] = ()
    """Words that follow the text, each with where it leads."""


def html_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[TableCell | str]],
    caption: str,
    *,
    words: int = 1,
    filtered: bool | None = None,
    anchors: Mapping[int, str] | None = None,
    kind: str = "",
) -> Markup:
    """A table: its first `words` columns hold words, the others numbers; `anchors` are ids of some of its rows.

    A table of more than twelve rows has a box to filter it, unless told. `kind` is one more class for the stylesheet.
    """
    rows = list(rows)
    body = [_row(row, words, (anchors or {}).get(place, "")) for place, row in enumerate(rows)]
    head = "".join(
        f'<th scope="col"{_words(place < words or _of_words(rows, place))}>{escape(name)}</th>'
        for place, name in enumerate(heads)
    )
    box = " data-filter" if (len(body) > 12 if filtered is None else filtered) else ""
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable {kind}"{box}><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{''.join(body)}</tbody></table></div>"
    )


def _row(cells: Sequence[TableCell | str], words: int, anchor: str) -> str:
    parts = [f'<tr id="{anchor}">' if anchor else "<tr>"]
    for place, cell in enumerate(cells):
        if isinstance(cell, str):
            parts.append(_cell(place, words, escape(cell), "", ""))
            continue
        text = escape(cell.text)
        if cell.link:
            text = f'<a href="{escape(cell.link)}">{text}</a>'
        text += ", ".join(f'<a href="{escape(link)}">{escape(word)}</a>' for word, link in cell.links)
        by = "" if cell.by is None else f' data-by="{cell.by:.6g}"'
        parts.append(_cell(place, words, text, by, cell.style))
    parts.append("</tr>\n")
    return "".join(parts)


def _cell(place: int, words: int, text: str, by: str, style: str) -> str:
    if not place:
        return f'<th scope="row"{by}>{text}</th>'
    names = " ".join(filter(None, ("words" if place < words else "", style)))
    return f"<td{by}>{text}</td>" if not names else f'<td class="{names}"{by}>{text}</td>'


def _words(holds: bool) -> str:
    return ' class="words"' if holds else ""


def _of_words(rows: Sequence[Sequence[TableCell | str]], place: int) -> bool:
    """Whether all cells of a column are styled as words."""
    cells = [row[place] for row in rows]
    return bool(cells) and all(isinstance(cell, TableCell) and "words" in cell.style.split() for cell in cells)
