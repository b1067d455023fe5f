"""All files of a campaign's report, and the index page over the campaigns of a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Any

from reprise import __version__
from reprise.core.files import Damaged, read_json
from reprise.lab.campaign_file import CampaignFile, campaign_files, read_campaign
from reprise.report.campaign_report import CampaignReport
from reprise.runs.store import Store

FORMATS = {
    "html": "page",
    "md": "Markdown",
    "csv": "CSV",
    "tex": "LaTeX",
    "json": "JSON",
    "png": "PNG",
    "svg": "SVG",
}
"""What a report is written as: how each file ends, and what it is called."""


def report_folder(store: Store) -> Path:
    """Where the reports of a store lie, unless told otherwise."""
    return store.folder / "reports"


def report_paths(html: Path, report: CampaignReport, formats: Collection[str] = FORMATS) -> dict[str, Path]:
    """The files of a report by their ends; all lie beside the page. Contrasts have a CSV file of their own."""
    paths = {end: html if end == "html" else html.with_name(f"{html.stem}.{end}") for end in FORMATS if end in formats}
    if "csv" in paths and report.outcome.contrasts:
        paths["contrasts.csv"] = html.with_name(f"{html.stem}-contrasts.csv")
    return paths


def report_contents(report: CampaignReport, paths: dict[str, Path]) -> dict[str, bytes]:
    """What stands in each of these files."""
    from reprise.report.study_data import as_json, contrasts_csv, figures_csv
    from reprise.report.study_text import latex, markdown

    texts: dict[str, Callable[[CampaignReport], str]] = {
        "md": markdown,
        "csv": figures_csv,
        "contrasts.csv": contrasts_csv,
        "tex": latex,
        "json": lambda found: dumps(as_json(found.outcome, found.file), indent=1, allow_nan=False) + "\n",
    }
    contents = {end: make(report).encode() for end, make in texts.items() if end in paths}
    if kinds := [kind for kind in ("png", "svg") if kind in paths]:
        from reprise.report.study_picture import save

        contents |= dict(zip(kinds, save(report.outcome, kinds), strict=True))
    if "html" in paths:
        from reprise.report.study_page import page

        others = {_called(end): path.name for end, path in paths.items() if end != "html"}
        contents["html"] = page(report, others).encode()
    return contents


def _called(end: str) -> str:
    return FORMATS.get(end, "CSV of contrasts")


@dataclass(frozen=True)
class IndexRow:
    """A campaign of a store, as the index shows it."""

    file: CampaignFile
    done: int
    """Runs that have a record now."""
    summary: dict[str, Any] | None
    """What its report says; None where there is no report yet."""
    files: tuple[tuple[str, Path], ...]
    """The files of its report that are there: what each is, and where."""
    problem: str = ""


def index_rows(store: Store) -> list[IndexRow]:
    """Every campaign of a store, the latest first; records are counted, not read."""
    kept = store.ended()
    rows = []
    for path in campaign_files(store):
        try:
            file = read_campaign(path)
        except ValueError as error:
            file, problem = CampaignFile(path.stem, path.stem, False, 0, 0, ()), str(error)
        else:
            problem = ""
        if file is not None:
            done = sum(identity in kept for _, identity in file.runs)
            rows.append(IndexRow(file, done, _summary(store, file.name), _files(store, file.name), problem))
    return sorted(rows, key=lambda row: row.file.began, reverse=True)


def _files(store: Store, name: str) -> tuple[tuple[str, Path], ...]:
    folder = report_folder(store)
    paths = [(FORMATS[end], folder / f"{name}.{end}") for end in FORMATS]
    paths.insert(3, (_called("contrasts.csv"), folder / f"{name}-contrasts.csv"))
    return tuple((what, path) for what, path in paths if path.exists())


def _summary(store: Store, name: str) -> dict[str, Any] | None:
    try:
        found = read_json(report_folder(store) / f"{name}.json")
    except Damaged:
        return None
    return found if isinstance(found, dict) and "verdict" in found else None


def index_page(store: Store, target: Path) -> str:
    """The page over all campaigns of a store, with links that hold from where `target` lies."""
    from reprise.report.html_table import html_table
    from reprise.report.render import render, script

    rows = index_rows(store)
    heads = ["campaign", "verdict", "figures that agree", "runs", "begun (UTC)", "files"]
    table = html_table(
        heads, [_cells(row, target) for row in rows], "Campaigns", words=2, filtered=len(rows) > 1, kind="prose"
    )
    return render("index", rows=rows, table=table, script=script(), version=__version__, command="")


def _cells(row: IndexRow, target: Path) -> Sequence[Any]:
    from reprise.report.html_table import TableCell

    def link(path: Path) -> str:
        return Path(os.path.relpath(path, target.parent)).as_posix()

    page = next((link(path) for what, path in row.files if what == FORMATS["html"]), "")
    found = row.summary or {}
    verdict = row.problem or found.get("verdict", "No report yet.")
    agree = f"{found['agreeing']} of {found['judged']}" if found.get("judged") else ""
    outside = bool(found) and found["agreeing"] < found["judged"]
    return [
        TableCell(row.file.name, link=page),
        TableCell(verdict),
        TableCell(agree, found["agreeing"] / found["judged"] if agree else None, style="outside" if outside else ""),
        TableCell(f"{row.done:,} of {len(row.file.runs):,}", row.done),
        row.file.began[:16].replace("T", " "),
        TableCell("", style="words", links=[(what, link(path)) for what, path in row.files]),
    ]
