"""Campaigns: each run once, kept as soon as it is made, whatever happens to the rest."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from lab.tinystudies import DAMAGE, Counted, Failing, audits, result, scratch_files

from reprise.core.files import Record
from reprise.execute import Here, Processes, RunOutcome, choose
from reprise.execute.one import audit
from reprise.lab import Progress, campaign, run_all
from reprise.runs import Run, Store, TrainingFailed

RUNS = audits(4)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def made(runs: list[Run], store: Store | None, executor: Any = None, **more: Any) -> list[RunOutcome]:
    return list(campaign(runs, executor or Here(), store, **more))


def identities(records: list[RunOutcome]) -> set[str]:
    return {result(one.record)["identity"] for one in records}


def test_every_record_is_kept_when_its_run_is_given(store: Store) -> None:
    for number, outcome in enumerate(campaign(RUNS, Here(), store), 1):
        assert len(list(store.records())) == number
        assert outcome.record == store.get(result(outcome.record)["identity"])
        assert result(outcome.record) == result(audit(outcome.run))
        assert (outcome.error, outcome.known) == (None, False)


def test_progress_says_how_many_had_a_record(store: Store) -> None:
    half = campaign(RUNS, Here(), store)
    next(half)
    half.close()
    told: list[Progress] = []
    list(campaign(RUNS, Here(), store, watch=told.append))
    assert (told[0].done, told[0].known) == (1, 1)
    assert (told[-1].done, told[-1].known) == (len(RUNS), 1)


def test_what_has_a_record_is_not_made_again(store: Store) -> None:
    half = campaign(RUNS, Here(), store)
    first = next(half)
    half.close()
    executor = Counted()
    again = made(RUNS, store, executor)
    assert executor.made == RUNS[1:]
    assert {one.run: one.known for one in again} == {run: run == RUNS[0] for run in RUNS}
    assert again[0].record == first.record
    assert len(made(RUNS, store, executor)) == 4
    assert executor.made == RUNS[1:]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_named_and_made_again(damage: str, store: Store) -> None:
    change, why = DAMAGE[damage]
    before = {one.run: result(one.record) for one in made(RUNS, store)}
    path = store.record_file(before[RUNS[2]]["identity"])
    path.write_bytes(change(path.read_bytes()))
    said: list[str] = []
    executor = Counted()
    after = {one.run: result(one.record) for one in made(RUNS, store, executor, warn=said.append)}
    assert executor.made == [RUNS[2]]
    assert after == before
    (sentence,) = said
    assert sentence.startswith(f"The record {path} {why}")
    assert sentence.endswith(". It is not used; its run is made again where it is needed.")
    assert len(list(store.records(pytest.fail))) == 4


def test_a_record_of_another_run_is_not_taken_for_this_one(store: Store) -> None:
    files = [store.record_file(result(one.record)["identity"]) for one in made(RUNS, store)]
    shutil.copy(files[1], files[0])
    said: list[str] = []
    executor = Counted()
    made(RUNS, store, executor, warn=said.append)
    assert executor.made == RUNS[:1]
    assert f"it is the record of the run {files[1].stem}" in said[0]


def test_a_run_that_fails_does_not_stop_the_others(store: Store) -> None:
    broken = Failing(lambda run: ZeroDivisionError("nothing by nothing") if run.seed == 1 else None)
    ended = {one.run: one for one in made(RUNS, store, broken)}
    assert set(ended) == set(RUNS)
    assert isinstance(ended[RUNS[1]].error, ZeroDivisionError)
    assert [one.record is None for one in ended.values()] == [run == RUNS[1] for run in ended]
    assert len(list(store.records())) == 3
    executor = Counted()
    made(RUNS, store, executor)
    assert executor.made == [RUNS[1]]


def test_runs_whose_data_cannot_be_read_do_not_stop_the_others(store: Store, tmp_path: Path) -> None:
    lost = [Run.of(learner=None, dataset=str(tmp_path / "nowhere"), buffer=8, seed=seed) for seed in (0, 1)]
    ended = made([*lost, *RUNS], store)
    assert [one.run for one in ended if one.error is not None] == lost
    assert len(list(store.records())) == 4


def test_a_run_that_is_listed_twice_is_made_once_and_told_of_once(store: Store) -> None:
    told: list[Progress] = []
    for where in (None, store):
        executor = Counted()
        ended = made([*RUNS, RUNS[0], RUNS[2]], where, executor, watch=told.append)
        assert [one.run for one in ended] == RUNS
        assert (told[-1].done, told[-1].failed, told[-1].total) == (4, 0, 4)
    assert executor.made == RUNS


def test_what_is_told_adds_up(store: Store) -> None:
    made(RUNS[:1], store)
    told: list[Progress] = []
    broken = Failing(lambda run: ValueError("no") if run.seed == 1 else None)
    made(RUNS, store, broken, watch=told.append)
    assert [(one.done, one.failed, one.total) for one in told] == [(1, 0, 4), (2, 1, 4), (3, 1, 4), (4, 1, 4)]


def test_without_a_store_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    executor = Counted()
    assert len(made(RUNS, None, executor)) == 4
    assert {job.checkpoints for job in executor.jobs} == {None}
    assert list(tmp_path.iterdir()) == []
    assert made([], None) == []


def test_the_store_is_in_order_at_the_end(store: Store) -> None:
    ended = made(RUNS, store)
    assert scratch_files(store.folder) == []
    assert {path.name for path in store.folder.iterdir()} == {"records", "claims", "index.md"}
    text = (store.folder / "index.md").read_text(encoding="utf-8")
    assert text.startswith("4 runs; ")
    for one in ended:
        record = result(one.record)
        assert f"| {one.name} | {record['identity']} | longest gap {record['audit']['max']} |" in text.splitlines()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, GeneratorExit])
def test_a_campaign_that_is_stopped_leaves_order_and_what_it_made(stop: type[BaseException], store: Store) -> None:
    broken = Failing(lambda run: KeyboardInterrupt() if run.seed == 2 else None)
    ended = campaign(RUNS, broken, store)
    first, second = next(ended), next(ended)
    if stop is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            next(ended)
    else:
        ended.close()
    assert scratch_files(store.folder) == []
    assert {record["identity"] for record in store.records()} == identities([first, second])
    executor = Counted()
    made(RUNS, store, executor)
    assert executor.made == RUNS[2:]


def test_a_record_that_cannot_be_written_leaves_no_part(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprise.core.files.os.replace", full)
    with pytest.raises(TrainingFailed, match=r"the record .* cannot be written: No space left on device"):
        made(RUNS, store)
    assert scratch_files(store.folder) == []
    assert list(store.records()) == []


def test_many_processes_give_the_same_records(store: Store) -> None:
    together = {one.run: result(one.record) for one in made(RUNS, store, Processes(2))}
    assert together == {run: result(audit(run)) for run in RUNS}
    assert scratch_files(store.folder) == []


def test_who_makes_runs_is_chosen_by_what_there_is_to_do() -> None:
    assert isinstance(choose(audits(2), jobs=2), Here)
    assert isinstance(choose(audits(20), jobs=1), Here)
    assert isinstance(choose(audits(20), jobs=2), Processes)
    with pytest.raises(ValueError, match="jobs must be 1 or more, got 0"):
        list(run_all(audits(20), jobs=0))


def test_a_store_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"file' is a file; a store is a folder"):
        list(run_all(RUNS, out=tmp_path / "file"))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "claims").touch()
    with pytest.raises(ValueError, match=r"claims cannot be made: "):
        list(run_all(RUNS, out=tmp_path / "store"))


def test_records_are_the_same_whatever_the_store_holds(store: Store) -> None:
    """The same description is the same run, however it was said."""
    made(RUNS, store)
    said_otherwise = [Run.from_dict(json.loads(json.dumps(run.to_dict()))) for run in RUNS]
    executor = Counted()
    records: list[Record] = [result(one.record) for one in made(said_otherwise, store, executor)]
    assert executor.made == []
    assert [record["run"] for record in records] == [run.to_dict() for run in RUNS]


def test_checkpoints_stay_where_the_record_cannot_be_used(store: Store) -> None:
    identities = [result(one.record)["identity"] for one in made(RUNS[:2], store)]
    for identity in identities:
        (store.unfinished(identity) / "step-00000001").mkdir(parents=True)
    store.record_file(identities[0]).write_text("{}")
    store.tidy()
    assert [store.unfinished(identity).exists() for identity in identities] == [True, False]


def test_scratch_files_of_an_index_go_whoever_left_them(store: Store) -> None:
    made(RUNS[:1], store)
    for name in (".index.md.123.456.part", ".index.md.123.part"):  # by writing it; by trying whether one could
        (store.folder / name).touch()
    store.tidy()
    assert scratch_files(store.folder) == []


def test_a_store_that_cannot_be_put_in_order_takes_no_result_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    told: list[str] = []
    monkeypatch.setattr("reprise.runs.store.write_atomic", refused)
    assert all(one.record for one in made(RUNS, store, warn=told.append))
    monkeypatch.setattr("reprise.runs.store.Lock", refused)
    (store.folder / "claims" / "lapsed").touch()
    assert all(one.known for one in made(RUNS, store, warn=told.append))
    assert told == [f"The store {store.folder} could not be put in order: No space left on device."] * 2
