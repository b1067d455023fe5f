"""`reprise study verify`: what it says of a store, and its exit status."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch")

from processes import FATAL

from reprise.cli import main
from reprise.core import plugins, registry
from reprise.core.record_file import seal
from reprise.execute.one import audit
from reprise.lab import run_all
from reprise.runs import Run, Store

SMALL = ["--small", "--seeds", "1", "--error-seeds", "2", "--jobs", "1"]
Verified = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two campaigns of six runs each, and two runs that none asks for."""
    folder = tmp_path_factory.mktemp("made") / "out"
    for name in ("gaps", "dyngaps"):
        assert main(["study", "run", name, "--out", str(folder), *SMALL]) == 0
    runs = [Run.of(learner=None, classes=6, steps=30, replay=2, seed=seed) for seed in range(2)]
    assert all(outcome.record for outcome in run_all(runs, out=folder, jobs=1))
    return folder


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made, tmp_path / "out"))


@pytest.fixture
def verified(capsys: pytest.CaptureFixture[str]) -> Verified:
    def run(*words: object) -> tuple[int, str, str]:
        status = main(["study", "verify", *map(str, words)])
        out, err = capsys.readouterr()
        return status, re.sub(r" \(\d+ s\)", "", out), err

    return run


def change(store: Store, name: str, **changes: Any) -> str:
    """Change the first record whose name begins so, and seal it again; its identity."""
    record = next(one for one in store.records() if one["name"].startswith(name))
    store.put(seal({**record, **changes, "run": {**record["run"], **changes.get("run", {})}}))
    return str(record["identity"])


def test_all_is_every_run_of_the_store(store: Store, verified: Verified) -> None:
    assert verified("all", "--out", store.folder, "--jobs", 1) == (0, "14 of 14 tapes are as recorded.\n", "")
    assert verified("all", "--out", store.folder, "--jobs", 2) == (0, "14 of 14 tapes are as recorded.\n", "")
    assert verified("gaps-small", "--out", store.folder, "--jobs", 1)[1] == "6 of 6 tapes are as recorded.\n"
    names = "gaps-small, dyngaps-small,gaps-small"
    assert verified(names, "--out", store.folder, "--jobs", 1)[1] == "12 of 12 tapes are as recorded.\n"


def test_a_packed_store_is_verified(store: Store, tmp_path: Path, verified: Verified) -> None:
    assert main(["study", "pack", "--out", str(store.folder), "--into", str(tmp_path / "into")]) == 0
    verified("none", "--out", tmp_path)
    assert verified("all", "--out", tmp_path / "into", "--jobs", 1)[:2] == (0, "14 of 14 tapes are as recorded.\n")


@pytest.mark.parametrize(
    ("changes", "jobs"), [({"run": {"seed": 7}}, 1), ({"tape": "0" * 64}, 2)], ids=["another seed", "another hash"]
)
def test_one_that_differs_is_named_and_the_status_is_1(
    store: Store, verified: Verified, changes: dict[str, Any], jobs: int
) -> None:
    identity = change(store, "20 classes that stay, reservoir 1000, rpr", **changes)
    status, out, err = verified("gaps-small", "--out", store.folder, "--jobs", jobs)
    assert (status, out) == (1, "5 of 6 tapes are as recorded.\n")
    assert err.splitlines() == [
        f"differs: {Store(store.folder).get(identity)['name']} ({identity})",  # type: ignore[index]
        "reprise: 1 tape is not as recorded; if labels of a data set lay in another order, give it by --data",
    ]
    assert verified("dyngaps-small", "--out", store.folder, "--jobs", 1)[0] == 0
    assert "if labels" not in verified("all", "--out", store.folder, "--data", store.folder, "--jobs", 1)[2]


def test_five_that_differ_are_named_and_the_others_counted(store: Store, verified: Verified) -> None:
    for path in sorted(store.folder.glob("records/*.json")):
        store.put(seal({**json.loads(path.read_bytes()), "tape": "0" * 64}))
    status, out, err = verified("all", "--out", store.folder, "--jobs", 1)
    assert (status, out) == (1, "0 of 14 tapes are as recorded.\n")
    assert err.count("differs: ") == 5
    assert "\nand 9 more\nreprise: 14 tapes are not as recorded" in err


def test_what_cannot_be_planned_is_said_and_is_a_failure(store: Store, verified: Verified) -> None:
    memory = {"storage": "reservoir", "retrieval": "theirs", "buffer": 300, "replay": 2, "draws": 1}
    change(store, "6 classes that stay", run={"memory": memory})
    status, out, err = verified("all", "--out", store.folder, "--jobs", 1)
    assert (status, err) == (1, "reprise: 1 tape was not verified, as said above\n")
    assert out.splitlines()[0] == "13 of 14 tapes are as recorded."
    assert out.splitlines()[1].startswith("1 could not be planned: unknown retrieval 'theirs'")


def test_a_missing_and_a_damaged_record_are_said(store: Store, verified: Verified) -> None:
    file = json.loads((store.folder / "campaigns" / "gaps-small.json").read_bytes())
    identities = [one[3] for one in file["runs"]]
    store.record_file(identities[0]).unlink()
    assert verified("gaps-small", "--out", store.folder, "--jobs", 1)[:2] == (
        1,
        "5 of 5 tapes are as recorded.\n1 record is missing.\n",
    )
    store.record_file(identities[1]).write_text("{}")
    status, out, err = verified("gaps-small", "--out", store.folder, "--jobs", 1)
    assert (status, out) == (1, "4 of 4 tapes are as recorded.\n2 records are missing.\n")
    assert f"The record {store.record_file(identities[1])} is damaged" in err


def test_a_process_that_is_killed_is_a_failure(store: Store, tmp_path: Path, verified: Verified) -> None:
    (tmp_path / "fatal.py").write_text(FATAL)
    assert main(["data", "list", "--import", str(tmp_path / "fatal.py")]) == 0
    verified("none", "--out", tmp_path)
    record = audit(Run.of(learner=None, classes=6, steps=30, replay=2, retrieval="fatal"))
    store.put(record)
    status, out, err = verified("all", "--out", store.folder, "--jobs", 2)
    assert status == 1
    assert out.splitlines()[0] == "14 of 15 tapes are as recorded."
    assert out.splitlines()[1].startswith("1 could not be planned: its process ended with status -9")
    assert err == "reprise: 1 tape was not verified, as said above\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gaps", "--out", "{}"], "holds no campaign 'gaps'; it holds dyngaps-small, gaps-small"),
        (["gaps-small,", "--out", "{}"], "several studies are named with single commas between them"),
        (["all", "--out", "{}", "--jobs", "0"], "jobs must be 1 or more, got 0"),
        (["all", "--out", "{}", "--data", "{}/none"], "--data: there is no folder"),
        (["all", "--out", "{}/none"], "none' holds no record of a run"),
        (["gaps", "--out", "{}/none"], "none' holds no campaign; `reprise study run` makes one"),
        (["--out", "{}"], "reprise study verify needs NAME,...|all"),
    ],
)
def test_what_cannot_be_done_is_said(made: Path, words: list[str], sentence: str, verified: Verified) -> None:
    status, out, err = verified(*(word.format(made) for word in words))
    assert (status, out) == (2, "")
    assert sentence in err


def test_a_setting_that_no_tape_knows_is_found_by_the_identity(tmp_path: Path, verified: Verified) -> None:
    store = Store(tmp_path / "out")
    run = Run.of(width=1, per_class=2, test_per_class=1, tasks=2, batch=50, buffer=16, replay=2)
    assert all(outcome.record for outcome in run_all([run], out=store.folder, jobs=1))
    assert verified("all", "--out", store.folder, "--jobs", 1)[0] == 0
    (record,) = store.records()
    descent = {**record["run"]["descent"], "lr": 0.5}
    store.put(seal({**record, "run": {**record["run"], "descent": descent}}))
    status, out, err = verified("all", "--out", store.folder, "--jobs", 1)
    assert (status, out) == (1, "1 of 1 tapes are as recorded.\n")
    assert "1 record has another identity" in err
