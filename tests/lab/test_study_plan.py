"""A study to be made: which runs it takes, what is kept of it, and what is said where some of it is missing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.tinystudies import STUDY, Counted, Failing, result
from processes import started, wait_until

from reprise.core.files import Record, sealed
from reprise.core.record_file import seal
from reprise.execute import Here, Processes
from reprise.execute.one import audit
from reprise.lab import Cell, Progress, StudyFailed, StudyPlan, execute_plans
from reprise.lab.campaign_file import read_campaign
from reprise.lab.study import Key, figure_of
from reprise.lab.study_plan import campaign_path
from reprise.lab.study_runs import StudyRuns
from reprise.runs import Store
from reprise.runs.record import BULKY
from reprise.studies import find_study

PLAN = StudyPlan(STUDY, seeds=2, error_seeds=5)  # one cell, two arms: ten runs
SLOW = """
import sys, time
from lab.tinystudies import STUDY
from reprise.execute import Here
from reprise.lab import StudyPlan
from reprise.runs import Store
from reprise.runs.record import BULKY

plan = StudyPlan(STUDY, seeds=2, error_seeds=5)
plan.execute(Store(sys.argv[1]), Here(), watch=lambda _: time.sleep(0.1))
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def in_order(runs: StudyRuns) -> list[Record]:
    assert runs.missing == []
    return [result(runs.records[key]) for key in PLAN.keys]


def in_brief(runs: StudyRuns) -> dict[Key, Record]:
    """Records without what is not read for a report."""
    return {
        key: {name: value for name, value in record.items() if name not in BULKY}
        for key, record in runs.records.items()
    }


def test_every_run_is_made_once(store: Store) -> None:
    told: list[Progress] = []
    executor = Counted()
    runs = PLAN.execute(store, executor, watch=told.append)
    assert sorted((run.memory.retrieval, run.seed) for run in executor.made) == [
        (arm, seed) for arm in ("iid", "rpr") for seed in range(5)
    ]
    assert [one.done for one in told] == list(range(1, 11))
    again = Counted()
    assert PLAN.execute(store, again).records == runs.records
    assert again.made == []


def test_records_are_found_by_cell_arm_and_seed(store: Store) -> None:
    runs = PLAN.execute(store, Processes(2))
    for (cell, arm, seed), record in runs.records.items():
        assert record["run"] == runs.cell(cell).run(arm, seed).to_dict()
    assert in_order(runs) == [result(audit(run)) for run in PLAN.runs]
    for plan in (PLAN, StudyPlan.of(STUDY)):  # the seeds are those it was last made with
        loaded = plan.load(store)
        assert (loaded.plan, in_brief(loaded.runs)) == (PLAN, in_brief(runs))
    assert "pairs" in loaded.runs.records["C=6 b=2", "rpr", 0]  # maps are of the first seed


def test_more_seeds_make_only_the_new_runs(store: Store) -> None:
    PLAN.execute(store, Here())
    executor = Counted()
    replace(PLAN, error_seeds=6).execute(store, executor)
    assert [(run.memory.retrieval, run.seed) for run in executor.made] == [("iid", 5), ("rpr", 5)]


def test_fewer_seeds_than_before_are_said(store: Store) -> None:
    PLAN.execute(store, Here())
    warned: list[str] = []
    replace(PLAN, error_seeds=2).execute(store, Here(), warn=warned.append)
    assert warned == [
        f"The campaign 'tiny' of {str(store.folder)!r} had 5 seeds and now has 2; reports will be of these. "
        "No record is lost."
    ]


def test_studies_share_what_is_the_same(store: Store) -> None:
    other = replace(
        STUDY, name="other", cells=(replace(STUDY.cells[0], name="by another name"),), arms=("rpr", "fixed")
    )
    plans = [PLAN, StudyPlan(other, seeds=2, error_seeds=5)]
    executor = Counted()
    executed = execute_plans(plans, store, executor)
    assert len(executor.made) == 15  # rpr is asked for by both
    first, second = (executed.runs(plan) for plan in plans)
    assert first.group("C=6 b=2", "rpr").records == second.group("by another name", "rpr").records
    assert {path.name for path in store.folder.glob("campaigns/*")} == {"tiny.json", "other.json"}


def test_a_study_that_was_killed_goes_on_where_it_stopped(store: Store) -> None:
    with started("-c", SLOW, str(store.folder)) as process:
        wait_until(lambda: len(list(store.folder.glob("records/*.json"))) >= 3 or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = len(list(store.records(pytest.fail)))
    assert 3 <= kept < 10
    with pytest.raises(ValueError, match=r"of 10 records of the study 'tiny' are not in .*`reprise study run tiny"):
        PLAN.load(store)
    assert len(PLAN.load(store, partial=True).runs.records) == kept
    executor = Counted()
    runs = PLAN.execute(store, executor)
    assert len(executor.made) == 10 - kept
    assert in_order(runs) == [result(audit(run)) for run in PLAN.runs]


def test_a_record_that_is_gone_is_missed(store: Store) -> None:
    runs = PLAN.execute(store, Here())
    gone, damaged = PLAN.keys[3:5]
    store.record_file(runs.records[gone]["identity"]).unlink()
    store.record_file(runs.records[damaged]["identity"]).write_text("{")
    with pytest.raises(ValueError, match=r"2 of 10 records of the study 'tiny' are not in .* or are damaged: `reprise"):
        PLAN.load(store)
    warned: list[str] = []
    partial = PLAN.load(store, partial=True, warn=warned.append)
    assert partial.runs.missing == [gone, damaged]
    assert "is damaged" in warned[0]
    assert in_order(PLAN.execute(store, Here())) == in_order(runs)
    assert PLAN.load(store).runs.missing == []


@pytest.mark.parametrize("text", ["[", "3", "{}x", '{"seeds": 0, "error_seeds": 4}'])
def test_a_campaign_that_cannot_be_read_is_named(text: str, store: Store) -> None:
    runs = PLAN.execute(store, Here())
    (store.folder / "campaigns" / "tiny.json").write_text(text)
    with pytest.raises(ValueError, match=r"tiny\.json is damaged: .*Its records are still there; `reprise study run`"):
        PLAN.load(store)
    executor = Counted()
    PLAN.execute(store, executor)
    assert executor.made == []
    assert in_brief(PLAN.load(store).runs) == in_brief(runs)


def test_a_campaign_of_another_version_is_named_and_nothing_is_lost(store: Store) -> None:
    runs = PLAN.execute(store, Here())
    path = store.folder / "campaigns" / "tiny.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(sealed({**content, "format": "reprise-campaign/9"})))
    with pytest.raises(ValueError, match=r"another version of reprise: its format is 'reprise-campaign/9', newer than"):
        PLAN.load(store)
    executor = Counted()
    assert PLAN.execute(store, executor).records == runs.records
    assert executor.made == []


def test_a_study_that_has_changed_since_is_named(store: Store) -> None:
    PLAN.execute(store, Here())
    changed = replace(PLAN, study=replace(STUDY, arms=("iid", "rpr", "fixed")))
    said = r"is not the one that was made into .* with reprise .*: fixed in C=6 b=2 with seed 0 is new. Nothing is lost"
    with pytest.raises(ValueError, match=said):
        changed.load(store)
    executor = Counted()
    changed.execute(store, executor)
    assert {run.memory.retrieval for run in executor.made} == {"fixed"}


def test_records_of_other_settings_are_never_shown_as_those_of_the_study(store: Store) -> None:
    PLAN.execute(store, Here())
    cell = replace(STUDY.cells[0], settings={**STUDY.cells[0].settings, "buffer": 18})
    changed = replace(PLAN, study=replace(STUDY, cells=(cell,)))
    for partial in (False, True):
        with pytest.raises(ValueError, match=r"is not the one .*: iid in C=6 b=2 had other settings. Nothing is lost"):
            changed.load(store, partial=partial)
    changed.execute(store, Here())
    assert changed.load(store).runs.missing == []


def rewritten(store: Store, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what every record says of its run, as if another version had written it."""
    for record in list(store.records()):
        change(record["run"])
        store.put(seal(record))


def test_records_from_before_a_setting_existed_are_known(store: Store) -> None:
    cell = Cell("lt10", {"dataset": "cifar10", "imbalance": 10, "batch": 2_000, "buffer": 50})
    plan = StudyPlan(replace(STUDY, cells=(cell,)), seeds=1, error_seeds=2)
    runs = plan.execute(store, Here())
    assert {record["run"]["stream"]["imbalance_seed"] for record in runs.records.values()} == {None}
    rewritten(store, lambda run: run["stream"].pop("imbalance_seed"))
    loaded = plan.load(store).runs
    assert loaded.missing == []
    assert all("imbalance_seed" not in record["run"]["stream"] for record in loaded.records.values())
    executor = Counted()
    plan.execute(store, executor)
    assert executor.made == []
    fixed = replace(cell, settings={**cell.settings, "imbalance_seed": 7})
    with pytest.raises(ValueError, match="iid in lt10 had other settings"):
        replace(plan, study=replace(plan.study, cells=(fixed,))).load(store)


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run["memory"].update(colour="blue"),
        lambda run: run.update(weather={"wind": 3}),
        lambda run: run["memory"].update(retrieval="by-moonlight"),
        lambda run: run.update(memory=3),
    ],
)
def test_records_of_settings_that_nobody_knows_are_of_another_study(
    change: Callable[[dict[str, Any]], None], store: Store
) -> None:
    PLAN.execute(store, Here())
    rewritten(store, change)
    with pytest.raises(ValueError, match=r"is not the one .*: iid in C=6 b=2 had other settings. Nothing is lost"):
        PLAN.load(store)


def test_a_failed_run_is_named_and_the_others_are_kept(store: Store) -> None:
    tries: list[int] = []

    def fails(run):  # type: ignore[no-untyped-def]
        if run.memory.retrieval != "iid":
            return None
        tries.append(run.seed)
        return ZeroDivisionError("by nothing")

    said = (
        r"^5 of 10 runs of study 'tiny' failed; the first, 6 classes that stay, reservoir 12, iid 2, seed 0: by nothing"
    )
    with pytest.raises(StudyFailed, match=f"{said}. The others are kept$"):
        PLAN.execute(store, Failing(fails))
    assert sorted(tries) == sorted([*range(5)] * 2)  # each is tried once more
    assert len(list(store.records())) == 5
    executor = Counted()
    PLAN.execute(store, executor)
    assert {run.memory.retrieval for run in executor.made} == {"iid"}


FORMS = [("mask", False, True), ("mask", True, False), ("gaps", False, False)]


@pytest.mark.parametrize(("name", "small", "said"), FORMS)
def test_a_campaign_names_a_folder_of_images_if_there_must_be_one(
    name: str, small: bool, said: bool, store: Store
) -> None:
    plan = StudyPlan.of(find_study(name), small=small, seeds=2, error_seeds=2)
    plan.campaign_file({}).write(store)
    kept = read_campaign(campaign_path(store, plan.name))
    assert kept is not None
    assert kept.again.endswith(" --seeds 2 --data DIR" if said else " --seeds 2")


def test_an_interrupt_is_not_a_failed_run(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        PLAN.execute(store, Failing(lambda run: KeyboardInterrupt()))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "campaigns").touch()  # where root may write everywhere, this cannot be a folder
    with pytest.raises(ValueError, match=r"campaigns cannot be written to: "):
        PLAN.execute(Store(tmp_path / "out"), Here())


def test_small_form_has_its_own_cells_seeds_and_name() -> None:
    full, small = StudyPlan.of(STUDY), StudyPlan.of(STUDY, small=True)
    assert (full.seeds, full.error_seeds, full.name) == (10, 40, "tiny")
    assert (small.seeds, small.error_seeds, small.name) == (3, 8, "tiny-small")
    assert {run.memory.buffer for run in small.runs} == {8}
    assert len(full.runs) == 80


def test_as_many_seeds_are_trained_as_were_asked_for() -> None:
    """One, too: of audits, which cost little, there are more for the deviation between runs."""
    trained = replace(STUDY, cells=(Cell("a", {"dataset": "cifar10", "learner": "er"}),))
    assert StudyPlan.of(trained, seeds=1).all_seeds == 1
    assert StudyPlan.of(trained, seeds=5).all_seeds == 5
    assert StudyPlan.of(STUDY, seeds=1).all_seeds == 40


@pytest.mark.parametrize(("seeds", "error_seeds"), [(0, 40), (10, 1), (10, 0)])
def test_too_few_seeds_are_an_error(seeds: int, error_seeds: int) -> None:
    with pytest.raises(ValueError, match=r"seeds must be [12] or more, got [01]"):
        StudyPlan(STUDY, seeds, error_seeds)


def test_a_cell_audits_unless_it_names_a_learner() -> None:
    audited, trained = Cell("a", {"dataset": "cifar10"}), Cell("b", {"dataset": "cifar10", "learner": "er"})
    assert [cell.run("iid", 3).trains for cell in (audited, trained)] == [False, True]
    assert trained.run("iid", 3).replace(retrieval="rpr") == trained.run("rpr", 3)
    assert not STUDY.trains
    assert replace(STUDY, cells=(trained,)).trains


def test_figures_are_named_by_their_part() -> None:
    record = {"audit": {"max": 5}, "metrics": {"ema": {"final": 0.25, "forgetting": None}}}
    assert [figure_of(record, key) for key in ("max", "ema.final", "ema.forgetting")] == [5, 25.0, None]
    assert (
        figure_of({**record, "diagnostics": {"drift": {"1-4": {"mean": -0.5}}}}, "diagnostics.drift.1-4.mean") == -0.5
    )
