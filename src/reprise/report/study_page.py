"""A study's result as one page: self-contained, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from reprise.report.study_tables import NOTHING, beside_row, commands, difference, head, legend, ours, rows, runs_in_all
from reprise.studies.compare import LIMIT, Comparison, Figure, half_unit


def page(comparison: Comparison) -> str:
    """The result as one page that needs nothing else."""
    campaign, study = comparison.campaign, comparison.campaign.study
    picture = "" if campaign.small else f"<section>\n<h2>How far apart</h2>\n{_picture(comparison)}\n</section>"
    beside = _beside_table(comparison) if comparison.beside else ""
    state = "plain" if campaign.small else "bad" if comparison.outside else "good"
    title = "The paper's figures, and ours" if not campaign.small else "A study in its small form"
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in legend(comparison))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Study {escape(study.name)}</title>
<style>{_CSS}</style>
</head>
<body>
<main>
<header>
<p class="sub">Study <b>{escape(study.name)}</b>: {escape(study.table)}</p>
<h1>{title}</h1>
<p>{escape(study.about)}</p>
<p class="verdict {state}">{escape(comparison.verdict)}.</p>
</header>
{picture}
<section>
<h2>Figures</h2>
{_table(comparison)}
</section>
{beside}
<section>
<h2>How they are compared</h2>
<ul>{said}</ul>
</section>
<footer>
<p>Made by Reprise {escape(", ".join(comparison.versions))} with</p>
<pre>{escape(chr(10).join(commands(campaign)))}</pre>
</footer>
</main>
</body>
</html>
"""


def _table(comparison: Comparison) -> str:
    small = comparison.campaign.small
    keys = [column.key for column in comparison.campaign.study.columns]
    heads = "".join(f'<th scope="col">{escape(head(key))}</th>' for key in keys)
    lines = []
    last = ""
    for setting, arm, figures in rows(comparison):
        if setting != last:
            lines.append(
                f'<tr class="setting"><th scope="rowgroup" colspan="{len(keys) + 1}">{escape(setting)}</th></tr>'
            )
            last = setting
        cells = "".join(_cell(figures.get(key), small=small) for key in keys)
        lines.append(f'<tr><th scope="row">{escape(arm)}</th>{cells}</tr>')
    key = (
        "ours, and the standard deviation between runs"
        if small
        else "ours, the paper's, the difference in standard errors"
    )
    return f"""<div class="scroll"><table>
<thead><tr><th></th>{heads}</tr></thead>
<tbody>
{chr(10).join(lines)}
</tbody>
</table></div>
<p class="key">Each cell, from above: <b>{key}</b>.</p>"""


def _cell(figure: Figure | None, *, small: bool) -> str:
    if figure is None:
        return "<td></td>"
    below = f"sd {figure.sd:.2g}" if small else figure.paper or NOTHING
    outside = ' class="outside"' if figure.within is False else ""
    return f"<td{outside}><b>{ours(figure)}</b><span>{below}</span><i>{difference(figure)}</i></td>"


def _beside_table(comparison: Comparison) -> str:
    names = (
        "setting",
        "retrieval",
        "figure",
        "ours",
        f"range over {runs_in_all(comparison.campaign)} runs",
        "the paper's",
        "theory",
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in names) + "<th></th>"
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in beside_row(figure)) + "</tr>"
        for figure in comparison.beside
    )
    return f"""<section>
<h2>Beside the theory</h2>
<p>Single runs scatter too much in these figures to judge one by another.</p>
<div class="scroll"><table class="plain">
<thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody>
</table></div>
</section>"""


_ROW, _GAP = 19, 14  # pixels: height of a row, space between panels
_EDGE = 5.0  # standard errors at the end of an axis; what lies beyond is drawn there, as an arrow


def _picture(comparison: Comparison) -> str:
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
    return f"""<div class="scroll pad"><svg role="img" aria-label="{said}" {box}>
{chr(10).join(parts)}
</svg></div>
<p class="key">Ours less the paper's, in standard errors; the band is ±{LIMIT}. The thin bar is what the paper's
rounding leaves open: a cell is within if its dot or bar reaches the band. <b>◇</b> all runs give the same figure.
<b>▸</b> beyond the axis. Point at a dot for its figures.</p>"""


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


_CSS = """
:root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--ink:#1c2127;--muted:#5c6570;--grid:#e3e6ea;--band:#e8f1f8;
--in:#0072b2;--out:#c7360a;--good:#0a7a55;--goodback:#e5f5ee;--badback:#fdeae4}
@media (prefers-color-scheme:dark){:root{--back:#0f1216;--card:#1a1f25;--ink:#e6e9ed;--muted:#98a2ae;--grid:#2b323a;
--band:#20303d;--in:#5cb3f0;--out:#ff8a4c;--good:#3ccfa0;--goodback:#14302a;--badback:#3a2118}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);line-height:1.55;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:82rem;margin:0 auto;padding:2.5rem clamp(1rem,4vw,3rem)}
h1{font-size:clamp(1.5rem,4vw,2.1rem);line-height:1.2;margin:0 0 .6rem}
h2{font-size:1.15rem;margin:0 0 .8rem}
p,li{max-width:78ch}
p{margin:.6rem 0}
ul{margin:0;padding-left:1.2rem}
.sub{color:var(--muted);margin:0 0 .2rem}
.verdict{display:inline-block;font-weight:600;padding:.45rem .9rem;border-radius:.6rem;border:1px solid var(--grid)}
.good{background:var(--goodback);color:var(--good)}
.bad{background:var(--badback);color:var(--out)}
section{margin:2.2rem 0}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--grid);border-radius:.6rem}
.pad{padding:.8rem 1rem}
svg{display:block;width:100%;height:auto;font-size:12px;font-family:inherit;fill:var(--ink)}
svg .name{font-weight:600}
svg .arm,svg .tick{fill:var(--muted)}
svg .middle{text-anchor:middle}
svg .band{fill:var(--band)}
svg .zero{stroke:var(--muted);stroke-width:1}
svg .row{stroke:var(--grid);stroke-width:1}
svg .in{fill:var(--in);stroke:var(--in)}
svg .out{fill:var(--out);stroke:var(--out)}
svg g line{stroke-width:2;opacity:.55}
svg .hollow{fill:var(--card);stroke-width:1.5}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.45rem .8rem;text-align:right;white-space:nowrap;vertical-align:top}
thead th{color:var(--muted);font-weight:500;border-bottom:1px solid var(--grid)}
tbody th{text-align:left;font-weight:600}
tbody tr+tr>*{border-top:1px solid var(--grid)}
tr.setting th{background:var(--back);color:var(--muted);font-weight:600}
td b,td span,td i{display:block;line-height:1.35;font-style:normal}
td b{font-weight:600}
td span{color:var(--muted)}
td i{color:var(--in);font-size:.85rem}
td.outside{background:var(--badback)}
td.outside i{color:var(--out);font-weight:600}
.plain td:nth-child(-n+3),.plain th:nth-child(-n+3),.plain td:last-child{text-align:left}
.key{color:var(--muted);font-size:.92rem;max-width:none}
footer{margin-top:3rem;color:var(--muted);font-size:.92rem}
pre{background:var(--card);color:var(--ink);border:1px solid var(--grid);border-radius:.6rem;padding:.8rem 1rem;
margin:.4rem 0;white-space:pre-wrap;overflow-wrap:anywhere;
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
"""
