"""The page of a campaign: whole by itself, the verdict first, terms explained once, every number with its runs."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace

import pytest
from made_records import campaign_file, many_records
from pages import needs_nothing_else, read
from report.papers import AUDITED, HOSTILE, TRAINED, report_of

from reprise.lab import StudyPlan
from reprise.lab.outcome import outcome
from reprise.lab.study_runs import study_runs
from reprise.report.campaign_report import CampaignReport
from reprise.report.study_page import page
from reprise.studies import STUDIES

REPORTS = {
    "trained": report_of(TRAINED),
    "audited": report_of(AUDITED),
    "small": report_of(TRAINED, small=True),
    "partial": report_of(TRAINED, without=5),
    "nothing": report_of(TRAINED, without=12),
}


@pytest.fixture(params=REPORTS, scope="module")
def report(request: pytest.FixtureRequest) -> CampaignReport:
    return REPORTS[request.param]


@pytest.fixture(scope="module")
def text(report: CampaignReport) -> str:
    return page(report)


def said(text: str) -> str:
    return " ".join(read(text).text.split())


def test_page_needs_nothing_else(text: str) -> None:
    needs_nothing_else(text)
    assert "<of &" not in text
    assert "<that>" not in text
    assert "<scale>" not in text
    assert "<&" not in text


def test_verdict_stands_before_everything_else(report: CampaignReport, text: str) -> None:
    words = said(text)
    after = [words.index(title) for title in ("Figures", "Settings", "Runs", "How it was made")]
    assert words.index(report.outcome.verdict) < min(after)


def test_terms_are_explained_once(text: str) -> None:
    terms = Counter(re.findall(r"<dfn>(.*?)</dfn>", text))
    assert {"cell", "arm", "seed", "identity", "tape"} <= terms.keys()
    assert set(terms.values()) == {1}


def test_every_figure_leads_to_its_runs(report: CampaignReport, text: str) -> None:
    links = re.findall(r'<a href="#(runs-[\d-]+)">', text)
    figures = [one for one in report.outcome.figures if one.ours is not None]
    assert len(links) >= len(figures) + sum(one.found is not None for one in report.outcome.contrasts)
    for link in links:
        assert f'id="{link}"' in text
    for record in report.outcome.runs.records.values():
        assert record["identity"] in text
        assert record["tape"][:12] in text


def test_figures_stand_beside_the_papers() -> None:
    report = REPORTS["trained"]
    text = page(report)
    assert Counter(re.findall(r'<td class="(agrees|outside)"', text)) == {"agrees": 5, "outside": 1}
    for column in ("ours", "the paper&#x27;s", "agreement", "95% interval", "Holm p", "k of n", "material"):
        assert f">{column}</th>" in text
    assert "−4.5 to −3.5" in text
    assert text.count('class="mark paper"') == 4 + 2  # each printed figure and contrast is drawn
    assert len(re.findall(r'class="mark (?:c\d|bad)"', text)) == len(report.outcome.figures) + 4


def test_trained_page_has_all_pictures_and_audited_no_curves() -> None:
    trained, audited = page(REPORTS["trained"]), page(REPORTS["audited"])
    assert trained.count('<svg class="map"') == audited.count('<svg class="map"') == 2
    assert 'id="curves"' in trained
    assert 'id="curves"' not in audited
    assert 'id="contrasts"' not in audited
    assert "a &lt;scale&gt;" in audited
    assert "bound " in audited
    assert ">violation<" in audited


def test_missing_runs_are_named() -> None:
    words = said(page(REPORTS["partial"]))
    assert "5 of 12 runs have no record" in words
    assert f"{HOSTILE}, rpr: seeds 1 to 2" in words
    assert "paired statistics need at least 2 pairs, got 1" in words
    assert "What is doubtful" in words or not REPORTS["partial"].outcome.doubts
    assert f"rpr in {HOSTILE} has no value for seed 2." in said(page(report_of(TRAINED, without=1)))


def test_page_of_no_run_at_all_says_so() -> None:
    words = said(page(REPORTS["nothing"]))
    assert "12 of 12 runs have no record" in words
    assert "No run has a record." in words


def test_small_form_is_compared_with_nothing() -> None:
    text = page(REPORTS["small"])
    assert "not comparable with the paper" in text
    assert "the paper&#x27;s" not in text
    assert 'class="mark paper"' not in text


def test_settings_tell_what_cells_share_and_what_not() -> None:
    words = said(page(REPORTS["trained"]))
    differ = words[words.index("Settings in which cells differ") : words.index("Settings that all cells share")]
    assert "memory: storage" in differ
    assert "brs" in differ
    assert "memory: buffer" not in differ


def test_exact_command_and_versions_are_there() -> None:
    words = said(page(REPORTS["trained"]))
    assert "reprise study run printed --out out" in words
    assert "2026-01-02 03:04:05 UTC" in words
    assert "torch 2.13.0" in words
    assert "NVIDIA H200" in words


@pytest.fixture(scope="module")
def largest() -> dict[int, CampaignReport]:
    """The primary study with many seeds, every cell with the 200 classes of Tiny-ImageNet."""
    study, found = STUDIES["seams"], {}
    cell = [cell for cell in study.cells if "tinyimagenet" in cell.name][-1]
    few = StudyPlan(replace(study, cells=(cell,), small=(cell,), contrasts=()), 2, 2)
    for seeds in (10, 160):
        plan = StudyPlan(study, seeds, seeds)
        runs = study_runs(study, False, seeds, many_records(plan, few))
        found[seeds] = CampaignReport(outcome(plan, runs), campaign_file(plan))
    return found


@pytest.mark.parametrize("seeds", [10, 160])
def test_page_of_the_primary_study_stays_small_and_quick(largest: dict[int, CampaignReport], seeds: int) -> None:
    report = largest[seeds]
    began = time.process_time()
    again = CampaignReport(outcome(report.plan, report.outcome.runs), report.file)
    text = page(again)
    assert time.process_time() - began < 5  # seconds, for 7,680 runs; reading them has its own share of ten
    assert len(text.encode()) < 2_000_000
