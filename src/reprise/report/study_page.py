"""The page of a campaign: the verdict, tables beside the paper's, figures, settings, and all runs behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reprise import __version__
from reprise.lab.figure import ContrastFigure, Figure
from reprise.lab.outcome import StudyOutcome
from reprise.lab.table import setting_word, settings, shown
from reprise.lab.verdict import unit_of
from reprise.report.campaign_report import CampaignReport
from reprise.report.html_table import TableCell, html_table
from reprise.report.render import Markup, render, script
from reprise.report.run_pages import made_by, trained_for
from reprise.report.study_maps import pair_maps
from reprise.report.study_panels import contrast_panel, curve_panel, figure_panel, styles, tested, wait_panel
from reprise.report.study_runs import Anchors, run_lists
from reprise.report.study_tables import (
    BESIDE_HEADS,
    CONTRAST_HEADS,
    SPREAD_HEADS,
    agreement,
    beside_row,
    contrast_row,
    difference,
    interval,
    more_seeds,
    number,
    ours,
    spread_row,
    statistics,
)
from reprise.report.study_words import STATISTICS, Glossary, about, head, limits, missing, rules, terms_of


def page(report: CampaignReport, files: Mapping[str, str] | None = None) -> str:
    """The page as text; `files` are other forms of the result beside it, by what they are."""
    outcome, glossary, anchors = report.outcome, Glossary(), Anchors(report.outcome)
    style = styles(outcome)
    cells = [cell.name for cell in outcome.runs.cells]
    groups = {cell: {arm: outcome.runs.group(cell, arm) for arm in outcome.runs.arms} for cell in cells}
    maps = next((found for cell in cells if (found := pair_maps(cell, groups[cell])) is not None), None)
    waits = [panel for cell in cells if (panel := wait_panel(cell, groups[cell], style)) is not None]
    curves = [panel for cell in cells if (panel := curve_panel(cell, groups[cell], style)) is not None]
    judged = bool(outcome.judged)
    trained = bool(curves)
    return render(
        "study",
        script=script(),
        half_width=report.half_width,
        study=report.plan.study,
        name=report.name,
        small=report.plan.small,
        about=about(report.plan),
        verdict=outcome.verdict,
        state=("bad" if outcome.outside else "good") if judged else "plain",
        done=report.done,
        total=report.total,
        missing=missing(outcome),
        doubts=outcome.doubts,
        opening=glossary("cell", "arm", "seed"),
        contrasts=_contrasts(report, anchors, glossary) if outcome.contrasts else None,
        measures=_measures(outcome, anchors, glossary, style),
        statistics=_statistics(outcome),
        beside=_beside(outcome, anchors) if outcome.beside else None,
        arms=style,
        waits=waits,
        wait_terms=glossary("gap", "resident", "b, C", "bound") if waits else [],
        maps=maps,
        map_terms=glossary("pair coverage") if maps else [],
        curves=curves,
        curve_seeds=max((len(tested(group).records) for group in outcome.runs.groups.values()), default=0),
        curve_terms=glossary("read-out") if trained else [],
        rules=rules(outcome),
        limits=limits(outcome),
        settings=_settings(outcome),
        run_terms=glossary("identity", "tape"),
        run_lists=run_lists(outcome, anchors),
        made_by=made_by(outcome.runs.records.values()) if outcome.runs.records else "",
        trained_for=trained_for(outcome.runs.records.values()),
        began=report.file.began,
        command=report.command,
        files=files or {},
        version=__version__,
    )


def _contrasts(report: CampaignReport, anchors: Anchors, glossary: Glossary) -> dict[str, Any]:
    outcome = report.outcome
    found: dict[str, list[ContrastFigure]] = {}
    for one in outcome.contrasts:
        found.setdefault(one.contrast.name, []).append(one)
    panels = [(name, panel) for name, some in found.items() if (panel := contrast_panel(some)) is not None]
    points = any(unit_of(one.contrast.key) for one in outcome.contrasts)
    paper = any(one.contrast.paper for one in outcome.contrasts)
    theirs = {CONTRAST_HEADS.index(name) for name in ("the paper's", "agreement", "the paper's interval")}
    hidden = set() if paper else theirs
    heads = [name for place, name in enumerate(CONTRAST_HEADS) if place not in hidden]
    heads += [f"more seeds for ± {report.half_width:g}"] * points + ["runs"]
    rows = []
    for one in outcome.contrasts:
        texts = contrast_row(one)
        cells: list[TableCell | str] = [text for place, text in enumerate(texts) if place not in hidden]
        mean = None if one.found is None else one.found.mean
        cells[2] = TableCell(texts[2], mean, anchors.link(one.contrast.terms[0].cell, one.contrast.terms[0].arm))
        if paper:
            cells[4] = TableCell(texts[4], style=texts[4])
        if points:
            cells.append(more_seeds(one, report.half_width))
        links = dict.fromkeys((term.arm, anchors.link(term.cell, term.arm)) for term in one.contrast.terms)
        cells.append(TableCell("", style="words", links=[*links]))
        rows.append(cells)
    return {
        "panels": panels,
        "table": html_table(heads, rows, "Contrasts", words=2, kind="contrasts"),
        "why": [f"{one.contrast.label}, {one.contrast.name}: {one.why}." for one in outcome.contrasts if one.why],
        "without": [sentence for one in outcome.contrasts for sentence in _without(one)],
        "terms": glossary(
            *("contrast", "interval", *(["agreement"] if paper else []), "relative", "t, p", "Holm p", "k", "material"),
            *(term for one in outcome.contrasts for term in terms_of(one.contrast.key)),
        ),
        "points": points,
    }


def _without(one: ContrastFigure) -> list[str]:
    """Seeds that a contrast leaves out, because a run has no value."""
    if one.found is None:
        return []
    return [
        f"{one.contrast.label}, {one.contrast.name}: {term.arm} in {term.cell} has no value for seed {seed}."
        for term, seeds in zip(one.contrast.terms, one.found.without, strict=True)
        for seed in seeds
    ]


def _measures(
    outcome: StudyOutcome, anchors: Anchors, glossary: Glossary, style: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A part for each figure of the study: its name, its picture and its table."""
    found: list[dict[str, Any]] = []
    for place, column in enumerate(outcome.plan.study.columns):
        figures = [one for one in outcome.figures if one.key == column.key]
        if not figures:
            continue
        paper = any(one.paper is not None for one in figures)
        heads = ["cell", "arm", "ours", *(["the paper's", "agreement", "apart, s.e."] if paper else [])]
        heads += ["95% interval", "sd", "runs"]
        found.append(
            {
                "id": f"figure-{place}",
                "head": head(column.key),
                "panel": figure_panel(figures, style),
                "table": html_table(
                    heads,
                    [_measure_row(one, anchors, paper=paper) for one in figures],
                    f"{head(column.key)[:1].upper()}{head(column.key)[1:]}",
                    words=2,
                ),
                "terms": glossary(*(["agreement", "s.e."] if paper else []), "interval", "sd", *terms_of(column.key)),
            }
        )
    return found


def _measure_row(one: Figure, anchors: Anchors, *, paper: bool) -> list[TableCell | str]:
    row: list[TableCell | str] = [one.cell, one.arm, TableCell(ours(one), one.ours, anchors.link(one.cell, one.arm))]
    if paper:
        theirs = None if one.paper is None else float(one.paper)
        row.append(TableCell(one.paper or "", theirs))
        row.append(TableCell(agreement(one), style=agreement(one)))
        row.append(TableCell(difference(one).removesuffix(" outside"), one.difference))
    sd = number(one.sd, one.digits if one.paper is not None else 3) if one.sd is not None else "–"
    return [*row, interval(one.low, one.high, one.digits), sd, f"{one.n}"]


def _statistics(outcome: StudyOutcome) -> dict[str, Any] | None:
    """What else the paper prints: statistics of contrasts, and standard deviations."""
    heads, table = statistics(outcome)
    if not table and not outcome.spreads:
        return None
    found: dict[str, Any] = {"said": STATISTICS, "table": None, "spreads": None}
    if table:
        found["table"] = html_table(heads, table, "Statistics of contrasts", words=2)
    if outcome.spreads:
        rows: list[list[TableCell | str]] = []
        for one in outcome.spreads:
            cells: list[TableCell | str] = [*spread_row(one)]
            cells[3] = TableCell(spread_row(one)[3], one.ours)
            cells[-1] = TableCell(agreement(one), style=agreement(one))
            rows.append(cells)
        found["spreads"] = html_table(SPREAD_HEADS, rows, "Standard deviations", words=3)
    return found


def _beside(outcome: StudyOutcome, anchors: Anchors) -> Markup:
    rows: list[list[TableCell | str]] = []
    for one in outcome.beside:
        cells: list[TableCell | str] = [*beside_row(one)]
        cells[3] = TableCell(beside_row(one)[3], one.ours, anchors.link(one.cell, one.arm.partition("/")[0]))
        cells[-1] = TableCell(one.theory_name, style="words")
        rows.append(cells)
    return html_table(BESIDE_HEADS, rows, "Beside the theory", words=3)


def _settings(outcome: StudyOutcome) -> dict[str, Markup | None]:
    """The settings that all cells share, and those in which they differ."""
    each: dict[str, list[dict[str, Any]]] = {}
    for (cell, _), group in outcome.runs.groups.items():
        if group.records:
            each.setdefault(cell, []).append(settings(next(iter(group.records.values()))))
    for one in outcome.runs.cells:
        if one.name not in each:  # without any record it is known from the study alone
            each[one.name] = [settings({"run": one.run(outcome.runs.arms[0], 0).to_dict()})]
    names = list(dict.fromkeys(name for some in each.values() for run in some for name in run))
    names.remove("memory.retrieval")
    values = {
        name: {cell: " or ".join(dict.fromkeys(shown(run.get(name)) for run in some)) for cell, some in each.items()}
        for name in names
    }
    shared = {name: next(iter(of.values())) for name, of in values.items() if len({*of.values()}) == 1}
    differ = [name for name in names if name not in shared]
    rows = [[_setting(name), value] for name, value in shared.items() if value != shown(None)]
    shared_table = html_table(["setting", "value"], rows, "Settings that all cells share", words=2, filtered=False)
    found: dict[str, Markup | None] = {"shared": shared_table, "differ": None}
    if differ:
        cells = [[cell, *(values[name][cell] for name in differ)] for cell in each]
        heads = ["cell", *map(_setting, differ)]
        found["differ"] = html_table(heads, cells, "Settings in which cells differ", words=len(heads))
    return found


def _setting(name: str) -> str:
    section, _, _ = name.rpartition(".")
    return f"{section.replace('.', ' ')}: {setting_word(name)}" if section else setting_word(name)
