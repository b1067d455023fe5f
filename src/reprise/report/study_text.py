"""A campaign's result as Markdown and as LaTeX tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reprise.lab.figure import Figure
from reprise.lab.outcome import StudyOutcome
from reprise.report.campaign_report import CampaignReport
from reprise.report.run_pages import made_by, trained_for
from reprise.report.study_tables import (
    BESIDE_HEADS,
    CONTRAST_HEADS,
    SPREAD_HEADS,
    beside_row,
    contrast_row,
    difference,
    ours,
    rows,
    spread_row,
    statistics,
)
from reprise.report.study_words import STATISTICS, about, head, limits, missing, rules, short_head


def markdown(report: CampaignReport) -> str:
    """The result as Markdown, opening with the command that made it."""
    outcome, study = report.outcome, report.plan.study
    lines = [f"# Study `{report.name}`", "", "```", report.command, "```", ""]
    what = f"Fills {study.table}" if study.table.startswith("the ") else study.table[:1].upper() + study.table[1:]
    lines += [f"{what}. {about(report.plan)}", "", f"**{outcome.verdict}**", ""]
    if lacking := missing(outcome):
        lines += [f"{report.total - report.done} of {report.total} runs are missing:", "", *_list(lacking), ""]
    if outcome.doubts:
        lines += ["What is doubtful:", "", *_list(outcome.doubts), ""]
    if outcome.contrasts:
        lines += ["## Contrasts", "", *_md_table(CONTRAST_HEADS, map(contrast_row, outcome.contrasts), words=2), ""]
    lines += ["## Figures", "", _each(outcome), "", *_md_figures(outcome), ""]
    heads, table = statistics(outcome)
    if table:
        lines += ["## Statistics that the paper prints", "", STATISTICS, "", *_md_table(heads, table, words=2), ""]
    if outcome.spreads:
        lines += ["## Standard deviations that the paper prints", ""]
        lines += [*_md_table(SPREAD_HEADS, map(spread_row, outcome.spreads), words=3), ""]
    if outcome.beside:
        lines += ["## Beside the theory, not judged", ""]
        lines += [*_md_table(BESIDE_HEADS, map(beside_row, outcome.beside), words=3), ""]
    lines += ["## How figures are compared", "", *_list(rules(outcome)), ""]
    lines += ["## Limits", "", *_list(limits(outcome)), ""]
    made = [f"{report.done:,} of {report.total:,} runs."]
    if records := outcome.runs.records.values():
        made += [made_by(records), trained_for(records)]
    lines += [" ".join(filter(None, made))]
    return "\n".join([*lines, ""])


def _each(outcome: StudyOutcome) -> str:
    if any(one.paper is not None for one in outcome.figures):
        return (
            "Each cell: ours (the paper's), difference in standard errors. Without brackets, the paper prints nothing."
        )
    return "Each cell: ours (the standard deviation between runs)."


def _md_figures(outcome: StudyOutcome) -> list[str]:
    keys = list(dict.fromkeys(column.key for column in outcome.plan.study.columns))
    paper = any(one.paper is not None for one in outcome.figures)
    table = [[cell, arm, *(_md_figure(found.get(key), paper) for key in keys)] for cell, arm, found in rows(outcome)]
    return _md_table(["cell", "arm", *map(head, keys)], table, words=2)


def _md_figure(figure: Figure | None, paper: bool) -> str:
    if figure is None:
        return ""
    if not paper:
        return ours(figure) if figure.sd is None else f"{ours(figure)} ({figure.sd:.2g})"
    if figure.paper is None:
        return ours(figure)
    cell = f"{ours(figure)} ({figure.paper}) {difference(figure)}".rstrip()
    return f"**{cell}**" if figure.within is False else cell


def _md_table(heads: Sequence[str], table: Iterable[Sequence[str]], words: int) -> list[str]:
    rules = ["---"] * words + ["---:"] * (len(heads) - words)
    return [f"| {' | '.join(row)} |" for row in (heads, rules, *table)]


def _list(sentences: Iterable[str]) -> list[str]:
    return [f"- {sentence}" for sentence in sentences]


_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
    "±": r"$\pm$",
    "√": r"$\surd$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "⌈": r"$\lceil$",
    "⌉": r"$\rceil$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
}


def latex(report: CampaignReport) -> str:
    """The tables of figures and of contrasts, for the package booktabs."""
    outcome = report.outcome
    keys = list(dict.fromkeys(column.key for column in outcome.plan.study.columns))
    heads = ["cell", "arm"]
    for key in keys:
        heads += [short_head(key), "paper"] if _printed(outcome, key) else [short_head(key)]
    table = []
    for cell, arm, found in rows(outcome):
        row = [cell, arm]
        for key in keys:
            figure = found.get(key)
            row.append("" if figure is None else ours(figure))
            if _printed(outcome, key):
                row.append("" if figure is None else _judged(figure))
        table.append(row)
    parts = [f"% {report.command}", "% Needs \\usepackage{booktabs}. A figure of the paper's marked * does not agree."]
    parts += _tabular(heads, table, 2, f"Study {report.name}: figures, ours beside the paper's.")
    if outcome.contrasts:
        parts += _tabular(
            CONTRAST_HEADS, map(contrast_row, outcome.contrasts), 2, f"Study {report.name}: contrasts over seeds."
        )
    return "\n".join([*parts, ""])


def _printed(outcome: StudyOutcome, key: str) -> bool:
    return any(one.paper is not None for one in outcome.figures if one.key == key)


def _judged(figure: Figure) -> str:
    return f"{figure.paper or '–'}{'*' * (figure.within is False)}"


def _tabular(heads: Sequence[str], table: Iterable[Sequence[str]], words: int, caption: str) -> list[str]:
    return [
        r"\begin{table}",
        rf"\caption{{{tex(caption)}}}",
        rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(heads) - words)}}}",
        r"\toprule",
        rf"{' & '.join(map(tex, heads))} \\",
        r"\midrule",
        *(rf"{' & '.join(map(tex, row))} \\" for row in table),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def tex(text: str) -> str:
    """Text as LaTeX sets it.

    >>> tex("rpr − iid, 95%")
    'rpr $-$ iid, 95\\\\%'
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)
