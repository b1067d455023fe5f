"""`reprise train` with several values: every combination, side by side, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch")

from cli.pictures import command
from lab.tinystudies import result

from reprise.cli import main
from reprise.lab.time_limit import TimeLimit
from reprise.runs import Store
from reprise.runs.images import Images
from reprise.runs.run import Run
from reprise.train import train

pytestmark = pytest.mark.usefixtures("alone")
NAMES = [
    f"er-ace on pictures-balanced, reservoir 8, {name} 2, seed {seed}" for name in ("iid", "rpr") for seed in (0, 1)
]


def test_four_runs_side_by_side(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In processes of their own, to the records that each would have alone."""
    store, target = Store(tmp_path / "runs"), tmp_path / "figures.json"
    line = command(pictures, "--retrieval", "iid,rpr", "--seeds", "0-1", "--out", str(store.folder), "--jobs", "2")
    assert main([*line, "--json", str(target)]) == 0
    out, err = capsys.readouterr()
    records = {record["name"]: record for record in store.records(pytest.fail)}
    assert sorted(records) == NAMES
    assert [*store.folder.glob("claims/*"), *store.folder.glob("unfinished/*"), *store.folder.rglob(".*")] == []
    index = (store.folder / "index.md").read_text(encoding="utf-8")
    assert all(f"| {name} | {record['identity']} | ema " in index for name, record in records.items())
    rows = json.loads(target.read_text(encoding="utf-8"))
    assert [row["per_seed"][0]["identity"] for row in rows] == [records[name]["identity"] for name in NAMES]
    assert out.splitlines()[-2:] == [f"Figures: {target}", f"Store: {store.folder}"]
    assert err.splitlines()[0] == "4 runs on cpu"
    assert err.splitlines()[-1].startswith("4 of 4 runs · ")
    run = Run.from_dict(records[NAMES[3]]["run"])
    assert result(records[NAMES[3]]) == result(train(run, Images.load(run)))


def test_only_what_is_missing_is_trained(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    assert main(command(pictures, "--out", str(tmp_path), "--seed", "1", "--retrieval", "iid")) == 0
    (alone,) = (tmp_path / "records").iterdir()
    stamp = alone.stat().st_mtime_ns
    line = command(pictures, "--retrieval", "iid,rpr", "--seeds", "0-1", "--out", str(tmp_path), "--jobs", "1")
    capsys.readouterr()
    assert main(line) == 0
    table = capsys.readouterr().out
    assert alone.stat().st_mtime_ns == stamp
    assert sorted(record["name"] for record in store.records(pytest.fail)) == NAMES
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert main(line) == 0
    assert capsys.readouterr().out == table
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()} == stamps


def test_a_run_that_fails_is_named_and_the_others_are_kept(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = command(pictures, "--lr", "0.01,1e30", "--jobs", "1", "--out", str(tmp_path))
    assert main(line) == 1
    out, err = capsys.readouterr()
    (record,) = Store(tmp_path).records(pytest.fail)
    assert record["run"]["descent"]["lr"] == 0.01
    name = "er-ace on pictures-balanced, reservoir 8, rpr 2, seed 0"
    (said,) = (line for line in err.splitlines() if " failed: " in line)
    assert said.startswith(f"{name} failed: the loss of step ")
    assert "2 of 2 runs, 1 failed" in err
    assert "still to be made" not in err
    assert out.splitlines()[-1] == f"Record: {Store(tmp_path).record_file(record['identity'])}"


def test_runs_that_would_not_end_in_time_are_left(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeLimit, "allows", lambda _, run: run.seed == 0)
    line = command(pictures, "--retrieval", "iid,rpr", "--seeds", "0-1", "--jobs", "1", "--time-limit", "15m")
    assert main([*line, "--out", str(tmp_path)]) == 1
    assert "2 of 4 runs are still to be made; the same command goes on with the rest" in capsys.readouterr().err
    assert sorted(record["name"] for record in Store(tmp_path).records(pytest.fail)) == [NAMES[0], NAMES[2]]


def test_a_time_limit_is_for_several_runs(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(pictures, "--time-limit", "15m")) == 2
    assert "--time-limit is for several runs: one that is begun is ended" in capsys.readouterr().err


def test_without_a_store_nothing_is_kept_and_said_so(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command(pictures, "--seeds", "2", "--jobs", "1", "--json", "-")) == 0
    out, err = capsys.readouterr()
    assert [row["per_seed"][0]["seed"] for row in json.loads(out)] == [0, 1]
    assert "nothing of this is kept but what is printed: --out DIR keeps it" in err
    assert [path.name for path in tmp_path.iterdir() if path.name != "user-cache"] == []


def test_processes_of_torchrun_share_one_run(
    pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(command(pictures, "--seeds", "2")) == 2
    said = "processes that torchrun began share one run, got 2; without torchrun all can be made"
    assert said in capsys.readouterr().err
