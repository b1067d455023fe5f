"""Campaigns: each run once, kept as soon as it is made, whatever happens to the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reprise.lab import campaign as campaigns
from reprise.lab.audits import AuditRun
from reprise.lab.campaign import Campaign, StudyFailed
from reprise.lab.records import Damaged, Record, check, execute, identity
from reprise.lab.study import Study

RUN = AuditRun("rpr", classes=6, steps=30, buffer=12, replay=2, seed=1)
SLOW = """
import sys, time
from pathlib import Path
from reprise.lab.study import Column, Cell, Study
from reprise.lab import campaign as campaigns

execute = campaigns.execute
campaigns.execute = lambda run: (time.sleep(0.1), execute(run))[1]
setting = Cell("C=6 b=2", classes=6, steps=30, buffer=12, replay=2)
study = Study("tiny", "", "", (setting,), (), ("iid", "rpr"), (Column("mean"), Column("max")))
campaigns.Campaign.in_folder(study, Path(sys.argv[1]), seeds=2, error_seeds=5).run(jobs=1)
"""


def figures(records: list[Record]) -> list[object]:
    """What a record says of a run, without when and where it was made."""
    return [[one["identity"], one["tape"], one["audit"]] for one in records]


def test_every_run_is_made_once(campaign: Campaign, made: list[tuple[str, int]]) -> None:
    done: list[int] = []
    records = campaign.run(jobs=1, progress=done.append)
    assert sorted(made) == [(arm, seed) for arm in ("iid", "rpr") for seed in range(5)]
    assert done == list(range(1, 11))
    made.clear()
    assert campaign.run(jobs=1) == records
    assert made == []


def test_records_say_what_a_run_was_and_found(campaign: Campaign) -> None:
    records = campaign.run(jobs=1)
    file = json.loads(campaign.file.read_text())
    assert {key: file[key] for key in ("study", "small", "seeds", "error_seeds")} == {
        "study": "tiny",
        "small": False,
        "seeds": 2,
        "error_seeds": 5,
    }
    assert file["records"] == records
    run, record = campaign.runs[3], records[3]
    audit = run.run()
    assert record["seed"] == run.seed
    assert record["tape"] == run.tape().hash
    assert {key: record["audit"][key] for key in audit.to_dict()} == audit.to_dict()
    assert record["audit"]["gap_sd"] == pytest.approx(float(audit.gaps.std()))
    assert Campaign.load(campaign.study, campaign.folder.parent) == (campaign, records)


def test_more_seeds_make_only_the_new_runs(campaign: Campaign, made: list[tuple[str, int]]) -> None:
    campaign.run(jobs=1)
    made.clear()
    replace(campaign, error_seeds=6).run(jobs=1)
    assert made == [("iid", 5), ("rpr", 5)]


def test_many_processes_give_the_same_records(campaign: Campaign, tmp_path: Path) -> None:
    alone = campaign.run(jobs=1)
    together = replace(campaign, folder=tmp_path / "elsewhere").run(jobs=2)
    assert figures(together) == figures(alone)


def test_a_killed_campaign_goes_on_where_it_stopped(campaign: Campaign, made: list[tuple[str, int]]) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(campaign.folder.parent)])
    try:
        runs = campaign.folder / "runs"
        deadline = time.monotonic() + 60
        while not runs.is_dir() or len(list(runs.glob("*.json"))) < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    kept = len(list(runs.glob("*.json")))
    assert 3 <= kept < 10
    assert not campaign.file.exists()
    with pytest.raises(ValueError, match=r"records\.json, so the study is not finished: `reprise study run tiny --out"):
        Campaign.load(campaign.study, campaign.folder.parent)

    records = campaign.run(jobs=1)
    assert len(made) == 10 - kept
    assert figures(records) == figures([execute(run) for run in campaign.runs])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[: len(text) // 2], "it is not JSON"),
        (lambda text: b"", "it is not JSON"),
        (lambda text: b"[]", "it is not a JSON object"),
        (lambda text: b"\xff" + text[1:], "it is not JSON"),
        (lambda text: text.replace(b'"steps": 30', b'"steps": 31', 1), "does not match its checksum"),
        (lambda text: text.replace(b"reprise-record/1", b"reprise-record/0"), "its format is 'reprise-record/0'"),
    ],
)
def test_a_damaged_record_is_named_and_made_again(
    campaign: Campaign, made: list[tuple[str, int]], change: object, reason: str
) -> None:
    records = campaign.run(jobs=1)
    made.clear()
    path = campaign.record_file(campaign.runs[2])
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    said: list[str] = []
    again = campaign.run(jobs=1, warn=said.append)
    assert made == [(campaign.runs[2].retrieval, campaign.runs[2].seed)]
    assert figures(again) == figures(records)
    (sentence,) = said
    assert str(path) in sentence
    assert reason in sentence
    assert sentence.endswith("Its run is made again.")


def test_a_record_of_another_run_is_not_taken_for_this_one(campaign: Campaign, made: list[tuple[str, int]]) -> None:
    campaign.run(jobs=1)
    made.clear()
    first, second = (campaign.record_file(run) for run in campaign.runs[:2])
    first.write_bytes(second.read_bytes())
    said: list[str] = []
    campaign.run(jobs=1, warn=said.append)
    assert made == [("iid", 0)]
    assert "it is of another run" in said[0]


def test_damaged_file_of_all_records_is_named_and_gathered_anew(
    campaign: Campaign, made: list[tuple[str, int]]
) -> None:
    records = campaign.run(jobs=1)
    out = campaign.folder.parent
    for text in ("{}", "[", "3", '{"seeds": 2, "error_seeds": 5, "records": []}', '{"seeds": 0, "error_seeds": "x"}'):
        campaign.file.write_text(text)
        with pytest.raises(ValueError, match=r"records\.json is damaged: .*`reprise study run tiny --out"):
            Campaign.load(campaign.study, out)
    made.clear()
    campaign.run(jobs=1)
    assert made == []
    assert Campaign.load(campaign.study, out)[1] == records


def test_a_failed_run_is_named_and_the_others_are_kept(
    tiny: Study, tmp_path: Path, made: list[tuple[str, int]]
) -> None:
    study = replace(tiny, arms=("mir:4", "rpr"))  # which needs a score that no label-only run has
    campaign = Campaign.in_folder(study, tmp_path, seeds=2, error_seeds=3)
    with pytest.raises(
        StudyFailed, match=r"3 of 6 runs of study 'tiny' failed; the first, mir:4 on still-6 with seed 0"
    ):
        campaign.run(jobs=1)
    assert sum(arm == "rpr" for arm, _ in made) == 3
    assert len(list((campaign.folder / "runs").iterdir())) == 3
    assert not campaign.file.exists()
    made.clear()
    replace(campaign, study=tiny, error_seeds=3).run(jobs=1)
    assert {arm for arm, _ in made} == {"iid"}


def test_a_file_that_cannot_be_written_leaves_no_part(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprise.core.files.os.replace", full)
    with pytest.raises(StudyFailed, match=r"cannot be written: No space left on device"):
        campaign.run(jobs=1)
    assert list((campaign.folder / "runs").iterdir()) == []


def test_small_form_has_its_own_settings_seeds_and_folder(tiny: Study, tmp_path: Path) -> None:
    full, small = Campaign.in_folder(tiny, tmp_path), Campaign.in_folder(tiny, tmp_path, small=True)
    assert (full.seeds, full.error_seeds, full.folder.name) == (10, 40, "tiny")
    assert (small.seeds, small.error_seeds, small.folder.name) == (3, 8, "tiny-small")
    assert {run.classes for run in small.runs} == {4}
    assert len(full.runs) == 80


@pytest.mark.parametrize(("seeds", "error_seeds"), [(0, 40), (10, 1), (10, 0)])
def test_too_few_seeds_are_an_error(tiny: Study, seeds: int, error_seeds: int) -> None:
    with pytest.raises(ValueError, match=r"seeds must be [12] or more, got [01]"):
        Campaign(tiny, Path("unused"), seeds, error_seeds)


def test_identity_is_of_all_that_decides_a_run() -> None:
    changes = {"retrieval": "iid", "storage": "fifo", "steps": 31, "buffer": 18, "replay": 3, "draws": 2, "seed": 2}
    others = [replace(RUN, **{name: value}) for name, value in changes.items()]  # type: ignore[arg-type]
    assert len({identity(run) for run in (RUN, *others)}) == 1 + len(others)
    # What a run would take by itself, and the same said in so many words, is one run.
    unsaid = AuditRun("rpr", stream="cifar100-lt10")
    assert identity(unsaid) == identity(replace(unsaid, buffer=5120))


def test_identity_stays_the_same() -> None:
    assert identity(RUN) == "360803405f94fcb99e92005e"


def test_check_refuses_what_is_not_a_record() -> None:
    with pytest.raises(Damaged):
        check({**execute(RUN), "seed": 2}, RUN)
    with pytest.raises(Damaged):
        check(None, RUN)


def test_an_interrupt_is_not_a_failed_run(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(run: AuditRun) -> Record:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "execute", stopped)
    with pytest.raises(KeyboardInterrupt):
        campaign.run(jobs=1)
