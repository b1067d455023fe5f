"""`reprise demo`: a page at the end, pairs that are pairs, and no run made twice."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from reprise.cli import demo, main
from reprise.cli.progress import Pace
from reprise.core.files import sole_use
from reprise.train import TrainRun

TINY = {"width": 1, "per_class": 1, "test_per_class": 1, "tasks": 2}  # ten steps


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SETTING", {**demo.SETTING, **TINY})


def said(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("[")]


@pytest.mark.usefixtures("tiny")
def test_demo_ends_in_a_page_and_goes_on_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "demo"
    assert main(["demo", "--out", str(out), "--seeds", "2"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("4 runs on glyphs: iid and rpr, 2 seeds each.\n")
    assert [line[:7] for line in first.splitlines() if line.startswith("[")] == [f"[ {n}/4] " for n in (1, 2, 3, 4)]
    assert "Over 2 pairs of runs" in first
    assert first.endswith(f"Open this page in a browser: {out / 'demo.html'}\n")
    page = (out / "demo.html").read_text(encoding="utf-8")
    assert all(f"seed {seed}</th>" in page for seed in (0, 1))
    assert " seconds with" in page
    assert (out / "demo.png").read_bytes()[:4] == b"\x89PNG"

    records = sorted((out / "runs").glob("*/record.json"))
    assert [path.parent.name.rsplit("-", 1)[0] for path in records] == ["iid-0", "iid-1", "rpr-0", "rpr-1"]
    for seed in (0, 1):
        base, arm = (json.loads(path.read_text()) for path in records[seed::2])
        assert base["seed"] == arm["seed"] == seed
        assert base["tape"] != arm["tape"]

    kept = {path: path.stat().st_mtime_ns for path in records[:3]}
    content = json.loads(records[3].read_text())
    records[3].unlink()
    assert main(["demo", "--out", str(out), "--seeds", "2"]) == 0
    second = capsys.readouterr().out
    assert second.count("kept from before") == 3
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    again = json.loads(records[3].read_text())
    assert again["metrics"] == content["metrics"]
    assert said(second) == said(first)
    with monkeypatch.context() as patch:
        patch.setattr(demo, "Pool", lambda *_: pytest.fail("processes were started"))
        assert main(["demo", "--out", str(out), "--seeds", "2"]) == 0
    assert capsys.readouterr().out.count("kept from before") == 4
    assert " seconds with" not in (out / "demo.html").read_text(encoding="utf-8")  # this time is not the demo's


def test_runs_come_in_pairs_that_differ_in_retrieval_alone() -> None:
    runs = demo.Demo(seeds=3)._runs()
    assert [(run.retrieval, run.seed) for run in runs] == [(name, seed) for seed in range(3) for name in ("iid", "rpr")]
    for base, arm in zip(runs[::2], runs[1::2], strict=True):
        assert replace(base, retrieval="rpr") == arm
    assert len({demo._place(Path(), run, {}) for run in runs}) == 6


def test_standing_is_told_from_the_runs_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(demo, "Pace", partial(Pace, clock=lambda: now[0]))
    standing = demo._Standing(12, done=2)
    assert standing.line == "2 of 12 runs"
    standing.hear(("a", 30, 600))
    now[0] = 10.0
    standing.hear(("b", 270, 600))
    standing.hear(("a", 330, 600))
    assert standing.line == "2 of 12 runs, steps 600 of 6,000, 1 min 35 s left"


def test_a_second_demo_in_one_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sole_use(tmp_path):
        assert main(["demo", "--out", str(tmp_path)]) == 2
    assert f"is at work in '{tmp_path}'" in capsys.readouterr().err


def test_other_settings_and_images_never_meet_the_same_records() -> None:
    run = TrainRun(**demo.SETTING, retrieval="rpr")
    different = [(run, "ab12"), (replace(run, width=9), "ab12"), (run, "ab13")]
    assert len({demo._place(Path(), one, {"train": data}) for one, data in different}) == 3


def test_run_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "SETTING", {**demo.SETTING, **TINY, "lr": 1e30})
    assert main(["demo", "--out", str(tmp_path), "--seeds", "2"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("reprise: a run failed: the loss of step ")
    assert "a smaller learning rate than 1e+30" in error
    assert not (tmp_path / "demo.html").exists()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("--seeds 1", "--seeds must be 2 or more, got 1: an interval needs two pairs"),
        ("--seeds 0", "--seeds must be 2 or more, got 0"),
        ("--out file", "--out: cannot make the folder 'file'"),
    ],
)
def test_wrong_requests(
    asked: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["demo", *asked.split()]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("module", "extra"), demo.NEEDED.items())
def test_what_is_not_installed_is_named(
    module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = demo.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == module else found(name))
    assert main(["demo", "--out", str(tmp_path)]) == 2
    expected = f"demo needs {module}, which is not installed; the extra '{extra}' brings it: pip install '.[{extra}]'"
    assert expected in capsys.readouterr().err
