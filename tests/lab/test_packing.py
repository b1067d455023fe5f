"""A store that is packed: all of its records, each once, and never fewer than were packed before."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lab.tinystudies import STUDY, Counted, audits
from records import audit_record, record

from reprise.core.files import Record
from reprise.core.record_file import seal
from reprise.execute import Here
from reprise.lab import StudyPlan, run_all
from reprise.lab.campaign import campaign
from reprise.lab.campaign_file import CampaignFile, campaign_files, read_campaign
from reprise.lab.packing import OTHERS, PackedFile, pack_store
from reprise.lab.status import status
from reprise.runs import Store
from reprise.runs.packed import FOLDER

OUT = os.path.abspath("somewhere/out")
PLAN, SMALL = StudyPlan(STUDY, 2, 3), StudyPlan(STUDY, 2, 2, small=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two campaigns, and two runs that none asks for."""
    monkeypatch.setattr(sys, "argv", ["reprise", "study", "run", "mine.py", "--out", OUT])
    found = Store(tmp_path / "out")
    for plan in (PLAN, SMALL):
        plan.execute(found, Here())
    found.put(record("rpr", 0))
    found.put(record("rpr", 1))
    return found


def packed(store: Store, into: Path, warn: object = pytest.fail) -> list[PackedFile]:
    campaigns = [read_campaign(path) for path in campaign_files(store)]
    return pack_store(store, Store(into), [one for one in campaigns if one is not None], warn)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected(one: Record) -> Record:
    left_out = () if one["run"]["seed"] == 0 else ("curves", "pairs")
    command = [os.path.basename(word) if os.path.isabs(word) else word for word in one["provenance"]["command"]]
    one = {**one, "provenance": {**one["provenance"], "command": command}}
    return seal({part: value for part, value in one.items() if part not in left_out})


def by_identity(store: Store) -> dict[str, Record]:
    return {one["identity"]: one for one in store.records(pytest.fail)}


def test_every_record_is_packed_once(store: Store, tmp_path: Path) -> None:
    files = packed(store, tmp_path / "into")
    assert [(one.name, one.runs, one.written, one.missing) for one in files] == [
        ("tiny-small", 4, 4, 0),
        ("tiny", 6, 6, 0),
        (OTHERS, 2, 2, 0),
    ]
    into = Store(tmp_path / "into")
    assert by_identity(into) == {name: expected(one) for name, one in by_identity(store).items()}
    assert into.ended().keys() == store.ended().keys()
    assert {path.name for path in into.folder.iterdir()} == {"campaigns", FOLDER}
    for path in campaign_files(store):
        given, kept = read_campaign(path), read_campaign(into.folder / "campaigns" / path.name)
        assert given is not None
        assert kept == replace(given, command=(*given.command[:-1], "out"))


def test_where_folders_lay_is_not_packed(store: Store, tmp_path: Path) -> None:
    assert {one["provenance"]["command"][-1] for one in store.records() if one["name"].startswith("4 classes")} == {OUT}
    packed(store, tmp_path / "into")
    into = Store(tmp_path / "into")
    commands = [one["provenance"]["command"] for one in into.records()]
    commands += [list(found.command) for path in campaign_files(into) if (found := read_campaign(path))]
    assert ["reprise", "study", "run", "mine.py", "--out", "out"] in commands
    assert not [word for words in commands for word in words if os.path.isabs(word)]


def test_runs_that_a_campaign_asks_for_by_now_are_in_its_file_alone(store: Store, tmp_path: Path) -> None:
    """And the file of runs that none asked for, which held them, is gone."""
    file = read_campaign(next(path for path in campaign_files(store) if path.stem == "tiny"))
    assert file is not None
    pack_store(store, Store(tmp_path / "into"), [], pytest.fail)
    all_runs = tuple((("cell", "arm", place), identity) for place, identity in enumerate(store.ended()))
    pack_store(store, Store(tmp_path / "into"), [replace(file, name="one", runs=all_runs)], pytest.fail)
    assert [path.name for path in (tmp_path / "into" / FOLDER).iterdir()] == ["one.parquet"]


def test_runs_that_campaigns_share_are_in_the_first(store: Store, tmp_path: Path) -> None:
    """And one that nobody has is missing from both."""
    file = read_campaign(next(path for path in campaign_files(store) if path.stem == "tiny"))
    assert file is not None
    gone = file.runs[0][1]
    store.record_file(gone).unlink()
    unknown = (("C=6 b=2", "iid", 9), "")  # its data could not be read
    one, two = replace(file, name="one"), replace(file, name="two", runs=(*file.runs, unknown, unknown))
    files = pack_store(store, Store(tmp_path / "into"), [one, two], pytest.fail)
    assert [(each.name, each.runs, each.written, each.missing) for each in files[:2]] == [
        ("one", 6, 5, 1),
        ("two", 8, 0, 3),
    ]
    assert sorted(path.name for path in (tmp_path / "into" / FOLDER).iterdir()) == ["one.parquet", "others.parquet"]
    assert by_identity(Store(tmp_path / "into")).keys() == by_identity(store).keys()


def test_packing_again_changes_no_byte_from_either_store(store: Store, tmp_path: Path) -> None:
    packed(store, tmp_path / "into")
    before = contents(tmp_path / "into")
    packed(store, tmp_path / "into")
    assert contents(tmp_path / "into") == before
    packed(Store(tmp_path / "into"), tmp_path / "again")
    assert contents(tmp_path / "again") == before


def test_a_packed_record_is_made_a_file_of_its_own_again(store: Store, tmp_path: Path) -> None:
    packed(store, tmp_path / "into")
    again = Store(tmp_path / "again")
    for one in Store(tmp_path / "into").records():
        again.put(one)
    for one in store.records():
        path = again.record_file(one["identity"])
        if expected(one) == one:
            assert path.read_bytes() == store.record_file(one["identity"]).read_bytes()
        assert path.is_file()


def test_a_campaign_over_a_packed_store_makes_nothing_again(store: Store, tmp_path: Path) -> None:
    packed(store, tmp_path / "into")
    into, executor = Store(tmp_path / "into"), Counted()
    for plan in (PLAN, SMALL):
        plan.execute(into, executor, warn=pytest.fail)
        file = read_campaign(into.folder / "campaigns" / f"{plan.name}.json")
        assert file is not None
        found = status(into, file)
        assert (found.done, found.total, found.state) == (plan.count, plan.count, "done")
        assert found.rate is None  # nobody knows when they were made
    assert executor.made == executor.refused == []
    assert not (into.folder / "records").exists()
    more = StudyPlan(STUDY, 2, 4)  # a seed more: two runs are new
    more.execute(into, executor, warn=pytest.fail)
    assert len(executor.made) == 2
    assert len(list((into.folder / "records").iterdir())) == 2
    assert len(into.all_records(pytest.fail)) == 14
    assert (into.folder / "index.md").read_text().startswith("14 runs;")


def test_a_damaged_packed_run_is_made_again(store: Store, tmp_path: Path) -> None:
    packed(store, tmp_path / "into")
    path = tmp_path / "into" / FOLDER / "tiny.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    executor, said = Counted(), list[str]()
    PLAN.execute(Store(tmp_path / "into"), executor, warn=said.append)
    assert len(executor.made) == 6
    assert len(said) == 1
    assert f"The file {path} cannot be read" in said[0]
    assert by_identity(store).keys() == {one["identity"] for one in Store(tmp_path / "into").records(said.append)}


def test_no_packed_record_is_lost(store: Store, tmp_path: Path) -> None:
    """What the store lacks would be gone: nothing is written."""
    packed(store, tmp_path / "into")
    before = contents(tmp_path / "into")
    other = Store(tmp_path / "other")
    SMALL.execute(other, Here())
    with pytest.raises(ValueError, match=r"holds 8 records that .*other' does not have, or not whole: remove"):
        packed(other, tmp_path / "into")
    assert contents(tmp_path / "into") == before
    (path, *_) = (store.folder / "records").iterdir()
    path.write_text("{}")
    with pytest.raises(ValueError, match="holds 1 record that"):
        packed(store, tmp_path / "into", lambda sentence: None)
    assert contents(tmp_path / "into") == before
    (store.folder / FOLDER).mkdir()  # both at once
    for file in (tmp_path / "into" / FOLDER).iterdir():
        (store.folder / FOLDER / file.name).write_bytes(file.read_bytes())
    packed(Store(store.folder), tmp_path / "into", lambda sentence: None)
    assert {name: text for name, text in contents(tmp_path / "into").items() if "index" not in name} == before


def test_a_campaign_called_others_has_its_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    plan = StudyPlan(replace(STUDY, name=OTHERS), 1, 2)
    plan.execute(store, Here())
    store.put(audit_record())
    assert [one.name for one in packed(store, tmp_path / "into")] == ["others", "other runs"]
    assert len(by_identity(Store(tmp_path / "into"))) == 5


def test_a_store_without_campaigns_is_packed(tmp_path: Path) -> None:
    list(campaign(audits(3), Here(), Store(tmp_path / "out")))
    (one,) = packed(Store(tmp_path / "out"), tmp_path / "into")
    assert (one.name, one.written) == (OTHERS, 3)
    assert all(outcome.known for outcome in run_all(audits(3), out=tmp_path / "into"))


def test_a_file_of_a_campaign_that_is_another_s_is_damaged(store: Store) -> None:
    """Or a copy that somebody kept would take the place of the campaign itself."""
    folder = store.folder / "campaigns"
    (folder / "kept.json").write_bytes((folder / "tiny.json").read_bytes())
    with pytest.raises(ValueError, match=r"kept\.json is damaged: it is the file of the campaign 'tiny'"):
        read_campaign(folder / "kept.json")


def test_a_folder_that_cannot_be_written_to_is_said(store: Store, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / FOLDER).write_text("a file")
    with pytest.raises(ValueError, match="packed cannot be written to: "):
        packed(store, tmp_path / "into")


def test_what_is_damaged_is_told_of_once(store: Store, tmp_path: Path) -> None:
    files: list[CampaignFile] = [one for path in campaign_files(store) if (one := read_campaign(path)) is not None]
    for identity in (files[0].runs[0][1], record("rpr", 0)["identity"]):
        store.record_file(identity).write_text("{}")
    said: list[str] = []
    packed(store, tmp_path / "into", said.append)
    assert len(said) == 2
    assert len(by_identity(Store(tmp_path / "into"))) == 10
