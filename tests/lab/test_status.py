"""How far a campaign has come, as another process sees it; and runs that failed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from lab.tinystudies import STUDY, Failing, audits

from reprise.execute import Here
from reprise.lab import StudyFailed, StudyPlan, campaign
from reprise.lab.campaign_file import CampaignFile, campaign_files, read_campaign
from reprise.lab.status import WINDOW, CampaignStatus, status
from reprise.runs import Store

PLAN = StudyPlan(STUDY, seeds=2, error_seeds=5)  # ten runs


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def file_of(store: Store) -> CampaignFile:
    (path,) = campaign_files(store)
    found = read_campaign(path)
    assert found is not None
    return found


def state(found: CampaignStatus) -> tuple[str, int, int, int, int]:
    return found.state, found.done, found.under_way, found.failed, found.total


def test_a_campaign_is_seen_while_it_runs(store: Store) -> None:
    seen: list[CampaignStatus] = []

    def look(_: object) -> None:
        seen.append(status(store, file_of(store)))

    PLAN.execute(store, Here(), watch=look)
    # While one run is told of, the next has not been begun; its record is written before it is told of.
    assert [one.done for one in seen] == list(range(1, 11))
    assert state(status(store, file_of(store))) == ("done", 10, 0, 0, 10)
    assert {(arm.cell, arm.arm, arm.total) for arm in seen[0].arms} == {("C=6 b=2", "iid", 5), ("C=6 b=2", "rpr", 5)}


def test_a_run_that_is_claimed_is_under_way_and_a_lapsed_claim_is_not(store: Store) -> None:
    PLAN.execute(store, Here())
    file = file_of(store)
    identities = [identity for _, identity in file.runs]
    for identity in identities[:3]:
        store.record_file(identity).unlink()
    (store.folder / "claims" / identities[0]).touch()  # of a process that was killed
    claim = store.claim(identities[1])
    assert claim is not None
    found = status(store, file)
    assert state(found) == ("under way", 7, 1, 0, 10)
    assert found.workers == (f"process {os.getpid()} on {os.uname().nodename}",)
    assert found.left is not None
    claim.release()
    assert state(status(store, file)) == ("stopped", 7, 0, 0, 10)
    other = store.claim("a run of another campaign")
    assert other is not None
    assert status(store, file).state == "waiting"
    other.release()
    assert status(store, file).left is None


def test_failed_runs_are_listed_until_they_have_a_record(store: Store) -> None:
    broken = Failing(lambda run: ZeroDivisionError("by nothing") if run.memory.retrieval == "iid" else None)
    with pytest.raises(StudyFailed):
        PLAN.execute(store, broken)
    found = status(store, file_of(store))
    assert state(found) == ("failed", 5, 0, 5, 10)
    assert found.failures[0] == (("C=6 b=2", "iid", 0), "by nothing")
    PLAN.execute(store, Here())
    assert state(status(store, file_of(store))) == ("done", 10, 0, 0, 10)
    assert list(store.folder.glob("failed/*")) == []


def test_the_rate_is_that_of_the_last_minutes(store: Store) -> None:
    PLAN.execute(store, Here())
    file = file_of(store)
    now = time.time()
    began = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(now - 2 * WINDOW))
    file = CampaignFile(**{**vars(file), "began": began})
    for place, (_, identity) in enumerate(file.runs):
        when = now - WINDOW - 60 if place < 4 else now - 10 * place  # four long ago, six lately
        os.utime(store.record_file(identity), (when, when))
    found = status(store, file, now)
    assert found.rate == pytest.approx(6 * 60 / WINDOW)
    assert CampaignFile(**{**vars(file), "began": "?"}).began == "?"
    assert status(store, CampaignFile(**{**vars(file), "began": "?"}), now).rate is None


def test_a_run_that_fails_once_is_made_again(store: Store) -> None:
    runs, failed = audits(4), set()

    def fails(run):  # type: ignore[no-untyped-def]
        if run.seed == 2 and run not in failed:
            failed.add(run)
            return OSError("a disk was away")
        return None

    outcomes = list(campaign(runs, Failing(fails), store, retries=1))
    assert {outcome.run.seed: outcome.error for outcome in outcomes} == dict.fromkeys(range(4))
    assert [outcome.run.seed for outcome in outcomes][-1] == 2  # when the others had ended


@pytest.mark.parametrize("error", [ValueError("no such thing"), TypeError("not a number")])
def test_a_request_that_is_wrong_is_not_tried_again(error: Exception, store: Store) -> None:
    tries: list[int] = []

    def fails(run):  # type: ignore[no-untyped-def]
        tries.append(run.seed)
        return error

    outcomes = list(campaign(audits(1), Failing(fails), store, retries=1))
    assert ([outcome.error for outcome in outcomes], tries) == ([error], [0])
