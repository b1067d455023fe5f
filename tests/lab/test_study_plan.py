"""A study to be made: which runs it takes, what is kept of it, and what is said where some of it is missing."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from lab.tinystudies import STUDY, Counted, Failing, result
from processes import started, wait_until

from reprise.core.files import Record
from reprise.execute import Here, Processes
from reprise.execute.one import audit
from reprise.lab import Cell, Progress, StudyFailed, StudyPlan
from reprise.lab.study import figure_of
from reprise.runs import Store

PLAN = StudyPlan(STUDY, seeds=2, error_seeds=5)  # one cell, two arms: ten runs
SLOW = """
import sys, time
from lab.tinystudies import STUDY
from reprise.execute import Here
from reprise.lab import StudyPlan
from reprise.runs import Store

plan = StudyPlan(STUDY, seeds=2, error_seeds=5)
plan.execute(Store(sys.argv[1]), Here(), watch=lambda _: time.sleep(0.1))
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def results(records: list[Record]) -> list[Record]:
    return [result(record) for record in records]


def test_every_run_is_made_once(store: Store) -> None:
    told: list[Progress] = []
    executor = Counted()
    records = PLAN.execute(store, executor, watch=told.append)
    assert sorted((run.memory.retrieval, run.seed) for run in executor.made) == [
        (arm, seed) for arm in ("iid", "rpr") for seed in range(5)
    ]
    assert [one.done for one in told] == list(range(1, 11))
    again = Counted()
    assert PLAN.execute(store, again) == records
    assert again.made == []


def test_records_come_in_the_order_of_the_runs(store: Store) -> None:
    records = PLAN.execute(store, Processes(2))
    assert [record["run"] for record in records] == [run.to_dict() for run in PLAN.runs]
    assert results(records) == [result(audit(run)) for run in PLAN.runs]
    assert PLAN.load(store) == (PLAN, records)
    assert StudyPlan.of(STUDY).load(store) == (PLAN, records)  # the seeds are those it was last made with


def test_more_seeds_make_only_the_new_runs(store: Store) -> None:
    PLAN.execute(store, Here())
    executor = Counted()
    replace(PLAN, error_seeds=6).execute(store, executor)
    assert [(run.memory.retrieval, run.seed) for run in executor.made] == [("iid", 5), ("rpr", 5)]


def test_studies_share_what_is_the_same(store: Store) -> None:
    PLAN.execute(store, Here())
    other = replace(STUDY, name="other", cells=(replace(STUDY.cells[0], name="by another name"),))
    executor = Counted()
    StudyPlan(other, seeds=2, error_seeds=5).execute(store, executor)
    assert executor.made == []
    assert {path.name for path in store.folder.glob("*.json")} == {"tiny.json", "other.json"}


def test_a_study_that_was_killed_goes_on_where_it_stopped(store: Store) -> None:
    with started("-c", SLOW, str(store.folder)) as process:
        wait_until(lambda: len(list(store.folder.glob("records/*.json"))) >= 3 or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = len(list(store.records(pytest.fail)))
    assert 3 <= kept < 10
    with pytest.raises(ValueError, match=r"does not hold the study 'tiny': `reprise study run tiny --out .*` makes or"):
        PLAN.load(store)
    executor = Counted()
    records = PLAN.execute(store, executor)
    assert len(executor.made) == 10 - kept
    assert results(records) == [result(audit(run)) for run in PLAN.runs]


def test_a_record_that_is_gone_is_missed(store: Store) -> None:
    records = PLAN.execute(store, Here())
    store.record_file(records[3]["identity"]).unlink()
    store.record_file(records[4]["identity"]).write_text("{")
    with pytest.raises(ValueError, match=r"2 of 10 records of the study 'tiny' are not in .* or are damaged: `reprise"):
        PLAN.load(store)
    assert results(PLAN.execute(store, Here())) == results(records)
    assert len(PLAN.load(store)[1]) == 10


@pytest.mark.parametrize("text", ["[", "3", "{}x", '{"seeds": 0, "error_seeds": 4}', '{"seeds": 2, "error": 5}'])
def test_seeds_that_cannot_be_read_are_named(text: str, store: Store) -> None:
    records = PLAN.execute(store, Here())
    (store.folder / "tiny.json").write_text(text)
    with pytest.raises(
        ValueError, match=r"tiny\.json is damaged: .*; `reprise study run tiny --out .*` writes it anew"
    ):
        PLAN.load(store)
    executor = Counted()
    PLAN.execute(store, executor)
    assert executor.made == []
    assert PLAN.load(store)[1] == records


def test_a_failed_run_is_named_and_the_others_are_kept(store: Store) -> None:
    broken = Failing(lambda run: ZeroDivisionError("by nothing") if run.memory.retrieval == "iid" else None)
    said = (
        r"^5 of 10 runs of study 'tiny' failed; the first, 6 classes that stay, reservoir 12, iid 2, seed 0: by nothing"
    )
    with pytest.raises(StudyFailed, match=f"{said}. The others are kept$"):
        PLAN.execute(store, broken)
    assert len(list(store.records())) == 5
    assert not (store.folder / "tiny.json").exists()
    executor = Counted()
    PLAN.execute(store, executor)
    assert {run.memory.retrieval for run in executor.made} == {"iid"}


def test_an_interrupt_is_not_a_failed_run(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        PLAN.execute(store, Failing(lambda run: KeyboardInterrupt()))


def test_small_form_has_its_own_cells_seeds_and_name() -> None:
    full, small = StudyPlan.of(STUDY), StudyPlan.of(STUDY, small=True)
    assert (full.seeds, full.error_seeds, full.name) == (10, 40, "tiny")
    assert (small.seeds, small.error_seeds, small.name) == (3, 8, "tiny-small")
    assert {run.memory.buffer for run in small.runs} == {8}
    assert len(full.runs) == 80


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
