"""One page that shows an audit: self-contained, light and dark, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from reprise.report.figures import COLOURS, GRID, INK, MUTED, NEVER, OTHERS, Band, column_svg
from reprise.report.reading import listed, read
from reprise.report.summary import Summary, caption, figure, group_title, groups
from reprise.report.tables import Column, columns

# The same colours on a dark page: lighter, so that thin lines keep their contrast.
_DARK = ("#5cb3f0", "#ff8a4c", "#3ccfa0", "#e08bcb", "#e0a93b", "#7cc8ff", "#a9a1ff")
_LIGHT_SHADES = {"ink": INK, "muted": MUTED, "grid": GRID, "others": OTHERS, "never": NEVER}
_DARK_SHADES = {"ink": "#e6e9ed", "muted": "#98a2ae", "grid": "#2b323a", "others": "#56606b", "never": "#07090b"}


def page(rows: Sequence[Summary], command: str, version: str) -> str:
    """The page as text: what it means, the table, the pictures, what each column is, and the command behind it."""
    found = groups(rows)
    titles = ["Pictures"] if len(found) == 1 else [group_title(group) for group in found]
    pictures = "\n".join(_pictures(group, titles[place], f"g{place}") for place, group in enumerate(found))
    names = listed([f"<b>{escape(name)}</b>" for name in dict.fromkeys(row.run.retrieval for row in rows)])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Replay audit: {escape(caption(rows))}</title>
<style>{stylesheet()}</style>
</head>
<body>
<main>
<header>
<h1>When does a stored class return?</h1>
<p class="sub">{escape(caption(rows))}</p>
<p>Replay was planned from labels alone, before any training, and every replayed batch was written down. This page shows
how long stored classes waited for replay under {names}, which classes came back together, and how often.</p>
</header>
<section>
<h2>What it means</h2>
{_meaning(found)}
</section>
<section>
<h2>Figures</h2>
{_table(rows)}
</section>
{pictures}
<section>
<h2>What the columns say</h2>
<dl>
{_legend(columns(rows))}
</dl>
</section>
<footer>
<p>Made by Reprise {escape(version)} with</p>
<pre>{escape(command)}</pre>
</footer>
</main>
</body>
</html>
"""


def _meaning(found: Sequence[Sequence[Summary]]) -> str:
    parts = []
    for group in found:
        name = f"<h3>{escape(group_title(group))}</h3>" if len(found) > 1 else ""
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in read(group))
        parts.append(f"{name}<ul>{sentences}</ul>")
    return "\n".join(parts)


def _table(rows: Sequence[Summary]) -> str:
    shown = columns(rows)
    heads = "".join(
        f'<th scope="col"{_kind(one)} title="{escape(one.meaning)}">{escape(one.head)}</th>' for one in shown
    )
    cells = zip(*(one.cells(rows) for one in shown), strict=True)
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{_kind(one)}>{escape(cell)}</td>" for one, cell in zip(shown, line, strict=True))
        + "</tr>"
        for line in cells
    )
    return f"""<div class="scroll"><table class="many">
<thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>"""


def _kind(column: Column) -> str:
    return ' class="words"' if column.words else ""


def _legend(shown: Sequence[Column]) -> str:
    return "\n".join(f"<dt>{escape(one.head)}</dt><dd>{escape(one.meaning)}</dd>" for one in shown)


def _pictures(group: Sequence[Summary], title: str, name: str) -> str:
    band = Band.of(group)
    cards = "\n".join(
        f"<figure>{inline_svg(column_svg(band, place), f'{name}-{place}-', _said(row))}</figure>"
        for place, row in enumerate(group)
    )
    seeds = f" The maps are of seed {group[0].seeds[0]}; the rest is of all seeds." if len(group[0].seeds) > 1 else ""
    law = ", the dotted line the law by theory" if any(len(one.law) for one in band.panels) else ""
    ring = (
        ", the ring a longest wait that is no gap"
        if any((one.longest or 0) > len(one.steps) for one in band.panels)
        else ""
    )
    spread = ", with the spread between seeds" if len(group[0].seeds) > 1 else ""
    return f"""<section>
<h2>{escape(title)}</h2>
<div class="cards">
{cards}
</div>
<p class="key"><b>Top:</b> the share of gaps of g steps or more, on a log scale; grey are the other retrievals, the
dashed line is the bound proved for {max(row.classes for row in group)} classes that stay{law}{ring}.
<b>Middle:</b> in how many batches two classes met, classes in order of their ids;
<span class="swatch"></span> never.
<b>Bottom:</b> visits of each class over the draws that found it stored{spread}; the dotted line is b/C.{seeds}
All pictures share their axes and colours.</p>
</section>"""


def _said(row: Summary) -> str:
    longest = "no wait at all" if row.longest is None else f"longest wait {row.longest} steps"
    bound = "no bound is proved" if row.bound is None else f"{figure(row.bound, 0)} proved"
    return f"{row.run.retrieval}: {longest}, {bound}; share of pairs met {figure(row.means['pair_coverage'], 3)}."


def inline_svg(svg: str, prefix: str, said: str) -> str:
    """A picture as part of the page: no prologue, ids of its own, colours by name, a sentence for those who hear it."""
    tag, _, body = svg[svg.index("<svg") :].partition(">")
    tag = re.sub(r'\s(?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", tag)
    svg = f"{tag}>" + re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}', svg)
    svg = svg.replace("url(#", f"url(#{prefix}")
    for name, colour in _colours(COLOURS, _LIGHT_SHADES).items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(said)}"', 1)


def _colours(series: Sequence[str], shades: dict[str, str]) -> dict[str, str]:
    return {**shades, **{f"c{place}": colour for place, colour in enumerate(series)}}


def stylesheet() -> str:
    """What a page looks like, by day and by night."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in _colours(*mode).items())
        for mode in ((COLOURS, _LIGHT_SHADES), (_DARK, _DARK_SHADES))
    )
    return f"""
:root{{color-scheme:light dark;--paper:#fff;--card:#fff;--back:#f6f7f9;{light}}}
@media (prefers-color-scheme:dark){{:root{{--paper:#14181d;--card:#1a1f25;--back:#0f1216;{dark}}}}}
{_LAYOUT}"""


_LAYOUT = """*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);line-height:1.55;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:82rem;margin:0 auto;padding:2.5rem clamp(1rem,4vw,3rem)}
h1{font-size:clamp(1.5rem,4vw,2.1rem);line-height:1.2;margin:0 0 .3rem}
h2{font-size:1.15rem;margin:0 0 .8rem}
h3{font-size:1rem;margin:1rem 0 .3rem}
p,ul{max-width:80ch;margin:.6rem 0}
ul{padding-left:1.2rem}
li{margin:.3rem 0}
.sub{color:var(--muted);margin-top:0}
section{margin:2.2rem 0}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--grid);border-radius:.6rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.5rem .8rem;text-align:right;white-space:nowrap}
.many :is(th,td){padding-inline:.45rem}
.many th{white-space:normal;vertical-align:bottom}
th{color:var(--muted);font-weight:500;border-bottom:1px solid var(--grid);cursor:help}
td.words,th.words{text-align:left}
td.words{font-weight:600}
tbody tr+tr td{border-top:1px solid var(--grid)}
.cards{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,16rem),1fr))}
figure{margin:0;padding:.8rem;background:var(--card);border:1px solid var(--grid);border-radius:.6rem}
figure svg{display:block;width:100%;height:auto;max-width:26rem;margin:0 auto}
.key{color:var(--muted);font-size:.92rem;max-width:none}
.swatch{display:inline-block;width:.9em;height:.9em;vertical-align:-.1em;
background:var(--never);border:1px solid var(--others)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.35rem 1.2rem;margin:0;max-width:90ch}
dt{font-weight:600}
dd{margin:0;color:var(--muted)}
footer{margin-top:3rem;color:var(--muted);font-size:.92rem}
pre{background:var(--card);color:var(--ink);border:1px solid var(--grid);border-radius:.6rem;padding:.8rem 1rem;
margin:.4rem 0;white-space:pre-wrap;overflow-wrap:anywhere;
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
@media (max-width:40rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.7rem}}
"""
