"""`reprise audit`: the table, the JSON, and what they must agree with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import reprise
from reprise.audit import KEYS, longest_wait
from reprise.cli import main
from reprise.cli.tree import COMMANDS
from reprise.execute.one import audit
from reprise.runs import Run, Store

FIGURES = {"learner": None, "classes": 20, "steps": 100, "replay": 4}
HEAD = ["stream", "storage", "retrieval", "buffer", "replay", "seeds", "run"]
STILL = ["audit", "--classes", "20", "--steps", "100", "--replay", "4"]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """Run with `--json -` and read what came out."""
    assert main([*arguments, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: list[dict[str, Any]] = json.loads(out)
    return found


def words(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run and return what a person reads."""
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_json_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    rows = figures(capsys, "audit", "--stream", "cifar100-lt10", "--retrieval", "iid,rpr", "--seeds", "2")
    assert [row["retrieval"] for row in rows] == ["iid", "rpr"]
    for row in rows:
        assert list(row) == [*HEAD, *KEYS, "per_seed"]
        assert [list(one) for one in row["per_seed"]] == [["seed", *KEYS]] * 2
        assert [one["seed"] for one in row["per_seed"]] == [0, 1]
        assert (row["stream"], row["storage"], row["buffer"]) == ("cifar100-lt10", "reservoir", 5120)
        assert (row["replay"], row["seeds"], row["steps"]) == (8, 2, 640)
        for key in KEYS:
            assert row[key] == pytest.approx(mean(one[key] for one in row["per_seed"]), rel=1e-12)
    assert rows[0]["violations"] > 300
    assert rows[1]["violations"] == 0


def test_json_of_a_memory_that_stands_still(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = figures(capsys, *STILL, "--retrieval", "rpr")
    assert (row["stream"], row["buffer"], row["replay"], row["seeds"], row["steps"]) == ("still-20", 1000, 4, 1, 100)
    assert row["max"] <= 2 * 5 - 1
    assert row["exposure_min"] == row["exposure_max"] == 0.2


def test_figures_are_those_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = figures(capsys, "audit", "--stream", "cifar10-lt10", "--retrieval", "fixed", "--first-seed", "7")
    stream = reprise.streams.label_stream("cifar10-lt10", seed=7)
    tape = reprise.plan(stream, reprise.Memory(capacity=5120, retrieval="fixed", seed=7), replay=8)
    assert row["per_seed"] == [{"seed": 7, **reprise.audit.measure(tape).to_dict()}]


def test_lists_make_every_combination_and_specs_stay_as_typed(capsys: pytest.CaptureFixture[str]) -> None:
    lists = ["--retrieval", "reused:4, rpr+pass,reused:4", "--storage", "fifo,brs", "--buffer", "40,60", "--seeds", "2"]
    rows = figures(capsys, *STILL, *lists, "--first-seed", "3")
    assert [(row["storage"], row["buffer"], row["retrieval"]) for row in rows] == [
        (storage, buffer, retrieval)
        for storage in ("fifo", "brs")
        for buffer in (40, 60)
        for retrieval in ("reused:4", "rpr+pass")
    ]
    assert all([one["seed"] for one in row["per_seed"]] == [3, 4] for row in rows)


def test_nothing_measured_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = figures(capsys, "audit", "--classes", "1", "--steps", "1", "--retrieval", "rpr")
    assert row["mean"] is row["max"] is row["pair_entropy"] is None


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_jobs_do_not_change_figures(capsys: pytest.CaptureFixture[str], jobs: str) -> None:
    rows = figures(capsys, *STILL, "--retrieval", "iid", "--seeds", "9", "--jobs", jobs)
    assert [one["max"] for one in rows[0]["per_seed"]] == [
        audit(Run.of(**FIGURES, retrieval="iid", seed=seed))["audit"]["max"] for seed in range(9)
    ]


def test_records_are_kept_and_what_has_one_is_not_audited_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = [*STILL, "--retrieval", "iid,rpr", "--out", str(tmp_path / "new" / "store")]
    first = words(capsys, *line, "--seeds", "2")
    store = Store(tmp_path / "new" / "store")
    kept = {record["identity"]: record for record in store.records(pytest.fail)}
    runs = [Run.of(**FIGURES, retrieval=name, seed=seed) for name in ("iid", "rpr") for seed in (0, 1)]
    assert set(kept) == {run.identity({}) for run in runs}
    assert [kept[run.identity({})]["run"] for run in runs] == [run.to_dict() for run in runs]
    assert (store.folder / "index.md").exists()

    made: list[int] = []
    monkeypatch.setattr("reprise.execute.one.audit", lambda run: made.append(run.seed) or audit(run))
    assert words(capsys, *line, "--seeds", "2") == first
    assert made == []
    words(capsys, *line, "--seeds", "1,2")
    assert made == [2, 2]
    damaged = store.record_file(runs[0].identity({}))
    damaged.write_text("{", encoding="utf-8")
    assert main([*line, "--seeds", "2"]) == 0
    out, err = capsys.readouterr()
    assert out == first
    assert err.startswith(f"The record {damaged} is damaged")


@pytest.mark.parametrize(
    ("seeds", "found"), [("3", [0, 1, 2]), ("0-3", [0, 1, 2, 3]), ("0,2", [0, 2]), ("5-6, 1,5", [5, 6, 1])]
)
def test_seeds_are_counted_or_named(seeds: str, found: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = figures(capsys, *STILL, "--retrieval", "rpr", "--seeds", seeds)
    assert [one["seed"] for one in row["per_seed"]] == found


def test_json_goes_into_a_file_and_the_table_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    out = words(capsys, *STILL, "--retrieval", "iid", "--json", str(link))
    assert "iid" in out
    assert str(link) in out
    assert link.is_symlink()
    assert json.loads(real.read_text(encoding="utf-8"))[0]["retrieval"] == "iid"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_table_is_one_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    out = words(capsys, *STILL, "--retrieval", "uniform,iid,fixed,rpr", "--seeds", "3")
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0].startswith("20 classes that stay · reservoir of 1,000 · 100 steps · 4 replayed a step · ")
    assert lines[0].endswith(" · means over seeds 0 to 2")
    (head,) = (line.split() for line in lines if line.startswith("retrieval"))
    assert " ".join(head) == (
        "retrieval mean p50 p95 p99 max first open cut never bound violations coverage entropy exposure"
    )
    rows = {line.split()[0]: line.split()[1:] for line in lines[4:8]}
    assert list(rows) == ["uniform", "iid", "fixed", "rpr"]
    gaps, waits = ["5.00", "5.0", "5.0", "5.0", "5.0"], ["5.0", "4", "0", "0", "5"]
    assert rows["fixed"] == [*gaps, *waits, "0", "0.158", "0.648", "0.200–0.200"]
    assert [rows[name][9] for name in rows] == ["—", "—", "5", "9"]
    assert max(map(len, lines)) <= 120


def test_table_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = words(capsys, *STILL, "--retrieval", "iid,frozen-pass", "--seeds", "3", "--storage", "reservoir,cbrs")
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    for head in ("p99", "never", "bound", "exposure"):
        assert head in out


def test_deactivations_are_told_once_where_all_rows_agree(capsys: pytest.CaptureFixture[str]) -> None:
    stream = ["audit", "--stream", "cifar100-lt10", "--first-seed", "1", "--retrieval", "fixed,rpr"]
    assert words(capsys, *stream).splitlines()[0].endswith(" · seed 1 · 1 deactivation")
    out = words(capsys, *stream, "--storage", "reservoir,cbrs")
    assert "deactivation" not in out.splitlines()[0]
    assert " deactivations " in out
    assert max(map(len, out.splitlines())) <= 120


def test_tails_of_several_seeds_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    tails = ["--retrieval", "rpr", "--imbalance-seed", "1,2"]
    rows = figures(capsys, "audit", "--stream", "cifar100-lt10", *tails)
    assert [row["run"]["stream"]["imbalance_seed"] for row in rows] == [1, 2]
    out = words(capsys, "audit", "--stream", "cifar100-lt10", *tails)
    assert "cifar100-lt10, reservoir of 5,120, imbalance seed 2." in out
    assert main(["audit", "--stream", "cifar100-lt10,cifar100-balanced", *tails]) == 2
    assert "a balanced stream has none, got 1" in capsys.readouterr().err


def test_table_and_sentences_tell_of_waits_that_never_ended(capsys: pytest.CaptureFixture[str]) -> None:
    out = words(capsys, "audit", "--stream", "cifar100-lt10", "--first-seed", "1", "--retrieval", "uniform,rpr")
    (row,) = (line.split() for line in out.splitlines() if line.startswith("uniform"))
    assert row[5:10] == ["129", "186", "267", "4", "2"]
    said = " ".join(out.split())
    assert "the longest wait, ended or not, was 267 under uniform (no bound) and 24 under rpr (bound 25)." in said
    assert "A run had 486 gaps and 114 other waits past that bound under uniform, none under rpr." in said


def test_reading_says_longest_waits_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(words(capsys, *STILL, "--retrieval", "iid,rpr", "--seeds", "2").split())
    runs = [Run.of(**FIGURES, retrieval="iid", seed=seed) for seed in (0, 1)]
    longest = max(longest_wait(audit(run)["audit"]) or 0 for run in runs)
    said = "the longest wait in any of 2 runs, ended or not, was"
    assert f"{said} {longest} under iid (no bound) and 9 under rpr (bound 9)." in out
    assert "past that bound under iid, none under rpr." in out


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "reprise", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, encoding="utf-8")


def test_command_of_its_own() -> None:
    done = run(*STILL, "--retrieval", "iid,rpr", "--seeds", "9", "--jobs", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "rpr" in done.stdout


def test_errors_of_a_command_of_its_own() -> None:
    done = run(*STILL, "--retrieval", "rrp")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("reprise: unknown retrieval 'rrp'")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "reprise", *STILL, "--retrieval", "rpr"]
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=buffered
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_help_is_quick() -> None:
    def seconds() -> float:
        """Of the processor, not of the clock: other work on this machine does not count."""
        start = os.times()
        assert run("--help").returncode == 0
        end = os.times()
        return end.children_user + end.children_system - start.children_user - start.children_system

    assert min(seconds() for _ in range(2)) < 1.0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert words(capsys, "--version") == f"reprise {reprise.__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["", "audit", "config", "demo", "study", *(" ".join(words) for words in COMMANDS if words[0] in ("study", "runs"))],
)
def test_every_help_shows_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    out = words(capsys, *command.split(), "--help")
    assert out.startswith(f"usage: reprise {command}".rstrip())
    assert "Example" in out
    assert "reprise " + (command or "audit") in out.split("Example", 1)[1]
