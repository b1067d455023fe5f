"""A campaign as Markdown, LaTeX, CSV, JSON and pictures, and the index over the campaigns of a store."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from made_records import campaign_file, made_outcome, put_study
from pages import read
from report.papers import AUDITED, TRAINED, report_of

from reprise.lab import StudyPlan
from reprise.report.campaign_report import CampaignReport, load_report
from reprise.report.report_files import FORMATS, index_page, report_contents, report_folder, report_paths
from reprise.report.study_data import contrasts_csv, figure_data, figures_csv
from reprise.report.study_page import page
from reprise.report.study_picture import save
from reprise.report.study_text import latex, markdown
from reprise.runs import Store

REPORTS = {
    "trained": report_of(TRAINED),
    "audited": report_of(AUDITED),
    "small": report_of(TRAINED, small=True),
    "partial": report_of(TRAINED, without=5),
    "one cell": report_of(TRAINED, without=10),
    "nothing": report_of(TRAINED, without=12),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_markdown_opens_with_the_command_and_has_whole_tables(report: CampaignReport) -> None:
    text = markdown(report)
    lines = text.splitlines()
    assert lines[0] == f"# Study `{report.name}`"
    assert lines[3].startswith("reprise study run")
    assert f"**{report.outcome.verdict}**" in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 1 + bool(report.outcome.contrasts) + bool(report.outcome.beside)
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_markdown_ends_with_what_the_runs_were_made_by() -> None:
    last = markdown(REPORTS["partial"]).splitlines()[-1]
    made = next(iter(REPORTS["partial"].outcome.runs.records.values()))["provenance"]
    assert last.startswith("7 of 12 runs. Trained by ")
    assert all(made[name] in last for name in ("torch", "numpy", "device"))
    assert re.search(r"At least one run was being trained for \d+\.\d minutes on NVIDIA H200\.$", last)
    assert markdown(REPORTS["nothing"]).splitlines()[-1] == "0 of 12 runs."


def test_markdown_names_what_is_outside_and_what_is_missing() -> None:
    assert "| outside |" in markdown(REPORTS["trained"])
    assert "5 of 12 runs are missing" in markdown(REPORTS["partial"])
    assert "not comparable with the paper" in markdown(REPORTS["small"])


def test_what_a_partial_report_says_of_itself_is_of_the_runs_that_are_there() -> None:
    said = {
        "trained": ("mean over seeds 0 to 2,", "sd·√(1/3 + 1/10)", "of 2 cells"),
        "partial": ("those of seeds 0 to 2 whose run is there", "sd·√(1/n + 1/10)", "up to 3 seeds"),
        "one cell": ("The result is of 1 cell,", "up to 3 seeds"),
    }
    for name, words in said.items():
        text = markdown(REPORTS[name])
        assert [word for word in words if word not in text] == [], name


def test_one_seed_has_neither_a_deviation_nor_an_interval() -> None:
    one = made_outcome(TRAINED, seeds=1)
    report = CampaignReport(one, campaign_file(one.plan))
    text, rows = markdown(report), list(csv.DictReader(io.StringIO(figures_csv(report))))
    assert {row["sd"] for row in rows} == {row["low"] for row in rows} == {""}
    assert [figure_data(figure)["sd"] for figure in one.figures] == [None] * len(one.figures)
    assert "Ours is the figure of seed 0 alone, without an interval." in text
    assert "and of seed 0. It says nothing of others." in text
    assert "each figure is that of one seed." in text
    assert "seeds 0 to 0" not in text + page(report)
    assert not [figure for figure in one.figures if figure.within is not None]


def test_no_runs_have_no_deviation() -> None:
    text = markdown(report_of(AUDITED, small=True, without=6))
    assert "| iid | – | – |" in text


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_latex_tables_are_rectangular(report: CampaignReport) -> None:
    text = latex(report)
    assert text.isascii()
    tables = re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tables) == 1 + bool(report.outcome.contrasts)
    for columns, body in tables:
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(columns) - 1}
        assert body.count("\\toprule") == body.count("\\midrule") == body.count("\\bottomrule") == 1


def test_csv_has_a_line_for_each_figure_and_contrast() -> None:
    report = REPORTS["trained"]
    figures = list(csv.DictReader(io.StringIO(figures_csv(report))))
    contrasts = list(csv.DictReader(io.StringIO(contrasts_csv(report))))
    assert len(figures) == len(report.outcome.figures)
    assert len(contrasts) == len(report.outcome.contrasts)
    first, found = contrasts[0], report.outcome.contrasts[0].found
    assert found is not None
    assert float(first["mean"]) == found.mean
    assert (first["paper_mean"], first["paper_low"], first["agrees"]) == ("2.9", "2.1", "True")
    assert contrasts[1]["agrees"] == "False"


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_pictures_are_files_of_their_kind_and_the_same_each_time(report: CampaignReport) -> None:
    png, svg = save(report.outcome, ["png", "svg"])
    assert png[:4] == b"\x89PNG"
    assert ET.fromstring(svg).tag.endswith("svg")
    if report is REPORTS["audited"]:
        assert save(report.outcome, ["svg"]) == [svg]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two campaigns; one lacks a run."""
    store = Store(tmp_path / "out")
    put_study(StudyPlan(TRAINED, 2, 2), store)
    put_study(StudyPlan(AUDITED, 2, 2), store, without=1)
    return store


def _write(report: CampaignReport, store: Store) -> None:
    report_folder(store).mkdir(exist_ok=True)
    paths = report_paths(report_folder(store) / f"{report.name}.html", report)
    for end, content in report_contents(report, paths).items():
        paths[end].write_bytes(content)


def test_a_report_is_all_files_and_the_index_leads_to_them(store: Store) -> None:
    folder = report_folder(store)
    _write(load_report(StudyPlan.of(TRAINED), store), store)
    ends = {path.name.partition(".")[2] for path in folder.glob("printed.*")}
    assert ends == {*FORMATS}
    assert (folder / "printed-contrasts.csv").exists()
    for target in (folder / "index.html", store.folder / "elsewhere.html"):
        text = index_page(store, target)
        links = [value for name, value in read(text).attributes if name == "href" and value]
        assert len(links) == len(FORMATS) + 2  # and one for the campaign's name
        for link in links:
            assert (target.parent / link).resolve().exists()
    said = " ".join(read(text).text.split())
    assert "8 of 8" in said
    assert "7 of 8" in said
    assert "No report yet." in said
    assert "5 of 6" in said  # figures that agree


def test_json_tells_what_the_page_does(store: Store) -> None:
    report = load_report(StudyPlan.of(TRAINED), store)
    found = json.loads(report_contents(report, report_paths(Path("x.html"), report, ["json"]))["json"])
    assert found["verdict"] == report.outcome.verdict
    assert (found["agreeing"], found["judged"], found["runs"]) == (5, 6, 8)
    assert len(found["per_run"]) == 8
    assert {one["identity"] for one in found["per_run"]} == {*report.file.identities.values()}


def test_what_is_missing_is_an_error_unless_part_is_asked_for(store: Store) -> None:
    with pytest.raises(ValueError, match="1 of 8 records of the study 'labels' are not in"):
        load_report(StudyPlan.of(AUDITED), store)
    report = load_report(StudyPlan.of(AUDITED), store, partial=True)
    assert (report.done, report.total) == (7, 8)


def test_index_names_a_campaign_file_that_is_damaged(store: Store) -> None:
    (store.folder / "campaigns" / "printed.json").write_text("{}")
    assert "is damaged" in index_page(store, store.folder / "index.html")


def test_index_of_an_empty_store_says_so(tmp_path: Path) -> None:
    assert "No study was begun" in index_page(Store(tmp_path), tmp_path / "index.html")
