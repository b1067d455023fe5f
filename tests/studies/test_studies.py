"""The studies: what they declare, and what those of the paper find at full size."""

from __future__ import annotations

import pytest

from reprise.audit import KEYS
from reprise.execute import Here, Processes
from reprise.lab import Study, StudyPlan
from reprise.memory import as_retrieval
from reprise.runs import Store
from reprise.studies import STUDIES, find_study
from reprise.studies.compare import compare
from reprise.studies.paper_figures import paper_figures

CELLS = {"gaps": 52, "dyngaps": 63, "renewal-gaps": 32, "buffer-gaps": 25, "seams": 24, "gap-drift": 18}


def test_names() -> None:
    assert list(STUDIES) == [*CELLS, "demo"]
    assert {name for name, study in STUDIES.items() if study.trains} == {"seams", "gap-drift", "demo"}
    assert all(name == study.name for name, study in STUDIES.items())
    with pytest.raises(ValueError, match=r"unknown study 'renewal': did you mean 'renewal-gaps'\?"):
        find_study("renewal")


@pytest.mark.parametrize("name", CELLS)
def test_paper_has_a_figure_for_every_cell_and_none_is_left_over(name: str) -> None:
    study = STUDIES[name]
    judged = {
        (setting.name, arm, column.key)
        for setting in study.cells
        for arm in study.arms
        for column in study.columns
        if column.holds(arm)
    }
    stated = {(setting.name, one.arm, one.key) for setting in study.cells for one in study.beside}
    assert len(judged) == CELLS[name]
    assert set(paper_figures(study)) == judged | stated
    assert all((float(figure) >= 0) != (name == "gap-drift") for figure in paper_figures(study).values())


@pytest.mark.parametrize("name", CELLS)
def test_arms_and_figures_exist(name: str) -> None:
    study = STUDIES[name]
    for arm in study.arms:
        assert as_retrieval(arm).spec == arm
    named = {column.key for column in study.columns if "." not in column.key}
    assert named <= set(KEYS)
    assert study.trains or len(named) == len(study.columns)
    assert len(study.runs(4)) == study.count(4) == 4 * len(study.cells) * len(study.arms)


def test_a_study_of_our_own_is_not_judged_by_the_paper(tiny: Study, plan: StudyPlan, store: Store) -> None:
    """It has no figures there, and figures of trained networks may be among its columns."""
    assert paper_figures(tiny) == paper_figures(STUDIES["demo"]) == {}
    assert [column.key for column in STUDIES["demo"].columns] == ["ema.final", "live.final", "max"]
    found = compare(plan, plan.execute(store, Here()))
    assert found.judged == []
    assert [figure.paper for figure in found.figures] == [None] * 4


def test_runs_of_the_demo_come_in_pairs_that_differ_in_retrieval_alone() -> None:
    runs = STUDIES["demo"].runs(3)
    assert [(run.memory.retrieval, run.seed) for run in runs] == [(arm, k) for k in range(3) for arm in ("iid", "rpr")]
    for base, arm in zip(runs[::2], runs[1::2], strict=True):
        assert base.replace(retrieval="rpr") == arm


def test_some_figures_as_the_paper_prints_them() -> None:
    assert paper_figures(STUDIES["gaps"])["C=200 b=8", "rpr", "mean"] == "25.00"
    assert paper_figures(STUDIES["dyngaps"])["tinyimagenet-lt100", "fixed", "wall_max"] == "29.8"
    assert paper_figures(STUDIES["renewal-gaps"])["cifar100-lt10", "reused:16", "pair_coverage"] == "0.515"
    assert paper_figures(STUDIES["buffer-gaps"])["buffer=2000", "iid", "deactivations"] == "0.3"


def test_theory_beside_the_static_table() -> None:
    study = STUDIES["gaps"]
    scale, ratio = study.beside[1], study.beside[2]
    assert [round(scale.theory(setting)) for setting in study.cells] == [121, 30, 247, 66]
    assert [round(ratio.theory(setting), 2) for setting in study.cells] == [2.42, 2.43, 2.40, 2.44]
    bound = study.columns[-1].bound
    assert bound is not None
    assert [bound(setting) for setting in study.cells] == [25, 7, 49, 13]
    # Uniform retrieval leaves classes out a little more often than a balanced draw, so it waits a little longer.
    for setting in study.cells:
        assert 1 < study.beside[0].theory(setting) / scale.theory(setting) < 1.25


@pytest.mark.parametrize("name", CELLS)
def test_small_form_runs(name: str, store: Store) -> None:
    plan = StudyPlan.of(STUDIES[name], seeds=1, error_seeds=2, small=True)
    comparison = compare(plan, plan.execute(store, Here()))
    assert comparison.judged == []
    assert comparison.verdict.startswith("Small form: not comparable")
    for figure in comparison.figures:
        assert figure.paper is None
        if figure.key == "violations" and figure.arm != "iid":
            assert figure.highest == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_is_within_three_standard_errors(name: str, store: Store) -> None:
    plan = StudyPlan.of(STUDIES[name])
    comparison = compare(plan, plan.execute(store, Processes(2)))
    assert comparison.verdict == f"{CELLS[name]} of {CELLS[name]} cells within three standard errors"


@pytest.mark.slow
def test_arms_of_the_buffer_study_hold_the_same_memory(store: Store) -> None:
    plan = StudyPlan(STUDIES["buffer-gaps"], seeds=2, error_seeds=4)
    for run, record in zip(plan.runs, plan.execute(store, Processes(2)), strict=True):
        if run.memory.retrieval == "iid":
            left = record["audit"]["deactivations"]
        else:
            assert record["audit"]["deactivations"] == left
