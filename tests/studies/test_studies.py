"""The four studies: what they declare, and what they find at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprise.audit import KEYS
from reprise.lab.campaign import Campaign
from reprise.memory import as_retrieval
from reprise.studies import STUDIES, find_study
from reprise.studies.compare import compare
from reprise.studies.paper_figures import paper_figures

CELLS = {"gaps": 52, "dyngaps": 63, "renewal-gaps": 32, "buffer-gaps": 25}


def test_names() -> None:
    assert list(STUDIES) == list(CELLS)
    assert all(name == study.name for name, study in STUDIES.items())
    with pytest.raises(ValueError, match=r"unknown study 'renewal': did you mean 'renewal-gaps'\?"):
        find_study("renewal")


@pytest.mark.parametrize("name", STUDIES)
def test_paper_has_a_figure_for_every_cell_and_none_is_left_over(name: str) -> None:
    study = STUDIES[name]
    judged = {
        (setting.name, arm, column.key)
        for setting in study.settings
        for arm in study.arms
        for column in study.columns
        if column.holds(arm)
    }
    stated = {(setting.name, one.arm, one.key) for setting in study.settings for one in study.beside}
    assert len(judged) == CELLS[name]
    assert set(paper_figures(study)) == judged | stated
    assert all(float(figure) >= 0 for figure in paper_figures(study).values())


@pytest.mark.parametrize("name", STUDIES)
def test_arms_and_figures_exist(name: str) -> None:
    study = STUDIES[name]
    for arm in study.arms:
        assert as_retrieval(arm).spec == arm
    assert {column.key for column in study.columns} <= set(KEYS)
    assert len(study.runs(40)) == 40 * len(study.settings) * len(study.arms)
    assert not study.needs_training


def test_some_figures_as_the_paper_prints_them() -> None:
    assert paper_figures(STUDIES["gaps"])["C=200 b=8", "rpr", "mean"] == "25.00"
    assert paper_figures(STUDIES["dyngaps"])["tinyimagenet-lt100", "fixed", "wall_max"] == "29.8"
    assert paper_figures(STUDIES["renewal-gaps"])["cifar100-lt10", "reused:16", "pair_coverage"] == "0.515"
    assert paper_figures(STUDIES["buffer-gaps"])["buffer=2000", "iid", "deactivations"] == "0.3"


def test_theory_beside_the_static_table() -> None:
    study = STUDIES["gaps"]
    scale, ratio = study.beside[1], study.beside[2]
    assert [round(scale.theory(setting)) for setting in study.settings] == [121, 30, 247, 66]
    assert [round(ratio.theory(setting), 2) for setting in study.settings] == [2.42, 2.43, 2.40, 2.44]
    bound = study.columns[-1].bound
    assert bound is not None
    assert [bound(setting) for setting in study.settings] == [25, 7, 49, 13]
    # Uniform retrieval leaves classes out a little more often than a balanced draw, so it waits a little longer.
    for setting in study.settings:
        assert 1 < study.beside[0].theory(setting) / scale.theory(setting) < 1.25


@pytest.mark.parametrize("name", STUDIES)
def test_small_form_runs(name: str, tmp_path: Path) -> None:
    campaign = Campaign.in_folder(STUDIES[name], tmp_path, seeds=1, error_seeds=2, small=True)
    comparison = compare(campaign, campaign.run(jobs=1))
    assert comparison.judged == []
    assert comparison.verdict.startswith("Small form: not comparable")
    for figure in comparison.figures:
        assert figure.paper is None
        if figure.key == "violations" and figure.arm != "iid":
            assert figure.highest == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_every_cell_is_within_three_standard_errors(name: str, tmp_path: Path) -> None:
    campaign = Campaign.in_folder(STUDIES[name], tmp_path)
    comparison = compare(campaign, campaign.run(jobs=2))
    assert comparison.verdict == f"{CELLS[name]} of {CELLS[name]} cells within three standard errors"


@pytest.mark.slow
def test_arms_of_the_buffer_study_hold_the_same_memory(tmp_path: Path) -> None:
    campaign = Campaign.in_folder(STUDIES["buffer-gaps"], tmp_path, seeds=2, error_seeds=4)
    for run, record in zip(campaign.runs, campaign.run(jobs=2), strict=True):
        if run.retrieval == "iid":
            left = record["audit"]["deactivations"]
        else:
            assert record["audit"]["deactivations"] == left
