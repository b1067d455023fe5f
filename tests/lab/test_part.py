"""A part of a study is the same runs, figures and contrasts that the whole study has of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_records import made_outcome
from report.papers import TRAINED

from reprise.execute import Here
from reprise.lab import StudyPlan, execute_plans, part_of
from reprise.lab.campaign_file import read_campaign
from reprise.lab.outcome import outcome
from reprise.lab.study_plan import campaign_path
from reprise.lab.study_runs import TestRuns
from reprise.report.campaign_report import load_report
from reprise.report.study_text import markdown
from reprise.runs import Store
from reprise.studies import STUDIES, find_study

DYNGAPS = find_study("dyngaps")
CIFAR = "dataset=cifar100,retrieval=iid,retrieval=rpr"


@pytest.mark.parametrize("small", [False, True], ids=["full", "small"])
@pytest.mark.parametrize("name", STUDIES)
def test_the_parts_by_a_fact_are_the_whole(name: str, small: bool) -> None:
    study = STUDIES[name]
    cells = study.form_cells(small=small)
    for fact in dict.fromkeys(fact for cell in cells for fact in cell.facts):
        values = dict.fromkeys(cell.facts[fact] for cell in cells if fact in cell.facts)
        parts = [part_of(study, f"{fact}={value}", small=small) for value in values if "," not in value]
        found = [key for part in parts for key in part.keys(2, small=small)]
        assert len(found) == len({*found})
        assert {*found} == {key for key in study.keys(2, small=small) if fact in _facts(cells, key[0])}
        whole = {(one.name, one.label): one for one in study.form_contrasts(small=small)}
        for part in parts:
            assert part.form_arms(small=small) == study.form_arms(small=small)
            assert part.form_cells(small=not small) == study.form_cells(small=not small)
            for one in part.form_contrasts(small=small):
                assert one == whole[one.name, one.label]
    arms = study.form_arms(small=small)
    one_arm = part_of(study, f"retrieval={arms[0]}", small=small)
    assert one_arm.keys(2, small=small) == [key for key in study.keys(2, small=small) if key[1] == arms[0]]
    assert part_of(study, "", small=small) is study


def _facts(cells: object, name: str) -> object:
    return next(cell.facts for cell in cells if cell.name == name)  # type: ignore[attr-defined]


def test_figures_of_a_part_are_those_of_the_whole() -> None:
    whole = made_outcome(TRAINED)
    part = part_of(TRAINED, "storage=reservoir")
    found = outcome(StudyPlan(part, 3, 3), TestRuns(part, False, 3, whole.runs.records))
    name = part.cells[0].name
    assert found.figures == tuple(one for one in whole.figures if one.cell == name)
    assert [one.found for one in found.contrasts] == [
        one.found for one in whole.contrasts if {term.cell for term in one.contrast.terms} == {name}
    ]
    assert len(found.contrasts) == 1  # across storages there is nothing to compare


@pytest.mark.parametrize(
    ("only", "why"),
    [
        ("dataset=cifar10", "unknown dataset 'cifar10': did you mean 'cifar100'"),
        ("data=cifar100", "unknown name 'data': did you mean 'dataset'"),
        ("retrieval=rprr", "unknown retrieval 'rprr': did you mean 'rpr'"),
        ("cifar100", "is named as dataset=cifar100,storage=brs, got 'cifar100'"),
        ("dataset=cifar100,", "is named as"),
        ("dataset=", "is named as"),
    ],
)
def test_what_no_study_has_is_refused(only: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        part_of(DYNGAPS, only)


def test_a_part_without_a_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="no cell that is all of 'stream=lt100,dataset=tinyimagenet'"):
        part_of(find_study("seams"), "stream=lt100,dataset=tinyimagenet")


def test_a_campaign_of_a_part_is_whole_by_itself(tmp_path: Path) -> None:
    store, warned = Store(tmp_path), list[str]()
    plan = StudyPlan.of(DYNGAPS, seeds=2, error_seeds=2, only=CIFAR)
    execute_plans([plan], store, Here(), warn=warned.append)
    assert warned == []
    kept = read_campaign(campaign_path(store, "dyngaps"))
    assert kept is not None
    assert (kept.only, len(kept.runs)) == (CIFAR, 4)
    assert kept.again.endswith(f"--only {CIFAR} --seeds 2")
    for asked in (StudyPlan.of(DYNGAPS), plan):  # a report is asked for by the study's name alone
        loaded = asked.load(store)
        assert loaded.plan.study == plan.study
        assert (len(loaded.runs.records), loaded.runs.missing) == (4, [])
    text = markdown(load_report(StudyPlan.of(DYNGAPS), store))
    assert f"Only a part was asked for: {CIFAR}." in text
    assert "tinyimagenet" not in text
    with pytest.raises(ValueError, match=r"is the part dataset=cifar100,.*, not the part dataset=tinyimagenet: `repr"):
        StudyPlan.of(DYNGAPS, only="dataset=tinyimagenet").load(store)


def test_a_smaller_campaign_says_what_is_no_longer_reported(tmp_path: Path) -> None:
    store, warned = Store(tmp_path), list[str]()
    for only in (CIFAR, "dataset=cifar100", "dataset=cifar100,retrieval=rpr"):
        execute_plans([StudyPlan.of(DYNGAPS, seeds=1, error_seeds=2, only=only)], store, Here(), warn=warned.append)
    assert warned == [
        f"The campaign 'dyngaps' of {str(tmp_path)!r} was the part dataset=cifar100, 2 seeds and now is the part "
        "dataset=cifar100,retrieval=rpr, 2 seeds; reports will be of these. No record is lost."
    ]


def test_a_part_of_facts_that_are_gone_is_a_study_that_has_changed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    StudyPlan.of(DYNGAPS, seeds=1, error_seeds=2, only="dataset=cifar100").execute(store, Here())
    renamed = part_of(DYNGAPS, "dataset=tinyimagenet")
    with pytest.raises(ValueError, match="is not the one that was made into"):
        StudyPlan.of(renamed).load(store)
