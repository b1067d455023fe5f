"""The page of a study: complete by itself, with every judged cell in its picture."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from pages import needs_nothing_else

from reprise.execute import Here
from reprise.lab import StudyPlan, TheoryFigure
from reprise.report.study_page import page
from reprise.report.study_tables import markdown
from reprise.runs import Store
from reprise.studies import compare as module
from reprise.studies.compare import Comparison, compare


@pytest.fixture
def comparison(plan: StudyPlan, store: Store, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """One cell close by, one where runs never differ, one far off, one the paper does not print."""
    name = plan.study.cells[0].name
    printed = {(name, "iid", "mean"): "3", (name, "rpr", "mean"): "3.0", (name, "iid", "max"): "999"}
    monkeypatch.setattr(module, "paper_figures", lambda _: printed)
    beside = (TheoryFigure("max", "iid", lambda setting: 12.0, "a scale"),)
    plan = replace(plan, study=replace(plan.study, beside=beside))
    return compare(plan, plan.execute(store, Here()))


def test_page_is_well_formed_and_complete_by_itself(comparison: Comparison, store: Store) -> None:
    text = page(comparison)
    needs_nothing_else(text)
    assert "<td>12.0</td><td>a scale</td>" in text
    assert "reprise study run tiny --seeds 2 --error-seeds 5 --out out" in text
    assert str(store.folder) not in text  # nobody else's machine has that folder


def test_every_judged_cell_is_in_the_picture(comparison: Comparison) -> None:
    text = page(comparison)
    assert len(re.findall(r"<g class=\"(?:in|out)\">", text)) == len(comparison.judged) == 3
    assert text.count('<g class="out">') == 1
    assert "ours" in text
    assert "999" in text
    assert text.count("outside") >= 2
    assert "2 of 3 cells within three standard errors; outside: C=6 b=2 iid max." in text


def test_small_form_says_that_it_cannot_be_compared(comparison: Comparison, store: Store) -> None:
    study = comparison.campaign.study
    small = StudyPlan(study, seeds=1, error_seeds=2, small=True)
    found = compare(small, small.execute(store, Here()))
    for text in (page(found), markdown(found)):
        assert "not comparable with the paper" in text
        assert "<svg" not in text
        assert "--small" in text


def test_markdown_opens_with_the_command(comparison: Comparison) -> None:
    lines = markdown(comparison).splitlines()
    assert lines[:4] == ["# Study `tiny`", "", "```", "reprise study run tiny --seeds 2 --error-seeds 5 --out out"]
    tables = [line for line in lines if line.startswith("|")]
    assert [line.count("|") for line in tables] == [5] * 4 + [9] * 3
